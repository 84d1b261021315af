"""Run folders are read whole or damaged, and compared setting by setting."""

import base64
import json
import re
import zlib
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from pytorch_lightning.callbacks import ModelCheckpoint
from report.folders import pairs, with_gold, with_traces, write_run

from nmt.errors import UserError
from nmt.report.compare.setting_differences import collect_settings, find_differences, group_seeds, name_systems
from nmt.report.load.evaluated_runs import load_evaluation, load_run
from nmt.report.load.learning_curves import MAX_POINTS, load_curves, read_curves, thin_out
from nmt.report.load.run_folder import find_runs, find_wandb, read_run, read_settings
from nmt.report.load.run_names import name_runs, shorten_paths
from nmt.report.render.page_payload import pack_alignments
from nmt.runs.checkpoint_file import save_checkpoint
from nmt.system.safe_files import UnreadableError
from nmt.training.experiment import results
from nmt.web.live_comparison import watch_files


def test_names_are_paths_without_their_common_folder(tmp_path):
    assert shorten_paths(["runs/a", "runs/b"]) == ["a", "b"]
    assert shorten_paths(["runs/a/1", "runs/b/1"]) == ["a/1", "b/1"]
    assert shorten_paths(["runs/a", "runs/a/checkpoints/last.ckpt"]) == ["a", "a/checkpoints/last.ckpt"]
    assert shorten_paths([str(tmp_path)]) == [tmp_path.name]


def test_an_undamaged_run_is_read_without_notes(tmp_path):
    run = load_run(read_run(write_run(tmp_path / "a", overrides=("attention=additive",))), "test")
    assert run.problem == ""
    assert (run.settings.seed, run.settings.choices["attention"], run.tests) == (1, "additive", ["test"])
    assert run.overrides == ["attention=additive", "seed=1"]
    assert run.evaluation.scores["aer"] == 20.0
    assert run.evaluation.tokenization == {"tokenize": "none", "lowercase": False}
    assert [sentence.source for sentence in run.evaluation.sentences] == [source for source, _ in pairs(20)]
    curves = load_curves(run)
    assert list(curves.series) == ["loss", "perplexity", "bleu"]
    assert curves.speed == 1200
    assert (run.notes, curves.notes) == ((), ())


def test_a_shared_model_that_was_evaluated_is_read_with_its_settings(tmp_path):
    """A shared model has no files of its training."""
    folder = write_run(tmp_path / "model", seed=3)
    config = yaml.safe_load((folder / ".hydra" / "config.yaml").read_text())
    for path in (*(folder / ".hydra").iterdir(), folder / "summary.json", folder / "metrics.csv"):
        path.unlink()
    (folder / ".hydra").rmdir()
    (folder / "model.safetensors").touch()
    (folder / "config.json").write_text(json.dumps({"step": 7, "config": config}))
    run = load_run(*find_runs([str(folder)]), "test")
    assert (run.problem, run.notes, run.summary) == ("", (), {"status": "shared"})
    assert (run.settings.config, run.settings.seed) == (config, 3)
    (folder / "config.json").write_text("{")
    assert load_run(*find_runs([str(folder)]), "test").notes == ("config.json is not JSON: its settings are not known",)


def test_each_run_under_a_folder_is_listed_once(tmp_path):
    for name in ("seed=10", "seed=2", "seed=1"):
        write_run(tmp_path / "many" / "sweep" / name)
    (tmp_path / "many" / "②").mkdir()
    runs = find_runs([str(tmp_path / "many"), str(tmp_path / "many" / "sweep" / "seed=2")])
    assert [run.name for run in runs] == ["seed=1", "seed=2", "seed=10"]


def test_a_run_on_another_disk_is_found_by_its_link(tmp_path):
    write_run(tmp_path / "sweep" / "seed=1")
    write_run(tmp_path / "other disk")
    (tmp_path / "sweep" / "seed=2").symlink_to(tmp_path / "other disk")
    (tmp_path / "sweep" / "a loop").symlink_to(tmp_path / "sweep")
    assert [run.folder for run in find_runs([str(tmp_path / "sweep")])] == [
        tmp_path / "sweep" / name for name in ("seed=1", "seed=2")
    ]
    assert {path.parent.name for path in watch_files([str(tmp_path / "sweep")])} >= {"seed=1", "seed=2"}


@pytest.mark.parametrize("named", ["", "many", "many/sweep"])
def test_waiting_jobs_are_read_from_every_sweep_under_a_folder(tmp_path, named):
    sweep = tmp_path / "many" / "sweep"
    write_run(sweep / "seed=1")
    write_run(tmp_path / "many" / "single")
    jobs = [{"folder": f"seed={seed}", "overrides": [f"seed={seed}"], "status": "waiting"} for seed in (1, 2)]
    (sweep / "sweep.json").write_text(json.dumps({"jobs": jobs}))
    *begun, waiting = find_runs([str(tmp_path / named)])
    assert len(begun) == (1 if named == "many/sweep" else 2)
    assert all(run.problem == "" for run in begun)
    assert waiting.folder == sweep / "seed=2"
    assert waiting.problem == "waiting: it has not begun"


@pytest.mark.parametrize(
    ("path", "message"),
    [("nowhere", "no such folder"), ("file", "is a file"), ("", "no run there. Fix: name a folder")],
)
def test_a_path_without_runs_is_an_error(tmp_path, path, message):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=message):
        find_runs([str(tmp_path / path)])


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("test/scores.json", "{", "test/scores.json is not JSON"),
        ("test/scores.json", "[]", "not a JSON object"),
        ("test/scores.json", '{"scores": {"chrf": 1}}', "holds no BLEU"),
        ("test/scores.json", '{"scores": {"bleu": NaN}}', "holds no BLEU"),
        ("test/scores.json", '{"scores": {"bleu": 1}, "sentences": 3}', "of 3 sentences, sentences.jsonl of 20"),
        ("test/scores.json", "\ud800", "is not text"),
        ("test/sentences.jsonl", "", "is empty"),
        ("test/sentences.jsonl", '{"source": 1}\n', "sentences.jsonl, line 1: not a sentence's JSON"),
        ("test/sentences.jsonl", None, "has no test/sentences.jsonl: evaluate it again"),
    ],
)
def test_the_error_of_a_damaged_evaluation_names_the_damage(tmp_path, file, content, reason):
    run = read_run(write_run(tmp_path / "a"))
    if content is None:
        (run.folder / file).unlink()
    else:
        (run.folder / file).write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UnreadableError, match=reason):
        load_evaluation(run, "test")


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        ('{"status": "failed", "error": "ValueError: no\\nmore"}', "^failed: ValueError: no$"),
        ('{"status": "running"}', "^running$"),
        ("{}", "no status"),
        ("nothing", "summary.json is not JSON"),
        (None, "has no summary.json"),
    ],
)
def test_a_run_that_is_not_completed_has_a_reason(tmp_path, summary, reason):
    path = write_run(tmp_path / "a") / "summary.json"
    path.unlink() if summary is None else path.write_text(summary)
    assert re.search(reason, read_run(tmp_path / "a").problem)


@pytest.mark.parametrize(
    ("best", "evaluated", "notes"),
    [
        (("best.ckpt", 72), ("best.ckpt", 36), ["evaluated at step 36, trained further since; evaluate it again"]),
        (("best.ckpt", 12), ("best.ckpt", 36), ["evaluated at step 36, trained anew since; evaluate it again"]),
        (("best.ckpt", 36), ("best.ckpt", 36), []),
        (("best.ckpt", 36), ("last.ckpt", 72), ["evaluated with last.ckpt, step 72; its best is best.ckpt"]),
        (("best.ckpt", None), ("best.ckpt", 36), []),  # as runs of old
    ],
)
def test_scores_of_weights_that_are_not_the_best_are_noted(tmp_path, best, evaluated, notes):
    now = {"metric": "valid/bleu", "score": 1.0, "checkpoint": f"checkpoints/{best[0]}", "step": best[1]}
    run = read_run(write_run(tmp_path / "a", summary={"best": now}))
    path = run.folder / "test" / "scores.json"
    members = [{"run": "a", "checkpoint": evaluated[0], "step": evaluated[1]}]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"members": members}))
    assert load_run(run, "test").notes == tuple(notes)


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        ({"metric": "valid/bleu", "score": 31.5, "step": 7}, {"metric": "valid/bleu", "score": 31.5}),
        ({"metric": "valid/bleu", "score": float("nan")}, {}),
        ({"metric": "valid/bleu", "score": "31.5"}, {}),
        ({"metric": ["valid/bleu"], "score": 31.5}, {}),
        ({"score": 31.5}, {}),
        (["valid/bleu", 31.5], {}),
        (None, {}),
    ],
)
def test_a_best_score_is_a_number_with_a_name(tmp_path, best, expected):
    assert read_run(write_run(tmp_path / "a", summary={"best": best})).best == expected


def test_the_summary_has_the_step_of_the_best_checkpoint(tmp_path):
    path = tmp_path / "checkpoints" / "best.ckpt"
    best = ModelCheckpoint(monitor="valid/bleu")
    best.best_model_score, best.best_model_path = 1.0, str(path)
    trainer = SimpleNamespace(
        checkpoint_callbacks=[best],
        global_step=72,
        current_epoch=6,
        lightning_module=SimpleNamespace(guard=SimpleNamespace(skipped=0, spikes=0)),
        callback_metrics={},
        default_root_dir=str(tmp_path),
    )
    assert results(trainer)["best"]["step"] is None  # a missing file does not fail the run
    save_checkpoint({"nmt": {}, "global_step": 36}, path)
    assert results(trainer)["best"]["step"] == 36


def test_damaged_metrics_and_settings_are_lost_alone(tmp_path):
    folder = write_run(tmp_path / "a")
    (folder / "metrics.csv").write_text("step,valid/bleu\n1,much\n")
    (folder / ".hydra" / "config.yaml").write_text("{[")
    (folder / ".hydra" / "overrides.yaml").unlink()
    run = load_run(read_run(folder), "test")
    curves = load_curves(run)
    assert (curves.series, run.settings.config, run.overrides) == ({}, {}, [])
    assert run.notes == (
        ".hydra/config.yaml is not YAML: its settings are not known",
        "has no .hydra/overrides.yaml: its command line is not known",
    )
    assert curves.notes == ("metrics.csv, line 2: valid/bleu is not a number: no learning curves",)
    assert run.evaluation.scores["bleu"] > 0


def test_the_newest_folder_of_wandb_may_be_of_an_offline_run(tmp_path):
    run = write_run(tmp_path / "run")
    for name in ("run-20260101_120000-abc", "offline-run-20260102_120000-abc"):
        (run / "wandb" / name).mkdir(parents=True)
    assert find_wandb(read_run(run)) == str(run / "wandb" / "offline-run-20260102_120000-abc")


def test_loading_a_run_again_changes_neither_its_value_nor_its_notes(tmp_path):
    folder = write_run(tmp_path / "a=1")
    (folder / ".hydra" / "config.yaml").unlink()
    (folder / ".hydra" / "overrides.yaml").unlink()
    run = read_run(folder)
    notes = load_run(run, "test").notes
    assert notes == (
        "has no .hydra/overrides.yaml: its command line is not known",  # first for a job, because it names the job
        "has no .hydra/config.yaml: its settings are not known",
    )
    load_curves(run)
    assert load_run(run, "test").notes == notes
    assert run == read_run(folder)
    with pytest.raises(FrozenInstanceError):
        run.name = "other"


def test_metrics_are_read_up_to_an_unfinished_line(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,valid/bleu\n0,1,2.5\n0,2,\n\0\0\n0,3")
    assert read_curves(path).series == {"bleu": {"valid/bleu": [[1.0], [2.5]]}}


def test_long_curves_are_thinned_out_and_keep_their_ends():
    steps = list(range(10_000))
    assert [steps[0], steps[-1]] == [thin_out([steps, steps])[0][place] for place in (0, -1)]
    assert len(thin_out([steps, steps])[1]) == MAX_POINTS


def load_runs_on_test(folders):
    return [load_run(read_run(folder), "test") for folder in folders]


def test_damaged_alignments_are_lost_alone(tmp_path):
    runs = load_runs_on_test([write_run(tmp_path / name, seed=seed) for seed, name in enumerate("abcd")])
    (runs[1].folder / "test" / "alignments.npz").write_bytes(b"PK\3\4 nothing")
    (runs[2].folder / "test" / "alignments.npz").unlink()
    np.savez(runs[3].folder / "test" / "alignments.npz", **{"0": np.zeros((2, 2))})
    alignments, notes = pack_alignments(runs, max_bytes=1e6)
    assert [chunks is None for chunks in alignments["runs"]] == [False, True, True, True]
    assert notes == [
        (),
        ("alignments.npz is damaged: no alignments; evaluate it again",),
        ("there is no alignments.npz: no alignments; evaluate it again",),
        ("alignments.npz is damaged (KeyError): no alignments; evaluate it again",),
    ]
    assert [run.notes for run in runs] == [()] * 4
    assert sorted(alignments["order"]) == list(range(20))


def test_traces_are_packed_as_layers_and_damaged_traces_are_lost_alone(tmp_path):
    runs = load_runs_on_test([write_run(tmp_path / name, seed=seed) for seed, name in enumerate("abcd")])
    for run in runs[1:]:
        with_traces(run.folder)
    (runs[2].folder / "test" / "traces.npz").write_bytes(b"PK\3\4 nothing")
    np.savez(runs[3].folder / "test" / "traces.npz", **{"coverage/0": np.zeros((1, 1, 1))})
    packed, notes = pack_alignments(runs, max_bytes=1e6)
    assert [chunks is None for chunks in packed["layers"]] == [True, False, True, True]
    assert None not in packed["runs"]
    assert notes == [
        (),
        (),
        ("traces.npz is damaged: no traces; evaluate it again with traces=true",),
        ("traces.npz is damaged (ValueError): no traces; evaluate it again with traces=true",),
    ]
    stored = np.load(runs[1].folder / "test" / "traces.npz")
    (chunk,) = (json.loads(zlib.decompress(base64.b64decode(chunk))) for chunk in packed["layers"][1])
    for number, layers in zip(packed["order"], chunk, strict=True):
        assert [(layer["name"], layer["kind"]) for layer in layers] == [
            ("coverage", "map"),
            ("fertility", "numbers"),
            ("position", "line"),
            ("memory_weights", "cells"),
        ]
        for layer, values in zip(layers, (stored[f"{layer['name']}/{number}"] for layer in layers), strict=True):
            expected = {"numbers": values[0], "cells": values[:, 0] if values.ndim == 3 else None}
            np.testing.assert_allclose(layer["values"], expected.get(layer["kind"], values), atol=0.001)


def test_gold_links_are_packed_with_forced_attention_and_damaged_ones_are_lost_alone(tmp_path):
    runs = load_runs_on_test([write_run(tmp_path / name, seed=seed) for seed, name in enumerate("abcd")])
    for run in runs[1:]:
        with_gold(run.folder)
    (runs[2].folder / "test" / "forced_alignments.npz").write_bytes(b"PK\3\4 nothing")
    arrays = {"weights/0": np.eye(2), "gold/0": np.eye(2)}  # of other numbers of words
    np.savez(runs[3].folder / "test" / "forced_alignments.npz", **arrays)
    packed, notes = pack_alignments(runs, max_bytes=1e6)
    assert [chunks is None for chunks in packed["forced"]] == [True, False, True, True]
    assert None not in packed["runs"]
    assert notes[:3] == [(), (), ("forced_alignments.npz is damaged: no gold links; evaluate it again",)]
    assert re.fullmatch(r"forced_alignments.npz is damaged \(\w+\): no gold links; evaluate it again", *notes[3])
    (chunk,) = packed["forced"][1]
    head, weights = zlib.decompress(base64.b64decode(chunk)).split(b"\0", 1)
    shapes = [(len(reference.split()), len(source.split())) for source, reference in pairs(20)]
    expected = [[*shapes[number], [[0, 0, 1.0], [1, 1, 0.5]]] for number in packed["order"]]
    assert json.loads(head) == expected
    first = np.frombuffer(weights, np.uint8)[: np.prod(expected[0][:2])].reshape(expected[0][:2])
    assert (first == 191 * np.eye(*first.shape)).all()  # 0.75 of 255


def test_without_room_all_runs_keep_the_alignments_of_the_same_sentences(tmp_path):
    runs = load_runs_on_test([write_run(tmp_path / name, seed=seed, lines=pairs(80)) for seed, name in enumerate("ab")])
    alignments, _ = pack_alignments(runs, max_bytes=1)
    differences = np.abs(runs[0].evaluation.sentence_bleu - runs[1].evaluation.sentence_bleu)
    kept = alignments["order"]
    assert len(kept) == alignments["together"]
    assert differences[kept].min() >= np.delete(differences, kept).max()
    assert pack_alignments(runs, max_bytes=0)[0]["order"] == []


def columns(*folders) -> list[dict]:
    runs = [read_run(folder) for folder in folders]
    settings = [read_settings(run) for run in runs]
    values = [collect_settings(of_run.config, {}) for of_run in settings]
    return find_differences(values, [of_run.choices for of_run in settings], [run.overrides for run in runs])


def group(folders, searches=None) -> list[list[int]]:
    configs = [read_settings(read_run(folder)).config for folder in folders]
    return group_seeds(
        [collect_settings(config, how) for config, how in zip(configs, searches or [{}] * len(configs), strict=True)]
    )


def test_a_choice_replaces_the_leaves_that_come_with_it(tmp_path):
    coverage = {"attention.coverage": {"_target_": "nmt.Coverage", "size": 5}, "logger.csv.save_dir": "there"}
    first = write_run(tmp_path / "a", changes={"name": "other", "data.dir": "elsewhere"})
    second = write_run(tmp_path / "b", changes=coverage, choices={"attention": "coverage"}, seed=2)
    assert columns(first, second) == [{"attention": "additive"}, {"attention": "coverage"}]


def test_a_reference_to_null_is_null(tmp_path):
    references = {"attention.coverage": None, "data.run": "${attention.coverage}", "name2": "${dropout}"}
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", changes=references, seed=2)
    assert columns(first, second) == [{"name2": None}, {"name2": "${dropout}"}]


def test_a_leaf_that_is_set_by_hand_has_a_column_beside_its_choice(tmp_path):
    coverage = {"attention.coverage": {"_target_": "nmt.Coverage", "size": 5}, "attention.score.bias": True}
    first = write_run(tmp_path / "a")
    second = write_run(
        tmp_path / "b",
        changes=coverage,
        choices={"attention": "coverage"},
        overrides=("attention=coverage", "attention.score.bias=true"),
    )
    third = write_run(tmp_path / "c", changes={"dropout": 0.3, "size.hidden": 64})
    assert columns(first, second, third) == [
        {"attention": "additive", "attention.score.bias": False, "size.hidden": 32, "dropout": 0.2},
        {"attention": "coverage", "attention.score.bias": True, "size.hidden": 32, "dropout": 0.2},
        {"attention": "additive", "attention.score.bias": False, "size.hidden": 64, "dropout": 0.3},
    ]


def test_runs_that_differ_in_the_seed_alone_are_one_system(tmp_path):
    folders = [write_run(tmp_path / f"{seed}", seed=seed) for seed in (1, 2)]
    folders += [write_run(tmp_path / "c", changes={"dropout": 0.3})]
    folders += [write_run(tmp_path / name) for name in ("d", "e")]
    for folder in folders[3:]:
        (folder / ".hydra" / "config.yaml").unlink()  # so that their settings are not known
    assert group(folders, [{"search.beam": 5}] * 5) == [[0, 1], [2], [3], [4]]


def test_another_search_makes_another_system_but_an_old_file_does_not(tmp_path):
    folder = write_run(tmp_path / "a")
    assert group([folder] * 3, [{"search.beam": 5}, {}, {"search.beam": 12}]) == [[0, 1], [2]]


def test_an_integer_equals_the_same_float_but_not_true(tmp_path):
    values = {"a": 1, "b": 1.0, "c": True, "d": 1.5}
    folders = [write_run(tmp_path / name, changes={"dropout": value}) for name, value in values.items()]
    assert group(folders) == [[0, 1], [2], [3]]
    assert columns(folders[0], folders[1]) == [{}, {}]
    assert columns(folders[0], folders[2]) == [{"dropout": 1}, {"dropout": True}]


def test_jobs_are_named_by_the_overrides_in_which_they_differ(tmp_path):
    folders = [tmp_path / f"attention={name},size=tiny" for name in ("dot", "additive")]
    overrides = [["size=tiny", f"attention={name}"] for name in ("dot", "additive")]
    assert name_runs(folders, overrides) == ["attention=dot", "attention=additive"]


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (["a"], "a"),
        (["attention=dot seed=1", "attention=dot seed=12"], "attention=dot"),
        (["dot_seed1", "dot_seed2"], "dot"),
        (["dot-s1", "dot-s2"], "dot"),
        (["one", "two"], "one …"),
        (["seed=1", "seed=2"], "seed=1 …"),
    ],
)
def test_systems_are_named_by_what_the_names_of_their_runs_share(names, name):
    assert name_systems([names, names]) == [name, f"{name} (2)"]
