"""Provenance: the git commit with which a run was trained."""

import subprocess

from nmt.config.installation import PACKAGE


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
