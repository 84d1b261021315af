"""Provenance: the git commit and the code with which a run was trained."""

import ast
import hashlib
import subprocess
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
BATCHES = ("data/batches.py", "data/candidate_lists.py")


def git_commit() -> str | None:
    """Return the commit, with a + where files were changed since; None without git."""
    command = ["git", "-C", str(PACKAGE), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout.strip() or None


@cache
def code_version() -> str:
    """Return a digest of nmt/model, nmt/training and the code that makes batches, comments and docstrings left out."""
    digest = hashlib.blake2b(digest_size=8)
    files = [*sorted((PACKAGE / "model").rglob("*.py")), *sorted((PACKAGE / "training").glob("*.py"))]
    for file in [*files, *(PACKAGE / name for name in BATCHES)]:
        digest.update(strip_comments(file.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()


def strip_comments(source: str) -> str:
    """Return a program without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
