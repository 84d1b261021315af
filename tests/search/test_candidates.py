"""Candidate lists: their words; search and loss over them; sparse gradients and their optimizer."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from compositions import composed
from random_batches import batch_of, text_of

from nmt.data import candidate_lists
from nmt.data.batches import collate
from nmt.data.candidate_lists import Candidates, load_or_learn_candidates
from nmt.data.datamodule import TranslationData
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import PAD
from nmt.errors import ConfigurationError, DataError
from nmt.search.beam import beam_search
from nmt.search.ensemble import Ensemble, Member
from nmt.search.settings import Search
from nmt.training.clipping import clip_norm, clip_values
from nmt.training.sparse_adam import SparseAdam

SOURCES, TARGETS = [[5, 6], [7, 5, 9], [8]], [[10, 11], [12], [21, 13, 10]]
FREQUENT = np.array([0, 1, 2, 3, 4, 10])
# translations: 5 → 14 15, 6 → 14, 7 → nothing, 8 → 16
LISTS = Candidates(FREQUENT, np.array([0, 0, 0, 0, 0, 0, 2, 3, 3, 4, 4] + [4] * 9), np.array([15, 14, 14, 16]))


def sharp(*overrides, seed=1):
    torch.manual_seed(seed)
    model = composed(*overrides, "initialization=uniform").double()
    for parameter in model.parameters():
        parameter.data *= 5
    return model


def test_a_batch_gets_frequent_words_translations_and_its_target_words():
    source = np.array([[5, 6, 3], [7, 3, PAD]])
    assert LISTS.select_for_batch(source).tolist() == [0, 1, 2, 3, 4, 10, 14, 15]
    assert LISTS.select_for_batch(source, np.array([[20, 3], [10, 0]])).tolist() == [0, 1, 2, 3, 4, 10, 14, 15, 20]


def test_candidates_of_a_sentence_do_not_depend_on_the_rest_of_the_batch():
    words, allowed = LISTS.select_for_sentences(np.array([[6, 3], [8, 3]]), np.array([[22, 0], [0, 0]]))
    assert words.tolist() == [0, 1, 2, 3, 4, 10, 14, 16, 22]
    assert words[allowed[0]].tolist() == [0, 1, 2, 3, 4, 10, 14, 22]
    assert words[allowed[1]].tolist() == [0, 1, 2, 3, 4, 10, 16]


def test_the_loss_over_candidates_is_that_of_a_vocabulary_of_only_these_words():
    model = sharp().train()
    text = Sides(text_of(SOURCES), text_of(TARGETS))
    batch = collate(text, np.arange(3), candidates=LISTS)
    assert batch.candidates.tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 15, 16, 21]
    model.embedding_dropout.p = 0.0
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        unrolled = model.unroll(batch)
        logits = model.output(model.decoder.readout(unrolled.features.state, unrolled.words, unrolled.features.context))
    logs = logits.flatten(0, 1)[batch.target_index][:, batch.candidates].log_softmax(1)
    targets = torch.searchsorted(batch.candidates, batch.target_words)
    expected = -logs.gather(1, targets[:, None]).sum()
    assert model.loss(batch).objective.item() == pytest.approx(expected.item(), rel=1e-9)
    assert model.eval().loss(batch).objective.item() == pytest.approx(
        model.loss(batch_of(SOURCES, TARGETS)).objective.item()
    )  # perplexity is always over the whole vocabulary


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sparse_gradients_equal_dense_gradients(smoothing):
    text = Sides(text_of(SOURCES), text_of(TARGETS))
    batch = collate(text, np.arange(3), candidates=LISTS)
    gradients = []
    for sparse in (False, True):
        model = sharp("dropout=0.0", f"+model.sparse_gradients={sparse}").train()
        model.loss(batch, smoothing).objective.backward()
        assert model.output.weight.grad.is_sparse == model.target_embedding.weight.grad.is_sparse == sparse
        if not sparse:
            used = model.output.weight.grad.abs().sum(1).nonzero()[:, 0].tolist()
            assert used == batch.candidates.tolist()
        gradients.append([p.grad.to_dense() for p in model.parameters()])
    for dense, sparse in zip(*gradients, strict=True):
        torch.testing.assert_close(dense, sparse)


def test_a_search_over_candidates_equals_one_with_other_logits_at_minus_infinity():
    model = sharp()
    settings = Search(beam=4, nbest=3, longest_ratio=0.0, longest_extra=6)
    batch = batch_of(SOURCES, TARGETS)
    together = beam_search(model, batch.source, batch.source_lengths, settings, candidates=LISTS)
    bias = model.output.bias.data.clone()
    for source, hypotheses in zip(SOURCES, together, strict=True):
        one = batch_of([source], [[4]])
        allowed = LISTS.select_for_batch(one.source.numpy())
        model.output.bias.data.fill_(-torch.inf)[allowed] = bias[allowed]
        (alone,) = beam_search(model, one.source, one.source_lengths, settings)
        model.output.bias.data.copy_(bias)
        assert [best.words.tolist() for best in hypotheses] == [best.words.tolist() for best in alone]
        assert [best.score for best in hypotheses] == pytest.approx([best.score for best in alone], abs=1e-5)
        assert {word for best in hypotheses for word in best.words.tolist()} <= set(allowed.tolist())


def test_prefixes_and_ensembles_work_with_candidates():
    model = sharp("decoder=luong", seed=2)
    settings = Search(beam=3, longest_ratio=0.0, longest_extra=6)
    batch = batch_of(SOURCES, TARGETS)
    prefixes = torch.tensor([[22, 10], [PAD, PAD], [18, PAD]])
    single = beam_search(model, batch.source, batch.source_lengths, settings, prefixes=prefixes, candidates=LISTS)
    assert single[0][0].words[:2].tolist() == [22, 10]
    assert single[2][0].words[0] == 18
    ensemble = Ensemble([Member(model, True), Member(model, True)], average="probabilities")
    several = beam_search(ensemble, batch.source, batch.source_lengths, settings, prefixes=prefixes, candidates=LISTS)
    for one, two in zip(single, several, strict=True):
        assert one[0].words.tolist() == two[0].words.tolist()
        assert one[0].log_probability == pytest.approx(two[0].log_probability, abs=1e-4)


@pytest.mark.parametrize("average", ["probabilities", "logs"])
def test_an_ensemble_keeps_its_weights_and_its_average_over_candidates(average):
    models = [sharp(seed=1), sharp(seed=2)]
    ensemble = Ensemble([Member(model, True) for model in models], weights=[1, 3], average=average)
    settings, batch = Search(beam=4, nbest=3, longest_ratio=0.0, longest_extra=6), batch_of(SOURCES, TARGETS)
    together = beam_search(ensemble, batch.source, batch.source_lengths, settings, candidates=LISTS)
    biases = [model.output.bias.data.clone() for model in models]
    for source, hypotheses in zip(SOURCES, together, strict=True):
        one = batch_of([source], [[4]])
        allowed = LISTS.select_for_batch(one.source.numpy())
        for model, bias in zip(models, biases, strict=True):
            model.output.bias.data.fill_(-torch.inf)[allowed] = bias[allowed]
        (alone,) = beam_search(ensemble, one.source, one.source_lengths, settings)
        assert [best.words.tolist() for best in hypotheses] == [best.words.tolist() for best in alone]
        assert [best.score for best in hypotheses] == pytest.approx([best.score for best in alone], abs=1e-4)


def test_candidate_lists_are_stored_and_damage_is_reported(tmp_path):
    LISTS.save(tmp_path / "candidates.npz")
    again = Candidates.load(tmp_path / "candidates.npz")
    assert again.select_for_batch(np.array([[5, 8]])).tolist() == LISTS.select_for_batch(np.array([[5, 8]])).tolist()
    (tmp_path / "candidates.npz").write_bytes(b"rubbish")
    with pytest.raises(DataError, match="cannot be read as candidate lists"):
        Candidates.load(tmp_path / "candidates.npz")


def test_damaged_lists_in_the_cache_are_named_and_made_again(tmp_path, monkeypatch, caplog):
    made = []
    monkeypatch.setattr(candidate_lists, "_learn_candidates", lambda *_: made.append(1) or LISTS)
    prepared = SimpleNamespace(folder=tmp_path)
    load_or_learn_candidates(prepared, most_frequent=4, translations=1)
    path = tmp_path / "candidates_4_1.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    load_or_learn_candidates(prepared, most_frequent=4, translations=1)
    assert f"{path}: cannot be read as candidate lists" in caplog.text
    load_or_learn_candidates(prepared, most_frequent=4, translations=1)
    assert (path.read_bytes(), made) == (whole, [1, 1])


def test_lists_that_cannot_be_written_are_made_once_a_start(tmp_path, monkeypatch, caplog):
    made = []
    monkeypatch.setattr(candidate_lists, "_learn_candidates", lambda *_: made.append(1) or LISTS)
    monkeypatch.setattr(Candidates, "save", lambda *_: os.mkdir(tmp_path / "missing" / "folder"))
    data = TranslationData.__new__(TranslationData)
    data.prepare, data.loaded_candidates = lambda: SimpleNamespace(folder=tmp_path), None
    data.candidates = {"most_frequent": 4, "translations": 1}
    assert data.candidate_lists() is data.candidate_lists() is LISTS
    assert made == [1]
    assert "cannot be written (No such file or directory), so each start makes these lists again" in caplog.text


@pytest.mark.parametrize(("wrong", "most"), [("most_frequent", 3), ("translations", 0)])
def test_candidate_lists_of_impossible_sizes_are_refused(wrong, most):
    with pytest.raises(ConfigurationError, match=f"data.candidates.{wrong}={most}: must be at least"):
        load_or_learn_candidates(None, **{"most_frequent": 4, "translations": 1, wrong: most})


def in_rows(rows, values, shape):
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, shape, check_invariants=True)


def test_sparse_adam_is_adam_for_dense_and_torch_sparse_adam_for_sparse_gradients():
    torch.manual_seed(0)
    starts = torch.randn(6, 3), torch.randn(6, 3)
    both = [torch.nn.Parameter(start.clone()) for start in starts]
    alone = [torch.nn.Parameter(start.clone()) for start in starts]
    ours = SparseAdam(both, lr=0.1)
    theirs = torch.optim.Adam(alone[:1], lr=0.1), torch.optim.SparseAdam(alone[1:], lr=0.1)
    for rows in ([0, 2, 2], [5], [0, 1, 3]):
        for dense, sparse in (both, alone):
            torch.manual_seed(sum(rows))
            dense.grad = torch.randn(6, 3)
            sparse.grad = in_rows(rows, torch.randn(len(rows), 3), (6, 3))
        ours.step()
        for optimizer in theirs:
            optimizer.step()
        assert both[1].grad is None
        for one, two in zip(both, alone, strict=True):
            torch.testing.assert_close(one, two)
    stored = ours.state_dict()
    again = SparseAdam(both, lr=0.1)
    again.load_state_dict(stored)
    torch.testing.assert_close(again.state[both[1]]["exp_avg"], ours.state[both[1]]["exp_avg"])


def test_the_norm_of_sparse_and_dense_gradients_is_clipped_together():
    dense, sparse = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(4, 1))
    dense.grad = torch.tensor([3.0, 0.0])
    sparse.grad = in_rows([1, 1], torch.tensor([[1.0], [3.0]]), (4, 1))
    clip_norm([dense, sparse], 1.0)
    torch.testing.assert_close(dense.grad, torch.tensor([0.6, 0.0]))
    torch.testing.assert_close(sparse.grad.to_dense()[:, 0], torch.tensor([0.0, 0.8, 0.0, 0.0]))


def test_values_of_sparse_gradients_are_clipped_row_by_row():
    dense, sparse = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(4, 1))
    dense.grad = torch.tensor([-3.0, 0.5])
    sparse.grad = in_rows([1, 1, 2], torch.tensor([[0.8], [0.7], [0.9]]), (4, 1))
    clip_values([dense, sparse], 1.0)
    torch.testing.assert_close(dense.grad, torch.tensor([-1.0, 0.5]))
    torch.testing.assert_close(sparse.grad.to_dense()[:, 0], torch.tensor([0.0, 1.0, 0.9, 0.0]))
