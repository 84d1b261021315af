"""What beam search finds, against enumeration and by hand."""

import numpy as np
import pytest
import torch
from compositions import composed
from random_batches import batch_of, random_rows
from reference.search import exhaustive

from nmt.data.vocabulary import END, PAD, START
from nmt.errors import ConfigurationError
from nmt.search.beam import Search, search

SOURCES = random_rows([3, 1, 4], 19, seed=1)


class Scripted:
    """A stand-in for a model: next-word probabilities looked up by the words so far; its state is the prefix."""

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


def run(model, source=((9,),), **how):
    lengths = torch.tensor([len(row) for row in source])
    return search(model, torch.tensor(source), lengths, Search(**how))


def test_a_beam_leaves_a_garden_path_that_greedy_walks_into():
    ((greedy,),) = run(GARDEN_PATH, beam=1)
    ((best,),) = run(GARDEN_PATH, beam=2)
    assert greedy.words.tolist() == [A, A]
    assert greedy.log_probability == pytest.approx(np.log(0.36))
    assert best.words.tolist() == [B, C]
    assert best.log_probability == pytest.approx(np.log(0.4))


def test_the_n_best_come_best_first():
    (found,) = run(GARDEN_PATH, beam=3, nbest=3, length_penalty=0.0)
    assert [best.words.tolist() for best in found] == [[B, C], [A, A], [A, B]]
    assert [best.score for best in found] == pytest.approx([np.log(0.4), np.log(0.36), np.log(0.24)])


def test_length_normalisation_divides_by_the_words_the_end_included():
    model = Scripted({(): {END: 0.5, A: 0.5}, (A,): {A: 0.9, END: 0.1}, (A, A): {END: 1.0}}, words=7)
    ((plain,),) = run(model, beam=4, length_penalty=0.0)
    ((normalised,),) = run(model, beam=4, length_penalty=1.0)
    assert plain.words.tolist() == []
    assert normalised.words.tolist() == [A, A]
    assert normalised.score == pytest.approx(np.log(0.45) / 3)


def test_the_longest_length_depends_on_the_sentence_and_not_on_its_batch():
    endless = Scripted({(A,) * n: {A: 1.0} for n in range(50)}, words=7)
    found = run(endless, source=((9, 9, 9, 9), (9, 0, 0, 0)), beam=1, longest_ratio=2.0, longest_extra=1)
    assert [len(best.words) for (best,) in found] == [9, 9]
    lengths = torch.tensor([4, 1])
    found = search(endless, torch.tensor([[9] * 4, [9, 0, 0, 0]]), lengths, Search(beam=1, longest_extra=1))
    assert [len(best.words) for (best,) in found] == [9, 3]
    assert [best.alignment.shape for (best,) in found] == [(9, 4), (3, 1)]


def test_padding_and_start_symbols_are_never_said():
    model = Scripted({(): {PAD: 0.5, START: 0.3, A: 0.2}, (A,): {PAD: 0.9, END: 0.1}}, words=7)
    ((best,),) = run(model, beam=1)
    assert best.words.tolist() == [A]
    assert best.log_probability == pytest.approx(np.log(0.2 * 0.1))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_as_wide_as_the_space_finds_what_enumeration_finds(alpha):
    torch.manual_seed(11)
    model = composed("initialization=uniform", target_words=7).double()
    for parameter in model.parameters():
        parameter.data *= 6  # sharp enough for the best to differ from the greedy one
    how = Search(beam=5**4, length_penalty=alpha, longest_ratio=0.0, longest_extra=4)
    batch = batch_of(SOURCES, [[4]] * 3)
    found = search(model, batch.source, batch.source_lengths, how)
    for source, (best, *_) in zip(SOURCES, found, strict=True):
        words, score = exhaustive(next_of(model, source), end=END, max_length=4, alpha=alpha)
        assert best.words.tolist() == [word for word in words if word != END]
        assert best.score == pytest.approx(float(score), abs=1e-5)


def next_of(model, source):
    """log p(next word | prefix) by teacher forcing; the two symbols no translation contains are out."""

    def next_log_probabilities(prefix):
        batch = batch_of([source], [list(prefix) or [4]])
        with torch.no_grad():
            unrolled = model.unroll(batch)
            features = unrolled.features
            logits = model.output(model.decoder.readout(features.state, unrolled.words, features.context))
        return logits[len(prefix), 0].log_softmax(0).index_fill(0, torch.tensor([PAD, START]), -torch.inf)

    return next_log_probabilities


def test_a_score_is_the_sum_of_the_words_log_probabilities():
    model = composed().double()
    batch = batch_of(SOURCES, [[4]] * 3)
    for source, hypotheses in zip(
        SOURCES, search(model, batch.source, batch.source_lengths, Search(beam=5, nbest=5)), strict=True
    ):
        for best in hypotheses:
            if len(best.alignment) > len(best.words):  # ended of its own accord
                forced = model.loss(batch_of([source], [best.words.tolist()])).likelihood
                assert best.log_probability == pytest.approx(-float(forced), abs=1e-4)
                assert best.score == pytest.approx(best.log_probability / (len(best.words) + 1))


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"nbest": 3, "beam": 2}, {"nbest": 0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ConfigurationError, match="must be"):
        Search(**wrong)
