"""An artificial pair of languages with gold word alignments: generated, seeded, the same wherever it is generated.

The target is a function of the source (`ToyLanguage.translate`), so a good model can be nearly perfect, and what
attention is there for occurs: reordering near and far, fertility 0 to 3, inserted words, two words for one, unknown
words to copy, and repeated words to be translated as often as they are said. The source (`?` optional, `*` repeated):

    sentence    clause (conjunction clause)* mark                       mark: `.` or `?`
    clause      nominals particle? (degree* adverb)? verb satellite? particle? nominals? (preposition nominal)?
    nominals    nominal (coordinator nominal)*
    nominal     Name, or: determiner? (degree* adjective)* noun         with two adjectives at most

What its translation does with it:

    order        subject verb object → subject object verb: the verb ends its clause, its adverb stands before it;
                 adjectives noun → noun adjectives, in mirror image; preposition → postposition
    fertility 0  particles are dropped and have no link
    fertility 1  most words; a Name is copied
    fertility 2  a sixth of the nouns, a sixth of the verbs, and `?`, before which comes a particle that asks
    fertility 3  a twelfth of the nouns
    two to one   a verb with its satellite makes one target word, another one than the verb alone
    inserted     a noun without determiner gets the article of its class, of which there are three; it has no link

An example in the language of seed 1, with links as source-target:

    source: Gurcu pu ma ma nibi papa me neba kobu duma mina dapa ?
    target: Gurcu hyx synzyx woolwoox zaxfax sylzyx zys ryszas sanfoos vax vax heinloos vaxhax zan ?
    links: 0-0 2-9 3-10 4-11 5-12 6-12 7-1 8-5 9-2 9-3 9-4 10-8 11-7 12-13 12-14

Names follow Zipf's law far into a tail that no vocabulary holds. The splits `train`, `valid` and `test` are alike;
`long` has only long sentences, which say the same things again and again. A digest of the source sentence decides
which split it belongs to (`split_of`), so no sentence occurs in two splits, whatever the seeds and the sizes.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

# Source words end in vowels and target words in consonants, so that the two lexicons cannot meet.
SOURCE_SYLLABLES = [onset + vowel for onset in "bdgkmnpt" for vowel in "aeiou"]
TARGET_SYLLABLES = [onset + vowel + coda for onset in "fhlrsvwz" for vowel in ("a", "ei", "oo", "y") for coda in "lnsx"]
NAME_SYLLABLES = [onset + vowel + coda for onset in "bcdfghjklmnprstv" for vowel in "aeiou" for coda in ("", "n", "r")]

HELD_OUT = {0: "valid", 1: "test", 2: "long"}
SPLITS = ("train", *HELD_OUT.values())

# A sentence gets clauses until it has one of these lengths, drawn evenly, so that it may end somewhat longer.
LENGTHS = (3,) * 11 + (8,) * 5 + (12,) * 2 + (18,) + (24,)
LENGTHS_OF_LONG = tuple(range(25, 37))
LONGEST = 40


class Pair(NamedTuple):
    """A sentence, its translation, and the sorted links (source position, target position), both counted from 0."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]


class Entry(NamedTuple):
    """What the lexicon says of a source word; `article` is the target article of a noun's class."""

    role: str
    target: tuple[str, ...]
    article: str = ""


def digest(text: str) -> int:
    """A number that every version of Python derives alike from a text, unlike `hash`."""
    return zlib.crc32(text.encode())


def split_of(source: Sequence[str]) -> str:
    """The one split in which a source sentence may occur: each held-out split owns a sixteenth of all sentences."""
    return HELD_OUT.get(digest(" ".join(source)) % 16, "train")


def urn(words: Sequence[str]) -> list[str]:
    """Words to draw from evenly: how often each is in there falls as 1 / (rank + 10), down to once for the last."""
    return [word for rank, word in enumerate(words, 1) for _ in range((len(words) + 10) // (rank + 10))]


def target_order(entries: Sequence[Entry]) -> list[int]:
    """The source positions in the order of the target, without those that are never translated by themselves."""
    order, verbal, degrees, modifiers, postposition = [], [], [], [], []  # all but the first wait for their place
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


class Coinage:
    """Makes pronounceable words, none of them twice."""

    def __init__(self, stream: random.Random, syllables: Sequence[str]) -> None:
        self.random, self.syllables, self.coined = stream.random, syllables, set[str]()

    def word(self, length: int = 2) -> str:
        """A new word of so many syllables, or of more where those are taken."""
        # Of a seeded stream Python promises only that `random()` stays the same in all versions.
        word = "".join(self.syllables[int(self.random() * len(self.syllables))] for _ in range(length))
        if word in self.coined:
            return self.word(length + 1)
        self.coined.add(word)
        return word

    def words(self, count: int, length: int = 2) -> list[str]:
        return [self.word(length) for _ in range(count)]


class ToyLanguage:
    """A pair of languages whose words are coined from `seed`; the plural arguments say how many words a role has.

    `lexicon` has the entry of each source word, `phrasal` the translation of a verb with its satellite, and `name_rate`
    is the share of names among the nominals.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        nouns: int = 120,
        verbs: int = 60,
        adjectives: int = 45,
        names: int = 4000,
        name_rate: float = 0.1,
    ) -> None:
        self.seed, self.name_rate = seed, name_rate
        self.lexicon: dict[str, Entry] = {}
        self.phrasal: dict[tuple[str, str], tuple[str, ...]] = {}
        stream = random.Random(digest(f"lexicon {seed}"))
        source, target = Coinage(stream, SOURCE_SYLLABLES), Coinage(stream, TARGET_SYLLABLES)
        self._add_function_words(source, target)
        self._add_nouns(source.words(nouns), target)
        self._add_verbs(source.words(verbs), source.words(3, 1), target)
        for role, count in ("adjective", adjectives), ("adverb", 16), ("preposition", 8):
            self._add(role, source.words(count), target)
        for name in map(str.capitalize, Coinage(stream, NAME_SYLLABLES).words(names)):
            self.lexicon[name] = Entry("name", (name,))
        self.satellites = dict(self.phrasal.keys())
        roles = dict.fromkeys(entry.role for entry in self.lexicon.values())
        self.urns = {role: urn(self.words_of(role)) for role in roles}

    def words_of(self, role: str) -> list[str]:
        """The source words of a role, the most frequent first."""
        return [word for word, entry in self.lexicon.items() if entry.role == role]

    def pairs(self, split: str, count: int) -> Iterator[Pair]:
        """The first `count` pairs of a split, one of `SPLITS`; each split has a random stream of its own."""
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}: it is one of {', '.join(SPLITS)}")
        stream = random.Random(digest(f"{split} {self.seed}"))
        speaker = Speaker(self, stream, *((LENGTHS_OF_LONG, 0.5) if split == "long" else (LENGTHS, 0.1)))
        sources = (source for source in iter(speaker.sentence, None) if split_of(source) == split)
        return map(self.translate, islice(sources, count))

    def translate(self, source: Sequence[str]) -> Pair:
        """The pair of any sentence that follows the grammar."""
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

    def _add(self, role: str, words: Sequence[str], target: Coinage, length: int = 2) -> None:
        self.lexicon |= {word: Entry(role, (target.word(length),)) for word in words}

    def _add_function_words(self, source: Coinage, target: Coinage) -> None:
        self.lexicon |= {".": Entry("mark", (".",)), "?": Entry("mark", (target.word(1), "?"))}
        self.lexicon |= {word: Entry("particle", ()) for word in source.words(3, 1)}
        for role, count in ("coordinator", 1), ("conjunction", 4), ("determiner", 4), ("degree", 3):
            self._add(role, source.words(count, 1), target, length=1)

    def _add_nouns(self, nouns: Sequence[str], target: Coinage) -> None:
        articles, heads = target.words(3, 1), target.words(12)  # few, so that compounds share their last words
        for rank, noun in enumerate(nouns):
            first = int(target.random() * 11)
            translation = target.word(), *heads[first : first + {4: 1, 9: 1, 7: 2}.get(rank % 12, 0)]
            self.lexicon[noun] = Entry("noun", translation, articles[int(target.random() * 3)])

    def _add_verbs(self, verbs: Sequence[str], satellites: Sequence[str], target: Coinage) -> None:
        self.lexicon |= {satellite: Entry("satellite", ()) for satellite in satellites}
        for rank, verb in enumerate(verbs):
            self.lexicon[verb] = Entry("verb", tuple(target.words(2 if rank % 6 == 3 else 1)))
            if rank % 4 == 1:
                self.phrasal[verb, satellites[rank // 4 % 3]] = (target.word(),)


class Speaker:
    """Says random source sentences; `repetition` is how readily a sentence comes back to what it has mentioned."""

    def __init__(self, language: ToyLanguage, stream: random.Random, lengths: Sequence[int], repetition: float) -> None:
        self.language, self.random, self.lengths, self.repetition = language, stream.random, lengths, repetition
        self.mentioned: list[list[str]] = []

    def sentence(self) -> list[str]:
        self.mentioned.clear()
        length = self.lengths[int(self.random() * len(self.lengths))]
        words = self.clause()
        while len(words) + 1 < length:
            words += [self.pick("conjunction"), *self.clause()]
        words.append("?" if self.random() < 0.15 else ".")
        return words if len(words) <= LONGEST else self.sentence()

    def clause(self) -> list[str]:
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
        words = [*self.nominal()]
        while self.random() < 0.05 + self.repetition / 2:
            words += [self.pick("coordinator"), *self.nominal()]
        return words

    def nominal(self) -> list[str]:
        if self.mentioned and self.random() < self.repetition:
            return self.mentioned[int(self.random() * len(self.mentioned))]
        words = self.maybe(self.language.name_rate, "name") or self.described_noun()
        self.mentioned.append(words)
        return words

    def described_noun(self) -> list[str]:
        words = self.maybe(0.3, "determiner")
        adjectives = self.random()
        for _ in range((adjectives < 0.5) + (adjectives < 0.15)):
            words += [*self.degrees(), self.pick("adjective")]
        return [*words, self.pick("noun")]

    def degrees(self) -> list[str]:
        words = self.maybe(0.25, "degree")
        while words and self.random() < 0.25 + self.repetition / 2:
            words.append(words[0])
        return words

    def maybe(self, rate: float, role: str) -> list[str]:
        return [self.pick(role)] if self.random() < rate else []

    def pick(self, role: str) -> str:
        words = self.language.urns[role]
        return words[int(self.random() * len(words))]
