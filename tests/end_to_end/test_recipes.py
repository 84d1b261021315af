"""Every recipe has its paper's settings, as in a table here, and trains two steps, or is like one that does."""

import json
import sys
from functools import cache

import pytest
import torch
from commands import answer, quick_python
from compositions import choices, configured, recipes
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from nmt.config.installation import CONF_DIR
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import Search

STAR_80 = "meng2016/rnnsearch_star_80"
SETTINGS = ("size", "encoder", "decoder", "initialization", "optimizer", "batch", "max_length", "words", "clip", "per")
PAPERS = {
    "luong2015": (
        "1000/1000x4",
        "LSTMEncoder",
        "Luong",
        "uniform_",
        "SGD 1.0",
        128,
        50,
        "words 50000",
        5.0,
        "sentences",
    ),
    "tu2016": (
        "620/1000x1",
        "GRUEncoder",
        "Bahdanau",
        "normal_ 0.01 0.001",
        "Adadelta 0.95 1e-06",
        80,
        80,
        "words 30000",
        1.0,
        "sum",
    ),
    "wang2016": (
        "512/1024x1",
        "GRUEncoder",
        "Feedback",
        "normal_ 0.01 0.01",
        "Adadelta 0.95 1e-06",
        80,
        50,
        "words 30000",
        1.0,
        "sentences",
    ),
    "meng2016": (
        "620/1000x1",
        "GRUEncoder",
        "Conditional",
        "normal_ 0.01 0.01",
        "Adadelta 0.95 1e-06",
        80,
        50,
        "words 30000",
        1.0,
        "sentences",
    ),
    "sankaran2016/zhen": (
        "300/1000x1",
        "GRUEncoder",
        "Conditional",
        "normal_ 0.01 0.01",
        "Adadelta 0.95 1e-06",
        80,
        80,
        "words 300000",
        1.0,
        "sentences",
    ),
    "sankaran2016/enjp": (
        "300/1000x1",
        "GRUEncoder",
        "Conditional",
        "normal_ 0.01 0.01",
        "Adadelta 0.95 1e-06",
        80,
        80,
        "words 100000",
        1.0,
        "sentences",
    ),
    "sankaran2016/deen": (
        "620/1000x1",
        "GRUEncoder",
        "Conditional",
        "normal_ 0.01 0.01",
        "Adadelta 0.95 1e-06",
        80,
        80,
        "bpe 60000",
        1.0,
        "sentences",
    ),
}
GROUNDHOG = PAPERS["tu2016"]
SEARCHES = {  # beam, length_penalty (0: sums of log-probabilities, 1: means), shortest_ratio
    "luong2015": (12, 0.0, 0.5),
    "tu2016": (10, 0.0, 0.5),
    "sankaran2016": (5, 1.0, 0.0),
    "wang2016": (5, 1.0, 0.0),
    "meng2016": (5, 1.0, 0.0),
}
# Settings of each row: attention parts and memory, dropout (everywhere / in the readout), the rest by name.
ROWS = {
    "luong2015/base": ("none", (0.0, 0.0), {"fed": False, "reverse": False, "epochs": 10, "halved": 5}),
    "luong2015/base_reverse": ("none", (0.0, 0.0), {"fed": False, "reverse": True, "epochs": 10, "halved": 5}),
    "luong2015/base_reverse_dropout": ("none", (0.2, 0.2), {"fed": False, "reverse": True, "epochs": 12, "halved": 8}),
    "luong2015/global_location": ("Location", (0.2, 0.2), {"fed": False, "epochs": 12}),
    "luong2015/global_location_feed": ("Location", (0.2, 0.2), {"fed": True, "positions": 50}),
    "luong2015/global_dot_feed": ("Dot", (0.2, 0.2), {"fed": True}),
    "luong2015/global_general_feed": ("General", (0.2, 0.2), {"fed": True}),
    "luong2015/local_m_dot_feed": ("Dot Monotonic", (0.2, 0.2), {"fed": True, "window": 10}),
    "luong2015/local_m_general_feed": ("General Monotonic", (0.2, 0.2), {"fed": True, "window": 10}),
    "luong2015/local_p_dot_feed": ("Dot Predictive", (0.2, 0.2), {"fed": True, "window": 10}),
    "luong2015/local_p_general_feed": ("General Predictive", (0.2, 0.2), {"fed": True, "window": 10}),
    "luong2015/global_concat_feed": ("Concat", (0.2, 0.2), {"fed": True, "identity": True}),
    "luong2015/local_m_concat_feed": ("Concat Monotonic", (0.2, 0.2), {"fed": True, "identity": True}),
    "luong2015/local_p_concat_feed": ("Concat Predictive", (0.2, 0.2), {"fed": True, "identity": True}),
    "luong2015/deen_base": ("none", (0.0, 0.0), {"fed": False, "reverse": True, "epochs": 10}),
    "luong2015/deen_global_location": ("Location", (0.0, 0.0), {"fed": False, "epochs": 10}),
    "luong2015/deen_global_location_feed": ("Location", (0.0, 0.0), {"fed": True, "epochs": 10}),
    "luong2015/deen_global_dot_drop_feed": ("Dot", (0.2, 0.2), {"fed": True, "epochs": 12}),
    "tu2016/groundhog": ("Additive", (0.0, 0.0), {}),
    "tu2016/linguistic": ("Additive Linguistic", (0.0, 0.0), {"coverage": None}),
    "tu2016/linguistic_fertility": ("Additive Fertility", (0.0, 0.0), {"most": 2.0}),
    "tu2016/linguistic_fertility_objective": ("Additive Fertility FertilityObjective", (0.0, 0.0), {"penalty": 1.0}),
    "tu2016/neural_tanh_d1": ("Additive NeuralTanh", (0.0, 0.0), {"coverage": 1}),
    "tu2016/neural_gru_d1": ("Additive NeuralGRU", (0.0, 0.0), {"coverage": 1}),
    "tu2016/neural_gru_d10": ("Additive NeuralGRU", (0.0, 0.0), {"coverage": 10}),
    "sankaran2016/zhen_lvnmt": ("Additive", (0.0, 0.0), {}),
    "sankaran2016/zhen_temporal": ("Additive Temporal", (0.0, 0.0), {"remembers": None}),
    "sankaran2016/zhen_coverage_embedding": ("Additive Embedding", (0.0, 0.0), {"coverage": 100}),
    "sankaran2016/deen_nmt": ("Additive", (0.0, 0.0), {}),
    "sankaran2016/deen_temporal": ("Additive Temporal", (0.0, 0.0), {"remembers": None}),
    "sankaran2016/deen_coverage_embedding": ("Additive Embedding", (0.0, 0.0), {"coverage": 100}),
    "sankaran2016/deen_local": ("Additive Monotonic", (0.0, 0.0), {"window": 10}),
    "sankaran2016/deen_doubly_stochastic": ("Additive DoublyStochastic", (0.0, 0.0), {"penalty": 1.0}),
    "sankaran2016/enjp_lvnmt": ("Additive", (0.0, 0.0), {}),
    "sankaran2016/enjp_temporal": ("Additive Temporal", (0.0, 0.0), {"remembers": None}),
    "wang2016/groundhog": ("Additive", (0.0, 0.0), {}),
    "wang2016/rnnsearch_star": ("Additive", (0.0, 0.5), {"stage": None}),
    "wang2016/rnnsearch_feedback": ("Additive", (0.0, 0.0), {"stage": None}),
    "wang2016/rnnsearch_star_coverage": ("Additive NeuralGRU", (0.0, 0.5), {"coverage": 10}),
    "wang2016/memdec": ("Additive Buffer", (0.0, 0.5), {"cells": 8, "stage": "wang2016/rnnsearch_star"}),
    "wang2016/memdec_n4": ("Additive Buffer", (0.0, 0.5), {"cells": 4, "stage": "wang2016/rnnsearch_star"}),
    "wang2016/memdec_n6": ("Additive Buffer", (0.0, 0.5), {"cells": 6, "stage": "wang2016/rnnsearch_star"}),
    "wang2016/memdec_n10": ("Additive Buffer", (0.0, 0.5), {"cells": 10, "stage": "wang2016/rnnsearch_star"}),
    "wang2016/memdec_n12": ("Additive Buffer", (0.0, 0.5), {"cells": 12, "stage": "wang2016/rnnsearch_star"}),
    "wang2016/memdec_n4_fresh": ("Additive Buffer", (0.0, 0.5), {"cells": 4, "stage": None, "shared_memory": True}),
    "meng2016/groundhog": ("Additive", (0.0, 0.0), {}),
    "meng2016/rnnsearch_star": ("Additive", (0.0, 0.5), {}),
    "meng2016/nmt_ia": ("Additive Interactive", (0.0, 0.5), {"stage": "meng2016/rnnsearch_star", "shared": True}),
    "meng2016/rnnsearch_star_80": ("Additive", (0.0, 0.5), {"max_length": 80}),
    "meng2016/nn_cover_80": ("Additive NeuralGRU", (0.0, 0.5), {"max_length": 80, "coverage": 10}),
    "meng2016/nmt_ia_80": ("Additive Interactive", (0.0, 0.5), {"stage": STAR_80, "max_length": 80}),
}  # fmt: skip
SCORES = {  # of the papers, as evaluation and table.md call them
    "perplexity", "bleu", "bleu_nist", "bleu_tokenized", "bleu_unknown_replaced", "brevity_penalty", "tb", "ribes",
    "aer", "saer", "alignment_precision", "alignment_recall", "alignment_f1",
}  # fmt: skip
TRAINED = {  # each recipe that is not trained here, and the trained one that has other numbers, but the same parts
    "luong2015/base_reverse_dropout": "luong2015/base_reverse",
    "luong2015/deen_base": "luong2015/base_reverse",
    "luong2015/deen_global_location": "luong2015/global_location",
    "luong2015/deen_global_location_feed": "luong2015/global_location_feed",
    "luong2015/deen_global_dot_drop_feed": "luong2015/global_dot_feed",
    "tu2016/neural_gru_d1": "tu2016/neural_gru_d10",
    "sankaran2016/enjp_lvnmt": "sankaran2016/zhen_lvnmt",
    "sankaran2016/enjp_temporal": "sankaran2016/zhen_temporal",
    "wang2016/memdec_n6": "wang2016/memdec",
    "wang2016/memdec_n10": "wang2016/memdec",
    "wang2016/memdec_n12": "wang2016/memdec",
    "meng2016/rnnsearch_star_80": "meng2016/rnnsearch_star",
    "meng2016/nmt_ia_80": "meng2016/nmt_ia",
}
PARTS = ("score", "window", "history", "coverage", "writing", "penalty")
ROW_KEYS = {
    "reverse": "encoder.reverse",
    "epochs": "trainer.max_epochs",
    "halved": "schedule.after",
    "fed": "decoder.input_feeding",
    "positions": "attention.score.positions",
    "identity": "attention.score.identity_source",
    "penalty": "attention.penalty.weight",
    "window": "attention.window.half_width",
    "coverage": "attention.coverage.size",
    "most": "attention.coverage.most",
    "remembers": "attention.history.window",
    "cells": "memory.cells",
    "shared": "attention.writing.shared",
    "shared_memory": "memory.shared",
    "stage": "pretraining.experiment",
    "max_length": "data.max_length",
}


each = pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in recipes()])


@cache
def compose_recipe(name, *overrides):
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        return compose("config", overrides=[f"experiment={name}", *overrides])


def class_name(node):
    return None if node is None else node["_target_"].split(".")[-1]


def describe_initialization(node):
    return " ".join(
        [
            class_name(node["matrix"]),
            *(f"{node[part].std:g}" for part in ("matrix", "attention") if "std" in node[part]),
        ]
    )


def collect_settings(config):
    size, data = config.size, config.data
    optimizer = config.optimizer
    rates = (optimizer.rho, f"{optimizer.eps:g}") if "rho" in optimizer else (optimizer.lr,)
    return (
        f"{size.embedding}/{size.hidden}x{size.layers if 'LSTM' in class_name(config.encoder) else 1}",
        class_name(config.encoder),
        class_name(config.decoder),
        describe_initialization(config.initialization),
        " ".join([class_name(optimizer), *map(str, rates)]),
        data.batches.size,
        data.max_length,
        f"{data.vocabulary.kind} {data.vocabulary.size}",
        config.trainer.gradient_clip_val,
        config.loss.normalize,
    )


def select_setting(config, path):
    for key in path.split("."):
        config = None if config is None else config.get(key)
    return config


@each
def test_a_recipe_has_its_papers_settings(name):
    config = compose_recipe(name)
    paper, row = name.split("/")
    expected = PAPERS.get(paper) or PAPERS[f"{paper}/{row.split('_')[0]}"]
    parts, dropout, row_settings = ROWS[name]
    if row == "groundhog":
        expected = (*GROUNDHOG[:6], expected[6], *GROUNDHOG[7:])
    if "max_length" in row_settings:
        expected = (*expected[:6], row_settings["max_length"], *expected[7:])
    assert dict(zip(SETTINGS, collect_settings(config), strict=True)) == dict(zip(SETTINGS, expected, strict=True))
    present = [class_name(config.attention.get(part)) for part in PARTS] + [class_name(config.memory)]
    assert " ".join(part for part in present if part not in (None, "NoMemory")) == parts.removeprefix("none")
    assert (config.dropout, config.decoder.readout.dropout) == dropout
    assert {key: select_setting(config, ROW_KEYS[key]) for key in row_settings} == row_settings
    assert config.name == name
    assert config.paper.rows
    assert config.paper.departures.data


@each
def test_a_recipe_has_its_papers_search_and_says_where_it_is_from(name):
    config = compose_recipe(name)
    beam, length_penalty, shortest_ratio = SEARCHES[name.split("/")[0]]
    named = {"beam": beam, "length_penalty": length_penalty, "shortest_ratio": shortest_ratio}
    if name.startswith("luong2015/") and "location" not in name:  # footnote 14
        named["aligned_word"] = "read"
    assert instantiate(config.search) == Search(**named)
    assert instantiate(config.validation) == Search(beam=1)
    assert config.paper.departures.search.startswith("not said in the paper; ")


@each
def test_a_recipe_keeps_rare_words_or_says_that_it_does_not(name):
    config = compose_recipe(name)  # data=toy, which leaves out words that occur fewer than five times
    if config.data.vocabulary.kind == "words" and config.data.vocabulary.minimum_count != 1:
        assert "data.vocabulary.minimum_count" in config.paper.departures.vocabulary


@pytest.mark.parametrize("name", [name for name in recipes() if name.startswith("wang2016/")])
def test_recipes_of_wang_2016_predict_words_with_a_maxout_layer(name):
    """Wang 2016 §3, Prediction (eq. 9)."""
    config = compose_recipe(name)
    assert class_name(config.decoder.readout) == "Maxout"
    assert config.decoder.readout.maxout_size == config.size.hidden / 2


@each
def test_size_changes_only_the_widths_of_a_recipe(name):
    paper, small = compose_recipe(name), compose_recipe(name, "size=tiny", "data=multi30k")
    assert small.size == configured().size
    for key in ("optimizer", "schedule", "loss", "trainer", "dropout", "paper", "fresh"):
        assert small[key] == paper[key], key
    assert small.data.name == "multi30k"
    assert small.data.batches == paper.data.batches


def test_every_table_contains_exactly_the_rows_that_name_it():
    for name in choices("table"):
        with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            config = compose("config", overrides=[f"+table={name}"], return_hydra_config=True)
        paper, table = name.split("_")
        rows = config.hydra.sweeper.params.experiment.replace(" ", "").split(",")
        assert config.tabulated.table == table
        assert sorted(rows) == sorted(
            row for row in recipes() if row.startswith(paper) and table in compose_recipe(row).paper.rows
        )
        names = [compose_recipe(row).paper.rows[table] for row in rows]
        listed = config.tabulated.get("rows", names)
        assert [row for row in listed if isinstance(row, str)] == names
        others = [row for row in listed if not isinstance(row, str)]
        assert all({"row", "figures"} <= row.keys() <= {"row", "figures", "output"} for row in others)
        figures = [row.figures for row in others] + [compose_recipe(row).paper.get("figures", {}) for row in rows]
        assert {score for of_row in figures for of_test in of_row.values() for score in of_test} <= SCORES
        assert set(config.tabulated.scores) <= SCORES


def without_numbers(node):
    if OmegaConf.is_dict(node):
        return {key: without_numbers(value) for key, value in node.items()}
    if OmegaConf.is_list(node):
        return [without_numbers(value) for value in node]
    return "a number" if type(node) in (int, float) else node


@pytest.mark.parametrize("name", TRAINED)
def test_a_recipe_that_is_not_trained_differs_from_a_trained_one_in_numbers_alone(name):
    recipe, trained = compose_recipe(name), compose_recipe(TRAINED[name])
    parts = ("encoder", "decoder", "initialization", "optimizer", "schedule", "loss")
    others = ("data.vocabulary", "data.candidates", "data.source_end", "fresh", "score_unknown")
    for part in (*parts, *others, "model.output_bias", "model.tie_embeddings"):
        values = [without_numbers(OmegaConf.select(config, part)) for config in (recipe, trained)]
        assert values[0] == values[1], part
    stages = [config.pretraining and config.pretraining.without for config in (recipe, trained)]
    assert stages[0] == stages[1]


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_keeps_its_learning_rate_while_one_batch_is_overfitted(name):
    config = configured(f"experiment={name}", "debug=overfit")
    optimizer = instantiate(config.optimizer)([torch.nn.Parameter(torch.zeros(1))])
    assert instantiate(config.schedule)(optimizer) is None
    assert optimizer.param_groups[0]["lr"] == 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in recipes() if name not in TRAINED])
def test_a_recipe_trains_two_steps(name, tmp_path_factory, tmp_path, capfd, monkeypatch):
    arguments = ("size=tiny", "debug=steps", "logger=none", "data.train.count=60", "data.valid.count=8")
    stages = tmp_path_factory.getbasetemp().parent / "pretraining"  # one folder for all workers
    arguments += (f"pretraining_folder={stages}", "data.vocabulary.size=120", f"hydra.run.dir={tmp_path}")
    monkeypatch.setattr(sys, "executable", quick_python())  # with which a stage is started
    status, stderr = answer("train", f"experiment={name}", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 0, stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["status"] == "completed"
    assert summary["steps"] == 2
    assert TrainedRun(str(tmp_path)).config.name == name
    if compose_recipe(name).pretraining is not None:
        assert summary["initialized_from"]["fresh"]
