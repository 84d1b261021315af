"""Files that a run may name, because it may come from somebody else, and its settings may name any file.

An evaluation reads files in the folder of data sets, and files that a command on this machine has named before. The
user must confirm any other file.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import ConfigurationError
from nmt.system.files import cache_folder, to_path

log = logging.getLogger(__name__)

Place = Path | str  # a file; or a text, the name or address of a data set

named_here: set[str] = set()  # by this process, where the cache cannot be written


@dataclass(frozen=True)
class Permission:
    """The places that the stored settings of a run may name.

    Args:
        run: The run's folder.
        typed: The values that the user typed, by key.
        fix: The end of the message about a place that must be confirmed.
    """

    run: Path | str
    typed: Mapping[str, str]
    fix: str

    def check(self, key: str, places: Iterable[Place]) -> None:
        """Refuse a place that the user has neither typed now, nor named before, nor put among the data sets."""
        for place in places:
            if not (str(place) in self.typed.values() or self._is_data_set(place) or is_named(place)):
                raise ConfigurationError(
                    f"data.{key}: {self.run} names {place}, which no command here has named before. Fix: {self.fix}"
                )

    def _is_data_set(self, place: Place) -> bool:
        folder = self.typed.get("data.dir") or os.environ.get("NMT_DATA")
        if not folder:
            folder = "data"
            if Path(os.path.realpath(".")).is_relative_to(os.path.realpath(self.run)):  # a stranger's, after `cd RUN`
                return False
        is_inside = Path(os.path.realpath(place)).is_relative_to(os.path.realpath(to_path(folder)))
        return isinstance(place, Path) and is_inside


def remember(places: Iterable[Place]) -> None:
    """Note places that the user has named."""
    places = list(places)
    named_here.update(map(_digest, places))
    try:
        for place in places:
            cache_folder().mkdir(parents=True, exist_ok=True)
            _note(place).parent.mkdir(mode=0o700, exist_ok=True)
            _note(place).touch()
    except OSError as error:
        log.warning(
            "%s: cannot be written (%s), so later commands may refuse the files that you have named. "
            "Fix: set NMT_CACHE=FOLDER in the environment",
            error.filename,
            error.strerror,
        )


def is_named(place: Place) -> bool:
    """Return whether a command has named a place before."""
    return _digest(place) in named_here or os.path.isfile(_note(place))


def _note(place: Place) -> Path:
    # one folder for each user, because several may share the cache, and none may write in a folder of another
    return cache_folder() / f"named_files.{os.getuid()}" / _digest(place)


def _digest(place: Place) -> str:
    text = os.path.abspath(place) if isinstance(place, Path) else place
    return hashlib.blake2b(os.fsencode(text), digest_size=16).hexdigest()
