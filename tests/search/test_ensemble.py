"""Ensembles: the probabilities of the mixture, by hand, and searches over it."""

import numpy as np
import pytest
import torch
from compositions import composed
from random_batches import batch_of, random_rows
from stand_in_recorder import run_again

from nmt.errors import ConfigurationError
from nmt.model.kernels.graphed_step import GraphedModel
from nmt.search.beam import beam_search
from nmt.search.ensemble import Ensemble, Member
from nmt.search.forced_decoding import force_decode
from nmt.search.settings import Search

SOURCES = random_rows([4, 1, 6], 19, seed=1)
TARGETS = random_rows([3, 5, 1], 23, seed=2)
BATCH = batch_of(SOURCES, TARGETS)
SETTINGS = Search(beam=4, nbest=2, longest_ratio=0.0, longest_extra=8)

EIGHT = [
    "decoder=luong encoder=lstm encoder.reverse=true data.source_end=false attention=local_p",
    "decoder=luong encoder=bilstm attention=general decoder.input_feeding=false",
    "decoder=conditional attention=interactive_coverage",
    "decoder=conditional attention=temporal size.hidden=20",
    "decoder=feedback memory=buffer",
    "decoder=bahdanau attention=coverage_fertility size.embedding=10",
    "decoder=bahdanau attention=coverage_embedding memory=buffer",
    "decoder=conditional attention=none",
]


def member(overrides="", seed=1):
    torch.manual_seed(seed)
    model = composed(*overrides.split(), "initialization=uniform").double()
    for parameter in model.parameters():
        parameter.data *= 5
    return Member(model, source_end="source_end=false" not in overrides)


def forced(member):
    """Return log p of each target word (target, sentences, vocabulary), by teacher forcing of one model."""
    batch = batch_of(SOURCES, TARGETS, source_end=member.source_end)
    with torch.no_grad():
        unrolled = member.model.unroll(batch)
        features = unrolled.features
        readout = member.model.decoder.readout(features.state, unrolled.words, features.context)
        return member.model.output(readout).log_softmax(2)


def search_all(model):
    return beam_search(model, BATCH.source, BATCH.source_lengths, SETTINGS)


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_an_ensemble_translates_the_same_by_graphs(average):
    ensemble = Ensemble([member(EIGHT[0]), member(EIGHT[4])], weights=[1, 3], average=average)
    graphed = GraphedModel(ensemble, run_again)
    for _ in range(2):
        for plain, replayed in zip(search_all(ensemble), search_all(graphed), strict=True):
            for one, other in zip(plain, replayed, strict=True):
                assert other.words.tolist() == one.words.tolist()
                assert other.score == pytest.approx(one.score)
    assert any(graphed.graphs.values())


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_an_ensemble_of_one_model_three_times_translates_like_the_model(average):
    one = member()
    alone, together = search_all(one.model), search_all(Ensemble([one, one, one], average=average))
    for single, several in zip(alone, together, strict=True):
        for ours, theirs in zip(several, single, strict=True):
            assert ours.words.tolist() == theirs.words.tolist()
            assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-4)
            np.testing.assert_allclose(ours.alignment, theirs.alignment, atol=1e-5)


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_forced_words_have_the_averaged_probability(average):
    members = [member(EIGHT[0]), member(EIGHT[4], seed=2)]
    logs = torch.stack([forced(one) for one in members])
    weights = torch.tensor([0.25, 0.75], dtype=torch.float64)
    if average == "probabilities":
        mixed = torch.tensordot(weights, logs.exp(), dims=1).log()
    else:
        mixed = torch.tensordot(weights, logs, dims=1).log_softmax(2)
    expected = -mixed.flatten(0, 1)[BATCH.target_index].gather(1, BATCH.target_words[:, None]).sum()
    loss = Ensemble(members, weights=[1, 3], average=average).loss(BATCH).negative_log_likelihood
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_alignments_are_averaged_by_the_weights_of_the_members():
    members = [member(), member("decoder=feedback", seed=2)]
    first, second = (force_decode(one.model, BATCH).alignment for one in members)
    assert not torch.allclose(first, second, atol=0.01)
    together = force_decode(Ensemble(members, weights=[1, 3], average="probabilities"), BATCH).alignment
    torch.testing.assert_close(together, 0.25 * first + 0.75 * second)


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_a_member_with_weight_0_cannot_forbid_a_word(average):
    first, second = member(), member(seed=2)
    second.model.next = lambda *given: (torch.full((len(given[0]), 23), -torch.inf), {"alignment": 0.0}, given[1])
    ensemble = Ensemble([first, second], weights=[1, 0], average=average)
    assert [best.words.tolist() for best, *_ in search_all(ensemble)] == [
        best.words.tolist() for best, *_ in search_all(first.model)
    ]


def test_members_with_weight_0_do_not_decide_if_the_source_has_an_end_symbol():
    ensemble = Ensemble([member(), member(EIGHT[0])], weights=[0, 1], average="probabilities")
    restricted = ensemble.restrict_vocabulary(torch.arange(23), torch.ones(3, 23, dtype=torch.bool))
    assert (ensemble.source_end, restricted.source_end) == (False, False)


@pytest.mark.slow
def test_in_an_ensemble_of_all_kinds_a_sentence_does_not_depend_on_its_batch():
    ensemble = Ensemble([member(kind, seed) for seed, kind in enumerate(EIGHT)], average="probabilities")
    assert ensemble.source_end
    together = search_all(ensemble)
    for source, hypotheses in zip(SOURCES, together, strict=True):
        batch = batch_of([source], [[4]])
        (alone,) = beam_search(ensemble, batch.source, batch.source_lengths, SETTINGS)
        assert [best.words.tolist() for best in alone] == [best.words.tolist() for best in hypotheses]
        assert hypotheses[0].alignment.shape[1] == len(source) + 1
        assert (hypotheses[0].alignment.sum(1) <= 1 + 1e-5).all()


def test_invalid_weights_and_averages_are_refused():
    one = member()
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0]):
        with pytest.raises(ConfigurationError, match="must be one number for each of the 2 runs, none below 0"):
            Ensemble([one, one], weights=weights, average="logs")
    with pytest.raises(ConfigurationError, match=r"average=geometric: no such average\. Fix: average=probabilities or"):
        Ensemble([one], average="geometric")
