"""The table of a paper: our scores beside the paper's, on the test set that the runs were trained for."""

import json
from statistics import mean, stdev

import numpy as np
import pytest
from report.folders import evaluate, pairs, write_run

from nmt.errors import ConfigurationError
from nmt.report.render.paper_table import Entry, write_table

TABLE = {"table": "table2", "title": "Alignment quality"}


def entry(folder, figures: dict, row: str = "Base", seed: int = 1, status: str = "completed") -> Entry:
    return Entry({"rows": {"table2": row}, "figures": figures}, seed, folder, status)


def write_and_read(folder, *entries: Entry, **tabulated) -> tuple[dict, list[list[str]]]:
    """Write the table; return table.json, and the cells of table.md."""
    write_table(folder, TABLE | tabulated, entries)
    lines = (folder / "table.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return json.loads((folder / "table.json").read_text(encoding="utf-8")), rows


def change_scores(folder, **scores) -> dict:
    """Change scores of a run; return all of them."""
    path = folder / "test" / "scores.json"
    stored = json.loads(path.read_text())
    stored["scores"] |= scores
    path.write_text(json.dumps(stored))
    return stored["scores"]


def test_a_later_evaluation_on_another_test_set_does_not_change_the_table(tmp_path):
    folder = write_run(tmp_path / "seed=1", mistakes=0.3)
    bleu = change_scores(folder)["bleu"]["score"]
    evaluate(folder, "long", pairs(20, seed=7), 0.0, np.random.default_rng(1))  # comes before "test" by name
    table, rows = write_and_read(tmp_path, entry(folder, {}))
    assert table["rows"][0]["bleu"]["mean"] == bleu < 100
    assert table["rows"][0]["tests"] == ["test"]
    assert rows[2] == ["Base", f"{bleu:.2f}", "5.00", "1", ""]


def test_further_settings_of_a_sweep_make_further_rows(tmp_path):
    tried = [("size=small", 1, 0.3), ("size=small", 2, 0.3), ("size=tiny", 1, 0.6)]
    entries = []
    for size, seed, mistakes in tried:
        folder = write_run(tmp_path / f"{size},seed={seed}", seed=seed, mistakes=mistakes)
        overrides = ("experiment=base", size, "data=multi30k", f"seed={seed}")
        entries.append(entry(folder, {}, seed=seed)._replace(overrides=overrides))
    table, rows = write_and_read(tmp_path, *entries)
    assert [row[0] for row in rows[2:]] == ["Base, size=small", "Base, size=tiny"]
    assert [row["n"] for row in table["rows"]] == [2, 1]
    assert table["rows"][0]["bleu"]["mean"] > table["rows"][1]["bleu"]["mean"]
    assert [row[0] for row in write_and_read(tmp_path, *entries[:2])[1][2:]] == ["Base"]
    assert "- all rows: `data=multi30k size=small`\n" in (tmp_path / "table.md").read_text()
    shuffled = [one._replace(overrides=(f"data.seed={one.seed}", "threads=1")) for one in entries[:2]]
    assert [row["n"] for row in write_and_read(tmp_path, *shuffled)[0]["rows"]] == [2]


def test_a_search_of_all_runs_stands_below_the_table_and_another_beside_its_row(tmp_path):
    runs = [write_run(tmp_path / f"seed={seed}", seed=seed) for seed in (1, 2, 3)]
    entries = [entry(run, {}, row=f"Row {seed}", seed=seed) for seed, run in enumerate(runs, start=1)]

    def search_with(beams):
        for run, beam in zip(runs, beams, strict=True):
            path = run / "test" / "scores.json"
            search = {"beam": beam, "length_penalty": 0.0}
            path.write_text(json.dumps(json.loads(path.read_text()) | {"search": search}))
        remarks = [row[-1] for row in write_and_read(tmp_path, *entries)[1][2:]]
        return remarks, "Ours: test; beam=10 length_penalty=0.0; sacrebleu" in (tmp_path / "table.md").read_text()

    assert search_with((10, 10, 10)) == (["", "", ""], True)
    remarks = ["beam=10 length_penalty=0.0"] * 2 + ["length_penalty=0.0"]
    assert search_with((10, 10, 5)) == (remarks, False)


def test_without_a_test_set_the_validation_set_counts(tmp_path):
    folder = write_run(tmp_path / "seed=1", changes={"data.test": None}, test="valid")
    assert write_and_read(tmp_path, entry(folder, {}))[0]["rows"][0]["tests"] == ["valid"]


def test_our_scores_stand_beside_the_figures_of_the_paper(tmp_path):
    first, second = (write_run(tmp_path / f"seed={seed}", seed=seed, mistakes=0.3) for seed in (1, 2))
    other = write_run(tmp_path / "other", changes={"dropout": 0.5})
    bleu = [
        change_scores(run, saer=saer, tb={"score": 3.0, "signature": ""})["bleu"]["score"]
        for run, saer in ((first, 60.0), (second, 62.0))
    ]
    other_bleu = change_scores(other)["bleu"]["score"]
    figures = {"MT06": {"bleu": 32.47}, "MT08": {"bleu": 25.23, "tb": 14.6}, "all": {"saer": 64.25}}
    entries = [
        entry(first, figures),
        entry(second, figures, seed=2),
        entry(other, {"all": {"saer": 66.3}}, row="Linguistic"),
        entry(tmp_path / "waiting", {}, row="Neural", status="waiting"),
    ]
    table, rows = write_and_read(tmp_path, *entries)
    assert table["rows"][0]["saer"] == {"mean": 61.0, "deviation": stdev((60, 62))}
    shown = f"{mean(bleu):.2f} ± {stdev(bleu):.2f}"
    assert [", ".join(row) for row in (rows[0], *rows[2:])] == [
        "system, BLEU, the paper's, perplexity, tb, the paper's, SAER, the paper's, n, ",
        f"Base, {shown}, MT06 32.47; MT08 25.23, 5.00 ± 0.00, 3.00 ± 0.00, MT08 14.6, 61.00 ± 1.41, all 64.25, 2, ",
        f"Linguistic, {other_bleu:.2f}, , 5.00, , , , all 66.3, 1, ",
        "Neural, , , , , , , , , waiting",
    ]


def test_rows_stand_in_the_papers_order_with_systems_that_the_sweep_does_not_train(tmp_path):
    aligned, translated = {"all": {"aer": 39.0}}, {"MT06": {"bleu": 32.47}}
    entries = [
        entry(tmp_path / "waiting", {"all": {"aer": 54.67, "saer": 67.0}}, row="Base", status="waiting"),
        entry(tmp_path / "mine", {}, row="Mine", status="waiting"),  # is not listed
        entry(tmp_path / "failed", aligned | translated, row="Coverage", status="failed"),
    ]
    listed = [{"row": "Moses", "figures": {"all": {"aer": 32.0}}}, "Coverage", "Not swept", "Base"]
    _, rows = write_and_read(tmp_path, *entries, rows=listed, scores=["aer"])
    assert [", ".join(row) for row in (rows[0], *rows[2:])] == [
        "system, BLEU, perplexity, AER, the paper's, n, ",
        "Moses, , , , all 32.0, , ",
        "Coverage, , , , all 39.0, , failed",
        "Base, , , , all 54.67, , waiting",
        "Mine, , , , , , waiting",
    ]


def test_a_row_of_an_ensemble_has_the_scores_of_its_evaluation_in_the_folder_of_the_sweep(tmp_path):
    runs = [write_run(tmp_path / f"seed={seed}", seed=seed, mistakes=0.3) for seed in (1, 2)]
    entries = [entry(run, {}, seed=seed) for seed, run in enumerate(runs, start=1)]
    listed = ["Base", {"row": "+ Ensemble", "figures": {"WMT": {"bleu": 26.99}}, "output": "two"}]
    listed += [{"row": "Our ensemble", "output": "ours"}]
    _, rows = write_and_read(tmp_path, *entries, rows=listed)
    assert rows[3] == ["+ Ensemble", "", "WMT 26.99", "", "", "evaluate.py output=…/two"]
    assert rows[4] == ["Our ensemble", "", "", "", "", "evaluate.py output=…/ours"]
    evaluate(tmp_path / "two", "test", pairs(20), 0.1, np.random.default_rng(1))
    bleu = change_scores(tmp_path / "two")["bleu"]["score"]
    _, rows = write_and_read(tmp_path, *entries, rows=listed)
    assert rows[3] == ["+ Ensemble", f"{bleu:.2f}", "WMT 26.99", "5.00", "1", ""]
    (tmp_path / "two" / "test").rename(tmp_path / "two" / "test,unknown=translate")
    assert write_and_read(tmp_path, *entries, rows=listed)[1][3][1] == f"{bleu:.2f}"


@pytest.mark.parametrize(
    ("unknown", "scores", "cells"),
    [
        ("keep", {"bleu_tokenized": 18.0}, ["18.00", ""]),
        ("translate", {"bleu_tokenized": 20.0, "bleu_unknown_kept": 18.0}, ["18.00", "20.00"]),
        ("copy", {"bleu_tokenized": 18.0}, ["18.00", "18.00"]),  # there was no unknown word
    ],
)
def test_bleu_before_and_after_unknown_words_were_replaced_are_two_columns(tmp_path, unknown, scores, cells):
    folder = write_run(tmp_path / "seed=1")
    change_scores(folder, **scores)
    path = folder / "test" / "scores.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"unknown": unknown}))
    figures = {"WMT": {"bleu_tokenized": 18.6, "bleu_unknown_replaced": 20.5}}
    _, rows = write_and_read(tmp_path, entry(folder, figures))
    assert rows[0][3:7] == ["bleu tokenized", "the paper's", "bleu unknown replaced", "the paper's"]
    assert rows[2][3:7] == [cells[0], "WMT 18.6", cells[1], "WMT 20.5"]


@pytest.mark.parametrize("paper", [{}, {"rows": {"table1": "Base"}}])
def test_a_run_that_is_not_a_row_of_the_table_is_an_error(tmp_path, paper):
    with pytest.raises(
        ConfigurationError,
        match=r"seed=1 is not a row of Alignment quality, whose rows are its experiments. Fix: leave out experiment=",
    ):
        write_and_read(tmp_path, Entry(paper, 1, tmp_path / "seed=1", "waiting"))


def test_a_damaged_file_leaves_out_only_its_run(tmp_path):
    runs = [write_run(tmp_path / f"seed={seed}", seed=seed) for seed in (1, 2, 3)]
    (runs[1] / "test" / "scores.json").write_text('{"scores": {"bleu": "much"}}')
    (runs[2] / ".hydra" / "config.yaml").unlink()
    table, _ = write_and_read(tmp_path, *(entry(run, {}, seed=seed) for seed, run in enumerate(runs, start=1)))
    assert (table["rows"][0]["n"], table["rows"][0]["perplexity"]) == (1, {"mean": 5.0})


@pytest.mark.parametrize(
    ("row", "cell"), [("RNNsearch*", "RNNsearch*"), ("*a* | <b>`\\", "\\*a\\* \\| &lt;b&gt;\\`\\\\"), ("a\nb", "a b")]
)
def test_markup_in_the_name_of_a_row_is_escaped(tmp_path, row, cell):
    write_and_read(tmp_path, entry(tmp_path / "waiting", {}, row=row, status="waiting"))
    assert f"\n| {cell} |  |  |  | waiting |\n" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_scores_behind_a_link_out_of_a_run_are_not_read(tmp_path):
    folder = write_run(tmp_path / "sweep" / "seed=1")
    scores = folder / "test" / "scores.json"
    scores.rename(tmp_path / "secret.json")
    scores.symlink_to(tmp_path / "secret.json")
    assert write_and_read(tmp_path / "sweep", entry(folder, {}))[0]["rows"][0]["n"] == 0
