"""metrics.csv, and how a resumed run continues it."""

import csv
from functools import partial
from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.training.csv_logger import CsvLogger


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return [{key: value for key, value in row.items() if value} for row in csv.DictReader(file)]


@pytest.fixture
def path(tmp_path):
    log = CsvLogger(str(tmp_path / "metrics.csv"))
    log.log_metrics({"train/loss": 3.5, "epoch": 0}, step=9)
    log.log_metrics({"train/loss": 2.5, "epoch": 0}, step=19)
    log.log_metrics({"valid/bleu": 12.25, "epoch": 0}, step=19)
    log.log_metrics({"train/loss": 0.1, "epoch": 1}, step=29)
    return log.path


def test_columns_stand_in_the_order_of_logging(path):
    assert path.read_text().split("\n")[0] == "step,epoch,train/loss,valid/bleu"
    assert rows(path) == [
        {"step": "9", "epoch": "0", "train/loss": "3.5"},
        {"step": "19", "epoch": "0", "train/loss": "2.5"},
        {"step": "19", "epoch": "0", "valid/bleu": "12.25"},
        {"step": "29", "epoch": "1", "train/loss": "0.1"},
    ]


def test_a_resumed_run_keeps_the_rows_before_its_checkpoint(path):
    log = CsvLogger(str(path))
    log.keep_until(19)
    assert [row["step"] for row in rows(path)] == ["9", "19", "19"]
    log.log_metrics({"train/loss": 0.2, "new": 1.0}, step=29)
    assert rows(path)[2:] == [
        {"step": "19", "epoch": "0", "valid/bleu": "12.25"},
        {"step": "29", "train/loss": "0.2", "new": "1.0"},
    ]


def test_the_row_of_a_repeated_validation_is_dropped(path):
    CsvLogger(str(path)).keep_until(19, validations=0)
    assert [(row["step"], "valid/bleu" in row) for row in rows(path)] == [("9", False), ("19", False)]


def test_only_the_second_of_two_validations_is_dropped(path):
    log = CsvLogger(str(path))
    log.keep_until(19)
    assert log.count(19)["validations"] == 1
    log.log_metrics({"epoch": 0, "valid/bleu": 12.25}, step=19)
    CsvLogger(str(path)).keep_until(19, validations=1)
    assert [(row["step"], "valid/bleu" in row) for row in rows(path)] == [("9", False), ("19", False), ("19", True)]


def test_a_new_run_overwrites_the_file(path):
    CsvLogger(str(path)).log_metrics({"train/loss": 7.0}, step=0)
    assert rows(path) == [{"step": "0", "train/loss": "7.0"}]


def test_a_row_that_is_too_long_to_be_one_is_dropped(path):
    path.write_text(f"step,train/loss\n1,2.0\n2,{'9' * 200_000}\n3,1.5\n")
    assert [row["step"] for row in CsvLogger(str(path))._read()] == ["1", "3"]


def test_an_unfinished_line_is_dropped(path):
    with path.open("a") as file:
        file.write("39,1,0.0")
    log = CsvLogger(str(path))
    log.keep_until(100)
    assert [row["step"] for row in rows(path)] == ["9", "19", "19", "29"]


def overwrite(content: bytes, start: int, stop: int) -> bytes:
    return content[:start] + bytes(stop - start) + content[stop:]


@pytest.mark.parametrize(
    ("damage", "steps"),
    [
        (lambda content: content[:45], ["9"]),
        (lambda content: b"", []),
        (lambda content: bytes(len(content)), []),
        (lambda content: overwrite(content, 0, 10), []),  # the head of the table
        (lambda content: overwrite(content, 45, 50), ["9", "19", "29"]),
        (lambda content: content.replace(b"19,0,2.5,\n", b"19,0,2.5,"), ["9", "29"]),
        (lambda content: content.replace(b"19,0,2.5", b"\xff\xfe,0,2.5"), ["9", "19", "29"]),
        (None, []),
    ],
)
def test_lost_rows_are_counted_and_the_damaged_file_is_kept(path, caplog, damage, steps):
    log, content = CsvLogger(str(path)), path.read_bytes()
    count = log.count(29)["rows"]
    log.keep_until(29, count=count)
    assert (count, path.read_bytes(), caplog.messages) == (4, content, [])
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(content))
    log.keep_until(29, count=count)
    assert caplog.messages[0] == f"{path}: was damaged or removed, and {4 - len(steps)} of 4 rows are lost"
    log.log_metrics({"train/loss": 0.5}, step=39)
    assert [row["step"] for row in rows(path)] == [*steps, "39"]
    kept = path.with_name("metrics.csv.damaged")
    assert kept.exists() == (damage is not None)
    log.keep_until(29, count=count)
    assert damage is None or kept.read_bytes() == damage(content)


def append_a_row(path):
    with path.open("a") as file:
        file.write("19,0,1.0,\n")


@pytest.mark.parametrize("change", [Path.unlink, append_a_row, lambda path: path.write_text("")])
def test_a_file_changed_while_training_ends_the_run(tmp_path, change):
    log = CsvLogger(str(tmp_path / "metrics.csv"))
    log.log_metrics({"train/loss": 3.5, "epoch": 0}, step=9)
    log.log_metrics({"valid/bleu": 12.25, "epoch": 0}, step=9)
    change(log.path)
    content = log.path.read_text() if log.path.exists() else None
    for write in (partial(log.count, 29), partial(log.log_metrics, {"train/loss": 0.1}, step=29)):
        with pytest.raises(UserError, match=rf"{log.path}: was changed or removed .*Fix: give the same command again"):
            write()
    assert content == (log.path.read_text() if log.path.exists() else None)


def test_a_missing_file_is_created(tmp_path):
    log = CsvLogger(str(tmp_path / "metrics.csv"))
    log.keep_until(100)
    log.log_metrics({"train/loss": 1.0}, step=100)
    assert rows(log.path) == [{"step": "100", "train/loss": "1.0"}]
