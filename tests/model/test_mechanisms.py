"""What each mechanism is when it is switched off, or taken to its limits."""

import pytest
import torch
from compositions import SOURCE_WORDS, TARGET_WORDS, choices, composed, configured
from random_batches import batch_of, random_rows
from torch import nn

from nmt.model.attention.score import Additive
from nmt.runs.trained_model import build_model
from nmt.search.beam import search
from nmt.search.settings import Search

SOURCES = random_rows([5, 2, 9, 1], SOURCE_WORDS, seed=1)
TARGETS = random_rows([3, 6, 1, 4], TARGET_WORDS, seed=2)
BATCH = batch_of(SOURCES, TARGETS)
LENGTHS = torch.tensor([len(source) + 1 for source in SOURCES])
JOINED = [choice for choice in choices("attention") if "score" in configured(f"attention={choice}").attention]
ATTENTIONS = [f"attention={choice}" for choice in JOINED]
COVERAGES = [f"attention/coverage={choice}" for choice in choices("attention/coverage")]


def beside(*overrides: str, plain: tuple[str, ...] = ()):
    """A plain model, and one with a mechanism that got the plain one's weights by name; what that left is new."""
    torch.manual_seed(4)
    bare, model = composed(*plain).double(), composed(*plain, *overrides).double()
    fresh, unexpected = model.load_state_dict(bare.state_dict(), strict=False)
    assert not unexpected
    return bare, model, fresh


def trace_of(model, batch=BATCH):
    with torch.no_grad():
        return model.unroll(batch, keep_trace=True).trace


def assert_same_loss(one, other):
    torch.testing.assert_close(one.loss(BATCH).objective, other.loss(BATCH).objective)


@pytest.mark.parametrize("mechanism", [*ATTENTIONS, "memory=buffer"])
def test_the_plain_models_weights_fit_by_name_and_only_the_mechanisms_are_new(mechanism):
    _, _, fresh = beside(mechanism, "attention/score=additive")
    parts = ("covered", "coverage", "window", "history", "writing")
    owners = ("decoder.memory", *(f"attention.{part}" for part in parts))
    assert all(any(f"{owner}." in name for owner in owners) for name in fresh)


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("score", ["additive", "general"])
def test_a_coverage_that_tells_nothing_changes_nothing(coverage, score):
    plain, covered, fresh = beside(coverage, plain=(f"attention/score={score}",))
    assert "decoder.attention.covered.weight" in fresh
    assert not torch.isclose(plain.loss(BATCH).objective, covered.loss(BATCH).objective, rtol=1e-9, atol=0.0)
    nn.init.zeros_(covered.decoder.attention.covered.weight)
    assert_same_loss(plain, covered)


def test_the_scaled_general_score_is_the_plain_one_divided_by_the_root_of_the_querys_size():
    plain, scaled, _ = beside(
        "attention=general_scaled", "size.hidden=16", plain=("attention=general", "size.hidden=16")
    )
    with torch.no_grad():
        plain.decoder.attention.score.key.weight /= 4
    assert_same_loss(plain, scaled)


def test_linguistic_coverage_sums_to_the_steps_done():
    coverage = trace_of(composed("attention=coverage_linguistic"))["coverage"]
    for step, covered in enumerate(coverage, start=1):
        torch.testing.assert_close(covered.sum((1, 2)), torch.full((4,), float(step)))


def test_linguistic_coverage_is_fertility_of_one():
    linguistic, fertile, fresh = beside("attention/coverage=fertility", plain=("attention/coverage=linguistic",))
    assert fresh == ["decoder.attention.coverage.fertility.weight"]
    nn.init.zeros_(fertile.decoder.attention.coverage.fertility.weight)  # Φ = 2 · σ(0) = 1
    assert_same_loss(linguistic, fertile)


@pytest.mark.parametrize("most", [1.0, 2.0, 5.0])
def test_fertility_is_between_nothing_and_the_most(most):
    model = composed("attention=coverage_fertility", f"attention.coverage.most={most}").double()
    nn.init.normal_(model.decoder.attention.coverage.fertility.weight, std=10.0)
    fertility = trace_of(model)["fertility"][0]
    assert ((fertility > 0) & (fertility < most)).all()
    assert fertility.std() > 0.1 * most


def test_the_auxiliary_objective_joins_what_is_minimised_and_nothing_else():
    without, with_objective, _ = beside("attention.coverage.auxiliary=0.5", plain=("attention=coverage_fertility",))
    plain, penalised = without.loss(BATCH), with_objective.loss(BATCH)
    torch.testing.assert_close(plain.likelihood, penalised.likelihood)
    torch.testing.assert_close(plain.objective, plain.likelihood)
    trace = trace_of(without)
    expected = 0.0
    for number, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        given = trace["alignment"][: len(target) + 1, number, : len(source) + 1].sum(0)
        expected += 0.5 * ((trace["fertility"][0, number, : len(source) + 1] - given) ** 2).sum()
    torch.testing.assert_close(penalised.objective - plain.objective, expected)


def test_temporal_attention_without_memory_is_plain():
    plain, temporal, fresh = beside("attention/history=temporal", "attention.history.window=0")
    assert fresh == []
    assert_same_loss(plain, temporal)


def test_temporal_attention_starts_plain_and_a_window_as_long_as_the_sentence_is_none():
    plain, temporal, _ = beside("attention/history=temporal")
    alignment, plainly = trace_of(temporal)["alignment"], trace_of(plain)["alignment"]
    torch.testing.assert_close(alignment[0], plainly[0])
    assert (alignment[1] - plainly[1]).abs().max() > 1e-4
    windowed = composed("attention=temporal", "attention.history.window=50").double()
    windowed.load_state_dict(temporal.state_dict())
    assert_same_loss(temporal, windowed)


@pytest.mark.parametrize("window", ["local_m", "local_p"])
def test_a_window_wider_than_the_sentence_is_global(window):
    plain, local, _ = beside(f"attention/window={window}", "attention.window.half_width=1000000")
    assert_same_loss(plain, local)  # local-p's Gaussian is flat then


@pytest.mark.parametrize("window", ["local_m", "local_p"])
def test_a_window_is_all_that_is_attended_to(window):
    model = composed(f"attention/window={window}", "attention.window.half_width=2").double()
    trace = trace_of(model)
    positions = torch.arange(1, 11, dtype=torch.float64)
    centre = trace["position"].floor()[:, :, None]
    assert (trace["alignment"][(positions - centre).abs() > 2] == 0).all()
    if window == "local_m":
        expected = torch.minimum(torch.arange(1, 8)[:, None], LENGTHS[None] - 1)
        torch.testing.assert_close(trace["position"], expected.float())


def test_positions_are_those_of_the_original_order_where_the_source_is_read_reversed():
    overrides = ("encoder=lstm", "encoder.reverse=true", "attention=local_m", "attention.window.half_width=1")
    alignment = trace_of(composed(*overrides))["alignment"]
    assert (alignment[0, 2, :2] > 0).all()  # the first step looks at the first word and its neighbour
    assert (alignment[0, 2, 2:] == 0).all()


class Never(nn.Module):
    """A gate that is always shut."""

    def forward(self, hidden):
        return torch.full((len(hidden), 32), -torch.inf, dtype=hidden.dtype)


def test_interactive_attention_that_writes_nothing_is_plain():
    plain, interactive, _ = beside("attention=interactive")
    assert not torch.isclose(plain.loss(BATCH).objective, interactive.loss(BATCH).objective, rtol=1e-9, atol=0.0)
    writing = interactive.decoder.attention.writing
    writing.forget, writing.update = Never(), Never()
    assert_same_loss(plain, interactive)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_the_weights_of_a_memory_sum_to_one(shared):
    trace = trace_of(composed("decoder=feedback", "memory=buffer", f"memory.shared={shared}"))
    torch.testing.assert_close(trace["memory_weights"].sum(3), torch.ones(7, 4, 1))
    assert trace["memory_weights"].std() > 1e-5
    assert ((trace["memory_gate"] > 0) & (trace["memory_gate"] < 1)).all()


def test_a_memory_of_one_cell_is_read_whole():
    model = composed("decoder=feedback", "memory=buffer", "memory.cells=1")
    encoded = model.encode(BATCH.source, BATCH.source_lengths)
    _, state = model.decoder.memory.bind(encoded)
    hidden = torch.randn(4, 32)
    for _ in range(50):
        read, state, _ = model.decoder.memory.read(hidden, state, ())
        torch.testing.assert_close(read, state.cells[:, 0])
        state = model.decoder.memory.write(hidden, state, ())
    assert state.cells.isfinite().all()


def test_the_noise_of_a_memory_is_stored_and_drawn_anew_only_where_asked_and_only_in_training():
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
def test_bfloat16_is_as_near_where_softmax_gives_float32(overrides, monkeypatch):
    """As CUDA's autocast has it, and the CPU's has not."""
    model, softmax = composed(*overrides.split()), torch.softmax
    exact = model.loss(BATCH).objective
    monkeypatch.setattr(torch, "softmax", lambda energies, dim: softmax(energies.float(), dim))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model.loss(BATCH).objective, exact, rtol=0.02, atol=0.0)


EXTREMES = [*ATTENTIONS, "memory=buffer", "attention=temporal attention.history.window=300"]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("overrides", EXTREMES)
def test_sentences_of_one_and_of_300_words_and_energies_of_ten_thousand_stay_finite(overrides, precision):
    model = composed(*overrides.split())
    score = model.decoder.attention.score
    energies = score.energies
    score.energies = lambda *given: (found := energies(*given)) / found.detach().abs().clamp(max=1e30).amax() * 1e4
    batch = batch_of(random_rows([1, 300], SOURCE_WORDS, seed=3), random_rows([300, 1], TARGET_WORDS, seed=4))
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        loss = model.loss(batch).objective
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("beam", [1, 20])
@pytest.mark.parametrize("overrides", EXTREMES)
def test_beams_of_one_and_of_twenty_search_sentences_of_one_and_of_300_words(overrides, beam):
    batch = batch_of(random_rows([1, 300], SOURCE_WORDS, seed=3), [[4], [4]])
    how = Search(beam=beam, nbest=beam, longest_ratio=0.0, longest_extra=4)
    for hypotheses, positions in zip(
        search(composed(*overrides.split()), batch.source, batch.source_lengths, how), (2, 301), strict=True
    ):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            assert -100 < hypothesis.log_probability < 0
            assert hypothesis.alignment.shape == (min(len(hypothesis.words) + 1, 4), positions)
            assert (hypothesis.alignment.sum(1) <= 1 + 1e-5).all()


def parameters(*overrides: str) -> int:
    config = configured("experiment=tu2016/groundhog", "size=paper", *overrides)
    config.model.source_vocabulary_size = config.model.target_vocabulary_size = 100
    return sum(parameter.numel() for parameter in build_model(config).parameters())


def test_coverages_add_the_parameters_the_paper_says():
    """Tu 2016 §5.2: 3K for linguistic coverage with fertility, about 10K × d for neural coverage with gating."""
    plain = parameters()
    assert parameters("attention=coverage_linguistic") - plain == 1000  # V
    assert parameters("attention=coverage_fertility") - plain == 3000  # V and U_f
    for size in (1, 10):
        extra = parameters("attention=coverage", f"attention.coverage.size={size}") - plain
        assert extra == pytest.approx(10_000 * size, rel=0.005)


@pytest.mark.parametrize("biased", [True, False])
def test_additive_attention_begins_to_learn_in_half_precision(biased):
    """Energies and the gradient of v near 0, where 2 σ(2x) − 1 would lose what bfloat16 still tells of tanh x."""
    torch.manual_seed(3)
    score = Additive(query_size=4, annotation_size=4, attention_size=6)
    nn.init.normal_(score.energy)
    queries, keys = 1e-3 * torch.randn(2, 1, 4), 1e-3 * torch.randn(2, 5, 6)
    bias = 1e-3 * torch.randn(2, 1, 5, 6) if biased else None
    found = []
    for dtype in (torch.float64, torch.bfloat16):
        score.to(dtype).zero_grad()
        given = [None if one is None else one.to(dtype) for one in (queries, keys, bias)]
        energies = score.energies(*given)
        energies.square().sum().backward()
        found.append([energies.detach().double(), score.energy.grad.clone().double()])
    for exact, half in zip(*found, strict=True):
        torch.testing.assert_close(half, exact, rtol=0.1, atol=0.05 * exact.abs().max().item())
