"""The toy language: a generator of sentence pairs with gold word alignments, the same on every machine.

`toy_corpus` reads its pairs as a data set. The target is a function of the source (`ToyLanguage.translate`), so a good
model can be nearly perfect. The pairs contain what attention is made for: reordering near and far, fertility 0 to 3,
inserted words and two words for one. Unknown words are copied, and repeated words translated as often as they occur.

The grammar of the source (`?` optional, `*` repeated):

    sentence    clause (conjunction clause)* mark                       mark: `.` or `?`
    clause      nominals particle? (degree* adverb)? verb satellite? particle? nominals? (preposition nominal)?
    nominals    nominal (coordinator nominal)*
    nominal     Name, or: determiner? (degree* adjective)* noun         with two adjectives at most

Its translation:

    order        subject verb object → subject object verb.
                 The verb ends its clause, its adverb comes before it.
                 adjectives noun → noun adjectives, in mirror image; preposition → postposition
    fertility 0  particles are dropped and have no link
    fertility 1  most words; a Name is copied
    fertility 2  a sixth of the nouns, a sixth of the verbs, and `?`, which becomes a particle and `?`
    fertility 3  a twelfth of the nouns
    two to one   a verb and its satellite become one target word, which differs from the verb's own translation
    inserted     a noun without determiner gets the article of its class (there are three), which has no link

An example in the language of seed 1, with links as source-target:

    source: Gurcu pu ma ma nibi papa me neba kobu duma mina dapa ?
    target: Gurcu hyx synzyx woolwoox zaxfax sylzyx zys ryszas sanfoos vax vax heinloos vaxhax zan ?
    links: 0-0 2-9 3-10 4-11 5-12 6-12 7-1 8-5 9-2 9-3 9-4 10-8 11-7 12-13 12-14

The frequencies of names follow Zipf's law, so many names are rarer than any vocabulary's limit. The splits `train`,
`valid` and `test` are alike; `long` has only long sentences with many repeated words. A digest of the source sentence
decides its split (`split_of`), so no sentence occurs in two splits, for any seeds and sizes.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

# Part of the name of cache entries. Give it a new value when the generated pairs change; a test fails until then.
VERSION = "5ea492c25b94b6475c94cdba31dd64ec"

NOUNS, VERBS, ADJECTIVES, NAMES = 120, 60, 45, 4000  # words of the lexicon
NAME_RATE = 0.1  # the share of names among the nominals

# Source words end in vowels and target words in consonants, so the two lexicons have no word in common.
SOURCE_SYLLABLES = [onset + vowel for onset in "bdgkmnpt" for vowel in "aeiou"]
TARGET_SYLLABLES = [onset + vowel + coda for onset in "fhlrsvwz" for vowel in ("a", "ei", "oo", "y") for coda in "lnsx"]
NAME_SYLLABLES = [onset + vowel + coda for onset in "bcdfghjklmnprstv" for vowel in "aeiou" for coda in ("", "n", "r")]

HELD_OUT = {0: "valid", 1: "test", 2: "long"}
SPLITS = ("train", *HELD_OUT.values())

# A sentence gets clauses until it has a length drawn from these, so it may become a little longer.
LENGTHS = (3,) * 11 + (8,) * 5 + (12,) * 2 + (18,) + (24,)
LENGTHS_OF_LONG = tuple(range(25, 37))
LONGEST = 40


class Pair(NamedTuple):
    """A sentence, its translation, and the sorted links (source position, target position), from 0."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]


class Entry(NamedTuple):
    """The lexicon entry of a source word: its role, its translation, and a noun's target article."""

    role: str
    target: tuple[str, ...]
    article: str = ""


def digest(text: str) -> int:
    """Return a number for a text that, unlike `hash`, is the same in every process."""
    return zlib.crc32(text.encode())


def split_of(source: Sequence[str]) -> str:
    """Return the split of a source sentence: each held-out split has a sixteenth of all sentences."""
    return HELD_OUT.get(digest(" ".join(source)) % 16, "train")


def repeat_by_rank(words: Sequence[str]) -> list[str]:
    """Repeat each word in proportion to 1 / (rank + 10), the last one once, so that uniform draws follow Zipf's law."""
    return [word for rank, word in enumerate(words, 1) for _ in range((len(words) + 10) // (rank + 10))]


def target_order(entries: Sequence[Entry]) -> list[int]:
    """Return the source positions in target order, without words that have no translation of their own."""
    order, verbal, degrees, modifiers, postposition = [], [], [], [], []  # all but `order` wait for their place
    for position, (role, _, _) in enumerate(entries):
        if role == "noun" or role == "name":
            order += [position, *modifiers, *postposition]
            modifiers, postposition = [], []
        elif role == "verb":
            verbal.append(position)
        elif role == "adjective":
            modifiers, degrees = [*degrees, position, *modifiers], []
        elif role == "conjunction" or role == "mark":
            order += [*verbal, position]
            verbal = []
        elif role == "adverb":
            verbal, degrees = [*verbal, *degrees, position], []
        elif role == "degree":
            degrees.append(position)
        elif role == "preposition":
            postposition = [position]
        elif role == "determiner" or role == "coordinator":
            order.append(position)
    return order


class WordGenerator:
    """A generator of pronounceable words, none of them twice."""

    def __init__(self, stream: random.Random, syllables: Sequence[str]) -> None:
        self.random, self.syllables, self.used = stream.random, syllables, set[str]()

    def word(self, length: int = 2) -> str:
        """Make a word of `length` syllables, or of more if that word is used already."""
        # only random(), because Python guarantees no other method to give the same numbers in all versions
        word = "".join(self.syllables[int(self.random() * len(self.syllables))] for _ in range(length))
        if word in self.used:
            return self.word(length + 1)
        self.used.add(word)
        return word

    def words(self, count: int, length: int = 2) -> list[str]:
        """Make `count` words."""
        return [self.word(length) for _ in range(count)]


class ToyLanguage:
    """A source language, its grammar and its translation.

    `lexicon` has the entry of each source word, and `phrasal` the translation of each verb with its satellite.
    """

    def __init__(self, seed: int = 1) -> None:
        self.seed = seed
        self.lexicon: dict[str, Entry] = {}
        self.phrasal: dict[tuple[str, str], tuple[str, ...]] = {}
        stream = random.Random(digest(f"lexicon {seed}"))
        source, target = WordGenerator(stream, SOURCE_SYLLABLES), WordGenerator(stream, TARGET_SYLLABLES)
        self._add_function_words(source, target)
        self._add_nouns(source.words(NOUNS), target)
        self._add_verbs(source.words(VERBS), source.words(3, 1), target)
        for role, count in ("adjective", ADJECTIVES), ("adverb", 16), ("preposition", 8):
            self._add(role, source.words(count), target)
        for name in map(str.capitalize, WordGenerator(stream, NAME_SYLLABLES).words(NAMES)):
            self.lexicon[name] = Entry("name", (name,))
        self.satellites = dict(self.phrasal.keys())
        roles = dict.fromkeys(entry.role for entry in self.lexicon.values())
        self.weighted_words = {role: repeat_by_rank(self.words_of(role)) for role in roles}

    def words_of(self, role: str) -> list[str]:
        """Return the source words of a role, the most frequent first."""
        return [word for word, entry in self.lexicon.items() if entry.role == role]

    def pairs(self, split: str, count: int) -> Iterator[Pair]:
        """Return the first `count` pairs of a split; each split has a separate random stream."""
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}. Fix: choose {', '.join(SPLITS)}")
        stream = random.Random(digest(f"{split} {self.seed}"))
        generator = SentenceGenerator(self, stream, *((LENGTHS_OF_LONG, 0.5) if split == "long" else (LENGTHS, 0.1)))
        sources = (source for source in iter(generator.sentence, None) if split_of(source) == split)
        return map(self.translate, islice(sources, count))

    def translate(self, source: Sequence[str]) -> Pair:
        """Translate a sentence that follows the grammar."""
        entries = [self.lexicon[word] for word in source]
        if not entries or entries[-1].role != "mark":
            raise ValueError(f"no mark at the end of the sentence: {' '.join(source)}")
        target, links, previous = [], [], ""
        for position in target_order(entries):
            role, words, article = entries[position]
            if article and previous != "determiner":
                target.append(article)
            if role == "verb" and (source[position], source[position + 1]) in self.phrasal:
                words = self.phrasal[source[position], source[position + 1]]
                links.append((position + 1, len(target)))
            for word in words:
                links.append((position, len(target)))
                target.append(word)
            previous = role
        return Pair(list(source), target, sorted(links))

    def _add(self, role: str, words: Sequence[str], target: WordGenerator, length: int = 2) -> None:
        self.lexicon |= {word: Entry(role, (target.word(length),)) for word in words}

    def _add_function_words(self, source: WordGenerator, target: WordGenerator) -> None:
        self.lexicon |= {".": Entry("mark", (".",)), "?": Entry("mark", (target.word(1), "?"))}
        self.lexicon |= {word: Entry("particle", ()) for word in source.words(3, 1)}
        for role, count in ("coordinator", 1), ("conjunction", 4), ("determiner", 4), ("degree", 3):
            self._add(role, source.words(count, 1), target, length=1)

    def _add_nouns(self, nouns: Sequence[str], target: WordGenerator) -> None:
        articles, heads = target.words(3, 1), target.words(12)  # few heads, so that compounds share their last words
        for rank, noun in enumerate(nouns):
            first = int(target.random() * 11)
            translation = target.word(), *heads[first : first + {4: 1, 9: 1, 7: 2}.get(rank % 12, 0)]
            self.lexicon[noun] = Entry("noun", translation, articles[int(target.random() * 3)])

    def _add_verbs(self, verbs: Sequence[str], satellites: Sequence[str], target: WordGenerator) -> None:
        self.lexicon |= {satellite: Entry("satellite", ()) for satellite in satellites}
        for rank, verb in enumerate(verbs):
            self.lexicon[verb] = Entry("verb", tuple(target.words(2 if rank % 6 == 3 else 1)))
            if rank % 4 == 1:
                self.phrasal[verb, satellites[rank // 4 % 3]] = (target.word(),)


class SentenceGenerator:
    """A generator of random sentences; `repetition`, from 0 to 1, is how much a sentence repeats itself."""

    def __init__(self, language: ToyLanguage, stream: random.Random, lengths: Sequence[int], repetition: float) -> None:
        self.language, self.random, self.lengths, self.repetition = language, stream.random, lengths, repetition
        self.mentioned: list[list[str]] = []

    def sentence(self) -> list[str]:
        """Generate a sentence of at most `LONGEST` words."""
        self.mentioned.clear()
        length = self.lengths[int(self.random() * len(self.lengths))]
        words = self.clause()
        while len(words) + 1 < length:
            words += [self.pick("conjunction"), *self.clause()]
        words.append("?" if self.random() < 0.15 else ".")
        return words if len(words) <= LONGEST else self.sentence()

    def clause(self) -> list[str]:
        """Generate a clause."""
        words = [*self.nominals(), *self.maybe(0.2, "particle")]
        if self.random() < 0.3:
            words += [*self.degrees(), self.pick("adverb")]
        verb = self.pick("verb")
        words.append(verb)
        if verb in self.language.satellites and self.random() < 0.5:
            words.append(self.language.satellites[verb])
        words += self.maybe(0.15, "particle")
        if self.random() < 0.75:
            words += self.nominals()
        if self.random() < 0.25:
            words += [self.pick("preposition"), *self.nominal()]
        return words

    def nominals(self) -> list[str]:
        """Generate one or more nominals, joined by coordinators."""
        words = [*self.nominal()]
        while self.random() < 0.05 + self.repetition / 2:
            words += [self.pick("coordinator"), *self.nominal()]
        return words

    def nominal(self) -> list[str]:
        """Generate a name or a described noun, or repeat an earlier nominal."""
        if self.mentioned and self.random() < self.repetition:
            return self.mentioned[int(self.random() * len(self.mentioned))]
        words = self.maybe(NAME_RATE, "name") or self.described_noun()
        self.mentioned.append(words)
        return words

    def described_noun(self) -> list[str]:
        """Generate a noun with its determiner and adjectives."""
        words = self.maybe(0.3, "determiner")
        adjectives = self.random()
        for _ in range((adjectives < 0.5) + (adjectives < 0.15)):
            words += [*self.degrees(), self.pick("adjective")]
        return [*words, self.pick("noun")]

    def degrees(self) -> list[str]:
        """Generate no, one or more copies of a degree word."""
        words = self.maybe(0.25, "degree")
        while words and self.random() < 0.25 + self.repetition / 2:
            words.append(words[0])
        return words

    def maybe(self, rate: float, role: str) -> list[str]:
        """Draw a word of a role with probability `rate`."""
        return [self.pick(role)] if self.random() < rate else []

    def pick(self, role: str) -> str:
        """Draw a word of a role by frequency."""
        words = self.language.weighted_words[role]
        return words[int(self.random() * len(words))]
