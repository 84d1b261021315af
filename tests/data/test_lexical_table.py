"""Lexical tables: learned from text with known translations, saved and loaded."""

import errno
import gzip
import importlib.util
import random
import subprocess
import sys

import pytest
from commands import ROOT

from nmt.data import aligner
from nmt.data.lexical_table import LexicalTable, learn_lexical_table
from nmt.errors import DataError, UserError

UNUSUAL = ["|||", "<eps>", "<NULL>", "0-0", "a|||b", "\\t", "-", "𝄞", "İ"]


def translate_backwards(dictionary: dict[str, str], sentences: int, length: int = 6) -> list[tuple[str, str]]:
    """Return random sentences with their translations word by word, in reverse order."""
    stream, words = random.Random(0), sorted(dictionary)
    sources = [[words[int(stream.random() * len(words))] for _ in range(length)] for _ in range(sentences)]
    return [(" ".join(source), " ".join(dictionary[word] for word in reversed(source))) for source in sources]


def test_aligner_learns_a_dictionary_from_reordered_sentences():
    dictionary = {f"s{number}": f"t{number * 7 % 40}" for number in range(40)}
    table = learn_lexical_table(translate_backwards(dictionary, 600), minimum_probability=0.5)
    assert {word: table.best(word) for word in dictionary} == dictionary
    assert len(table.entries) == len(dictionary)
    assert all(len(table.translations(word)) == 1 for word in dictionary)


def test_unusual_words_are_treated_like_other_words():
    dictionary = {word: f"{word}{word}" for word in UNUSUAL} | {f"{word}+": word for word in UNUSUAL}
    table = learn_lexical_table(translate_backwards(dictionary, 600))
    assert {word: table.best(word) for word in dictionary} == dictionary


def test_numbers_are_words_too():
    dictionary = {str(number): str((number * 3 + 1) % 30) for number in range(30)}
    table = learn_lexical_table(translate_backwards(dictionary, 600))
    assert {word: table.best(word) for word in dictionary} == dictionary


def test_probabilities_are_shares_of_links_and_the_best_are_kept():
    pairs = [("a", "x")] * 6 + [("a", "y")] * 3 + [("a", "z")] + [("b", "w")]
    assert learn_lexical_table(pairs).translations("a") == [("x", 0.6), ("y", 0.3), ("z", 0.1)]
    assert learn_lexical_table(pairs, keep=2).translations("a") == [("x", 0.6), ("y", 0.3)]
    assert learn_lexical_table(pairs, minimum_probability=0.2).translations("a") == [("x", 0.6), ("y", 0.3)]


def test_equally_frequent_translations_are_sorted_by_rarity_then_by_alphabet():
    pairs = [("a", "z"), ("a", "y"), ("a", "x"), ("b", "x")] * 10
    assert learn_lexical_table(pairs).translations("a") == [("y", 0.33333), ("z", 0.33333), ("x", 0.33333)]


def test_empty_sides_are_skipped():
    pairs = [("a", "x"), ("", "y"), ("b", ""), (" ", " "), ("a", "x")] * 10
    assert learn_lexical_table(pairs).entries == {"a": [("x", 1.0)]}
    with pytest.raises(DataError, match="no pair has words on both sides"):
        learn_lexical_table([("", "y")])


def test_the_same_text_gives_the_same_bytes(tmp_path):
    pairs = translate_backwards({f"s{number}": f"t{number % 9}" for number in range(60)}, 500, length=12)
    for name in ("one", "two"):
        learn_lexical_table(iter(pairs)).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["one", "two"]


def test_failure_of_the_aligner_is_reported(monkeypatch):
    monkeypatch.setattr(aligner, "ALIGN", "raise MemoryError('too much')")
    with pytest.raises(UserError, match=r"sil-thot==.* ended with status 1: MemoryError: too much \(it wrote to /"):
        learn_lexical_table([("a", "x")])


def test_a_full_disk_is_reported_with_the_folder_of_the_aligner(monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(aligner, "_write_ids", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*aligner_"):
        learn_lexical_table([("a", "x")])


def test_missing_aligner_is_reported_before_any_text_is_read(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    pairs = iter([("a", "x")])
    with pytest.raises(UserError, match=r"\(extra: align\) is installed. Fix: pip install sil-thot==\d"):
        learn_lexical_table(pairs)
    assert list(pairs) == [("a", "x")]


def test_unknown_word_has_no_translation():
    table = LexicalTable({"a": [("x", 0.6), ("y", 0.3)]})
    assert table.translations("a") == [("x", 0.6), ("y", 0.3)]
    assert table.best("a") == "x"
    assert table.translations("b") == []
    assert table.best("b") is None
    assert len(table.entries) == 1


def test_saved_table_is_loaded_unchanged_and_is_readable_text(tmp_path):
    entries = {"b": [("y", 0.75), ("x", 0.00012)], "a": [("ä", 1.0)]}
    entries |= {word: [(other, 0.05) for other in UNUSUAL] for word in UNUSUAL}
    LexicalTable(entries).save(tmp_path / "table.tsv.gz")
    assert LexicalTable.load(tmp_path / "table.tsv.gz").entries == entries
    lines = gzip.decompress((tmp_path / "table.tsv.gz").read_bytes()).decode().split("\n")
    assert {"a\tä\t1", "b\ty\t0.75", "b\tx\t0.00012", "\\t\t|||\t0.05"} <= set(lines)


def test_empty_table_is_saved_and_loaded(tmp_path):
    LexicalTable({}).save(tmp_path / "table")
    assert LexicalTable.load(tmp_path / "table").entries == {}


def test_failed_save_keeps_the_old_table(tmp_path):
    LexicalTable({"a": [("x", 1.0)]}).save(tmp_path / "table")
    with pytest.raises(UnicodeEncodeError):
        LexicalTable({"a": [("\ud800", 1.0)]}).save(tmp_path / "table")
    assert LexicalTable.load(tmp_path / "table").best("a") == "x"
    assert [file.name for file in tmp_path.iterdir()] == ["table"]


class SavedMeanwhile(dict):
    """Entries of a table; another process saves another table while this one is saved."""

    def __init__(self, entries, path):
        super().__init__(entries)
        self.path = path

    def items(self):
        program = "import sys; from pathlib import Path; from nmt.data.lexical_table import LexicalTable"
        program += "; LexicalTable({'b': [('y', 1.0)]}).save(Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", program, str(self.path)], cwd=ROOT, check=True)
        return super().items()


def test_last_of_two_processes_that_save_at_once_wins(tmp_path):
    LexicalTable(SavedMeanwhile({"a": [("x", 1.0)]}, tmp_path / "table")).save(tmp_path / "table")
    assert LexicalTable.load(tmp_path / "table").entries == {"a": [("x", 1.0)]}
    assert [file.name for file in tmp_path.iterdir()] == ["table"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"b\tx\n", "a source word, a target word and a probability"),
        (b"b\tx\t0.5\t0\n", "a source word, a target word and a probability"),
        (b"\n", "a source word, a target word and a probability"),
        (b"b\tx\t0.5", "a source word, a target word and a probability"),  # cut in the middle of a number
        (b"b\tx\tmuch\n", "could not convert string to float: 'much'"),
        (b"b\tx\t0\n", "0 is not a probability"),
        (b"b\tx\t1.5\n", "1.5 is not a probability"),
        (b"b\tx\tnan\n", "nan is not a probability"),
        (b"a\tx\t0.1\n", "'x' appears twice as a translation of 'a'"),
        (b"a\ty\t0.9\n", "the translations of 'a' are not in the order"),
        (b"b\t\xff\t0.5\n", "can't decode byte 0xff"),
    ],
)
def test_error_names_a_damaged_line(tmp_path, line, message):
    path = tmp_path / "table"
    path.write_bytes(gzip.compress(b"a\tx\t0.5\n" + line))
    with pytest.raises(DataError, match=rf"table, line 2: .*{message}.*\. Fix: remove the file"):
        LexicalTable.load(path)


def test_error_names_a_damaged_archive(tmp_path):
    path = tmp_path / "table"
    LexicalTable({f"w{number * number}": [("x", 0.5)] for number in range(3000)}).save(path)
    content = path.read_bytes()
    for damaged in (
        content[: len(content) // 2],
        content[:2000] + bytes(50) + content[2050:],
        content[:-6] + b"wrong!",
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"table, (after )?line \d+: .*\. Fix: remove the file"):
            LexicalTable.load(path)


def test_error_names_a_missing_table(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file"):
        LexicalTable.load(tmp_path / "nowhere")
