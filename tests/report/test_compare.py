"""The tables of a comparison, which are the same in the page, the Markdown and the JSON."""

import base64
import hashlib
import json
import math
import re
import shutil
import zlib
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest
from commands import answer
from report.folders import evaluate, pairs, with_alignments, write_run

from nmt.cli.arguments import read_arguments
from nmt.cli.compare import compare
from nmt.errors import ConfigurationError, UserError
from nmt.evaluation.over_under_translation import over_and_under_translation
from nmt.evaluation.significance import student_p
from nmt.evaluation.stored_evaluation import read_evaluation
from nmt.report.render.html_page import SCRIPTS
from nmt.report.render.table import Bold, Table, escape_markdown


def test_text_of_a_run_makes_no_link_in_markdown():
    assert escape_markdown("[x](javascript:alert(1)) ![y](z)") == "[x]\\(javascript:alert(1)) ![y]\\(z)"


def test_text_of_a_run_commands_no_terminal_in_markdown():
    assert escape_markdown("\x1b[2Ja\x9b\u202eb\x7f é 好") == "\ufffd[2Ja\ufffd\ufffdb\ufffd é 好"


FILES = ("summary.json", "config.yaml", "metrics.csv", "alignments.npz")
EVIL = "<script>alert(1)</script> </script> <!-- & \u2028 | ` * \\ "


def compared(tmp_path, *folders, **keys) -> tuple[str, str, dict]:
    """Page, Markdown and JSON."""
    given = {"output": tmp_path / "out" / "compare.html", "resamples": 50} | keys
    settings, _ = read_arguments("compare", [f"{key}={value}" for key, value in given.items()], usage="")
    compare([str(folder) for folder in folders], settings)
    files = [(tmp_path / "out" / f"compare.{kind}").read_text(encoding="utf-8") for kind in ("html", "md", "json")]
    return files[0], files[1], json.loads(files[2])


def data(page: str, name: str):
    return json.loads(re.search(rf'<script id="data_{name}" type="application/json">(.*?)</script>', page, re.S)[1])


def unpacked(text: str):
    return json.loads(zlib.decompress(base64.b64decode(text)))


@pytest.fixture
def sweep(tmp_path):
    """Two systems, one of two seeds."""
    folder = tmp_path / "sweep"
    for seed in (1, 2):
        write_run(
            folder / f"attention=additive,seed={seed}", seed=seed, overrides=("attention=additive",), mistakes=0.3
        )
    write_run(
        folder / "attention=dot,seed=1",
        changes={"attention.score._target_": "nmt.Dot"},
        choices={"attention": "dot"},
        overrides=("attention=dot",),
        mistakes=0.05,
    )
    return folder


def count_errors_of(run):
    lines = (run / "test" / "sentences.jsonl").read_text(encoding="utf-8").splitlines()
    pairs_of_words = [[json.loads(line)[key].split() for key in ("hypothesis", "reference")] for line in lines]
    return over_and_under_translation(*zip(*pairs_of_words, strict=True))


def test_over_and_under_translation_come_with_difference_and_p(sweep, tmp_path):
    page, text, tables = compared(tmp_path, sweep)
    rates = tables["adequacy"]["attention=dot seed=1"]
    runs = ("attention=dot,seed=1", "attention=additive,seed=1", "attention=additive,seed=2")
    dot, first, second = (count_errors_of(sweep / run) for run in runs)
    assert {name: rate["value"] for name, rate in rates.items()} == pytest.approx({name: dot[name] for name in rates})
    missing = rates["words_left_out"]
    baseline = tables["adequacy"]["attention=additive"]["words_left_out"]
    assert missing["difference"] == pytest.approx(missing["value"] - baseline["value"])
    assert missing["difference"] < 0
    assert (baseline["difference"], baseline["p"], baseline["p_seeds"]) == (0, 1, None)
    t = missing["difference"] / (stdev([first["words_left_out"], second["words_left_out"]]) * math.sqrt(1 + 1 / 2))
    assert missing["p_seeds"] == pytest.approx(1 - math.atan(abs(t)) * 2 / math.pi)
    assert data(page, "tables")["adequacy"] == tables["adequacy"]
    for row in tables["systems"]:
        for name, rate in tables["adequacy"][row["system"]].items():
            assert row["scores"][name]["mean"] == pytest.approx(rate["value"])  # one counting on one page
    section = text.split("## Over- and under-translation")[1].split("##")[0]
    cells = [f"{missing['value']:.2f}", f"−{-missing['difference']:.2f}"]
    cells += [f"{missing['p']:.3f}", f"{missing['p_seeds']:.3f}"]
    assert f"| {' | '.join(cells)} |" in section
    assert "words left out" not in text.split("## Other scores")[1].split("##")[0]


@pytest.mark.parametrize(
    ("lengths", "names", "than"), [([5, 15], ["1–5", "11–15"], 5), ([40, 60], ["31–40", "51–60"], 40)]
)
def test_systems_are_compared_by_the_length_of_the_source(sweep, tmp_path, lengths, names, than):
    lines = [(" ".join(["ma"] * length), " ".join(["ma", "pu"] * length)) for length in lengths for _ in range(25)]
    for name, mistakes in (("a", 0.4), ("b", 0.1)):
        write_run(tmp_path / name, lines=lines, mistakes=mistakes, changes={"dropout": mistakes})
    _, text, tables = compared(tmp_path, tmp_path / "a", tmp_path / "b", baseline="a")
    baseline, other = tables["by_length"]["a"], tables["by_length"]["b"]
    assert [bucket["name"] for bucket in baseline] == names
    for bucket, base in zip(other, baseline, strict=True):
        assert (base["difference"], base["difference_low"], base["difference_high"]) == (0, 0, 0)
        assert bucket["difference"] == pytest.approx(bucket["bleu"] - base["bleu"])
        assert 0 < bucket["difference_low"] < bucket["difference"] < bucket["difference_high"]
        shown = f"{bucket['bleu']:.2f} +{bucket['difference']:.2f} [+{bucket['difference_low']:.2f}, "
        assert shown in text.split("## BLEU by source length")[1]
    (gain,) = tables["longer"]["b"]
    assert (gain["than"], gain["sentences"]) == (than, 25)
    assert gain["difference"] == pytest.approx(other[1]["difference"] - other[0]["difference"])
    line = f"| b | {gain['difference']:+.2f} [{gain['difference_low']:+.2f}, {gain['difference_high']:+.2f}] |"
    assert line.replace("-", "−") in text.split("## Gain on longer sentences")[1]


def test_lengths_and_bleu_of_longer_sentences_are_those_counted_by_hand(tmp_path):
    short, long = ("ma " * 4, "ma pu ma pu"), ("ma " * 14, "nibi " * 12)
    lines = [(source.strip(), reference.strip()) for source, reference in [short, long] for _ in range(25)]
    run = write_run(tmp_path / "a", lines=lines, mistakes=0)
    write_run(tmp_path / "b", lines=lines, mistakes=0, changes={"dropout": 0.3})
    path = run / "test" / "sentences.jsonl"
    stored = [json.loads(line) for line in path.read_text().splitlines()]
    for sentence in stored[25:]:
        sentence["hypothesis"] = "nibi " * 9
    path.write_text("".join(json.dumps(sentence) + "\n" for sentence in stored))
    _, text, tables = compared(tmp_path, tmp_path / "a", tmp_path / "b", baseline="b")
    assert [(one["words"], one["reference_words"], one["length_ratio"]) for one in tables["by_length"]["a"]] == [
        *((4, 4, 1), (9, 12, 0.75))
    ]
    assert "| a | 4.0 (1.00) | 9.0 (0.75) |" in text.split("## Length by source length")[1]
    longer = tables["longer_than"]["a"]
    assert [(one["name"], one["sentences"]) for one in longer] == [(">0", 50), (">5", 25), (">10", 25)]
    penalties = [math.exp(1 - 400 / 325), math.exp(1 - 12 / 9), math.exp(1 - 12 / 9)]  # because all words are right
    assert [one["bleu"] for one in longer] == pytest.approx([100 * penalty for penalty in penalties])
    assert [one["difference"] for one in longer] == pytest.approx([one["bleu"] - 100 for one in longer])
    cell = f"{longer[1]['bleu']:.2f} −{-longer[1]['difference']:.2f} ["
    assert cell in text.split("## BLEU of longer sentences")[1].split("##")[0]


def test_a_gain_on_few_longer_sentences_is_not_shown(sweep, tmp_path):
    _, text, tables = compared(tmp_path, sweep)
    assert all(one["difference_low"] is None for of_system in tables["longer"].values() for one in of_system)
    assert "Gain on longer sentences" not in text


def test_alignment_error_comes_with_difference_and_p(sweep, tmp_path):
    for run, right in (("attention=additive,seed=1", 1), ("attention=additive,seed=2", 2), ("attention=dot,seed=1", 2)):
        with_alignments(sweep / run, right)
    page, text, tables = compared(tmp_path, sweep)
    additive, dot = (tables["alignment"][name] for name in ("attention=additive", "attention=dot seed=1"))
    assert additive["aer"]["value"] == pytest.approx(100 * (1 - mean([2 / 6, 4 / 6])))
    assert dot["aer"]["value"] == pytest.approx(100 * (1 - 4 / 6))
    assert dot["saer"]["difference"] == pytest.approx(100 * (1 - 2 / 7) - 100 * (1 - mean([1 / 7, 2 / 7])))
    assert dot["aer"]["p"] == pytest.approx(1 / 51)  # all sentences are the same, so no resample differs as much
    assert 0 < dot["aer"]["p_seeds"] < 1
    assert data(page, "tables")["alignment"] == tables["alignment"]
    assert "| attention=dot seed=1 | 33.33 | −16.67 |" in text.split("## Alignment error")[1].replace("`", "")
    assert "AER" not in text.split("## Other scores")[1].split("##")[0]


def test_alignment_errors_of_other_gold_alignments_are_noted_and_not_tested(sweep, tmp_path):
    for run, sure in (("attention=additive,seed=1", 2), ("attention=additive,seed=2", 2), ("attention=dot,seed=1", 3)):
        with_alignments(sweep / run, 1, sure)
    tables = compared(tmp_path, sweep, baseline="attention=additive")[2]
    assert tables["alignment"] == {}
    (note,) = tables["notes"]
    assert note["run"] == "attention=dot seed=1"
    assert note["note"].startswith("its alignments were compared with others made by hand than those of attention=addi")


def test_damaged_alignment_counts_leave_out_only_their_run(sweep, tmp_path):
    for run in ("attention=additive,seed=1", "attention=additive,seed=2"):
        with_alignments(sweep / run, 1)
    path = sweep / "attention=dot,seed=1" / "test" / "scores.json"
    for rows in (["1 2"] * 20, ["a"] * 20, [None] * 20, 3, ["nan " * 8] * 20, ["1 " * 8] * 19):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"alignment_counts": rows}))
        tables = compared(tmp_path, sweep)[2]
        assert [row["system"] for row in tables["systems"]] == ["attention=additive"]
        assert "alignment_counts are not 8 numbers a sentence" in tables["not_compared"][0]["reason"]


def test_another_way_to_evaluate_makes_another_system(sweep, tmp_path):
    path = sweep / "attention=additive,seed=2" / "test" / "scores.json"
    stored = json.loads(path.read_text())
    path.write_text(
        json.dumps(stored | {"int8": False, "candidates": None, "weights": None, "average": "probabilities"})
    )
    assert len(compared(tmp_path, sweep)[2]["systems"]) == 2  # older evaluations do not store these settings
    path.write_text(json.dumps(stored | {"int8": True}))
    tables = compared(tmp_path, sweep)[2]
    assert len(tables["systems"]) == 3
    assert [row["settings"]["int8"] for row in tables["systems"]].count(True) == 1
    for name, systems in (("best.ckpt", 2), ("mean.ckpt", 3)):  # older evaluations are of the best checkpoint
        path.write_text(json.dumps(stored | {"members": [{"run": "a", "checkpoint": name, "step": 7}]}))
        assert len(compared(tmp_path, sweep)[2]["systems"]) == systems
    assert [row["settings"]["checkpoint"] for row in compared(tmp_path, sweep)[2]["systems"]].count("mean.ckpt") == 1


def test_a_run_of_other_code_than_the_baseline_is_noted(tmp_path):
    base = {"Additive": "a", "Translator": "t"}
    codes = {"base": [base], "same": [base], "mechanism": [base | {"Coverage": "c"}], "silent": None}
    codes |= {"other": [base | {"Translator": "u"}], "twice": [base, base], "older": ["0123"]}
    for name, code in codes.items():
        write_run(tmp_path / "runs" / name, changes={"name_of": name}, summary={"code": code} if code else None)
    notes = compared(tmp_path, tmp_path / "runs", baseline="base")[2]["notes"]
    assert {note["note"] for note in notes} == {"trained by other code than base"}
    assert [note["run"] for note in notes] == ["older", "other", "twice"]


def test_a_run_that_resumed_from_another_run_is_noted(tmp_path):
    for name, summary in (("base", {}), ("other", {"went_on_with": "x/last.ckpt"})):
        write_run(tmp_path / "runs" / name, changes={"name_of": name}, summary=summary)
    (note,) = compared(tmp_path, tmp_path / "runs", baseline="base")[2]["notes"]
    assert note == {"run": "other", "note": "went on with x/last.ckpt: was not trained by its settings and data alone"}


def test_the_same_seed_twice_is_noted(sweep, tmp_path):
    write_run(sweep / "attention=additive,again=true,seed=2", seed=2, overrides=("attention=additive",), mistakes=0.3)
    (note,) = compared(tmp_path, sweep)[2]["notes"]
    assert "additive" in note["run"]
    assert re.match(r"has the seed of .*additive.*, 2, and all else alike", note["note"])


def test_a_repeated_seed_changes_no_mean_and_no_p(sweep, tmp_path):
    once = compared(tmp_path, sweep)[2]
    again = sweep / "attention=additive,again=true,seed=2"
    shutil.copytree(sweep / "attention=additive,seed=2", again)
    twice = compared(tmp_path, sweep)[2]
    assert [row["seeds"] for row in twice["systems"]] == [[1], [1, 2]]
    for part in ("scores", "difference", "validation", "seconds"):
        assert [row[part] for row in twice["systems"]] == [row[part] for row in once["systems"]]
    assert twice["adequacy"] == once["adequacy"]
    assert twice["systems"][0]["difference"]["p_seeds"] == once["systems"][0]["difference"]["p_seeds"]
    assert twice["spread_over_seeds"] == once["spread_over_seeds"]
    config = again / ".hydra" / "config.yaml"
    config.write_text(config.read_text().replace("${seed}", "7"))  # another order of batches is another training
    assert compared(tmp_path, sweep)[2]["systems"][1]["seeds"] == [1, 2, 2]


def test_the_validation_score_is_shown_if_all_runs_have_the_same_metric(tmp_path):
    for seed, score in ((1, 30.0), (2, 31.0)):
        best = {"metric": "valid/bleu", "score": score, "checkpoint": "x"}
        write_run(tmp_path / "plain" / f"run{seed}", seed=seed, summary={"best": best})
    write_run(tmp_path / "wide" / "run", changes={"size.hidden": 64}, summary={"best": ["no", "such"]})
    _, text, tables = compared(tmp_path, tmp_path)
    assert tables["validation"] == "valid/bleu"
    scores = {row["system"]: row["validation"] for row in tables["systems"]}
    assert scores == {"plain": {"mean": 30.5, "deviation": pytest.approx(0.7071, abs=1e-4)}, "wide/run": None}
    assert "| valid/bleu |" in text
    assert "| 30.50 ± 0.71 |" in text
    other = {"metric": "valid/loss", "score": 2.0, "checkpoint": "x"}
    write_run(tmp_path / "wide" / "run", changes={"size.hidden": 64}, summary={"best": other})
    _, text, tables = compared(tmp_path, tmp_path)
    assert tables["validation"] is None
    assert "30.50" not in text


@pytest.mark.parametrize("score", [1.7e308, -1e18, float("inf")])
def test_a_score_that_is_too_large_to_be_squared_leaves_out_its_run_alone(sweep, tmp_path, score):
    path = sweep / "attention=additive,seed=2" / "test" / "scores.json"
    stored = json.loads(path.read_text())
    stored["scores"]["bleu"]["score"] = score
    path.write_text(json.dumps(stored))
    summary = path.parents[1] / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"wall_seconds": score, "steps": score}))
    _, _, tables = compared(tmp_path, sweep)
    reasons = {one["reason"] for one in tables["not_compared"]}
    assert reasons >= {"test/scores.json holds no BLEU; evaluate it again"}


def test_a_mean_over_some_of_the_seeds_shows_how_many(sweep, tmp_path):
    path = sweep / "attention=additive,seed=2" / "test" / "scores.json"
    stored = json.loads(path.read_text())
    stored["scores"]["perplexity"] = float("nan")
    path.write_text(json.dumps(stored))
    _, text, tables = compared(tmp_path, sweep)
    (row,) = (row for row in tables["systems"] if row["system"] == "attention=additive")
    assert row["scores"]["perplexity"] == {"mean": 5.0, "of": [1, 2]}
    assert "| 5.00 (1 of 2) |" in text
    assert "of" not in row["scores"]["bleu"]


def test_the_tokenizer_is_read_from_its_setting_and_not_from_the_signature(sweep):
    path = sweep / "attention=dot,seed=1" / "test" / "scores.json"
    stored = json.loads(path.read_text())
    stored["scores"]["bleu"]["signature"] = "nrefs:1|case:mixed|eff:no|tok:ja-mecab-0.996-IPA|smooth:exp|version:2.6.0"
    path.write_text(json.dumps(stored | {"counted": {"tokenize": "char", "lowercase": False}}))
    assert read_evaluation(path.parents[1], "test").tokenization == {"tokenize": "char", "lowercase": False}


def test_runs_on_other_texts_are_another_system(sweep, tmp_path):
    """Seed 2 was trained after a text had changed, though its settings name the same files."""
    for folder in sweep.glob("attention=*"):
        digest = "new" if folder.name.endswith("additive,seed=2") else "old"
        summary = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text(json.dumps(summary | {"data": digest}))
    _, text, tables = compared(tmp_path, sweep)
    additive = [row for row in tables["systems"] if "additive" in row["system"]]
    assert [row["settings"]["data.texts"] for row in additive] in (["old", "new"], ["new", "old"])
    assert "data.texts" in text
    (sweep / "attention=additive,seed=1" / "summary.json").write_text(json.dumps(summary | {"data": None}))
    _, _, tables = compared(tmp_path, sweep)  # of a run from before this was stored the texts are not known
    assert len([row for row in tables["systems"] if "additive" in row["system"]]) == 1


def test_the_time_is_that_of_the_training_where_it_is_known(sweep, tmp_path):
    summary = sweep / "attention=additive,seed=2" / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"train_seconds": 10.0}))
    _, _, tables = compared(tmp_path, sweep)
    (row,) = (row for row in tables["systems"] if row["system"] == "attention=additive")
    assert row["seconds"]["mean"] == (61.0 + 10.0) / 2


def test_seeds_are_one_system_and_the_best_system_comes_first(sweep, tmp_path):
    _, _, tables = compared(tmp_path, sweep)
    best, baseline = tables["systems"]
    assert (best["system"], best["runs"], best["seeds"]) == ("attention=dot seed=1", ["attention=dot seed=1"], [1])
    assert (baseline["system"], baseline["seeds"]) == ("attention=additive", [1, 2])
    assert tables["settings"] == ["attention"]
    assert [row["settings"]["attention"] for row in tables["systems"]] == ["dot", "additive"]
    stored = [
        json.loads((sweep / f"attention=additive,seed={seed}" / "test" / "scores.json").read_text())["scores"]["bleu"]
        for seed in (1, 2)
    ]
    values = [one["score"] for one in stored]
    assert baseline["scores"]["bleu"] == {
        "mean": pytest.approx(mean(values)),
        "deviation": pytest.approx(stdev(values)),
    }
    assert "deviation" not in best["scores"]["bleu"]
    assert baseline["seconds"] == {"mean": 61.5, "deviation": pytest.approx(0.7071, abs=1e-4)}


def test_differences_are_to_the_baseline(sweep, tmp_path):
    _, _, tables = compared(tmp_path, sweep)
    best, baseline = tables["systems"]
    assert tables["baseline"] == "attention=additive"
    assert baseline["difference"] is None
    bleu = [row["scores"]["bleu"]["mean"] for row in tables["systems"]]
    assert best["difference"]["bleu"] == pytest.approx(bleu[0] - bleu[1])
    assert best["difference"]["by_sentence"]["p_bootstrap"] < 0.05
    t = (bleu[0] - bleu[1]) / (baseline["scores"]["bleu"]["deviation"] * math.sqrt(1 + 1 / 2))  # one run against two
    assert best["difference"]["p_seeds"] == pytest.approx(1 - math.atan(t) * 2 / math.pi)
    _, _, folded = compared(tmp_path, sweep, baseline="attention=additive")
    assert folded["baseline"] == "attention=additive"
    _, _, other = compared(tmp_path, sweep, baseline="attention=dot,seed=1")
    assert (other["baseline"], other["systems"][1]["difference"]["bleu"]) == (
        "attention=dot seed=1",
        pytest.approx(bleu[1] - bleu[0]),
    )


def test_a_system_without_a_distinct_override_is_named_by_the_shared_ones(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / f"memory=buffer,seed={seed}", seed=seed, overrides=("memory=buffer",))
        further = ("memory=buffer", "attention=coverage")
        changes = {"choices": {"attention": "coverage"}, "changes": {"attention": {"name": "coverage"}}}
        write_run(tmp_path / f"attention=coverage,memory=buffer,seed={seed}", seed=seed, overrides=further, **changes)
    _, _, tables = compared(tmp_path, tmp_path)
    assert {row["system"] for row in tables["systems"]} == {"memory=buffer", "attention=coverage"}


def test_the_baseline_can_be_a_system_named_as_in_the_table(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / "plain" / f"run{seed}", seed=seed, mistakes=0.3)
        write_run(tmp_path / "wide" / f"run{seed}", seed=seed, changes={"size.hidden": 64})
        write_run(tmp_path / "plain" / f"long{seed}", seed=seed, lines=pairs(10), changes={"dropout": 0.5})
    write_run(tmp_path / "wide" / "run3", seed=3, changes={"size.hidden": 64})
    for name in ("plain", "wide"):
        _, _, tables = compared(tmp_path, tmp_path, baseline=name)
        assert tables["baseline"] == name
        assert [row["system"] for row in tables["systems"]] == ["wide", "plain"]
    _, _, others = compared(tmp_path, tmp_path, baseline="plain/long")
    assert [row["system"] for row in others["systems"]] == ["plain/long"]


def test_the_baseline_can_be_a_row_of_a_papers_table_in_any_case(tmp_path):
    for name, row, dropout in (("a", "GroundHog", 0.2), ("b", "Local-p", 0.5), ("c", "Local-p", 0.3)):
        write_run(tmp_path / name, changes={"paper": {"rows": {"table1": row}}, "dropout": dropout})
    for name in ("GroundHog", "groundhog", "A"):
        assert compared(tmp_path, tmp_path, baseline=name)[2]["baseline"] == "a"
    with pytest.raises(UserError, match=r"^baseline=local-p: names several systems. Fix: choose one of b, c$"):
        compared(tmp_path, tmp_path, baseline="local-p")
    with pytest.raises(UserError, match=r"choose one of a, GroundHog, b, Local-p, c \(did you mean GroundHog\?\)$"):
        compared(tmp_path, tmp_path, baseline="groundhock")


def test_each_score_has_a_better_direction(sweep, tmp_path):
    _, _, tables = compared(tmp_path, sweep)
    better = {score["name"]: score["better"] for score in tables["scores"]}
    assert {name for name, which in better.items() if which == "higher"} == {"bleu", "chrf"}
    assert (better["length_ratio"], better["attention_entropy"]) == ("nearest 1", "neither")
    assert better["words_left_out"] == better["aer"] == better["perplexity"] == "lower"


def test_the_page_the_markdown_and_the_json_have_the_same_tables(sweep, tmp_path):
    page, text, tables = compared(tmp_path, sweep)
    assert data(page, "tables") == tables
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    heads, best, baseline = rows[0], rows[2], rows[3]
    for row, of in ((best, tables["systems"][0]), (baseline, tables["systems"][1])):
        cells = dict(zip(heads, row, strict=True))
        assert cells["system"] == of["system"]
        assert cells["BLEU"].split(" ± ")[0] == f"{of['scores']['bleu']['mean']:.2f}"
        assert cells["n"] == str(len(of["runs"]))
        assert cells["attention"] == of["settings"]["attention"]
        assert cells["parameters"] == "1,500"
    difference = tables["systems"][0]["difference"]["bleu"]
    assert dict(zip(heads, best, strict=True))["Δ BLEU"].startswith(f"{difference:+.2f} [")


def test_the_page_has_every_sentence_and_its_alignments(sweep, tmp_path):
    page, _, _ = compared(tmp_path, sweep)
    held, runs, alignments = (data(page, name) for name in ("sentences", "runs", "alignments"))
    assert unpacked(held["sources"]) == [source for source, _ in pairs(20)]
    assert unpacked(held["references"]) == [reference for _, reference in pairs(20)]
    assert len(held["source_words"]) == 1
    for place, run in enumerate(runs):
        folder = sweep / run["folder"].rpartition("/")[2] / "test"
        hypotheses = (folder / "hypotheses.txt").read_text().splitlines()
        assert [row[place] for chunk in held["hypotheses"] for row in unpacked(chunk)] == hypotheses
        stored = np.load(folder / "alignments.npz")
        chunk = zlib.decompress(base64.b64decode(alignments["runs"][place][0]))
        heads, _, weights = chunk.partition(b"\0")
        start = 0
        for number, (rows, columns, words) in zip(alignments["order"], json.loads(heads), strict=False):
            expected = stored[str(number)].astype(float)
            packed = np.frombuffer(weights[start : start + rows * columns], np.uint8).reshape(rows, columns) / 255
            assert words is None
            assert packed.shape == expected.shape
            assert np.abs(packed - expected).max() < 0.0201
            start += rows * columns


def test_markup_in_runs_stays_text(tmp_path):
    lines = [(f"{EVIL} {number}", f"{EVIL} said {number}") for number in range(4)]
    run = write_run(
        tmp_path / "evil", lines=lines, changes={"dropout": EVIL}, overrides=(f"dropout={EVIL}",), mistakes=0
    )
    write_run(tmp_path / "good", lines=lines)
    write_run(tmp_path / "broken", summary={"status": "failed", "error": EVIL})
    page, text, tables = compared(tmp_path, run, tmp_path / "good", tmp_path / "broken")
    assert data(page, "tables") == tables
    assert tables["settings"] == ["dropout"]
    assert unpacked(data(page, "sentences")["sources"])[0] == lines[0][0]
    assert page.count("</script>") == len(re.findall(r"<script[ >]", page)) == 5 + len(SCRIPTS)  # five hold data
    assert "<script>alert" not in page
    assert "<script>" not in text
    assert all(line.count(" | ") == text.splitlines()[4].count(" | ") for line in text.splitlines()[4:8])


def test_strange_values_do_no_harm(tmp_path):
    half, empty = "half \ud800 a character", ("", "ma")
    strange = {"wall_seconds": float("nan"), "parameters": [1], "steps": "many", "git_commit": half, "last": 3}
    write_run(tmp_path / "a", summary=strange, lines=[(half, half), empty], changes={"dropout": float("inf")})
    write_run(tmp_path / "b", lines=[(half, half), empty], mistakes=0.5, summary={"parameters": {"total": []}})
    page, _, tables = compared(tmp_path, tmp_path)
    assert data(page, "tables") == tables
    assert tables["systems"][0]["settings"] == {"dropout": None}
    assert (tables["systems"][0]["seconds"], tables["systems"][0]["steps"]) == (None, None)
    assert [system["parameters"] for system in tables["systems"]] == [None, None]
    assert unpacked(data(page, "sentences")["sources"]) == ["half ? a character", ""]


def test_runs_whose_sources_have_no_words_are_compared(tmp_path):
    for name, rate in (("a", 0.1), ("b", 0.2)):
        write_run(tmp_path / name, lines=[("", "ma"), ("", "pu ga")], changes={"dropout": rate})
    _, _, tables = compared(tmp_path, tmp_path)
    assert [row["system"] for row in tables["systems"]] == ["a", "b"]


def test_the_policy_permits_the_scripts_of_the_page_and_no_network(sweep, tmp_path):
    page, _, _ = compared(tmp_path, sweep)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    programs = re.findall(r"<script>(.*?)</script>", page, re.S)
    digests = [base64.b64encode(hashlib.sha256(program.encode()).digest()).decode() for program in programs]
    assert policy.split("; ")[:2] == [
        "default-src 'none'",
        "script-src " + " ".join(f"'sha256-{one}'" for one in digests),
    ]
    assert "connect-src" not in policy
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_runs_that_cannot_be_compared_are_listed_with_the_reason(tmp_path):
    good = [write_run(tmp_path / name, changes={"dropout": rate}) for name, rate in (("a", 0.1), ("b", 0.2))]
    write_run(tmp_path / "other_lines", lines=pairs(20, seed=5))
    write_run(tmp_path / "other_test", test="long")
    counted = write_run(tmp_path / "other_bleu") / "test" / "scores.json"
    counted.write_text(counted.read_text().replace("tok:none", "tok:13a"))
    (write_run(tmp_path / "old") / "test" / "sentences.jsonl").unlink()
    write_run(tmp_path / "failed", summary={"status": "failed", "error": "ValueError: nan"})
    write_run(tmp_path / "half", summary={"status": "running"})
    (write_run(tmp_path / "corrupt") / "test" / "scores.json").write_text("{")
    strange = write_run(tmp_path / "strange") / "test" / "scores.json"
    strange.write_text(json.dumps(json.loads(strange.read_text()) | {"data_overrides": ["data.tests.test.count=["]}))
    (write_run(tmp_path / "no_alignments", changes={"dropout": 0.4}) / "test" / "alignments.npz").write_bytes(b"no")
    _, text, tables = compared(tmp_path, tmp_path)
    reasons = {one["run"]: one["reason"] for one in tables["not_compared"]}
    assert {name: reason.split(" (")[0] for name, reason in reasons.items()} == {
        "failed": "failed: ValueError: nan",
        "half": "running",
        "corrupt": "test/scores.json is not JSON",
        "strange": "data_overrides are not arguments",
        "old": "has no test/sentences.jsonl: evaluate it again",
        "other_test": "not evaluated on test; it was on long: python evaluate.py run=FOLDER data.test=test",
        "other_lines": "its sources or references are others",
        "other_bleu": "its BLEU was counted otherwise",
    }
    assert sorted(row["system"] for row in tables["systems"]) == [*(folder.name for folder in good), "no_alignments"]
    assert [note["run"] for note in tables["notes"]] == ["no_alignments"]
    assert all(f"| {name} |" in text for name in reasons)
    _, _, long = compared(tmp_path, tmp_path, test="long")
    assert [row["system"] for row in long["systems"]] == ["other_test"]


def test_evaluations_of_a_changed_text_do_not_outnumber_those_of_the_test_set(tmp_path):
    folders = [write_run(tmp_path / name, changes={"dropout": rate}) for name, rate in (("a", 0.1), ("b", 0.2))]
    for folder in folders:
        for name in ("test,count=10", "test,beam=10,count=10"):
            evaluate(folder, name, pairs(10), 0.3, np.random.default_rng(1))
            path = folder / name / "scores.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"data_overrides": ["data.tests.test.count=10"]}))
    _, _, tables = compared(tmp_path, tmp_path)
    assert sorted(row["system"] for row in tables["systems"]) == ["a", "b"]
    assert len(tables["not_compared"]) == 4


def test_curves_and_alignments_are_read_only_of_compared_runs(tmp_path, monkeypatch):
    write_run(tmp_path / "runs" / "compared")
    write_run(tmp_path / "runs" / "compared_too", seed=2)
    write_run(tmp_path / "runs" / "other_lines", lines=pairs(20, seed=5))
    write_run(tmp_path / "runs" / "failed", summary={"status": "failed"})
    opened, read_text, load = [], Path.read_text, np.load
    monkeypatch.setattr(Path, "read_text", lambda path, **keys: opened.append(path) or read_text(path, **keys))
    monkeypatch.setattr(np, "load", lambda path, **keys: opened.append(path) or load(path, **keys))
    compared(tmp_path, tmp_path / "runs")
    readers = {
        name: {path.relative_to(tmp_path / "runs").parts[0] for path in opened if path.name == name} for name in FILES
    }
    assert readers["summary.json"] == {"compared", "compared_too", "other_lines", "failed"}
    assert readers["config.yaml"] == {"compared", "compared_too", "other_lines"}
    assert readers["metrics.csv"] == readers["alignments.npz"] == {"compared", "compared_too"}


def test_notes_of_a_run_are_in_the_order_of_loading(tmp_path):
    run = write_run(tmp_path / "runs" / "a")
    shutil.rmtree(run / ".hydra")
    (run / "metrics.csv").unlink()
    (run / "test" / "alignments.npz").unlink()
    assert [one["note"] for one in compared(tmp_path, tmp_path / "runs")[2]["notes"]] == [
        "has no .hydra/config.yaml: its settings are not known",
        "has no .hydra/overrides.yaml: its command line is not known",
        "there is no alignments.npz: no alignments; evaluate it again",
        "has no metrics.csv: no learning curves",
    ]


def test_a_single_run_makes_a_table(tmp_path):
    _, _, tables = compared(tmp_path, write_run(tmp_path / "a"))
    assert (tables["settings"], tables["systems"][0]["difference"]) == ([], None)


def test_an_ensemble_is_compared_with_runs(tmp_path):
    write_run(tmp_path / "a")
    ensemble = write_run(tmp_path / "both", mistakes=0.02)
    for name in ("summary.json", "metrics.csv", ".hydra/config.yaml", ".hydra/overrides.yaml", ".hydra/hydra.yaml"):
        (ensemble / name).unlink()
    (ensemble / ".hydra").rmdir()
    scores = json.loads((ensemble / "test" / "scores.json").read_text())
    (ensemble / "test" / "scores.json").write_text(json.dumps(scores | {"members": [{"run": "a"}, {"run": "b"}]}))
    _, _, tables = compared(tmp_path, tmp_path / "a", ensemble)
    assert [row["system"] for row in tables["systems"]] == ["both", "a"]
    assert tables["systems"][0]["parameters"] is None
    assert tables["notes"] == []
    assert tables["settings"] == []
    wider = json.loads((ensemble / "test" / "scores.json").read_text()) | {"search": {"beam": 12}}
    (ensemble / "test" / "scores.json").write_text(json.dumps(wider))
    write_run(tmp_path / "c", changes={"dropout": 0.4}, mistakes=0.3)
    _, _, tables = compared(tmp_path, tmp_path / "a", ensemble, tmp_path / "c")
    settings = {row["system"]: row["settings"] for row in tables["systems"]}
    assert settings == {
        "a": {"dropout": 0.2, "search.beam": 5},
        "both": {"dropout": None, "search.beam": 12},
        "c": {"dropout": 0.4, "search.beam": 5},
    }


def test_several_searches_of_a_run_are_systems_with_the_data_of_its_training(tmp_path):
    for seed in (1, 2):
        run = write_run(tmp_path / f"seed={seed}", seed=seed)
        for beam in (1, 12):
            evaluated = tmp_path / "searches" / f"beam_{beam}_seed_{seed}" / "test"
            shutil.copytree(run / "test", evaluated)
            scores = json.loads((evaluated / "scores.json").read_text())
            scores |= {"search": {"beam": beam}, "members": [{"run": str(run)}]}
            (evaluated / "scores.json").write_text(json.dumps(scores))
    _, _, alone = compared(tmp_path, tmp_path / "seed=1", tmp_path / "seed=2")
    _, _, tables = compared(tmp_path, tmp_path / "searches")
    known = ("parameters", "seconds", "steps", "validation", "seeds")
    of_training = [alone["systems"][0][name] for name in known]
    assert {row["system"]: row["settings"] for row in tables["systems"]} == {
        "beam_1": {"search.beam": 1},
        "beam_12": {"search.beam": 12},
    }
    assert [[row[name] for name in known] for row in tables["systems"]] == [of_training] * 2
    shutil.rmtree(tmp_path / "seed=1")
    _, _, tables = compared(tmp_path, tmp_path / "searches", baseline="beam_1_seed_2")
    gone = f"{tmp_path / 'seed=1'}, which was evaluated, is not there: its settings are not known"
    differs = "searched differently from beam_1_seed_2: search.beam 1 → 12"
    assert [note["note"] for note in tables["notes"]] == [gone] * 2 + [differs] * 2
    assert len(tables["systems"]) == 4


def test_evaluations_of_a_run_with_other_settings_are_other_systems(tmp_path):
    for seed in (1, 2):
        run = write_run(tmp_path / "sweep" / f"attention=dot,seed={seed}", seed=seed, overrides=("attention=dot",))
        shutil.copytree(run / "test", run / "test,beam=12,unknown=copy")
        path = run / "test,beam=12,unknown=copy" / "scores.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"search": {"beam": 12}, "unknown": "copy"}))
    _, _, tables = compared(tmp_path, tmp_path / "sweep")
    rows = {row["system"]: (row["settings"], row["seeds"]) for row in tables["systems"]}
    assert (tables["test"], tables["baseline"]) == ("test", "attention=dot")
    assert rows == {
        "attention=dot": ({"search.beam": 5, "unknown": "keep"}, [1, 2]),
        "attention=dot beam=12 unknown=copy": ({"search.beam": 12, "unknown": "copy"}, [1, 2]),
    }
    (note,) = tables["notes"]
    assert note["note"] == "evaluated differently from attention=dot: search.beam 5 → 12, unknown keep → copy"
    _, _, tables = compared(tmp_path, tmp_path / "sweep", test="test,beam=12,unknown=copy")
    assert [row["system"] for row in tables["systems"]] == ["attention=dot"]
    assert tables["test"] == "test,beam=12,unknown=copy"
    _, _, tables = compared(tmp_path, tmp_path / "sweep", evaluations="own")
    assert [(row["system"], row["seeds"]) for row in tables["systems"]] == [("attention=dot", [1, 2])]
    assert (tables["settings"], tables["notes"]) == ([], [])
    shutil.rmtree(run / "test")
    _, _, tables = compared(tmp_path, tmp_path / "sweep", evaluations="own")
    assert [row["seeds"] for row in tables["systems"]] == [[1]]
    (left_out,) = tables["not_compared"]
    assert left_out["reason"].startswith("not evaluated on test; it was on test,beam=12,unknown=copy: ")
    with pytest.raises(ConfigurationError, match=r"^evaluations=mine: choose all or own$"):
        compared(tmp_path, tmp_path / "sweep", evaluations="mine")


def test_only_the_search_that_made_the_scores_is_compared(tmp_path):
    old = write_run(tmp_path / "old", mistakes=0.2)  # its settings name no search
    named = write_run(
        tmp_path / "named", changes={"search": {"_target_": "nmt.Search", "beam": 12, "top_k": 3}}, seed=2
    )
    _, _, tables = compared(tmp_path, old, named)
    assert [row["seeds"] for row in tables["systems"]] == [[1, 2]]
    assert (tables["settings"], tables["notes"]) == ([], [])
    again(named, named, [named], beam=12)
    _, markdown, tables = compared(tmp_path, old, named)
    assert {row["system"]: row["settings"] for row in tables["systems"]} == {
        "old": {"search.beam": 5},
        "named": {"search.beam": 12},
    }
    assert tables["notes"] == [{"run": "named", "note": "searched differently from old: search.beam 5 → 12"}]
    assert "searched differently from old" in markdown


def test_over_seeds_two_searches_of_the_same_runs_are_paired(tmp_path):
    narrow, wide = [], []
    for seed in (1, 2, 3):
        run = write_run(tmp_path / "runs" / f"seed={seed}", seed=seed, mistakes=0.2 + 0.01 * seed)
        narrow.append(score_of(run))
        other = write_run(tmp_path / "drawn" / f"seed={seed}", seed=seed + 10, mistakes=0.18)
        wide.append(score_of(again(other, tmp_path / "searches" / f"beam_12_seed_{seed}", [run], beam=12)))
    runs = [tmp_path / "runs" / f"seed={seed}" for seed in (1, 2, 3)]
    again(other, tmp_path / "together", runs, beam=5)
    places = [tmp_path / name for name in ("runs", "searches", "together")]
    _, _, tables = compared(tmp_path, *places, baseline=str(runs[0]))
    systems = {
        row["settings"]["search.beam"]: row["system"] for row in tables["systems"] if row["system"] != "together"
    }
    p = {row["system"]: row["difference"]["p_seeds"] for row in tables["systems"] if row["difference"]}
    differences = [wider - narrower for narrower, wider in zip(narrow, wide, strict=True)]
    t = mean(differences) * math.sqrt(3) / stdev(differences)
    assert p[systems[12]] == pytest.approx(student_p(t, 2))
    assert tables["spread_over_seeds"]["degrees"] == 2
    assert p["together"] is None  # an ensemble is not a training
    assert {rate["p_seeds"] for rate in tables["adequacy"]["together"].values()} == {None}
    assert 0 < tables["adequacy"][systems[12]]["words_too_often"]["p_seeds"] < 1


def again(evaluated, folder, runs, beam):
    """Write an evaluation of these runs into another folder."""
    if folder != evaluated:
        shutil.copytree(evaluated / "test", folder / "test")
    path = folder / "test" / "scores.json"
    changes = {"search": {"beam": beam}, "members": [{"run": str(run)} for run in runs]}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def score_of(folder):
    return json.loads((folder / "test" / "scores.json").read_text())["scores"]["bleu"]["score"]


def test_sentences_drawn_together_change_the_intervals_but_not_the_scores(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.report.comparison.MIN_SENTENCES", 10)
    _, _, alone = compared(tmp_path, sweep)
    _, markdown, together = compared(tmp_path, sweep, together=2)
    assert "resamples, 2 sentences at a time" in markdown
    scores, other_scores = ([row["scores"] for row in tables["systems"]] for tables in (alone, together))
    assert scores == other_scores
    single, blocks = (
        next(row["difference"]["by_sentence"] for row in tables["systems"] if row["difference"])
        for tables in (alone, together)
    )
    assert single["difference"] == blocks["difference"]
    assert single["difference_low"] != blocks["difference_low"]
    assert single["difference_high"] != blocks["difference_high"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"test": "tset"}, r"test=tset: no run was evaluated on it. Fix: choose one of test \(did you mean test\?\)"),
        ({"baseline": "attention=dto"}, "baseline=attention=dto: no such run or system. Fix: choose one of"),
        ({"baseline": "attention=aditive"}, r"no such run or system. .*\(did you mean attention=additive\?\)"),
        ({"baseline": "failed"}, r"baseline=failed: is not compared \(failed: no\)"),
        ({"output": "compare.txt"}, "must end with .html. Fix: output=compare.html, beside which"),
        ({"output": "README.md/c.html"}, r"output=README.md/c.html: cannot be written \(Not a directory\)"),
        ({"resamples": 0}, "resamples=0: must be at least 1"),
        ({"resamples": 10**9}, "resamples=1000000000: must be at most 10000"),
        ({"together": 0}, "together=0: must be at least 1"),
        ({"together": 99}, "together=99: the 20 sentences of test make fewer than 20 blocks. Fix: together=1"),
    ],
)
def test_a_wrong_setting_is_an_error(sweep, tmp_path, keys, message):
    write_run(sweep / "failed", summary={"status": "failed", "error": "no"})
    with pytest.raises(UserError, match=message):
        compared(tmp_path, sweep, **keys)


def test_the_error_without_comparable_runs_has_the_first_reasons(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "test" / "sentences.jsonl").unlink()
    with pytest.raises(UserError, match=r"nothing can be compared: a: has no test/sentences.jsonl: evaluate it again"):
        compared(tmp_path, run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to compare"),
        (("nowhere",), "nowhere: no such folder"),
        ((".github",), ".github: no run there"),
        (("ouput=x.html",), "ouput: no such key (did you mean output?); there are output, test,"),
    ],
)
def test_the_command_fails_with_one_line(arguments, message, capsys, monkeypatch, tmp_path):
    status, error = answer("compare", *arguments, f"output={tmp_path}/a.html", capture=capsys, monkeypatch=monkeypatch)
    assert (status, error.count("\n")) == (1, 1)
    assert error.startswith(f"error: {message}")


def test_a_table_escapes_markup_and_aligns_columns():
    table = Table(["a", "b", "c"], [["x|y", "", 1], [Bold("*z*"), "", 2]], alignment=["---", "---", "---:"])
    assert table.drop_empty_columns().to_markdown() == [
        "| a | c |",
        "| --- | ---: |",
        "| x\\|y | 1 |",
        "| **\\*z\\*** | 2 |",
    ]
