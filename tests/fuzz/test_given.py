"""Damaged input files of commands: sentence pairs, n-best lists, prefixes, hypotheses, links."""

import gzip
import io

import numpy as np
import pytest
from fuzz.damage import anything_or_damaged
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from nmt.cli.translate import translate
from nmt.config.schema import load_defaults
from nmt.data.parallel_text import SentencePair
from nmt.data.text_files import MAX_LINE_BYTES
from nmt.data.word_alignments import Gold
from nmt.errors import ConfigurationError, DataError, UserError
from nmt.evaluation.attention_alignment import score_forced_alignments
from nmt.evaluation.forced_scoring import score_pairs
from nmt.evaluation.hypothesis_files import score_hypotheses
from nmt.evaluation.link_files import score_links
from nmt.evaluation.rescoring import rescore
from nmt.runs.trained_model import TrainedRun
from nmt.translate.loading import make_translator

SOURCE = b"Gurcu pu ma ma nibi .\nma pu\n\nneba ?\n"
TARGET = b"papa me .\nnibi\n\nzzz unknown </s> <pad>\n"
NBEST = b"0 ||| papa me ||| -1.5\n0 ||| ma ||| -2\n1 |||  ||| 0.5\n3 ||| nibi ||| 1e3 ||| more\n"


@pytest.fixture(scope="module")
def translator(trained):
    return make_translator(TrainedRun(str(trained)), "cpu")


def load_settings(verb: str, **keys):
    return OmegaConf.merge(load_defaults(verb), keys)


def write_files(folder, **files: bytes) -> list[str]:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [str(folder / name) for name in files]


def is_finite_number(text: str) -> bool:
    return bool(np.isfinite(float(text)))


@given(anything_or_damaged(SOURCE), anything_or_damaged(TARGET), st.booleans())
def test_damaged_pairs_are_scored_or_refused(translator, tmp_path, source, target, as_json):
    settings = load_settings("evaluate", score=write_files(tmp_path, source=source, target=target), as_json=as_json)
    try:
        lines = list(score_pairs(translator, settings))
    except DataError as error:
        assert str(tmp_path) in str(error)
        return
    assert as_json or all(is_finite_number(part) for line in lines for part in line.split("\t"))


@given(anything_or_damaged(SOURCE), anything_or_damaged(NBEST))
def test_damaged_n_best_lists_are_rescored_or_refused(translator, tmp_path, source, nbest):
    settings = load_settings("evaluate", rescore=write_files(tmp_path, source=source, nbest=nbest))
    try:
        lines = list(rescore(translator, settings))
    except DataError as error:
        assert str(tmp_path) in str(error)
        return
    assert all(is_finite_number(part) for line in lines for part in line.split(" ||| ")[-3:])


@given(anything_or_damaged(SOURCE), st.one_of(st.none(), anything_or_damaged(TARGET)), st.booleans())
def test_damaged_input_keeps_its_line_count_or_is_refused(trained, tmp_path, source, prefixes, as_json):
    """Every input line has one translation, for any content."""
    files = write_files(tmp_path, source=source, **({} if prefixes is None else {"prefixes": prefixes}))
    keys = {"prefixes": files[1]} if prefixes is not None else {}
    settings = load_settings(
        "translate",
        run=str(trained),
        input=files[0],
        format="json" if as_json else "text",
        device="cpu",
        beam=2,
        **keys,
    )
    output = io.StringIO(newline="\n")
    try:
        translate(settings, io.BytesIO(), output)
    except DataError as error:
        assert str(tmp_path) in str(error)
        return
    complete = source if source.endswith(b"\n") or not source else source + b"\n"
    if source[:2] != b"\x1f\x8b" and source[:4] != b"\x28\xb5\x2f\xfd":
        assert output.getvalue().count("\n") == complete.count(b"\n")


@given(anything_or_damaged(TARGET), anything_or_damaged(TARGET), st.sampled_from(("en", "zh", "../x")))
def test_damaged_hypotheses_are_scored_or_refused(tmp_path, hypotheses, reference, language):
    files = write_files(tmp_path, hypotheses=hypotheses, reference=reference)
    keys = dict(zip(("hypotheses", "reference"), files, strict=True))
    try:
        scores = score_hypotheses(load_settings("evaluate", language=language, **keys))
    except DataError as error:
        assert str(tmp_path) in str(error)
        return
    assert all(np.isfinite(one["score"]) for one in scores.values())


@pytest.mark.parametrize("files", [5, "a", ["a"], {"a": "x", "b": "y"}, []])
@pytest.mark.parametrize("key", ["score", "rescore"])
def test_pairs_and_n_best_lists_need_exactly_two_files(translator, key, files):
    with pytest.raises(ConfigurationError, match=f"{key}=.*: must name two files"):
        list((score_pairs if key == "score" else rescore)(translator, load_settings("evaluate", **{key: files})))


def test_files_may_have_numbers_as_names(trained, tmp_path, monkeypatch):
    """KEY=VALUE parses 2024 as a number."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, **{"2024": b"ma pu\n", "7": b"1-1\n"})
    scores = score_hypotheses(load_settings("evaluate", hypotheses=2024, reference=2024))
    assert scores["bleu"]["detail"]
    assert score_links(load_settings("evaluate", links=7, gold=7, links_base=1))["aer"] == 0
    output = io.StringIO()
    translate(load_settings("translate", run=str(trained), input=2024, device="cpu"), io.BytesIO(), output)
    assert output.getvalue().count("\n") == 1
    for wrong in ({"input": 3}, {"input": 2024, "prefixes": 3}):
        with pytest.raises(UserError, match="3: no such file"):
            translate(load_settings("translate", run=str(trained), device="cpu", **wrong), io.BytesIO(), output)


@pytest.mark.parametrize("wrong", ["source", "prefixes"])
def test_errors_in_files_to_translate_name_file_and_line(trained, tmp_path, capsys, wrong):
    complete, endless = b"ma\n\xff pu\nnibi\n", b"ma\n\xff pu\n" + b"a" * MAX_LINE_BYTES
    files = write_files(tmp_path, **({"source": complete, "prefixes": complete} | {wrong: gzip.compress(endless)}))
    settings = load_settings("translate", run=str(trained), input=files[0], prefixes=files[1], device="cpu")
    with pytest.raises(DataError, match=rf"{tmp_path}/{wrong}, line 3: more than {MAX_LINE_BYTES} bytes"):
        translate(settings, io.BytesIO(), io.StringIO())
    stderr = capsys.readouterr().err
    assert all(f"{file}, line 2: not UTF-8" in stderr for file in files)
    (tmp_path / wrong).write_bytes(gzip.compress(complete)[:-9])
    with pytest.raises(DataError, match=rf"{tmp_path}/{wrong}, after line \d: cannot be read"):
        translate(settings, io.BytesIO(), io.StringIO())


def test_scoring_without_a_reference_is_refused(tmp_path):
    (file,) = write_files(tmp_path, stderr=b"ma\n")
    with pytest.raises(ConfigurationError, match=r"reference=\[\]: names no file"):
        score_hypotheses(load_settings("evaluate", hypotheses=file, reference=[]))


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "1e999", "x", ""])
def test_a_score_of_nan_or_infinity_is_refused(translator, tmp_path, score):
    files = write_files(tmp_path, source=b"ma\n", nbest=f"0 ||| pu ||| {score}\n".encode())
    with pytest.raises(DataError, match=r"nbest, line 1: is not an n-best line"):
        list(rescore(translator, load_settings("evaluate", rescore=files)))


def test_links_beyond_a_sentence_are_refused(translator):
    lines, gold = [SentencePair("ma pu", "nibi me")] * 2, [Gold({(1, 1)}, {(1, 1)}), Gold(set(), {(2, 0)})]
    with pytest.raises(DataError, match="pair 2: its alignments link word 3 to word 1, but it has 2 and 2"):
        score_forced_alignments(translator, lines, gold, None)
    assert score_forced_alignments(translator, lines, [gold[0]] * 2, None).scores["aer"] >= 0
