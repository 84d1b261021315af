"""Mechanisms in their limits: switched off they equal a plain model, and extreme inputs keep them finite."""

import pytest
import torch
from compositions import SOURCE_WORDS, TARGET_WORDS, choices, composed, configured
from random_batches import batch_of, random_rows
from torch import nn

from nmt.model.attention.score import Additive
from nmt.model.decoder.context_gate import ContextGate
from nmt.model.kernels import additive_energies
from nmt.runs.trained_model import build_model
from nmt.search.beam import beam_search
from nmt.search.settings import Search

SOURCES = random_rows([5, 2, 9, 1], SOURCE_WORDS, seed=1)
TARGETS = random_rows([3, 6, 1, 4], TARGET_WORDS, seed=2)
BATCH = batch_of(SOURCES, TARGETS)
LENGTHS = torch.tensor([len(source) + 1 for source in SOURCES])
ATTENTIONS = [
    f"attention={choice}"
    for choice in choices("attention")
    if "score" in configured(f"attention={choice}").attention  # not attention=none
]
COVERAGES = [f"attention/coverage={choice}" for choice in choices("attention/coverage")]


def plain_and_extended(*overrides: str, plain: tuple[str, ...] = ()):
    """Return a plain model, the same model with a mechanism, and the names of the mechanism's parameters."""
    torch.manual_seed(4)
    plain_model, extended = composed(*plain).double(), composed(*plain, *overrides).double()
    missing, unexpected = extended.load_state_dict(plain_model.state_dict(), strict=False)
    assert not unexpected
    return plain_model, extended, missing


def trace_of(model, batch=BATCH):
    with torch.no_grad():
        return model.unroll(batch, trace_names=None).trace


def assert_same_loss(first, second):
    torch.testing.assert_close(first.loss(BATCH).objective, second.loss(BATCH).objective)


def assert_other_loss(first, second):
    assert not torch.isclose(first.loss(BATCH).objective, second.loss(BATCH).objective, rtol=1e-9, atol=0.0)


# of their own, beside those of a score; a new mechanism may be in neither list
WITHOUT_PARAMETERS = ("additive", "concat", "dot", "general", "general_scaled", "location", "local_m", "temporal")
WITHOUT_PARAMETERS += ("sparsemax",)
WITH_PARAMETERS = ("coverage", "coverage_embedding", "coverage_fertility", "coverage_linguistic", "coverage_tanh")
WITH_PARAMETERS += ("interactive", "interactive_coverage", "local_p", "location_aware", "mixture", "memory=buffer")
WITH_PARAMETERS += ("temporal_local",)


@pytest.mark.parametrize("mechanism", [*ATTENTIONS, "memory=buffer"])
def test_a_mechanism_adds_parameters_and_keeps_the_names_of_the_plain_model(mechanism):
    _, _, missing = plain_and_extended(mechanism, "attention/score=additive", "attention/weights=softmax")
    parts = ("covered", "coverage", "window", "history", "writing")
    owners = ("decoder.memory", *(f"attention.{part}" for part in parts))
    assert all(any(f"{owner}." in name for owner in owners) for name in missing)
    name = mechanism.removeprefix("attention=")
    assert not (missing and name in WITHOUT_PARAMETERS)
    assert missing or name not in WITH_PARAMETERS


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("score", ["additive", "general"])
def test_a_coverage_with_zero_weight_equals_the_plain_model(coverage, score):
    plain, covered, missing = plain_and_extended(coverage, plain=(f"attention/score={score}",))
    assert "decoder.attention.covered.weight" in missing
    assert_other_loss(plain, covered)
    nn.init.zeros_(covered.decoder.attention.covered.weight)
    assert_same_loss(plain, covered)


def test_the_scaled_general_score_is_divided_by_the_root_of_the_query_size():
    plain, scaled, _ = plain_and_extended(
        "attention=general_scaled", "size.hidden=16", plain=("attention=general", "size.hidden=16")
    )
    with torch.no_grad():
        plain.decoder.attention.score.key.weight /= 4
    assert_same_loss(plain, scaled)


def test_linguistic_coverage_equals_a_fertility_of_one():
    linguistic, fertile, missing = plain_and_extended(
        "attention/coverage=fertility", plain=("attention/coverage=linguistic",)
    )
    assert missing == ["decoder.attention.coverage.fertility.weight"]
    nn.init.zeros_(fertile.decoder.attention.coverage.fertility.weight)  # Φ = 2 · σ(0) = 1
    assert_same_loss(linguistic, fertile)


@pytest.mark.parametrize("most", [1.0, 2.0, 5.0])
def test_fertility_is_between_zero_and_its_maximum(most):
    model = composed("attention=coverage_fertility", f"attention.coverage.most={most}").double()
    nn.init.normal_(model.decoder.attention.coverage.fertility.weight, std=10.0)
    fertility = trace_of(model)["fertility"][0]
    assert ((fertility > 0) & (fertility < most)).all()
    assert fertility.std() > 0.1 * most


def test_the_auxiliary_objective_changes_the_objective_but_not_the_likelihood():
    without, with_objective, _ = plain_and_extended(
        "attention/penalty=fertility", "attention.penalty.weight=0.5", plain=("attention=coverage_fertility",)
    )
    plain, penalised = without.loss(BATCH), with_objective.loss(BATCH)
    torch.testing.assert_close(plain.negative_log_likelihood, penalised.negative_log_likelihood)
    torch.testing.assert_close(plain.objective, plain.negative_log_likelihood)
    trace = trace_of(without)
    expected = 0.0
    for number, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        attention = trace["alignment"][: len(target) + 1, number, : len(source) + 1].sum(0)
        expected += 0.5 * ((trace["fertility"][0, number, : len(source) + 1] - attention) ** 2).sum()
    torch.testing.assert_close(penalised.objective - plain.objective, expected)


def test_attention_by_location_renormalised_is_its_plain_weights_over_their_sum():
    plain = composed("attention=location").double()
    renormalised = composed("attention=location", "attention/weights=softmax").double()
    renormalised.load_state_dict(plain.state_dict())
    weights, sums_to_one = trace_of(plain)["alignment"][0], trace_of(renormalised)["alignment"][0]
    assert (weights.sum(1) < 0.5).all()  # of 50 rows at most 10 are used
    torch.testing.assert_close(sums_to_one, weights / weights.sum(1, keepdim=True))


def test_sparsemax_gives_weights_of_exactly_zero_that_sum_to_one():
    model = composed("attention=sparsemax").double()
    model.decoder.attention.score.energy.data *= 100
    alignment = trace_of(model)["alignment"]
    torch.testing.assert_close(alignment.sum(2), torch.ones(7, 4, dtype=alignment.dtype))
    assert 0.5 < (alignment[:, 2] == 0).double().mean() < 1


def test_the_centre_of_a_mixture_moves_to_the_right():
    position = trace_of(composed("attention=mixture"))["position"]
    assert (position.diff(dim=0) > 0).all()


def test_joined_coverages_equal_each_of_them_where_the_other_has_no_weight():
    joined = composed("attention/coverage=gru_location_aware").double()
    for part, columns in (("gru", slice(0, 10)), ("location_aware", slice(10, 20))):
        alone = composed(f"attention/coverage={part}").double()
        weights = {
            name.replace(f"coverage.parts.{part}.", "coverage."): value for name, value in joined.state_dict().items()
        }
        weights["decoder.attention.covered.weight"] = weights["decoder.attention.covered.weight"][:, columns]
        alone.load_state_dict({name: weights[name] for name in alone.state_dict()})
        other = composed("attention/coverage=gru_location_aware").double()
        other.load_state_dict(joined.state_dict())
        kept = other.decoder.attention.covered.weight.data[:, columns].clone()
        other.decoder.attention.covered.weight.data.zero_()[:, columns] = kept
        assert_same_loss(alone, other)
        assert_other_loss(alone, joined)


def test_temporal_attention_without_history_equals_the_plain_model():
    plain, temporal, missing = plain_and_extended("attention/history=temporal", "attention.history.window=0")
    assert missing == []
    assert_same_loss(plain, temporal)


def test_temporal_attention_starts_plain_and_a_long_window_changes_nothing():
    plain, temporal, _ = plain_and_extended("attention/history=temporal")
    alignment, plain_alignment = trace_of(temporal)["alignment"], trace_of(plain)["alignment"]
    torch.testing.assert_close(alignment[0], plain_alignment[0])
    assert (alignment[1] - plain_alignment[1]).abs().max() > 1e-4
    windowed = composed("attention=temporal", "attention.history.window=50").double()
    windowed.load_state_dict(temporal.state_dict())
    assert_same_loss(temporal, windowed)


@pytest.mark.parametrize("window", ["local_m", "local_p"])
def test_a_window_wider_than_the_sentence_equals_global_attention(window):
    plain, local, _ = plain_and_extended(f"attention/window={window}", "attention.window.half_width=1000000")
    assert_same_loss(plain, local)  # the Gaussian of local-p is flat then


@pytest.mark.parametrize("window", ["local_m", "local_p"])
def test_positions_outside_a_window_get_no_attention(window):
    model = composed(f"attention/window={window}", "attention.window.half_width=2").double()
    trace = trace_of(model)
    positions = torch.arange(1, 11, dtype=torch.float64)
    centre = trace["position"].floor()[:, :, None]
    assert (trace["alignment"][(positions - centre).abs() > 2] == 0).all()
    if window == "local_m":
        expected = torch.minimum(torch.arange(1, 8)[:, None], LENGTHS[None] - 1)
        torch.testing.assert_close(trace["position"], expected.float())


def test_window_positions_follow_the_original_order_of_a_reversed_source():
    overrides = ("encoder=lstm", "encoder.reverse=true", "attention=local_m", "attention.window.half_width=1")
    alignment = trace_of(composed(*overrides))["alignment"]
    assert (alignment[0, 2, :2] > 0).all()  # the first step attends to the first word and the next one
    assert (alignment[0, 2, 2:] == 0).all()


class ClosedGate(nn.Module):
    """A gate that is always closed."""

    def forward(self, hidden):
        return torch.full((len(hidden), 32), -torch.inf, dtype=hidden.dtype)


def test_interactive_attention_that_writes_nothing_equals_the_plain_model():
    plain, interactive, _ = plain_and_extended("attention=interactive")
    assert_other_loss(plain, interactive)
    writing = interactive.decoder.attention.writing
    writing.forget, writing.update = ClosedGate(), ClosedGate()
    assert_same_loss(plain, interactive)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_the_weights_of_a_memory_sum_to_one(shared):
    trace = trace_of(composed("decoder=feedback", "memory=buffer", f"memory.shared={shared}"))
    torch.testing.assert_close(trace["memory_weights"].sum(3), torch.ones(7, 4, 1))
    assert trace["memory_weights"].std() > 1e-5
    assert ((trace["memory_gate"] > 0) & (trace["memory_gate"] < 1)).all()


def test_memory_noise_is_stored_and_resampled_only_on_request_and_in_training():
    def first_cells(model):
        return model.decoder.memory.bind(model.encode(BATCH.source, BATCH.source_lengths))[1].cells

    model = composed("decoder=feedback", "memory=buffer", "dropout=0.0")
    assert model.state_dict()["decoder.memory.perturbation"].std().item() == pytest.approx(0.1, rel=0.2)
    torch.testing.assert_close(first_cells(model.train()), first_cells(model.eval()))
    resampled = composed("decoder=feedback", "memory=buffer", "memory.resample=true", "dropout=0.0")
    torch.testing.assert_close(first_cells(resampled), first_cells(resampled))
    resampled.train()
    difference = first_cells(resampled) - first_cells(resampled)
    assert difference.std().item() == pytest.approx(0.1 * 2**0.5, rel=0.2)


@pytest.mark.parametrize("overrides", [*ATTENTIONS, "memory=buffer", "memory=buffer memory.shared=false"])
def test_bfloat16_stays_close_if_softmax_returns_float32(overrides, monkeypatch):
    """Autocast on CUDA computes softmax in float32, autocast on a CPU does not."""
    model, softmax = composed(*overrides.split()), torch.softmax
    exact = model.loss(BATCH).objective
    monkeypatch.setattr(torch, "softmax", lambda energies, dim: softmax(energies.float(), dim))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model.loss(BATCH).objective, exact, rtol=0.02, atol=0.0)


EXTREMES = [*ATTENTIONS, "memory=buffer", "attention=temporal attention.history.window=300"]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("overrides", EXTREMES)
def test_sentences_of_1_and_300_words_and_energies_of_10000_stay_finite(overrides, precision):
    model = composed(*overrides.split())
    score = model.decoder.attention.score
    plain_energies = score.energies

    def large_energies(*arguments):
        energies = plain_energies(*arguments)
        return energies / energies.detach().abs().clamp(1e-30, 1e30).amax() * 1e4

    score.energies = large_energies
    batch = batch_of(random_rows([1, 300], SOURCE_WORDS, seed=3), random_rows([300, 1], TARGET_WORDS, seed=4))
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        loss = model.loss(batch).objective
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("beam", [1, 20])
@pytest.mark.parametrize("overrides", EXTREMES)
def test_beams_of_1_and_20_translate_sentences_of_1_and_300_words(overrides, beam):
    batch = batch_of(random_rows([1, 300], SOURCE_WORDS, seed=3), [[4], [4]])
    how = Search(beam=beam, nbest=beam, longest_ratio=0.0, longest_extra=4)
    for hypotheses, positions in zip(
        beam_search(composed(*overrides.split()), batch.source, batch.source_lengths, how), (2, 301), strict=True
    ):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            assert -100 < hypothesis.log_probability < 0
            assert hypothesis.alignment.shape == (min(len(hypothesis.words) + 1, 4), positions)
            assert (hypothesis.alignment >= 0).all()
            if "mixture" not in overrides:  # its heights are not limited
                assert (hypothesis.alignment.sum(1) <= 1 + 1e-5).all()


def parameters(*overrides: str) -> int:
    config = configured("experiment=tu2016/groundhog", "size=paper", *overrides)
    config.model.source_vocabulary_size = config.model.target_vocabulary_size = 100
    return sum(parameter.numel() for parameter in build_model(config).parameters())


def test_coverages_add_as_many_parameters_as_the_paper_states():
    """Tu 2016 §5.2: 3K for coverage with fertility, and about 10K × d for neural coverage with gating."""
    plain = parameters()
    assert parameters("attention=coverage_linguistic") - plain == 1000  # V
    assert parameters("attention=coverage_fertility") - plain == 3000  # V and U_f
    for size in (1, 10):
        extra = parameters("attention=coverage", f"attention.coverage.size={size}") - plain
        assert extra == pytest.approx(10_000 * size, rel=0.005)


@pytest.mark.parametrize("biased", [True, False])
def test_additive_attention_has_useful_first_gradients_in_half_precision(biased):
    """Near 0, 2 σ(2x) − 1 would lose digits that tanh x has in bfloat16."""
    torch.manual_seed(3)
    score = Additive(query_size=4, annotation_size=4, attention_size=6)
    nn.init.normal_(score.energy)
    queries, keys = 1e-3 * torch.randn(2, 1, 4), 1e-3 * torch.randn(2, 5, 6)
    bias = 1e-3 * torch.randn(2, 1, 5, 6) if biased else None
    results = []
    for dtype in (torch.float64, torch.bfloat16):
        score.to(dtype).zero_grad()
        arguments = [None if tensor is None else tensor.to(dtype) for tensor in (queries, keys, bias)]
        energies = score.energies(*arguments)
        energies.square().sum().backward()
        results.append([energies.detach().double(), score.energy.grad.clone().double()])
    for exact, half in zip(*results, strict=True):
        torch.testing.assert_close(half, exact, rtol=0.1, atol=0.05 * exact.abs().max().item())


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("elements", [1, 2 * 5 * 6 * 2, 10_000])  # chunks of one sentence, of two, and of all
def test_additive_energies_in_chunks_equal_those_of_training(monkeypatch, biased, elements):
    monkeypatch.setattr(additive_energies, "CHUNK_ELEMENTS", elements)
    queries, keys = torch.randn(3, 2, 6).double(), torch.randn(3, 5, 6).double()
    arguments = (torch.randn(6).double(), queries, keys, torch.randn(3, 2, 5, 6).double() if biased else None)
    expected = additive_energies.additive_energies(*arguments)
    with torch.no_grad():
        torch.testing.assert_close(additive_energies.additive_energies(*arguments), expected)


def test_the_trace_of_a_context_gate_is_the_mean_of_its_values():
    gate = ContextGate(word_size=3, hidden_size=4, context_size=2, scales="both")
    word, hidden, context = torch.randn(5, 3), torch.randn(5, 4), torch.randn(5, 2)
    target, source, trace = gate(word, hidden, context)
    z = torch.sigmoid(gate.word(word) + hidden @ gate.state.weight.T + context @ gate.context.weight.T)
    torch.testing.assert_close((target, source), (1 - z, z))
    torch.testing.assert_close(trace, {"context_gate": z.mean(1, keepdim=True)})
