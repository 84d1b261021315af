"""8-bit integer products: how close they are, and searches with them."""

import pytest
import torch
from compositions import choices, composed
from random_batches import batch_of, random_rows

from nmt.search.beam import beam_search
from nmt.search.forced_decoding import force_decode
from nmt.search.settings import Search
from nmt.translate.int8 import Int8Linear, quantize_decoder

SOURCES, TARGETS = random_rows([5, 2, 9], 19, seed=1), random_rows([3, 6, 1], 23, seed=2)


def test_an_8_bit_product_is_close_to_the_exact_one():
    torch.manual_seed(0)
    weight, bias, vectors = torch.randn(40, 30), torch.randn(40), torch.randn(2, 7, 30)
    exact = torch.nn.functional.linear(vectors, weight, bias)
    rounded = Int8Linear(weight, bias)(vectors)
    # rounding to 1/127 of the largest weight of a row, and at least to 1/127 of the range of activations
    assert 0 < (rounded - exact).abs().max() < 0.02 * exact.abs().max()
    torch.testing.assert_close(Int8Linear(weight, None)(vectors) + bias, rounded)


def test_sums_of_the_largest_products_do_not_overflow():
    product = Int8Linear(torch.ones(40, 64), None)(torch.ones(2, 64))
    torch.testing.assert_close(product, torch.full((2, 40), 64.0), rtol=1e-4, atol=0.0)


class UsesAttributes(torch.nn.Module):
    """A score that reads the attributes of its linear layers."""

    def __init__(self, query):
        super().__init__()
        self.query = query

    def forward(self, vectors):
        return self.query(vectors) / self.query.out_features**0.5 + self.query.weight.sum(1) * 0 + self.query.bias


def test_a_module_may_read_the_attributes_of_its_quantized_layers():
    model = composed()
    layer = torch.nn.Linear(32, 24)
    model.decoder.attention.score.query = UsesAttributes(layer)
    vectors = torch.randn(3, 32)
    exact = model.decoder.attention.score.query(vectors)
    quantize_decoder(model)
    assert type(model.decoder.attention.score.query.query) is Int8Linear
    torch.testing.assert_close(model.decoder.attention.score.query(vectors), exact, rtol=0.02, atol=0.02)


DECODERS = [f"decoder={choice}" for choice in choices("decoder")]
ATTENTIONS = [f"decoder=feedback memory=buffer attention={choice}" for choice in choices("attention")]
PARTS = [f"{group}={choice}" for group in ("decoder/cell", "decoder/context_gate") for choice in choices(group)]


@pytest.mark.parametrize("overrides", DECODERS + ATTENTIONS + PARTS)
def test_with_every_mechanism_forced_words_score_almost_the_same(overrides):
    model = composed(*overrides.split())
    batch = batch_of(SOURCES, TARGETS)
    exact = force_decode(model, batch).word_scores
    rounded = force_decode(quantize_decoder(model), batch).word_scores
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.02)
    nbest = beam_search(model, batch.source, batch.source_lengths, Search(beam=3))
    for source, (best,) in zip(SOURCES, nbest, strict=True):
        assert best.alignment.shape[1] == len(source) + 1
