"""Vocabularies: words and pieces to ids and back."""

import numpy as np
import pytest
from tokenizers import Tokenizer

from nmt.data.vocabulary import KINDS, SPECIAL, TOKENIZERS, UNKNOWN, Vocabulary, check_vocabulary, read_vocabularies
from nmt.errors import ConfigurationError

LINES = ["b a b c", "b a d", "low lower lowest b"]


def learn(kind="words", size=100, minimum_count=1):
    return Vocabulary.learn([LINES], kind=kind, size=size, minimum_count=minimum_count)


def test_ids_of_words_follow_frequency_after_the_special_symbols():
    vocabulary = learn()
    assert vocabulary.pieces(range(6)) == [*SPECIAL, "b", "a"]
    assert len(vocabulary) == 4 + 7


def test_rare_words_and_words_beyond_the_size_are_unknown():
    assert learn(minimum_count=2).encode(["a b c"])[0].tolist() == [5, 4, UNKNOWN]
    assert len(learn(size=5)) == 5
    assert learn(size=5).encode(["b a"])[0].tolist() == [4, UNKNOWN]


@pytest.mark.parametrize("kind", KINDS)
def test_same_text_gives_same_ids_even_if_all_words_are_equally_frequent(kind):
    text = [" ".join(f"{a}{b}{c}" for c in "uvwxyz") for a in "abcdef" for b in "mnopqr"]  # all words once
    learned = {Vocabulary.learn([text], kind=kind, size=60, minimum_count=1).to_json() for _ in range(5)}
    assert len(learned) == 1


def test_ids_of_letters_are_sorted_by_code_word_ends_first():
    finals = [f"{letter}</w>" for letter in "abcdrtw"]
    assert learn("bpe").pieces(range(4 + 7 + 11)) == [*SPECIAL, *finals, *sorted("abcdlowerst")]


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_restored_from_their_ids(kind):
    vocabulary = learn(kind)
    ids = vocabulary.encode(LINES)
    assert [" ".join(vocabulary.words(row)) for row in ids] == LINES


def test_each_piece_is_mapped_to_its_word():
    vocabulary = learn("bpe", size=14)  # letters alone
    (row,) = vocabulary.encode(["low b low"])
    assert vocabulary.pieces(row) == ["l", "o", "w</w>", "b</w>", "l", "o", "w</w>"]
    assert vocabulary.map_pieces_to_words(row) == [0, 0, 0, 1, 2, 2, 2]


def test_unknown_letter_at_the_end_of_a_word_does_not_join_two_words():
    vocabulary = learn("bpe", size=14)
    assert vocabulary.mark_unknown(["lo?", "b", "?", "low", "?ow"]) == ["lo<unk>", "b", "<unk>", "low", "<unk>ow"]
    assert learn("words", size=6).mark_unknown(["b", "z", "a"]) == ["b", "<unk>", "a"]


@pytest.mark.parametrize("line", ["low b low", "loq b", "q 科 学 b", "x</s>y b", "b"])
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_given_words_map_to_them_even_if_letters_are_unknown(kind, line):
    vocabulary, words = learn(kind, size=16), line.split()
    places = vocabulary.map_pieces_of_words(words)
    for position, word in enumerate(words):
        expected = vocabulary.encode([word])[0]
        assert vocabulary.encode([line])[0][np.array(places) == position].tolist() == expected.tolist()
    assert len(places) == len(vocabulary.encode([line])[0])


def test_unigram_pieces_mark_where_words_start():
    vocabulary = learn("unigram", size=30)
    (row,) = vocabulary.encode(["low b lower"])
    pieces = vocabulary.pieces(row)
    assert "".join(pieces) == "▁low▁b▁lower"
    places = [sum(piece.startswith("▁") for piece in pieces[: end + 1]) - 1 for end in range(len(pieces))]
    assert vocabulary.map_pieces_to_words(row) == places
    assert vocabulary.mark_unknown(["lo?", "b", "?", "low", "?ow"]) == ["lo<unk>", "b", "<unk>", "low", "<unk>ow"]


def test_no_word_of_unigram_pieces_is_empty():
    vocabulary = learn("unigram", size=30)
    (mark,) = vocabulary.encode(["▁"])[0]
    row = [mark, mark, *vocabulary.encode(["low"])[0], mark]
    assert vocabulary.words(row) == ["▁", "▁", "low", "▁"]
    assert vocabulary.map_pieces_to_words(row) == [0, 1, *[2] * (len(row) - 3), 3]


def test_a_unigram_vocabulary_without_room_for_all_letters_is_refused():
    with pytest.raises(
        ConfigurationError,
        match=r"data\.vocabulary\.size=8: too few for 11 letters.* Fix: data\.vocabulary\.size=32, or",
    ):
        learn("unigram", size=8)


def test_unigram_pieces_are_learned_from_words_that_are_frequent_enough():
    vocabulary = learn("unigram", minimum_count=2)
    assert vocabulary.mark_unknown(["b", "a", "w"]) == ["b", "a", "<unk>"]


@pytest.mark.parametrize(("kind", "words"), [("words", "a b low lower"), ("bpe", "a b low"), ("unigram", "low")])
def test_words_that_are_one_piece_have_its_id(kind, words):
    vocabulary = learn(kind)
    ids = vocabulary.whole_words()
    assert set(words.split()) <= set(ids)
    assert [vocabulary.encode([word])[0].tolist() for word in ids] == [[number] for number in ids.values()]


def test_special_symbol_in_the_text_becomes_an_unknown_word():
    for kind in KINDS:
        (row,) = learn(kind).encode(["a </s> <pad> b"])
        assert not set(row.tolist()) & {0, 2, 3}


def test_vocabulary_is_stored_as_a_standard_tokenizer_file(tmp_path):
    for kind in KINDS:
        vocabulary = learn(kind)
        (tmp_path / "tokenizer.json").write_text(vocabulary.to_json(), encoding="utf-8")
        again = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        assert again.encode("b lowest a").ids == vocabulary.encode(["b lowest a"])[0].tolist()
        assert Vocabulary.load(tmp_path / "tokenizer.json").to_json() == vocabulary.to_json()


def test_error_names_the_key_of_an_unknown_kind():
    with pytest.raises(
        ConfigurationError,
        match=r"data\.vocabulary\.kind=sentencepiece: unknown kind\. Fix: choose words, bpe, unigram",
    ):
        check_vocabulary("sentencepiece", 100)


@pytest.mark.parametrize("place", ["checkpoints/best.ckpt", "mean.ckpt", "model.safetensors", ""])
def test_the_vocabularies_of_a_run_are_found_from_each_of_its_checkpoints(tmp_path, place):
    (tmp_path / place).parent.mkdir(exist_ok=True)
    if place:
        (tmp_path / place).touch()
    for size, name in enumerate(TOKENIZERS, start=5):
        (tmp_path / name).write_text(learn(size=size).to_json())
    assert list(map(len, read_vocabularies(tmp_path / place))) == [5, 6]


def test_a_size_below_the_number_of_letters_gives_a_warning(caplog):
    assert len(learn("bpe", size=14)) == 22
    assert caplog.messages == ["data.vocabulary.size=14: the letters of the text alone make 22 pieces"]
    learn("bpe", size=22)
    learn("words", size=5)
    assert len(caplog.messages) == 1


def test_no_lines_give_no_ids():
    assert learn().encode([]) == []
    assert [row.tolist() for row in learn().encode(["", "a", ""])] == [[], [5], []]
