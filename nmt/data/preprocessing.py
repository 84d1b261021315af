"""One side of a language pair: from raw text to numbers, and from numbers to text that a person would write."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from nmt.data.vocabulary import SPECIAL, UNKNOWN, Vocabulary
from nmt.errors import ConfigurationError

TOKENIZERS = ("none", "moses", "characters")
MARKUP = {  # what tokenizers leave whole; each expression takes time in proportion to the text, whatever it holds
    "rst": "|".join(
        (
            r":[\w.+:-]{1,60}:`[^`]+`",  # a role
            r"``[^`]+``",
            r"`[^`]+`_{0,2}",
            r"\*\*[^*\s](?:[^*]*[^*\s])?\*\*",
            r"\*[^*\s](?:[^*]*[^*\s])?\*",
        )
    )
}
UNKNOWN_IN_TEXT = "⁇"  # as SentencePiece writes it; <unk> would be three words to sacrebleu's 13a
_IDEOGRAPH = "\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What happens to raw text before the vocabulary. A plain value, so that worker processes can be sent one.

    tokenizer: `none` – already separated by white space; `moses`; `characters` – Chinese characters (kanji too) stand
    alone, other text is split as Moses does. markup: `rst` – Moses leaves roles, literals and emphasis whole.
    """

    language: str
    normalize: bool
    tokenizer: str
    lowercase: bool
    markup: str | None = None  # checkpoints of old do not say

    def __post_init__(self):
        if self.tokenizer not in TOKENIZERS:
            raise ConfigurationError(
                f"data.source.tokenizer or data.target.tokenizer is {self.tokenizer}: choose {', '.join(TOKENIZERS)}"
            )
        if self.markup not in (None, *MARKUP):
            raise ConfigurationError(
                f"data.source.markup or data.target.markup is {self.markup}: choose null or {', '.join(MARKUP)}"
            )
        if self.markup and self.tokenizer == "none":
            raise ConfigurationError(
                f"data.source.markup or data.target.markup is {self.markup} where tokenizer=none takes nothing apart: "
                "leave it out, or choose moses or characters"
            )

    def __call__(self, line: str) -> str:
        """Raw text → words separated by single blanks."""
        for step in self._steps:
            line = step(line)
        return " ".join(line.split())

    @cached_property
    def _steps(self) -> list[Callable[[str], str]]:
        """Lowercase first, as Multi30k's own preparation does."""
        steps = [str.lower] if self.lowercase else []
        if self.normalize:
            from sacremoses import MosesPunctNormalizer

            steps.append(MosesPunctNormalizer(self.language).normalize)
        if self.tokenizer == "moses":
            steps.append(_moses(self.language, self.markup))
        if self.tokenizer == "characters":
            steps.append(_characters(self.language, self.markup))
        return steps

    def restore(self, words: str) -> str:
        """Words separated by blanks → text as it is written."""
        words = words.replace(SPECIAL[UNKNOWN], UNKNOWN_IN_TEXT)
        if self.tokenizer == "none":
            return words
        text = self._detokenizer.detokenize(words.split(), return_str=True, unescape=True)
        return _join_ideographs(text) if self.tokenizer == "characters" else text

    @cached_property
    def _detokenizer(self):
        from sacremoses import MosesDetokenizer

        return MosesDetokenizer(self.language)

    def __getstate__(self):
        return asdict(self)

    def __setstate__(self, state):
        self.__dict__.update(state)


def _moses(language: str, markup: str | None, *, only_ascii: bool = False) -> Callable[[str], str]:
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    if only_ascii:  # else it looks for each character among 80,000 Chinese ones: fifty times slower
        for name in ("IsAlpha", "IsAlnum", "PAD_NOT_ISALNUM", "AGGRESSIVE_HYPHEN_SPLIT", "INTRATOKEN_SLASHES"):
            vars(tokenizer).pop(name, None)
    whole = [MARKUP[markup]] if markup else None

    def tokenized(line: str) -> str:
        try:
            return tokenizer.tokenize(line, return_str=True, escape=True, protected_patterns=whole)
        except ValueError:  # more markup in a line than the library can keep apart
            return tokenizer.tokenize(line, return_str=True, escape=True)

    return tokenized


def _characters(language: str, markup: str | None) -> Callable[[str], str]:
    """Ideographs alone, what stands between them as Moses splits it."""
    any_script = lru_cache(1 << 16)(_moses(language, markup))
    ascii_alone = _moses(language, markup, only_ascii=True)
    ideograph = re.compile(f"([{_IDEOGRAPH}])")

    def tokenized(part: str) -> str:
        if not part or part.isspace() or ideograph.match(part):
            return part
        return ascii_alone(part) if part.isascii() else any_script(part)

    return lambda line: " ".join(map(tokenized, ideograph.split(line)))


def _join_ideographs(line: str) -> str:
    """And dashes and dots that are written twice, which Moses takes apart."""
    return re.sub(f"(?<=[{_IDEOGRAPH}]) +| +(?=[{_IDEOGRAPH}])|(?<=—) +(?=—)|(?<=…) +(?=…)", "", line)


@dataclass(frozen=True)
class Language:
    """Preprocessing and vocabulary together: all that translating needs to know of a side."""

    preprocessing: Preprocessing
    vocabulary: Vocabulary

    def words(self, numbers) -> str:
        """Words separated by blanks, as the models see them."""
        return " ".join(self.vocabulary.words(numbers))
