"""Link the words of a data set by an aligner, and write links that train.py and evaluate.py read.

    python align.py [data=NAME] [data.KEY=VALUE …] [output=FOLDER] [seed=1]

data=NAME and data.KEY are those of train.py. All texts of the data set are aligned together. FOLDER gets a file for
each, named by its key: train.links, valid.links and tests.NAME.links. A line has the links of a pair, i-j or ipj:
source word, target word, from 1. i-j is in both directions of the aligner, and ipj in grow-diag-final-and alone. The
words are those that the model sees: preprocessed, before a vocabulary cuts them into pieces.

    python train.py data=NAME attention/penalty=guided data.train.alignments=FOLDER/train.links
    python evaluate.py RUN data.tests.NAME.alignments=FILE data.tests.NAME.alignments_words=preprocessed

The first trains attention on the links. The second scores it against them. For a test set that has gold links, the
error of the aligner itself is printed.
"""

import re
import sys
from typing import TYPE_CHECKING, Any

import hydra

from nmt.cli.arguments import HELP, read_arguments
from nmt.cli.exit_status import exit_with_one_line_errors
from nmt.config.installation import CONF_DIR
from nmt.config.overrides import expand_home, find_repeated
from nmt.config.schema import check_overrides
from nmt.errors import ConfigurationError
from nmt.system.files import check_writable, to_path
from nmt.system.garbage_collection import pause_garbage_collection

if TYPE_CHECKING:
    from nmt.data.datamodule import TranslationData


@exit_with_one_line_errors
def main() -> None:
    """Align the data set that the command line names."""
    is_of_data = re.compile(r"[+~]*data[./]|data=").match
    data_overrides = [expand_home(argument) for argument in sys.argv[1:] if is_of_data(argument)]
    arguments = [argument for argument in sys.argv[1:] if not is_of_data(argument)]
    if plain := [argument for argument in arguments if "=" not in argument and argument not in HELP]:
        raise ConfigurationError(f"{plain[0]}: is not KEY=VALUE. Fix: data=NAME; --help explains the keys")
    settings, _ = read_arguments("align", arguments, usage=__doc__)
    if repeated := find_repeated(data_overrides):
        raise ConfigurationError(f"{' '.join(repeated)}: one key, several values. Fix: keep one")
    for key, least, most in (("samplers", 1, 100), ("seed", 0, 2**32 - 1)):
        if settings[key] is None or not least <= settings[key] <= most:
            raise ConfigurationError(f"{key}={settings[key]}: must be from {least} to {most}")
    data = build_data(data_overrides)
    folder = to_path(settings.output or f"links/{data.name}")
    check_writable(folder, f"output={folder}")
    from nmt.evaluation.aligned_data import align_data  # here, because torch takes seconds to import

    about = align_data(data, folder, samplers=settings.samplers, seed=settings.seed)
    print_figures(about["texts"])
    print(f"in {folder}/: about.json, {', '.join(f'{key}.links' for key in about['texts'])}")


def build_data(overrides: list[str]) -> "TranslationData":
    """Return the data of train.py with these overrides."""
    with hydra.initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        check_overrides(overrides)
        with pause_garbage_collection():  # because the class of the data imports torch and Lightning
            from nmt.data.preprocessing import check_languages

            data = hydra.compose("config", overrides=overrides).data
            check_languages(data)
            return hydra.utils.instantiate(data)


def print_figures(texts: dict[str, Any]) -> None:
    """Print the number of links of each text, and the error of the aligner where there are gold links."""
    print(f"  {'':<22} {'pairs':>8} {'sure':>10} {'possible':>10}  directions agree")
    for key, figures in texts.items():
        numbers = f"{figures['pairs']:>8,} {figures['sure']:>10,} {figures['possible']:>10,}"
        print(f"  {key:<22} {numbers} {figures['agreement']:>15.1f} %")
    for key, figures in texts.items():
        for method, scores in figures.get("scores", {}).items():
            numbers = " ".join(f"{name} {scores[name]:.1f}" for name in ("aer", "precision", "recall"))
            print(f"  {key}, {method}: {numbers}")
