"""N-best lists: what is written is read back, whatever a translation says."""

import numpy as np
import pytest
from omegaconf import OmegaConf

from nmt.command import defaults_of
from nmt.evaluation import given
from nmt.search.translation import Translation
from nmt.search.verb import _nbest_line


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
            yield given.Given([], np.array([-1.0]), np.zeros((1, 1)))

    monkeypatch.setattr(given, "scored", scored)
    files = {"rescore": [f"{tmp_path}/source", f"{tmp_path}/nbest"]}
    (ranked,) = given.rescore(None, OmegaConf.merge(defaults_of("evaluate"), files))
    assert seen == [text]
    assert ranked.split(" ||| ") == ["0", text.replace("|||", "&#124;&#124;&#124;"), "-2.5000", "-1.5000", "-1.0000"]
