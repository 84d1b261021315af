"""Invariants of models with every pair of encoder, decoder, attention, its parts, and memory."""

import copy
from functools import cache
from itertools import combinations

import jaxtyping
import numpy as np
import pytest
import torch
from compositions import SOURCE_WORDS, TARGET_WORDS, attention_groups, choices, composed, compositions, is_refused
from random_batches import batch_of, random_rows
from stand_in_recorder import run_again
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from waiting_operations import WAITING

from nmt.data.vocabulary import END, PAD, START
from nmt.model.kernels.graphed_loop import GraphedLoop
from nmt.model.kernels.graphed_step import GraphedModel
from nmt.model.loop import run_loop
from nmt.model.tree import map_tree
from nmt.search.beam import beam_search
from nmt.search.settings import Search

SOURCE_LENGTHS, TARGET_LENGTHS = [5, 2, 25, 1], [3, 6, 1, 4]
SOURCES = random_rows(SOURCE_LENGTHS, SOURCE_WORDS, seed=1)
TARGETS = random_rows(TARGET_LENGTHS, TARGET_WORDS, seed=2)

each = pytest.mark.parametrize(
    "composition",
    [pytest.param(each, id=" ".join(each), marks=pytest.mark.xdist_group(" ".join(each))) for each in compositions()],
)


def test_every_pair_that_is_not_refused_occurs_in_a_model_without_refused_pairs():
    pairs = {pair for model in compositions() for pair in combinations(sorted(model), 2)}
    for groups in (("attention", "decoder", "memory", "encoder"), attention_groups()):
        parts = [f"{group}={choice}" for group in groups for choice in choices(group)]
        two_groups = {pair for pair in combinations(sorted(parts), 2) if pair[0].split("=")[0] != pair[1].split("=")[0]}
        assert pairs & two_groups == {pair for pair in two_groups if not is_refused(pair)}


@pytest.fixture(autouse=True)
def _shapes_are_checked_in_some_tests(request, monkeypatch):
    """Check shapes in the tests that together call all signatures, because this takes a quarter of the time."""
    checked = (
        test_padding_never_receives_attention_and_never_changes_a_result,
        test_step_by_step_equals_teacher_forced,
        test_bfloat16_loss_is_finite_and_close_to_float32,
    )
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", request.function not in checked)


@cache
def model_of(composition):
    torch.manual_seed(3)
    return composed(*composition).double()


def log_probabilities(model, sources, targets):
    """Return log p (sentences, target, vocabulary) and alignments (sentences, target, source), teacher-forced."""
    batch = batch_of(sources, targets)
    with torch.no_grad():
        unrolled = model.unroll(batch, trace_names=None)
        logits = model.output(model.decoder.readout(unrolled.features.state, unrolled.words, unrolled.features.context))
    return logits.log_softmax(-1).transpose(0, 1), unrolled.trace["alignment"].transpose(0, 1)


@cache
def batched_of(composition):
    """Return log p and alignments of all sentences in one batch; cached for the tests of a composition."""
    return log_probabilities(model_of(composition), SOURCES, TARGETS)


@each
def test_padding_never_receives_attention_and_never_changes_a_result(composition):
    model = model_of(composition)
    batched, alignments = batched_of(composition)
    for number, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        single, alignment = log_probabilities(model, [source], [target])
        steps, positions = len(target) + 1, len(source) + 1
        torch.testing.assert_close(batched[number, :steps], single[0])
        torch.testing.assert_close(alignments[number, :steps, :positions], alignment[0])
        assert (alignments[number, :, positions:] == 0).all()


@each
def test_permuting_the_batch_permutes_the_result(composition):
    model, order = model_of(composition), [2, 0, 3, 1]
    straight, _ = batched_of(composition)
    permuted, _ = log_probabilities(model, [SOURCES[n] for n in order], [TARGETS[n] for n in order])
    torch.testing.assert_close(permuted, straight[order])


@each
def test_step_by_step_equals_teacher_forced(composition):
    model = model_of(composition)
    forced, _ = batched_of(composition)
    batch = batch_of(SOURCES, TARGETS)
    with torch.no_grad():
        bound, state = model.begin(model.encode(batch.source, batch.source_lengths))
        for step, words in enumerate(batch.target_input):
            logits, _, state = model.next(words, state, bound)
            torch.testing.assert_close(logits.log_softmax(1), forced[:, step])


@each
def test_reordered_beams_give_the_same_result_as_single_hypotheses(composition):
    model = model_of(composition)
    batch = batch_of(SOURCES, TARGETS)
    words = torch.tensor([[4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]])
    with torch.no_grad():
        bound, first = model.begin(model.encode(batch.source, batch.source_lengths))
        beams = map_tree(lambda leaf: leaf.repeat_interleave(3, 0), first)
        _, _, beams = model.next(words.flatten(), beams, bound)
        beams = map_tree(lambda leaf: leaf.unflatten(0, (4, 3)).flip(1).flatten(0, 1), beams)
        after_beams, _, _ = model.next(words.flatten(), beams, bound)
        for beam in range(3):
            _, _, state = model.next(words[:, 2 - beam], first, bound)
            after, _, _ = model.next(words[:, beam], state, bound)
            torch.testing.assert_close(after_beams[beam::3], after)


@each
def test_every_parameter_gets_a_gradient_that_equals_finite_differences(composition):
    model = model_of(composition)
    batch = batch_of(SOURCES, TARGETS)
    model.zero_grad()
    model.loss(batch, smoothing=0.1).objective.backward()
    generator = torch.Generator().manual_seed(5)
    direction = {name: torch.randn(p.shape, generator=generator, dtype=p.dtype) for name, p in model.named_parameters()}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if "attention=none" not in composition:  # it may not read the forward half of an encoder
            assert parameter.grad.abs().sum() > 0, f"{name} has no influence"
    slope = sum((p.grad * direction[name]).sum() for name, p in model.named_parameters())
    losses, step = [], 1e-8  # so short that no maximum of Maxout changes; rounding of float64 adds about 1e-7
    with torch.no_grad():
        for move in (step, -2 * step, step):
            for name, parameter in model.named_parameters():
                parameter += move * direction[name]
            losses.append(model.loss(batch, smoothing=0.1).objective)
    torch.testing.assert_close((losses[0] - losses[1]) / (2 * step), slope, rtol=1e-5, atol=1e-6)


@each
def test_weights_that_enter_the_loop_once_get_the_same_gradients(composition, monkeypatch):
    model, batch = model_of(composition), batch_of(SOURCES, TARGETS)
    gradients = []
    for dtype in (None, torch.float64):  # float64, so that nothing is rounded
        monkeypatch.setattr("nmt.model.kernels.weights_once.autocast_dtype", lambda _, dtype=dtype: dtype)
        model.zero_grad()
        model.loss(batch).objective.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for (name, _), plain, once in zip(model.named_parameters(), *gradients, strict=True):
        torch.testing.assert_close(once, plain, rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


@each
def test_a_graphed_loop_gets_the_same_gradients(composition):
    """Two shapes in turn: each runs as usual once, is recorded, and is replayed with other words."""
    model = model_of(composition)
    lengths = (([5, 2, 1], [2, 1, 1]), ([4, 2], [1, 1]))
    batches = [
        batch_of(random_rows(sources, SOURCE_WORDS, seed), random_rows(targets, TARGET_WORDS, seed))
        for seed in range(3)
        for sources, targets in lengths
    ]
    gradients = []
    for loop in (run_loop, GraphedLoop(run_again)):
        model.zero_grad()
        model.loop = loop
        for batch in batches:  # their gradients add up
            torch.manual_seed(1)  # of the noise in a memory
            model.loss(batch).objective.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    model.loop = run_loop
    assert [graph is not None for graph in loop.graphs.values()] == [True, True]
    for (name, _), plain, graphed in zip(model.named_parameters(), *gradients, strict=True):
        torch.testing.assert_close(graphed, plain, rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


@each
def test_a_graphed_search_finds_the_same_translations(composition):
    """Five sentences that end at different steps, so that some replays have rows left over."""
    rows = random_rows([8, 2, 1, 1, 4], SOURCE_WORDS, seed=3)
    model, batch = model_of(composition), batch_of(rows, rows)
    search = Search(beam=2, nbest=2, shortest_ratio=1.0, longest_extra=1)
    graphed = GraphedModel(model, run_again)
    for _ in range(2):
        results = []
        for searched in (model, graphed):
            torch.manual_seed(1)  # of the noise in a memory
            results.append(beam_search(searched, batch.source, batch.source_lengths, search))
        assert len({len(best.words) for best, _ in results[0]}) > 1
        for plain, again in zip(*results, strict=True):
            for one, other in zip(plain, again, strict=True):
                assert one.words.tolist() == other.words.tolist()
                assert other.score == pytest.approx(one.score, rel=1e-6)
                np.testing.assert_allclose(other.alignment, one.alignment, rtol=1e-5, atol=1e-7)
    assert any(graph is not None for graph in graphed.graphs.values())


class Watch(TorchDispatchMode):
    """Collect the operations that wait for the device, and those that run on another device than `meta`."""

    def __init__(self):
        super().__init__()
        self.waiting, self.elsewhere = set(), set()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        name = operation._schema.name.removeprefix("aten::")
        result = operation(*arguments, **(keywords or {}))
        given = {leaf.device.type for leaf in tensors_of(arguments)}
        made = {leaf.device.type for leaf in tensors_of(result)}
        if (given | made) - {"meta"}:
            self.elsewhere.add(name)
        elif name in WAITING:
            self.waiting.add(name)
        masks = [leaf for leaf in tensors_of(arguments[1:2]) if leaf.dtype == torch.bool and "meta" in given]
        if name in ("index", "index_put_") and masks:
            self.waiting.add("selects by a mask")
        if name == "_to_copy" and given != made and not keywords.get("non_blocking"):
            self.waiting.add("copies to another device")
        return result


def tensors_of(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


FEW_WORDS = [[4, 5, 6], [7]], [[8], [9]]  # sources and targets: operations are the same at each step after the first


@each
def test_the_loop_never_waits_for_the_device(composition):
    """Tensors on `meta` have no values, so nothing here depends on any: the loop can become a graph of a GPU."""
    model, batch = model_of(composition), batch_of(*FEW_WORDS)
    encoded = map_tree(lambda leaf: leaf.detach().to("meta"), model.encode(batch.source, batch.source_lengths))
    decoder = copy.deepcopy(model.decoder).to("meta").train()
    words = torch.empty(2, 2, model.target_embedding.embedding_dim, device="meta", dtype=torch.float64)
    with Watch() as watch:
        bound, state = decoder.begin(encoded)
        inputs = decoder.prepare(words)
        total = 0.0
        for parts in zip(*(part.unbind(0) for part in inputs), strict=True):
            features, _, state = decoder.step(type(inputs)(*parts), state, bound)
            total = total + features.state.sum() + features.context.sum()
        total.backward()
    assert watch.waiting | watch.elsewhere == set()


@each
def test_a_step_of_a_search_never_waits_for_the_device(composition, monkeypatch):
    monkeypatch.setattr("nmt.model.kernels.weights_once.autocast_dtype", lambda _: None)  # which knows no `meta`
    model, batch = model_of(composition), batch_of(*FEW_WORDS)
    values = model.begin(model.encode(batch.source, batch.source_lengths))
    bound, state = map_tree(lambda leaf: leaf.detach().to("meta"), values)
    hypotheses = map_tree(lambda leaf: leaf.repeat_interleave(3, 0), state)
    words = torch.empty(6, dtype=torch.long, device="meta")
    model = copy.deepcopy(model).to("meta")
    with torch.no_grad(), Watch() as watch:
        model.next(words, hypotheses, bound)
    assert watch.waiting | watch.elsewhere == set()


@each
def test_a_training_step_never_waits_for_the_device(composition, monkeypatch):
    """Only the guard reads numbers, one list a step (tests/training/test_nonfinite_guard.py)."""
    monkeypatch.setattr("nmt.model.kernels.weights_once.autocast_dtype", lambda _: None)  # which knows no `meta`
    model, batch = copy.deepcopy(model_of(composition)).to("meta").train(), batch_of(*FEW_WORDS).to("meta")
    with Watch() as watch:
        model.loss(batch).objective.backward()
    assert watch.waiting == set()


@each
def test_bfloat16_loss_is_finite_and_close_to_float32(composition):
    model = copy.deepcopy(model_of(composition)).float()
    batch = batch_of(SOURCES, TARGETS)
    exact = model.loss(batch).objective
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model.loss(batch).objective
    rounded.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.0)


@each
def test_a_beam_of_one_equals_greedy_search(composition):
    model, longest = model_of(composition), 5
    batch, how = batch_of(SOURCES, TARGETS), Search(beam=1, longest_ratio=0.0, longest_extra=longest)
    results = beam_search(model, batch.source, batch.source_lengths, how)
    for source, (best,), words, alignment in zip(SOURCES, results, *greedy(model, SOURCES, longest), strict=True):
        length = words.index(END) if END in words else longest
        assert best.words.tolist() == words[:length]
        expected = alignment[: min(length + 1, longest), : len(source) + 1]
        torch.testing.assert_close(torch.from_numpy(best.alignment), expected.float())


def greedy(model, sources, longest):
    """Return the most probable words, also after an end, and their alignments; each step runs all words again."""
    translations = [[] for _ in sources]
    for step in range(longest):
        targets = [[*words, START] for words in translations]  # one more, because a batch has no empty target
        logits, alignments = log_probabilities(model, sources, targets)
        best = logits[:, step].index_fill(1, torch.tensor([PAD, START]), -torch.inf).argmax(1).tolist()
        for words, word in zip(translations, best, strict=True):
            words.append(word)
    return translations, alignments


@each
def test_a_translation_does_not_depend_on_its_batch(composition):
    model, how = model_of(composition), Search(beam=4, nbest=3, longest_ratio=0.0, longest_extra=5)
    batch = batch_of(SOURCES, TARGETS)
    batched = beam_search(model, batch.source, batch.source_lengths, how)
    for source, hypotheses in zip(SOURCES, batched, strict=True):
        one = batch_of([source], [[4]])
        (single,) = beam_search(model, one.source, one.source_lengths, how)
        assert [best.words.tolist() for best in hypotheses] == [best.words.tolist() for best in single]
        assert [best.score for best in hypotheses] == pytest.approx([best.score for best in single])


FEW = 6  # target words; four of them may be translations, one of these is the end symbol
RANKINGS = (
    {"length_penalty": 0.0},
    {"length_penalty": 1.0, "coverage_penalty": 0.3},
    {"length_penalty": 0.7, "coverage_penalty": 0.1, "normalization": "gnmt"},
)


@pytest.mark.slow
@each
def test_a_beam_as_wide_as_the_search_space_equals_enumeration(composition):
    torch.manual_seed(7)
    model = composed(*composition, target_words=FEW).double()
    for parameter in model.parameters():
        parameter.data *= 3  # so sharp that the best translation differs from the greedy one
    longest, sources = 3, SOURCES[:2]
    translations = every_translation(longest)
    batch = batch_of(sources, [[4]] * 2)
    forced = [
        log_probabilities(model, [source] * len(translations), list(map(list, translations))) for source in sources
    ]
    for settings in RANKINGS:
        how = Search(beam=36, nbest=20, longest_ratio=0.0, longest_extra=longest, **settings)
        results = beam_search(model, batch.source, batch.source_lengths, how)
        for source, results_of_forcing, hypotheses in zip(sources, forced, results, strict=True):
            scores = scores_of(len(source) + 1, translations, *results_of_forcing, settings)
            best = sorted(scores, key=scores.get, reverse=True)[:20]
            assert [one.score for one in hypotheses] == pytest.approx([scores[words] for words in best], abs=1e-4)
            clear = scores[best[0]] - scores[best[1]] > 1e-4
            assert not clear or (*hypotheses[0].words, *[3] * (len(hypotheses[0].words) < longest)) == best[0]


def every_translation(longest):
    """Return all word sequences of at most this length; shorter ones finish with the end symbol."""
    words, finished = [1, 4, 5], []
    open_prefixes = [()]
    for _ in range(longest):
        finished += [(*prefix, 3) for prefix in open_prefixes]
        open_prefixes = [(*prefix, word) for prefix in open_prefixes for word in words]
    return [*finished, *open_prefixes]


def scores_of(positions, translations, logs, alignments, settings):
    """Return the score of each translation of a source with so many positions, from its log p by teacher forcing."""
    scores = {}
    for number, words in enumerate(translations):
        steps = torch.arange(len(words))
        log = logs[number, steps, torch.tensor(words)].sum()
        norm = len(words) if settings.get("normalization") is None else (5 + len(words)) / 6
        attended = alignments[number, steps, :positions].sum(0).clamp(1e-4, 1.0)
        penalty = settings.get("coverage_penalty", 0.0) * attended.log().sum()
        scores[words] = float(log / norm ** settings["length_penalty"] + penalty)
    return scores
