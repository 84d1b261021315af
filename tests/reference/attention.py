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
    """The positions first..last of a step, with p_i of a local window, and with the factor of each position j."""

    first: int
    last: int
    position: Tensor | None = None
    factor: Callable[[int], Tensor] | None = None


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
    sigma = D / 2

    def gaussian(j: int) -> Tensor:
        return torch.exp(-((j - p) ** 2) / (2 * sigma**2))  # eq. 11: exp(−(j − p_i)² / 2σ²)

    return Window(max(1, centre - D), min(positions, centre + D), p, gaussian)


class Mixture:
    """The window of Graves 2013 eq. 46–51: W (3K, query) and b stack â, b̂ and κ̂."""

    def __init__(self, *, W: Tensor, b: Tensor) -> None:
        self.W, self.b = W, b
        self.kappa = b.new_zeros(len(b) // 3)  # κ_0

    def __call__(self, i: int, query: Tensor, positions: int) -> Window:
        """Return all positions, with φ(i, j) as their factor; κ moves at each call."""
        a_hat, b_hat, kappa_hat = (self.W @ query + self.b).chunk(3)
        a, b = torch.exp(a_hat), torch.exp(b_hat)  # eq. 49–50
        self.kappa = kappa = self.kappa + torch.exp(kappa_hat)  # eq. 51

        def phi(j: int) -> Tensor:
            total = query.new_zeros(())
            for k in range(len(a)):
                total = total + a[k] * torch.exp(-b[k] * (kappa[k] - j) ** 2)  # eq. 46
            return total

        return Window(1, positions, (a * kappa).sum() / a.sum(), phi)


# ---------------------------------------------------------------- from numerators to weights


def softmax(numerators: Sequence[Tensor]) -> list[Tensor]:
    """Return b_j / Σ_j b_j, where b_j = exp(e_j) (Luong 2015 eq. 7, Sankaran 2016 eq. 8)."""
    total = torch.zeros_like(numerators[0])
    for b in numerators:
        total = total + b
    return [b / total for b in numerators]


def exponential(numerators: Sequence[Tensor]) -> list[Tensor]:
    """Return b_j = exp(e_j) itself (Luong 2015, footnote 6)."""
    return list(numerators)


def sparsemax(numerators: Sequence[Tensor]) -> list[Tensor]:
    """Return max(e_j − τ, 0) with the sum 1 (Martins and Astudillo 2016), by trying every size of the support."""
    energies = [torch.log(b) for b in numerators]
    for size in range(1, len(energies) + 1):
        largest = sorted(energies, key=Tensor.item, reverse=True)[:size]
        threshold = (sum(largest[1:], largest[0]) - 1) / size
        weights = [torch.clamp(e - threshold, min=0) for e in energies]
        if abs(sum(weights[1:], weights[0]).item() - 1) < 1e-12:
            return weights
    raise AssertionError("one size of the support gives the sum 1")


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
    shown: bool | list[bool] = True  # the trace shows the vectors; of a list: these dimensions of them
    context: Tensor | None = None  # c_i, e_ij and α_i of the step, set before an update
    energies: Sequence[Tensor] | None = None
    alignment: Sequence[Tensor] | None = None


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


def neural_tanh(
    annotations: Sequence[Tensor],
    *,
    W: Tensor,
    a: Tensor,
    B: Tensor,
    T: Tensor,
    C_c: Tensor | None = None,
    b_e: Tensor | None = None,
) -> Coverage:
    """Return the coverage of Tu 2016 §3.1.2 with f = tanh: W (d, d), a (d,), B (d, annotation), T (d, query).

    Footnote 3: C_c (d, context) and b_e (d,) make c_i and e_ij further inputs.
    """

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        inputs = a * alpha + B @ h + T @ t
        if C_c is not None:
            inputs = inputs + C_c @ coverage.context
        if b_e is not None:
            inputs = inputs + b_e * coverage.energies[j - 1]
        return torch.tanh(W @ C + inputs)

    coverage = Coverage([h.new_zeros(W.shape[1]) for h in annotations], update)
    return coverage


def neural_gru(
    annotations: Sequence[Tensor],
    *,
    W: Tensor,
    a: Tensor,
    B: Tensor,
    T: Tensor,
    C_c: Tensor | None = None,
    b_e: Tensor | None = None,
) -> Coverage:
    """Return the coverage of Tu 2016 §3.1.2 with f = GRU, without biases; each matrix stacks the gates r, z, n.

    W (3d, d), a (3d,), B (3d, annotation), T (3d, query); footnote 3: C_c (3d, context), b_e (3d,).
    """

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        matrices, inputs = [a.unsqueeze(1), B, T], [alpha.reshape(1), h, t]
        if C_c is not None:
            matrices.append(C_c)
            inputs.append(coverage.context)
        if b_e is not None:
            matrices.append(b_e.unsqueeze(1))
            inputs.append(coverage.energies[j - 1].reshape(1))
        return gru(torch.cat(inputs), C, W_ih=torch.cat(matrices, dim=1), W_hh=W)

    coverage = Coverage([h.new_zeros(W.shape[1]) for h in annotations], update)
    return coverage


def location_aware(annotations: Sequence[Tensor], *, F: Tensor) -> Coverage:
    """Return the features f_ij = Σ_m F_m α_{i−1, j+m} of Chorowski 2015 eq. 8; F is (filters, 2r + 1).

    The update of step i needs α_i of all positions: C_i is computed from the alignment that `read` sets.
    """
    filters, width = F.shape
    radius = width // 2

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        feature = F.new_zeros(filters)
        for m in range(-radius, radius + 1):
            if 1 <= j + m <= len(annotations):
                feature = feature + F[:, m + radius] * coverage.alignment[j + m - 1]
        return feature

    coverage = Coverage([h.new_zeros(filters) for h in annotations], update, shown=False)
    return coverage


def joined(parts: Sequence[Coverage]) -> Coverage:
    """Return coverages side by side as one."""
    sizes = [len(part.initial[0]) for part in parts]

    def update(j: int, C: Tensor, alpha: Tensor, h: Tensor, t: Tensor | None, word: Tensor | None) -> Tensor:
        pieces = []
        for part, piece in zip(parts, C.split(sizes), strict=True):
            part.context, part.energies, part.alignment = coverage.context, coverage.energies, coverage.alignment
            pieces.append(part.update(j, piece, alpha, h, t, word))
        return torch.cat(pieces)

    coverage = Coverage([torch.cat(pieces) for pieces in zip(*(part.initial for part in parts), strict=True)], update)
    coverage.shown = [index for part, size in zip(parts, sizes, strict=True) for index in [part.shown] * size]
    return coverage


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


# ---------------------------------------------------------------- penalties: terms of the loss of a sentence


def fertility_penalty(fertilities: Sequence[Tensor], alignments: Sequence[Tensor], *, weight: float = 1.0) -> Tensor:
    """Return the auxiliary objective of Tu 2016 §4: λ Σ_j (Φ_j − Σ_i α_ij)²."""
    penalty = torch.zeros_like(fertilities[0])
    for j in range(1, len(fertilities) + 1):
        total = torch.zeros_like(fertilities[0])
        for alignment in alignments:
            total = total + alignment[j - 1]
        penalty = penalty + (fertilities[j - 1] - total) ** 2
    return weight * penalty


def doubly_stochastic(alignments: Sequence[Tensor], *, weight: float) -> Tensor:
    """Return λ Σ_j (1 − Σ_i α_ij)² (Xu 2015 eq. 14)."""
    ones = [torch.ones_like(alpha) for alpha in alignments[0]]
    return fertility_penalty(ones, alignments, weight=weight)


def coverage_loss(alignments: Sequence[Tensor], *, weight: float) -> Tensor:
    """Return λ Σ_i Σ_j min(α_ij, c_ij), c_ij = Σ_{k<i} α_kj (See 2017 eq. 12)."""
    loss = torch.zeros_like(alignments[0][0])
    for i, alignment in enumerate(alignments):
        for j, alpha in enumerate(alignment):
            before = torch.zeros_like(alpha)
            for earlier in alignments[:i]:
                before = before + earlier[j]
            loss = loss + (alpha if alpha <= before else before)
    return weight * loss


def guided(alignments: Sequence[Tensor], links: Sequence[Sequence[int]], *, weight: float) -> Tensor:
    """Return −λ Σ_i Σ_j A_ij log α_ij; links[i] are the source positions, from 0, of target word i.

    A_ij is 1 / (number of links of word i) at a link (Chen 2016 §3).
    """
    loss = torch.zeros_like(alignments[0][0])
    for alignment, positions in zip(alignments, links, strict=True):
        for j in positions:
            loss = loss - torch.log(alignment[j]) / len(positions)
    return weight * loss


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
        weights: Callable[[Sequence[Tensor]], list[Tensor]] = softmax,
        window: Callable[[int, Tensor, int], Window] = global_window,
        history: Callable[[int, int, Sequence[Sequence[Tensor]]], Tensor] = no_history,
        coverage: Coverage | None = None,
        writing: Interactive | None = None,
    ) -> None:
        self.h = list(annotations)
        self.score, self.window, self.history, self.coverage, self.writing = score, window, history, coverage, writing
        self.weights = weights
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

        # α_i = weights(b_i) inside the window, exactly 0 outside it and at −inf
        window = self.window(i, query, J)
        inside = [j for j in range(window.first, window.last + 1) if e[j - 1].item() != float("-inf")]
        alpha = [query.new_zeros(()) for _ in range(J)]
        if inside:
            for j, weight in zip(inside, self.weights([b[j - 1] for j in inside]), strict=True):
                alpha[j - 1] = weight

        # α_ij = α_ij · factor, not renormalised (Luong 2015 eq. 11)
        if window.factor is not None:
            for j in range(1, J + 1):
                alpha[j - 1] = alpha[j - 1] * window.factor(j)
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
            if self.coverage.shown is True:
                self.coverage_after.append(list(self.C))
            elif self.coverage.shown:
                self.coverage_after.append([C[torch.tensor(self.coverage.shown)] for C in self.C])
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
            w = self.weights(b)
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
        self.coverage.context, self.coverage.energies = self.contexts[-1], self.energies[-1]
        self.coverage.alignment = alpha
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
    weights: Callable[[Sequence[Tensor]], list[Tensor]] = softmax,
    words: Sequence[Tensor] | None = None,
    window: Callable[[int, Tensor, int], Window] = global_window,
    history: Callable[[int, int, Sequence[Sequence[Tensor]]], Tensor] = no_history,
    coverage: Coverage | None = None,
    writing: Interactive | None = None,
    post_state: Callable[[int, Tensor], Tensor] | None = None,
) -> Trace:
    """Read once for each query; words[i−1] is e(y_{i−1}), and a writing gets s_i = post_state(i, c_i)."""
    parts = {"window": window, "history": history, "coverage": coverage, "writing": writing}
    attention = Attention(annotations, score=score, weights=weights, **parts)
    for i in range(1, len(queries) + 1):
        context, _ = attention.read(i, queries[i - 1], None if words is None else words[i - 1])
        if writing is not None:
            attention.write(i, post_state(i, context))
    return attention.trace()


def _table(rows: Sequence[Sequence[Tensor]]) -> Tensor | None:
    return torch.stack([torch.stack(list(row)) for row in rows]) if rows else None
