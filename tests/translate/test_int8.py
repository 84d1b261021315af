"""Products of 8-bit integers: how near they come, and that everything is still found."""

import pytest
import torch
from compositions import choices, composed
from random_batches import batch_of, random_rows

from nmt.search.beam import search
from nmt.search.forced_decoding import force
from nmt.search.settings import Search
from nmt.translate.int8 import Int8Linear, in_int8

SOURCES, TARGETS = random_rows([5, 2, 9], 19, seed=1), random_rows([3, 6, 1], 23, seed=2)


def test_a_product_is_near_the_exact_one():
    torch.manual_seed(0)
    weight, bias, vectors = torch.randn(40, 30), torch.randn(40), torch.randn(2, 7, 30)
    exact = torch.nn.functional.linear(vectors, weight, bias)
    near = Int8Linear(weight, bias)(vectors)
    # rounding to 1/127 of the largest weight of a row, and 1/127 of the range of activations
    assert 0 < (near - exact).abs().max() < 0.02 * exact.abs().max()
    torch.testing.assert_close(Int8Linear(weight, None)(vectors) + bias, near)


@pytest.mark.parametrize("attention", choices("attention"))
def test_every_attention_scores_given_words_nearly_the_same(attention):
    model = composed("decoder=feedback", "memory=buffer", f"attention={attention}")
    batch = batch_of(SOURCES, TARGETS)
    exact = force(model, batch).word_scores
    near = force(in_int8(model), batch).word_scores
    assert not torch.equal(near, exact)
    torch.testing.assert_close(near, exact, rtol=0.02, atol=0.02)
    for source, (best,) in zip(SOURCES, search(model, batch.source, batch.source_lengths, Search(beam=3)), strict=True):
        assert best.alignment.shape[1] == len(source) + 1
