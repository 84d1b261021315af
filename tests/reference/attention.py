"""Attention: score → history → softmax in the window → Gaussian → context → coverage update → write.

Each part gets its weights by functools.partial:

    Attention(h, score=partial(scores.additive, v=v, W=W, U=U, V=V), window=partial(local_m, D=10),
              history=temporal, coverage=neural_gru(h, W=…, a=…, B=…, T=…), writing=Interactive(W_F=…, W_U=…))
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .cells import gru

Score = Callable[..., Tensor]  # (query, annotation, j, coverage or None) → e_ij


# ---------------------------------------------------------------- windows (Luong 2015 §3.2)


class Window(NamedTuple):
    """The positions first..last of a step, with p_i of a local window, and with σ of a Gaussian."""

    first: int
    last: int
    position: Tensor | None = None
    sigma: float | None = None


def global_window(i: int, query: Tensor, positions: int) -> Window:
    """Return all positions."""
    return Window(1, positions)


def local_m(i: int, query: Tensor, positions: int, *, D: int, J: int | None = None) -> Window:
    """Return the window of local-m; J does not count the end symbol (None: the source has none)."""
    J = positions if J is None else J
    p = min(i, J)  # p_i = min(i, J), nmt.matlab
    return Window(max(1, p - D), min(positions, p + D), query.new_tensor(float(p)))  # [p_i − D, p_i + D], footnote 8


def local_p(i: int, query: Tensor, positions: int, *, D: int, W_p: Tensor, v_p: Tensor, J: int | None = None) -> Window:
    """Return the window of local-p; J does not count the end symbol (None: the source has none)."""
    J = positions if J is None else J
    p = J * torch.sigmoid(v_p @ torch.tanh(W_p @ query))  # eq. 10: p_i = J · σ(v_p · tanh(W_p q))
    centre = math.floor(p.item())  # the window itself passes no gradient
    return Window(max(1, centre - D), min(positions, centre + D), p, sigma=D / 2)


# ---------------------------------------------------------------- histories (Sankaran 2016 §3)


def no_history(i: int, j: int, energies: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return exp(e_ij), the numerator of the softmax; energies[k − 1][j − 1] is e_kj for all steps k ≤ i."""
    return torch.exp(energies[i - 1][j - 1])  # b_ij = exp(e_ij)


def temporal(i: int, j: int, energies: Sequence[Sequence[Tensor]], *, last: int | None = None) -> Tensor:
    """Return b_ij of temporal attention (Sankaran 2016 eq. 6–7), over all past steps or the `last` n."""
    e = energies[i - 1][j - 1]
    if e.item() == float("-inf"):  # a position without attention: 0, because 0/0 is NaN
        return torch.zeros_like(e)
    if i == 1:
        return torch.exp(e)  # b_1j = exp(e_1j)
    oldest = 1 if last is None else max(1, i - last)
    past = torch.zeros_like(e)
    for k in range(oldest, i):
        past = past + torch.exp(energies[k - 1][j - 1])  # eq. 6: Σ_{k<i} exp(e_kj)
    return torch.exp(e) / past  # eq. 7


# ---------------------------------------------------------------- coverage (Tu 2016 §3; Sankaran 2016 §4.1)


@dataclass
class Coverage:
    """C_0j of each source position, and the update C_ij = update(j, C_{i−1,j}, α_ij, h_j, t_{i−1}, e(y_i)).

    t_{i−1} is the query of step i. Only the embedding coverage needs e(y_i): its update `waits_for_word` until the
    next read. The other coverages get None for it.
    """

    initial: list[Tensor]
    update: Callable[[int, Tensor, Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
    waits_for_word: bool = False
    fertilities: list[Tensor] | None = None


def linguistic(annotations: Sequence[Tensor]) -> Coverage:
    """Return the coverage that sums the weights (Tu 2016 eq. 7 with Φ = 1); d = 1."""

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        return C + alpha  # C_ij = C_{i−1,j} + α_ij

    return Coverage([h.new_zeros(1) for h in annotations], update)


def fertility(annotations: Sequence[Tensor], *, U_f: Tensor, N: float = 2.0) -> Coverage:
    """Return the coverage with fertility (Tu 2016 eq. 7–8); U_f is a vector, d = 1."""
    Phi = [N * torch.sigmoid(U_f @ h) for h in annotations]  # eq. 8: Φ_j = N · σ(U_f h_j), once a sentence

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        return C + alpha / Phi[j - 1]  # eq. 7

    return Coverage([h.new_zeros(1) for h in annotations], update, fertilities=Phi)


def neural_tanh(annotations: Sequence[Tensor], *, W: Tensor, a: Tensor, B: Tensor, T: Tensor) -> Coverage:
    """Return the coverage of Tu 2016 §3.1.2 with f = tanh: W (d, d), a (d,), B (d, annotation), T (d, query)."""

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        return torch.tanh(W @ C + a * alpha + B @ h + T @ t)

    return Coverage([h.new_zeros(W.shape[1]) for h in annotations], update)


def neural_gru(annotations: Sequence[Tensor], *, W: Tensor, a: Tensor, B: Tensor, T: Tensor) -> Coverage:
    """Return the coverage of Tu 2016 §3.1.2 with f = GRU, without biases; each matrix stacks the gates r, z, n.

    W (3d, d), a (3d,), B (3d, annotation), T (3d, query).
    """
    W_ih = torch.cat([a.unsqueeze(1), B, T], dim=1)

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        return gru(torch.cat([alpha.reshape(1), h, t]), C, W_ih=W_ih, W_hh=W)

    return Coverage([h.new_zeros(W.shape[1]) for h in annotations], update)


def embedding(
    initial: Sequence[Tensor],
    *,
    W_zy: Tensor,
    W_zalpha: Tensor,
    U_z: Tensor,
    W_ry: Tensor,
    W_ralpha: Tensor,
    U_r: Tensor,
    W_y: Tensor,
    W_alpha: Tensor,
    U: Tensor,
) -> Coverage:
    """Return coverage embeddings (Mi 2016, as described in Sankaran 2016 §4.1), without biases.

    `initial` holds C_0j, an embedding of each source word. W_*y (d, target embedding), W_*alpha (d,), U* (d, d).
    """

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        z = torch.sigmoid(W_zy @ word + W_zalpha * alpha + U_z @ C)
        r = torch.sigmoid(W_ry @ word + W_ralpha * alpha + U_r @ C)
        candidate = torch.tanh(W_y @ word + W_alpha * alpha + r * (U @ C))
        return z * C + (1 - z) * candidate

    return Coverage(list(initial), update, waits_for_word=True)


def fertility_penalty(fertilities: Sequence[Tensor], alignments: Sequence[Tensor], *, weight: float = 1.0) -> Tensor:
    """Return the auxiliary objective of Tu 2016 §4, a term of the loss: λ Σ_j (Φ_j − Σ_i α_ij)²."""
    penalty = torch.zeros_like(fertilities[0])
    for j in range(1, len(fertilities) + 1):
        total = torch.zeros_like(fertilities[0])
        for alignment in alignments:
            total = total + alignment[j - 1]
        penalty = penalty + (fertilities[j - 1] - total) ** 2
    return weight * penalty


# ---------------------------------------------------------------- writing (Meng 2016 §3.1)


@dataclass
class Interactive:
    """The parameters of the attentive write; without a `score` for s_i it uses the weights of reading."""

    W_F: Tensor
    W_U: Tensor
    score: Score | None = None


# ---------------------------------------------------------------- the attention


class Trace(NamedTuple):
    """All values of one sentence's reads and writes; None if a part is absent."""

    contexts: Tensor  # (I, annotation)
    alignments: Tensor  # (I, J)
    energies: Tensor  # (I, J), before the history
    coverage_before: Tensor | None  # (I, J, d): C_{i−1}, as it entered the energy of step i
    coverage_after: Tensor | None  # (I, J, d): C_i, or C_{i−1} of the embedding coverage, whose update waits for y_i
    fertilities: Tensor | None  # (J,)
    positions: Tensor | None  # (I,): p_i of a local window
    writing_weights: Tensor | None  # (writes, J)
    annotations: Tensor  # (writes + 1, J, annotation): h_j before the first step and after each write


class Attention:
    """The attention of one sentence; each step calls `read`, then `write`."""

    def __init__(
        self,
        annotations: Sequence[Tensor],
        *,
        score: Score,
        window: Callable[[int, Tensor, int], Window] = global_window,
        history: Callable[[int, int, Sequence[Sequence[Tensor]]], Tensor] = no_history,
        coverage: Coverage | None = None,
        writing: Interactive | None = None,
    ) -> None:
        self.h = list(annotations)
        self.score, self.window, self.history, self.coverage, self.writing = score, window, history, coverage, writing
        self.C: list[Tensor] | None = None if coverage is None else list(coverage.initial)
        self.energies: list[list[Tensor]] = []
        self.alignments: list[list[Tensor]] = []
        self.contexts: list[Tensor] = []
        self.coverage_before: list[list[Tensor]] = []
        self.coverage_after: list[list[Tensor]] = []
        self.positions: list[Tensor] = []
        self.writing_weights: list[list[Tensor]] = []
        self.versions: list[list[Tensor]] = [list(self.h)]

    def read(self, i: int, query: Tensor, word: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return context c_i and alignment α_i (J,) of step i; `word` is e(y_{i−1})."""
        assert i == len(self.energies) + 1, "steps are read in order, beginning with 1"
        J = len(self.h)
        if self.coverage is not None and self.coverage.waits_for_word and i > 1:
            self._update_coverage(self.alignments[i - 2], None, word)  # y_{i−1} is known now
        if self.C is not None:
            self.coverage_before.append(list(self.C))

        # e_ij = score(q, h_j, C_{i−1,j})
        e = []
        for j in range(1, J + 1):
            e.append(self.score(query, self.h[j - 1], j, None if self.C is None else self.C[j - 1]))
        self.energies.append(e)

        # b_ij = history(e_ij), at all positions
        b = []
        for j in range(1, J + 1):
            b.append(self.history(i, j, self.energies))

        # α_ij = b_ij / Σ_j b_ij inside the window, exactly 0 outside it (Sankaran 2016 eq. 8, Luong 2015 eq. 7)
        window = self.window(i, query, J)
        total = query.new_zeros(())
        for j in range(window.first, window.last + 1):
            total = total + b[j - 1]
        alpha = []
        for j in range(1, J + 1):
            inside = window.first <= j <= window.last and e[j - 1].item() != float("-inf")
            alpha.append(b[j - 1] / total if inside else query.new_zeros(()))

        # α_ij = α_ij exp(−(j − p_i)² / 2σ²), not renormalised (Luong 2015 eq. 11)
        if window.sigma is not None:
            for j in range(1, J + 1):
                alpha[j - 1] = alpha[j - 1] * torch.exp(-((j - window.position) ** 2) / (2 * window.sigma**2))
        if window.position is not None:
            self.positions.append(window.position)

        # c_i = Σ_j α_ij h_j (Tu 2016 eq. 3)
        context = torch.zeros_like(self.h[0])
        for j in range(1, J + 1):
            context = context + alpha[j - 1] * self.h[j - 1]
        self.alignments.append(alpha)
        self.contexts.append(context)

        if self.coverage is not None:
            if not self.coverage.waits_for_word:
                self._update_coverage(alpha, query, None)
            self.coverage_after.append(list(self.C))
        return context, torch.stack(alpha)

    def write(self, i: int, state: Tensor) -> None:
        """Rewrite the annotations with s_i (Meng 2016 eq. 12–13), if there is a writing."""
        if self.writing is None:
            return
        J = len(self.h)
        if self.writing.score is None:
            w = self.alignments[i - 1]  # w^W = w^R
        else:
            b = []
            for j in range(1, J + 1):
                b.append(torch.exp(self.writing.score(state, self.h[j - 1], j, None)))
            total = state.new_zeros(())
            for j in range(1, J + 1):
                total = total + b[j - 1]
            w = [b[j - 1] / total for j in range(1, J + 1)]
        F = torch.sigmoid(self.writing.W_F @ state)  # F_i = σ(W_F s_i)
        U = torch.sigmoid(self.writing.W_U @ state)  # U_i = σ(W_U s_i)
        for j in range(1, J + 1):
            forgotten = self.h[j - 1] * (1 - w[j - 1] * F)  # eq. 12
            self.h[j - 1] = forgotten + w[j - 1] * U  # eq. 13
        self.writing_weights.append(w)
        self.versions.append(list(self.h))

    def trace(self) -> Trace:
        """Return the values of all steps so far."""
        fertilities = None if self.coverage is None else self.coverage.fertilities
        return Trace(
            contexts=torch.stack(self.contexts),
            alignments=_table(self.alignments),
            energies=_table(self.energies),
            coverage_before=_table(self.coverage_before),
            coverage_after=_table(self.coverage_after),
            fertilities=None if fertilities is None else torch.stack(fertilities),
            positions=torch.stack(self.positions) if self.positions else None,
            writing_weights=_table(self.writing_weights),
            annotations=_table(self.versions),
        )

    def _update_coverage(self, alpha: Sequence[Tensor], query: Tensor | None, word: Tensor | None) -> None:
        for j in range(1, len(self.h) + 1):
            self.C[j - 1] = self.coverage.update(j, self.C[j - 1], alpha[j - 1], self.h[j - 1], query, word)


class NoAttention:
    """A decoder without attention: the context is empty, and all weights are 0."""

    def __init__(self, annotations: Sequence[Tensor]) -> None:
        self.h, self.steps = list(annotations), 0

    def read(self, i: int, query: Tensor, word: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self.steps = i
        return query.new_zeros(0), query.new_zeros(len(self.h))

    def write(self, i: int, state: Tensor) -> None: ...

    def trace(self) -> Trace:
        zeros = self.h[0].new_zeros(self.steps, len(self.h))
        return Trace(
            contexts=zeros[:, :0],
            alignments=zeros,
            energies=zeros,
            coverage_before=None,
            coverage_after=None,
            fertilities=None,
            positions=None,
            writing_weights=None,
            annotations=torch.stack(self.h)[None],
        )


def attend(
    queries: Sequence[Tensor],
    annotations: Sequence[Tensor],
    *,
    score: Score,
    words: Sequence[Tensor] | None = None,
    window: Callable[[int, Tensor, int], Window] = global_window,
    history: Callable[[int, int, Sequence[Sequence[Tensor]]], Tensor] = no_history,
    coverage: Coverage | None = None,
    writing: Interactive | None = None,
    post_state: Callable[[int, Tensor], Tensor] | None = None,
) -> Trace:
    """Read once for each query; words[i−1] is e(y_{i−1}), and a writing gets s_i = post_state(i, c_i)."""
    attention = Attention(annotations, score=score, window=window, history=history, coverage=coverage, writing=writing)
    for i in range(1, len(queries) + 1):
        context, _ = attention.read(i, queries[i - 1], None if words is None else words[i - 1])
        if writing is not None:
            attention.write(i, post_state(i, context))
    return attention.trace()


def _table(rows: Sequence[Sequence[Tensor]]) -> Tensor | None:
    return torch.stack([torch.stack(list(row)) for row in rows]) if rows else None
