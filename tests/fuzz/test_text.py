"""Damaged text files are read or refused with one of our errors."""

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
    "unigram": Vocabulary.learn(BLOCKS, kind="unigram", size=20, minimum_count=1),
}


def compress_variants(text: bytes) -> list[bytes]:
    return [text, gzip.compress(text), zstandard.compress(text)]


def read_bounded(lines, most: int = 100_000):
    """Return all lines; no file in these tests has more."""
    items = list(islice(lines, most))
    assert len(items) < most
    return items


def assert_corpus_read_or_refused(folder, source: bytes, target: bytes, empty_side: str) -> None:
    (folder / "a").write_bytes(source)
    (folder / "b").write_bytes(target)
    try:
        pairs = read_bounded(FilePairs(str(folder / "a"), str(folder / "b"), empty_side=empty_side))
    except DataError as error:
        assert str(folder) in str(error)  # the error names the file
        return
    assert all(line.source.strip() and line.target.strip() and "\n" not in "".join(line) for line in pairs)
    assert all(max(map(len, line)) <= MAX_LINE_CHARACTERS for line in pairs)


CORPORA = st.tuples(
    anything_or_damaged(*compress_variants(TEXT)),
    anything_or_damaged(*compress_variants(TEXT)),
    st.sampled_from(("error", "drop")),
)


@given(CORPORA)
def test_a_damaged_corpus_is_read_or_refused(tmp_path, files):
    assert_corpus_read_or_refused(tmp_path, *files)


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(CORPORA)
def test_many_damaged_corpora_are_read_or_refused(tmp_path, files):
    assert_corpus_read_or_refused(tmp_path, *files)


@given(
    anything_or_damaged(*compress_variants(LINKS)), anything_or_damaged(*compress_variants(LINKS)), st.integers(0, 1)
)
def test_damaged_links_are_read_or_refused(tmp_path, links, gold, base):
    (tmp_path / "links").write_bytes(links)
    (tmp_path / "gold").write_bytes(gold)
    for read in (
        lambda: read_gold_file(tmp_path / "gold", base),
        lambda: read_links_and_gold(tmp_path / "links", tmp_path / "gold", links_base=0, gold_base=base),
    ):
        try:
            pairs = read_bounded(read())
        except DataError as error:
            assert str(tmp_path) in str(error)
        else:
            assert all(min(link) >= 0 for one, *_ in pairs for link in one)


@given(st.data())
def test_a_damaged_word_table_is_read_or_refused(tmp_path, data):
    path = tmp_path / "word_table.tsv.gz"
    TABLE.save(path)
    content = path.read_bytes()
    path.write_bytes(data.draw(anything_or_damaged(content, gzip.decompress(content))))
    try:
        table = LexicalTable.load(path)
    except DataError as error:
        assert str(path) in str(error)
    else:
        assert all(0 < share <= 1 for of_word in table.entries.values() for _, share in of_word)


@given(st.data())
def test_damaged_candidate_lists_are_read_or_refused(tmp_path, data):
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
        candidates = Candidates.load(path)
        candidates.check_vocabulary_sizes(Sides(3, 10), path)
    except DataError as error:
        assert str(path) in str(error)
        return
    words, allowed = candidates.select_for_sentences(np.array([[0, 1], [2, 2]]))
    assert allowed.shape == (2, len(words))
    assert set(range(4)) <= set(words.tolist()) <= set(range(10))


NAMES = ("frequent", "offsets", "translations")


def assert_vocabulary_read_or_refused(text: str) -> None:
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
def test_a_damaged_tokenizer_is_read_or_refused(text):
    assert_vocabulary_read_or_refused(text)


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(TOKENIZERS)
def test_many_damaged_tokenizers_are_read_or_refused(text):
    assert_vocabulary_read_or_refused(text)


@pytest.mark.parametrize(
    "part",
    [
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a|aa)+$"}, "content": "b"}},
        {"truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}},
    ],
    ids=lambda part: next(iter(part)),
)
def test_other_processing_steps_in_a_tokenizer_are_refused(part):
    crafted = json.loads(VOCABULARIES["words"].to_json()) | part
    with pytest.raises(DataError, match=f"not a tokenizer.json of this project: .*{next(iter(part))}"):
        Vocabulary.from_json(json.dumps(crafted))


def test_a_tokenizer_in_which_the_library_panics_is_refused():
    crafted = json.loads(VOCABULARIES["bpe"].to_json())
    symbols = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3}
    words = {word: number for number, word in enumerate(("a", "b", "é###b", "ab"), start=4)}
    crafted["model"] |= {"continuing_subword_prefix": "é###", "vocab": symbols | words, "merges": [["a", "b"]]}
    with pytest.raises(DataError, match=r"not a tokenizer\.json"):
        Vocabulary.from_json(json.dumps(crafted))


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_special_symbols_beside_an_empty_vocabulary_are_refused(kind):
    crafted = json.loads(VOCABULARIES[kind].to_json())
    crafted["model"] |= {"vocab": type(crafted["model"]["vocab"])()} | ({"merges": []} if kind == "bpe" else {})
    special = json.loads(VOCABULARIES["bpe"].to_json())["added_tokens"]
    reason = r"of this project: its ids do not begin with <pad>|\(Unable to load vocab EmptyVocabulary"
    with pytest.raises(DataError, match=rf"not a tokenizer.json ({reason})"):
        Vocabulary.from_json(json.dumps(crafted | {"added_tokens": special}))


@pytest.mark.parametrize("pack", [gzip.compress, pytest.param(zstandard.compress, marks=pytest.mark.slow)])
def test_an_oversized_line_is_refused_before_it_is_unpacked(tmp_path, pack):
    """The file has a few hundred kilobytes and would unpack to two hundred megabytes."""
    (tmp_path / "bomb").write_bytes(pack(b"ma\n" + b"a" * (200 << 20)))
    with pytest.raises(DataError, match=rf"bomb, line 2: more than {MAX_LINE_BYTES} bytes"):
        list(read_lines(tmp_path / "bomb"))
    with pytest.raises(DataError, match=r"bomb, line 1: .*tabs between"):
        LexicalTable.load(tmp_path / "bomb")


def test_several_zstandard_frames_are_one_text_and_a_cut_frame_is_refused(tmp_path):
    frames = [zstandard.compress(b"ma\n" * 1000), zstandard.compress(b"pu\n" * 70_000)]
    (tmp_path / "two").write_bytes(b"".join(frames))
    assert list(read_lines(tmp_path / "two")) == ["ma"] * 1000 + ["pu"] * 70_000
    for cut in (len(frames[0]) + 3, len(b"".join(frames)) - 1):
        (tmp_path / "two").write_bytes(b"".join(frames)[:cut])
        with pytest.raises(DataError, match=r"two, after line \d+: cannot be read \(it ends in the middle"):
            list(read_lines(tmp_path / "two"))


def test_link_positions_of_five_thousand_digits_are_refused(tmp_path):
    (tmp_path / "gold").write_text(f"1-1\n{'9' * 5000}-1\n")
    with pytest.raises(DataError, match=r"gold, line 2: '9+-1' is not a link"):
        list(read_gold_file(tmp_path / "gold", 1))
