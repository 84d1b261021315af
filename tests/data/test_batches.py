"""Batches: their order and their content."""

import tracemalloc
from itertools import chain

import numpy as np
import pytest
import torch
from compositions import configured
from hydra.utils import instantiate
from random_batches import batch_of, random_rows, text_of

from nmt.data import batch_plan
from nmt.data.batches import BatchLoader, BatchPlan
from nmt.data.candidate_lists import Candidates
from nmt.data.corpus_cache import EncodedText
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import END, PAD, START
from nmt.errors import ConfigurationError

LENGTHS = np.random.default_rng(7).integers(1, 30, 205)


def loader(plan: BatchPlan, **settings) -> BatchLoader:
    rows = random_rows(LENGTHS.tolist(), 50, seed=3)
    text = Sides(text_of(rows), text_of([row[::-1] for row in rows]))
    chosen = {"seed": 1, "shuffle": True, "source_end": True} | settings
    return BatchLoader(text, plan, **chosen)


def order(batches) -> list[list[int]]:
    return [batch.sentences.tolist() for batch in batches]


PLANS = [
    BatchPlan(unit="sentences", size=16, pool=3),
    BatchPlan(unit="sentences", size=16),
    BatchPlan(unit="tokens", size=200),
]


@pytest.mark.parametrize("plan", PLANS, ids=["pools", "whole", "tokens"])
def test_each_epoch_has_each_sentence_once_in_an_order_of_seed_and_epoch(plan):
    first, again, other = loader(plan), loader(plan), loader(plan, seed=2)
    epochs = []
    for epoch in range(2):
        for one in (first, again, other):
            one.set_epoch(epoch)
        epochs.append(order(first))
        assert order(again) == epochs[-1] != order(other)
        assert sorted(chain.from_iterable(epochs[-1])) == list(range(205))
        assert len(first) == len(epochs[-1])
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("plan", PLANS, ids=["pools", "whole", "tokens"])
def test_the_next_epoch_has_other_batches_and_not_only_another_order(plan):
    one, epochs = loader(plan), []
    for epoch in range(2):
        one.set_epoch(epoch)
        epochs.append({frozenset(sentences) for sentences in order(one)})
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("plan", PLANS[1:], ids=["whole", "tokens"])
def test_batches_of_a_sorted_corpus_do_not_come_from_short_to_long(plan):
    steps = [batch.target_input.shape[0] for batch in loader(plan)]
    assert (np.diff(steps) < 0).any()


def test_training_batches_are_drawn_anew_each_epoch_and_validation_batches_are_not(tmp_path):
    sizes = ("data.batches.size=4", "data.valid_batches.size=4", "data.train.count=60", "data.valid.count=20")
    data = instantiate(configured(*sizes, f"data.cache={tmp_path}").data)
    for batches, is_drawn in ((data.train_dataloader(), True), (data.val_dataloader(), False)):
        epochs = []
        for epoch in range(2):
            batches.set_epoch(epoch)
            epochs.append(order(batches))
        assert (epochs[0] != epochs[1]) == is_drawn


def test_pool_puts_sentences_of_similar_length_into_a_batch():
    batches = list(loader(BatchPlan(unit="sentences", size=16, pool=3)))
    assert max(len(batch.sentences) for batch in batches) == 16
    at_random = list(loader(BatchPlan(unit="sentences", size=16, pool=1)))
    sizes = [sum(batch.source.numel() for batch in planned) for planned in (batches, at_random)]
    assert sizes[0] < 0.8 * sizes[1]


def test_batches_by_tokens_are_nearly_full_and_never_too_large():
    batches = list(loader(BatchPlan(unit="tokens", size=200)))
    sizes = [batch.target_input.numel() for batch in batches]
    assert max(sizes) <= 200
    assert np.mean(sizes) > 150
    assert len({len(list(loader(BatchPlan(unit="tokens", size=200), seed=seed))) for seed in range(5)}) == 1


def test_the_plan_is_the_same_however_many_sentences_are_sorted_at_once(monkeypatch):
    at_once = [order(loader(plan, longest=20)) for plan in PLANS]
    monkeypatch.setattr(batch_plan, "BLOCK", 7)
    assert [order(loader(plan, longest=20)) for plan in PLANS] == at_once
    assert sorted(chain.from_iterable(at_once[0])) == np.flatnonzero(LENGTHS <= 20).tolist()


def test_sentences_of_equal_length_keep_their_order(monkeypatch):
    monkeypatch.setattr(batch_plan, "BLOCK", 7)
    sentences = np.random.default_rng(1).permutation(205)
    expected = sorted(sentences.tolist(), key=lambda sentence: LENGTHS[sentence])
    batch_plan.sort_by(lambda drawn: LENGTHS[drawn], sentences)
    assert sentences.tolist() == expected


@pytest.mark.parametrize(
    "plan",
    [
        BatchPlan(unit="sentences", size=80, pool=20),
        BatchPlan(unit="sentences", size=80),
        BatchPlan(unit="tokens", size=4096),
    ],
    ids=["pools", "whole", "tokens"],
)
def test_planning_an_epoch_takes_ten_bytes_a_sentence_at_most(plan, monkeypatch):
    monkeypatch.setattr(batch_plan, "BLOCK", 4096)
    offsets = np.append(0, np.cumsum(np.random.default_rng(1).integers(1, 51, 300_000)))
    text = Sides(*[EncodedText(np.zeros(0, dtype=np.int32), offsets)] * 2)
    planned = BatchLoader(text, plan, seed=1, shuffle=True, source_end=True)
    tracemalloc.start()
    batches = len(planned)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert batches > 1900
    assert peak < 10 * 300_000


def test_error_names_the_key_of_a_batch_too_small_for_a_sentence():
    with pytest.raises(
        ConfigurationError, match=r"data\.batches\.size=20 or .*: the longest sentence has .* tokens.*data\.max_length"
    ):
        len(loader(BatchPlan(unit="tokens", size=20)))


@pytest.mark.parametrize("wrong", ["size=0", "pool=-1"])
def test_plan_without_batches_is_refused(wrong):
    key, value = wrong.split("=")
    with pytest.raises(ConfigurationError, match=rf"data\.batches\.{wrong} or .*\.valid_batches\.{wrong}: must be"):
        BatchPlan(**{"unit": "sentences", "size": 16, key: int(value)})


def test_batch_contains_the_words_of_its_sentences():
    batch = batch_of([[7, 8, 9], [5]], [[10], [11, 12]])
    assert batch.source.tolist() == [[7, 8, 9, 3], [5, 3, 0, 0]]
    assert batch.source_lengths.tolist() == [4, 2]
    assert batch.target_input.T.tolist() == [[2, 10, 0], [2, 11, 12]]
    assert batch.target_words.tolist() == [10, 11, 3, 12, 3]  # time first, padding left out
    grid = torch.tensor([[10, 11], [3, 12], [0, 3]])
    assert grid.flatten()[batch.target_index].tolist() == batch.target_words.tolist()
    assert (batch.global_words, batch.global_sentences) == (5, 2)
    assert batch_of([[7, 8], [5]], [[1], [1]], source_end=False).source.tolist() == [[7, 8], [5, 0]]


def test_a_batch_is_padded_to_a_multiple_of_words():
    sources, targets = [[5, 6, 7], [8]], [[9, 10, 11, 12], [13, 14]]
    plain, padded = batch_of(sources, targets), batch_of(sources, targets, multiple=4)
    assert padded.source.tolist() == [[5, 6, 7, END], [8, END, PAD, PAD]]
    assert padded.source_lengths.tolist() == [4, 2]
    assert padded.target_input.T.tolist() == [[START, 9, 10, 11, 12, *[PAD] * 3], [START, 13, 14, *[PAD] * 5]]
    words = torch.zeros(8, 2, dtype=torch.long)
    words.view(-1)[padded.target_index] = padded.target_words
    assert words.T.tolist() == [[9, 10, 11, 12, END, *[PAD] * 3], [13, 14, END, *[PAD] * 5]]
    assert sorted(padded.target_words.tolist()) == sorted(plain.target_words.tolist())


@pytest.mark.parametrize("ranks", [1, 2, 3, 16])
@pytest.mark.parametrize("plan", PLANS, ids=["pools", "whole", "tokens"])
def test_ranks_share_the_same_batches_and_have_equally_many(plan, ranks):
    expected = order(loader(plan))
    shares = [list(loader(plan, rank=rank, ranks=ranks)) for rank in range(ranks)]
    assert {len(share) for share in shares} == {len(expected)}
    for number, sentences in enumerate(expected):
        parts = [share[number] for share in shares]
        counted = [sentence for part in parts if len(part.target_words) for sentence in part.sentences.tolist()]
        assert sorted(counted) == sorted(sentences)
        assert sum(len(part.target_words) for part in parts) == parts[0].global_words
        assert {part.global_sentences for part in parts} == {len(sentences)}


@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_every_rank_has_the_candidates_of_the_global_batch(ranks):
    offsets = np.arange(0, 2 * 50 + 1, 2)
    lists = Candidates(
        frequent=np.arange(6), offsets=offsets, translations=np.random.default_rng(0).integers(6, 50, 100)
    )
    plan = BatchPlan(unit="sentences", size=16)
    single = [batch.candidates for batch in loader(plan, candidates=lists)]
    for rank in range(ranks):
        for one, shared in zip(single, loader(plan, rank=rank, ranks=ranks, candidates=lists), strict=True):
            assert torch.equal(one, shared.candidates)


@pytest.mark.parametrize("plan", PLANS, ids=["pools", "whole", "tokens"])
def test_epoch_continues_at_the_saved_position(plan):
    complete = loader(plan)
    complete.set_epoch(4)
    batches = order(complete)
    stopped = loader(plan)
    stopped.set_epoch(4)
    iterator = iter(stopped)
    seen = [next(iterator).sentences.tolist() for _ in range(3)]
    resumed = loader(plan)
    resumed.load_state_dict(stopped.state_dict())
    resumed.set_epoch(4)
    assert seen + order(resumed) == batches
    resumed.set_epoch(5)
    assert len(order(resumed)) == len(resumed)
