"""Folders of runs are read as they are found, whole or damaged; what differs between them is found leaf by leaf."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from pytorch_lightning.callbacks import ModelCheckpoint
from report.folders import pairs, write_run

from nmt.errors import UserError
from nmt.report.compare.setting_differences import differing, folded, name_of_system, name_runs, settings_of
from nmt.report.load.learning_curves import POINTS, read_curves, thinned
from nmt.report.load.run_folder import RunFolder, find_runs, names_of
from nmt.report.load.safe_files import UnreadableError
from nmt.report.render.page_payload import packed_alignments, sentence_bleu
from nmt.runs.checkpoint_file import save_checkpoint
from nmt.training.experiment import _results


def test_names_are_as_short_as_they_can_be(tmp_path):
    assert names_of(["runs/a", "runs/b"]) == ["a", "b"]
    assert names_of(["runs/a/1", "runs/b/1"]) == ["a/1", "b/1"]
    assert names_of(["runs/a", "runs/a/checkpoints/last.ckpt"]) == ["a", "a/checkpoints/last.ckpt"]
    assert names_of([str(tmp_path)]) == [tmp_path.name]


def test_a_whole_run_is_read(tmp_path):
    run = RunFolder(write_run(tmp_path / "a", overrides=("attention=additive",)))
    run.must_be_completed()
    found = run.on("test")
    assert (run.seed, run.choices["attention"], run.tests) == (1, "additive", ["test"])
    assert run.overrides == ["attention=additive", "seed=1"]
    assert found.scores["aer"] == 20.0
    assert found.counting == {"tokenize": "none", "lowercase": False}
    assert [sentence.source for sentence in found.sentences] == [source for source, _ in pairs(20)]
    assert list(run.curves.series) == ["loss", "perplexity", "bleu"]
    assert run.curves.speed == 1200
    assert run.notes == []


def test_runs_are_found_under_any_folder_and_each_once(tmp_path):
    for name in ("seed=10", "seed=2", "seed=1"):
        write_run(tmp_path / "many" / "sweep" / name)
    runs = find_runs([str(tmp_path / "many"), str(tmp_path / "many" / "sweep" / "seed=2")])
    assert [run.name for run in runs] == ["seed=1", "seed=2", "seed=10"]


@pytest.mark.parametrize("named", ["", "many", "many/sweep"])
def test_jobs_that_have_not_begun_are_known_from_sweeps_wherever_these_lie(tmp_path, named):
    sweep = tmp_path / "many" / "sweep"
    write_run(sweep / "seed=1")
    write_run(tmp_path / "many" / "single")
    jobs = [{"folder": f"seed={seed}", "overrides": [f"seed={seed}"], "status": "waiting"} for seed in (1, 2)]
    (sweep / "sweep.json").write_text(json.dumps({"jobs": jobs}))
    *begun, waiting = find_runs([str(tmp_path / named)])
    assert len(begun) == (1 if named == "many/sweep" else 2)
    for run in begun:
        run.must_be_completed()
    assert waiting.folder == sweep / "seed=2"
    with pytest.raises(UnreadableError, match="waiting: it has not begun"):
        waiting.must_be_completed()


@pytest.mark.parametrize(("path", "said"), [("nowhere", "no such folder"), ("file", "is a file"), ("", "no run there")])
def test_paths_without_runs_are_told(tmp_path, path, said):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=said):
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
def test_a_damaged_evaluation_says_what_is_wrong(tmp_path, file, content, reason):
    run = RunFolder(write_run(tmp_path / "a"))
    if content is None:
        (run.folder / file).unlink()
    else:
        (run.folder / file).write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UnreadableError, match=reason):
        run.on("test")


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
def test_a_run_that_is_not_completed_says_so(tmp_path, summary, reason):
    run = RunFolder(write_run(tmp_path / "a"))
    (run.folder / "summary.json").unlink() if summary is None else (run.folder / "summary.json").write_text(summary)
    with pytest.raises(UnreadableError, match=reason):
        run.must_be_completed()


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
def test_scores_of_weights_that_are_no_longer_the_best_are_told(tmp_path, best, evaluated, notes):
    now = {"metric": "valid/bleu", "score": 1.0, "checkpoint": f"checkpoints/{best[0]}", "step": best[1]}
    run = RunFolder(write_run(tmp_path / "a", summary={"best": now}))
    path = run.folder / "test" / "scores.json"
    members = [{"run": "a", "checkpoint": evaluated[0], "step": evaluated[1]}]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"members": members}))
    run.on("test")
    assert run.notes == notes


@pytest.mark.parametrize(
    ("best", "told"),
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
def test_a_best_score_is_a_number_with_a_name(tmp_path, best, told):
    assert RunFolder(write_run(tmp_path / "a", summary={"best": best})).best == told


def test_the_summary_says_of_which_step_the_best_checkpoint_is(tmp_path):
    path = tmp_path / "checkpoints" / "best.ckpt"
    best = ModelCheckpoint(monitor="valid/bleu")
    best.best_model_score, best.best_model_path = 1.0, str(path)
    trainer = SimpleNamespace(
        checkpoint_callbacks=[best],
        global_step=72,
        current_epoch=6,
        lightning_module=SimpleNamespace(finite=SimpleNamespace(left_out=0, spikes=0)),
        callback_metrics={},
        default_root_dir=str(tmp_path),
    )
    assert _results(trainer, {})["best"]["step"] is None  # nor does a file that is gone spoil the end of the run
    save_checkpoint({"nmt": {}, "global_step": 36}, path)
    assert _results(trainer, {})["best"]["step"] == 36


def test_damaged_metrics_and_settings_cost_only_themselves(tmp_path):
    run = RunFolder(write_run(tmp_path / "a"))
    (run.folder / "metrics.csv").write_text("step,valid/bleu\n1,much\n")
    (run.folder / ".hydra" / "config.yaml").write_text("{[")
    (run.folder / ".hydra" / "overrides.yaml").unlink()
    assert (run.curves.series, run.config, run.overrides) == ({}, {}, [])
    assert run.notes == [
        "metrics.csv, line 2: valid/bleu is not a number: no learning curves",
        ".hydra/config.yaml is not YAML: its settings are not known",
        "has no .hydra/overrides.yaml: its command line is not known",
    ]
    assert run.on("test").scores["bleu"] > 0


def test_metrics_cut_off_in_the_middle_of_a_line_are_read_up_to_it(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,valid/bleu\n0,1,2.5\n0,2,\n\0\0\n0,3")
    assert read_curves(path).series == {"bleu": {"valid/bleu": [[1.0], [2.5]]}}


def test_long_curves_are_thinned_and_keep_their_ends():
    steps = list(range(10_000))
    assert [steps[0], steps[-1]] == [thinned([steps, steps])[0][place] for place in (0, -1)]
    assert len(thinned([steps, steps])[1]) == POINTS


def test_damaged_alignments_cost_only_themselves(tmp_path):
    runs = [RunFolder(write_run(tmp_path / name, seed=seed)) for seed, name in enumerate("abcd")]
    (runs[1].folder / "test" / "alignments.npz").write_bytes(b"PK\3\4 nothing")
    (runs[2].folder / "test" / "alignments.npz").unlink()
    np.savez(runs[3].folder / "test" / "alignments.npz", **{"0": np.zeros((2, 2))})
    evaluated = [(run, run.on("test")) for run in runs]
    found = packed_alignments(evaluated, [sentence_bleu(on) for _, on in evaluated], room=1e6)
    assert [chunks is None for chunks in found["runs"]] == [False, True, True, True]
    assert [len(run.notes) for run in runs] == [0, 1, 1, 1]
    assert sorted(found["order"]) == list(range(20))


def test_where_alignments_have_no_room_runs_agree_on_what_is_left_out(tmp_path):
    runs = [RunFolder(write_run(tmp_path / name, seed=seed, lines=pairs(80))) for seed, name in enumerate("ab")]
    evaluated = [(run, run.on("test")) for run in runs]
    scores = [sentence_bleu(on) for _, on in evaluated]
    found = packed_alignments(evaluated, scores, room=1)
    apart = np.abs(scores[0] - scores[1])
    kept = found["order"]
    assert len(kept) == found["together"]
    assert apart[kept].min() >= np.delete(apart, kept).max()
    assert packed_alignments(evaluated, scores, room=0)["order"] == []


def columns(runs: list[RunFolder]) -> list[dict]:
    settings = [settings_of(run, {}) for run in runs]
    return differing(settings, [run.choices for run in runs], [run.overrides for run in runs])


def test_a_choice_stands_for_the_leaves_that_come_with_it(tmp_path):
    coverage = {"attention.coverage": {"_target_": "nmt.Coverage", "size": 5}, "logger.csv.save_dir": "there"}
    first = RunFolder(write_run(tmp_path / "a", changes={"name": "other", "data.dir": "elsewhere"}))
    second = RunFolder(write_run(tmp_path / "b", changes=coverage, choices={"attention": "coverage"}, seed=2))
    assert columns([first, second]) == [{"attention": "additive"}, {"attention": "coverage"}]


def test_a_leaf_that_was_set_by_hand_has_a_column_beside_its_choice(tmp_path):
    coverage = {"attention.coverage": {"_target_": "nmt.Coverage", "size": 5}, "attention.score.bias": True}
    first = RunFolder(write_run(tmp_path / "a"))
    second = RunFolder(
        write_run(
            tmp_path / "b",
            changes=coverage,
            choices={"attention": "coverage"},
            overrides=("attention=coverage", "attention.score.bias=true"),
        )
    )
    third = RunFolder(write_run(tmp_path / "c", changes={"dropout": 0.3, "size.hidden": 64}))
    assert columns([first, second, third]) == [
        {"attention": "additive", "attention.score.bias": False, "size.hidden": 32, "dropout": 0.2},
        {"attention": "coverage", "attention.score.bias": True, "size.hidden": 32, "dropout": 0.2},
        {"attention": "additive", "attention.score.bias": False, "size.hidden": 64, "dropout": 0.3},
    ]


def test_runs_that_differ_in_the_seed_alone_are_one_system(tmp_path):
    runs = [RunFolder(write_run(tmp_path / f"{seed}", seed=seed)) for seed in (1, 2)]
    runs += [RunFolder(write_run(tmp_path / "c", changes={"dropout": 0.3}))]
    runs += [RunFolder(write_run(tmp_path / name)) for name in ("d", "e")]
    for run in runs[3:]:
        (run.folder / ".hydra" / "config.yaml").unlink()  # of these nothing is known
    assert folded([settings_of(run, {"search.beam": 5}) for run in runs]) == [[0, 1], [2], [3], [4]]


def test_another_search_makes_another_system_but_an_old_file_does_not(tmp_path):
    run = RunFolder(write_run(tmp_path / "a"))
    said, unsaid, other = ({"search.beam": 5}, {}, {"search.beam": 12})
    assert folded([settings_of(run, how) for how in (said, unsaid, other)]) == [[0, 1], [2]]


def test_a_whole_number_is_the_same_setting_with_a_point_and_true_is_not_one(tmp_path):
    values = {"a": 1, "b": 1.0, "c": True, "d": 1.5}
    runs = [RunFolder(write_run(tmp_path / name, changes={"dropout": value})) for name, value in values.items()]
    assert folded([settings_of(run, {}) for run in runs]) == [[0, 1], [2], [3]]


def test_jobs_are_called_by_what_tells_them_apart(tmp_path):
    runs = [
        RunFolder(write_run(tmp_path / f"attention={name},size=tiny", overrides=("size=tiny", f"attention={name}")))
        for name in ("dot", "additive")
    ]
    name_runs(runs)
    assert [run.name for run in runs] == ["attention=dot", "attention=additive"]


@pytest.mark.parametrize(
    ("names", "together"),
    [
        (["a"], "a"),
        (["attention=dot seed=1", "attention=dot seed=12"], "attention=dot"),
        (["dot_seed1", "dot_seed2"], "dot"),
        (["dot-s1", "dot-s2"], "dot"),
        (["one", "two"], "one …"),
        (["seed=1", "seed=2"], "seed=1 …"),
    ],
)
def test_systems_are_called_by_what_their_runs_share(names, together):
    assert name_of_system(names) == together
