"""The command align.py: its mistakes, and its figures."""

import pytest
from commands import answer

from nmt.cli.align import print_figures


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("multi30k", "multi30k: is not KEY=VALUE. Fix: data=NAME; --help explains the keys"),
        ("data=mulit30k", "data=mulit30k: no such choice (did you mean multi30k?). Fix: choose am3_zhen, "),
        ("data.trian.count=9", "data.trian: no such key (did you mean train?)"),
        ("data=text", "data.train.source and data.train.target must be given."),
        ("samplers=many", "samplers=many: must be a number; the default is 3"),
        ("samplers=0", "samplers=0: must be from 1 to 100"),
        ("seed=null", "seed=None: must be from 0 to 4294967295"),
        ("output=align.py", "output=align.py: cannot be written ("),
    ],
)
def test_a_mistake_is_one_line(argument, message, capfd, monkeypatch):
    status, stderr = answer("align", argument, capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr.count("\n")) == (1, 1)
    assert stderr.startswith(f"error: {message}")


def test_the_code_of_a_country_is_refused_before_the_text_is_read(capfd, monkeypatch):
    arguments = ("data=multi30k", "data.source.language=cz")
    status, stderr = answer("align", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert stderr.endswith("code of a country, not of a language. Fix: data.source.language=cs\n")


def test_one_key_has_one_value(capfd, monkeypatch):
    arguments = ("data.train.count=5", "data.train.count=6")
    status, stderr = answer("align", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr) == (1, f"error: {' '.join(arguments)}: one key, several values. Fix: keep one\n")


def test_a_missing_text_leaves_no_folder(capfd, monkeypatch, tmp_path):
    arguments = (f"output={tmp_path}/links", "data.train.count=9", "data=text", "data.train.source=nope")
    status, _ = answer("align", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_aligner_is_one_line_that_names_the_package(capfd, monkeypatch, tmp_path):
    monkeypatch.setattr("nmt.data.aligner.is_importable", lambda module: False)
    arguments = (f"output={tmp_path}/links", "data.train.count=9")
    status, stderr = answer("align", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr) == (1, "error: no aligner (extra: align) is installed. Fix: pip install sil-thot==3.5.3\n")
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_score_needs_a_missing_aligner_is_refused_before_its_training(capfd, monkeypatch, tmp_path):
    monkeypatch.setattr("nmt.data.aligner.is_importable", lambda module: False)
    places = (f"data.cache={tmp_path}/cache", f"hydra.run.dir={tmp_path}/run")
    scored = ("score_test=true", "score_unknown=translate")
    status, stderr = answer("train", "size=tiny", *scored, *places, capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr.splitlines()[-1][:17]) == (1, "error: no aligner")
    assert not (tmp_path / "cache").exists()


def test_the_error_of_the_aligner_is_printed_for_a_test_set_with_gold_links(capsys):
    numbers = {"pairs": 2000, "sure": 30, "possible": 40, "agreement": 81.26}
    scores = {"forward": {"aer": 20.0, "precision": 70.0, "recall": 80.0, "f1": 75.0}}
    print_figures({"train": numbers, "tests.news": numbers | {"scores": scores}})
    _, train, news, forward = (line.split() for line in capsys.readouterr().out.splitlines())
    assert train == ["train", "2,000", "30", "40", "81.3", "%"]
    assert news[0] == "tests.news"
    assert " ".join(forward) == "tests.news, forward: aer 20.0 precision 70.0 recall 80.0"
