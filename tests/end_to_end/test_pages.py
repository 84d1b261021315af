"""The commands of the pages, run in the order of each page, in a small copy of the project."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from cluster.slurm import find_free_ports
from code_blocks import Block, find_blocks
from commands import ROOT
from filelock import FileLock
from small_project import run_shell, write_small_project

PAGES = ("README", "comparing", "data", "evaluation", "experiments", "python", "scaling", "settings", "translation")
PAGES += ("wandb",)
NOT_RUN = re.compile(  # what needs a network or another program, serves a page, takes long, or has a test of its own
    r"make |\. \.venv|wandb sync|python -m (nmt\.data\.download|venv)|curl|jq|docker|apptainer|ray/"
    r"|.*(\bpip install|serve=true|hf:|\bcomet=|wandb_workspace|--help|submitit|/shared/nmt|srun)"
    r"|.*\+table=luong2015_table4.*seed=1,2,3"
)
INSTEAD = {
    r"\[([\w.]+=[^\]\s]*)\](?=\s|$)": r"\1",  # [beam=10] of a synopsis
    r" (…|\[KEY=VALUE …\])": "",
    r"RUN_OR_SWEEP|multirun/NAME": "multirun/first",
    r"=NAME\b": "=test_2016",
    r"baseline=RUN\b": "baseline=attention=additive",
    r"data=test_2016": "data=multi30k",
    r"ckpt_path=FOLDER": "data=multi30k trainer.max_steps=4 ckpt_path=outputs/first",
    r"\bOTHER\b|outputs/general/RUN": "outputs/second",
    r"\bFOLDER\b": "outputs/first",
    r"seed=1,2(,3)?": "seed=1",
    "additive,coverage,temporal,interactive": "additive,interactive",
    r"\+table=tu2016_table1": r"\g<0> experiment=tu2016/groundhog,tu2016/neural_gru_d10",
    r"\+table=luong2015_table4": r"\g<0> experiment=luong2015/global_dot_feed,luong2015/local_p_general_feed",
    r"data.vocabulary.size=\d+": "data.vocabulary.size=120",
    r"n_trials=\d+": "n_trials=2",
    "/shared/data": "data",
    "=/(shared|scratch)/": r"=\1/",
    "trainer=ddp data": "trainer=ddp trainer.devices=1 data",
    "trainer=ddp ": "trainer=ddp trainer.accelerator=cpu trainer.precision=32-true ",
    "(nnodes|num_nodes)=2": r"\1=1",
    "(devices|nproc-per-node)=4": r"\1=2",
    "HOST0 --master-port=29500": f"127.0.0.1 --master-port={find_free_ports(1)[0]}",
}


def prepare(place: Path) -> None:
    write_small_project(place)
    for name in ("first", "second"):
        run_shell(place, f"python train.py data=multi30k logger=none hydra.run.dir=outputs/{name}")
    sweep = "experiment=multi30k attention=additive,coverage seed=1,2 sweep=first"
    run_shell(place, f"python train.py -m {sweep} score_test=true")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, testrun_uid):
    """Return a copy of the project with small defaults, data sets, texts of a user, two runs and a sweep."""
    # Parallel workers share the parent folder; without workers, all runs of the tests share it
    place = tmp_path_factory.getbasetemp().parent / f"project_{testrun_uid}"
    with FileLock(f"{place}.lock"):
        if not place.exists():
            prepare(place)
    return place


def lines_to_run(block: Block) -> list[str]:
    """Return the commands of a block with names for its placeholders; none of a block that shows no commands."""
    if block.language == "python" and block.document.name == "README.md":  # other pages' have tests of their own
        return [f"python -c {shlex.quote(block.text)}"]
    if block.language not in ("", "sh", "bash") or not re.search(r"python |nmt-", block.text):
        return []
    lines = [line for line in block.lines if not NOT_RUN.match(line)]
    for pattern, replacement in INSTEAD.items():
        lines = [re.sub(pattern, replacement, line) for line in lines]
    return lines


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_in_its_order(prepared, tmp_path, page):
    place = shutil.copytree(prepared, tmp_path / "project")
    if page == "wandb":
        shutil.copy(ROOT / "conf" / "config.yaml", place / "conf")  # which logs to W&B
    (document,) = ROOT.glob(f"{page}.md") if page == "README" else (ROOT / "docs").glob(f"{page}.md")
    blocks = sorted(find_blocks(document), key=lambda block: document.read_text(encoding="utf-8").index(block.text))
    scripts = [script for block in blocks if (script := "\n".join(lines_to_run(block)))]
    assert scripts
    for script in scripts:
        run_shell(place, script)
