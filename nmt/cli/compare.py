"""Compare runs, on a page that opens from the disk and in tables.

    python compare.py RUN_OR_SWEEP … [output=compare.html] [test=NAME] [evaluations=own] [baseline=RUN]
    python compare.py RUN_OR_SWEEP … serve=true [port=8000]

Give folders of runs, of sweeps, or folders that hold such folders. The page has the leaderboard, learning curves,
settings, BLEU by length and every sentence with its alignments. The tables lie beside it, as Markdown and as JSON.
Runs that cannot be compared are listed with the reason. The second command serves the page while the runs go on.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from nmt.cli.arguments import HELP, read_arguments
from nmt.cli.exit_status import exit_with_one_line_errors
from nmt.cli.run_arguments import split_runs
from nmt.config.overrides import expand_home
from nmt.config.schema import load_defaults
from nmt.errors import make_printable, require_packages
from nmt.system.files import check_writable
from nmt.system.garbage_collection import pause_garbage_collection
from nmt.system.threads import set_threads

with pause_garbage_collection():  # because these import torch
    from nmt.report.compare.systems import ComparedSystems
    from nmt.report.comparison import check_page, compare_runs


def compare(folders: Sequence[str], settings: DictConfig) -> str:
    """Write the page and its tables; return a line that sums them up."""
    output = Path(str(settings.output))
    check_page(output)  # now, because the comparison may take minutes
    check_writable(output.parent, f"output={output}")
    comparison = compare_runs(folders, settings)
    comparison.write(output)
    size = f"{output.stat().st_size / 1e6:.1f} MB"
    files = f"{output}, {output.stem}.md, {output.stem}.json"
    return make_printable(f"{files}: {_sum_up(comparison.compared)}; {size}")


def _sum_up(compared: ComparedSystems) -> str:
    sentences = len(compared.runs[0].evaluation.sentences)
    runs = len({run.folder for run in compared.runs})  # one may be evaluated in several ways
    counts = ((len(compared.systems), "system"), (runs, "run"), (sentences, "sentence"))
    systems, runs, sentences = (f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts)
    others = f"; {len(compared.left_out)} not compared" if compared.left_out else ""
    return f"{systems} of {runs} on {compared.test}, {sentences}{others}"


def _may_become_a_folder(argument: str) -> bool:
    """Return True for the folder of a sweep that has not begun, which a served page waits for."""
    is_pair = "=" in argument and "/" not in argument.partition("=")[0]
    is_word = argument in load_defaults("compare").keys() | HELP
    return not is_pair and not is_word and not Path(expand_home(argument)).exists()


@exit_with_one_line_errors
def main() -> None:
    """Compare the runs that the command line names, or serve the page if serve=true."""
    folders, arguments = split_runs("compare", sys.argv[1:])
    if "serve=true" in arguments:
        waited_for = list(filter(_may_become_a_folder, arguments))
        folders += map(expand_home, waited_for)
        arguments = [argument for argument in arguments if argument not in waited_for]
    settings, _ = read_arguments("compare", arguments, usage=__doc__)
    set_threads(settings.threads)
    if settings.serve:
        require_packages("serve=true", "starlette", "uvicorn", "psutil", extra="serve")
        from nmt.web.comparison_server import serve

        serve(folders, settings)
    else:
        print(compare(folders, settings))
