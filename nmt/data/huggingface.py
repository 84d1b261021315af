"""Parallel data sets of the hub, by the `datasets` library: mapped from disk or streamed."""

from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any

from nmt.data.parallel_text import Line, Pairs
from nmt.data.text_files import file_identity
from nmt.errors import ConfigurationError, DataError, first_line

FORMATS = ("csv", "json", "pandas", "parquet", "arrow", "text", "xml")  # which `datasets` reads by itself


class HubPairs(Pairs):
    """A split of a data set: `column` holds {language: sentence}, or `source` and `target` are columns themselves."""

    def __init__(
        self,
        split: str,
        *,
        path: str | None,
        name: str | None = None,
        revision: str | None = None,
        data_files: Mapping[str, str | list[str]] | str | list[str] | None = None,
        streaming: bool = False,
        column: str | None = "translation",
        source: str,
        target: str,
    ):
        if path is None:
            raise ConfigurationError(
                "data.reader.path must be given: OWNER/NAME on the hub, or a format such as parquet or json"
            )
        self.split, self.path, self.name, self.revision = split, path, name, revision
        files = data_files if isinstance(data_files, Mapping) else {"train": data_files} if data_files else {}
        self.data_files = {split: [named] if isinstance(named, str) else list(named) for split, named in files.items()}
        self.streaming, self.column, self.source, self.target = streaming, column, source, target

    def identity(self) -> object:
        """Local files by their content; a data set of the hub by its name, revision and files there."""
        described = [self.path, self.name, self.revision, self.split, self.column, self.source, self.target]
        if self.data_files and self._is_on_the_hub:
            return {"hub": described, "data_files": self.data_files}
        files = self._local_files()
        return {"hub": described} | ({"files": [file_identity(file) for file in files]} if files else {})

    def _local_files(self) -> list[Path]:
        """Those of `data_files`, which may be several or a pattern; or all of a folder."""
        if not self.data_files:
            return sorted(file for file in Path(self.path).rglob("*") if file.is_file())
        if self.split not in self.data_files:
            raise DataError(f"data.reader.data_files names no split '{self.split}', only {', '.join(self.data_files)}")
        is_folder = self.path not in FORMATS and Path(self.path).is_dir()
        folder = Path(self.path) if is_folder else Path()  # where `datasets` looks for them too
        return [
            folder / file
            for pattern in self.data_files[self.split]
            for file in sorted(glob(pattern, root_dir=folder, recursive=True)) or [pattern]
        ]

    @property
    def _is_on_the_hub(self) -> bool:
        """OWNER/NAME; neither a folder here nor a format."""
        return "/" in self.path and not Path(self.path).is_dir()

    def __iter__(self) -> Iterator[Line]:
        self.blank = 0
        for number, row in enumerate(self._read(), start=1):
            source, target = (self._sentence(row, key, number) for key in (self.source, self.target))
            if source and target:
                yield Line(source, target)
            else:
                self.blank += 1

    def _read(self) -> Iterator[Mapping[str, Any]]:
        """Streamed rows are found wrong only when they are read."""
        from datasets import load_dataset

        try:
            yield from load_dataset(
                self.path,
                self.name,
                split=self.split,
                revision=self.revision,
                data_files=self.data_files or None,
                streaming=self.streaming,
            )
        except Exception as error:
            reason = first_line(error)
            raise DataError(f"data.reader.path={self.path}, split {self.split}: cannot be read ({reason})") from error

    def _sentence(self, row: Mapping[str, Any], key: str, number: int) -> str:
        cells = row if self.column is None else row.get(self.column)
        if not isinstance(cells, Mapping) or key not in cells:
            found = ", ".join(cells) if isinstance(cells, Mapping) else ", ".join(row)
            raise ConfigurationError(
                f"{self.path}, split {self.split}, row {number}: no '{key}' in column {self.column}, only {found}. "
                "Set data.reader.column, data.reader.source and data.reader.target"
            )
        return " ".join((cells[key] or "").split())
