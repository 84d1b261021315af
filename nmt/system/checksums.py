"""Checksums of the files in a folder, which show damage to them."""

import hashlib
from pathlib import Path

from nmt.system.files import sync, write_json
from nmt.system.safe_files import UnreadableError, check_regular, read_json

CHECKSUMS = "checksums.json"


def digest_file(path: Path) -> str:
    """Return a digest of a file's content; the name does not matter."""
    check_regular(path)
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files of a folder, and everything out to the disk."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != CHECKSUMS]
    for path in paths:
        sync(path)
    write_json(folder / CHECKSUMS, {path.name: digest_file(path) for path in paths})
    sync(folder / CHECKSUMS)
    sync(folder)


def find_damage(folder: Path) -> str | None:
    """Return what is wrong with a folder in which `write_checksums` was called, or None."""
    try:
        checksums = read_json(folder / CHECKSUMS)
        damaged = [name for name, checksum in checksums.items() if digest_file(folder / name) != checksum]
    except UnreadableError as error:
        return str(error)
    except FileNotFoundError as error:
        return f"has no {Path(error.filename).name}"
    except (OSError, ValueError) as error:  # of a damaged disk, or of a damaged name
        return f"cannot be read ({error})"
    return f"{damaged[0]} is damaged" if damaged else None
