"""Attention over the source, joined from parts; every part but score and weights is optional.

    read:   e_ij = score(q, h_j, V C_{i-1,j})
            e_ij = history(e_ij)                        temporal attention
            α_i  = weights(e_i)                         a softmax over all j or over a window, whose factor follows
            c_i  = Σ_j α_ij h_j
            C_i  = coverage(C_{i-1}, α_i)
    write:  h_j  = writing(h_j, s_i)                    interactive attention
    train:  loss + penalty(α)

A decoder calls `bind` once for a sentence, `read` in every step, and `write` once s_i is known.
All beams of a sentence read the same annotations, unless a writing gives each beam a copy.
"""

import inspect
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError, UserError
from nmt.model.attention.coverage import Coverage, ReadStep
from nmt.model.attention.history import History
from nmt.model.attention.penalty import Penalty
from nmt.model.attention.score import Bias, Score
from nmt.model.attention.weights import Weights
from nmt.model.attention.window import Window
from nmt.model.attention.writing import Writing
from nmt.model.encoder import EncodedSource
from nmt.model.tree import Tree, repeat_per_hypothesis


class ReadResult(NamedTuple):
    """The result of one read."""

    context: Float[Tensor, "hypothesis context"]  # c_i
    alignment: Float[Tensor, "hypothesis source"]  # α_i
    state: Tree
    trace: dict[str, Tensor]  # further values for plots and analyses, by name


@runtime_checkable
class AttentionInterface(Protocol):
    """The interface that a decoder needs; an attention that is not joined from parts implements it too."""

    context_size: int
    # An attention also has `penalty`: a term of the training objective, or None. It is not declared here, because from
    # Python 3.12 on isinstance() with a protocol does not see the submodules of a module.

    def bind(self, source: EncodedSource) -> tuple[Tree, Tree]:
        """Return the values that are fixed for each sentence, and the first state."""

    def read(self, query: Tensor, word: Tensor, state: Tree, bound: Tree) -> ReadResult:
        """Return context, alignment and new state; `word` is e(y_{i-1})."""

    def write(self, hidden: Tensor, state: Tree, bound: Tree) -> Tree:
        """Return the state after the decoder's new state s_i is known."""


class ProjectedSource(NamedTuple):
    """The annotations and their projections; first dimension: sentences, or hypotheses with a writing."""

    annotations: Float[Tensor, "batch source annotation"]
    keys: Tensor  # of the score
    coverage_inputs: Tree


class AttentionBound(NamedTuple):
    """Values that are fixed for each sentence."""

    source: Tree  # a ProjectedSource; () with a writing, because it then belongs to the state
    padding: Float[Tensor, "batch source"]  # 0 at real positions, −inf at padding; added to energies
    window: Tree
    coverage: Tree


class AttentionState(NamedTuple):
    """Values that change at every step; () for a part that is absent."""

    source: Tree  # a ProjectedSource, with a writing
    alignment: Tree  # α_i between read and write, with a writing
    window: Tree
    history: Tree
    coverage: Tree


class Attention(nn.Module):
    """An attention joined from parts; None leaves a part out."""

    def __init__(
        self,
        *,
        context_size: int,
        score: Score,
        weights: Weights,
        window: Window | None,
        history: History | None,
        coverage: Coverage | None,
        writing: Writing | None,
        penalty: Penalty | None,
    ):
        super().__init__()
        parts = {"window": window, "history": history, "coverage": coverage, "writing": writing, "penalty": penalty}
        for name, part in parts.items():
            if part is not None and not isinstance(part, nn.Module):
                raise ConfigurationError(f"attention.{name}: has settings, but no choice. Fix: attention/{name}=NAME")
        if window is not None and writing is not None and not writing.shared:
            raise ConfigurationError(
                "attention.writing.shared=false: separate weights would write outside the window. "
                "Fix: attention.writing.shared=true, or no window (~attention/window)"
            )
        at_most_one = getattr(score, "at_most_zero", False) and history is None and coverage is None
        if not weights.normalizes and not at_most_one:
            raise ConfigurationError(
                "attention/weights: exp(e_ij) of this score, history or coverage may be above 1. "
                "Fix: attention/weights=softmax"
            )
        if penalty is not None and (missing := set(penalty.needs) - set(coverage.shows if coverage else ())):
            raise ConfigurationError(
                f"attention/penalty: needs a coverage that shows {' and '.join(sorted(missing))}. "
                "Fix: choose such an attention/coverage"
            )
        self.context_size = context_size
        self.score, self.weights, self.window, self.history = score, weights, window, history
        self.coverage, self.writing, self.penalty = coverage, writing, penalty
        if coverage is not None:
            self.covered = nn.Linear(coverage.size, score.bias_size, bias=False)  # V; w of a score without a tanh

    def bind(self, source: EncodedSource) -> tuple[AttentionBound, AttentionState]:
        """Return the values that are fixed for each sentence, and the first state."""
        padding = torch.zeros_like(source.mask, dtype=torch.float32).masked_fill_(~source.mask, -torch.inf)
        projected = self._project(source.annotations)
        window, window_state = self.window.bind(source) if self.window else ((), ())
        coverage, coverage_state = self.coverage.bind(source) if self.coverage else ((), ())
        fixed, written = ((), projected) if self.writing else (projected, ())
        bound = AttentionBound(fixed, padding, window, coverage)
        return bound, AttentionState(written, (), window_state, (), coverage_state)

    def _project(self, annotations: Tensor) -> ProjectedSource:
        coverage_inputs = self.coverage.project(annotations) if self.coverage else ()
        return ProjectedSource(annotations, self.score.bind(annotations), coverage_inputs)

    def read(
        self,
        query: Float[Tensor, "hypothesis query"],
        word: Float[Tensor, "hypothesis word"],
        state: AttentionState,
        bound: AttentionBound,
    ) -> ReadResult:
        """Return context, alignment and new state; `word` is e(y_{i-1})."""
        source = state.source if self.writing else bound.source
        beams = (source.keys.shape[0], -1)  # splits N into (B, beams), so that the beams of a sentence share its keys
        coverage_state, bias = self._coverage_bias(word, state.coverage, beams)
        queries = query.unflatten(0, beams)
        energies = self.score.energies(queries, source.keys, bias)  # e_ij
        _check_shape(self.score, energies, (*queries.shape[:2], bound.padding.shape[1]))
        energies = energies.flatten(0, 1)
        energies = energies + repeat_per_hypothesis(bound.padding, query.shape[0])  # −inf at padding
        relative, history, trace = self.history(energies, state.history) if self.history else (energies, (), {})
        _check_shape(self.history, relative, energies.shape)
        alignment, window_state, window_trace = self._alignment(relative, query, state.window, bound.window)  # α_i
        _check_shape(self.weights, alignment, energies.shape)
        weights = alignment.to(source.annotations.dtype).unflatten(0, beams)
        context = torch.bmm(weights, source.annotations).flatten(0, 1)  # c_i = Σ_j α_ij h_j
        trace = trace | window_trace
        if self.coverage:
            step = ReadStep(query, word, energies, alignment, context)
            coverage_state = self.coverage.update(step, coverage_state, source.coverage_inputs, bound.coverage)
            trace = trace | self.coverage.trace(coverage_state, bound.coverage)
        if self.writing:
            trace = trace | {"annotations": source.annotations}  # as they are before this step writes
        written, kept_alignment = (source, alignment) if self.writing else ((), ())
        new_state = AttentionState(written, kept_alignment, window_state, history, coverage_state)
        return ReadResult(context, alignment, new_state, trace)

    def _coverage_bias(self, word: Tensor, state: Tree, beams: tuple[int, int]) -> tuple[Tree, Bias | None]:
        """Return the coverage's state, and V C_{i-1,j}."""
        if not self.coverage:
            return (), None
        coverage, state = self.coverage.read(word, state)
        return state, self.covered(coverage).unflatten(0, beams)

    def _alignment(self, energies: Tensor, query: Tensor, state: Tree, bound: Tree) -> tuple[Tensor, Tree, dict]:
        """Return α_i, the window's state and its trace."""
        if not self.window:
            return self.weights(energies), (), {}
        window = self.window.locate(query, state, bound)
        # the smallest finite number, because a window of −inf only would give NaN instead of zeros
        inside = energies.masked_fill(~window.inside, torch.finfo(energies.dtype).min)
        return self.weights(inside) * window.factor, window.state, window.trace

    def write(
        self, hidden: Float[Tensor, "hypothesis hidden"], state: AttentionState, bound: AttentionBound
    ) -> AttentionState:
        """Return the state with rewritten annotations; without a writing, the same state."""
        if not self.writing:
            return state
        padding = repeat_per_hypothesis(bound.padding, hidden.shape[0])
        annotations = self.writing(hidden, state.source.annotations, state.alignment, padding)
        return state._replace(source=self._project(annotations), alignment=())


def _check_shape(part: nn.Module | None, result: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a part of the user's that returns another shape, which torch may broadcast without an error."""
    if result.shape != shape:
        kind, file = type(part), inspect.getsourcefile(type(part))
        raise UserError(
            f"{kind.__name__} ({file}): returned the shape {tuple(result.shape)}. Fix: return {tuple(shape)}, "
            "whose last dimension is the source position"
        )


class NoAttention(nn.Module):
    """A decoder without attention, as in Sutskever 2014 and `Base` in Table 1 of Luong 2015."""

    penalty = None

    def __init__(self, *, context_size: int = 0):
        super().__init__()
        if context_size != 0:
            raise ConfigurationError(f"attention.context_size={context_size}: must be 0 without attention")
        self.context_size = context_size

    def bind(self, source: EncodedSource) -> tuple[Tree, Tree]:
        """Return the source mask, for the size of the alignment."""
        return (source.mask,), ()

    def read(self, query: Tensor, word: Tensor, state: Tree, bound: Tree) -> ReadResult:
        """Return an empty context and an alignment of zeros."""
        alignment = query.new_zeros(query.shape[0], bound[0].shape[1])
        return ReadResult(query[:, :0], alignment, state, {})

    def write(self, hidden: Tensor, state: Tree, bound: Tree) -> Tree:
        """Return the state unchanged."""
        return state
