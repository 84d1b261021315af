"""The chunked loss against PyTorch's own, in value and gradient."""

import pytest
import torch
from torch.nn import functional

from nmt.model import output
from nmt.model.output import Output


def layer(bias: bool = True, vocabulary: int = 11, inputs: int = 6) -> Output:
    made = Output(input_size=inputs, vocabulary_size=vocabulary, bias=bias).double()
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


@pytest.mark.parametrize(
    ("vocabulary", "rows"),
    [(1_000, 4194), (8_000, 524), (30_000, 512), (100_000, 512), (300_000, 223), (2**27, 1)],
)
def test_a_chunk_is_neither_too_few_words_nor_too_much_memory(vocabulary, rows):
    assert output.chunk_rows(vocabulary) == rows


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_in_bfloat16_loss_and_gradients_are_near_those_of_float32(monkeypatch, bias, smoothing):
    """Of weights and vectors that bfloat16 holds exactly."""
    monkeypatch.setattr(output, "CHUNK_ELEMENTS", 33)
    monkeypatch.setattr(output, "CHUNK_ROWS", 1)
    made = layer(bias).float()
    made.weight.data = torch.randint(-8, 9, (11, 6)) / 8
    vectors, targets = (torch.randint(-8, 9, (8, 6)) / 8).requires_grad_(), torch.randint(11, (8,))
    results = []
    for lesser in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=lesser):
            loss = made.loss(vectors, targets, smoothing)
        results.append([*loss, *torch.autograd.grad(loss.objective, [vectors, *made.parameters()])])
    for lesser, full in zip(*results, strict=True):
        torch.testing.assert_close(lesser, full, atol=0.05, rtol=0.02)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("vocabulary", [11, 32, 33])
@pytest.mark.parametrize("lesser", [False, True])
def test_scores_of_search_are_those_of_training(vocabulary, bias, lesser):
    made = layer(bias, vocabulary).float()
    vectors = torch.randn(5, 6)
    with torch.autocast("cpu", torch.bfloat16, enabled=lesser):
        expected = made(vectors)
        with torch.inference_mode():
            found = made(vectors)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected.float(), atol=0.05 if lesser else 1e-6, rtol=0.02 if lesser else 1e-6)


def test_what_memory_held_before_is_in_no_gradient(monkeypatch):
    """Between the rows of the scores, too, which some processors' products read."""
    empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *size, **kind: empty(*size, **kind).fill_(torch.nan))
    made, vectors = layer(inputs=16).float(), torch.randn(40, 16, requires_grad=True)
    for precision in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            loss = made.loss(vectors, torch.randint(11, (40,)), 0.1)
        for gradient in torch.autograd.grad(loss.objective, [vectors, *made.parameters()]):
            assert gradient.isfinite().all()
    (room, wide) = output._rooms(3, made.weight.bfloat16())
    for one in (room, wide):
        assert one.isnan().all()
        assert one.as_strided((3, one.stride(0) - 11), one.stride(), 11).eq(0).all()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_need_no_gradient_is_made(monkeypatch, mode):
    monkeypatch.setattr(output, "_softmax_gradient", None)  # calling it would fail
    made, vectors, targets = layer(), torch.randn(8, 6).double(), torch.randint(11, (8,))
    with mode():
        loss = made.loss(vectors, targets).objective
    torch.testing.assert_close(loss, functional.cross_entropy(made(vectors), targets, reduction="sum").detach())
    with pytest.raises(TypeError):
        made.loss(vectors, targets)


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
