"""Beam search over states that are values: one search for every decoder, attention and memory; greedy is a beam of 1,
sampling a beam whose hypotheses go on by themselves.

A sentence's beams are neighbouring rows of the decoder (N = sentences * beams). What a hypothesis carries is reordered
by one tree map; what is fixed for a sentence is never copied for its beams. Sentences that are done leave the batch.
Each step keeps its words, the beams they continue, and its trace; the winners are read back from the end.
"""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.data.candidate_lists import Candidates
from nmt.data.vocabulary import END, PAD, START
from nmt.model.tree import Tree, map_tree
from nmt.search.constraints import Permitted
from nmt.search.sampling import draw
from nmt.search.settings import Search


class Searchable(Protocol):
    """A translator, or an ensemble of them."""

    def encode(self, source: Tensor, lengths: Tensor) -> Tree: ...

    def begin(self, source: Tree) -> tuple[Tree, Tree]: ...

    def next(self, words: Tensor, state: Tree, bound: Tree) -> tuple[Tensor, dict[str, Tensor], Tree]: ...

    def restricted(self, words: Tensor, allowed: Tensor) -> "Searchable": ...


class Hypothesis(NamedTuple):
    """One translation of a sentence. Arrays over steps have a row more than words where the end symbol was said."""

    words: np.ndarray  # without the end symbol
    score: float  # what hypotheses are ranked by
    log_probability: float
    word_scores: np.ndarray  # log-probability of each word
    trace: dict[str, np.ndarray]  # by name; first dimension: steps

    @property
    def alignment(self) -> np.ndarray:
        """(steps, source)"""
        return self.trace["alignment"]


class _Step(NamedTuple):
    """What one step leaves behind for reading back. First dimension: the sentences it was searched for."""

    live: Tensor  # their numbers in the batch
    words: Tensor  # (live, beam)
    parents: Tensor  # (live, beam) the beam each continues
    totals: Tensor  # (live, beam) log-probabilities with these words
    width: int  # of beams before this step
    trace: dict[str, Tensor]  # (live * width, …) of the beams before this step

    def rows(self, sentences: int) -> Tensor:
        """Where each of the batch's sentences stands here; 0 for those that had left."""
        rows = torch.zeros(sentences, dtype=torch.long, device=self.live.device)
        return rows.index_copy_(0, self.live, torch.arange(len(self.live), device=self.live.device))


@torch.inference_mode()
def search(
    model: Searchable,
    source: Int[Tensor, "batch source"],
    lengths: Int[Tensor, " batch"],
    how: Search,
    *,
    prefixes: Int[Tensor, "batch prefix"] | None = None,
    keep: tuple[str, ...] | None = ("alignment",),
    candidates: Candidates | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first. `lengths` on the CPU; `prefixes` (padded): words translations
    have to begin with; `keep`: the traces to give back, None: all; `candidates`: the words to choose from."""
    if candidates is not None:
        return _among_candidates(model, source, lengths, how, prefixes, keep, candidates)
    bound, state = model.begin(model.encode(source, lengths))
    beams = _Beams(how, lengths, source.shape[1], prefixes, keep, source.device)
    state = map_tree(lambda leaf: leaf.repeat_interleave(beams.width, 0), state)
    words = torch.full((source.shape[0] * beams.width,), START, device=source.device)
    while beams.live.numel():
        logits, trace, state = model.next(words, state, bound)
        words, parents, staying = beams.advance(logits, trace)
        state = map_tree(lambda leaf, rows=parents: leaf.index_select(0, rows), state)
        if staying is not None:
            bound = map_tree(lambda leaf, rows=staying: leaf.index_select(0, rows), bound)
    return beams.hypotheses()


def _among_candidates(
    model: Searchable,
    source: Tensor,
    lengths: Tensor,
    how: Search,
    prefixes: Tensor | None,
    keep: tuple[str, ...] | None,
    candidates: Candidates,
) -> list[list[Hypothesis]]:
    """The same search, over places in the list of candidates."""
    begun = None if prefixes is None else prefixes.cpu().numpy()
    words, allowed = (torch.from_numpy(part) for part in candidates.of_sentences(source.cpu().numpy(), begun))
    known = words.to(source.device)
    places = None if prefixes is None else torch.searchsorted(known, prefixes)
    model = model.restricted(known, allowed.to(source.device))
    found = search(model, source, lengths, how, prefixes=places, keep=keep)
    return [[one._replace(words=words.numpy()[one.words]) for one in hypotheses] for hypotheses in found]


class _Beams:
    """The live and the finished hypotheses of a batch."""

    def __init__(
        self,
        how: Search,
        lengths: Tensor,
        source_size: int,
        prefixes: Tensor | None,
        keep: tuple[str, ...] | None,
        device: torch.device,
    ):
        self.how, self.keep, self.device = how, keep, device
        sentences, beam = len(lengths), how.width
        self.source_lengths = lengths
        shortest, longest = how.limits(lengths)
        if prefixes is not None:
            longest = torch.maximum(longest, (prefixes != PAD).sum(1).cpu() + 1)
        self.longest = longest.to(device)
        self.permitted = Permitted(how, shortest.to(device), prefixes)
        self.padding = (torch.arange(source_size) >= lengths[:, None]).to(device)
        self.random = torch.Generator(device).manual_seed(how.seed) if how.sample else None
        self.live = torch.arange(sentences, device=device)  # the sentences still searched
        width = beam if how.sample else 1  # at first a sentence has one hypothesis
        self.totals = torch.zeros((sentences, width), device=device)  # log-probabilities of live beams
        self.said = torch.empty((sentences, width, 0), dtype=torch.long, device=device) if how.no_repeat_ngram else None
        self.attended = torch.zeros((sentences, width, source_size), device=device) if how.coverage_penalty else None
        self.steps: list[_Step] = []
        # finished, best first: what they are ranked by, log-probability, and (last step, beam it continued, last word)
        self.finished = torch.full((sentences, beam), -torch.inf, device=device)
        self.finished_log = torch.full((sentences, beam), -torch.inf, device=device)
        self.finished_at = torch.zeros((sentences, beam, 3), dtype=torch.long, device=device)

    @property
    def width(self) -> int:
        """The live hypotheses of each sentence."""
        return self.totals.shape[1]

    def advance(self, logits: Tensor, trace: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Extend every live hypothesis by its best words. Gives the next words, the rows of the decoder they continue,
        and the sentences to keep (as rows of the bound tensors; None while all stay)."""
        step, width, live = len(self.steps), self.width, self.live
        if self.attended is not None:
            self.attended = self.attended + trace["alignment"].float().unflatten(0, (-1, width))
        totals, words, parents = self._continuations(logits)
        ends = (words == END) | (step + 1 >= self.longest[live, None])
        self._finish(totals, words, parents, ends, step)
        totals, words, parents = _first_open(totals, words, parents, ends, self.how.width)
        kept = trace if self.keep is None else {name: trace[name] for name in self.keep}
        self.steps.append(_Step(live, words, parents, totals, width, kept))
        done = self._is_done(totals[:, 0], step)
        rows = torch.arange(len(live), device=self.device)[:, None] * width + parents
        staying = (~done).nonzero()[:, 0] if done.any() else None
        self._carry(totals, words, parents, staying)
        if staying is None:
            return words.flatten(), rows.flatten(), None
        return words[staying].flatten(), rows[staying].flatten(), staying

    def _carry(self, totals: Tensor, words: Tensor, parents: Tensor, staying: Tensor | None) -> None:
        """What of each live hypothesis the next step needs, for the sentences that stay."""
        self.totals = totals
        if self.said is not None:
            self.said = torch.cat([_of_parents(self.said, parents), words[:, :, None]], 2)
        if self.attended is not None:
            self.attended = _of_parents(self.attended, parents)
        if staying is not None:
            self.live, self.totals = self.live[staying], self.totals[staying]
            self.said = None if self.said is None else self.said[staying]
            self.attended = None if self.attended is None else self.attended[staying]

    def _is_done(self, best_live: Tensor, step: int) -> Tensor:
        """A log-probability only falls and a norm only grows, up to the longest length's; what attention left out costs
        nothing at best. So a live hypothesis ranks at most at its present log-probability over the longest norm.

        A beam of 1 is greedy: it ends where its one hypothesis ends.
        """
        finished = self.finished[self.live]
        if self.how.sample:
            return best_live == -torch.inf
        if self.how.stop == "first" or self.how.beam == 1:
            return (finished[:, -1] > -torch.inf) | (best_live == -torch.inf)
        at_best = best_live / self.how.norm(self.longest[self.live])
        return (at_best <= finished[:, self.how.nbest - 1]) | (best_live == -torch.inf)

    def _continuations(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(log-probability, word, parent) of what each sentence may go on with, best first: the 2 * beam best, so that
        with every beam ending, a beam is left to go on; or one drawn for each beam."""
        beam, width = self.how.beam, self.width
        logs = logits.float()
        normalizer = logs.logsumexp(1).unflatten(0, (-1, width))
        logs = logs.unflatten(0, (-1, width))
        self.permitted.restrict(logs, self.said, self.live, len(self.steps))
        if self.how.sample:
            words = draw(logs.flatten(0, 1), self.how, self.random).unflatten(0, (-1, width))
            totals = self.totals + logs.gather(2, words[:, :, None])[:, :, 0] - normalizer
            return totals, words, torch.arange(width, device=self.device).expand_as(words)
        best, words = logs.topk(min(2 * beam, logs.shape[2]), dim=2)
        totals = ((self.totals - normalizer)[:, :, None] + best).flatten(1)
        totals, index = totals.topk(min(2 * beam, totals.shape[1]), dim=1)
        return totals, words.flatten(1).gather(1, index), index // words.shape[2]

    def _finish(self, totals: Tensor, words: Tensor, parents: Tensor, ends: Tensor, step: int) -> None:
        """Put those of the `beam` best that end among the finished, which keep their `beam` best."""
        how, live = self.how, self.live
        words, parents, ends = words[:, : how.width], parents[:, : how.width], ends[:, : how.width]
        log = totals[:, : how.width].masked_fill(~ends, -torch.inf)
        rank = log / how.norm(step + 1)
        if self.attended is not None:
            rank = rank + how.left_out(_of_parents(self.attended, parents), self.padding[live, None])
        at = torch.stack([torch.full_like(parents, step), parents, words], dim=2)
        self.finished[live], order = torch.cat([self.finished[live], rank], 1).topk(how.width, dim=1)
        self.finished_log[live] = torch.cat([self.finished_log[live], log], 1).gather(1, order)
        self.finished_at[live] = _of_parents(torch.cat([self.finished_at[live], at], 1), order)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Read the winners back, from the last step to the first."""
        ended, beam, last = self.finished_at[:, : self.how.nbest].unbind(2)
        words = torch.full((*ended.shape, len(self.steps)), PAD, device=self.device)
        words.scatter_(2, ended[:, :, None], last[:, :, None])
        totals = torch.zeros(words.shape, device=self.device)
        totals.scatter_(2, ended[:, :, None], self.finished_log[:, : self.how.nbest, None])
        traces: dict[str, list[Tensor]] = {name: [] for name in self.steps[0].trace}
        for number in range(len(self.steps) - 1, -1, -1):
            step, inside = self.steps[number], number <= ended
            rows = step.rows(len(ended))[:, None]
            for name, values in step.trace.items():
                traces[name].append(values.float()[rows * step.width + beam])
            if number > 0:  # the word this beam had been given one step before, and the beam it came from then
                before = self.steps[number - 1]
                at = before.rows(len(ended))[:, None], beam
                words[:, :, number - 1] = torch.where(inside, before.words[at], words[:, :, number - 1])
                totals[:, :, number - 1] = torch.where(inside, before.totals[at], totals[:, :, number - 1])
                beam = torch.where(inside, before.parents[at], beam)
        scores = totals.diff(dim=2, prepend=totals.new_zeros(*ended.shape, 1))
        traces = {name: torch.stack(values[::-1], 2).cpu().numpy() for name, values in traces.items()}
        return self._unpack(words.cpu().numpy(), scores.cpu().numpy(), traces, ended.cpu().numpy())

    def _unpack(
        self, words: np.ndarray, word_scores: np.ndarray, traces: dict[str, np.ndarray], ended: np.ndarray
    ) -> list[list[Hypothesis]]:
        ranks, logs = self.finished.tolist(), self.finished_log.tolist()
        found = []
        for sentence, length in enumerate(self.source_lengths.tolist()):
            found.append([])
            for place in range(words.shape[1]):
                if ranks[sentence][place] == -float("inf"):
                    continue
                steps = ended[sentence, place] + 1
                said = words[sentence, place, :steps]
                trace = {name: values[sentence, place, :steps] for name, values in traces.items()}
                found[-1].append(
                    Hypothesis(
                        said[:-1] if said[-1] == END else said,
                        ranks[sentence][place],
                        logs[sentence][place],
                        word_scores[sentence, place, :steps],
                        {name: values[:, :length] if values.ndim > 1 else values for name, values in trace.items()},
                    )
                )
        return found


def _of_parents(
    values: Float[Tensor, "sentence beam value"] | Int[Tensor, "sentence beam value"],
    parents: Int[Tensor, "sentence continuation"],
) -> Tensor:
    return values.gather(1, parents[:, :, None].expand(-1, -1, values.shape[2]))


def _first_open(
    totals: Tensor, words: Tensor, parents: Tensor, ends: Tensor, beam: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The best `beam` continuations that do not end."""
    totals, index = totals.masked_fill(ends, -torch.inf).topk(min(beam, totals.shape[1]), dim=1)
    return totals, words.gather(1, index), parents.gather(1, index)
