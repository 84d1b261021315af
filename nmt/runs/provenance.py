"""Which code a run was trained by."""

import ast
import hashlib
import subprocess
from functools import cache
from pathlib import Path

HERE = Path(__file__).parents[1]


def git_commit() -> str | None:
    """With a + where files were changed."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # git is not there
        return None
    return found.stdout.strip() or None


@cache
def code_version() -> str:
    """A fingerprint of nmt/model and nmt/training, and of what makes batches for them; to word a comment or a docstring
    otherwise trains nothing otherwise."""
    digest = hashlib.blake2b(digest_size=8)
    batches = [HERE / "data" / "batches.py", HERE / "data" / "candidate_lists.py"]
    for file in [*sorted((HERE / "model").rglob("*.py")), *sorted((HERE / "training").glob("*.py")), *batches]:
        digest.update(without_words(file.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()


def without_words(source: str) -> str:
    """A program without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
