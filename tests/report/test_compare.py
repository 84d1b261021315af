"""A comparison's tables, and that the page, the Markdown and the JSON say the same."""

import base64
import hashlib
import json
import math
import re
import shutil
import zlib
from statistics import mean, stdev

import numpy as np
import pytest
from commands import answer
from report.folders import pairs, with_alignments, write_run

from nmt.cli.arguments import read_arguments
from nmt.cli.compare import compare, folders_and_keys
from nmt.errors import ConfigurationError, UserError
from nmt.evaluation.over_under_translation import over_and_under_translation
from nmt.evaluation.significance import student_p
from nmt.report.load.run_folder import find_runs
from nmt.report.render.html_page import SCRIPTS

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


def counted_anew(run):
    lines = (run / "test" / "sentences.jsonl").read_text(encoding="utf-8").splitlines()
    pairs_of_words = [[json.loads(line)[key].split() for key in ("hypothesis", "reference")] for line in lines]
    return over_and_under_translation(*zip(*pairs_of_words, strict=True))


def test_over_and_under_translation_come_with_difference_and_p(sweep, tmp_path):
    page, text, tables = compared(tmp_path, sweep)
    rates = tables["adequacy"]["attention=dot seed=1"]
    runs = ("attention=dot,seed=1", "attention=additive,seed=1", "attention=additive,seed=2")
    dot, first, second = (counted_anew(sweep / run) for run in runs)
    assert {name: rate["value"] for name, rate in rates.items()} == pytest.approx({name: dot[name] for name in rates})
    missing = rates["words_left_out"]
    of_baseline = tables["adequacy"]["attention=additive"]["words_left_out"]
    assert missing["difference"] == pytest.approx(missing["value"] - of_baseline["value"])
    assert missing["difference"] < 0
    assert (of_baseline["difference"], of_baseline["p"], of_baseline["p_seeds"]) == (0, 1, None)
    t = missing["difference"] / (stdev([first["words_left_out"], second["words_left_out"]]) * math.sqrt(1 + 1 / 2))
    assert missing["p_seeds"] == pytest.approx(1 - math.atan(abs(t)) * 2 / math.pi)
    assert data(page, "tables")["adequacy"] == tables["adequacy"]
    section = text.split("## Over- and under-translation")[1].split("##")[0]
    cells = [f"{missing['value']:.2f}", f"−{-missing['difference']:.2f}"]
    cells += [f"{missing['p']:.3f}", f"{missing['p_seeds']:.3f}"]
    assert f"| {' | '.join(cells)} |" in section
    assert "words left out" not in text.split("## Other scores")[1].split("##")[0]


def test_lengths_set_systems_apart_on_their_own_sentences(sweep, tmp_path):
    lines = [(" ".join(["ma"] * length), " ".join(["ma", "pu"] * length)) for length in [4, 14] for _ in range(25)]
    for name, mistakes in (("a", 0.4), ("b", 0.1)):
        write_run(tmp_path / name, lines=lines, mistakes=mistakes, changes={"dropout": mistakes})
    _, text, tables = compared(tmp_path, tmp_path / "a", tmp_path / "b", baseline="a")
    own, other = tables["by_length"]["a"], tables["by_length"]["b"]
    assert [bucket["name"] for bucket in own] == ["1–5", "11–15"]
    for bucket, base in zip(other, own, strict=True):
        assert (base["difference"], base["difference_low"], base["difference_high"]) == (0, 0, 0)
        assert bucket["difference"] == pytest.approx(bucket["bleu"] - base["bleu"])
        assert 0 < bucket["difference_low"] < bucket["difference"] < bucket["difference_high"]
        shown = f"{bucket['bleu']:.2f} +{bucket['difference']:.2f} [+{bucket['difference_low']:.2f}, "
        assert shown in text.split("## BLEU by source length")[1]
    (gain,) = tables["longer"]["b"]
    assert (gain["than"], gain["sentences"]) == (5, 25)
    assert gain["difference"] == pytest.approx(other[1]["difference"] - other[0]["difference"])
    line = f"| b | {gain['difference']:+.2f} [{gain['difference_low']:+.2f}, {gain['difference_high']:+.2f}] |"
    assert line.replace("-", "−") in text.split("## Gain on longer sentences")[1]


def test_where_few_sentences_are_longer_nothing_is_said_of_their_gain(sweep, tmp_path):
    _, text, tables = compared(tmp_path, sweep)
    assert all(one["difference_low"] is None for of_system in tables["longer"].values() for one in of_system)
    assert "Gain on longer sentences" not in text


def test_alignment_error_comes_with_difference_and_p(sweep, tmp_path):
    for run, right in (("attention=additive,seed=1", 1), ("attention=additive,seed=2", 2), ("attention=dot,seed=1", 2)):
        with_alignments(sweep / run, right)
    page, text, tables = compared(tmp_path, sweep)
    own, dot = (tables["alignment"][name] for name in ("attention=additive", "attention=dot seed=1"))
    assert own["aer"]["value"] == pytest.approx(100 * (1 - mean([2 / 6, 4 / 6])))
    assert dot["aer"]["value"] == pytest.approx(100 * (1 - 4 / 6))
    assert dot["saer"]["difference"] == pytest.approx(100 * (1 - 2 / 7) - 100 * (1 - mean([1 / 7, 2 / 7])))
    assert dot["aer"]["p"] == pytest.approx(1 / 51)  # every sentence is the same: none of 50 test sets is as far apart
    assert 0 < dot["aer"]["p_seeds"] < 1
    assert data(page, "tables")["alignment"] == tables["alignment"]
    assert "| attention=dot seed=1 | 33.33 | −16.67 |" in text.split("## Alignment error")[1].replace("`", "")
    assert "AER" not in text.split("## Other scores")[1].split("##")[0]


def test_alignments_judged_by_other_gold_are_noted_and_not_tested(sweep, tmp_path):
    for run, sure in (("attention=additive,seed=1", 2), ("attention=additive,seed=2", 2), ("attention=dot,seed=1", 3)):
        with_alignments(sweep / run, 1, sure)
    tables = compared(tmp_path, sweep, baseline="attention=additive")[2]
    assert tables["alignment"] == {}
    (note,) = tables["notes"]
    assert note["run"] == "attention=dot seed=1"
    assert note["note"].startswith("its alignments were compared with others made by hand than those of attention=addi")


def test_damaged_counts_of_alignments_cost_their_run_alone(sweep, tmp_path):
    for run in ("attention=additive,seed=1", "attention=additive,seed=2"):
        with_alignments(sweep / run, 1)
    path = sweep / "attention=dot,seed=1" / "test" / "scores.json"
    for rows in (["1 2"] * 20, ["a"] * 20, [None] * 20, 3, ["nan " * 8] * 20, ["1 " * 8] * 19):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"alignment_counts": rows}))
        tables = compared(tmp_path, sweep)[2]
        assert [row["system"] for row in tables["systems"]] == ["attention=additive"]
        assert "alignment_counts are not 8 numbers a sentence" in tables["not_compared"][0]["reason"]


def test_what_was_evaluated_in_another_way_is_another_system(sweep, tmp_path):
    path = sweep / "attention=additive,seed=2" / "test" / "scores.json"
    stored = json.loads(path.read_text())
    path.write_text(
        json.dumps(stored | {"int8": False, "candidates": None, "weights": None, "average": "probabilities"})
    )
    assert len(compared(tmp_path, sweep)[2]["systems"]) == 2  # as evaluations of old, which do not say it
    path.write_text(json.dumps(stored | {"int8": True}))
    tables = compared(tmp_path, sweep)[2]
    assert len(tables["systems"]) == 3
    assert [row["settings"]["int8"] for row in tables["systems"]].count(True) == 1
    for name, systems in (("best.ckpt", 2), ("mean.ckpt", 3)):  # of old evaluations the best is meant
        path.write_text(json.dumps(stored | {"members": [{"run": "a", "checkpoint": name, "step": 7}]}))
        assert len(compared(tmp_path, sweep)[2]["systems"]) == systems
    assert [row["settings"]["checkpoint"] for row in compared(tmp_path, sweep)[2]["systems"]].count("mean.ckpt") == 1


def test_a_run_of_other_code_than_the_baselines_is_noted(tmp_path):
    for name, code in (("base", ["a"]), ("same", ["a"]), ("other", ["a", "b"]), ("silent", None)):
        write_run(tmp_path / "runs" / name, changes={"name_of": name}, summary={"code": code} if code else None)
    notes = compared(tmp_path, tmp_path / "runs", baseline="base")[2]["notes"]
    assert notes == [{"run": "other", "note": "trained by other code of nmt/model or nmt/training than base"}]


def test_a_run_that_went_on_with_something_else_is_noted(tmp_path):
    for name, told in (("base", {}), ("other", {"went_on_with": "x/last.ckpt"})):
        write_run(tmp_path / "runs" / name, changes={"name_of": name}, summary=told)
    (note,) = compared(tmp_path, tmp_path / "runs", baseline="base")[2]["notes"]
    assert note == {"run": "other", "note": "went on with x/last.ckpt: was not trained by its settings and data alone"}


def test_the_same_seed_twice_is_noted(sweep, tmp_path):
    write_run(sweep / "attention=additive,again=true,seed=2", seed=2, overrides=("attention=additive",), mistakes=0.3)
    (note,) = compared(tmp_path, sweep)[2]["notes"]
    assert "additive" in note["run"]
    assert re.match(r"has the seed of .*additive.*, 2, and all else alike", note["note"])


def test_a_seed_that_was_run_again_tells_no_more_of_training_anew(sweep, tmp_path):
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
    config.write_text(config.read_text().replace("${seed}", "7"))  # other batches are training anew
    assert compared(tmp_path, sweep)[2]["systems"][1]["seeds"] == [1, 2, 2]


def test_the_score_on_validation_is_told_where_all_runs_have_the_same(tmp_path):
    for seed, score in ((1, 30.0), (2, 31.0)):
        best = {"metric": "valid/bleu", "score": score, "checkpoint": "x"}
        write_run(tmp_path / "plain" / f"run{seed}", seed=seed, summary={"best": best})
    write_run(tmp_path / "wide" / "run", changes={"size.hidden": 64}, summary={"best": ["no", "such"]})
    _, text, tables = compared(tmp_path, tmp_path)
    assert tables["validation"] == "valid/bleu"
    found = {row["system"]: row["validation"] for row in tables["systems"]}
    assert found == {"plain": {"mean": 30.5, "deviation": pytest.approx(0.7071, abs=1e-4)}, "wide/run": None}
    assert "| valid/bleu |" in text
    assert "| 30.50 ± 0.71 |" in text
    other = {"metric": "valid/loss", "score": 2.0, "checkpoint": "x"}
    write_run(tmp_path / "wide" / "run", changes={"size.hidden": 64}, summary={"best": other})
    _, text, tables = compared(tmp_path, tmp_path)
    assert tables["validation"] is None
    assert "30.50" not in text


def test_a_mean_over_some_of_the_seeds_says_of_how_many(sweep, tmp_path):
    path = sweep / "attention=additive,seed=2" / "test" / "scores.json"
    stored = json.loads(path.read_text())
    stored["scores"]["perplexity"] = float("nan")
    path.write_text(json.dumps(stored))
    _, text, tables = compared(tmp_path, sweep)
    (row,) = (row for row in tables["systems"] if row["system"] == "attention=additive")
    assert row["scores"]["perplexity"] == {"mean": 5.0, "of": [1, 2]}
    assert "| 5.00 (1 of 2) |" in text
    assert "of" not in row["scores"]["bleu"]


def test_a_tokeniser_is_known_by_its_setting_not_by_what_its_signature_calls_it(sweep):
    path = sweep / "attention=dot,seed=1" / "test" / "scores.json"
    stored = json.loads(path.read_text())
    stored["scores"]["bleu"]["signature"] = "nrefs:1|case:mixed|eff:no|tok:ja-mecab-0.996-IPA|smooth:exp|version:2.6.0"
    path.write_text(json.dumps(stored | {"counted": {"tokenize": "char", "lowercase": False}}))
    (run,) = find_runs([str(path.parent.parent)])
    assert run.on("test").counting == {"tokenize": "char", "lowercase": False}


def test_seeds_are_folded_and_the_best_comes_first(sweep, tmp_path):
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


def test_a_system_without_an_override_of_its_own_is_called_by_what_all_have(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / f"memory=buffer,seed={seed}", seed=seed, overrides=("memory=buffer",))
        further = ("memory=buffer", "attention=coverage")
        changes = {"choices": {"attention": "coverage"}, "changes": {"attention": {"name": "coverage"}}}
        write_run(tmp_path / f"attention=coverage,memory=buffer,seed={seed}", seed=seed, overrides=further, **changes)
    _, _, tables = compared(tmp_path, tmp_path)
    assert {row["system"] for row in tables["systems"]} == {"memory=buffer", "attention=coverage"}


def test_a_system_can_be_the_baseline_by_the_name_it_has_in_the_table(tmp_path):
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


def test_of_each_score_it_is_known_what_is_better(sweep, tmp_path):
    _, _, tables = compared(tmp_path, sweep)
    better = {score["name"]: score["better"] for score in tables["scores"]}
    assert {name for name, which in better.items() if which == "higher"} == {"bleu", "chrf"}
    assert (better["length_ratio"], better["attention_entropy"]) == ("nearest 1", "neither")
    assert better["words_left_out"] == better["aer"] == better["perplexity"] == "lower"


def test_the_page_and_the_json_hold_the_same_tables(sweep, tmp_path):
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


def test_the_page_holds_every_sentence_and_its_alignments(sweep, tmp_path):
    page, _, _ = compared(tmp_path, sweep)
    held, runs, alignments = (data(page, name) for name in ("sentences", "runs", "alignments"))
    assert unpacked(held["sources"]) == [source for source, _ in pairs(20)]
    assert unpacked(held["references"]) == [reference for _, reference in pairs(20)]
    assert len(held["source_words"]) == 1
    for place, run in enumerate(runs):
        folder = sweep / run["folder"].rpartition("/")[2] / "test"
        said = (folder / "hypotheses.txt").read_text().splitlines()
        assert [row[place] for chunk in held["hypotheses"] for row in unpacked(chunk)] == said
        stored = np.load(folder / "alignments.npz")
        chunk = zlib.decompress(base64.b64decode(alignments["runs"][place][0]))
        heads, _, weights = chunk.partition(b"\0")
        start = 0
        for number, (rows, columns, words) in zip(alignments["order"], json.loads(heads), strict=False):
            expected = stored[str(number)].astype(float)
            own = np.frombuffer(weights[start : start + rows * columns], np.uint8).reshape(rows, columns) / 255
            assert words is None
            assert own.shape == expected.shape
            assert np.abs(own - expected).max() < 0.0201
            start += rows * columns


def test_what_runs_contain_stays_text(tmp_path):
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
    assert page.count("</script>") == len(re.findall(r"<script[ >]", page)) == 4 + len(SCRIPTS)  # four hold data
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


def test_the_policy_permits_the_programs_of_the_page_and_no_network(sweep, tmp_path):
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


def test_what_cannot_be_compared_is_listed_with_the_reason(tmp_path):
    good = [write_run(tmp_path / name, changes={"dropout": rate}) for name, rate in (("a", 0.1), ("b", 0.2))]
    write_run(tmp_path / "other_lines", lines=pairs(20, seed=5))
    write_run(tmp_path / "other_test", test="long")
    counted = write_run(tmp_path / "other_bleu") / "test" / "scores.json"
    counted.write_text(counted.read_text().replace("tok:none", "tok:13a"))
    (write_run(tmp_path / "old") / "test" / "sentences.jsonl").unlink()
    write_run(tmp_path / "failed", summary={"status": "failed", "error": "ValueError: nan"})
    write_run(tmp_path / "half", summary={"status": "running"})
    (write_run(tmp_path / "corrupt") / "test" / "scores.json").write_text("{")
    (write_run(tmp_path / "no_alignments", changes={"dropout": 0.4}) / "test" / "alignments.npz").write_bytes(b"no")
    _, text, tables = compared(tmp_path, tmp_path)
    reasons = {one["run"]: one["reason"] for one in tables["not_compared"]}
    assert {name: reason.split(" (")[0] for name, reason in reasons.items()} == {
        "failed": "failed: ValueError: nan",
        "half": "running",
        "corrupt": "test/scores.json is not JSON",
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


def test_a_run_of_its_own_is_a_table_too(tmp_path):
    _, _, tables = compared(tmp_path, write_run(tmp_path / "a"))
    assert (tables["settings"], tables["systems"][0]["difference"]) == ([], None)


def test_an_ensemble_stands_beside_runs(tmp_path):
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
    found = {row["system"]: row["settings"] for row in tables["systems"]}
    assert found == {
        "a": {"dropout": 0.2, "search.beam": 5},
        "both": {"dropout": None, "search.beam": 12},
        "c": {"dropout": 0.4, "search.beam": 5},
    }


def test_several_searches_of_a_run_stand_side_by_side_with_all_that_is_known_of_it(tmp_path):
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
    assert [note["note"] for note in tables["notes"]] == [gone] * 2
    assert len(tables["systems"]) == 4


def test_over_seeds_evaluations_of_the_same_runs_are_pairs_and_an_ensemble_is_none(tmp_path):
    own, wider = [], []
    for seed in (1, 2, 3):
        run = write_run(tmp_path / "runs" / f"seed={seed}", seed=seed, mistakes=0.2 + 0.01 * seed)
        own.append(score_of(run))
        other = write_run(tmp_path / "drawn" / f"seed={seed}", seed=seed + 10, mistakes=0.18)
        wider.append(score_of(again(other, tmp_path / "searches" / f"beam_12_seed_{seed}", [run], beam=12)))
    runs = [tmp_path / "runs" / f"seed={seed}" for seed in (1, 2, 3)]
    again(other, tmp_path / "together", runs, beam=5)
    places = [tmp_path / name for name in ("runs", "searches", "together")]
    _, _, tables = compared(tmp_path, *places, baseline=str(runs[0]))
    found = {row["settings"]["search.beam"]: row["system"] for row in tables["systems"] if row["system"] != "together"}
    told = {row["system"]: row["difference"] for row in tables["systems"]}
    differences = [theirs - ours for ours, theirs in zip(own, wider, strict=True)]
    t = mean(differences) * math.sqrt(3) / stdev(differences)
    assert told[found[12]]["p_seeds"] == pytest.approx(student_p(t, 2))
    assert tables["spread_over_seeds"]["degrees"] == 2
    assert told["together"]["p_seeds"] is None
    assert {rate["p_seeds"] for rate in tables["adequacy"]["together"].values()} == {None}
    assert 0 < tables["adequacy"][found[12]]["words_too_often"]["p_seeds"] < 1


def again(evaluated, folder, runs, beam):
    """An evaluation of these runs, kept elsewhere."""
    shutil.copytree(evaluated / "test", folder / "test")
    path = folder / "test" / "scores.json"
    told = {"search": {"beam": beam}, "members": [{"run": str(run)} for run in runs]}
    path.write_text(json.dumps(json.loads(path.read_text()) | told))
    return folder


def score_of(folder):
    return json.loads((folder / "test" / "scores.json").read_text())["scores"]["bleu"]["score"]


def test_sentences_drawn_together_give_other_intervals_of_the_same_scores_and_it_is_said(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.cli.compare.MIN_SENTENCES", 10)
    _, _, alone = compared(tmp_path, sweep)
    _, markdown, together = compared(tmp_path, sweep, together=2)
    assert "resamples, 2 sentences at a time" in markdown
    own, other = ([row["scores"] for row in tables["systems"]] for tables in (alone, together))
    assert own == other
    own, other = (
        next(row["difference"]["by_sentence"] for row in tables["systems"] if row["difference"])
        for tables in (alone, together)
    )
    assert own["difference"] == other["difference"]
    assert (own["difference_low"], own["difference_high"]) != (other["difference_low"], other["difference_high"])


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"test": "tset"}, r"test=tset: no run was evaluated on it; there is test \(did you mean test\?\)"),
        ({"baseline": "attention=dto"}, "baseline=attention=dto: no such run; there are"),
        ({"baseline": "attention=aditive"}, r"no such run; .*\(did you mean attention=additive\?\)"),
        ({"baseline": "failed"}, r"baseline=failed: is not compared \(failed: no\)"),
        ({"output": "compare.txt"}, "must end with .html"),
        ({"output": "README.md/c.html"}, r"output=README.md/c.html: cannot be written \(File exists\)"),
        ({"resamples": 0}, "resamples=0: must be at least 1"),
        ({"together": 0}, "together=0: must be at least 1"),
        ({"together": 99}, "together=99: test has 20 sentences, which are to be 20 pieces at least: together=1"),
    ],
)
def test_mistakes_are_told(sweep, tmp_path, keys, said):
    write_run(sweep / "failed", summary={"status": "failed", "error": "no"})
    with pytest.raises(UserError, match=said):
        compared(tmp_path, sweep, **keys)


def test_where_nothing_can_be_compared_the_first_reasons_are_told(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "test" / "sentences.jsonl").unlink()
    with pytest.raises(UserError, match=r"nothing can be compared: a: has no test/sentences.jsonl: evaluate it again"):
        compared(tmp_path, run)


def test_folders_of_sweeps_have_equals_signs_in_their_names(sweep):
    job = str(sweep / "attention=dot,seed=1")
    assert folders_and_keys([job, "output=a=b.html", "runs"]) == ([job, "runs"], ["output=a=b.html"])
    with pytest.raises(ConfigurationError, match=r"ouput=x.html: no such key and no such folder; keys are output"):
        folders_and_keys(["ouput=x.html"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((), "nothing to compare"), (("nowhere",), "nowhere: no such folder"), ((".github",), ".github: no run there")],
)
def test_the_command_fails_with_one_line(arguments, said, capsys, monkeypatch, tmp_path):
    status, error = answer("compare", *arguments, f"output={tmp_path}/a.html", capture=capsys, monkeypatch=monkeypatch)
    assert (status, error.count("\n")) == (1, 1)
    assert error.startswith(f"error: {said}")
