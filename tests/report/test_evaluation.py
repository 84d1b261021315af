"""Scores of another text or another search than `score_test=true` writes: what counts, and what is noted."""

import json

import numpy as np
import pytest
from report.folders import evaluate, pairs, write_run

from nmt.report.load.evaluated_runs import load_run
from nmt.report.load.run_folder import read_run
from nmt.report.render.paper_table import Entry, write_table
from nmt.runs.scoring import Scoring, is_scored

TABLE = {"table": "table2", "title": "Alignment quality"}


def change_scores(folder, test="test", **stored):
    """Change the scores.json of a run, and return the run's folder."""
    path = folder / test / "scores.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | stored))
    return folder


@pytest.mark.parametrize(
    ("override", "counts"),
    [
        ("data.test=test", True),
        ("data.tests.news.source=news.en", True),
        ("data.dir=/moved", True),
        ("data.tests.test.alignments=gold", True),
        ("data.tests.test.source=first10lines", False),
        ("data.tests.test.references=[a,b]", False),
        ("data.reader.empty_side=drop", False),
        ("data.tests={test: {count: 7}}", False),
        ("data.score.lowercase=true", False),
        ("data.score={lowercase: true}", False),
    ],
)
def test_scores_of_another_text_are_not_those_of_the_test_set(tmp_path, override, counts):
    folder = change_scores(write_run(tmp_path / "run"), data_overrides=[override])
    assert is_scored(folder, Scoring("test", "keep")) == counts


def test_another_validation_text_is_not_the_validation_set(tmp_path):
    folder = write_run(tmp_path / "run", test="valid")
    assert is_scored(folder, Scoring(None, "keep"))
    assert not is_scored(change_scores(folder, "valid", data_overrides=["data.valid.count=10"]), Scoring(None, "keep"))


def test_scores_of_another_search_are_not_replaced(tmp_path):
    assert is_scored(change_scores(write_run(tmp_path / "run"), search={"beam": 10}), Scoring("test", "keep"))


@pytest.mark.parametrize(("beam", "counts"), [(10, True), (12, False)])
def test_scores_of_another_setting_count_if_the_command_has_it(tmp_path, beam, counts):
    folder = change_scores(write_run(tmp_path / "run", test="test,beam=10"), "test,beam=10", search={"beam": 10})
    assert is_scored(folder, Scoring("test", "keep", {"beam": beam})) == counts
    assert not is_scored(folder, Scoring("test", "copy", {"beam": beam}))
    assert not is_scored(folder, Scoring("tes", "keep", {"beam": beam}))


def test_another_text_under_the_name_of_a_test_set_of_the_settings_is_noted(tmp_path):
    folder = write_run(tmp_path / "run", changes={"data.tests": {"test": {"source": "a"}}})
    run = read_run(change_scores(folder, data_overrides=["data.tests.test.source=first10"]))
    note = "evaluated with data.tests.test.source=first10: maybe another text or BLEU than its own test"
    assert load_run(run, "test").notes == (note,)
    evaluate(folder, "news", pairs(3), 0.1, np.random.default_rng(0))
    change_scores(folder, "news", data_overrides=["data.tests.news.source=news.en", "data.test=news"])
    assert load_run(run, "news").notes == ()  # the settings have no news


def test_a_paper_table_shows_other_searches_and_leaves_out_another_text(tmp_path):
    changes = [{}, {"search": {"beam": 1}}, {"data_overrides": ["data.tests.test.source=first10"]}]
    runs = [change_scores(write_run(tmp_path / f"{seed}", seed=seed), **change) for seed, change in enumerate(changes)]
    entries = [Entry({"rows": {"table2": "Base"}}, seed, run, "completed") for seed, run in enumerate(runs)]
    write_table(tmp_path, TABLE, entries)
    assert "| 2 | beam=1 (1 of 2) |\n" in (tmp_path / "table.md").read_text()
    write_table(tmp_path, TABLE, entries[1:2])
    assert "\nOurs: test; beam=1; sacrebleu " in (tmp_path / "table.md").read_text()  # the search of all rows
