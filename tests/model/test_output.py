"""The output layer: its chunked loss equals the cross-entropy of PyTorch, in value and gradient."""

import pytest
import torch
from compositions import composed
from random_batches import batch_of
from torch.nn import functional

from nmt.model.kernels import chunked_loss
from nmt.model.kernels.aligned_logits import logit_buffers
from nmt.model.output import Output


def output_layer(bias: bool = True, vocabulary: int = 11, inputs: int = 6) -> Output:
    output = Output(input_size=inputs, vocabulary_size=vocabulary, bias=bias).double()
    for parameter in output.parameters():
        torch.nn.init.normal_(parameter)
    return output


def test_the_smoothing_of_a_model_is_in_its_objective_and_not_in_its_likelihood():
    model, batch = composed().double(), batch_of([[4, 5]], [[6, 7, 8]])
    outputs = model.unroll(batch)
    logits = model.output(model.decoder.readout(outputs.features.state, outputs.words, outputs.features.context))
    logits = logits.flatten(0, 1)[batch.target_index]
    plain, smoothed = (
        functional.cross_entropy(logits, batch.target_words, reduction="sum", label_smoothing=part)
        for part in (0.0, 0.2)
    )
    loss = model.loss(batch, 0.2)
    torch.testing.assert_close(loss.objective, smoothed)
    torch.testing.assert_close(loss.negative_log_likelihood, plain.detach())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [11, 33, 10_000])
def test_loss_and_gradients_equal_cross_entropy(monkeypatch, bias, smoothing, chunk):
    monkeypatch.setattr(chunked_loss, "CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(chunked_loss, "CHUNK_ROWS", 1)
    output, vectors = output_layer(bias), torch.randn(8, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (8,))
    loss = output.loss(vectors, targets, smoothing)
    logits = output(vectors)
    expected = functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(loss.objective, expected)
    torch.testing.assert_close(loss.negative_log_likelihood, functional.cross_entropy(logits, targets, reduction="sum"))
    inputs = [vectors, *output.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(3 * loss.objective, inputs), torch.autograd.grad(3 * expected, inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("vocabulary", "rows"),
    [(1_000, 4194), (8_000, 524), (30_000, 512), (100_000, 512), (300_000, 223), (2**27, 1)],
)
def test_a_chunk_has_enough_words_and_limited_memory(vocabulary, rows):
    assert chunked_loss.chunk_rows(vocabulary, torch.device("cpu")) == rows


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_bfloat16_loss_and_gradients_are_close_to_float32(monkeypatch, bias, smoothing):
    """Weights and vectors are numbers that bfloat16 represents exactly."""
    monkeypatch.setattr(chunked_loss, "CHUNK_ELEMENTS", 33)
    monkeypatch.setattr(chunked_loss, "CHUNK_ROWS", 1)
    output = output_layer(bias).float()
    output.weight.data = torch.randint(-8, 9, (11, 6)) / 8
    vectors, targets = (torch.randint(-8, 9, (8, 6)) / 8).requires_grad_(), torch.randint(11, (8,))
    results = []
    for half in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = output.loss(vectors, targets, smoothing)
        results.append([*loss, *torch.autograd.grad(loss.objective, [vectors, *output.parameters()])])
    for half, full in zip(*results, strict=True):
        torch.testing.assert_close(half, full, atol=0.05, rtol=0.02)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("vocabulary", [11, 32, 33])
@pytest.mark.parametrize("half", [False, True])
def test_logits_of_a_search_equal_logits_of_training(vocabulary, bias, half):
    output = output_layer(bias, vocabulary).float()
    vectors = torch.randn(5, 6)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        expected = output(vectors)
        with torch.inference_mode():
            logits = output(vectors)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, expected.float(), atol=0.05 if half else 1e-6, rtol=0.02 if half else 1e-6)


def test_uninitialised_memory_does_not_reach_a_gradient(monkeypatch):
    """The padding between rows of logits is 0, because the products of some processors read it."""
    empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *size, **kind: empty(*size, **kind).fill_(torch.nan))
    output, vectors = output_layer(inputs=16).float(), torch.randn(40, 16, requires_grad=True)
    for precision in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            loss = output.loss(vectors, torch.randint(11, (40,)), 0.1)
        for gradient in torch.autograd.grad(loss.objective, [vectors, *output.parameters()]):
            assert gradient.isfinite().all()
    for buffer in logit_buffers(3, output.weight.bfloat16()):
        assert buffer.isnan().all()
        assert buffer.as_strided((3, buffer.stride(0) - 11), buffer.stride(), 11).eq(0).all()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_no_gradient_is_computed_without_grad_mode(monkeypatch, mode):
    monkeypatch.setattr(chunked_loss, "_subtract_target_in_place", None)  # a call would fail
    output, vectors, targets = output_layer(), torch.randn(8, 6).double(), torch.randint(11, (8,))
    with mode():
        loss = output.loss(vectors, targets).objective
    torch.testing.assert_close(loss, functional.cross_entropy(output(vectors), targets, reduction="sum").detach())
    with pytest.raises(TypeError):
        output.loss(vectors, targets)


def test_the_negative_log_likelihood_has_no_gradient():
    assert (
        not output_layer().loss(torch.randn(2, 6).double(), torch.tensor([1, 2])).negative_log_likelihood.requires_grad
    )


def test_a_batch_without_words_has_loss_zero_and_gradient_zero():
    output = output_layer()
    loss = output.loss(torch.zeros(0, 6).double().requires_grad_(), torch.zeros(0, dtype=torch.long)).objective
    loss.backward()
    assert loss == 0
    assert (output.weight.grad == 0).all()


def test_the_gradient_of_a_tied_embedding_equals_cross_entropy():
    output, embedding = output_layer(), torch.nn.Embedding(11, 6).double()
    output.weight = embedding.weight
    targets = torch.tensor([3, 4, 5])
    ours = torch.autograd.grad(output.loss(embedding(targets), targets).objective, embedding.weight)
    theirs = torch.autograd.grad(
        functional.cross_entropy(output(embedding(targets)), targets, reduction="sum"), embedding.weight
    )
    torch.testing.assert_close(ours, theirs)
