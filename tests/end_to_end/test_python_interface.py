"""`from nmt import load, compare` gives what the commands give."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from code_blocks import find_blocks
from commands import ROOT, TWO_STEPS, command
from report.folders import write_run

from nmt import compare, load
from nmt.errors import UserError
from nmt.runs.trained_model import TrainedRun

pytestmark = pytest.mark.xdist_group("the Python interface")  # so that one worker trains the run

COVERAGE = ("attention=coverage", "data.tests.test.count=100")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python") / "run"
    command("train", *TWO_STEPS, *COVERAGE, f"hydra.run.dir={folder}")
    command("evaluate", f"run={folder}")
    return folder


@pytest.fixture(scope="module")
def pairs(run):
    _, pairs = TrainedRun(str(run)).data([]).test_pairs()
    return list(pairs)


@pytest.fixture(scope="module")
def model(run):
    return load(run)


def test_translations_are_those_of_the_command(run, model, pairs, tmp_path):
    (tmp_path / "source").write_text("".join(f"{pair.source}\n" for pair in pairs[:5]) + "\n")
    files = (f"input={tmp_path / 'source'}", f"output={tmp_path / 'out'}")
    command("translate", f"run={run}", *files, "format=json", "nbest=2", "alignments=true", "beam=3")
    written = [json.loads(line)["translations"] for line in (tmp_path / "out").read_text().splitlines()]
    translated = model.translate_nbest([pair.source for pair in pairs[:5]], nbest=2, beam=3)
    for expected, translations in zip(written[:5], translated, strict=True):
        assert [one["text"] for one in expected] == [one.text for one in translations]
        assert [one["words"] for one in expected] == [one.words for one in translations]
        assert [[tuple(link) for link in one["links"]] for one in expected] == [one.links for one in translations]
        np.testing.assert_allclose([one["score"] for one in expected], [one.score for one in translations], atol=1e-5)
        np.testing.assert_allclose(expected[0]["alignment"], translations[0].alignment, atol=1e-4)
    (blank,) = model.translate([" "])
    assert (blank.text, blank.words, written[5]) == ("", [], [])


def test_scores_of_a_test_set_are_those_of_the_command(run, model, pairs):
    scores = json.loads((run / "test" / "scores.json").read_text())["scores"]
    found = model.evaluate([pair.source for pair in pairs], [pair.target for pair in pairs])
    assert found == pytest.approx({name: scores[name]["score"] for name in found}, abs=1e-4)


def test_scores_of_given_translations_are_those_of_the_command(run, model, pairs, tmp_path):
    for side in ("source", "target"):
        (tmp_path / side).write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs))
    done = command("evaluate", f"run={run}", f"score=[{tmp_path / 'source'},{tmp_path / 'target'}]")
    scored = model.score([(pair.source, pair.target) for pair in pairs])
    assert done.stdout.splitlines() == [f"{one.log_probability:.4f}\t{one.mean:.4f}" for one in scored]


def test_given_translations_are_aligned_as_the_search_says(run, model, pairs):
    other = load(run)
    other._settings.aligned_word = "read"
    given = [(pair.source, pair.target) for pair in pairs[:3]]
    for predicted, read in zip(model.score(given), other.score(given), strict=True):
        assert read.log_probability == pytest.approx(predicted.log_probability)
        assert not np.allclose(read.alignment, predicted.alignment)


def test_an_ensemble_of_a_run_with_itself_translates_as_the_run(run, model, pairs):
    sources = [pair.source for pair in pairs[:4]]
    assert [str(one) for one in load(run, run).translate(sources)] == [str(one) for one in model.translate(sources)]


def test_a_translation_draws_itself_and_its_traces(model, pairs):
    (translation,) = model.translate([pairs[0].source], traces=True)
    assert set(translation.traces) == {"coverage"}
    axes = translation.plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == translation.words
    assert len(translation.plot("coverage").axes) == 2  # with its scale
    page = translation._repr_html_()
    assert page.startswith("<p>")
    assert len({translation, *model.translate([pairs[0].source])}) == 2  # each is an object of its own
    assert 'src="data:image/png;base64,iVBOR' in page


def test_the_leaderboard_has_the_numbers_of_the_tables(run, tmp_path):
    compared = compare([run], resamples=10)
    row = compared.tables["systems"][0]
    assert compared.leaderboard.loc[row["system"], "bleu"] == row["scores"]["bleu"]["mean"]
    page = compared.save(tmp_path / "page.html")
    assert json.loads(page.with_suffix(".json").read_text()) == compared.tables


def test_the_leaderboard_has_the_difference_to_the_baseline_beside_the_scores(tmp_path):
    for name, mistakes in (("a", 0.1), ("b", 0.3)):
        write_run(tmp_path / name, changes={"dropout": mistakes}, mistakes=mistakes)
    compared = compare([tmp_path], baseline="a", resamples=10)
    tables = {row["system"]: row for row in compared.tables["systems"]}
    row, difference = compared.leaderboard.loc["b"], tables["b"]["difference"]
    assert row["bleu"] == tables["b"]["scores"]["bleu"]["mean"]
    assert row["bleu_difference"] == difference["bleu"] < 0
    assert row["p_bootstrap"] == difference["by_sentence"]["p_bootstrap"]
    assert not any(isinstance(value, dict) for value in row)


@pytest.mark.parametrize("page", ["compare.md", "RUN/test/scores.html"])
def test_a_page_replaces_neither_its_tables_nor_files_of_a_run(page, tmp_path):
    run = write_run(tmp_path / "RUN")
    scores = (run / "test" / "scores.json").read_bytes()
    with pytest.raises(UserError, match=r"must end with .html|would replace .*scores.json"):
        compare([run], resamples=10).save(tmp_path / page)
    assert (run / "test" / "scores.json").read_bytes() == scores


def test_the_leaderboard_is_a_list_without_pandas(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    compared = compare([run], resamples=10)
    (row,), (system,) = compared.leaderboard, compared.tables["systems"]
    assert (row["system"], row["runs"], row["bleu"]) == (system["system"], 1, system["scores"]["bleu"]["mean"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: load(), r"load\(\): no run is given. Fix: load\("),
        (lambda model: load("nowhere"), "nowhere: no such folder"),
        (lambda model: load("nowhere", dvice="cpu"), r"dvice: no such setting \(did you mean device\?\). Fix: choose"),
        (lambda model: model.translate("a text"), r"takes a list of lines, not one text. Fix: translate\(\[text\]\)"),
        (lambda model: model.translate(["a"], bean=3), r"bean: no such setting \(did you mean beam\?\)"),
        (lambda model: model.translate(["a"], beam="ten"), "beam=ten: must be a number"),
        (lambda model: model.translate(["a"], beam=0), "beam=0: must be at least 1"),
        (lambda model: model.translate(["a"], batch_size=None), "batch_size=null: must be at least 1"),
        (lambda model: model.score([("a", "b")], batch_size=0), "batch_size=0: must be at least 1"),
        (lambda model: model.translate(["a"], nbest=2), r"Fix: translate_nbest\(lines, nbest=…\)"),
        (lambda model: model.translate_nbest(["a"], nbest="two"), "nbest=two: must be a number"),
        (lambda model: compare("outputs"), r"takes a list of folders. Fix: compare\(\[folder\]\)"),
        (lambda model: model.translate(["a"])[0].plot("coverage"), r"no such trace. Fix: translate\(..., traces="),
        (lambda model: model.evaluate(["a"], ["b", "c"]), "1 sources and 2 references"),
        (lambda model: model.evaluate([], []), "no sources"),
        (lambda model: model.score([(" ", "b")]), "the source of pair 0 has no words. Fix: leave the pair out"),
        (lambda model: compare([]), "nothing to compare"),
        (lambda model: compare(["a"], evaluations="mine"), "evaluations=mine: choose all or own"),
    ],
)  # fmt: skip
def test_a_mistake_names_what_to_type(model, call, message):
    with pytest.raises(UserError, match=message):
        call(model)


def test_the_documentation_runs_as_it_stands(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "outputs" / "demo").mkdir(parents=True)
    for name in ("first", "second"):
        (tmp_path / "outputs" / "demo" / name).symlink_to(run)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    values: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S):
        exec(block, values)
    assert {path.name for path in tmp_path.iterdir()} >= {"alignment.png", "coverage.png", "compare.html", "compare.md"}
    assert "bleu" in capsys.readouterr().out


def test_the_example_of_the_readme_runs(run, tmp_path, monkeypatch, capsys):
    (program,) = (block.text for block in find_blocks(ROOT / "README.md") if block.language == "python")
    folder = tmp_path / re.search(r'load\("(.*)"\)', program)[1]
    folder.parent.mkdir(parents=True)
    folder.symlink_to(run)
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    assert (tmp_path / "alignment.png").is_file()
    assert re.search(r"-\d+\.\d+\n$", capsys.readouterr().out)


def test_importing_the_package_does_not_import_torch():
    program = "import sys, nmt; assert 'torch' not in sys.modules; nmt.load; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
