"""The project's place: a checkout, with conf/ and train.py beside this package, or an installed package with conf/."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
IS_INSTALLED = (PACKAGE / "conf").is_dir()
CONF_DIR = PACKAGE / "conf" if IS_INSTALLED else PACKAGE.parent / "conf"


def name_command(verb: str) -> str:
    """Return how a command is called: `nmt-train`, or `python train.py` in a checkout."""
    return f"nmt-{verb}" if IS_INSTALLED else f"python {verb}.py"
