"""An evaluation is kept under what it was made with."""

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from nmt.config.schema import load_defaults
from nmt.evaluation.evaluation_folder import choose_folder, keep_other_scores, name_evaluation
from nmt.search.settings import EVALUATION_DEFAULTS, Search

RUN = SimpleNamespace(
    folder=Path("a/run"),
    checkpoint=Path("a/run/checkpoints/best.ckpt"),
    search={"beam": 10, "length_penalty": 0.0},
    unknown="translate",
    default_checkpoint="best.ckpt",
    config=OmegaConf.create(
        {"data": {"tests": {"test": {"source": "a.de", "count": 5}}, "score": {"tokenize": "13a"}}}
    ),
)


def how(checkpoint="best.ckpt", search=None, **settings):
    """Return the settings of an evaluation as scores.json has them; by default those of the run."""
    search = asdict(Search(**RUN.search | (search or {})))
    members = [{"run": "a/run", "checkpoint": checkpoint, "step": 7}]
    return EVALUATION_DEFAULTS | {"unknown": "translate", "members": members, "search": search} | settings


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "test"),
        ({"search": {"beam": 10, "nbest": 1}}, "test"),
        ({"search": {"beam": 5}}, "test,beam=5"),
        ({"search": {"length_penalty": 1.0}, "unknown": "keep"}, "test,length_penalty=1.0,unknown=keep"),
        ({"search": {"sample": True, "seed": 3}}, "test,sample=true,seed=3"),
        ({"int8": True, "link_threshold": 0.2}, "test,int8=true,link_threshold=0.2"),
        ({"checkpoint": "mean.ckpt"}, "test,checkpoint=mean.ckpt"),
        ({"weights": [2, 1], "average": "logs"}, "test,weights=2+1-3e42a4,average=logs"),
    ],
)  # fmt: skip
def test_the_folder_names_each_setting_that_is_not_the_runs_own(settings, name):
    assert name_evaluation("test", how(**settings), [], RUN) == name


@pytest.mark.parametrize(
    ("test", "overrides", "name"),
    [
        ("test", ["data.tests.test.count=20"], "test,count=20"),
        ("test", ["data.tests.test.count=5", "data.tests.test.source=a.de"], "test"),  # as in training
        ("test", ["data.tests.test={source: null, count: 20}"], "test,count=20,source=null"),
        ("test", ["data.tests={test: {count: 20}}"], "test,count=20"),
        ("test", ["data.tests.test.source=b.de", "data.tests.test.count=20"], "test,count=20,source=b.de"),
        ("test", ["data.tests.test.source=b/c.de"], "test,source=c.de-77a81b"),
        ("test", ["data.tests.test.references=[a,b/c]"], "test,references=a+c-096c57"),
        ("test", ["data.tests.test.alignments=b.links", "data.dir=b", "data.tests.other.count=3"], "test"),
        ("test", ["data.score.lowercase=true"], "test,score.lowercase=true"),
        ("test", ["data.score={lowercase: true}"], "test,score.lowercase=true"),
        ("news", ["data.tests.news.source=b.de", "data.tests.news.count=20"], "news"),
        ("news", ["data.tests.news.source=b.de", "data.score.tokenize=char"], "news,score.tokenize=char"),
    ],
)  # fmt: skip
def test_the_folder_names_each_change_of_the_text_and_of_bleu(test, overrides, name):
    assert name_evaluation(test, how(), overrides, RUN) == name


def test_results_are_in_the_run_in_a_named_folder_or_in_that_of_the_ensemble():
    settings = load_defaults("evaluate")
    wide = how(search={"beam": 12})
    assert choose_folder([RUN], settings, "test", wide, []) == Path("a/run/test,beam=12")
    elsewhere = OmegaConf.merge(settings, {"output": "there"})
    assert choose_folder([RUN], elsewhere, "test", wide, []) == Path("there/test,beam=12")
    ensemble = choose_folder([RUN, RUN], settings, "test", wide, [])
    assert (ensemble.parent.parent, ensemble.name) == (Path("outputs/ensembles"), "test,beam=12")


def write_scores(folder, scores):
    folder.mkdir()
    (folder / "scores.json").write_text(json.dumps(scores))


def test_scores_of_another_search_are_renamed_before_a_folder_is_replaced(tmp_path, caplog):
    folder = tmp_path / "test"
    write_scores(folder, how(search={"beam": 5}) | {"data_overrides": ["data.tests.test.count=5"]})
    keep_other_scores(folder, "test", how(search={"beam": 5}), [], RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["test"]  # the settings are the same
    keep_other_scores(folder, "test", how(), [], RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["test,beam=5"]
    assert caplog.messages == [f"{folder}: the scores there are of other settings; they are now in {folder},beam=5"]
    keep_other_scores(folder, "test", how(), [], RUN)  # there is no folder


def test_scores_of_another_text_of_the_same_name_are_renamed(tmp_path):
    folder, first = tmp_path / "news", ["data.tests.news.source=b.de", "data.tests.news.target=b.en", "data.dir=x"]
    write_scores(folder, how() | {"data_overrides": first})
    keep_other_scores(folder, "news", how(), [*first, "data.tests.news.alignments=b.links"], RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["news"]  # the text is the same
    keep_other_scores(folder, "news", how(), ["data.tests={news: {source: c.de}}"], RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["news,source=b.de,target=b.en"]
    write_scores(folder, how() | {"data_overrides": first})
    keep_other_scores(folder, "news", how(), ["data.tests.news.source=c.de"], RUN)
    assert {path.name for path in tmp_path.iterdir()} == {
        "news,source=b.de,target=b.en", "news,source=b.de,target=b.en,earlier=2"
    }  # fmt: skip


def test_scores_of_another_run_in_the_same_output_are_renamed(tmp_path):
    other = how() | {"members": [{"run": "b/other", "checkpoint": "best.ckpt", "step": 7}], "data_overrides": []}
    write_scores(tmp_path / "test", other)
    keep_other_scores(tmp_path / "test", "test", how(), [], RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["test,run=other"]


@pytest.mark.parametrize("text", ["{", "[]", '{"data_overrides": [3]}', '{"data_overrides": ["a=[b"], "search": {}}'])
def test_damaged_scores_stop_no_evaluation(tmp_path, text):
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / "scores.json").write_text(text)
    keep_other_scores(tmp_path / "news", "news", how(), [], RUN)
