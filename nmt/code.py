"""Which code a run was trained by."""

import hashlib
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def git_commit() -> str | None:
    """With a + where files were changed."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # git is not there
        return None
    return found.stdout.strip() or None


def code_version() -> str:
    """Of what models are made of, and of how they are trained."""
    digest = hashlib.blake2b(digest_size=8)
    for file in [*sorted((HERE / "model").rglob("*.py")), *sorted((HERE / "training").glob("*.py"))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()
