"""Write the files that docs/extending.md shows."""

import re
from pathlib import Path

from commands import ROOT

FILES = re.compile(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", re.M | re.S)
USERS = "my_project/"


def documented_files() -> list[tuple[str, str]]:
    """Return path and content of each file."""
    return FILES.findall((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))


def write_users_folder(place: Path) -> Path:
    """Write the documented user_dir=my_project into a folder, and return its path."""
    for name, content in documented_files():
        if name.startswith(USERS):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(content, encoding="utf-8")
    return place / "my_project"
