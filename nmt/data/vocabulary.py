"""Vocabularies: words or BPE, learned and stored by the `tokenizers` library as standard tokenizer.json files."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from nmt.errors import ConfigurationError, DataError, first_line

PAD, UNKNOWN, START, END = range(4)
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
WORD_END = "</w>"  # marks a BPE piece that ends a word


class Vocabulary:
    """Numbers for the pieces of white-space separated words, and back."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer

    @classmethod
    def learn(cls, blocks: Iterable[list[str]], *, kind: str, size: int, minimum_count: int) -> "Vocabulary":
        """The `size` most frequent words, or BPE pieces (specials included), seen at least `minimum_count` times.

        `blocks` of lines are read more than once. The same text gives the same numbers."""
        if size <= len(SPECIAL):
            raise ConfigurationError(
                f"data.vocabulary.size={size}: must be above {len(SPECIAL)}, the number of special symbols"
            )
        if kind == "words":
            tokenizer = Tokenizer(_most_frequent(blocks, size, minimum_count))
        elif kind == "bpe":
            tokenizer = Tokenizer(_most_often_joined(blocks, size, minimum_count))
            tokenizer.decoder = decoders.BPEDecoder(suffix=WORD_END)
            tokenizer.add_special_tokens(SPECIAL)
        else:
            raise ConfigurationError(f"data.vocabulary.kind={kind}: choose words or bpe")
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, DataError) as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """Nothing but what `learn` makes: expressions that split or replace could be made to take for ever."""
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # the library has no error of its own
            raise DataError(f"not a tokenizer.json ({first_line(error)[:200]})") from None
        if wrong := _foreign(tokenizer):
            raise DataError(f"not a tokenizer.json of this project: {wrong}")
        return cls(tokenizer)

    def to_json(self) -> str:
        return self.tokenizer.to_str(pretty=False)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode_flat(self, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """All numbers one after another, and how many each line has; without start and end symbols.

        Pieces are found on every core."""
        numbers = self._pieces_of_words(lines) if self.subwords else self._numbers_of_words(lines)
        lengths = np.fromiter(map(len, numbers), dtype=np.int64, count=len(numbers))
        flat = np.fromiter(chain.from_iterable(numbers), dtype=np.int32, count=int(lengths.sum()))
        flat[flat < len(SPECIAL)] = UNKNOWN  # a text that spells "</s>" does not end the sentence
        return flat, lengths

    def _pieces_of_words(self, lines: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(lines, add_special_tokens=False)]

    def _numbers_of_words(self, lines: list[str]) -> list[list[int]]:
        """As the tokenizer does, but several times faster than going through it."""
        number = self._number_of_word.get
        return [[number(word, UNKNOWN) for word in line.split()] for line in lines]

    @cached_property
    def _number_of_word(self) -> dict[str, int]:
        return self.tokenizer.get_vocab()

    def encode(self, lines: list[str]) -> list[np.ndarray]:
        flat, lengths = self.encode_flat(lines)
        return np.split(flat, np.cumsum(lengths)[:-1]) if lines else []

    def pieces(self, numbers: Iterable[int]) -> list[str]:
        return [self.tokenizer.id_to_token(int(number)) for number in numbers]

    def words(self, numbers: Iterable[int]) -> list[str]:
        return ["".join(group) for group in self._words_of_pieces(self.pieces(numbers))]

    def as_known(self, words: list[str]) -> list[str]:
        """With <unk> for what the vocabulary lacks: a word, or a letter of one."""
        return ["".join(self.words(pieces)) for pieces in self.encode(words)]

    def word_of_piece(self, numbers: Iterable[int]) -> list[int]:
        """For each piece the position of the word it belongs to, as far as the pieces tell: an unknown one does not
        tell whether it ends a word."""
        return [word for word, group in enumerate(self._words_of_pieces(self.pieces(numbers))) for _ in group]

    def word_of_piece_in(self, words: list[str]) -> list[int]:
        """For each piece that `words` are made of the position of its word."""
        counts = [len(pieces) for pieces in self._pieces_of_words(words)] if self.subwords else np.ones(len(words), int)
        return np.repeat(np.arange(len(words)), counts).tolist()

    def _words_of_pieces(self, pieces: list[str]) -> Iterator[list[str]]:
        if not self.subwords:
            yield from ([piece] for piece in pieces)
            return
        group = []
        for piece in pieces:
            group.append(piece.removesuffix(WORD_END))
            if piece.endswith(WORD_END):
                yield group
                group = []
        if group:
            yield group

    @cached_property
    def subwords(self) -> bool:
        return isinstance(self.tokenizer.model, models.BPE)


def _foreign(tokenizer: Tokenizer) -> str:
    """What about it `learn` would not have made."""
    model = tokenizer.model
    if not isinstance(model, models.BPE | models.WordLevel) or model.unk_token != SPECIAL[UNKNOWN]:
        return f"its model is neither words nor BPE with {SPECIAL[UNKNOWN]}"
    if isinstance(model, models.BPE) and model.end_of_word_suffix != WORD_END:
        return f"its pieces do not end words with {WORD_END}"
    if not isinstance(tokenizer.pre_tokenizer, pre_tokenizers.WhitespaceSplit):
        return "its pre_tokenizer is not WhitespaceSplit"
    for name in ("normalizer", "post_processor", "truncation", "padding"):
        if getattr(tokenizer, name) is not None:
            return f"it has a {name}"
    if any(token.content not in SPECIAL for token in tokenizer.get_added_tokens_decoder().values()):
        return "it has added tokens"
    pieces = [model.id_to_token(number) for number in range(tokenizer.get_vocab_size())]  # without what is added to it
    if None in pieces or pieces[: len(SPECIAL)] != SPECIAL:
        return f"its numbers do not begin with {' '.join(SPECIAL)} and go on without gaps"
    return ""


def _most_frequent(blocks: Iterable[list[str]], size: int, minimum_count: int) -> models.WordLevel:
    """Counted here, several times faster than by the library's trainer; of equally frequent words the first by name."""
    counts: Counter[str] = Counter()
    for block in blocks:
        counts.update(chain.from_iterable(map(str.split, block)))
    frequent = [word for word, count in counts.items() if count >= minimum_count and word not in SPECIAL]
    frequent.sort(key=lambda word: (-counts[word], word))
    return models.WordLevel({word: n for n, word in enumerate((SPECIAL + frequent)[:size])}, SPECIAL[UNKNOWN])


def _most_often_joined(blocks: Iterable[list[str]], size: int, minimum_count: int) -> models.BPE:
    """The library numbers letters that end a word in the order in which its hash table gives words, another in every
    process, and of pairs that are as frequent joins the lower numbers first: these letters are given it in order."""
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
    learnt = json.loads(tokenizer.to_str())["model"]
    joined = [tuple(pair) for pair in learnt["merges"]]
    return models.BPE(learnt["vocab"], joined, unk_token=SPECIAL[UNKNOWN], end_of_word_suffix=WORD_END)
