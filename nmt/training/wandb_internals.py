"""The private part of wandb that training depends on; `tests/training/test_wandb_internals.py` checks it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wandb import Artifact, Run


def log_input(run: "Run", artifact: "Artifact") -> None:
    """Log an artifact as an input of a run; the public `use_artifact` does not work offline and waits online."""
    run._log_artifact(artifact, is_user_created=True, use_after_commit=True)
