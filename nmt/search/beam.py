"""Beam search for every decoder, attention and memory; greedy search is a beam of 1.

The beams of a sentence are neighbouring rows of the decoder (N = sentences * beams). One tree map reorders the state
of all hypotheses. What is fixed for a sentence is never copied for its beams. Finished sentences leave the batch.
Each step stores its words, the beams they continue, and its alignment; the best hypotheses are read back from the end.
In sampling, hypotheses do not compete: each continues with a word that is drawn.
"""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nmt.data.candidate_lists import Candidates
from nmt.data.vocabulary import END, PAD, START
from nmt.model.kernels.word_choice import best_continuations, log_softmax_in_place
from nmt.model.tree import Tree, map_tree
from nmt.search.aligned_words import rows_of_words
from nmt.search.constraints import Constraints
from nmt.search.sampling import draw_words
from nmt.search.settings import Search


class Searchable(Protocol):
    """A translator, or an ensemble of translators."""

    def encode(self, source: Tensor, lengths: Tensor) -> Tree:
        """Encode the source."""

    def begin(self, source: Tree) -> tuple[Tree, Tree]:
        """Return what is fixed for each sentence, and the first state."""

    def next(self, words: Tensor, state: Tree, bound: Tree) -> tuple[Tensor, dict[str, Tensor], Tree]:
        """Return the logits after `words`, the trace and the next state."""

    def step(self, words: Tensor, state: Tree, bound: Tree) -> tuple[Tree, dict[str, Tensor], Tree]:
        """Return the input of the output layer after `words`, the trace and the next state."""

    def restrict_vocabulary(self, words: Tensor, allowed: Tensor) -> "Searchable":
        """Return a model that knows only these words."""


class Hypothesis(NamedTuple):
    """One translation of a sentence; arrays over steps are one longer than `words` if it ends with the end symbol."""

    words: np.ndarray  # without the end symbol
    score: float  # what hypotheses are ranked by
    log_probability: float
    word_scores: np.ndarray  # log-probability of each word
    trace: dict[str, np.ndarray]  # by name; first dimension: steps

    @property
    def alignment(self) -> np.ndarray:
        """(steps, source)."""
        return self.trace["alignment"]


class _Step(NamedTuple):
    """The record of one step; the first dimension is its live sentences."""

    live: Tensor  # their indices in the batch
    words: Tensor  # (live, beam)
    parents: Tensor  # (live, beam) the beam each continues
    totals: Tensor  # (live, beam) log-probabilities with these words
    width: int  # beams before this step
    alignment: Tensor  # (live * width, source) of the beams before this step

    def rows(self, sentences: int) -> Tensor:
        """Return for each sentence of the batch its row in this step; 0 for sentences that had finished."""
        rows = torch.zeros(sentences, dtype=torch.long, device=self.live.device)
        return rows.index_copy_(0, self.live, torch.arange(len(self.live), device=self.live.device))


@torch.inference_mode()
def beam_search(
    model: Searchable,
    source: Int[Tensor, "batch source"],
    lengths: Int[Tensor, " batch"],
    search: Search,
    *,
    prefixes: Int[Tensor, "batch prefix"] | None = None,
    candidates: Candidates | None = None,
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each sentence, best first.

    Args:
        model: The model or ensemble.
        source: The padded source words.
        lengths: The lengths of the sources, on the CPU.
        search: The settings.
        prefixes: Words that translations must begin with, padded.
        candidates: The lists that words are chosen from.
    """
    if candidates is not None:
        return _search_candidates(model, source, lengths, search, prefixes, candidates)
    bound, state = model.begin(model.encode(source, lengths))
    beams = _Beams(search, source, lengths, prefixes)
    state = map_tree(lambda leaf: leaf.repeat_interleave(beams.width, 0), state)
    words = torch.full((source.shape[0] * beams.width,), START, device=source.device)
    while beams.live.numel():
        logits, trace, state = model.next(words, state, bound)
        words, parents, staying = beams.advance(logits, trace)
        state = map_tree(lambda leaf, rows=parents: leaf.index_select(0, rows), state)
        if staying is not None:
            bound = map_tree(lambda leaf, rows=staying: leaf.index_select(0, rows), bound)
    return beams.read_hypotheses()


def _search_candidates(
    model: Searchable,
    source: Tensor,
    lengths: Tensor,
    search: Search,
    prefixes: Tensor | None,
    candidates: Candidates,
) -> list[list[Hypothesis]]:
    """Search over indices into the list of candidates, and translate these back to words."""
    first_words = None if prefixes is None else prefixes.cpu().numpy()
    selected = candidates.select_for_sentences(source.cpu().numpy(), first_words)
    words, allowed = (torch.from_numpy(array) for array in selected)
    device_words = words.to(source.device)
    indices = None if prefixes is None else torch.searchsorted(device_words, prefixes)
    model = model.restrict_vocabulary(device_words, allowed.to(source.device))
    nbest = beam_search(model, source, lengths, search, prefixes=indices)
    return [[best._replace(words=words.numpy()[best.words]) for best in hypotheses] for hypotheses in nbest]


class _Beams:
    """The live and the finished hypotheses of a batch."""

    def __init__(self, search: Search, source: Tensor, lengths: Tensor, prefixes: Tensor | None):
        self.search, self.device = search, source.device
        (sentences, source_size), device = source.shape, source.device
        self.source_lengths = lengths
        last_words = source.cpu()[torch.arange(sentences), lengths - 1]
        shortest, longest = search.length_limits(lengths - (last_words == END).long(), lengths)
        if prefixes is not None:
            longest = torch.maximum(longest, (prefixes != PAD).sum(1).cpu() + 1)
        self.longest = longest.to(device)
        self.constraints = Constraints(search, shortest.to(device), prefixes)
        self.padding = (torch.arange(source_size) >= lengths[:, None]).to(device)
        self.random = torch.Generator(device).manual_seed(search.seed) if search.sample else None
        self.live = torch.arange(sentences, device=device)  # the sentences that are still searched
        width = search.width if search.sample else 1  # a search begins with one hypothesis for each sentence
        self.totals = torch.zeros((sentences, width), device=device)  # log-probabilities of live beams
        # words and received attention of live beams, if the settings need them
        self.history, self.attended = None, None
        if search.no_repeat_ngram:
            self.history = torch.empty((sentences, width, 0), dtype=torch.long, device=device)
        if search.coverage_penalty:
            self.attended = torch.zeros((sentences, width, source_size), device=device)
        self.steps: list[_Step] = []
        # finished hypotheses, best first: score, log-probability, and (last step, beam it continued, last word)
        self.finished = torch.full((sentences, search.width), -torch.inf, device=device)
        self.finished_totals = torch.full((sentences, search.width), -torch.inf, device=device)
        self.finished_at = torch.zeros((sentences, search.width, 3), dtype=torch.long, device=device)

    @property
    def width(self) -> int:
        """The live hypotheses of each sentence."""
        return self.totals.shape[1]

    def advance(self, logits: Tensor, trace: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Extend every live hypothesis by its best words.

        Returns:
            The next words, the decoder rows they continue, and the rows of bound tensors to keep (None: all).
        """
        step, width, live = len(self.steps), self.width, self.live
        if self.attended is not None:
            self.attended = self.attended + trace["alignment"].float().unflatten(0, (-1, width))
        totals, words, parents = self._find_continuations(logits)
        ends = (words == END) | (step + 1 >= self.longest[live, None])
        self._store_finished(totals, words, parents, ends, step)
        totals, words, parents = _select_open(totals, words, parents, ends, self.search.width)
        self.steps.append(_Step(live, words, parents, totals, width, trace["alignment"]))
        done = self._is_done(totals[:, 0])
        rows = torch.arange(len(live), device=self.device)[:, None] * width + parents
        staying = (~done).nonzero()[:, 0]  # only here does a step wait for the device
        if len(staying) == len(live):
            staying = None
        self._update_live(totals, words, parents, staying)
        if staying is None:
            return words.flatten(), rows.flatten(), None
        return words[staying].flatten(), rows[staying].flatten(), staying

    def _update_live(self, totals: Tensor, words: Tensor, parents: Tensor, staying: Tensor | None) -> None:
        """Set what the next step reads of live hypotheses, and drop finished sentences."""
        self.totals = totals
        if self.history is not None:
            self.history = torch.cat([self.history.take_along_dim(parents[:, :, None], 1), words[:, :, None]], 2)
        if self.attended is not None:
            self.attended = self.attended.take_along_dim(parents[:, :, None], 1)
        if staying is not None:
            self.live, self.totals = self.live[staying], self.totals[staying]
            self.history = None if self.history is None else self.history[staying]
            self.attended = None if self.attended is None else self.attended[staying]

    def _is_done(self, best_live: Tensor) -> Tensor:
        """Return for each live sentence if its search can stop, given the best log-probability of its live beams."""
        finished, nothing_live = self.finished[self.live], best_live == -torch.inf
        if self.search.sample:
            return nothing_live
        if self.search.stop == "first" or self.search.beam == 1:  # greedy search ends with its only hypothesis
            return (finished[:, -1] > -torch.inf) | nothing_live
        # A log-probability can only fall, a norm can only grow up to that of the longest length, and the coverage
        # score is at most 0. So no live hypothesis can end with a better score than this:
        bound = best_live / self.search.norm(self.longest[self.live])
        return (bound <= finished[:, self.search.nbest - 1]) | nothing_live

    def _find_continuations(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities, words and parents of the best continuations of each sentence, best first.

        There are 2 * beam of them, so that `beam` are left if every beam ends. In sampling, each beam has one.
        """
        logs = log_softmax_in_place(logits.float()).unflatten(0, (-1, self.width))
        self.constraints.apply(logs, self.history, self.live, len(self.steps))
        if not self.search.sample:
            return best_continuations(logs, self.totals, 2 * self.search.beam)
        words = draw_words(logs.flatten(0, 1), self.search, self.random).unflatten(0, (-1, self.width))
        totals = self.totals + logs.gather(2, words[:, :, None])[:, :, 0]
        return totals, words, torch.arange(self.width, device=self.device).expand_as(words)

    def _store_finished(self, totals: Tensor, words: Tensor, parents: Tensor, ends: Tensor, step: int) -> None:
        """Insert continuations that end, if among the `beam` best, into the finished hypotheses, and keep the best."""
        search, live = self.search, self.live
        words, parents, ends = words[:, : search.width], parents[:, : search.width], ends[:, : search.width]
        totals = totals[:, : search.width].masked_fill(~ends, -torch.inf)
        scores = totals / search.norm(step + 1)
        if self.attended is not None:
            attended = self.attended.take_along_dim(parents[:, :, None], 1)
            scores = scores + search.coverage_score(attended, self.padding[live, None])
        at = torch.stack([torch.full_like(parents, step), parents, words], dim=2)
        self.finished[live], order = torch.cat([self.finished[live], scores], 1).topk(search.width, dim=1)
        self.finished_totals[live] = torch.cat([self.finished_totals[live], totals], 1).gather(1, order)
        self.finished_at[live] = torch.cat([self.finished_at[live], at], 1).take_along_dim(order[:, :, None], 1)

    def read_hypotheses(self) -> list[list[Hypothesis]]:
        """Read the best hypotheses of each sentence, from the last step to the first."""
        last_step, beam, last_word = self.finished_at[:, : self.search.nbest].unbind(2)
        words = torch.full((*last_step.shape, len(self.steps)), PAD, device=self.device)
        words.scatter_(2, last_step[:, :, None], last_word[:, :, None])
        totals = torch.zeros(words.shape, device=self.device)
        totals.scatter_(2, last_step[:, :, None], self.finished_totals[:, : self.search.nbest, None])
        alignments = []
        for number in range(len(self.steps) - 1, -1, -1):
            step, exists = self.steps[number], number <= last_step
            rows = step.rows(len(last_step))[:, None]
            alignments.append(step.alignment.float()[rows * step.width + beam])
            if number > 0:  # the word that this beam got one step before, and the beam that it continued
                before = self.steps[number - 1]
                at = before.rows(len(last_step))[:, None], beam
                words[:, :, number - 1] = torch.where(exists, before.words[at], words[:, :, number - 1])
                totals[:, :, number - 1] = torch.where(exists, before.totals[at], totals[:, :, number - 1])
                beam = torch.where(exists, before.parents[at], beam)
        word_scores = totals.diff(dim=2, prepend=totals.new_zeros(*last_step.shape, 1))
        values = (words, word_scores, torch.stack(alignments[::-1], 2), last_step)
        return self._unpack(*(tensor.cpu().numpy() for tensor in values))

    def _unpack(
        self, words: np.ndarray, word_scores: np.ndarray, alignments: np.ndarray, last_step: np.ndarray
    ) -> list[list[Hypothesis]]:
        """Cut arrays over (sentence, rank, step) into hypotheses, without padding."""
        scores, totals = self.finished.tolist(), self.finished_totals.tolist()
        nbest = []
        for sentence, length in enumerate(self.source_lengths.tolist()):
            nbest.append([])
            for rank in range(words.shape[1]):
                if scores[sentence][rank] == -float("inf"):
                    continue
                steps = last_step[sentence, rank] + 1
                with_end = words[sentence, rank, :steps]
                alignment = alignments[sentence, rank, :steps, :length]
                hypothesis = Hypothesis(
                    with_end[:-1] if with_end[-1] == END else with_end,
                    scores[sentence][rank],
                    totals[sentence][rank],
                    word_scores[sentence, rank, :steps],
                    {"alignment": rows_of_words(alignment, self.search.aligned_word)},
                )
                nbest[-1].append(hypothesis)
        return nbest


def _select_open(
    totals: Tensor, words: Tensor, parents: Tensor, ends: Tensor, beam: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best `beam` continuations that do not end."""
    totals, index = totals.masked_fill(ends, -torch.inf).topk(min(beam, totals.shape[1]), dim=1)
    return totals, words.gather(1, index), parents.gather(1, index)
