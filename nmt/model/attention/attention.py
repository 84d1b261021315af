"""The attention a decoder sees: bind(source) once a sentence, then at every step read and, once s_i is known, write.

    read:   e_ij = score(q, h_j, V C_{i-1,j})       C: what a coverage tells
            e_ij = history(e_ij)                    temporal attention
            α_i  = softmax over the real j, or those in a window;  times the window's Gaussian
            c_i  = Σ_j α_ij h_j
            C_i  = coverage(C_{i-1}, α_i)
    write:  h_j  = writing(h_j, s_i)                interactive attention

Every part but the score may be absent; any may meet any. `state` is what changes while decoding (first dimension:
hypotheses), `bound` what is fixed for a sentence (first dimension: sentences). All beams of a sentence read the same
bound tensors, which are never copied for them, unless a writing makes them each beam's own.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.attention.coverage import Coverage, Penalty
from nmt.model.attention.history import History
from nmt.model.attention.score import Bias, Score
from nmt.model.attention.window import Window
from nmt.model.attention.writing import Writing
from nmt.model.encoder import Encoded
from nmt.model.tree import Tree, for_each_hypothesis


class Read(NamedTuple):
    """What one look at the source gives."""

    context: Float[Tensor, "hypothesis context"]
    alignment: Float[Tensor, "hypothesis source"]
    state: Tree
    trace: dict[str, Tensor]  # what plots and analyses may want to see, by name


@runtime_checkable
class Attends(Protocol):
    """What a decoder and its training need of an attention."""

    context_size: int
    penalty: Penalty | None  # what joins the objective

    def bind(self, source: Encoded) -> tuple[Tree, Tree]: ...

    def read(self, query: Tensor, word: Tensor, state: Tree, bound: Tree) -> Read: ...

    def write(self, hidden: Tensor, state: Tree, bound: Tree) -> Tree: ...


class View(NamedTuple):
    """The annotations and what was computed of them; first dimension: sentences, or hypotheses once written to."""

    annotations: Float[Tensor, "batch source annotation"]
    keys: Tensor
    projected: Tree  # the coverage's part


class Bound(NamedTuple):
    view: Tree  # where there is no writing
    padding: Float[Tensor, "batch source"]  # 0 at real positions, -inf at padding: added to energies
    window: Tree
    coverage: Tree


class State(NamedTuple):
    view: Tree  # where there is a writing
    alignment: Tree  # the same: what the step was read with
    window: Tree
    history: Tree
    coverage: Tree


class Attention(nn.Module):
    def __init__(
        self,
        *,
        context_size: int,
        score: Score,
        window: Window | None,
        history: History | None,
        coverage: Coverage | None,
        writing: Writing | None,
    ):
        super().__init__()
        parts = {"window": window, "history": history, "coverage": coverage, "writing": writing}
        for name, part in parts.items():
            if part is not None and not isinstance(part, nn.Module):
                raise ConfigurationError(f"attention.{name} is set but not chosen; do so with attention/{name}=…")
        if window is not None and writing is not None and not writing.shared:
            raise ConfigurationError(
                "attention.writing.shared=false with a window: weights of its own would write outside the window; "
                "set attention.writing.shared=true, or leave out the window (~attention/window)"
            )
        self.context_size = context_size
        self.score, self.window, self.history, self.coverage, self.writing = score, window, history, coverage, writing
        if coverage is not None:
            self.covered = nn.Linear(coverage.size, score.bias_size, bias=False)  # V; w where there is no tanh to enter

    def bind(self, source: Encoded) -> tuple[Bound, State]:
        padding = torch.zeros_like(source.mask, dtype=torch.float32).masked_fill_(~source.mask, -torch.inf)
        view = self._view(source.annotations)
        window, looked = self.window.bind(source) if self.window else ((), ())
        coverage, coverage_state = self.coverage.bind(source) if self.coverage else ((), ())
        fixed, written = ((), view) if self.writing else (view, ())
        return Bound(fixed, padding, window, coverage), State(written, (), looked, (), coverage_state)

    def _view(self, annotations: Tensor) -> View:
        projected = self.coverage.project(annotations) if self.coverage else ()
        return View(annotations, self.score.bind(annotations), projected)

    def read(
        self,
        query: Float[Tensor, "hypothesis query"],
        word: Float[Tensor, "hypothesis word"],
        state: State,
        bound: Bound,
    ) -> Read:
        view = state.view if self.writing else bound.view
        sentences = (view.keys.shape[0], -1)
        coverage_state, bias = self._coverage_before(word, state.coverage, sentences)
        energies = self.score.energies(query.unflatten(0, sentences), view.keys, bias).flatten(0, 1)
        energies = energies + for_each_hypothesis(bound.padding, query.shape[0])
        energies, history = self.history(energies, state.history) if self.history else (energies, ())
        alignment, looked, trace = self._weights(energies, query, state.window, bound.window)
        weights = alignment.to(view.annotations.dtype).unflatten(0, sentences)
        context = torch.bmm(weights, view.annotations).flatten(0, 1)
        if self.coverage:
            coverage_state = self.coverage.after(alignment, query, coverage_state, view.projected, bound.coverage)
            trace = trace | self.coverage.trace(coverage_state, bound.coverage)
        view, read_with = (view, alignment) if self.writing else ((), ())
        return Read(context, alignment, State(view, read_with, looked, history, coverage_state), trace)

    def _coverage_before(self, word: Tensor, state: Tree, sentences: tuple[int, int]) -> tuple[Tree, Bias | None]:
        """The coverage's state, the word before being known, and V C_{i-1,j}."""
        if not self.coverage:
            return (), None
        covered, state = self.coverage.before(word, state)
        return state, self.covered(covered).unflatten(0, sentences)

    def _weights(self, energies: Tensor, query: Tensor, state: Tree, bound: Tree) -> tuple[Tensor, Tree, dict]:
        """α_i over all real positions, or 0 outside the window, with the window's state and trace."""
        if not self.window:
            return torch.softmax(energies, dim=1), (), {}
        sight = self.window.look(query, state, bound)
        # Finite, so that a window in which nothing can be attended to gives zeros and not NaN
        inside = energies.masked_fill(~sight.inside, torch.finfo(energies.dtype).min)
        return torch.softmax(inside, dim=1) * sight.factor, sight.state, {"position": sight.position}

    def write(self, hidden: Float[Tensor, "hypothesis hidden"], state: State, bound: Bound) -> State:
        if not self.writing:
            return state
        padding = for_each_hypothesis(bound.padding, hidden.shape[0])
        annotations = self.writing(hidden, state.view.annotations, state.alignment, padding)
        return state._replace(view=self._view(annotations), alignment=())

    @property
    def penalty(self) -> Penalty | None:
        return self.coverage.penalty if self.coverage else None


class NoAttention(nn.Module):
    """A decoder that only has its first state to go by (Sutskever 2014; Luong 2015 Table 1, `Base`)."""

    penalty = None

    def __init__(self, *, context_size: int = 0):
        super().__init__()
        if context_size != 0:
            raise ConfigurationError(f"attention.context_size={context_size}: without attention there is none, 0")
        self.context_size = context_size

    def bind(self, source: Encoded) -> tuple[Tree, Tree]:
        return (source.mask,), ()

    def read(self, query: Tensor, word: Tensor, state: Tree, bound: Tree) -> Read:
        nowhere = query.new_zeros(query.shape[0], bound[0].shape[1])
        return Read(query[:, :0], nowhere, state, {})

    def write(self, hidden: Tensor, state: Tree, bound: Tree) -> Tree:
        return state
