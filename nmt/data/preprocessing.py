"""Preprocessing of one side: from raw text to words, and from a translation's words to text."""

import locale
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

from nmt.data.parallel_text import SIDES
from nmt.data.vocabulary import SPECIAL, UNKNOWN, Vocabulary
from nmt.errors import ConfigurationError, did_you_mean

log = logging.getLogger(__name__)

TOKENIZERS = ("none", "moses", "characters")
MARKUP = {  # regular expressions of text that stays one word; each needs time linear in the length of any text
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
UNKNOWN_IN_TEXT = "⁇"  # as in SentencePiece, because sacrebleu's 13a would split <unk> into three words
IDEOGRAPHS = "\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """The steps from raw text to words. A plain value, so it can be sent to another process.

    Attributes:
        language: The language code for Moses.
        normalize: Normalize punctuation as Moses does.
        tokenizer: `none`: words are already separated by white space. `moses`. `characters`: each Chinese character is
            a word (Japanese kanji too), and Moses splits the rest.
        lowercase: Lowercase the text.
        markup: `rst`: roles, literals and emphasis stay one word.
    """

    language: str
    normalize: bool
    tokenizer: str
    lowercase: bool
    markup: str | None = None  # old checkpoints do not have it

    def __post_init__(self):
        if self.tokenizer not in TOKENIZERS:
            raise ConfigurationError(
                f"data.source.tokenizer={self.tokenizer} or data.target.tokenizer={self.tokenizer}: unknown tokenizer. "
                f"Fix: choose {', '.join(TOKENIZERS)}"
            )
        markup_keys = f"data.source.markup={self.markup} or data.target.markup={self.markup}"
        if self.markup not in (None, *MARKUP):
            raise ConfigurationError(f"{markup_keys}: unknown markup. Fix: choose null or {', '.join(MARKUP)}")
        if self.markup and self.tokenizer == "none":
            raise ConfigurationError(
                f"{markup_keys}: no effect, because tokenizer=none splits nothing. "
                "Fix: leave markup out, or choose the tokenizer moses or characters"
            )

    def __call__(self, line: str) -> str:
        """Turn raw text into words separated by single spaces."""
        for step in self._steps:
            line = step(line)
        return " ".join(line.split())

    @cached_property
    def _steps(self) -> list[Callable[[str], str]]:
        steps = [str.lower] if self.lowercase else []  # first, as in Multi30k's preparation
        if self.normalize:
            from sacremoses import MosesPunctNormalizer

            steps.append(MosesPunctNormalizer(self.language).normalize)
        if self.tokenizer == "moses":
            steps.append(_moses_tokenizer(self.language, self.markup))
        if self.tokenizer == "characters":
            steps.append(_character_tokenizer(self.language, self.markup))
        return steps

    def restore(self, words: str) -> str:
        """Turn words separated by spaces into text, as a person would write it."""
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


def languages_of_country(code: str) -> list[str]:
    """Return the languages of a country, such as cs for cz; none for a code that is also of a language, such as br."""
    places = {name.split(".")[0].split("@")[0] for name in locale.locale_alias.values()}  # such as cs_CZ
    pairs = [place.split("_") for place in places if "_" in place]
    if code in {language for language, _ in pairs}:
        return []
    return sorted({language for language, country in pairs if country.lower() == code.lower()})


def check_languages(data: Mapping[str, Any]) -> None:
    """Log which rules of Moses split the text, because a language that nobody gave is English."""
    sides = [side for side in SIDES if data[side].tokenizer != "none" or data[side].normalize]
    rules = {f"data.{side}.language": data[side].language for side in sides}
    if rules:
        log.info("language rules of Moses: %s", " ".join(f"{key}={language}" for key, language in rules.items()))
    for key, language in rules.items():
        check_language(key, language)


def check_language(key: str, language: str) -> None:
    """Refuse the code of a country in place of a language, and warn of a language that Moses does not know."""
    from nmt.data.moses_internals import list_moses_languages

    if language in (languages := list_moses_languages()):
        return
    if spoken := languages_of_country(language):
        fix = f"{key}={'|'.join(spoken)}"
        raise ConfigurationError(f"{key}={language}: is the code of a country, not of a language. Fix: {fix}")
    hint = did_you_mean(language, languages)
    log.warning("%s=%s: Moses has no rules for it%s; the text is split as English", key, language, hint)


def _moses_tokenizer(language: str, markup: str | None, *, only_ascii: bool = False) -> Callable[[str], str]:
    from sacremoses import MosesTokenizer

    from nmt.data.moses_internals import drop_cjk_tables

    tokenizer = MosesTokenizer(language)
    if only_ascii:
        drop_cjk_tables(tokenizer)
    protected = [MARKUP[markup]] if markup else None

    def tokenize(line: str) -> str:
        try:
            return tokenizer.tokenize(line, return_str=True, escape=True, protected_patterns=protected)
        except ValueError:  # because sacremoses limits the number of protected words in a line
            return tokenizer.tokenize(line, return_str=True, escape=True)

    return tokenize


def _character_tokenizer(language: str, markup: str | None) -> Callable[[str], str]:
    tokenize_any = lru_cache(1 << 16)(_moses_tokenizer(language, markup))
    tokenize_ascii = _moses_tokenizer(language, markup, only_ascii=True)
    ideograph = re.compile(f"([{IDEOGRAPHS}])")

    def tokenize_part(part: str) -> str:
        if not part or part.isspace() or ideograph.match(part):
            return part
        return tokenize_ascii(part) if part.isascii() else tokenize_any(part)

    return lambda line: " ".join(map(tokenize_part, ideograph.split(line)))


def _join_ideographs(line: str) -> str:
    """Remove spaces around ideographs, and inside double dashes and ellipses, which Moses splits."""
    return re.sub(f"(?<=[{IDEOGRAPHS}]) +| +(?=[{IDEOGRAPHS}])|(?<=—) +(?=—)|(?<=…) +(?=…)", "", line)


@dataclass(frozen=True)
class Language:
    """The preprocessing and the vocabulary of one side: what a translator needs."""

    preprocessing: Preprocessing
    vocabulary: Vocabulary

    def words(self, ids) -> str:
        """Turn word ids into words separated by spaces."""
        return " ".join(self.vocabulary.words(ids))
