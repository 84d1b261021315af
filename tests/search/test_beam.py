"""Beam search against a literal search, and by hand."""

import math
from collections import Counter
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
import torch
from compositions import composed
from random_batches import batch_of, random_rows
from reference.search import literal_beam_search
from torch.utils._python_dispatch import TorchDispatchMode
from waiting_operations import WAITING

from nmt.data.vocabulary import END, PAD, START
from nmt.errors import ConfigurationError
from nmt.search.beam import beam_search
from nmt.search.forced_decoding import force_decode
from nmt.search.settings import Search

SOURCES = random_rows([3, 1, 4], 19, seed=1)


class Scripted:
    """A model whose next-word probabilities stand in a table by the words so far; its state is these words."""

    def __init__(self, table: dict[tuple[int, ...], dict[int, float]], words: int):
        self.table, self.words = table, words

    def encode(self, source, lengths):
        return source

    def begin(self, source):
        return (source,), torch.full((len(source), 1), START)

    def next(self, words, state, bound):
        prefixes = torch.cat([state, words[:, None]], dim=1)
        logits = torch.full((len(words), self.words), -1e9)
        for row, prefix in enumerate(prefixes.tolist()):
            for word, probability in self.table.get(tuple(prefix[2:]), {END: 1.0}).items():
                logits[row, word] = np.log(probability)
        return logits, {"alignment": torch.ones(len(words), bound[0].shape[1])}, prefixes


A, B, C = 4, 5, 6
GARDEN_PATH = Scripted({(): {A: 0.6, B: 0.4}, (A,): {A: 0.6, B: 0.4}, (B,): {C: 1.0}, (B, C): {END: 1.0}}, words=7)


def run(model, source=((9,),), **settings):
    lengths = torch.tensor([len(row) for row in source])
    return beam_search(model, torch.tensor(source), lengths, Search(**settings))


def test_beam_search_avoids_a_garden_path_that_greedy_search_takes():
    ((greedy,),) = run(GARDEN_PATH, beam=1)
    ((best,),) = run(GARDEN_PATH, beam=2)
    assert greedy.words.tolist() == [A, A]
    assert greedy.log_probability == pytest.approx(np.log(0.36))
    assert best.words.tolist() == [B, C]
    assert best.log_probability == pytest.approx(np.log(0.4))


def test_n_best_hypotheses_come_best_first():
    (nbest,) = run(GARDEN_PATH, beam=3, nbest=3, length_penalty=0.0)
    assert [best.words.tolist() for best in nbest] == [[B, C], [A, A], [A, B]]
    assert [best.score for best in nbest] == pytest.approx([np.log(0.4), np.log(0.36), np.log(0.24)])


def test_length_normalization_divides_by_the_words_and_the_end_symbol():
    model = Scripted({(): {END: 0.5, A: 0.5}, (A,): {A: 0.9, END: 0.1}, (A, A): {END: 1.0}}, words=7)
    ((plain,),) = run(model, beam=4, length_penalty=0.0)
    ((normalised,),) = run(model, beam=4, length_penalty=1.0)
    assert plain.words.tolist() == []
    assert normalised.words.tolist() == [A, A]
    assert normalised.score == pytest.approx(np.log(0.45) / 3)


def test_the_greatest_length_depends_on_the_sentence_and_not_on_its_batch():
    endless = Scripted({(A,) * n: {A: 1.0} for n in range(50)}, words=7)
    nbest = run(endless, source=((9, 9, 9, 9), (9, 0, 0, 0)), beam=1, longest_ratio=2.0, longest_extra=1)
    assert [len(best.words) for (best,) in nbest] == [9, 9]
    lengths = torch.tensor([4, 1])
    nbest = beam_search(endless, torch.tensor([[9] * 4, [9, 0, 0, 0]]), lengths, Search(beam=1, longest_extra=1))
    assert [len(best.words) for (best,) in nbest] == [9, 3]
    assert [best.alignment.shape for (best,) in nbest] == [(9, 4), (3, 1)]


@pytest.mark.parametrize("source_end", [False, True])
def test_half_of_the_source_is_the_least_length_as_in_the_papers_code(source_end):
    """GroundHog's minlen and nmt.matlab's minLen are the source's length with its end symbol, halved, rounded down."""
    hasty = Scripted({(A,) * n: {END: 0.9, A: 0.1} for n in range(50)}, words=7)
    longest = 9
    source = [[9] * n + [END] * source_end + [PAD] * (longest - n) for n in range(1, longest)]
    lengths = torch.arange(1, longest) + source_end
    settings = Search(beam=2, length_penalty=0.0, shortest_ratio=0.5)
    found = [len(best.words) for (best,) in beam_search(hasty, torch.tensor(source), lengths, settings)]
    assert found == [(n + 1) // 2 for n in range(1, longest)]


class CountWaits(TorchDispatchMode):
    """Count the operations that wait for the device."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        name = operation._schema.name.removeprefix("aten::")
        if name in WAITING:
            self.counts[name] += 1
        return operation(*arguments, **(keywords or {}))


@pytest.mark.parametrize("settings", [{}, {"no_repeat_ngram": 2}, {"coverage_penalty": 0.2}, {"sample": True}])
def test_a_step_of_a_search_waits_for_the_device_once(settings):
    model, batch = composed().double(), batch_of(SOURCES, SOURCES)
    with patch.object(model, "next", wraps=model.next) as steps, CountWaits() as waits:
        beam_search(model, batch.source, batch.source_lengths, Search(beam=3, shortest_ratio=1.0, **settings))
    assert waits.counts == {"nonzero": steps.call_count}
    assert steps.call_count > 4


def test_padding_and_start_symbols_are_never_in_a_hypothesis():
    model = Scripted({(): {PAD: 0.5, START: 0.3, A: 0.2}, (A,): {PAD: 0.9, END: 0.1}}, words=7)
    ((best,),) = run(model, beam=1)
    assert best.words.tolist() == [A]
    assert best.log_probability == pytest.approx(np.log(0.2 * 0.1))


def test_the_log_probability_of_a_hypothesis_is_that_of_its_words_given_the_source():
    model = composed().double()
    model.output.bias.data[END] = 1.0  # so that some hypotheses end
    batch, checked = batch_of(SOURCES, [[4]] * 3), 0
    for source, hypotheses in zip(
        SOURCES, beam_search(model, batch.source, batch.source_lengths, Search(beam=5, nbest=5)), strict=True
    ):
        for best in hypotheses:
            if len(best.alignment) > len(best.words):  # it ends with the end symbol
                forced = model.loss(batch_of([source], [best.words.tolist()])).negative_log_likelihood
                assert best.log_probability == pytest.approx(-float(forced), abs=1e-4)
                assert best.score == pytest.approx(best.log_probability / (len(best.words) + 1))
                checked += 1
    assert checked


def test_a_hypothesis_without_a_word_left_may_end_though_it_is_too_short():
    """Besides the special symbols there are <unk>, A, B and C, each allowed once; nine words are asked for."""
    ((best,),) = run(GARDEN_PATH, source=((9,) * 9,), beam=2, no_repeat_ngram=1, shortest_ratio=1.0)
    assert sorted(best.words.tolist()) == [1, A, B, C]
    assert len(best.word_scores) == 5  # with the end symbol


def test_a_prefix_that_is_longer_than_the_limit_is_kept_whole():
    endless = Scripted({(A,) * n: {A: 1.0} for n in range(50)}, words=7)
    settings = Search(beam=2, longest_ratio=0.0, longest_extra=2)
    prefixes = torch.tensor([[B, C, B, C, B]])
    ((best,),) = beam_search(endless, torch.tensor([[9]]), torch.tensor([1]), settings, prefixes=prefixes)
    assert best.words.tolist() == [B, C, B, C, B]


class Recurrent:
    """A model that depends on all words before: h = tanh(A h + E_word), p = softmax(U h), α = softmax(V h)."""

    def __init__(self, seed, words=8, size=6):
        random = torch.Generator().manual_seed(seed)
        self.words, self.size = words, size
        self.a, self.e, self.u, self.v = (
            torch.randn(shape, generator=random, dtype=torch.float64) * scale
            for shape, scale in (((size, size), 1.0), ((words, size), 1.0), ((size, words), 1.5), ((size, 9), 1.5))
        )

    def encode(self, source, lengths):
        return source, lengths

    def begin(self, encoded):
        source, lengths = encoded
        padding = torch.arange(source.shape[1]) >= lengths[:, None]
        return (padding,), source[:, :1].expand(-1, self.size).double() / 10

    def next(self, words, state, bound):
        state = torch.tanh(state @ self.a + self.e[words])
        padding = bound[0].repeat_interleave(len(words) // len(bound[0]), 0)
        energies = (state @ self.v)[:, : padding.shape[1]].masked_fill(padding, -torch.inf)
        return (state @ self.u), {"alignment": energies.softmax(1)}, state

    def by_prefix(self, row):
        """Return the function prefix → log-probabilities and attention, computed from the start each time."""

        @cache
        def next_step(prefix):
            bound, state = self.begin((torch.tensor([row]), torch.tensor([len(row)])))
            for word in (START, *prefix):
                logits, trace, state = self.next(torch.tensor([word]), state, bound)
            return logits[0].log_softmax(0).tolist(), trace["alignment"][0].tolist()

        return next_step


KINDS = {
    "none": {"length_penalty": 0.0},
    "words": {"length_penalty": 1.0},
    "half": {"length_penalty": 0.5, "shortest_ratio": 1.0},
    "gnmt": {"normalization": "gnmt", "length_penalty": 0.8},
    "gnmt and coverage": {"normalization": "gnmt", "length_penalty": 1.0, "coverage_penalty": 0.4},
    "coverage": {"length_penalty": 1.0, "coverage_penalty": 0.2, "shortest_ratio": 0.6},
    "no word twice": {"no_repeat_ngram": 1, "length_penalty": 1.0},
    "no two words twice": {"no_repeat_ngram": 2, "length_penalty": 1.0, "shortest_ratio": 2.0},
}


@pytest.mark.parametrize("forced", [False, True], ids=["free", "prefixes"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_literal_search_that_never_stops_early_finds_the_same_hypotheses(kind, forced):
    rows = [[11, 3, 4], [7], [5, 5, 5, 5, 9]]
    lengths = torch.tensor([len(row) for row in rows])
    source = torch.tensor([row + [PAD] * (5 - len(row)) for row in rows])
    prefixes = [[4, 6], [], [5, 1, 7]] if forced else [[], [], []]
    padded = torch.tensor([row + [PAD] * (3 - len(row)) for row in prefixes]) if forced else None
    for seed, (beam, nbest) in enumerate([(1, 1), (2, 1), (3, 3), (6, 2), (5, 5)] * 3):
        model = Recurrent(seed)
        settings = Search(beam=beam, nbest=nbest, longest_ratio=2.0, longest_extra=4, **KINDS[kind])
        searched = beam_search(model, source, lengths, settings, prefixes=padded)
        for row, prefix, hypotheses in zip(rows, prefixes, searched, strict=True):
            next_step = model.by_prefix(tuple(row))
            expected = literal_beam_search(
                next_step,
                beam=beam,
                end=END,
                never=(PAD, START),
                shortest=math.ceil(settings.shortest_ratio * len(row)),
                longest=2 * len(row) + 4,
                norm=lambda length, kind=settings.normalization, alpha=settings.length_penalty: (
                    (length if kind == "words" else (5 + length) / 6) ** alpha
                ),
                coverage_penalty=settings.coverage_penalty,
                ngram=settings.no_repeat_ngram,
                prefix=tuple(prefix),
            )[:nbest]
            assert [list(words) for words, _, _ in expected] == [with_end(best) for best in hypotheses]
            assert [best.score for best in hypotheses] == pytest.approx([score for _, score, _ in expected], abs=1e-5)
            logs = [log for _, _, log in expected]
            assert [best.log_probability for best in hypotheses] == pytest.approx(logs, abs=1e-5)
            for best, (words, _, _) in zip(hypotheses, expected, strict=True):
                each = [next_step(tuple(words[:at]))[0][word] for at, word in enumerate(words)]
                assert best.word_scores == pytest.approx(each, abs=1e-4)


def with_end(best):
    """Return the words, with the end symbol if the hypothesis ends with it."""
    return best.words.tolist() + [END] * (len(best.word_scores) - len(best.words))


def test_stopping_at_the_first_finished_beams_can_miss_the_best_hypothesis():
    early = Scripted({(): {END: 0.4, A: 0.35, B: 0.25}, (A,): {END: 0.6, C: 0.4}, (A, C): {END: 1.0}}, words=7)
    early.table |= {(B,): {B: 1.0}, (B, B): {B: 1.0}, (B, B, B): {END: 1.0}}
    ((first,),) = run(early, beam=2, stop="first", length_penalty=1.0)
    ((safe,),) = run(early, beam=2, length_penalty=1.0)
    assert first.words.tolist() == [A]
    assert safe.words.tolist() == [B, B, B]


def test_word_scores_are_the_log_probabilities_of_words():
    ((best,),) = run(GARDEN_PATH, beam=2)
    assert best.word_scores == pytest.approx([np.log(0.4), 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("longest", [1, 8])
def test_a_search_may_align_the_words_that_steps_read(longest):
    torch.manual_seed(4)
    model, batch = composed("decoder=luong", "encoder=lstm", "attention=dot").double(), batch_of(SOURCES, [[4]] * 3)
    predicted, read = (
        beam_search(model, batch.source, batch.source_lengths, Search(longest_extra=longest, aligned_word=word))
        for word in ("predicted", "read")
    )
    for (one,), (other,) in zip(predicted, read, strict=True):
        np.testing.assert_array_equal(one.words, other.words)
        np.testing.assert_array_equal(other.alignment[:-1], one.alignment[1:])
        np.testing.assert_array_equal(other.alignment[-1], one.alignment[-1])


def test_every_hypothesis_has_the_alignment_of_its_words():
    torch.manual_seed(4)
    model = composed("attention=coverage", "attention/window=local_p", "memory=buffer", "decoder=feedback").double()
    batch = batch_of(SOURCES, [[4]] * 3)
    settings = Search(beam=4, nbest=4, longest_extra=2)
    nbest = beam_search(model, batch.source, batch.source_lengths, settings)
    for source, hypotheses in zip(SOURCES, nbest, strict=True):
        for best in hypotheses:
            with torch.no_grad():
                forced = model.unroll(batch_of([source], [best.words.tolist()]), trace_names=("alignment",)).trace
            np.testing.assert_allclose(best.alignment, forced["alignment"][: len(best.alignment), 0], atol=1e-5)


FOUR = Scripted({(): {A: 0.5, B: 0.3, C: 0.15, END: 0.05}}, words=7)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {A: 0.5, B: 0.3, C: 0.15, END: 0.05}),
        ({"top_k": 2}, {A: 0.625, B: 0.375}),
        ({"top_k": 100}, {A: 0.5, B: 0.3, C: 0.15, END: 0.05}),
        ({"top_p": 0.8}, {A: 0.625, B: 0.375}),
        ({"top_p": 0.81}, {A: 0.5 / 0.95, B: 0.3 / 0.95, C: 0.15 / 0.95}),
        ({"top_p": 1e-6}, {A: 1.0}),
        ({"temperature": 0.5}, {A: 0.25 / 0.365, B: 0.09 / 0.365, C: 0.0225 / 0.365, END: 0.0025 / 0.365}),
        ({"temperature": 0.5, "top_k": 2}, {A: 0.25 / 0.34, B: 0.09 / 0.34}),
    ],
)
def test_samples_have_the_frequencies_of_their_probabilities(settings, expected):
    drawn = 20_000
    (samples,) = run(FOUR, nbest=drawn, sample=True, **settings)
    counts = Counter(with_end(one)[0] for one in samples)
    assert counts.keys() == expected.keys()
    for word, probability in expected.items():
        deviation = (drawn * probability * (1 - probability)) ** 0.5
        assert counts[word] == pytest.approx(drawn * probability, abs=4 * deviation)
    assert {with_end(one)[0]: round(float(np.exp(one.log_probability)), 6) for one in samples} == {
        word: {A: 0.5, B: 0.3, C: 0.15, END: 0.05}[word] for word in expected
    }


@pytest.mark.parametrize("beam", [1, 5])
def test_a_sample_is_one_draw_and_not_the_most_probable_of_several(beam):
    sentences = 4000
    counts = Counter(with_end(one)[0] for (one,) in run(FOUR, source=((9,),) * sentences, beam=beam, sample=True))
    for word, probability in {A: 0.5, B: 0.3, C: 0.15, END: 0.05}.items():
        deviation = (sentences * probability * (1 - probability)) ** 0.5
        assert counts[word] == pytest.approx(sentences * probability, abs=4 * deviation)


def test_equal_seeds_draw_equal_samples():
    model = Recurrent(3)
    settings = {"nbest": 6, "sample": True, "temperature": 9.0}
    (one,), (two,), (other,) = (run(model, **settings, seed=seed) for seed in (1, 1, 2))
    assert [with_end(best) for best in one] == [with_end(best) for best in two]
    assert [with_end(best) for best in one] != [with_end(best) for best in other]


def test_forced_decoding_gives_the_log_probabilities_of_the_loss():
    model = composed("attention=coverage", "initialization=uniform").double()
    targets = random_rows([2, 5, 1], 23, seed=3)
    batch = batch_of(SOURCES, targets)
    forced = force_decode(model, batch)
    assert -forced.word_scores.sum().item() == pytest.approx(model.loss(batch).negative_log_likelihood.item(), rel=1e-6)
    for number, (source, target) in enumerate(zip(SOURCES, targets, strict=True)):
        alone = model.loss(batch_of([source], [target])).negative_log_likelihood.item()
        assert -forced.word_scores[:, number].sum().item() == pytest.approx(alone, rel=1e-5)
        sums = forced.alignment[:, number].sum(1)
        torch.testing.assert_close(sums[: len(target) + 1], torch.ones(len(target) + 1))
        assert (sums[len(target) + 1 :] == 0).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 0}, "beam=0: must be at least 1"),
        ({"nbest": 3, "beam": 2}, "nbest=3: must be between 1 and beam=2"),
        ({"nbest": 0}, "nbest=0: must be at least 1"),
        ({"length_penalty": -0.1}, "length_penalty=-0.1: must be at least 0"),
        ({"normalization": "word"}, "normalization=word: no such choice. Fix: normalization=words or normali"),
        ({"stop": "never"}, "stop=never: no such choice. Fix: stop=safe or stop=first"),
        ({"temperature": 0.0}, "temperature=0.0: must be at least 0.001"),
        ({"temperature": None}, "temperature=None: must be at least 0.001"),
        ({"top_p": None}, "top_p=None: must be above 0 and at most 1"),
        ({"temperature": 1e-40}, "temperature=1e-40: must be at least 0.001"),
        ({"beam": 100_000}, "beam=100000: must be at most 1000"),
        ({"nbest": 10**9, "sample": True}, "nbest=1000000000: must be at most 100000"),
        ({"longest_ratio": 1e12}, r"longest_ratio=1.*: must be at most 100"),
        ({"length_penalty": 1e308}, r"length_penalty=1e\+308: must be at most 10"),
        ({"coverage_penalty": 1e308}, r"coverage_penalty=1e\+308: must be at most 1000"),
        ({"longest_extra": 10**20}, "longest_extra=1.*: must be at most 10000"),
        ({"temperature": 1e308}, r"temperature=1e\+308: must be at most 1000"),
        ({"seed": -(10**20)}, "seed=-1.*: must be at least 0"),
        ({"seed": 10**20}, "seed=1.*: must be at most"),
        ({"top_p": 1.5}, "top_p=1.5: must be above 0 and at most 1"),
        ({"longest_ratio": 0.0, "longest_extra": 0}, "no translation could have a word"),
    ],
)
def test_impossible_settings_are_refused(wrong, message):
    with pytest.raises(ConfigurationError, match=message):
        Search(**wrong)
