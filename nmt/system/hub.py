"""Download models from the Hugging Face hub and upload them, under names such as hf:OWNER/NAME@REVISION."""

import errno
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nmt.errors import ConfigurationError, UserError, first_line, require_packages

PREFIX = "hf:"
NAME = re.compile(rf"{PREFIX}(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?")
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)
LOG_IN = "`hf auth login`, or HF_TOKEN in the environment"


class HubName(NamedTuple):
    """The name of a model on the hub."""

    repository: str  # OWNER/NAME
    revision: str | None  # a commit, tag or branch; None: the newest commit


def is_hub_name(text: str) -> bool:
    """Return whether a text is meant as the name of a model on the hub, not as a path."""
    return text.startswith(PREFIX)


def parse_hub_name(key: str, text: str) -> HubName:
    """Return the parts of a name; errors call the setting `key`."""
    match = NAME.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            f"{key}={text}: not the name of a model on the hub. "
            f"Fix: {key}={PREFIX}OWNER/NAME" + ("" if key == "push" else f", or {PREFIX}OWNER/NAME@REVISION")
        )
    name = HubName(*match.groups())
    if key == "push" and name.revision:
        raise ConfigurationError(f"push={text}: a revision cannot be chosen. Fix: push={PREFIX}{name.repository}")
    return name


def download(text: str, sizes: Mapping[str, int], needed: Collection[str]) -> Path:
    """Return the folder of the hub's cache with the files of a model; download those that it lacks.

    Args:
        text: The name of the model.
        sizes: The names of the files to download, with the most bytes that each may have.
        needed: Files without which nothing is downloaded.
    """
    name = parse_hub_name("run", text)
    require_packages(f"run={text}", "huggingface_hub", extra="hub")
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    _hide_progress_in_files()
    with _explain_errors(f"run={text}"):
        commit = HfApi().resolve_revision(name.repository, revision=name.revision)
        files = {"repo_id": name.repository, "revision": commit, "allow_patterns": list(sizes)}
        try:
            return Path(snapshot_download(**files, local_files_only=True))
        except LocalEntryNotFoundError:
            listing = HfApi().list_repo_tree(name.repository, revision=commit)
            _check_listing(text, {file.path: getattr(file, "size", 0) for file in listing}, sizes, needed)
            return Path(snapshot_download(**files))


def _check_listing(text: str, listing: Mapping[str, int], most: Mapping[str, int], needed: Collection[str]) -> None:
    if missing := [file for file in needed if file not in listing]:
        raise UserError(f"run={text}: is not a model of this project, because it has no {missing[0]}")
    for file in most.keys() & listing.keys():
        if listing[file] > most[file]:
            raise UserError(f"run={text}: {file} has {listing[file]} bytes, and may have {most[file]}")


def upload(folder: Path, text: str, files: Collection[str]) -> str:
    """Upload files of a folder to the hub, and return the address of the model. A new model is private."""
    name = parse_hub_name("push", text)
    require_packages(f"push={text}", "huggingface_hub", extra="hub")
    from huggingface_hub import HfApi

    _hide_progress_in_files()
    with _explain_errors(f"push={text}"):
        address = HfApi().create_repo(name.repository, private=True, exist_ok=True)
        HfApi().upload_folder(
            repo_id=name.repository,
            folder_path=folder,
            allow_patterns=list(files),
            commit_message="Upload a model of nmt-experiments",
        )
    return str(address)


def _hide_progress_in_files() -> None:
    """Hide the progress bars of the hub's package where standard error is not a terminal."""
    from huggingface_hub.utils import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()


@contextmanager
def _explain_errors(setting: str) -> Iterator[None]:
    """Turn errors of the hub into one line that begins with the setting."""
    from huggingface_hub import errors

    explanations = {
        errors.HFValidationError: "not the name of a model on the hub. Fix: OWNER/NAME, as on its page",
        errors.GatedRepoError: f"its owner must give you access. Fix: ask for it on its page, then {LOG_IN}",
        errors.RepositoryNotFoundError: f"no such model, or it is private. Fix: correct the name, or {LOG_IN}",
        errors.RevisionNotFoundError: "no such revision. Fix: name a commit, tag or branch of the model",
    }
    try:
        yield
    except tuple(explanations) as error:
        reason = next(reason for kind, reason in explanations.items() if isinstance(error, kind))
        raise UserError(f"{setting}: {reason}") from error
    except errors.HfHubHTTPError as error:
        if error.response.status_code in (401, 403):
            raise UserError(f"{setting}: access is denied. Fix: {LOG_IN}, with a token that may do this") from error
        raise UserError(f"{setting}: the hub answers with an error ({first_line(error)})") from error
    except UserError:
        raise
    except Exception as error:  # of the network; each layer has its own errors
        if isinstance(error, OSError) and error.errno in UNWRITABLE:
            place = error.filename or "the cache of the hub"
            raise UserError(f"{setting}: {place}: {error.strerror}. Fix: make room, or set HF_HOME=FOLDER") from error
        reason = first_line(error.__cause__ or error)
        raise UserError(f"{setting}: the hub cannot be reached ({reason}). Fix: try again with a connection") from error
