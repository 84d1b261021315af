"""Whatever bytes a text file holds, it is read, or one of our errors says why not."""

import gzip
import json
from itertools import islice

import pytest
import zstandard
from fuzz.damage import anything_or_damaged, changed_trees, damaged
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.candidate_lists import Candidates
from nmt.data.lexical_table import LexicalTable
from nmt.data.parallel_text import FilePairs, Sides
from nmt.data.text_files import MAX_LINE_BYTES, MAX_LINE_CHARACTERS, read_lines
from nmt.data.vocabulary import Vocabulary
from nmt.data.word_alignments import read_gold_file, read_links_and_gold
from nmt.errors import DataError, UserError

TEXT = "Gurcu pu ma .\n\nma\u2028pu \x85 neba\r\n在 室内\n".encode() * 30
LINKS = b"1-1 2p3 3-2\n\n1-1\n" * 5
TABLE = LexicalTable({f"w{n}": [(f"a{n}", 0.75), ("b\t\\", 0.25)] for n in range(20)})
BLOCKS = [["ma pu ma nibi", "pu papa"] * 3]
VOCABULARIES = {
    "words": Vocabulary.learn(BLOCKS, kind="words", size=8, minimum_count=1),
    "bpe": Vocabulary.learn(BLOCKS, kind="bpe", size=14, minimum_count=1),
}


def packings(text: bytes) -> list[bytes]:
    return [text, gzip.compress(text), zstandard.compress(text)]


def bounded(lines, most: int = 100_000):
    """All of them, as no file here holds more."""
    found = list(islice(lines, most))
    assert len(found) < most
    return found


def tries_corpus(folder, source: bytes, target: bytes, empty_side: str) -> None:
    (folder / "a").write_bytes(source)
    (folder / "b").write_bytes(target)
    try:
        pairs = bounded(FilePairs(str(folder / "a"), str(folder / "b"), empty_side=empty_side))
    except DataError as error:
        assert str(folder) in str(error)  # the file is named
        return
    assert all(line.source.strip() and line.target.strip() and "\n" not in "".join(line) for line in pairs)
    assert all(max(map(len, line)) <= MAX_LINE_CHARACTERS for line in pairs)


CORPORA = st.tuples(
    anything_or_damaged(*packings(TEXT)),
    anything_or_damaged(*packings(TEXT)),
    st.sampled_from(("error", "drop")),
)


@given(CORPORA)
def test_corpora(tmp_path, files):
    tries_corpus(tmp_path, *files)


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(CORPORA)
def test_many_corpora(tmp_path, files):
    tries_corpus(tmp_path, *files)


@given(anything_or_damaged(*packings(LINKS)), anything_or_damaged(*packings(LINKS)), st.integers(0, 1))
def test_links(tmp_path, links, gold, base):
    (tmp_path / "links").write_bytes(links)
    (tmp_path / "gold").write_bytes(gold)
    for read in (
        lambda: read_gold_file(tmp_path / "gold", base),
        lambda: read_links_and_gold(tmp_path / "links", tmp_path / "gold", links_base=0, gold_base=base),
    ):
        try:
            found = bounded(read())
        except DataError as error:
            assert str(tmp_path) in str(error)
        else:
            assert all(min(link) >= 0 for one, *_ in found for link in one)


@given(st.data())
def test_word_tables(tmp_path, data):
    path = tmp_path / "word_table.tsv.gz"
    TABLE.save(path)
    whole = path.read_bytes()
    path.write_bytes(data.draw(anything_or_damaged(whole, gzip.decompress(whole))))
    try:
        found = LexicalTable.load(path)
    except DataError as error:
        assert str(path) in str(error)
    else:
        assert all(0 < share <= 1 for of_word in found.entries.values() for _, share in of_word)


@given(st.data())
def test_candidate_lists(tmp_path, data):
    import numpy as np

    path = tmp_path / "candidates.npz"
    if data.draw(st.booleans()):
        Candidates(np.arange(6), np.array([0, 2, 2, 3]), np.array([7, 8, 9])).save(path)
        path.write_bytes(data.draw(anything_or_damaged(path.read_bytes())))
    else:
        numbers = st.lists(st.integers(-2, 12), max_size=8).map(np.array)
        kinds = st.sampled_from((np.int64, np.int32, np.float32, np.bool_))
        np.savez(path, **{name: data.draw(numbers).astype(data.draw(kinds)) for name in NAMES})
    try:
        found = Candidates.load(path)
        found.check_vocabulary_sizes(Sides(3, 10), path)
    except DataError as error:
        assert str(path) in str(error)
        return
    words, allowed = found.select_for_sentences(np.array([[0, 1], [2, 2]]))
    assert allowed.shape == (2, len(words))
    assert set(range(4)) <= set(words.tolist()) <= set(range(10))


NAMES = ("frequent", "offsets", "translations")


def tries_vocabulary(text: str) -> None:
    try:
        vocabulary = Vocabulary.from_json(text)
    except UserError as error:
        assert "tokenizer.json" in str(error)
        return
    numbers = vocabulary.encode(["ma pu \0 zzz </s>", ""])
    assert all(4 <= number < len(vocabulary) or number == 1 for row in numbers for number in row.tolist())
    assert all(isinstance(word, str) for word in vocabulary.words(range(len(vocabulary))))


TOKENIZERS = st.one_of(
    *(changed_trees(json.loads(one.to_json())).map(json.dumps) for one in VOCABULARIES.values()),
    *(
        damaged(one.to_json().encode()).map(lambda content: content.decode(errors="replace"))
        for one in VOCABULARIES.values()
    ),
)


@given(TOKENIZERS)
def test_tokenizers(text):
    tries_vocabulary(text)


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(TOKENIZERS)
def test_many_tokenizers(text):
    tries_vocabulary(text)


@pytest.mark.parametrize(
    "part",
    [
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a|aa)+$"}, "content": "b"}},
        {"truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}},
    ],
    ids=lambda part: next(iter(part)),
)
def test_what_a_tokenizer_could_do_besides_is_refused(part):
    crafted = json.loads(VOCABULARIES["words"].to_json()) | part
    with pytest.raises(DataError, match=f"not a tokenizer.json of this project: .*{next(iter(part))}"):
        Vocabulary.from_json(json.dumps(crafted))


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_special_symbols_beside_an_empty_vocabulary_are_refused(kind):
    crafted = json.loads(VOCABULARIES[kind].to_json())
    crafted["model"] |= {"vocab": {}} | ({"merges": []} if kind == "bpe" else {})
    special = json.loads(VOCABULARIES["bpe"].to_json())["added_tokens"]
    with pytest.raises(DataError, match=r"not a tokenizer.json of this project: its ids do not begin with <pad>"):
        Vocabulary.from_json(json.dumps(crafted | {"added_tokens": special}))


@pytest.mark.parametrize("pack", [gzip.compress, pytest.param(zstandard.compress, marks=pytest.mark.slow)])
def test_a_line_of_gigabytes_is_not_unpacked(tmp_path, pack):
    """Some hundred kilobytes that would be two hundred megabytes: it is refused after the first of them."""
    (tmp_path / "bomb").write_bytes(pack(b"ma\n" + b"a" * (200 << 20)))
    with pytest.raises(DataError, match=rf"bomb, line 2: more than {MAX_LINE_BYTES} bytes"):
        list(read_lines(tmp_path / "bomb"))
    with pytest.raises(DataError, match=r"bomb, line 1: .*tabs between"):
        LexicalTable.load(tmp_path / "bomb")


def test_several_frames_of_zstandard_are_one_text_and_a_cut_one_is_none(tmp_path):
    frames = [zstandard.compress(b"ma\n" * 1000), zstandard.compress(b"pu\n" * 70_000)]
    (tmp_path / "two").write_bytes(b"".join(frames))
    assert list(read_lines(tmp_path / "two")) == ["ma"] * 1000 + ["pu"] * 70_000
    for cut in (len(frames[0]) + 3, len(b"".join(frames)) - 1):
        (tmp_path / "two").write_bytes(b"".join(frames)[:cut])
        with pytest.raises(DataError, match=r"two, after line \d+: cannot be read \(it ends in the middle"):
            list(read_lines(tmp_path / "two"))


def test_positions_of_five_thousand_figures_are_no_links(tmp_path):
    (tmp_path / "gold").write_text(f"1-1\n{'9' * 5000}-1\n")
    with pytest.raises(DataError, match=r"gold, line 2: '9+-1' is not a link"):
        list(read_gold_file(tmp_path / "gold", 1))
