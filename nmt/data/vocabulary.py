"""Vocabularies of words, BPE or unigram pieces, learned and stored by the `tokenizers` library as tokenizer.json."""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from nmt.errors import ConfigurationError, DataError, did_you_mean, first_line
from nmt.system.files import to_path
from nmt.system.hub import download, is_hub_name

log = logging.getLogger(__name__)

PAD, UNKNOWN, START, END = range(4)
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
WORD_END = "</w>"  # ends the last BPE piece of a word
TOKENIZERS = ("source.tokenizer.json", "target.tokenizer.json")  # files in a run's folder
TOKENIZER_BYTES = 1 << 28  # of such a file on the hub
WORD_START = "▁"  # begins the first unigram piece of a word
LETTER_STEP = 0.0001  # of the library's scores of letters


class Vocabulary:
    """Turn words separated by white space into ids of pieces, and back."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer

    @classmethod
    def learn(cls, blocks: Iterable[list[str]], *, kind: str, size: int, minimum_count: int) -> "Vocabulary":
        """Learn a vocabulary; the same text gives the same ids.

        Args:
            blocks: Blocks of lines, which are read more than once.
            kind: `words`, `bpe` or `unigram`.
            size: The number of words or pieces, special symbols included; the most frequent ones are taken.
            minimum_count: Words or BPE pieces that occur less often are left out; unigram pieces are learned from words
                that occur so often.
        """
        vocabulary = cls(KINDS[kind](blocks, size, minimum_count))
        if len(vocabulary) > size:
            log.warning("data.vocabulary.size=%d: the letters of the text alone make %d pieces", size, len(vocabulary))
        return vocabulary

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read a tokenizer.json file that this class wrote."""
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, DataError) as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """Parse the text of `to_json`; refuse other tokenizers, because their regular expressions may never end."""
        try:
            tokenizer = Tokenizer.from_str(text)
        except BaseException as error:  # because the library raises plain exceptions, and panics
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise DataError(f"not a tokenizer.json ({first_line(error)[:200]})") from None
        if problem := _find_difference(tokenizer):
            raise DataError(f"not a tokenizer.json of this project: {problem}")
        return cls(tokenizer)

    def to_json(self) -> str:
        """Return the content of a tokenizer.json file."""
        return self.tokenizer.to_str(pretty=False)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode_flat(self, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all lines in one array, and the length of each line; without start and end symbols."""
        rows = self._encode_pieces(lines) if self.subwords else self._encode_words(lines)
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        flat = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=int(lengths.sum()))
        flat[flat < len(SPECIAL)] = UNKNOWN  # because a text that contains "</s>" must not end the sentence
        return flat, lengths

    def _encode_pieces(self, lines: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(lines, add_special_tokens=False)]

    def _encode_words(self, lines: list[str]) -> list[list[int]]:
        # a dictionary, because it is several times faster than the tokenizer
        get_id = self._ids.get
        return [[get_id(word, UNKNOWN) for word in line.split()] for line in lines]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return self.tokenizer.get_vocab()

    def encode(self, lines: list[str]) -> list[np.ndarray]:
        """Return the ids of each line, without start and end symbols."""
        flat, lengths = self.encode_flat(lines)
        return np.split(flat, np.cumsum(lengths)[:-1]) if lines else []

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each id."""
        return [self.tokenizer.id_to_token(int(number)) for number in ids]

    def words(self, ids: Iterable[int]) -> list[str]:
        """Join the pieces of ids to words."""
        return ["".join(group) for group in self._group_by_word(self.pieces(ids))]

    def whole_words(self) -> dict[str, int]:
        """Return the ids of all words that are one piece."""
        ids = range(len(SPECIAL), len(self))
        words = ["".join(self.words([number])) for number in ids]
        return {
            word: number
            for number, word, row in zip(ids, words, self.encode(words), strict=True)
            if row.tolist() == [number]
        }

    def mark_unknown(self, words: list[str]) -> list[str]:
        """Replace unknown words, or unknown letters of BPE words, by <unk>."""
        return ["".join(self.words(pieces)) for pieces in self.encode(words)]

    def map_pieces_to_words(self, ids: Iterable[int]) -> list[int]:
        """Return for each piece the position of its word.

        An unknown piece may end a word, but only the text shows this: see `map_pieces_of_words`.
        """
        return [word for word, group in enumerate(self._group_by_word(self.pieces(ids))) for _ in group]

    def map_pieces_of_words(self, words: list[str]) -> list[int]:
        """Encode `words`; return for each piece the position of its word."""
        counts = [len(pieces) for pieces in self._encode_pieces(words)] if self.subwords else np.ones(len(words), int)
        return np.repeat(np.arange(len(words)), counts).tolist()

    def _group_by_word(self, pieces: list[str]) -> Iterator[list[str]]:
        if not self.subwords:
            return ([piece] for piece in pieces)
        return _group_by_ends(pieces) if isinstance(self.tokenizer.model, models.BPE) else _group_by_starts(pieces)

    @cached_property
    def subwords(self) -> bool:
        """True if the vocabulary consists of pieces of words."""
        return not isinstance(self.tokenizer.model, models.WordLevel)


def check_vocabulary(kind: str, size: int) -> None:
    """Refuse a kind of vocabulary that does not exist, and a size without room for words."""
    if kind not in KINDS:
        hint = did_you_mean(str(kind), KINDS)
        raise ConfigurationError(f"data.vocabulary.kind={kind}: unknown kind{hint}. Fix: choose {', '.join(KINDS)}")
    if size <= len(SPECIAL):
        raise ConfigurationError(
            f"data.vocabulary.size={size}: must be above {len(SPECIAL)}, the number of special symbols"
        )


def read_vocabularies(run: Path) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies of a run, source and target.

    Args:
        run: Its folder, one of its checkpoints, or the name of a model on the hub.
    """
    if is_hub_name(str(run)):
        run = download(str(run), dict.fromkeys(TOKENIZERS, TOKENIZER_BYTES), TOKENIZERS)
    folder = run = to_path(str(run))
    if run.is_file():
        folder = run.parent.parent if run.parent.name == "checkpoints" else run.parent
    files = [folder / name for name in TOKENIZERS]
    if missing := [file.name for file in files if not file.is_file()]:
        raise ConfigurationError(f"data.vocabulary.run={run}: has no {missing[0]}. Fix: name a trained run")
    source, target = map(Vocabulary.load, files)
    return source, target


def _group_by_ends(pieces: Iterable[str]) -> Iterator[list[str]]:
    """Yield the BPE pieces of each word."""
    group: list[str] = []
    for piece in pieces:
        group.append(piece.removesuffix(WORD_END))
        if piece.endswith(WORD_END):
            yield group
            group = []
    if group:
        yield group


def _group_by_starts(pieces: Iterable[str]) -> Iterator[list[str]]:
    """Yield the unigram pieces of each word; a mark alone is a word, so that no word is empty."""
    group: list[str] = []
    for piece in pieces:
        if group and piece.startswith(WORD_START):
            yield group if any(group) else [WORD_START]
            group = []
        group.append(piece.removeprefix(WORD_START))
    if group:
        yield group if any(group) else [WORD_START]


def _find_difference(tokenizer: Tokenizer) -> str:
    """Describe the first difference from what `Vocabulary.learn` makes; empty if there is none."""
    model, splitter = tokenizer.model, pre_tokenizers.WhitespaceSplit()
    if isinstance(model, models.Unigram):
        splitter = _mark_word_starts()
        if problem := _find_problem_of_unigram(json.loads(tokenizer.to_str())["model"]):
            return problem
    elif not isinstance(model, models.BPE | models.WordLevel) or model.unk_token != SPECIAL[UNKNOWN]:
        return f"its model is neither words, BPE nor unigram with {SPECIAL[UNKNOWN]}"
    if isinstance(model, models.BPE) and model.end_of_word_suffix != WORD_END:
        return f"its pieces do not end words with {WORD_END}"
    if tokenizer.pre_tokenizer is None or tokenizer.pre_tokenizer.__getstate__() != splitter.__getstate__():
        return "its pre_tokenizer is another"
    for name in ("normalizer", "post_processor", "truncation", "padding"):
        if getattr(tokenizer, name) is not None:
            return f"it has a {name}"
    if any(token.content not in SPECIAL for token in tokenizer.get_added_tokens_decoder().values()):
        return "it has added tokens"
    pieces = [model.id_to_token(number) for number in range(tokenizer.get_vocab_size())]  # without the added tokens
    if None in pieces or pieces[: len(SPECIAL)] != SPECIAL:
        return f"its ids do not begin with {' '.join(SPECIAL)} or have gaps"
    return ""


def _find_problem_of_unigram(model: dict) -> str:
    if model["unk_id"] != UNKNOWN or model["byte_fallback"]:
        return f"its unknown piece is not {SPECIAL[UNKNOWN]}"
    return "it has an empty piece" if any(not piece for piece, _ in model["vocab"]) else ""


def _count_words(blocks: Iterable[list[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()  # because it is several times faster than the library's trainer
    for block in blocks:
        counts.update(chain.from_iterable(map(str.split, block)))
    return counts


def _learn_words(blocks: Iterable[list[str]], size: int, minimum_count: int) -> Tokenizer:
    """Take the most frequent words, and the alphabetically first of equally frequent ones."""
    counts = _count_words(blocks)
    frequent = [word for word, count in counts.items() if count >= minimum_count and word not in SPECIAL]
    frequent.sort(key=lambda word: (-counts[word], word))
    ids = {word: n for n, word in enumerate((SPECIAL + frequent)[:size])}
    tokenizer = Tokenizer(models.WordLevel(ids, SPECIAL[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def _learn_bpe(blocks: Iterable[list[str]], size: int, minimum_count: int) -> Tokenizer:
    # Give the trainer the letters that end a word in sorted order, because it would number them in an order that
    # changes with each process. The numbers decide which of two equally frequent pairs is merged first.
    finals = sorted({word[-1] + WORD_END for block in blocks for line in block for word in line.split()})
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=minimum_count,
        special_tokens=SPECIAL + finals,
        end_of_word_suffix=WORD_END,
        show_progress=False,
    )
    tokenizer.train_from_iterator(blocks, trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(pair) for pair in learned["merges"]]
    model = models.BPE(learned["vocab"], merges, unk_token=SPECIAL[UNKNOWN], end_of_word_suffix=WORD_END)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder(suffix=WORD_END)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def _learn_unigram(blocks: Iterable[list[str]], size: int, minimum_count: int) -> Tokenizer:
    counts = _count_words(blocks)
    letters = {letter for word, count in counts.items() if count >= minimum_count for letter in word}
    if size < (fewest := len(letters) + len(SPECIAL) + 1):
        raise ConfigurationError(
            f"data.vocabulary.size={size}: too few for {len(letters)} letters, the mark of a word and {len(SPECIAL)} "
            f"special symbols. Fix: data.vocabulary.size={2 * fewest}, or a higher data.vocabulary.minimum_count"
        )
    frequent = ([word for line in block for word in line.split() if counts[word] >= minimum_count] for block in blocks)
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = _mark_word_starts()
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=SPECIAL, unk_token=SPECIAL[UNKNOWN], show_progress=False
    )
    tokenizer.train_from_iterator(frequent, trainer)
    learned = json.loads(tokenizer.to_str())["model"]["vocab"]
    pieces = learned[: len(SPECIAL)] + _sort_pieces(learned[len(SPECIAL) :])
    tokenizer = Tokenizer(models.Unigram(list(map(tuple, pieces)), UNKNOWN, byte_fallback=False))
    tokenizer.pre_tokenizer = _mark_word_starts()
    tokenizer.decoder = decoders.Metaspace(WORD_START)
    return tokenizer


def _sort_pieces(learned: list[list]) -> list[list]:
    """Remove what changes with each process: the last digits of the scores, and those of letters without a score.

    The trainer gives each letter that it needs only as part of longer pieces the lowest score, plus a multiple of
    `LETTER_STEP` in the order of a hash table.
    """
    lowest = min((score for _, score in learned), default=0.0)
    limit = lowest + LETTER_STEP * sum(len(piece) == 1 for piece, _ in learned)
    scores = {piece: lowest if len(piece) == 1 and score < limit else score for piece, score in learned}
    return sorted(
        ([piece, round(score, 6)] for piece, score in scores.items()), key=lambda entry: (-entry[1], entry[0])
    )


def _mark_word_starts() -> pre_tokenizers.PreTokenizer:
    """Split at white space, and put the mark in front of each word."""
    mark = pre_tokenizers.Metaspace(WORD_START, prepend_scheme="always", split=False)
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), mark])


KINDS = {"words": _learn_words, "bpe": _learn_bpe, "unigram": _learn_unigram}  # of data.vocabulary
