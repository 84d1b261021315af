"""Provenance: the git commit and the libraries with which a run was trained."""

import importlib.metadata
import platform
import subprocess

import nmt
from nmt.config.installation import PACKAGE

VERSIONS = ("torch", "pytorch-lightning", "hydra-core", "numpy", "tokenizers", "sacremoses", "sacrebleu")


def git_commit() -> str | None:
    """Return the commit, with a + where files were changed since; None for code that git does not hold."""
    try:
        _git("ls-files", "--error-unmatch", "__init__.py")  # because an environment may lie in another repository
        return _git("describe", "--always", "--abbrev=40", "--dirty=+")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(PACKAGE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that decide results."""
    packages = {name: importlib.metadata.version(name) for name in VERSIONS}
    return {"nmt": nmt.__version__, "python": platform.python_version()} | packages
