"""The chunked loss against PyTorch's own, in value and gradient."""

import pytest
import torch
from torch.nn import functional

from nmt.model import output
from nmt.model.output import Output


def layer(bias: bool = True) -> Output:
    made = Output(input_size=6, vocabulary_size=11, bias=bias).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [11, 33, 10_000])
def test_loss_and_gradients_are_those_of_cross_entropy(monkeypatch, bias, smoothing, chunk):
    monkeypatch.setattr(output, "CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(output, "CHUNK_ROWS", 1)
    made, vectors = layer(bias), torch.randn(8, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (8,))
    loss = made.loss(vectors, targets, smoothing)
    logits = made(vectors)
    expected = functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(loss.objective, expected)
    torch.testing.assert_close(loss.likelihood, functional.cross_entropy(logits, targets, reduction="sum"))
    inputs = [vectors, *made.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(3 * loss.objective, inputs), torch.autograd.grad(3 * expected, inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_the_likelihood_alone_has_no_gradient():
    assert not layer().loss(torch.randn(2, 6).double(), torch.tensor([1, 2])).likelihood.requires_grad


def test_no_words_cost_nothing_but_leave_a_gradient():
    made = layer()
    loss = made.loss(torch.zeros(0, 6).double().requires_grad_(), torch.zeros(0, dtype=torch.long)).objective
    loss.backward()
    assert loss == 0
    assert (made.weight.grad == 0).all()


def test_the_gradient_stays_right_where_the_vocabulary_is_tied_to_the_embedding():
    made, embedding = layer(), torch.nn.Embedding(11, 6).double()
    made.weight = embedding.weight
    targets = torch.tensor([3, 4, 5])
    ours = torch.autograd.grad(made.loss(embedding(targets), targets).objective, embedding.weight)
    theirs = torch.autograd.grad(
        functional.cross_entropy(made(embedding(targets)), targets, reduction="sum"), embedding.weight
    )
    torch.testing.assert_close(ours, theirs)
