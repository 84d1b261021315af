"""Files of links, and the scores of an aligner; a stand-in takes the aligner's place."""

import json
import os

import pytest
from compositions import configured
from hydra.utils import instantiate

from nmt.data.aligner import WordLinks
from nmt.data.word_alignments import Gold, format_gold, read_gold
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation import aligned_data
from nmt.evaluation.aligned_data import align_data, count_links

LINKS = WordLinks(  # between the words a b c . and x y .
    forward={(0, 0), (1, 1), (3, 2)}, backward={(0, 0), (2, 1), (3, 2)}, joined={(0, 0), (1, 1), (2, 1), (3, 2)}
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a text of three lines, the second of them blank, whose pairs are all aligned alike."""
    (tmp_path / "source").write_text("a b c.\n\na b c.\n")
    (tmp_path / "target").write_text("x y.\n\nx y.\n")
    (tmp_path / "gold").write_text("1-1 2p2 3p2\n\n1-1 3-2\n")  # of the words a b c. and x y.

    def link_pairs(pairs, **_):
        for source, target in pairs:
            assert (source, target) == ("a b c .", "x y .")
            yield source.split(), target.split(), LINKS

    monkeypatch.setattr(aligned_data, "link_pairs", link_pairs)
    return tmp_path


def align(folder, *settings: str):
    texts = ("data.train", "data.valid", "data.tests.news")
    files = [f"{text}.{side}={folder / side}" for text in texts for side in ("source", "target")]
    moses = ["data.source.tokenizer=moses", "data.target.tokenizer=moses"]
    data = instantiate(configured("data=text", *files, *moses, *settings).data)
    return data, align_data(data, folder / "links", samplers=1, seed=5)


@pytest.mark.slow
def test_each_text_has_a_line_of_links_for_each_line_and_the_training_reads_it(folder):
    data, about = align(folder)
    lines = ["1-1 2p2 3p2 4-3", "", "1-1 2p2 3p2 4-3"]
    for name in ("train", "valid", "tests.news"):
        assert (folder / "links" / f"{name}.links").read_text().split("\n") == [*lines, ""]
    assert json.loads((folder / "links" / "about.json").read_text()) == about
    assert (about["samplers"], about["seed"]) == (1, 5)
    assert about["digests"] == dict.fromkeys(("train", "valid", "tests.news"), data.texts()["train"].identity())
    # 2 |A ∩ B| / (|A| + |B|) = 4/6 of each pair
    assert about["texts"]["train"] == {"pairs": 2, "sure": 4, "possible": 8, "agreement": pytest.approx(200 / 3)}
    data, _ = align(folder, f"data.train.alignments={folder / 'links' / 'train.links'}")
    data.cache = folder / "cache"
    data.read_links()
    links = data.links.for_batch(data.links.offsets[:1] * 0, targets=4, sources=5)[:, 0]
    assert links.nonzero().tolist() == [[0, 0], [1, 1], [1, 2], [2, 3]]


def test_an_aligner_is_scored_in_the_words_of_the_gold_links(folder):
    _, about = align(folder, f"data.tests.news.alignments={folder / 'gold'}")
    scores = about["texts"]["tests.news"]["scores"]
    # in the words a b c. and x y.: forward 0-0 1-1 2-1, backward 0-0 2-1; |S| = 1 + 2, |P| = 3 + 2
    assert scores["forward"]["precision"] == pytest.approx(500 / 6)
    assert scores["forward"]["recall"] == 100
    assert scores["backward"]["aer"] == 0
    assert scores["intersection"]["aer"] == 0
    assert scores["grow-diag-final-and"] == scores["forward"]
    assert "scores" not in about["texts"]["train"]


def test_an_aligner_is_scored_in_preprocessed_words_too(folder):
    words = "data.tests.news.alignments_words=preprocessed"
    _, about = align(folder, f"data.tests.news.alignments={folder / 'gold'}", words)
    # of a b c . and x y .: |A ∩ S| = 1 + 1, |A ∩ P| = 2 + 1, |A| = 6, |S| = 3
    assert about["texts"]["tests.news"]["scores"]["forward"]["aer"] == pytest.approx(100 - 500 / 9)


def test_a_file_that_is_read_is_not_replaced(folder):
    (folder / "links").mkdir()
    gold = (folder / "gold").rename(folder / "links" / "tests.news.links")
    with pytest.raises(ConfigurationError, match=r"output=.*: would replace .*/tests\.news\.links, which is read"):
        align(folder, f"data.tests.news.alignments={gold}")
    assert gold.read_text() == "1-1 2p2 3p2\n\n1-1 3-2\n"


def test_a_pipe_is_refused_because_reading_it_would_never_end(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(DataError, match=r"pipe: .*it is a pipe or a device"):
        align(folder, f"data.tests.news.source={folder / 'pipe'}")
    assert not (folder / "links").exists()


@pytest.mark.parametrize("content", ["a b c.\n", "a b c.\n" * 3])
def test_no_links_are_kept_of_a_text_that_changes_while_it_is_aligned(folder, monkeypatch, content):
    link_pairs = aligned_data.link_pairs

    def change_then_link(pairs, **options):
        links = list(link_pairs(pairs, **options))
        for side in ("source", "target"):
            (folder / side).write_text(content if side == "source" else content.replace("a b c", "x y"))
        yield from links

    monkeypatch.setattr(aligned_data, "link_pairs", change_then_link)
    with pytest.raises(DataError, match=r"a text changed while it was aligned, so no links are kept\. Fix: give the"):
        align(folder)
    assert list((folder / "links").iterdir()) == []


def test_links_are_written_as_they_are_read():
    gold = Gold({(2, 0), (0, 1)}, {(2, 0), (0, 1), (10, 3)})
    assert format_gold(gold) == "1-2 3-1 11p4"
    assert read_gold(format_gold(gold)) == gold


def test_text_without_links_has_no_agreement():
    assert count_links([WordLinks(set(), set(), set())]) == {"pairs": 1, "sure": 0, "possible": 0, "agreement": 0.0}
    assert count_links([])["agreement"] == 0.0
