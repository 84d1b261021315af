"""Result files: all from one evaluation, or unchanged."""

import errno
import json
import shutil
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from kills import killed_at_call

from nmt.data.parallel_text import SentencePair
from nmt.data.word_alignments import Gold
from nmt.evaluation import result_files, test_set
from nmt.evaluation.attention_alignment import score_alignments
from nmt.evaluation.mechanism import compute_figures
from nmt.evaluation.translated_set import TranslatedSet
from nmt.translate.text_translator import Translation


def test_result_files_come_from_one_evaluation_or_stay_as_they_were(tmp_path, monkeypatch):
    test = test_set.TestSet("test", [SentencePair("a", "b")], [["b"]], None, 0, "text")
    translated = TranslatedSet([Translation.empty()], [""], in_parts=0, empty=1, seconds=1.0)
    earlier = ("alignment_7.png", "forced_links.txt", "forced_alignments.npz", "traces.npz", "mechanism.json")
    for name in earlier:
        (tmp_path / name).touch()
    result_files.write_results(tmp_path, test, translated, None, {"beam": 5})
    names = [".lock", "alignments.npz", "hypotheses.txt", "links.txt", "scores.json", "sentences.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(path, arrays):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(result_files, "_write_named_arrays", fail)
    two_lines = translated._replace(translations=[Translation.empty()] * 2)
    with pytest.raises(OSError, match="No space left"):
        result_files.write_results(tmp_path, test, two_lines, None, {"beam": 1})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_files_of_two_evaluations_at_once_are_not_mixed(tmp_path, monkeypatch):
    test = test_set.TestSet("test", [SentencePair("a", "b")], [["b"]], None, 0, "text")
    replace, others = Path.replace, []

    def write(text):
        translation = Translation.empty()._replace(text=text)
        translated = TranslatedSet([translation], [text], in_parts=0, empty=1, seconds=1.0)
        result_files.write_results(tmp_path, test, translated, None, {"text": text})

    def start_another(path, place):
        if place == tmp_path / "hypotheses.txt" and not others:  # when the first one has replaced some files
            others.append(Thread(target=write, args=["second"]))
            others[0].start()
            others[0].join(1.0)
        return replace(path, place)

    monkeypatch.setattr(Path, "replace", start_another)
    write("first")
    others[0].join()
    files = [(tmp_path / name).read_text() for name in ("hypotheses.txt", "sentences.jsonl", "scores.json")]
    assert ["second" in text for text in files] == [True] * 3


def test_an_evaluation_killed_at_any_step_leaves_files_of_one_evaluation_or_no_scores(tmp_path, monkeypatch):
    test = test_set.TestSet("test", [SentencePair("a", "b")], [["b"]], None, 0, "text")

    def write(text):
        translation = Translation.empty()._replace(text=text)
        translated = TranslatedSet([translation], [text], in_parts=0, empty=1, seconds=1.0)
        result_files.write_results(tmp_path, test, translated, None, {"text": text})

    steps, calls, number = [(Path, name) for name in ("replace", "unlink", "mkdir")], [], -1
    while len(calls) > number:
        number += 1
        write("first")
        (tmp_path / "alignment_7.png").touch()
        with killed_at_call(number, *steps, (shutil, "rmtree")) as calls:
            write("second")
        names = ("hypotheses.txt", "sentences.jsonl", "scores.json")
        texts = ["second" in (tmp_path / name).read_text() for name in names if (tmp_path / name).exists()]
        assert not (tmp_path / "scores.json").exists() or len(set(texts)) == 1
        write("third")
        assert all("third" in (tmp_path / name).read_text() for name in names)
        kept = {*names, "links.txt", "alignments.npz", ".lock"}
        assert {path.name for path in tmp_path.iterdir()} == kept
    assert calls.count("replace") > 5


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_draft_that_is_no_folder_is_replaced_and_its_target_kept(tmp_path, kind):
    test = test_set.TestSet("test", [SentencePair("a", "b")], [["b"]], None, 0, "text")
    translated = TranslatedSet([Translation.empty()], [""], in_parts=0, empty=1, seconds=1.0)
    folder, elsewhere = tmp_path / "test", tmp_path / "elsewhere"
    for place in (folder, elsewhere):
        place.mkdir()
    (elsewhere / "kept").touch()
    (folder / ".draft").symlink_to(elsewhere) if kind == "link" else (folder / ".draft").touch()
    result_files.write_results(folder, test, translated, None, {"beam": 5})
    assert (folder / "scores.json").is_file()
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]


def test_heatmaps_are_replaced_with_the_other_files(tmp_path):
    test = test_set.TestSet("test", [SentencePair("a", "b")] * 3, [["b"] * 3], None, 0, "text")
    shown = Translation.empty()._replace(source=["a"], target=["b"], alignment=np.ones((1, 1)))
    translated = TranslatedSet([shown, Translation.empty(), shown], [""] * 3, in_parts=0, empty=1, seconds=1.0)
    for heatmaps, names in ((3, ["alignment_0.png", "alignment_2.png"]), (1, ["alignment_0.png"])):
        result_files.write_results(tmp_path, test, translated, None, {}, heatmaps=heatmaps)
        assert sorted(path.name for path in tmp_path.glob("*.png")) == names


def test_traces_are_kept_by_name_and_number_and_read_without_pickle(tmp_path):
    test = test_set.TestSet("test", [SentencePair("a", "b")] * 2, [["b"] * 2], None, 0, "text")
    traces = {"coverage": np.array([[0.25, 1e9]]), "position": np.array([1.5])}
    translations = [Translation.empty(), Translation.empty()._replace(traces=traces)]
    translated = TranslatedSet(translations, ["", ""], in_parts=0, empty=1, seconds=1.0)
    result_files.write_results(tmp_path, test, translated, None, {})
    with np.load(tmp_path / "traces.npz", allow_pickle=False) as stored:
        assert sorted(stored) == ["coverage/1", "position/1"]
        assert stored["coverage/1"].dtype == np.float16
        assert stored["coverage/1"].tolist() == [[0.25, 65504.0]]
        assert stored["position/1"].tolist() == [1.5]


def test_attention_of_references_is_kept_with_the_gold_links(tmp_path):
    gold = [Gold({(1, 0)}, {(1, 0), (0, 0)})]
    test = test_set.TestSet("test", [SentencePair("a b", "c")], [["c"]], gold, 0, "text")
    translated = TranslatedSet([Translation.empty()], [""], in_parts=0, empty=1, seconds=1.0)
    alignments = score_alignments([np.array([[0.25, 0.75]])], gold, None)
    result_files.write_results(tmp_path, test, translated, alignments, {})
    with np.load(tmp_path / "forced_alignments.npz", allow_pickle=False) as stored:
        assert {name: stored[name].tolist() for name in stored} == {"weights/0": [[0.25, 0.75]], "gold/0": [[0.5, 1.0]]}


def test_figures_of_a_mechanism_are_written_with_their_page(tmp_path):
    test = test_set.TestSet("test", [SentencePair("a", "b")], [["b"]], None, 0, "text")
    translated = TranslatedSet([Translation.empty()], [""], in_parts=0, empty=1, seconds=1.0)
    figures = compute_figures(translated.translations, [None])
    result_files.write_results(tmp_path, test, translated, None, {}, figures)
    assert json.loads((tmp_path / "mechanism.json").read_text()) == figures
    assert "attention received" in (tmp_path / "mechanism.html").read_text()
