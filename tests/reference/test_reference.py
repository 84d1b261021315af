"""The references equal torch's cells, vectorised formulas, and numbers worked out by hand."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from . import attention as attention_reference
from . import cells, decoders, memory, scores, search
from .attention import Attention, Interactive, attend, local_m, local_p, temporal


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def weights_of(module: nn.Module, suffix: str = "") -> dict[str, Tensor]:
    return {
        short: getattr(module, long + suffix).detach()
        for short, long in [("W_ih", "weight_ih"), ("W_hh", "weight_hh"), ("b_ih", "bias_ih"), ("b_hh", "bias_hh")]
    }


def logs(*values: float) -> Tensor:
    """Return a query whose exponentials are `values`; with `table_score` the energies are the query itself."""
    return torch.log(vector(*values))


def table_score(rows: int) -> partial:
    """Return a location score with an identity matrix: e_ij = q_j − log Σ_k exp(q_k)."""
    return partial(scores.location, W_a=torch.eye(rows, dtype=torch.float64))


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize("bias", [True, False])
def test_gru_equals_the_gru_of_pytorch(bias: bool) -> None:
    cell = nn.GRUCell(3, 4, bias=bias, dtype=torch.float64)
    weights = weights_of(cell) if bias else {"W_ih": cell.weight_ih, "W_hh": cell.weight_hh}
    x, s = random(3), random(4)
    torch.testing.assert_close(cells.gru(x, s, **weights), cell(x, s))


def test_gru_equals_numbers_worked_out_by_hand() -> None:
    # r = σ(0) = 1/2, z = σ(ln 3 / 2 · 2) = 3/4, n = tanh(3 + r · 1 · 2) = tanh 4
    # s' = 1/4 tanh 4 + 3/4 · 2
    result = cells.gru(
        vector(1.0), vector(2.0), W_ih=vector(0, 0, 3)[:, None], W_hh=vector(0, math.log(3) / 2, 1)[:, None]
    )
    torch.testing.assert_close(result, vector(math.tanh(4) / 4 + 1.5))


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_equals_the_lstm_of_pytorch(bias: bool) -> None:
    cell = nn.LSTMCell(3, 4, bias=bias, dtype=torch.float64)
    weights = weights_of(cell) if bias else {"W_ih": cell.weight_ih, "W_hh": cell.weight_hh}
    x, h, c = random(3), random(4), random(4)
    torch.testing.assert_close(cells.lstm(x, h, c, **weights), cell(x, (h, c)))


def test_bigru_encoder_equals_the_bidirectional_gru_of_pytorch() -> None:
    encoder = nn.GRU(3, 4, bidirectional=True, dtype=torch.float64)
    x = random(5, 3)
    result = cells.bigru_encoder(
        list(x), forward=weights_of(encoder, "_l0"), backward=weights_of(encoder, "_l0_reverse")
    )
    torch.testing.assert_close(torch.stack(result), encoder(x)[0])


@pytest.mark.parametrize("reverse", [False, True])
def test_stacked_lstm_encoder_equals_the_lstm_of_pytorch_from_left_to_right(reverse: bool) -> None:
    encoder = nn.LSTM(3, 4, num_layers=2, dtype=torch.float64)
    x = random(5, 3)
    annotations, states = cells.stacked_lstm_encoder(
        list(x), layers=[weights_of(encoder, "_l0"), weights_of(encoder, "_l1")], reverse=reverse
    )
    expected, (h, c) = encoder(x.flip(0) if reverse else x)
    torch.testing.assert_close(torch.stack(annotations), expected.flip(0) if reverse else expected)
    torch.testing.assert_close(torch.stack([state[0] for state in states]), h)
    torch.testing.assert_close(torch.stack([state[1] for state in states]), c)


# ---------------------------------------------------------------- scores


def test_scores_equal_numbers_worked_out_by_hand() -> None:
    q, h = vector(1.0, 2.0), vector(3.0, -1.0)
    swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    assert scores.dot(q, h, 1).item() == 1.0
    assert scores.general(q, h, 1, W=swap).item() == 5.0  # (1, 2) · (−1, 3)
    expected = vector(1 - math.log(math.exp(2) + math.exp(1)))[0]  # row 2 of log softmax(2, 1)
    torch.testing.assert_close(scores.location(q, h, 2, W_a=swap), expected)
    assert scores.location(q, h, 3, W_a=swap).item() == -math.inf
    v, one = vector(2.0), vector(1.0, 0.0)[None]
    torch.testing.assert_close(scores.additive(q, h, 1, v=v, W=one, U=one), vector(2 * math.tanh(4))[0])
    torch.testing.assert_close(
        scores.additive(q, h, 1, vector(5.0), v=v, W=one, U=one, V=vector(-0.5)[None], b=vector(0.5), c=vector(7.0)[0]),
        vector(2 * math.tanh(1 + 3 + 0.5 - 2.5) + 7)[0],
    )
    torch.testing.assert_close(
        scores.concat(q, h, 1, v=v, W=vector(1, 0, 0, 1)[None]),
        vector(0.0)[0],  # q_1 + h_2 = 0
    )
    torch.testing.assert_close(
        scores.concat_code(q, h, 1, v=vector(1.0, 1.0), W=swap),
        vector(math.tanh(5))[0],  # (3 + 2, −1 + 1)
    )


def test_concat_with_an_identity_on_the_source_side_equals_concat_code() -> None:
    q, h, v, W = random(3), random(4), random(4), random(4, 3)
    C, V = random(2), random(4, 2)
    both = torch.cat([W, torch.eye(4, dtype=torch.float64)], dim=1)
    torch.testing.assert_close(
        scores.concat(q, h, 1, C, v=v, W=both, V=V), scores.concat_code(q, h, 1, C, v=v, W=W, V=V)
    )


@pytest.mark.parametrize("score", [scores.dot, partial(scores.general, W=random(3, 3)), table_score(3)])
def test_a_score_without_tanh_adds_the_coverage(score: partial) -> None:
    q, h, C, w = random(3), random(3), random(2), random(2)
    torch.testing.assert_close(score(q, h, 2, C, w=w), score(q, h, 2) + C[0] * w[0] + C[1] * w[1])


def test_a_coverage_without_its_weight_is_an_error() -> None:
    with pytest.raises(TypeError):
        scores.additive(random(2), random(2), 1, random(1), v=random(2), W=random(2, 2), U=random(2, 2))
    with pytest.raises(TypeError):
        scores.dot(random(2), random(2), 1, random(1))


# ---------------------------------------------------------------- attention


def test_global_attention_is_a_softmax_and_a_weighted_sum() -> None:
    queries, h, W = random(3, 4), random(5, 2), random(4, 2)
    trace = attend(list(queries), list(h), score=partial(scores.general, W=W))
    alignments = torch.softmax(queries @ W @ h.T, dim=1)
    torch.testing.assert_close(trace.alignments, alignments)
    torch.testing.assert_close(trace.contexts, alignments @ h)


def test_positions_beyond_the_rows_of_a_location_score_get_weight_zero() -> None:
    trace = attend([logs(1, 3)] * 2, list(random(4, 2)), score=table_score(2), history=temporal)
    torch.testing.assert_close(trace.alignments, torch.stack([vector(0.25, 0.75, 0, 0), vector(0.5, 0.5, 0, 0)]))
    assert trace.alignments[:, 2:].tolist() == [[0, 0], [0, 0]]


def test_a_short_sentence_uses_the_top_part_of_a_location_alignment_without_renormalising() -> None:
    trace = attend([logs(1, 3, 4)], list(random(2, 2)), score=table_score(3), weights=attention_reference.exponential)
    torch.testing.assert_close(trace.alignments[0], vector(1 / 8, 3 / 8))  # Luong 2015, footnote 6


def test_sparsemax_equals_numbers_worked_out_by_hand() -> None:
    numerators = [torch.exp(vector(energy)[0]) for energy in (1.0, 0.5, -1.0)]
    weights = attention_reference.sparsemax(numerators)
    torch.testing.assert_close(torch.stack(weights), vector(0.75, 0.25, 0.0))  # τ = (1 + 0.5 − 1) / 2


def test_a_mixture_window_equals_numbers_worked_out_by_hand() -> None:
    window = attention_reference.Mixture(
        W=torch.zeros(6, 1, dtype=torch.float64), b=torch.log(vector(2, 1, 3, 1, 1, 4))
    )
    window(1, vector(0.0), 5)
    step = window(2, vector(0.0), 5)  # a = (2, 1), b = (3, 1), κ_2 = (2, 8)
    torch.testing.assert_close(step.factor(3), vector(2 * math.exp(-3) + math.exp(-25))[0])
    torch.testing.assert_close(step.position, vector(4.0)[0])  # (2 · 2 + 1 · 8) / 3


def test_location_aware_features_equal_numbers_worked_out_by_hand() -> None:
    h = list(random(3, 2))
    coverage = attention_reference.location_aware(h, F=vector(1, 10, 100)[None])
    score = partial(scores.dot, w=vector(0.0))
    trace = attend([vector(0, 0), vector(0, 0)], h, score=score, coverage=coverage)
    torch.testing.assert_close(trace.coverage_before[1, :, 0], vector(110, 111, 11) / 3)  # all weights are 1/3


def test_penalties_equal_numbers_worked_out_by_hand() -> None:
    alignments = [vector(0.25, 0.75), vector(0.5, 0.5)]
    twice = attention_reference.doubly_stochastic(alignments, weight=2.0)
    torch.testing.assert_close(twice, vector(0.25)[0])  # 2 ((1 − 3/4)² + (1 − 5/4)²)
    repeated = attention_reference.coverage_loss(alignments, weight=3.0)
    torch.testing.assert_close(repeated, vector(2.25)[0])  # 3 (min(1/2, 1/4) + min(1/2, 3/4))
    followed = attention_reference.guided(alignments, [[0], [0, 1]], weight=1.0)
    torch.testing.assert_close(followed, vector(math.log(4) + math.log(2))[0])


def test_the_first_step_of_temporal_attention_is_a_plain_softmax() -> None:
    queries, h = list(random(1, 3)), list(random(4, 3))
    plain = attend(queries, h, score=scores.dot)
    torch.testing.assert_close(attend(queries, h, score=scores.dot, history=temporal).alignments, plain.alignments)


def test_temporal_attention_equals_numbers_worked_out_by_hand() -> None:
    queries, h = [logs(1, 3), logs(2, 2), logs(6, 5)], list(random(2, 2))
    trace = attend(queries, h, score=table_score(2), history=temporal)
    torch.testing.assert_close(trace.alignments[0], vector(1 / 4, 3 / 4))
    torch.testing.assert_close(trace.alignments[1], vector(3 / 4, 1 / 4))  # 2/1 : 2/3
    torch.testing.assert_close(trace.alignments[2], vector(2 / 3, 1 / 3))  # 6/3 : 5/5
    limited = attend(queries, h, score=table_score(2), history=partial(temporal, last=1))
    torch.testing.assert_close(limited.alignments[:2], trace.alignments[:2])
    torch.testing.assert_close(limited.alignments[2], vector(6 / 11, 5 / 11))  # 6/2 : 5/2


def test_temporal_attention_in_a_window_remembers_all_positions() -> None:
    queries = [logs(1, 3, 4, 1), logs(2, 2, 2, 2)]
    trace = attend(queries, list(random(4, 2)), score=table_score(4), history=temporal, window=partial(local_m, D=1))
    torch.testing.assert_close(trace.alignments[0], vector(1 / 4, 3 / 4, 0, 0))
    # 2/1 : 2/3 : 2/4 = 12 : 4 : 3, although position 3 lay outside the first window
    torch.testing.assert_close(trace.alignments[1], vector(12, 4, 3, 0) / 19)


def test_local_m_moves_with_the_step_and_stays_in_the_sentence() -> None:
    trace = attend([vector(0, 0, 0, 0)] * 6, list(random(4, 2)), score=table_score(4), window=partial(local_m, D=1))
    half, third = 1 / 2, 1 / 3
    torch.testing.assert_close(
        trace.alignments,
        torch.stack(
            [
                vector(half, half, 0, 0),
                vector(third, third, third, 0),
                vector(0, third, third, third),
                vector(0, 0, half, half),
                vector(0, 0, half, half),
                vector(0, 0, half, half),
            ]
        ),
    )
    assert trace.positions.tolist() == [1, 2, 3, 4, 4, 4]
    without_end = attend(
        [vector(0, 0, 0, 0)] * 6, list(random(4, 2)), score=table_score(4), window=partial(local_m, D=1, J=3)
    )
    assert without_end.positions.tolist() == [1, 2, 3, 3, 3, 3]


def test_local_p_equals_numbers_worked_out_by_hand() -> None:
    # v_p = 0: p = J/2 = 2.5, floor 2, window 1..3, σ = 1/2: exp(−2 (j − 2.5)²)
    window = partial(local_p, D=1, W_p=random(2, 5), v_p=vector(0, 0))
    trace = attend([vector(0, 0, 0, 0, 0)], list(random(5, 2)), score=table_score(5), window=window)
    expected = vector(math.exp(-4.5), math.exp(-0.5), math.exp(-0.5), 0, 0) / 3
    torch.testing.assert_close(trace.alignments[0], expected)
    torch.testing.assert_close(trace.positions, vector(2.5))
    # J does not count the end symbol, but the window may contain it: p = 2, window 1..5
    trace = attend([vector(0, 0, 0, 0, 0)], list(random(5, 2)), score=table_score(5), window=partial(window, D=3, J=4))
    torch.testing.assert_close(trace.positions, vector(2.0))
    gaussian = [math.exp(-((j - 2) ** 2) / (2 * 1.5**2)) / 5 for j in range(1, 6)]
    torch.testing.assert_close(trace.alignments[0], vector(*gaussian))


def test_linguistic_coverage_sums_to_the_number_of_steps() -> None:
    h = list(random(4, 3))
    coverage = attention_reference.linguistic(h)
    trace = attend(list(random(6, 3)), h, score=partial(scores.dot, w=vector(-1.0)), coverage=coverage)
    torch.testing.assert_close(trace.coverage_after.sum(dim=(1, 2)), vector(1, 2, 3, 4, 5, 6))
    torch.testing.assert_close(trace.coverage_before[1:], trace.coverage_after[:-1])
    assert trace.coverage_before[0].abs().sum() == 0
    torch.testing.assert_close(trace.alignments, torch.softmax(trace.energies, dim=1))


def test_coverage_enters_the_energy_before_its_update() -> None:
    h, queries = list(random(2, 2)), [logs(1, 3), logs(1, 1)]
    score = partial(scores.location, W_a=torch.eye(2, dtype=torch.float64), w=vector(math.log(16)))
    trace = attend(queries, h, score=score, coverage=attention_reference.linguistic(h))
    torch.testing.assert_close(trace.alignments[0], vector(1 / 4, 3 / 4))
    torch.testing.assert_close(trace.alignments[1], vector(2, 8) / 10)  # 16^(1/4) : 16^(3/4)


def test_fertility_coverage_equals_numbers_worked_out_by_hand() -> None:
    h = [vector(0.0), vector(math.log(3))]  # Φ = 2 σ(0) = 1, 2 σ(ln 3) = 3/2
    coverage = attention_reference.fertility(h, U_f=vector(1.0))
    score = partial(scores.location, W_a=torch.eye(2, dtype=torch.float64), w=vector(0.0))
    trace = attend([logs(1, 3), logs(1, 1)], h, score=score, coverage=coverage)
    torch.testing.assert_close(trace.fertilities, vector(1, 1.5))
    torch.testing.assert_close(trace.coverage_after[0, :, 0], vector(1 / 4, 1 / 2))
    torch.testing.assert_close(trace.coverage_after[1, :, 0], vector(3 / 4, 1 / 2 + 1 / 3))
    # Σ_i α_ij = 3/4, 5/4: (1 − 3/4)² + (3/2 − 5/4)² = 1/8
    penalty = attention_reference.fertility_penalty(coverage.fertilities, list(trace.alignments), weight=4.0)
    torch.testing.assert_close(penalty, vector(0.5)[0])


@pytest.mark.parametrize("gated", [False, True])
def test_neural_coverage_equals_a_pytorch_cell_on_weight_annotation_and_query(gated: bool) -> None:
    d, h, queries = 3, random(4, 2), random(5, 6)
    cell = (nn.GRUCell if gated else nn.RNNCell)(1 + 2 + 6, d, bias=False, dtype=torch.float64)
    a, B, T = cell.weight_ih[:, 0], cell.weight_ih[:, 1:3], cell.weight_ih[:, 3:]
    make = attention_reference.neural_gru if gated else attention_reference.neural_tanh
    v, W, U, V = random(7), random(7, 6), random(7, 2), random(7, d)
    trace = attend(
        list(queries),
        list(h),
        score=partial(scores.additive, v=v, W=W, U=U, V=V),
        coverage=make(list(h), W=cell.weight_hh, a=a, B=B, T=T),
    )
    C = torch.zeros(4, d, dtype=torch.float64)
    for i in range(5):
        alignment = torch.softmax(torch.tanh(queries[i] @ W.T + h @ U.T + C @ V.T) @ v, dim=0)
        torch.testing.assert_close(trace.alignments[i], alignment)
        C = cell(torch.cat([alignment[:, None], h, queries[i].expand(4, 6)], dim=1), C)
        torch.testing.assert_close(trace.coverage_after[i], C)


def test_embedding_coverage_is_updated_once_the_word_is_known() -> None:
    d, J, E = 3, 4, 2
    cell = nn.GRUCell(E + 1, d, bias=False, dtype=torch.float64)
    parts = {}
    for rows, y, alpha, u in [
        (slice(0, d), "W_ry", "W_ralpha", "U_r"),
        (slice(d, 2 * d), "W_zy", "W_zalpha", "U_z"),
        (slice(2 * d, 3 * d), "W_y", "W_alpha", "U"),
    ]:
        parts |= {y: cell.weight_ih[rows, :E], alpha: cell.weight_ih[rows, E], u: cell.weight_hh[rows]}
    initial, h, queries, words, w = random(J, d), random(J, 5), random(3, 5), random(3, E), random(d)
    trace = attend(
        list(queries),
        list(h),
        words=list(words),
        score=partial(scores.dot, w=w),
        coverage=attention_reference.embedding(list(initial), **parts),
    )
    C = initial
    for i in range(3):
        if i > 0:
            C = cell(torch.cat([words[i].expand(J, E), trace.alignments[i - 1][:, None]], dim=1), C)
        torch.testing.assert_close(trace.coverage_before[i], C)
        torch.testing.assert_close(trace.coverage_after[i], C)
        torch.testing.assert_close(trace.alignments[i], torch.softmax(h @ queries[i] + C @ w, dim=0))


@pytest.mark.parametrize("shared", [True, False])
def test_interactive_writing_equals_numbers_worked_out_by_hand(shared: bool) -> None:
    # W_F = W_U = 0: F = U = 1/2, h ← h (1 − w/2) + w/2
    zero = torch.zeros(1, 2, dtype=torch.float64)
    h = [vector(1.0), vector(2.0)]
    write_score = None if shared else partial(scores.location, W_a=torch.eye(2, dtype=torch.float64))
    trace = attend(
        [logs(1, 3), logs(1, 1)],
        h,
        score=table_score(2),
        writing=Interactive(W_F=zero, W_U=zero, score=write_score),
        post_state=lambda i, context: logs(1, 1),
    )
    w = vector(1 / 4, 3 / 4) if shared else vector(1 / 2, 1 / 2)
    torch.testing.assert_close(trace.contexts[0], vector(7 / 4))
    torch.testing.assert_close(trace.writing_weights[0], w)
    # 1 − w/2 + w/2 = 1 and 2 − w + w/2 = 2 − w/2
    after = vector(1, 2 - w[1].item() / 2)
    torch.testing.assert_close(trace.annotations[1, :, 0], after)
    torch.testing.assert_close(trace.contexts[1], after.mean()[None])
    assert h[1].item() == 2.0


def test_keys_are_computed_from_the_rewritten_annotations() -> None:
    h, W_F, W_U, q, s = random(3, 4), random(4, 4), random(4, 4), random(4), random(4)
    trace = attend(
        [q, q], list(h), score=scores.dot, writing=Interactive(W_F=W_F, W_U=W_U), post_state=lambda i, context: s
    )
    w = torch.softmax(h @ q, dim=0)[:, None]
    written = h * (1 - w * torch.sigmoid(W_F @ s)) + w * torch.sigmoid(W_U @ s)
    torch.testing.assert_close(trace.alignments[1], torch.softmax(written @ q, dim=0))


def test_gradients_of_all_parts_together_equal_finite_differences() -> None:
    def run(q: Tensor, h: Tensor, V: Tensor, W_p: Tensor, v_p: Tensor, W_F: Tensor) -> Tensor:
        coverage = attention_reference.neural_gru(list(h), W=C_W, a=C_a, B=C_B, T=C_T)
        trace = attend(
            list(q),
            list(h),
            score=partial(scores.additive, v=v, W=W, U=U, V=V),
            window=partial(local_p, D=2, W_p=W_p, v_p=v_p, J=4),
            history=partial(temporal, last=2),
            coverage=coverage,
            writing=Interactive(W_F=W_F, W_U=W_U),
            post_state=lambda i, context: torch.tanh(context),
        )
        return trace.contexts

    v, W, U, W_U = random(3), random(3, 2), random(3, 2), random(2, 2)
    C_W, C_a, C_B, C_T = random(6, 2), random(6), random(6, 2), random(6, 2)
    inputs = [random(*shape).requires_grad_() for shape in [(4, 2), (5, 2), (3, 2), (2, 2), (2,), (2, 2)]]
    assert torch.autograd.gradcheck(run, inputs)


# ---------------------------------------------------------------- memory


def addressing(m: int, size: int = 3) -> memory.Addressing:
    return memory.Addressing(W=random(size, m), U=random(size, m), v=random(size), w_g=random(m))


def test_initial_cells_equal_numbers_worked_out_by_hand() -> None:
    result = memory.initial_cells([vector(1.0), vector(3.0)], [vector(0.0), vector(0.25)], W_INI=vector(0.5)[None])
    torch.testing.assert_close(torch.stack(result), vector(math.tanh(1), math.tanh(1) + 0.25)[:, None])


def test_reading_a_memory_of_one_cell_returns_the_cell() -> None:
    zero = torch.zeros(2, 2, dtype=torch.float64)
    buffer = memory.Buffer(
        list(random(4, 3)), [random(2)], W_INI=random(2, 3), reading=addressing(2), W_ERS=zero, W_ADD=zero
    )
    before = buffer.cells[0]
    torch.testing.assert_close(buffer.read(1, random(2)), before)
    buffer.write(1, random(2))
    torch.testing.assert_close(buffer.cells[0], before / 2 + 0.5)  # μ_ERS = μ_ADD = 1/2


def test_addressing_equals_numbers_worked_out_by_hand() -> None:
    # energies 2 ln 3 · (0, 1/2): w̃ = (1/4, 3/4); g = σ(0) = 1/2, w_0 = (1/2, 1/2): w = (3/8, 5/8)
    M = [vector(0.0), vector(math.atanh(0.5))]
    v, one, zero = vector(2 * math.log(3)), vector(1.0)[None], vector(0.0)[None]
    weights, gate = memory.address(M, vector(7.0), memory.uniform_weights(M), W=one, U=zero, v=v, w_g=vector(0.0))
    torch.testing.assert_close(torch.stack(weights), vector(3 / 8, 5 / 8))
    assert gate.item() == 0.5
    torch.testing.assert_close(memory.read(M, weights), M[1] * 5 / 8)


@pytest.mark.parametrize("shared", [True, False])
def test_the_buffer_memory_equals_the_vectorised_formula(shared: bool) -> None:
    n, m, h, noise, states = 5, 4, random(3, 6), random(5, 4), random(4, 4)
    W_INI, W_ERS, W_ADD = random(m, 6), random(m, m), random(m, m)
    reading, writing = addressing(m), None if shared else addressing(m)
    buffer = memory.Buffer(
        list(h), list(noise), W_INI=W_INI, reading=reading, W_ERS=W_ERS, W_ADD=W_ADD, writing=writing
    )

    def address(weights: memory.Addressing, M: Tensor, s: Tensor, w: Tensor) -> Tensor:
        g = torch.sigmoid(s @ weights.w_g)
        return g * w + (1 - g) * torch.softmax(torch.tanh(M @ weights.W.T + s @ weights.U.T) @ weights.v, dim=0)

    M = torch.tanh(h.mean(0) @ W_INI.T) + noise
    w_read = w_write = torch.full((n,), 1 / n, dtype=torch.float64)
    for i in range(1, 4):
        w_read = address(reading, M, states[i - 1], w_read)
        torch.testing.assert_close(buffer.read(i, states[i - 1]), w_read @ M)
        w_write = w_read if shared else address(writing, M, states[i], w_write)
        buffer.write(i, states[i])
        M = M * (1 - torch.outer(w_write, torch.sigmoid(W_ERS @ states[i])))
        M = M + torch.outer(w_write, torch.sigmoid(W_ADD @ states[i]))
        torch.testing.assert_close(torch.stack(buffer.cells), M)
        torch.testing.assert_close(torch.stack(buffer.write_weights[-1]), w_write)


# ---------------------------------------------------------------- decoders

E, H, A, T, J = 3, 4, 6, 3, 5  # word, state, annotation, target steps, source positions


def test_bahdanau_queries_with_the_previous_state_and_updates_with_word_and_context() -> None:
    words, h, s, W, cell = random(T, E), random(J, A), random(H), random(H, A), nn.GRUCell(E + A, H).double()
    attention = Attention(list(h), score=partial(scores.general, W=W))
    steps = decoders.bahdanau(list(words), s, attention, weights=weights_of(cell))
    for i in range(T):
        torch.testing.assert_close(steps[i].previous_state, s)
        context = torch.softmax(h @ (W.T @ s), dim=0) @ h
        s = cell(torch.cat([words[i], context]), s)
        torch.testing.assert_close(steps[i].context, context)
        torch.testing.assert_close(steps[i].state, s)


def test_feedback_queries_with_state_and_word() -> None:
    words, h, s, W, cell = random(T, E), random(J, A), random(H), random(2, A), nn.GRUCell(E + A, H).double()
    W_r, W_y = random(2, H), random(2, E)
    attention = Attention(list(h), score=partial(scores.general, W=W))
    steps = decoders.feedback(list(words), s, attention, W_r=W_r, W_y=W_y, weights=weights_of(cell))
    for i in range(T):
        query = torch.tanh(W_r @ s + W_y @ words[i])
        alignment = torch.softmax(h @ (W.T @ query), dim=0)
        s = cell(torch.cat([words[i], alignment @ h]), s)
        torch.testing.assert_close(steps[i].query, query)
        torch.testing.assert_close(steps[i].alignment, alignment)
        torch.testing.assert_close(steps[i].state, s)


def test_conditional_reads_between_two_grus_and_writes_after_them() -> None:
    words, h, s, W = random(T, E), random(J, A), random(H), random(H, A)
    first, second = nn.GRUCell(E, H).double(), nn.GRUCell(A, H).double()
    W_F, W_U = random(A, H), random(A, H)
    attention = Attention(list(h), score=partial(scores.general, W=W), writing=Interactive(W_F=W_F, W_U=W_U))
    steps = decoders.conditional(list(words), s, attention, first=weights_of(first), second=weights_of(second))
    for i in range(T):
        query = first(words[i], s)
        alignment = torch.softmax(h @ (W.T @ query), dim=0)
        s = second(alignment @ h, query)
        h = h * (1 - torch.outer(alignment, torch.sigmoid(W_F @ s))) + torch.outer(alignment, torch.sigmoid(W_U @ s))
        torch.testing.assert_close(steps[i].alignment, alignment)
        torch.testing.assert_close(steps[i].state, s)
    torch.testing.assert_close(torch.stack(attention.h), h)


class ConstantMemory:
    """A memory that always returns the same r, and records the states of its calls."""

    def __init__(self, r: Tensor) -> None:
        self.r, self.read_states, self.written_states = r, [], []

    def read(self, i: int, state: Tensor) -> Tensor:
        self.read_states.append(state)
        return self.r

    def write(self, i: int, state: Tensor) -> None:
        self.written_states.append(state)


def test_the_memory_replaces_the_previous_state_in_every_decoder() -> None:
    words, h, s, r = list(random(T, E)), list(random(J, A)), random(H), random(H)
    one, two, both = nn.GRUCell(E, H).double(), nn.GRUCell(A, H).double(), nn.GRUCell(E + A, H).double()
    W, W_r, W_y = random(H, A), random(H, H), random(H, E)
    calls = [
        partial(decoders.bahdanau, weights=weights_of(both)),
        partial(decoders.feedback, weights=weights_of(both), W_r=W_r, W_y=W_y),
        partial(decoders.conditional, first=weights_of(one), second=weights_of(two)),
    ]
    for call in calls:
        constant = ConstantMemory(r)
        steps = call(words, s, Attention(h, score=partial(scores.general, W=W)), memory=constant)
        assert all(a is b for a, b in zip(constant.written_states, [step.state for step in steps], strict=True))
        assert all(a is b for a, b in zip(constant.read_states, [s, *constant.written_states[:-1]], strict=True))
        for i in range(T):  # each step equals a first step that starts at r
            alone = call([words[i]], r, Attention(h, score=partial(scores.general, W=W)))
            torch.testing.assert_close(steps[i].state, alone[0].state)


@pytest.mark.parametrize("input_feeding", [False, True])
def test_luong_is_a_stacked_lstm_with_attention_on_top(input_feeding: bool) -> None:
    fed = H if input_feeding else 0
    layers = [nn.LSTMCell(E + fed, H).double(), nn.LSTMCell(H, H).double()]
    words, h, W, W_c = random(T, E), random(J, A), random(H, A), random(H, A + H)
    states = [(random(H), random(H)), (random(H), random(H))]
    steps = decoders.luong(
        list(words),
        states,
        Attention(list(h), score=partial(scores.general, W=W)),
        layers=[weights_of(layer) for layer in layers],
        W_c=W_c,
        input_feeding=input_feeding,
    )
    (h1, c1), (h2, c2) = states
    attentional = torch.zeros(H, dtype=torch.float64)
    for i in range(T):
        h1, c1 = layers[0](torch.cat([words[i], attentional[:fed]]), (h1, c1))
        h2, c2 = layers[1](h1, (h2, c2))
        context = torch.softmax(h @ (W.T @ h2), dim=0) @ h
        attentional = torch.tanh(functional.linear(torch.cat([context, h2]), W_c))
        torch.testing.assert_close(steps[i].state, h2)
        torch.testing.assert_close(steps[i].context, context)
        torch.testing.assert_close(steps[i].attentional, attentional)


def test_initial_states_equal_numbers_worked_out_by_hand() -> None:
    h = [vector(1, 2, 3, 4), vector(3, 2, 1, 0)]
    W = torch.eye(2, dtype=torch.float64) / 10
    torch.testing.assert_close(
        decoders.initial_state_backward(h, W=W, b=vector(0, 1)), vector(math.tanh(0.3), math.tanh(1.4))
    )
    W = vector(1, 0, 0, 1)[None] / 10
    torch.testing.assert_close(decoders.initial_state_mean(h, W=W, b=vector(1.0)), vector(math.tanh(1.4)))


def test_readouts_equal_numbers_worked_out_by_hand() -> None:
    s, e, c, one = vector(1.0), vector(2.0), vector(4.0), vector(1.0)[None]
    torch.testing.assert_close(
        decoders.deep_output(s, e, c, W_l=one, W_p=one / 2, W_c=one / 4, b=vector(-1.0)), vector(math.tanh(2))
    )
    up = vector(1, -1, 0, 5)[:, None]
    # s (1, −1, 0, 5) + 2 (0, 0, 3, 1) = (1, −1, 6, 7): the pairs give 1 and 7
    result = decoders.maxout(
        s, e, c, U_o=up, V_o=vector(0, 0, 3, 1)[:, None], C_o=up * 0, W_o=vector(1, 10)[None], b_o=vector(0.5)
    )
    torch.testing.assert_close(result, vector(71.5))
    torch.testing.assert_close(decoders.luong_readout(s, c, W_c=vector(0.5, -1)[None]), vector(math.tanh(1)))


# ---------------------------------------------------------------- search


def test_exhaustive_search_finds_a_better_sequence_than_greedy_search() -> None:
    # ids: 0 end, 1, 2. Greedy takes 1 (0.6), then at best 0.4. The best sequence is 2 (0.4), then the end (1.0).
    table = {(): logs(0, 0.6, 0.4), (1,): logs(0.4, 0.3, 0.3), (2,): logs(1, 0, 0)}
    assert search.greedy(table.__getitem__, end=0, max_length=2) == ((1, 0), pytest.approx(math.log(0.24)))
    assert search.exhaustive(table.__getitem__, end=0, max_length=2) == ((2, 0), pytest.approx(math.log(0.4)))


def test_length_normalisation_prefers_the_longer_sequence() -> None:
    table = {(): logs(0.5, 0.5), (1,): logs(0.8, 0.2)}  # 0 ends; log 0.5 = −0.69, log 0.4 = −0.92
    assert search.exhaustive(table.__getitem__, end=0, max_length=2) == ((0,), pytest.approx(math.log(0.5)))
    result = search.exhaustive(table.__getitem__, end=0, max_length=2, alpha=1.0)
    assert result == ((1, 0), pytest.approx(math.log(0.4) / 2))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("allow_unfinished", [False, True])
def test_exhaustive_search_finds_the_best_of_the_cartesian_product(alpha: float, allow_unfinished: bool) -> None:
    V, length, end = 3, 4, 1
    table = torch.log_softmax(random(V + 1, V), dim=1)  # depends on the previous symbol; row V: no previous symbol

    def model(prefix: tuple[int, ...]) -> Tensor:
        return table[prefix[-1] if prefix else V]

    candidates = {}
    for symbols in itertools.product(range(V), repeat=length):
        finished = end in symbols
        if not finished and not allow_unfinished:
            continue
        sequence = symbols[: symbols.index(end) + 1] if finished else symbols
        total = sum(table[before, after].item() for before, after in zip((V, *sequence), sequence, strict=False))
        candidates[sequence] = total / len(sequence) ** alpha
    best, score = search.exhaustive(model, end=end, max_length=length, alpha=alpha, allow_unfinished=allow_unfinished)
    assert best == max(candidates, key=candidates.get)
    assert score == pytest.approx(max(candidates.values()))
    everything = list(search.all_sequences(model, end=end, max_length=length, allow_unfinished=allow_unfinished))
    assert {sequence for sequence, _ in everything} == set(candidates)
    if allow_unfinished:
        assert sum(math.exp(log_probability) for _, log_probability in everything) == pytest.approx(1.0)
