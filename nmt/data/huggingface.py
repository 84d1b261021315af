"""Parallel data sets of the Hugging Face hub, read by the `datasets` library: mapped from disk or streamed."""

from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any

from nmt.data.named_files import Place
from nmt.data.parallel_text import Pairs, SentencePair
from nmt.data.text_files import file_identity
from nmt.errors import ConfigurationError, DataError, first_line, require_packages

FORMATS = ("csv", "json", "parquet", "arrow", "text", "xml")  # file formats that `datasets` reads


class HubPairs(Pairs):
    """The sentence pairs of a split of a data set.

    Args:
        split: The split: `train`, `validation`, `test` …
        path: OWNER/NAME on the hub, a folder, or a format of local files.
        name: The configuration of the data set.
        revision: Its version: a commit, branch or tag.
        data_files: Its files: one or more names or patterns, or a mapping from split to these.
        streaming: True to read without storing the data set.
        column: The column with {language: sentence}; None if `source` and `target` are columns.
        source: The key or column of the source sentences.
        target: The key or column of the target sentences.
    """

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
                "data.reader.path must be given. Fix: data.reader.path=OWNER/NAME, or a format such as parquet or json"
            )
        if path == "pandas":
            raise ConfigurationError(
                "data.reader.path=pandas: refused, because a pickle can run any code. Fix: save the data as parquet, "
                "and data.reader.path=parquet"
            )
        self.split, self.path, self.name, self.revision = split, path, name, revision
        files = data_files if isinstance(data_files, Mapping) else {"train": data_files} if data_files else {}
        self.data_files = {key: [value] if isinstance(value, str) else list(value) for key, value in files.items()}
        self.streaming, self.column, self.source, self.target = streaming, column, source, target
        if path in FORMATS and not any(self.data_files.values()):  # `datasets` would read the working directory
            raise ConfigurationError(f"data.reader.data_files must be given with data.reader.path={path}")

    def places(self) -> list[Place]:
        """Return the data set, unless it is a format, and its files."""
        files = [file for files in self.data_files.values() for file in files]
        return files if self.path in FORMATS else [self.path, *files]

    def identity(self) -> object:
        """Identify local files by their content, a data set of the hub by its name, revision and file names."""
        settings = [self.path, self.name, self.revision, self.split, self.column, self.source, self.target]
        if self.data_files and self._is_on_the_hub:
            return {"hub": settings, "data_files": self.data_files}
        files = self._local_files()
        return {"hub": settings} | ({"files": [file_identity(file) for file in files]} if files else {})

    def _local_files(self) -> list[Path]:
        """List the files that match `data_files`, or all files of a folder."""
        if not self.data_files:
            return sorted(file for file in Path(self.path).rglob("*") if file.is_file())
        split = self.split.partition("[")[0]  # train[:90%] is a part of train
        if split not in self.data_files:
            raise DataError(f"data.reader.data_files: no split '{split}', only {', '.join(self.data_files)}")
        is_folder = self.path not in FORMATS and Path(self.path).is_dir()
        folder = Path(self.path) if is_folder else Path()  # where `datasets` searches too
        return [
            folder / file
            for pattern in self.data_files[split]
            for file in sorted(glob(pattern, root_dir=folder, recursive=True)) or [pattern]
        ]

    @property
    def _is_on_the_hub(self) -> bool:
        """True for OWNER/NAME; False for a local folder or a format."""
        return "/" in self.path and not Path(self.path).is_dir()

    def __iter__(self) -> Iterator[SentencePair]:
        self.blank = 0
        for number, row in enumerate(self._read_rows(), start=1):
            source, target = (self._sentence(row, key, number) for key in (self.source, self.target))
            if source and target:
                yield SentencePair(source, target)
            else:
                self.blank += 1

    def _read_rows(self) -> Iterator[Mapping[str, Any]]:
        require_packages("data=hub", "datasets", extra="hub")
        from datasets import load_dataset

        try:  # around the rows too, because errors of a stream appear only while it is read
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
            names = ", ".join(cells) if isinstance(cells, Mapping) else ", ".join(row)
            raise ConfigurationError(
                f"{self.path}, split {self.split}, row {number}: no '{key}' in column {self.column}, only {names}. "
                "Fix: set data.reader.column, data.reader.source and data.reader.target"
            )
        if not isinstance(cells[key], str | None):
            raise ConfigurationError(
                f"{self.path}, split {self.split}, row {number}: '{key}' is {type(cells[key]).__name__}, not text. "
                "Fix: set data.reader.column, data.reader.source and data.reader.target"
            )
        return " ".join((cells[key] or "").split())
