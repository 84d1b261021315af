"""Links of any aligner, read from files and scored."""

import os
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from nmt.errors import DataError
from nmt.evaluation.link_files import score_links

ALIGNMENTS = Path(os.environ.get("NMT_DATA", "data")) / "alignments"


def score(links: Path, gold: Path) -> dict[str, float]:
    return score_links(OmegaConf.create({"links": str(links), "gold": str(gold), "links_base": 0, "gold_base": 1}))


def test_link_files_are_scored_and_errors_name_file_and_line(tmp_path):
    (tmp_path / "links").write_text("0-0 1-1\n2-0\n")
    (tmp_path / "gold").write_text("1-1 3p2\n3-1\n")
    scores = score(tmp_path / "links", tmp_path / "gold")
    assert scores["aer"] == pytest.approx(100 * (1 - 4 / 5))  # |A| = 3, |S| = 2, |A∩S| = |A∩P| = 2
    (tmp_path / "links").write_text("0-0\n")
    with pytest.raises(DataError, match=r"links ends after line 1, .*gold goes on"):
        score(tmp_path / "links", tmp_path / "gold")
    (tmp_path / "links").write_text("0-0\n1:2\n")
    with pytest.raises(DataError, match=r"links, line 2: '1:2' is not a link"):
        score(tmp_path / "links", tmp_path / "gold")


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_gold_file_without_a_link_is_an_error(tmp_path, content):
    links, gold = tmp_path / "links", tmp_path / "gold"
    links.write_text(content)
    gold.write_text(content)
    with pytest.raises(DataError, match=f"gold={gold}: has no links, so {links} cannot be scored"):
        score(links, gold)


@pytest.mark.skipif(not ALIGNMENTS.is_dir(), reason="needs the gold alignments under NMT_DATA")
@pytest.mark.parametrize(("pair", "known"), [("zhen", 13.3), ("enfr", 4.1)])
def test_a_known_aligner_has_its_known_error_rate(pair, known):
    links, gold = ALIGNMENTS / f"{pair}.awesome-align.out", ALIGNMENTS / f"{pair}.gold"
    assert score(links, gold)["aer"] == pytest.approx(known, abs=0.05)
