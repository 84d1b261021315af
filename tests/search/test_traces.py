"""Traces of given translations: their layout, and the numbers that vectors become."""

import numpy as np
import pytest
import torch
from compositions import choices, composed
from random_batches import batch_of, random_rows

from nmt.data.vocabulary import START
from nmt.model.attention.history import Temporal
from nmt.search.beam import beam_search
from nmt.search.ensemble import Ensemble, Member
from nmt.search.forced_decoding import add_traces, trace_translations
from nmt.search.settings import Search

SOURCES = random_rows([3, 1, 4], 19, seed=1)
TARGETS = random_rows([2, 5, 1], 23, seed=2)
LENGTHS = torch.tensor([2, 1])


class Showing:
    """A model that shows its last word w in every shape of a trace."""

    def encode(self, source, lengths):
        return source

    def begin(self, source):
        return source, ()

    def step(self, words, state, bound):
        w = words.double()
        at_source = w[:, None] * torch.tensor([1.0, 10.0, 100.0])[: bound.shape[1]]
        trace = {
            "alignment": at_source,
            "centre": w,
            "number": at_source,
            "single": at_source[:, :, None],
            "vector": torch.stack([at_source, -at_source], 2),
            "gate": w[:, None],
            "cells": torch.stack([w, 2 * w], 1)[:, None],
            "contents": torch.stack([torch.stack([0 * w, w], 1), torch.stack([w, w], 1)], 1)[:, None],
        }
        return None, trace, state


def test_dimensions_say_what_numbers_belong_to_and_vectors_become_their_change():
    first, second = trace_translations(Showing(), torch.ones(2, 2).long(), LENGTHS, [np.array([4, 7]), np.array([5])])
    w = np.array([START, 4.0, 7.0])
    change = w - START
    assert sorted(first) == ["cells", "centre", "contents", "gate", "number", "single", "vector"]
    np.testing.assert_array_equal(first["centre"], w)
    np.testing.assert_array_equal(first["number"], np.outer(w, [1, 10]))
    np.testing.assert_array_equal(first["single"], np.outer(w, [1, 10]))
    np.testing.assert_allclose(first["vector"], np.outer(change, [1, 10]))  # sqrt((d² + d²) / 2) = d
    np.testing.assert_array_equal(first["gate"], w[:, None, None])
    np.testing.assert_array_equal(first["cells"], np.outer(w, [1, 2])[:, None])
    np.testing.assert_allclose(first["contents"], np.outer(change, [np.sqrt(0.5), 1])[:, None])
    assert [second[name].shape for name in ("centre", "vector", "gate", "cells")] == [
        (2,),
        (2, 1),
        (2, 1, 1),
        (2, 1, 2),
    ]


@pytest.mark.parametrize("coverage", ["fertility", "gru"])
def test_traces_are_those_of_the_model_for_each_sentence_alone(coverage):
    model = composed(
        "attention=coverage", f"attention/coverage={coverage}", "attention/window=local_p", "decoder=feedback",
        "memory=buffer",
    ).double()  # fmt: skip
    batch = batch_of(SOURCES, [[4]] * 3)
    traces = trace_translations(model, batch.source, batch.source_lengths, [np.array(words) for words in TARGETS])
    for source, target, trace in zip(SOURCES, TARGETS, traces, strict=True):
        with torch.no_grad():
            expected = {
                name: values[:, 0].float()
                for name, values in model.unroll(batch_of([source], [target]), trace_names=None).trace.items()
            }
        expected["memory_cells"] = (expected["memory_cells"] - expected["memory_cells"][0]).square().mean(3).sqrt()
        steps, positions, coverage_vectors = len(target) + 1, len(source) + 1, expected.pop("coverage")
        assert trace.keys() | {"alignment"} == expected.keys() | {"coverage"}
        change = (coverage_vectors - coverage_vectors[0]).square().mean(2).sqrt()
        values = coverage_vectors[:, :, 0] if coverage == "fertility" else change
        np.testing.assert_allclose(trace["coverage"], values, atol=1e-6)
        assert trace["coverage"].shape == (steps, positions)
        assert trace["memory_gate"].shape == (steps, 1, 1)
        for name in trace.keys() - {"coverage"}:
            np.testing.assert_allclose(trace[name].ravel(), expected[name].ravel(), atol=1e-6, err_msg=name)


def test_rows_of_traces_belong_to_the_same_words_as_those_of_the_alignment():
    model, batch = composed("attention=coverage_linguistic"), batch_of(SOURCES, [[4]] * 3)
    inputs = batch.source, batch.source_lengths
    for aligned_word in ("predicted", "read"):
        nbest = beam_search(model, *inputs, Search(beam=2, longest_extra=2, aligned_word=aligned_word))
        for one in add_traces(model, *inputs, [hypotheses[0] for hypotheses in nbest], aligned_word):
            before, last = one.trace["coverage"][:-1], len(one.alignment) - (2 if aligned_word == "read" else 1)
            received = one.trace["coverage"][1 : last + 1] - before[:last]
            np.testing.assert_allclose(received, one.alignment[1 : last + 1], atol=1e-6)


def test_temporal_attention_shows_the_share_of_each_position_in_the_past_attention():
    history, state = Temporal(), ()
    padded = [-torch.inf]
    for odds, sums in (([1.0, 3.0], [1.0, 3.0]), ([5.0, 1.0], [6.0, 4.0])):  # Σ_{k≤i} exp(e_kj)
        energies = torch.tensor([torch.tensor(odds).log().tolist() + padded])
        _, state, trace = history(energies, state)
        expected = torch.tensor([[*sums, 0.0]]) / sum(sums)
        torch.testing.assert_close(trace["past_attention"], expected)


def test_interactive_attention_shows_how_much_of_each_annotation_was_rewritten():
    model, batch = composed("attention=interactive"), batch_of(SOURCES, [[4]] * 3)
    (trace,) = trace_translations(model, batch.source[:1], batch.source_lengths[:1], [np.array([5, 6])])
    with torch.no_grad():
        bound, state = model.begin(model.encode(batch.source[:1], batch.source_lengths[:1]))
        annotations = []
        for word in (START, 5, 6):
            annotations.append(state.attention.source.annotations[0, : len(SOURCES[0]) + 1])
            _, _, state = model.step(torch.tensor([word]), state, bound)
    changes = [(now - annotations[0]).square().mean(1).sqrt() for now in annotations]
    np.testing.assert_allclose(trace["annotations"], torch.stack(changes), atol=1e-6)
    assert (trace["annotations"][0] == 0).all()
    assert (trace["annotations"][1:] > 0).all()


def test_members_of_an_ensemble_show_their_values_under_their_numbers():
    models = [composed(choice).double() for choice in ("attention=temporal", "attention=dot", "attention=interactive")]
    ensemble = Ensemble([Member(model, True) for model in models], weights=[1, 0, 2], average="probabilities")
    batch, words = batch_of(SOURCES, [[4]] * 3), [np.array(words) for words in TARGETS]
    inputs = batch.source, batch.source_lengths, words
    alone = [trace_translations(model, *inputs) for model in models]
    for together, first, third in zip(trace_translations(ensemble, *inputs), alone[0], alone[2], strict=True):
        assert set(together) == {"past_attention_1", "annotations_3"}
        np.testing.assert_allclose(together["past_attention_1"], first["past_attention"])
        np.testing.assert_allclose(together["annotations_3"], third["annotations"])


@pytest.mark.parametrize("choice", [*choices("attention"), "additive memory=buffer"])
def test_every_mechanism_shows_values_of_a_documented_layout(choice):
    batch = batch_of(SOURCES, [[4]] * 3)
    words = [np.array(words) for words in TARGETS]
    for row, trace in enumerate(
        trace_translations(composed(*f"attention={choice}".split()), batch.source, batch.source_lengths, words)
    ):
        steps, positions = len(TARGETS[row]) + 1, len(SOURCES[row]) + 1
        for name, values in trace.items():
            assert values.shape in {(steps,), (steps, positions), (steps, 1, values.shape[-1])}, name
            assert np.isfinite(values).all(), name
