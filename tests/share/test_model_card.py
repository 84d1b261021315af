"""The model card says what a model is, from its settings, its scores and the docstrings of its classes."""

import json
import re
import shutil

import hydra.utils
import pytest
import yaml
from compositions import choices, configured
from omegaconf import OmegaConf
from share.conftest import SCORES, SIGNATURE

from nmt.config.allowed_targets import walk
from nmt.report.render.table import escape_markdown
from nmt.runs.trained_model import TrainedRun
from nmt.share.model_card import PAPERS, list_papers, write_card


@pytest.fixture(scope="module")
def card(run):
    return write_card(TrainedRun(str(run)), "hf:somebody/model")


def test_the_first_lines_are_metadata_without_a_licence(card):
    _, head, text = card.split("---\n", 2)
    assert yaml.safe_load(head) == {
        "language": ["toy", "toy"],
        "pipeline_tag": "translation",
        "tags": ["translation", "rnn", "attention", "nmt-experiments"],
    }
    assert "# license: choose one" in head
    assert "## Licence\n\nNot chosen yet." in text


def test_mechanism_sizes_data_and_command_are_named(card, run):
    facts = dict(re.findall(r"^\| (.+?) \| (.*) \|$", card, re.M))
    model = TrainedRun(str(run)).model
    assert facts["attention/coverage"] == "NeuralGRU"
    assert facts["parameters"] == f"{sum(parameter.numel() for parameter in model.parameters()):,}"
    assert facts["sizes"].startswith("embedding 24, encoder 16, hidden 32")
    assert facts["vocabularies"] == "60 and 50 (words)"
    assert (facts["data"], facts["training steps"]) == ("toy", "7")
    assert facts["trained with"] == "train.py attention=coverage seed=3"


def test_text_of_somebody_elses_run_is_neither_metadata_nor_markup(run):
    model = TrainedRun(str(run))
    hostile = "x</details><script>1</script>\n---\nlicense: evil\n![x](http://evil)"
    model.config.data.source.language = hostile
    model.config.data.name = hostile
    _, head, text = write_card(model).split("---\n", 2)
    assert yaml.safe_load(head).keys() == {"language", "pipeline_tag", "tags"}
    assert "<script>" not in text
    assert "](http" not in text.replace("](https://aclanthology", "").replace("](https://arxiv", "")


def test_classes_outside_the_project_are_named(card, run, tmp_path):
    assert "`nmt-experiments`. The folder has no code" in card
    (tmp_path / "parts_of_card.py").write_text(
        "from nmt.model.readout import StateOnly\n\nclass Mine(StateOnly): pass\n"
    )
    model = TrainedRun(str(run))
    model.config.model.decoder.readout._target_ = "parts_of_card.Mine"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        text = write_card(model)
    assert "It needs the Python package `nmt-experiments`, and a folder with `parts_of_card.Mine`." in text
    assert 'load("hf:OWNER/NAME", user_dir="FOLDER")' in text


def test_scores_come_with_search_and_signature(card):
    assert f"| test | 1000 | 12.35 | 45.68 | beam=12 length_penalty=0.0 | {escape_markdown(SIGNATURE)} |" in card


@pytest.mark.parametrize(
    "changes",
    [
        {"members": [{"run": "run", "checkpoint": "last.ckpt", "step": 7}]},
        {"members": [{"run": "run", "checkpoint": "best.ckpt", "step": 8}]},
        {"members": SCORES["members"] * 2},
        {"scores": {}},
        {"scores": None},
    ],
)
def test_scores_of_other_weights_and_damaged_ones_are_left_out(run, tmp_path, caplog, changes):
    other = shutil.copytree(run, tmp_path / "run")
    (other / "test" / "scores.json").write_text(json.dumps(SCORES | changes))
    text = write_card(TrainedRun(str(other)))
    assert "## Scores\n\nNot known.\n" in text
    assert "test/scores.json " in caplog.text
    assert f"its scores are not known. Fix: python evaluate.py run={other}, then export it" in caplog.text


def test_scores_of_a_changed_text_name_the_change(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "run")
    change = "data.tests.test.source=first10"
    (other / "test" / "scores.json").write_text(json.dumps(SCORES | {"data_overrides": [change]}))
    assert f" | beam=12 length_penalty=0.0 {change} | " in write_card(TrainedRun(str(other)))


def test_the_model_is_loaded_in_three_lines(card, run, exported):
    (block,) = re.findall(r"^```python\n(.*?)^```$", card, re.M | re.S)
    assert "hf:somebody/model" in block
    exec(block.replace("hf:somebody/model", str(exported)), {})
    assert 'load("hf:OWNER/NAME")' in write_card(TrainedRun(str(run)))


def test_the_papers_of_the_parts_are_cited(run):
    papers = "\n".join(list_papers(TrainedRun(str(run))))
    assert "Modeling Coverage for Neural Machine Translation" in papers
    assert "Jointly Learning to Align and Translate" in papers
    assert "Memory-enhanced" not in papers


PARTS = {
    "Meng 2016": "attention=interactive",
    "Sankaran 2016": "attention=temporal",
    "Wang 2016": "memory=buffer",
    "Graves 2013": "attention=mixture",
    "Tu 2017": "decoder/context_gate=both",
    "Luong 2015": "attention/window=local_m",
}


@pytest.mark.parametrize("paper", PARTS)
def test_a_part_of_a_paper_names_it_in_its_docstring(paper):
    (group, choice) = PARTS[paper].split("=")
    assert choice in choices(group)
    config = configured(PARTS[paper])
    config.model.source_vocabulary_size = config.model.target_vocabulary_size = 9
    model = OmegaConf.to_container(config.model, resolve=True)
    targets = [node["_target_"] for _, node in walk(model, "model") if isinstance(node, dict) and "_target_" in node]
    assert any(paper in hydra.utils.get_object(target).__doc__ for target in targets)


def test_every_reference_has_an_address():
    papers = yaml.safe_load(PAPERS.read_text(encoding="utf-8"))
    address = re.compile(r".* https://arxiv\.org/abs/\d{4}\.\d{4,5}")
    assert [paper for paper, reference in papers.items() if not address.fullmatch(reference)] == []
