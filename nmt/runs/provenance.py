"""Provenance: the git commit with which a run was trained."""

import subprocess
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def git_commit() -> str | None:
    """Return the commit, with a + where files were changed since; None without git."""
    command = ["git", "-C", str(PACKAGE), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout.strip() or None
