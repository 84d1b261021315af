"""Batches: in which order sentences come, and how they become tensors.

The order is a function of seed and epoch alone. A batch is planned as a whole and then split among the ranks, so that
any number of ranks sees the same batches, the same number of them, and knows a whole batch's size without asking.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from nmt.data.candidate_lists import Candidates
from nmt.data.corpus_cache import EncodedText
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import END, PAD, START
from nmt.errors import ConfigurationError


@dataclass(frozen=True)
class Batch:
    """Sentences as tensors: the source sentence-major, the target time-major (the decoder walks over time)."""

    sentences: Tensor  # (B,) their numbers in the corpus
    source: Tensor  # (B, S)
    source_lengths: Tensor  # (B,) on the CPU, whatever the rest is on
    target_input: Tensor  # (T, B) <s> y_1 … y_I
    target_words: Tensor  # (words,) y_1 … y_I </s> of all sentences, padding left out
    target_index: Tensor  # (words,) where in the flattened (T, B) grid they stand
    candidates: Tensor | None  # (C,) the words, ascending, that a softmax over this batch may be limited to
    whole_sentences: int  # of the batch over all ranks
    whole_words: int

    def to(self, device: torch.device, non_blocking: bool = False) -> "Batch":
        moved = {
            field.name: value.to(device, non_blocking=non_blocking)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor) and field.name != "source_lengths"
        }
        return replace(self, **moved)


def collate(
    text: Sides,
    sentences: np.ndarray,
    *,
    rank: int = 0,
    ranks: int = 1,
    source_end: bool = True,
    candidates: Candidates | None = None,
) -> Batch:
    """A rank's share of a batch. A rank left without a sentence runs one of the others' but counts no word of it."""
    whole_words = int(text.target.lengths[sentences].sum()) + len(sentences)
    mine = sentences[rank::ranks]
    idle = len(mine) == 0
    if idle:
        mine = sentences[:1]
    source, source_lengths = pad_source(*_gather(text.source, mine), source_end=source_end)
    target, lengths = _gather(text.target, mine)
    grid = np.arange(target.shape[1] + 1)[None] <= lengths[:, None]  # words and the end symbol
    outputs = np.pad(target, ((0, 0), (0, 1)))
    outputs[np.arange(len(mine)), lengths] = END
    inputs = np.pad(target, ((0, 0), (1, 0)), constant_values=START)
    index = np.flatnonzero(grid.T & (not idle))
    return Batch(
        sentences=torch.from_numpy(mine),
        source=source,
        source_lengths=source_lengths,
        target_input=torch.from_numpy(np.ascontiguousarray(inputs.T)),
        target_words=torch.from_numpy(outputs.T.reshape(-1)[index]),
        target_index=torch.from_numpy(index),
        candidates=None if candidates is None else _candidates(text, sentences, source_end, candidates),
        whole_sentences=len(sentences),
        whole_words=whole_words,
    )


def _candidates(text: Sides, sentences: np.ndarray, source_end: bool, candidates: Candidates) -> Tensor:
    """Of the whole batch, on every rank: with those of its share alone each would minimise something else."""
    source, _ = pad_source(*_gather(text.source, sentences), source_end=source_end)
    target, _ = _gather(text.target, sentences)
    return torch.from_numpy(candidates.of_batch(source.numpy(), np.append(target, END)))


def pad_source(words: np.ndarray, lengths: np.ndarray, *, source_end: bool) -> tuple[Tensor, Tensor]:
    """Appends the end symbol where the model is to see it."""
    if source_end:
        words = np.pad(words, ((0, 0), (0, 1)))
        words[np.arange(len(words)), lengths] = END
        lengths = lengths + 1
    return torch.from_numpy(words), torch.from_numpy(lengths)


def pad_rows(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    padded = np.full((len(rows), int(lengths.max())), PAD, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return padded, lengths


def _gather(text: EncodedText, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, longest) padded words and their lengths, without a loop over sentences."""
    lengths = text.lengths[sentences].astype(np.int64)
    steps = np.arange(int(lengths.max()))
    inside = steps < lengths[:, None]
    where = np.where(inside, text.offsets[sentences][:, None] + steps, 0)
    return np.where(inside, text.numbers[where], PAD).astype(np.int64), lengths


class Plan:
    """Cuts an epoch into batches.

    unit: `sentences` – `size` pairs a batch, sorted by length within `pool` batches drawn at random (0: within the
    whole corpus); `tokens` – as many pairs as fit `size` padded words of their longer side, over the whole corpus.
    """

    def __init__(self, *, unit: str, size: int, pool: int = 0):
        if unit not in ("sentences", "tokens"):
            raise ConfigurationError(f"data.batches.unit={unit}: choose sentences or tokens")
        if size < 1:
            raise ConfigurationError(f"data.batches.size={size}: must be at least 1")
        if pool < 0:
            raise ConfigurationError(f"data.batches.pool={pool}: must be at least 0 (the whole corpus)")
        self.unit, self.size, self.pool = unit, size, pool

    def batches(
        self, sentences: np.ndarray, source_lengths: np.ndarray, target_lengths: np.ndarray, *, seed: int, epoch: int
    ) -> list[np.ndarray]:
        """`*_lengths` are those of `sentences`, in the same order."""
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(len(sentences)).astype(np.int32)
        cut = self._by_tokens if self.unit == "tokens" else self._by_sentences
        batches = cut(order, source_lengths, target_lengths)
        return [sentences[batches[number]] for number in random.permutation(len(batches))]

    def _by_sentences(self, order: np.ndarray, source: np.ndarray, target: np.ndarray) -> list[np.ndarray]:
        window = self.pool * self.size or len(order)
        batches = []
        for start in range(0, len(order), window):
            drawn = order[start : start + window]
            drawn = drawn[np.lexsort((source[drawn], target[drawn]))]
            batches += np.split(drawn, range(self.size, len(drawn), self.size))
        return batches

    def _by_tokens(self, order: np.ndarray, source: np.ndarray, target: np.ndarray) -> list[np.ndarray]:
        longer = np.maximum(source, target) + 1
        if longer.max(initial=0) > self.size:
            raise ConfigurationError(
                f"data.batches.size={self.size} tokens cannot hold the longest sentence, {longer.max()}: raise it, "
                "or lower data.max_length"
            )
        order = order[np.argsort(longer[order], kind="stable")]
        lengths, batches, start = longer[order], [], 0
        while start < len(order):
            limit = self.size // lengths[start]  # lengths only rise: no more can fit, and none after one that does not
            fits = np.arange(1, limit + 1)[: len(order) - start] * lengths[start : start + limit] <= self.size
            count = int(fits.argmin()) if not fits.all() else len(fits)
            batches.append(order[start : start + count])
            start += count
        return batches


class BatchLoader:
    """The batches of one epoch after another, for one rank; its place within an epoch can be saved and restored."""

    batch_sampler = None  # Lightning asks for it where it finds a `sampler`

    def __init__(
        self,
        text: Sides,
        plan: Plan,
        *,
        sentences: np.ndarray,
        seed: int,
        shuffle: bool,
        source_end: bool,
        rank: int = 0,
        ranks: int = 1,
        candidates: Candidates | None = None,
    ):
        self.text, self.plan, self.sentences, self.candidates = text, plan, sentences, candidates
        self.seed, self.shuffle, self.source_end = seed, shuffle, source_end
        self.rank, self.ranks = rank, ranks
        self.epoch = self.done = 0
        self._resumed = False
        self._planned: tuple[int, list[np.ndarray]] | None = None

    @property
    def sampler(self) -> "BatchLoader":
        """Where Lightning looks for `set_epoch`."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """What is done is done of one epoch, also where Lightning was told to leave it before its end."""
        self._resumed = self._resumed and epoch == self.epoch
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._plan())

    def __iter__(self) -> Iterator[Batch]:
        batches = self._plan()
        self.done = self.done if self._resumed else 0
        self._resumed = False
        for sentences in batches[self.done :]:
            self.done += 1
            yield collate(
                self.text,
                sentences,
                rank=self.rank,
                ranks=self.ranks,
                source_end=self.source_end,
                candidates=self.candidates,
            )

    def _plan(self) -> list[np.ndarray]:
        epoch = self.epoch if self.shuffle else 0
        if self._planned is None or self._planned[0] != epoch:
            lengths = (side.lengths[self.sentences] for side in self.text)
            self._planned = epoch, self.plan.batches(self.sentences, *lengths, seed=self.seed, epoch=epoch)
        return self._planned[1]

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.done = state["epoch"], state["done"]
        self._resumed = self.done < len(self)  # a finished epoch is not gone through again
