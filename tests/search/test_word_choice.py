"""The choice of words in a search: the fast ways equal the plain formulas."""

import pytest
import torch

from nmt.model.kernels import word_choice
from nmt.model.kernels.word_choice import best_continuations, log_softmax_in_place


@pytest.mark.parametrize("chunk", [1, 24, 10_000])
def test_log_softmax_in_place_equals_that_of_torch(monkeypatch, chunk):
    monkeypatch.setattr(word_choice, "CHUNK_ELEMENTS", chunk)
    logits = (5 * torch.randn(7, 16))[:, :11]  # rows with padding between them, as those of the output layer
    logits[2, 3:] = -torch.inf
    expected = logits.log_softmax(1)
    assert log_softmax_in_place(logits) is logits
    assert torch.equal(logits, expected)


@pytest.mark.parametrize("vocabulary", [3, 255, 256, 383, 1000])
@pytest.mark.parametrize(("beams", "count"), [(1, 2), (1, 200), (3, 6), (5, 10)])
@pytest.mark.parametrize("missing", [0.0, 0.5, 0.99])
def test_the_best_continuations_are_the_largest_of_all_sums(vocabulary, beams, count, missing):
    logs, totals = torch.randn(4, beams, vocabulary + 5)[:, :, :vocabulary], torch.randn(4, beams)
    logs[torch.rand(logs.shape) < missing] = -torch.inf
    totals[0, 0] = -torch.inf
    sums, words, parents = best_continuations(logs, totals, count)
    expected = (totals[:, :, None] + logs).flatten(1).topk(min(count, beams * vocabulary), dim=1).values
    assert torch.equal(sums, expected)
    sentences = torch.arange(4)[:, None]
    assert torch.equal(totals[sentences, parents] + logs[sentences, parents, words], sums)
    for numbers in (parents * vocabulary + words).tolist():
        assert len(set(numbers)) == len(numbers)
