"""Batches: turn sentences into tensors, and give one rank its share of each batch.

A batch is planned for all ranks together (batch_plan.py), then split among them. So every rank sees the same number of
batches and knows the size of the global batch without communication.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from nmt.data.batch_plan import BatchPlan, Epoch, short_sentences
from nmt.data.candidate_lists import Candidates
from nmt.data.corpus_cache import EncodedText
from nmt.data.given_links import GivenLinks
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import END, PAD, START


@dataclass(frozen=True)
class Batch:
    """Sentences as tensors: sources (B, S), targets (T, B), because the decoder loops over time."""

    sentences: Tensor  # (B,) positions in the corpus
    source: Tensor  # (B, S)
    source_lengths: Tensor  # (B,) always on the CPU
    target_input: Tensor  # (T, B) <s> y_1 … y_I
    target_words: Tensor  # (words,) y_1 … y_I </s> of all sentences, without padding
    target_index: Tensor  # (words,) their positions in the flattened (T, B) grid
    candidates: Tensor | None  # (C,) ascending word ids to which a softmax over this batch may be limited
    global_sentences: int  # in the batch of all ranks together
    global_words: int
    links: Tensor | None = None  # (T, B, S) given alignments: 1.0 at a link, else 0.0

    def to(self, device: torch.device) -> "Batch":
        """Return a copy on `device`, without waiting for it; `source_lengths` stays on the CPU."""
        moved = {
            field.name: value.to(device, non_blocking=True)
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
    links: GivenLinks | None = None,
    multiple: int = 1,
) -> Batch:
    """Return one rank's share of a batch, padded to a multiple of `multiple` source words and steps.

    A rank without a sentence gets another rank's first sentence, but none of its target words.
    """
    global_words = int(text.target.lengths(sentences).sum()) + len(sentences)
    share = sentences[rank::ranks]
    idle = len(share) == 0
    if idle:
        share = sentences[:1]
    padded = _pad_sentences(text.source, share)
    source, source_lengths = pad_source(*padded, source_end=source_end, multiple=multiple)
    target, lengths = _pad_sentences(text.target, share)
    target = np.pad(target, ((0, 0), (0, -(target.shape[1] + 1) % multiple)), constant_values=PAD)
    grid = np.arange(target.shape[1] + 1)[None] <= lengths[:, None]  # words and the end symbol
    outputs = np.pad(target, ((0, 0), (0, 1)))
    outputs[np.arange(len(share)), lengths] = END
    inputs = np.pad(target, ((0, 0), (1, 0)), constant_values=START)
    index = np.flatnonzero(grid.T & (not idle))
    return Batch(
        sentences=torch.from_numpy(share),
        source=source,
        source_lengths=source_lengths,
        target_input=torch.from_numpy(np.ascontiguousarray(inputs.T)),
        target_words=torch.from_numpy(outputs.T.reshape(-1)[index]),
        target_index=torch.from_numpy(index),
        candidates=None if candidates is None else _select_candidates(text, sentences, source_end, candidates),
        global_sentences=len(sentences),
        global_words=global_words,
        links=None if links is None else links.for_batch(share, inputs.shape[1], source.shape[1]),
    )


def _select_candidates(text: Sides, sentences: np.ndarray, source_end: bool, candidates: Candidates) -> Tensor:
    """Return the candidates of the global batch, because all ranks must minimise the same loss."""
    source, _ = pad_source(*_pad_sentences(text.source, sentences), source_end=source_end)
    target, _ = _pad_sentences(text.target, sentences)
    return torch.from_numpy(candidates.select_for_batch(source.numpy(), np.append(target, END)))


def pad_source(words: np.ndarray, lengths: np.ndarray, *, source_end: bool, multiple: int = 1) -> tuple[Tensor, Tensor]:
    """Append the end symbol to padded sources if `source_end`; return the tensors of words and lengths.

    The sources are padded to a multiple of `multiple` words.
    """
    if source_end:
        words = np.pad(words, ((0, 0), (0, 1)))
        words[np.arange(len(words)), lengths] = END
        lengths = lengths + 1
    words = np.pad(words, ((0, 0), (0, -words.shape[1] % multiple)), constant_values=PAD)
    return torch.from_numpy(words), torch.from_numpy(lengths)


def pad_rows(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Pad rows of word ids to one array; return it and the lengths of the rows."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    padded = np.full((len(rows), int(lengths.max())), PAD, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return padded, lengths


def _pad_sentences(text: EncodedText, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the padded words (B, longest) of sentences and their lengths, without a loop over sentences."""
    lengths = text.lengths(sentences)
    steps = np.arange(int(lengths.max()))
    inside = steps < lengths[:, None]
    positions = np.where(inside, text.offsets[sentences][:, None] + steps, 0)
    return np.where(inside, text.ids[positions], PAD).astype(np.int64), lengths


class BatchLoader:
    """The batches of one epoch after another, for one rank; the position in an epoch can be saved and restored."""

    batch_sampler = None  # because Lightning reads it from every loader that has a `sampler`

    def __init__(
        self,
        text: Sides,
        plan: BatchPlan,
        *,
        seed: int,
        shuffle: bool,
        source_end: bool,
        longest: int | None = None,
        rank: int = 0,
        ranks: int = 1,
        candidates: Candidates | None = None,
        links: GivenLinks | None = None,
    ):
        self.text, self.plan, self.longest, self.candidates, self.links = text, plan, longest, candidates, links
        self.seed, self.shuffle, self.source_end = seed, shuffle, source_end
        self.rank, self.ranks = rank, ranks
        self.epoch = self.done = 0
        self._resumed = False
        self._planned: tuple[int, Epoch] | None = None

    @property
    def sampler(self) -> "BatchLoader":
        """The object whose `set_epoch` Lightning calls."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch; the restored position counts only in the epoch in which it was saved."""
        self._resumed = self._resumed and epoch == self.epoch
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._batches())

    def __iter__(self) -> Iterator[Batch]:
        batches = self._batches()
        self.done = self.done if self._resumed else 0
        self._resumed = False
        while self.done < len(batches):
            self.done += 1
            yield collate(
                self.text,
                batches[self.done - 1],
                rank=self.rank,
                ranks=self.ranks,
                source_end=self.source_end,
                candidates=self.candidates,
                links=self.links,
                multiple=self.plan.multiple,
            )

    def _batches(self) -> Epoch:
        epoch = self.epoch if self.shuffle else 0
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # frees the epoch before, which is large
            sentences = short_sentences(self.text, self.longest)
            self._planned = epoch, self.plan.make_epoch(sentences, self.text, seed=self.seed, epoch=epoch)
        return self._planned[1]

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the number of batches done in it."""
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue after the batches done; a finished epoch is not repeated."""
        self.epoch, self.done = state["epoch"], state["done"]
        self._resumed = self.done < len(self)
