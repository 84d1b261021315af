"""Beam search over states that are values: one search for every decoder, attention and memory; greedy is a beam of 1.

A sentence's beams are neighbouring rows of the decoder (N = sentences * beams). What a hypothesis carries is reordered
by one tree map; what is fixed for a sentence is never copied for its beams. Sentences that are done leave the batch.
Each step keeps its words, the beams they continue, and the alignment; the winners are read back from the end.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nmt.data.vocabulary import END, PAD, START
from nmt.errors import ConfigurationError
from nmt.model.translator import Translator
from nmt.model.tree import map_tree

NEVER = (PAD, START)  # symbols no translation may contain


@dataclass(frozen=True, kw_only=True)
class Search:
    """How to search.

    Hypotheses are ranked by log-probability / length**length_penalty (0: none, 1: per word; the end symbol counts).
    A translation may have `longest_ratio` * source length + `longest_extra` words. `nbest` are given back.
    """

    beam: int = 5
    nbest: int = 1
    length_penalty: float = 1.0
    longest_ratio: float = 2.0
    longest_extra: int = 10

    def __post_init__(self):
        if self.beam < 1:
            raise ConfigurationError(f"beam={self.beam}: must be at least 1")
        if not 1 <= self.nbest <= self.beam:
            raise ConfigurationError(f"nbest={self.nbest}: must be between 1 and beam={self.beam}")


class Hypothesis(NamedTuple):
    """One translation of a sentence."""

    words: np.ndarray  # without the end symbol
    score: float  # what hypotheses are ranked by
    log_probability: float
    alignment: np.ndarray  # (words + 1, source): the last row is the end symbol's


class _Step(NamedTuple):
    """What one step leaves behind for reading back; all in the numbering of the whole batch."""

    words: Tensor  # (B, beam)
    parents: Tensor  # (B, beam) the beam each continues
    alignment: Tensor  # (B, beam, S) of the beams before reordering


@torch.inference_mode()
def search(
    model: Translator, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"], how: Search
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first. `lengths` on the CPU."""
    bound, state = model.begin(model.encode(source, lengths))
    beams = _Beams(how, lengths, source.shape[1], source.device)
    state = map_tree(lambda leaf: leaf.repeat_interleave(how.beam, 0), state)
    words = torch.full((source.shape[0] * how.beam,), START, device=source.device)
    while beams.live.numel():
        logits, trace, state = model.next(words, state, bound)
        words, parents, staying = beams.advance(logits, trace["alignment"])
        state = map_tree(lambda leaf, rows=parents: leaf.index_select(0, rows), state)
        if staying is not None:
            bound = map_tree(lambda leaf, rows=staying: leaf.index_select(0, rows), bound)
    return beams.hypotheses()


class _Beams:
    """The live and the finished hypotheses of a batch."""

    def __init__(self, how: Search, lengths: Tensor, source_size: int, device: torch.device):
        self.how, self.device = how, device
        sentences, beam = len(lengths), how.beam
        self.source_lengths = lengths
        self.longest = (how.longest_ratio * lengths + how.longest_extra).long().to(device)
        self.live = torch.arange(sentences, device=device)  # the sentences still searched
        self.scores = torch.full((sentences, beam), -torch.inf, device=device)  # log-probabilities of live beams
        self.scores[:, 0] = 0.0  # at first a sentence has one hypothesis
        self.steps: list[_Step] = []
        self.source_size = source_size
        # finished, best first: what they are ranked by, log-probability, and (last step, beam it continued, last word)
        self.finished = torch.full((sentences, beam), -torch.inf, device=device)
        self.finished_log = torch.full((sentences, beam), -torch.inf, device=device)
        self.finished_at = torch.zeros((sentences, beam, 3), dtype=torch.long, device=device)

    def advance(self, logits: Tensor, alignment: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Extend every live hypothesis by its best words. Gives the next words, the rows of the decoder they continue,
        and the sentences to keep (as rows of the bound tensors; None while all stay)."""
        step, beam, live = len(self.steps), self.how.beam, self.live
        scores, words, parents = self._best_continuations(logits)
        ends = (words == END) | (step + 1 >= self.longest[live, None])
        self._finish(scores, words, parents, ends, step)
        scores, words, parents = _first_open(scores, words, parents, ends, beam)
        self._remember(words, parents, alignment)
        done = self._is_done(scores[:, 0], step)
        rows = torch.arange(len(live), device=self.device)[:, None] * beam + parents
        if not done.any():
            self.scores = scores
            return words.flatten(), rows.flatten(), None
        staying = (~done).nonzero()[:, 0]
        self.live, self.scores = live[staying], scores[staying]
        return words[staying].flatten(), rows[staying].flatten(), staying

    def _is_done(self, best_live: Tensor, step: int) -> Tensor:
        """With `beam` finished, a sentence goes on only while a live beam ranks above the n-th best of them. Without a
        length penalty that is safe: a live beam can only lose."""
        finished = self.finished[self.live]
        rank = best_live / (step + 1) ** self.how.length_penalty
        return (finished > -torch.inf).all(1) & (rank <= finished[:, self.how.nbest - 1]) | (best_live == -torch.inf)

    def _best_continuations(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2 * beam best (score, word, parent) of each sentence: with every beam ending, a beam is left to go on."""
        beam = self.how.beam
        logits = logits.float()
        normalizer = logits.logsumexp(1, keepdim=True)
        logits[:, NEVER] = -torch.inf
        best, words = logits.topk(min(2 * beam, logits.shape[1]), dim=1)
        totals = self.scores.flatten()[:, None] + best - normalizer
        totals, index = totals.unflatten(0, (-1, beam)).flatten(1).topk(min(2 * beam, beam * words.shape[1]), dim=1)
        return totals, words.unflatten(0, (-1, beam)).flatten(1).gather(1, index), index // words.shape[1]

    def _finish(self, scores: Tensor, words: Tensor, parents: Tensor, ends: Tensor, step: int) -> None:
        """Put those of the `beam` best that end among the finished, which keep their `beam` best."""
        beam, live = self.how.beam, self.live
        log = scores[:, :beam].masked_fill(~ends[:, :beam], -torch.inf)
        ranked = log / (step + 1) ** self.how.length_penalty
        at = torch.stack([torch.full_like(parents, step), parents, words], dim=2)[:, :beam]
        self.finished[live], order = torch.cat([self.finished[live], ranked], 1).topk(beam, dim=1)
        self.finished_log[live] = torch.cat([self.finished_log[live], log], 1).gather(1, order)
        at = torch.cat([self.finished_at[live], at], 1)
        self.finished_at[live] = at.gather(1, order[:, :, None].expand(-1, -1, 3))

    def _remember(self, words: Tensor, parents: Tensor, alignment: Tensor) -> None:
        sentences, beam = self.finished.shape
        kept = _Step(
            torch.full((sentences, beam), PAD, device=self.device),
            torch.zeros((sentences, beam), dtype=torch.long, device=self.device),
            torch.zeros((sentences, beam, self.source_size), device=self.device),
        )
        kept.words[self.live], kept.parents[self.live] = words, parents
        kept.alignment[self.live] = alignment.float().unflatten(0, (-1, beam))
        self.steps.append(kept)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Read the winners back, from the last step to the first."""
        ended, beam, last = self.finished_at[:, : self.how.nbest].unbind(2)
        sentence = torch.arange(len(ended), device=self.device)[:, None]
        words = torch.full((*ended.shape, len(self.steps)), PAD, device=self.device)
        words.scatter_(2, ended[:, :, None], last[:, :, None])
        alignment = torch.zeros((*words.shape, self.source_size), device=self.device)
        for step in range(len(self.steps) - 1, -1, -1):
            inside = step <= ended
            alignment[:, :, step] = self.steps[step].alignment[sentence, beam] * inside[:, :, None]
            if step > 0:  # the word this beam had been given one step before, and the beam it came from then
                before = self.steps[step - 1]
                words[:, :, step - 1] = torch.where(inside, before.words[sentence, beam], words[:, :, step - 1])
                beam = torch.where(inside, before.parents[sentence, beam], beam)
        return self._unpack(words.cpu().numpy(), alignment.cpu().numpy(), ended.cpu().numpy())

    def _unpack(self, words: np.ndarray, alignment: np.ndarray, ended: np.ndarray) -> list[list[Hypothesis]]:
        scores, logs = self.finished.tolist(), self.finished_log.tolist()
        found = []
        for sentence, length in enumerate(self.source_lengths.tolist()):
            found.append([])
            for rank in range(words.shape[1]):
                if scores[sentence][rank] == -float("inf"):
                    continue
                steps = ended[sentence, rank] + 1
                spelled = words[sentence, rank, :steps]
                found[-1].append(
                    Hypothesis(
                        spelled[:-1] if spelled[-1] == END else spelled,
                        scores[sentence][rank],
                        logs[sentence][rank],
                        alignment[sentence, rank, :steps, :length],
                    )
                )
        return found


def _first_open(
    scores: Tensor, words: Tensor, parents: Tensor, ends: Tensor, beam: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The best `beam` continuations that do not end."""
    scores, index = scores.masked_fill(ends, -torch.inf).topk(beam, dim=1)
    return scores, words.gather(1, index), parents.gather(1, index)
