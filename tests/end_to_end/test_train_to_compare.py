"""Train, evaluate and translate: real commands on a tiny model, and the files they write."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import offline_wandb
import pytest
import sacrebleu
import torch
from commands import TWO_STEPS, command
from omegaconf import OmegaConf

from nmt.config.schema import load_defaults
from nmt.data.toy_corpus import ToyPairs
from nmt.evaluation.run_evaluation import evaluate
from nmt.evaluation.stored_evaluation import read_evaluation
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import Search
from nmt.translate.loading import make_translator

TINY = ("size=tiny", "data.train.count=1500", "data.valid.count=40", "data.tests.test.count=30", "data.batches.size=25")


pytestmark = pytest.mark.xdist_group("the whole road")  # the tests share module fixtures


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    command("train", *TINY, "trainer.max_epochs=2", "trainer.log_every_n_steps=10", f"hydra.run.dir={folder}")
    return folder


def test_a_run_writes_its_summary_checkpoints_and_log(run):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "completed"
    assert summary["steps"] == 120
    assert summary["parameters"]["total"] == sum(p.numel() for p in TrainedRun(str(run)).model.parameters())
    assert summary["best"]["metric"] == "valid/bleu"
    assert summary["versions"]["torch"].startswith("2.13")
    for name in (
        "checkpoints/best.ckpt",
        "checkpoints/last.ckpt",
        "source.tokenizer.json",
        ".hydra/config.yaml",
        "train.log",
    ):
        assert (run / name).is_file(), name


def test_metrics_are_logged_and_the_loss_falls(run):
    rows = list(csv.DictReader((run / "metrics.csv").open()))
    losses = [float(row["train/loss"]) for row in rows if row["train/loss"]]
    perplexities = [float(row["valid/perplexity"]) for row in rows if row["valid/perplexity"]]
    assert len(losses) == 12
    assert losses[-1] < losses[0] - 0.5
    assert perplexities[1] < perplexities[0] < 500
    for name in ("valid/bleu", "valid/loss", "train/tokens_per_second", "train/gradient_norm", "lr"):
        assert any(row[name] for row in rows), name
    words = [row for row in rows if row["valid/loss"]]
    assert float(words[0]["valid/perplexity"]) == pytest.approx(np.exp(float(words[0]["valid/loss"])))


def test_a_run_needs_no_home_because_its_wandb_files_lie_inside_it(tmp_path):
    arguments = (*TWO_STEPS, "logger=local", f"data.cache={tmp_path}/cache", f"hydra.run.dir={tmp_path}/run")
    places = {"HOME": "/dev/null", "NMT_CACHE": f"{tmp_path}/cache"}
    done = command("train", *arguments, check=False, WANDB_DATA_DIR="/dev/null/x", **places)
    assert done.returncode == 1
    assert "WANDB_DATA_DIR=/dev/null/x: cannot be written" in done.stderr
    command("train", *arguments, **places)
    assert offline_wandb.read(tmp_path / "run")["exit_code"] == 0
    assert {path.name for path in (tmp_path / "run" / "wandb").iterdir()} >= {"data", "cache"}


def test_the_offline_wandb_file_contains_metrics_translations_and_heatmaps(run):
    logged = offline_wandb.read(run)
    history = logged["history"]
    rows = [row for row in csv.DictReader((run / "metrics.csv").open()) if row["valid/bleu"]]
    assert history["valid/bleu"] == pytest.approx([float(row["valid/bleu"]) for row in rows])
    assert {"train/loss", "valid/perplexity", "train/tokens_per_second", "train/gradient_norm", "lr"} <= set(history)
    assert len(history["valid/translations/_type"]) == 2
    of_validations = [row for row in logged["rows"] if any(key.startswith("valid/") for key in row)]
    assert len(of_validations) == 2  # each with its scores, its table and its pictures
    assert all({"valid/bleu", "valid/translations/_type", "trainer/global_step"} <= row for row in of_validations)
    summary = logged["summary"]
    assert summary["valid/bleu"] == {"max": pytest.approx(max(float(row["valid/bleu"]) for row in rows))}
    assert summary["valid/loss"] == {"min": pytest.approx(min(float(row["valid/loss"]) for row in rows))}
    trained = json.loads((run / "summary.json").read_text())
    assert summary["parameters"] == trained["parameters"]["total"]
    assert (summary["best_step"], summary["data"]) == (trained["best"]["step"], trained["data"])
    assert summary["code"] == trained["code"][-1]
    pictures = list(run.glob("wandb/offline-run-*/files/media/images/valid/alignment_*.png"))
    assert len(pictures) == 2 * 8
    (table, *_) = run.glob("wandb/offline-run-*/files/media/table/valid/translations_*.json")
    shown = json.loads(table.read_text())
    assert shown["columns"] == ["source", "reference", "translation"]
    assert len(shown["data"]) == 8
    assert logged["config"]["seed"] == 1
    assert logged["config"]["attention"]["score"]["_target_"].endswith("Additive")
    assert logged["exit_code"] == 0
    assert logged["run"]["job_type"] == "training"
    assert {"attention=additive", "decoder=conditional", "data=toy", "size=tiny"} <= set(logged["run"]["tags"])
    assert not any(tag.startswith("memory") for tag in logged["run"]["tags"])  # the model has no memory


def test_a_checkpoint_alone_is_enough_to_translate(run, tmp_path):
    stored = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    assert set(stored["nmt"]) == {"config", "vocabularies"}
    alone = tmp_path / "alone.ckpt"
    alone.write_bytes((run / "checkpoints" / "best.ckpt").read_bytes())
    output = command("translate", f"run={alone}", stdin=b"Gurcu pu ma\n", cwd=tmp_path).stdout
    assert output == command("translate", f"run={run}", stdin=b"Gurcu pu ma\n").stdout


def test_evaluation_scores_and_stores_a_test_set(run):
    done = command("evaluate", f"run={run}", "beam=3", "as_json=true")
    scores = json.loads(done.stdout)
    folder = run / "test,beam=3"
    assert json.loads((folder / "scores.json").read_text()) == scores
    hypotheses = (folder / "hypotheses.txt").read_text().split("\n")[:-1]
    assert len(hypotheses) == scores["sentences"] == 30
    assert scores["in_parts"] == 0
    assert "in parts" not in done.stderr
    assert "tok:none" in scores["scores"]["bleu"]["signature"]
    assert {"chrf", "ter", "bleu_tokenized", "perplexity", "loss"} <= set(scores["scores"])
    alignments = np.load(folder / "alignments.npz")
    assert len(alignments) == 30
    np.testing.assert_allclose(alignments["7"].sum(1), 1.0, atol=0.01)


def test_a_run_is_scored_and_evaluated_with_its_own_search(tmp_path):
    train = ("train", *TWO_STEPS, "data.tests.test.count=5", f"hydra.run.dir={tmp_path}", "search.length_penalty=0.0")
    command(*train, "search.beam=3", "validation=${search}", "score_test=true")

    def searched(folder="test"):
        search = json.loads((tmp_path / folder / "scores.json").read_text())["search"]
        return search["beam"], search["length_penalty"], search["shortest_ratio"]

    assert searched() == (3, 0.0, 0.0)
    done = command("evaluate", f"run={tmp_path}", "show=0")
    assert searched() == (3, 0.0, 0.0)
    assert "test, 5 sentences, beam=3 length_penalty=0.0:" in done.stdout
    command("evaluate", str(tmp_path), "show=0", "beam=5", "shortest_ratio=0.5")
    assert searched("test,beam=5,shortest_ratio=0.5") == (5, 0.0, 0.5)
    assert searched() == (3, 0.0, 0.0)
    done = command("translate", f"run={tmp_path}", "format=json", "nbest=3", stdin=b"Gurcu pu ma\n")
    translations = json.loads(done.stdout)["translations"]
    assert len(translations) == 3  # nbest is at most the beam of the run
    assert all(one["score"] == one["log_probability"] for one in translations)
    refused = command(*train, "search.beam=4", "validation=${search}", check=False).stderr
    assert "holds a run with other settings (search.beam 3 → 4)" in refused


def test_another_search_neither_refuses_nor_repeats_a_training(tmp_path):
    train = ("train", *TWO_STEPS, "data.tests.test.count=5", f"hydra.run.dir={tmp_path}")
    command(*train, "search.beam=3")
    for _ in range(2):  # the second time it is scored already
        done = command(*train, "search.beam=4", "score_test=true")
        assert "completed already" in done.stderr
    assert "bleu" not in done.stderr
    assert json.loads((tmp_path / "test,beam=4" / "scores.json").read_text())["search"]["beam"] == 4
    assert not (tmp_path / "test").exists()


def test_evaluating_the_validation_set_repeats_the_scores_of_training(run):
    scores = json.loads(
        command("evaluate", f"run={run}/checkpoints/last.ckpt", "data.test=valid", "beam=1", "as_json=true").stdout
    )
    rows = [row for row in csv.DictReader((run / "metrics.csv").open()) if row["valid/bleu"]]
    assert scores["scores"]["bleu_tokenized"]["score"] == pytest.approx(float(rows[-1]["valid/bleu"]), abs=1e-4)
    assert scores["scores"]["perplexity"] == pytest.approx(float(rows[-1]["valid/perplexity"]), rel=1e-5)


def test_evaluation_shows_translations_with_their_alignments(run):
    done = command("evaluate", f"run={run}", "show=2", "data.tests.test.count=5")
    assert done.stdout.count("reference    ") == done.stdout.count("alignment    ") == 2
    assert (run / "test,count=5" / "alignment_1.png").read_bytes().startswith(b"\x89PNG")


def test_an_evaluation_keeps_traces_and_figures_of_the_mechanism(tmp_path):
    command("train", *TWO_STEPS, "attention=coverage_fertility", f"hydra.run.dir={tmp_path}")
    command("evaluate", f"run={tmp_path}", "mechanism=true", "data.tests.test.count=5")
    figures = json.loads((tmp_path / "test,count=5" / "mechanism.json").read_text())["traces"]
    assert {name: one["kind"] for name, one in figures.items()} == {"coverage": "map", "fertility": "numbers"}
    assert sum(one["count"] for one in figures["fertility"]["by_gold_links"]) > 0
    assert (tmp_path / "test,count=5" / "mechanism.html").is_file()
    alignments, traces = (np.load(tmp_path / "test,count=5" / f"{name}.npz") for name in ("alignments", "traces"))
    assert len(alignments) == 5
    for number, weights in alignments.items():
        assert traces[f"coverage/{number}"].shape == traces[f"fertility/{number}"].shape == weights.shape
        received = (weights.astype(float) / traces[f"fertility/{number}"]).cumsum(0)
        np.testing.assert_allclose(traces[f"coverage/{number}"], received, rtol=0.02, atol=0.01)


def test_scores_are_written_last_and_every_file_is_atomic(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = {"run": str(run), "output": 2024, "device": "cpu", "show": 0}  # KEY=VALUE parses 2024 as a number
    settings, folder = OmegaConf.merge(load_defaults("evaluate"), keys), tmp_path / "2024" / "test,count=2"
    alignments = folder / "alignments.npz"
    alignments.mkdir(parents=True)  # a folder of this name blocks the write
    with pytest.raises(IsADirectoryError):
        evaluate(settings, ["data.tests.test.count=2"])
    assert not (folder / "scores.json").exists()
    alignments.rmdir()
    alignments.write_bytes(b"old")
    os.link(alignments, tmp_path / "read meanwhile")
    evaluate(settings, ["data.tests.test.count=2"])
    assert (tmp_path / "read meanwhile").read_bytes() == b"old"
    assert len(np.load(alignments)) == 2
    assert (folder / "scores.json").is_file()


def test_translation_keeps_line_count_and_order_for_any_input(run):
    text = b"Gurcu pu ma\n\n\xff\xfe ma\nGurcu pu ma\n" + b"ma " * 300 + b"\n</s> <pad>\n"
    done = command("translate", f"run={run}", "beam=2", stdin=text)
    lines = done.stdout.split("\n")
    assert len(lines) == 7
    assert lines[1] == ""
    assert lines[0] == lines[3]
    assert "standard input, line 3: not UTF-8" in done.stderr


def test_a_wider_beam_finds_more_probable_translations(run):
    lines = [line.source for line in ToyPairs("test", 60)]
    translator = make_translator(TrainedRun(str(run)), "cpu")
    greedy, wide = (
        [nbest[0].log_probability for nbest in translator(lines, Search(beam=beam, length_penalty=0.0))]
        for beam in (1, 5)
    )
    assert np.mean(wide) > np.mean(greedy)


def test_n_best_lists_and_alignments_have_the_moses_format(run):
    done = command("translate", f"run={run}", "beam=3", "nbest=2", "alignments=true", stdin=b"Gurcu pu ma\n\nma pu\n")
    fields = [line.split(" ||| ") for line in done.stdout.strip().split("\n")]
    assert [field[0] for field in fields] == ["0", "0", "2", "2"]
    assert float(fields[0][2]) >= float(fields[1][2])
    for _, text, _, linked in fields:
        assert len(linked.split()) == len(text.split())


def test_a_run_is_reproducible_bit_for_bit(run, tmp_path):
    again = tmp_path / "again"
    command("train", *TINY, "trainer.max_epochs=2", "logger=none", f"hydra.run.dir={again}")
    first, second = (torch.load(folder / "checkpoints/last.ckpt", weights_only=True) for folder in (run, again))
    assert all(torch.equal(value, second["state_dict"][name]) for name, value in first["state_dict"].items())


@pytest.mark.parametrize(
    "stop", [pytest.param(60, id="after an epoch", marks=pytest.mark.slow), pytest.param(77, id="within an epoch")]
)
def test_resumed_run_ends_with_the_same_weights(run, tmp_path, stop):
    halves = tmp_path / "halves"
    shared = (*TINY, "logger=none", f"hydra.run.dir={halves}", "trainer.max_epochs=2")
    command("train", *shared, f"trainer.max_steps={stop}")
    command("train", *shared, f"ckpt_path={halves}/checkpoints/last.ckpt")
    uninterrupted, joined = (
        torch.load(folder / "checkpoints/last.ckpt", weights_only=True) for folder in (run, halves)
    )
    assert joined["global_step"] == uninterrupted["global_step"] == 120
    assert all(torch.equal(value, joined["state_dict"][name]) for name, value in uninterrupted["state_dict"].items())


def test_a_crafted_checkpoint_runs_no_code(run, tmp_path):
    stored = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    for target in ("os.system", "nmt.model.encoder.torch.hub.load", "nmt.system.files.write_text"):
        stored["nmt"]["config"]["model"]["encoder"] = {"_target_": target, "command": f"touch {tmp_path}/ran"}
        torch.save(stored, tmp_path / "crafted.ckpt")
        done = command("translate", f"run={tmp_path}/crafted.ckpt", check=False)
        assert done.returncode == 1
        assert f"model.encoder._target_={target}: refused" in done.stderr
    (tmp_path / "cut.ckpt").write_bytes((run / "checkpoints" / "best.ckpt").read_bytes()[:5000])
    done = command("translate", f"run={tmp_path}/cut.ckpt", check=False)
    assert "cut.ckpt: cannot be loaded as a checkpoint" in done.stderr
    assert not (tmp_path / "ran").exists()


USER_LANGUAGES = {"source": "en", "target": "de"}


def write_user_files(folder: Path) -> list[str]:
    """Write training and validation text, and return the settings of a run on them."""
    for name, count in (("train", 40), ("dev", 6)):
        (folder / f"{name}.en").write_text("".join(f"A man, number {n}.\n" for n in range(count)))
        (folder / f"{name}.de").write_text("".join(f"Ein Mann, Nummer {n}.\n" for n in range(count)))
    settings = ["size=tiny", "debug=steps", "logger=none", "data=text", f"hydra.run.dir={folder}/run"]
    settings += ["data.vocabulary.kind=bpe", "data.vocabulary.size=80"]
    for side, language in USER_LANGUAGES.items():
        settings += [f"data.{side}.language={language}", f"data.{side}.tokenizer=moses"]
        settings += [f"data.train.{side}={folder}/train.{language}", f"data.valid.{side}={folder}/dev.{language}"]
    return settings


@pytest.fixture(scope="module")
def user_run(tmp_path_factory) -> Path:
    """A run trained on a user's files, which are then deleted because only the run is needed."""
    folder = tmp_path_factory.mktemp("own")
    settings = write_user_files(folder)
    stderr = command("train", *settings, cwd=folder).stderr
    assert "valid: of 6 sentences, the training text contains 6 sources, 6 targets and 6 pairs" in stderr
    for path in [*folder.glob("*.en"), *folder.glob("*.de")]:
        path.unlink()
    return folder / "run"


def evaluate_on_news(run: Path, folder: Path, sources: list[str], targets: list[str], *further: str, check=True):
    """Write a test set to `folder`, evaluate the run on it and return the finished process."""
    texts = dict(zip(USER_LANGUAGES, (sources, targets), strict=True))
    files = {side: folder / f"news.{language}" for side, language in USER_LANGUAGES.items()}
    for side, lines in texts.items():
        files[side].write_text("".join(f"{line}\n" for line in lines))
    news = [f"data.tests.news.{side}={path}" for side, path in files.items()]
    return command("evaluate", f"run={run}", *news, "data.test=news", *further, check=check, cwd=folder)


def test_resume_accepts_changed_texts_and_refuses_changed_vocabularies(tmp_path):
    settings = [*write_user_files(tmp_path), "trainer.max_steps=4"]
    command("train", *settings, "trainer.max_steps=2", cwd=tmp_path)
    before = {name: (tmp_path / "run" / name).read_text() for name in ("summary.json", ".hydra/overrides.yaml")}
    with (tmp_path / "dev.en").open("a") as source, (tmp_path / "dev.de").open("a") as target:
        source.write("Another man.\n")
        target.write("Ein anderer Mann.\n")
    refused = command("train", *settings, cwd=tmp_path, check=False)
    assert "holds a run on other data (texts of data.train or data.valid changed)" in refused.stderr
    assert before == {name: (tmp_path / "run" / name).read_text() for name in before}
    command("train", *settings, "resume=true", cwd=tmp_path)
    resumed = {name: (tmp_path / "run" / name).read_text() for name in ("summary.json", "target.tokenizer.json")}
    summary = json.loads(resumed["summary.json"])
    assert (summary["steps"], summary["went_on_with"]) == (4, f"{tmp_path}/run/checkpoints/last.ckpt")
    (tmp_path / "train.de").write_text((tmp_path / "train.de").read_text().replace("Nummer", "Ziffer"))
    refused = command("train", *settings, "trainer.max_steps=6", "resume=true", cwd=tmp_path, check=False)
    assert "last.ckpt: is of other vocabularies than those of the data" in refused.stderr
    assert resumed == {name: (tmp_path / "run" / name).read_text() for name in resumed}


def test_a_users_files_are_trained_on_and_evaluated(user_run, tmp_path):
    lines = ([f"A man, number {n}." for n in range(5)], [f"Ein Mann, Nummer {n}." for n in range(5)])
    scores = json.loads(evaluate_on_news(user_run, tmp_path, *lines, "as_json=true").stdout)
    assert scores["sentences"] == 5
    assert "tok:13a" in scores["scores"]["bleu"]["signature"]
    assert len((user_run / "news" / "hypotheses.txt").read_text().split("\n")) == 6
    done = command("evaluate", f"run={user_run}", "data.test=new", check=False, cwd=tmp_path)
    assert done.stderr.strip().split("\n")[-1] == "error: data.test=new: no such test set. Fix: choose valid"


def test_a_test_set_may_have_several_references(user_run, tmp_path):
    sources, targets = [f"A man, number {n}." for n in range(5)], [f"Ein Mann, Nummer {n}." for n in range(5)]
    evaluate_on_news(user_run, tmp_path, sources, targets)
    hypotheses = (user_run / "news" / "hypotheses.txt").read_text().splitlines()
    others = [[f"{line} {number}".strip() for line in hypotheses] for number in (1, 2)]
    for number, lines in enumerate(others, start=1):
        (tmp_path / f"other{number}.de").write_text("".join(f"{line}\n" for line in lines))
    further = f"data.tests.news.references=[{tmp_path}/other1.de,{tmp_path}/other2.de]"
    done = evaluate_on_news(user_run, tmp_path, sources, targets, further, "as_json=true")
    bleu = json.loads(done.stdout)["scores"]["bleu"]
    assert "nrefs:3" in bleu["signature"]
    assert bleu["score"] == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [targets, *others]).score)
    assert read_evaluation(user_run, "news").references == [targets, *others]


def test_a_line_that_is_too_long_is_translated_in_parts(user_run, tmp_path):
    sources = ["A man, number 1.", " ".join(["A man, number 2."] * 60), "A man, number 3."]
    done = evaluate_on_news(user_run, tmp_path, sources, ["Ein Mann."] * 3, "as_json=true")
    assert json.loads(done.stdout)["in_parts"] == 1
    assert "news: 1 of 3 sentences have more than 200 words or pieces and were translated in parts" in done.stderr
    _, long_sentence, _ = map(json.loads, (user_run / "news" / "sentences.jsonl").read_text().splitlines())
    assert long_sentence["source_words"] == ["A", "man", ",", "number", "2", "."] * 60


def test_a_source_emptied_by_preprocessing_has_an_empty_translation(user_run, tmp_path):
    bell = "\x07"  # Moses removes this character
    done = evaluate_on_news(user_run, tmp_path, ["A man, number 1.", bell, "A man."], ["Ein Mann."] * 3)
    assert "news: 1 of 3 sources are empty after preprocessing; their translations are empty" in done.stderr
    assert (user_run / "news" / "hypotheses.txt").read_text().split("\n")[1] == ""
    stored = json.loads((user_run / "news" / "scores.json").read_text())
    assert (stored["sentences"], stored["empty_sources"]) == (3, 1)
    assert np.isfinite(stored["scores"]["perplexity"])
    assert done.stdout.count("heatmap") == 2
    done = evaluate_on_news(user_run, tmp_path, [bell] * 3, ["Ein Mann."] * 3, check=False)
    assert "error: data.test=news: all sources are empty after preprocessing" in done.stderr


@pytest.mark.slow
def test_several_runs_translate_and_are_scored_as_an_ensemble(run, tmp_path):
    twice = f"runs=[{run},{run}/checkpoints/last.ckpt]"
    shared = ("data.tests.test.count=20", "beam=2", "as_json=true")
    scores = json.loads(command("evaluate", twice, f"output={tmp_path}/both", *shared).stdout)
    assert [member["checkpoint"] for member in scores["members"]] == ["best.ckpt", "last.ckpt"]
    assert json.loads((tmp_path / "both/test,beam=2,count=20/scores.json").read_text()) == scores
    alone = json.loads(command("evaluate", f"run={run}", *shared).stdout)["scores"]
    same = json.loads(command("evaluate", f"runs=[{run},{run}]", f"output={tmp_path}/same", *shared).stdout)["scores"]
    assert same["bleu"]["score"] == pytest.approx(alone["bleu"]["score"])
    assert same["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-4)
    line = b"Gurcu pu ma ma nibi .\n"
    assert (
        command("translate", f"runs=[{run},{run}]", stdin=line).stdout
        == command("translate", f"run={run}", stdin=line).stdout
    )
    for wrong, message in ((("runs=[]",), "or 'runs=[FOLDER,FOLDER]'"), ((f"run={run}", twice), "runs= is given too")):
        assert message in command("translate", *wrong, stdin=line, check=False).stderr


def test_runs_with_different_vocabularies_cannot_form_an_ensemble(run, tmp_path):
    command(
        "train",
        *TINY,
        "data.vocabulary.size=50",
        "trainer.max_steps=1",
        "logger=none",
        f"hydra.run.dir={tmp_path}/other",
    )
    stderr = command("translate", f"runs=[{run},{tmp_path}/other]", stdin=b"a\n", check=False).stderr
    assert f"runs: {run} and {tmp_path}/other have different source vocabularies" in stderr
    same_words = (f"data.vocabulary.run={run}", "data.target.lowercase=true")
    command("train", *TINY, *same_words, "trainer.max_steps=1", "logger=none", f"hydra.run.dir={tmp_path}/lower")
    stderr = command("translate", f"runs=[{run},{tmp_path}/lower]", stdin=b"a\n", check=False).stderr
    assert f"runs: {run} and {tmp_path}/lower prepare target text in different ways" in stderr
