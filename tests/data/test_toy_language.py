"""The toy language: its documented example, its determinism, its splits, and its grammar."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from nmt.data import toy_language
from nmt.data.toy_corpus import ToyPairs
from nmt.data.toy_language import HELD_OUT, SPLITS, VERSION, Pair, ToyLanguage, split_of

COUNT = 1500


pytestmark = pytest.mark.xdist_group("the toy language")  # because they share the fixtures


@pytest.fixture(scope="module")
def language() -> ToyLanguage:
    return ToyLanguage(seed=1)


@pytest.fixture(scope="module")
def drawn(language) -> dict[str, list[Pair]]:
    return {split: list(language.pairs(split, COUNT)) for split in SPLITS}


@pytest.fixture(scope="module")
def everything(drawn) -> list[Pair]:
    return [pair for pairs in drawn.values() for pair in pairs]


def format_links(links: list[tuple[int, int]]) -> str:
    return " ".join(f"{source}-{target}" for source, target in links)


def roles(language: ToyLanguage, pair: Pair) -> list[str]:
    return [language.lexicon[word].role for word in pair.source]


def fertilities(pair: Pair) -> list[int]:
    linked = Counter(position for position, _ in pair.links)
    return [linked[position] for position in range(len(pair.source))]


def share_of_repeated_words(pairs: list[Pair]) -> float:
    repeated = sum(len(pair.source) - len(set(pair.source)) for pair in pairs)
    return repeated / sum(len(pair.source) for pair in pairs)


def test_documented_example_is_generated(language):
    documented = {
        key: re.search(rf"^ +{key}: (.+)$", toy_language.__doc__, re.M)[1] for key in ("source", "target", "links")
    }
    pair = language.translate(documented["source"].split())
    assert " ".join(pair.target) == documented["target"]
    assert format_links(pair.links) == documented["links"]


def test_first_training_pair_never_changes(language):
    pair = next(language.pairs("train", 1))
    assert " ".join(pair.source) == "poto gepu me pome mupa neba gomu padu papa me dido bagu buta ."
    assert " ".join(pair.target) == (
        "zys voolrys leilheix hylfool wysreix hool hyx feilsal zaxfax zyxvoos "
        "lanwyl leilheix lylwyx leisweix weilsyx vaxhax ."
    )
    assert format_links(pair.links) == "0-1 1-4 2-4 3-3 4-5 5-6 6-10 7-7 7-8 7-9 8-15 9-15 10-14 11-13 12-12 13-16"


def test_version_changes_with_the_generated_pairs():
    # if this fails, the generated pairs have changed: give VERSION and this test new values
    pairs = [list(ToyLanguage(seed=seed).pairs(split, 500)) for seed in (1, 2) for split in SPLITS]
    digest = hashlib.sha256(repr([tuple(pair) for drawn in pairs for pair in drawn]).encode()).hexdigest()
    assert (VERSION, digest[:16]) == ("5ea492c25b94b6475c94cdba31dd64ec", "3f88b9823e921510")


def test_identity_of_the_corpus_never_changes():
    identity = {"toy": ["train", 5, 1], "generator": "5ea492c25b94b6475c94cdba31dd64ec"}
    assert ToyPairs("train", 5).identity() == identity


def test_process_with_another_hash_seed_generates_the_same_pairs(drawn):
    program = "from nmt.data.toy_language import ToyLanguage; print(list(ToyLanguage(seed=1).pairs('long', 20)))"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] == f"{drawn['long'][:20]}\n"


@pytest.mark.parametrize("split", SPLITS)
def test_fewer_pairs_are_the_beginning_of_more(language, drawn, split):
    assert list(language.pairs(split, 100)) == drawn[split][:100]


def test_splits_and_seeds_have_different_sentences(language, drawn):
    assert len({tuple(pairs[0].source) for pairs in drawn.values()}) == len(SPLITS)
    assert next(ToyLanguage(seed=2).pairs("train", 1)) != drawn["train"][0]


def test_unknown_split_is_refused_with_the_choices(language):
    with pytest.raises(ValueError, match=r"'dev'.*train, valid, test, long"):
        language.pairs("dev", 1)


@pytest.mark.parametrize("count", [0, 10**12, 2.5])
def test_a_count_that_would_take_hours_is_refused(count):
    with pytest.raises(ValueError, match=f"count={count}: must be from 1 to 10000000"):
        ToyPairs("train", count)


def test_no_sentence_occurs_in_two_splits(drawn):
    sources = {split: {tuple(pair.source) for pair in pairs} for split, pairs in drawn.items()}
    for split in SPLITS:
        assert {split_of(source) for source in sources[split]} == {split}
    assert sum(map(len, sources.values())) == len(set().union(*sources.values()))


def test_each_held_out_split_has_a_sixteenth_of_the_sentences():
    generator = toy_language.SentenceGenerator(ToyLanguage(), toy_language.random.Random(5), toy_language.LENGTHS, 0.1)
    counts = Counter(split_of(generator.sentence()) for _ in range(16_000))
    for split in HELD_OUT.values():
        assert counts[split] == pytest.approx(1000, abs=150)


def test_sentences_have_3_to_40_words_and_about_11_on_average(drawn):
    for split in ("train", "valid", "test"):
        lengths = [len(pair.source) for pair in drawn[split]]
        assert min(lengths) == 3
        assert max(lengths) <= 40
        assert 10.5 < sum(lengths) / COUNT < 12.5
        assert sum(5 <= length <= 20 for length in lengths) > 0.75 * COUNT
        assert 0.04 * COUNT < sum(length > 24 for length in lengths) < 0.08 * COUNT


def test_long_split_has_25_to_40_words_and_many_repetitions(drawn):
    assert {len(pair.source) for pair in drawn["long"]} == set(range(25, 41))
    assert share_of_repeated_words(drawn["long"]) > 0.33
    assert share_of_repeated_words(drawn["long"]) > 2.5 * share_of_repeated_words(drawn["test"])


def test_links_are_sorted_unique_and_within_both_sentences(everything):
    for pair in everything:
        assert pair.links == sorted(set(pair.links))
        assert all(0 <= s < len(pair.source) and 0 <= t < len(pair.target) for s, t in pair.links)


def test_each_link_joins_a_word_and_its_translation(language, everything):
    for source, target, links in everything:
        for s, t in links:
            candidates = set(language.lexicon[source[s]].target)
            candidates.update(*(language.phrasal.get(phrase, ()) for phrase in pairwise(source[max(s - 1, 0) : s + 2])))
            assert target[t] in candidates


def test_each_word_has_the_fertility_of_its_lexicon_entry(language, everything):
    for pair in everything:
        following = [*pair.source[1:], ""]
        for word, next_word, fertility in zip(pair.source, following, fertilities(pair), strict=True):
            entry = language.lexicon[word]
            phrasal = (word, next_word) in language.phrasal or entry.role == "satellite"
            assert fertility == (1 if phrasal else len(entry.target))


def test_fertilities_0_to_3_all_occur(drawn):
    shares = Counter(fertility for pair in drawn["train"] for fertility in fertilities(pair))
    shares = {fertility: count / shares.total() for fertility, count in shares.items()}
    assert shares == pytest.approx({0: 0.045, 1: 0.866, 2: 0.069, 3: 0.02}, abs=0.01)


def test_names_are_copied(language, drawn):
    names = 0
    for pair in drawn["train"]:
        copied = {s: pair.target[t] for s, t in pair.links}
        for position, role in enumerate(roles(language, pair)):
            assert (role == "name") == pair.source[position][0].isupper()
            if role == "name":
                assert copied[position] == pair.source[position]
                names += 1
    assert 0.02 < names / sum(len(pair.source) for pair in drawn["train"]) < 0.035


def test_verb_and_its_satellite_share_one_target_word(language, drawn):
    seen = 0
    for pair in drawn["train"]:
        for position, role in enumerate(roles(language, pair)):
            if role == "satellite":
                verb = [t for s, t in pair.links if s == position - 1]
                assert verb == [t for s, t in pair.links if s == position]
                assert pair.target[verb[0]] not in language.lexicon[pair.source[position - 1]].target
                seen += 1
    assert seen > 100


def test_each_unlinked_target_word_is_the_article_of_the_next_noun(language, everything):
    articles = {language.lexicon[noun].article for noun in language.words_of("noun")}
    assert len(articles) == 3
    seen = set()
    for pair in everything:
        source_of = {t: s for s, t in pair.links}
        for position in set(range(len(pair.target))) - set(source_of):
            noun = pair.source[source_of[position + 1]]
            assert pair.target[position] == language.lexicon[noun].article
            seen.add(pair.target[position])
    assert seen == articles


def test_noun_has_either_a_determiner_or_an_article(language, everything):
    for pair in everything:
        count = Counter(roles(language, pair))
        assert len(pair.target) - len({t for _, t in pair.links}) == count["noun"] - count["determiner"]


def test_verbs_end_their_clause(language, everything):
    for pair in everything:
        boundaries = [s for s, role in enumerate(roles(language, pair)) if role in ("conjunction", "mark")]
        for s, role in enumerate(roles(language, pair)):
            if role == "verb":
                boundary = min(t for s_, t in pair.links if s_ == min(b for b in boundaries if b > s))
                assert max(t for s_, t in pair.links if s_ == s) == boundary - 1


def test_adjectives_follow_their_noun_in_mirror_image(language, drawn):
    seen = 0
    for pair in drawn["train"]:
        first = {s: min(t for s_, t in pair.links if s_ == s) for s, _ in pair.links}
        for position, (role, following) in enumerate(pairwise(roles(language, pair))):
            if role == "adjective" and following in ("adjective", "noun"):
                assert first[position] > first[position + 1]
                seen += 1
    assert seen > 1000


def test_word_is_translated_as_often_as_it_occurs(language, drawn):
    for pair in drawn["long"]:
        occurrences = Counter()
        for word in pair.source:
            occurrences.update(language.lexicon[word].target)
        translated = Counter(pair.target)
        for word in pair.source:
            if language.lexicon[word].role in ("degree", "adjective", "adverb", "noun", "name"):
                assert all(translated[target] == occurrences[target] for target in language.lexicon[word].target)


def test_question_ends_with_a_question_particle(language, drawn):
    asking, _ = language.lexicon["?"].target
    questions = [pair for pair in drawn["train"] if pair.source[-1] == "?"]
    assert 0.1 * COUNT < len(questions) < 0.2 * COUNT
    for pair in drawn["train"]:
        assert (pair.target[-2:] == [asking, "?"]) == (pair.source[-1] == "?")
        assert (asking in pair.target) == (pair.source[-1] == "?")


def test_target_is_a_function_of_the_source(language, everything):
    assert all(language.translate(pair.source) == pair for pair in everything)


def test_sentence_without_a_mark_is_refused(language):
    with pytest.raises(ValueError, match="no mark"):
        language.translate(language.words_of("noun")[:1])


def test_the_two_lexicons_share_only_names_and_marks(language):
    source = set(language.lexicon)
    target = {word for entry in language.lexicon.values() for word in entry.target}
    assert source & target == {*language.words_of("name"), ".", "?"}


def test_about_one_word_in_a_hundred_is_unknown(language, drawn):
    train = list(language.pairs("train", 50_000))
    for side in (0, 1):
        counts = Counter(word for pair in train for word in pair[side])
        words = [word for pair in drawn["test"] for word in pair[side]]
        assert 0.004 < sum(counts[word] < 5 for word in words) / len(words) < 0.01
        frequent = [word for word in counts if not word[0].isupper()]
        assert 250 < len(frequent) < 400
        assert min(counts[word] for word in frequent) > 100
