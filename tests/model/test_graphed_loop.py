"""The loop as graphs, beyond what holds for all models: dropout, many shapes, several ranks."""

import tempfile
from pathlib import Path

import pytest
import torch
from compositions import SOURCE_WORDS, TARGET_WORDS, composed
from random_batches import batch_of, random_rows
from stand_in_recorder import run_again
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.model.kernels import graphed_loop
from nmt.model.kernels.graphed_loop import GraphedLoop
from nmt.model.loop import run_loop
from nmt.model.translator import Translator

RANKS = 2
MODEL = ("attention=coverage", "decoder=bahdanau")


def random_batch(seed: int, sources=(4, 2), targets=(3, 5)):
    return batch_of(random_rows(list(sources), SOURCE_WORDS, seed), random_rows(list(targets), TARGET_WORDS, seed))


def model_of(*overrides: str) -> Translator:
    torch.manual_seed(3)
    return composed(*MODEL, *overrides).double()


def gradients(model: Translator, loop, batches) -> list[list[torch.Tensor]]:
    """Return the gradients of each batch."""
    model.loop, results = loop, []
    for seed, batch in enumerate(batches):
        model.zero_grad()
        torch.manual_seed(seed)
        model.loss(batch).objective.backward()
        results.append([parameter.grad.clone() for parameter in model.parameters()])
    return results


def assert_equal(ours, expected) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_each_replay_draws_dropout_anew():
    model = model_of("dropout=0.5").train()
    batches = [random_batch(0)] * 4  # equal but for dropout
    plain = gradients(model, run_loop, batches)
    assert not torch.equal(plain[2][0], plain[3][0])
    assert_equal(gradients(model, GraphedLoop(run_again), batches), plain)


def test_shapes_beyond_the_limit_run_without_graphs(monkeypatch):
    monkeypatch.setattr(graphed_loop, "MOST_GRAPHS", 1)
    model, loop = model_of(), GraphedLoop(run_again)
    batches = [random_batch(seed, targets=(3, 4 + seed % 2)) for seed in range(6)]
    assert_equal(gradients(model, loop, batches), gradients(model, run_loop, batches))
    assert [graph is not None for graph in loop.graphs.values()] == [True]


class Loss(nn.Module):
    """The loss as the output of a module, which DistributedDataParallel wants."""

    def __init__(self, model: Translator):
        super().__init__()
        self.model = model

    def forward(self, batch):
        return self.model.loss(batch).objective


def train_on_a_rank(rank: int, folder: str) -> None:
    """Write the gradients that one of several ranks has after each batch, with and without graphs."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=RANKS)
    results = []
    for loop in (run_loop, GraphedLoop(run_again)):
        model = model_of()
        model.loop = loop
        parallel = DistributedDataParallel(Loss(model))
        for step in range(4):
            parallel.zero_grad()
            parallel(random_batch(10 * step + rank)).backward()
        results.append([parameter.grad for parameter in model.parameters()])
    torch.save(results, f"{folder}/{rank}")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_ranks_with_graphs_have_the_mean_of_their_gradients():
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train_on_a_rank, (folder,), nprocs=RANKS)
        (plain, graphed), (_, of_other_rank) = (torch.load(Path(folder) / str(rank)) for rank in range(RANKS))
    shares = [gradients(model_of(), run_loop, [random_batch(30 + rank)])[0] for rank in range(RANKS)]
    mean = [(one + other) / RANKS for one, other in zip(*shares, strict=True)]
    assert_equal(graphed, mean)
    assert_equal(graphed, plain)
    assert_equal(of_other_rank, graphed)
