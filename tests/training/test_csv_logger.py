"""metrics.csv, written as it comes and gone on with."""

import csv

import pytest

from nmt.training.csv_logger import MetricsFile


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return [{key: value for key, value in row.items() if value} for row in csv.DictReader(file)]


@pytest.fixture
def path(tmp_path):
    log = MetricsFile(str(tmp_path / "metrics.csv"))
    log.log_metrics({"train/loss": 3.5, "epoch": 0}, step=9)
    log.log_metrics({"train/loss": 2.5, "epoch": 0}, step=19)
    log.log_metrics({"valid/bleu": 12.25, "epoch": 0}, step=19)
    log.log_metrics({"train/loss": 0.1, "epoch": 1}, step=29)
    return log.path


def test_columns_come_as_they_are_logged(path):
    assert path.read_text().split("\n")[0] == "step,epoch,train/loss,valid/bleu"
    assert rows(path) == [
        {"step": "9", "epoch": "0", "train/loss": "3.5"},
        {"step": "19", "epoch": "0", "train/loss": "2.5"},
        {"step": "19", "epoch": "0", "valid/bleu": "12.25"},
        {"step": "29", "epoch": "1", "train/loss": "0.1"},
    ]


def test_a_run_gone_on_with_keeps_what_was_logged_until_then(path):
    log = MetricsFile(str(path))
    log.keep_until(19)
    assert [row["step"] for row in rows(path)] == ["9", "19", "19"]
    log.log_metrics({"train/loss": 0.2, "new": 1.0}, step=29)
    assert rows(path)[2:] == [
        {"step": "19", "epoch": "0", "valid/bleu": "12.25"},
        {"step": "29", "train/loss": "0.2", "new": "1.0"},
    ]


def test_a_validation_that_comes_again_is_not_kept(path):
    MetricsFile(str(path)).keep_until(19, validations=0)
    assert [(row["step"], "valid/bleu" in row) for row in rows(path)] == [("9", False), ("19", False)]


def test_of_two_validations_after_a_step_one_may_come_again(path):
    log = MetricsFile(str(path))
    log.keep_until(19)
    assert log.validations() == 1
    log.log_metrics({"epoch": 0, "valid/bleu": 12.25}, step=19)
    MetricsFile(str(path)).keep_until(19, validations=1)
    assert [(row["step"], "valid/bleu" in row) for row in rows(path)] == [("9", False), ("19", False), ("19", True)]


def test_a_new_run_begins_the_file_anew(path):
    MetricsFile(str(path)).log_metrics({"train/loss": 7.0}, step=0)
    assert rows(path) == [{"step": "0", "train/loss": "7.0"}]


def test_a_line_that_was_not_finished_is_none(path):
    with path.open("a") as file:
        file.write("39,1,0.0")
    log = MetricsFile(str(path))
    log.keep_until(100)
    assert [row["step"] for row in rows(path)] == ["9", "19", "19", "29"]


def test_without_a_file_it_is_begun(tmp_path):
    log = MetricsFile(str(tmp_path / "metrics.csv"))
    log.keep_until(100)
    log.log_metrics({"train/loss": 1.0}, step=100)
    assert rows(log.path) == [{"step": "100", "train/loss": "1.0"}]
