"""N-best lists: what is written is read back, whatever a translation says."""

import json

import numpy as np
import pytest
from omegaconf import OmegaConf

from nmt.cli.translate import _nbest_line
from nmt.config.schema import defaults_of
from nmt.evaluation import forced_scoring, rescoring
from nmt.translate.text_translator import Translation


@pytest.mark.parametrize("alignments", [False, True])
@pytest.mark.parametrize("text", ["a ||| 5 ||| b", "|||", "a |||| b", "a | b"])
def test_a_text_that_holds_what_parts_the_fields_is_ranked_as_it_is(tmp_path, monkeypatch, text, alignments):
    line = _nbest_line(0, Translation.of_nothing()._replace(text=text, score=-1.5), alignments)
    (tmp_path / "nbest").write_text(f"{line}\n")
    (tmp_path / "source").write_text("pu\n")
    seen = []

    def scored(translator, lines, batch_size):
        for pair in lines:
            seen.append(pair.target)
            yield forced_scoring.Given([], np.array([-1.0]), np.zeros((1, 1)))

    monkeypatch.setattr(rescoring, "scored", scored)
    files = {"rescore": [f"{tmp_path}/source", f"{tmp_path}/nbest"]}
    (ranked,) = rescoring.rescore(None, OmegaConf.merge(defaults_of("evaluate"), files))
    assert seen == [text]
    assert ranked.split(" ||| ") == ["0", text.replace("|||", "&#124;&#124;&#124;"), "-2.5000", "-1.5000", "-1.0000"]


LIKED = {"a": -3.0, "b": -1.0, "c": -2.0, "d": -0.5}


@pytest.mark.parametrize("as_json", [False, True])
def test_lists_one_after_another_are_ranked_together_sentence_by_sentence(tmp_path, monkeypatch, as_json):
    (tmp_path / "nbest").write_text("0 ||| a ||| -1\n1 ||| c ||| -1\n0 ||| b ||| -1\n1 ||| d ||| -9\n")
    (tmp_path / "source").write_text("pu\nma\n")

    def scored(translator, lines, batch_size):
        for pair in lines:
            yield forced_scoring.Given([], np.array([LIKED[pair.target]]), np.zeros((1, 1)))

    monkeypatch.setattr(rescoring, "scored", scored)
    files = {"rescore": [f"{tmp_path}/source", f"{tmp_path}/nbest"], "as_json": as_json}
    ranked = list(rescoring.rescore(None, OmegaConf.merge(defaults_of("evaluate"), files)))
    if as_json:
        assert json.loads(ranked[0]) == {"number": 0, "text": "b", "together": -2.0, "score": -1.0, "mean": -1.0}
        found = [(one["number"], one["text"]) for one in map(json.loads, ranked)]
    else:
        found = [(int(line.split(" ||| ")[0]), line.split(" ||| ")[1]) for line in ranked]
    assert found == [(0, "b"), (0, "a"), (1, "c"), (1, "d")]
