"""The command evaluate.py: the choice of its task, and its tables."""

import pytest
from commands import answer

from nmt.cli.evaluate import print_frequency_table
from nmt.evaluation.by_frequency import by_frequency


@pytest.mark.parametrize("arguments", ["rescore=[a,b] score=[a,b]", "links=a gold=b reference=c"])
def test_keys_of_two_tasks_are_an_error(arguments, capfd, monkeypatch):
    status, message = answer("evaluate", *arguments.split(), capture=capfd, monkeypatch=monkeypatch)
    assert (status, "belong to different tasks. Fix: leave out all but one" in message) == (1, True)


def test_data_overrides_are_an_error_without_a_test_set(capfd, monkeypatch):
    status, message = answer("evaluate", "links=a", "gold=b", "data.test=x", capture=capfd, monkeypatch=monkeypatch)
    assert (status, message.startswith("error: data.test=x: has no effect with links=. Fix: leave out")) == (1, True)


@pytest.mark.parametrize("argument", ["links=a", "gold=a", "hypotheses=a", "reference=a"])
def test_error_names_the_missing_file_of_a_task(argument, capfd, monkeypatch):
    status, message = answer("evaluate", argument, capture=capfd, monkeypatch=monkeypatch)
    assert (status, message.startswith(f"error: {argument}: needs ")) == (1, True)


def test_words_by_frequency_are_printed_as_a_table(capsys):
    buckets = by_frequency([["a", "b", "b"]], [["a", "b", "c", "c"]], {"a": 7, "b": 7})
    print_frequency_table([bucket._asdict() for bucket in buckets])
    heads, unknown, known = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads[-4:] == ["references", "precision", "recall", "F1"]
    assert (unknown, known) == (["0", "2", "0.00", "0.00", "0.00"], ["6–10", "2", "66.67", "100.00", "80.00"])
