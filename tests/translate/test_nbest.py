"""N-best lists: each text is read back as it was written."""

import json

import numpy as np
import pytest
from omegaconf import OmegaConf

from nmt.cli.translate import _format
from nmt.config.schema import load_defaults
from nmt.evaluation import forced_scoring, rescoring
from nmt.translate.text_translator import Translation


@pytest.mark.parametrize("alignments", [False, True])
@pytest.mark.parametrize("text", ["a ||| 5 ||| b", "|||", "a |||| b", "a | b"])
def test_a_text_that_contains_the_field_separator_is_rescored_unchanged(tmp_path, monkeypatch, text, alignments):
    settings = OmegaConf.create({"format": "text", "alignments": alignments})
    (line,) = _format(0, "pu", [Translation.empty()._replace(text=text, score=-1.5)], settings, nbest=2)
    (tmp_path / "nbest").write_text(f"{line}\n")
    (tmp_path / "source").write_text("pu\n")
    seen = []

    def score_translations(translator, lines, batch_size):
        for pair in lines:
            seen.append(pair.target)
            yield forced_scoring.ScoredTranslation([], np.array([-1.0]), np.zeros((1, 1)))

    monkeypatch.setattr(rescoring, "score_translations", score_translations)
    files = {"rescore": [f"{tmp_path}/source", f"{tmp_path}/nbest"]}
    (ranked,) = rescoring.rescore(None, OmegaConf.merge(load_defaults("evaluate"), files))
    assert seen == [text]
    assert ranked.split(" ||| ") == ["0", text.replace("|||", "&#124;&#124;&#124;"), "-2.5000", "-1.5000", "-1.0000"]


MODEL_SCORES = {"a": -3.0, "b": -1.0, "c": -2.0, "d": -0.5}


@pytest.mark.parametrize("as_json", [False, True])
def test_concatenated_lists_are_ranked_together_sentence_by_sentence(tmp_path, monkeypatch, as_json):
    (tmp_path / "nbest").write_text("0 ||| a ||| -1\n1 ||| c ||| -1\n0 ||| b ||| -1\n1 ||| d ||| -9\n")
    (tmp_path / "source").write_text("pu\nma\n")

    def score_translations(translator, lines, batch_size):
        for pair in lines:
            yield forced_scoring.ScoredTranslation([], np.array([MODEL_SCORES[pair.target]]), np.zeros((1, 1)))

    monkeypatch.setattr(rescoring, "score_translations", score_translations)
    files = {"rescore": [f"{tmp_path}/source", f"{tmp_path}/nbest"], "as_json": as_json}
    ranked = list(rescoring.rescore(None, OmegaConf.merge(load_defaults("evaluate"), files)))
    if as_json:
        assert json.loads(ranked[0]) == {"number": 0, "text": "b", "together": -2.0, "score": -1.0, "mean": -1.0}
        order = [(one["number"], one["text"]) for one in map(json.loads, ranked)]
    else:
        order = [(int(line.split(" ||| ")[0]), line.split(" ||| ")[1]) for line in ranked]
    assert order == [(0, "b"), (0, "a"), (1, "c"), (1, "d")]
