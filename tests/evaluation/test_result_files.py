"""Result files: all from one evaluation, or unchanged."""

import errno

import pytest

from nmt.data.parallel_text import SentencePair
from nmt.evaluation import result_files, test_set
from nmt.evaluation.translated_set import TranslatedSet
from nmt.translate.text_translator import Translation


def test_result_files_come_from_one_evaluation_or_stay_as_they_were(tmp_path, monkeypatch):
    test = test_set.TestSet("test", [SentencePair("a", "b")], [["b"]], None, 0)
    translated = TranslatedSet([Translation.empty()], [""], in_parts=0, empty=1, seconds=1.0)
    for name in ("alignment_7.png", "forced_links.txt"):  # from an evaluation with gold alignments and more pictures
        (tmp_path / name).touch()
    result_files.write_results(tmp_path, test, translated, None, {"beam": 5})
    names = ["alignments.npz", "hypotheses.txt", "links.txt", "scores.json", "sentences.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(path, arrays):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(result_files, "_write_arrays", fail)
    two_lines = translated._replace(translations=[Translation.empty()] * 2)
    with pytest.raises(OSError, match="No space left"):
        result_files.write_results(tmp_path, test, two_lines, None, {"beam": 1})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
