"""Read a test set: sentence pairs, further references and gold alignments."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nmt.config.diff import is_within, override_key
from nmt.data.datamodule import TranslationData
from nmt.data.parallel_text import SentencePair
from nmt.data.word_alignments import Gold
from nmt.errors import ConfigurationError, DataError, NoFileError, did_you_mean

DATA_KEYS = ("data.test", "data.tests", "data.score", "data.dir", "data.train", "data.valid", "data.reader")
FILE_KEYS = "data.tests.NAME.source=FILE, data.train.source=FILE, …"


class TestSet(NamedTuple):
    """The content of a test set."""

    name: str
    pairs: list[SentencePair]
    references: list[list[str]]  # the target side, then further translations
    gold: list[Gold] | None
    blank: int  # pairs dropped because a side is blank
    alignments_words: str  # the words that `gold` counts: `text` or `preprocessed`


def read_test_set(data: TranslationData) -> TestSet:
    """Read the test set that `data.test` names."""
    name, reader = data.test_pairs()
    with data.hint_at_missing_files():
        pairs = list(reader)
        if not pairs:
            raise DataError(f"data.test={name}: all {reader.blank} pairs are blank. Fix: name a test set with text")
        blank = reader.blank
        references, gold = [[pair.target for pair in pairs], *reader.further_references()], reader.gold()
        if gold is not None and len(gold) != len(pairs):  # of a reader of the user's
            raise DataError(
                f"data.test={name}: {len(gold)} alignments for {len(pairs)} pairs. Fix: give one for each pair"
            )
        return TestSet(name, pairs, references, gold, blank, reader.alignments_words)


def check_data_overrides(data_overrides: list[str]) -> None:
    """Raise an error for an override without effect: a run's data is prepared as in training."""
    for override in data_overrides:
        if not is_within(override_key(override), DATA_KEYS):
            names = [key.removeprefix("data.") for key in DATA_KEYS]
            hint = did_you_mean(override_key(override).removeprefix("data."), names)
            raise ConfigurationError(
                f"{override}: has no effect on an evaluation{hint}, because text is prepared as in training. Fix: use "
                f"one of {', '.join(DATA_KEYS)}"
            )


@contextmanager
def hint_at_folder() -> Iterator[None]:
    """Explain a missing relative path: a run may name files relative to the folder it was trained in."""
    try:
        yield
    except NoFileError as error:
        if Path(error.path).is_absolute():
            raise
        hint = f"this folder is {Path.cwd()}. Fix: change to the folder of the training, or name the file: {FILE_KEYS}"
        raise NoFileError(error.path, "; ".join(filter(None, (error.hint, hint)))) from None
