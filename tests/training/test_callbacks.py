"""Callbacks, with stand-ins for a trainer."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from compositions import composed
from pytorch_lightning.loggers import WandbLogger
from random_batches import batch_of

from nmt.data.parallel_text import Sides
from nmt.search.beam import Hypothesis
from nmt.search.settings import Search
from nmt.training.callbacks import LearningRate, MedianPruning, Throughput
from nmt.training.csv_logger import CsvLogger
from nmt.training.translation_samples import TranslationSamples


def trainer_in(folder, score):
    return SimpleNamespace(
        sanity_checking=False,
        callback_metrics={"valid/bleu": score},
        default_root_dir=str(folder),
        should_stop=False,
        strategy=SimpleNamespace(reduce_boolean_decision=lambda mine, all: mine),
    )


def sibling(folder, name, scores):
    (folder / name).mkdir()
    rows = "".join(f"{step},0.5,\n{step},,{score}\n" for step, score in enumerate(scores))
    (folder / name / "metrics.csv").write_text(f"step,train/loss,valid/bleu\n{rows}")


@pytest.fixture
def sweep(tmp_path):
    for name, scores in {"a": [1, 5, 9], "b": [2, 6, 4], "c": [3, 4, 2], "short": [50]}.items():
        sibling(tmp_path, name, scores)
    sibling(tmp_path, "this_run", [0, 0, 0])
    return tmp_path


def walk(sweep, scores, **settings):
    """Return the validation at which a run with these scores is stopped."""
    pruning = MedianPruning(sweep_folder=str(sweep), **settings)
    for number, score in enumerate(scores, start=1):
        trainer = trainer_in(sweep / "this_run", score)
        pruning.on_validation_end(trainer, SimpleNamespace(device=None))
        if trainer.should_stop:
            return number
    return None


def test_a_run_below_the_median_of_the_others_is_stopped(sweep):
    assert walk(sweep, [0, 0, 0], warm_up=1, siblings=3) == 2
    assert walk(sweep, [0, 0, 0], warm_up=2, siblings=3) == 3
    assert walk(sweep, [0, 5, 0], warm_up=1, siblings=3) == 3  # best so far 5: the median of 5, 6, 4, then of 9, 6, 4
    assert walk(sweep, [7, 0, 0], warm_up=1, siblings=3) is None


def test_no_run_is_stopped_while_too_few_others_came_as_far(sweep):
    assert walk(sweep, [0, 0, 0], warm_up=1, siblings=4) is None
    assert walk(sweep, [0, 0, 0], warm_up=0, siblings=4) == 1  # the short one came as far as this


def test_runs_of_an_earlier_sweep_do_not_count(sweep):
    for number in range(4):
        sibling(sweep, f"earlier{number}", [90, 90, 90])
    assert walk(sweep, [7, 0, 0], warm_up=1, siblings=3) == 2
    jobs = [{"folder": name} for name in ("a", "b", "c", "short", "this_run")]
    (sweep / "sweep.json").write_text(json.dumps({"jobs": jobs}))
    assert walk(sweep, [7, 0, 0], warm_up=1, siblings=3) is None
    assert walk(sweep, [0, 0, 0], warm_up=1, siblings=3) == 2


def test_all_ranks_stop_together(sweep):
    trainer, asked = trainer_in(sweep / "this_run", 50), []
    trainer.strategy.reduce_boolean_decision = lambda mine, all: asked.append((mine, all)) or True  # another rank stops
    MedianPruning(sweep_folder=str(sweep), warm_up=0, siblings=1).on_validation_end(trainer, SimpleNamespace())
    assert (asked, trainer.should_stop) == ([(False, False)], True)


def test_a_damaged_score_of_another_run_ends_no_run(sweep):
    sibling(sweep, "damaged", ["1", "\x00", "3"])
    assert walk(sweep, [0, 0, 0], warm_up=1, siblings=3) == 2


def test_a_resumed_run_is_judged_by_its_scores_before_the_stop(sweep):
    first, resumed = (MedianPruning(sweep_folder=str(sweep), warm_up=1, siblings=3) for _ in range(2))
    first.on_validation_end(trainer_in(sweep / "this_run", 7), SimpleNamespace())
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    trainer = trainer_in(sweep / "this_run", 0)
    resumed.on_validation_end(trainer, SimpleNamespace())
    assert (resumed.scores, trainer.should_stop) == ([7, 0], False)


def test_samples_are_made_only_for_loggers_that_show_them():
    trainer = trainer_with(SimpleNamespace(experiment=None))
    TranslationSamples().on_validation_epoch_end(trainer, SimpleNamespace(device=None))  # nothing is asked of it


SAMPLES = "nmt.training.translation_samples"


def validated(samples, trainer, translated, **module):
    """Validate in two batches of sentences 7, 0 and 2, and show the samples."""
    module = SimpleNamespace(device=None, translated=translated, validation_search=Search(), **module)
    for numbers in ([7, 0], [2]):
        batch = batch_of([[4, 5]] * len(numbers), [[4]] * len(numbers))
        samples.on_validation_batch_end(trainer, module, None, replace(batch, sentences=torch.tensor(numbers)), 0)
    samples.on_validation_epoch_end(trainer, module)


def trainer_with(logger):
    loop = SimpleNamespace(epoch_loop=SimpleNamespace(_batches_that_stepped=1))
    return SimpleNamespace(sanity_checking=False, is_global_zero=True, loggers=[logger], fit_loop=loop)


def test_samples_come_from_all_ranks_in_order(monkeypatch):
    shown = []
    logger = WandbLogger.__new__(WandbLogger)  # without a run
    monkeypatch.setattr(f"{SAMPLES}._write_to_wandb", lambda logger, sentences, step: shown.extend(sentences))
    monkeypatch.setattr(f"{SAMPLES}._sample", lambda module, number, *lines: number)
    monkeypatch.setattr(f"{SAMPLES}.gather_from_ranks", lambda mine: mine | {1: "another rank's"})
    monkeypatch.setattr(f"{SAMPLES}.add_traces", lambda model, source, lengths, hypotheses, aligned_word: hypotheses)
    prepared = SimpleNamespace(words=lambda *of: ["line"] * 9)
    translated = {0: "x", 2: "y", 7: "too late"}
    validated(TranslationSamples(count=3), trainer_with(logger), translated, model=None, prepared=prepared)
    assert shown == [0, "another rank's", 2]


def test_samples_of_the_last_validation_lie_beside_the_metrics(tmp_path, monkeypatch):
    texts = SimpleNamespace(texts=["source", "reference", "<translation>"])
    monkeypatch.setattr(f"{SAMPLES}._sample", lambda module, number, *lines: texts)
    monkeypatch.setattr(f"{SAMPLES}.add_traces", lambda model, source, lengths, hypotheses, aligned_word: hypotheses)
    prepared = SimpleNamespace(words=lambda *of: ["line"] * 9)
    trainer = trainer_with(CsvLogger(str(tmp_path / "metrics.csv")))
    for step in (1, 2):
        trainer.fit_loop.epoch_loop._batches_that_stepped = step
        validated(TranslationSamples(count=3), trainer, {0: "x", 2: "y"}, model=None, prepared=prepared)
    stored = json.loads((tmp_path / "valid_samples.json").read_text())
    assert stored == {"step": 2, "sentences": [texts.texts] * 2}


def test_the_first_samples_have_a_picture_of_each_trace(monkeypatch):
    pictures, model = {}, composed("attention=coverage_fertility", "attention/window=local_p", "memory=buffer")
    logger = WandbLogger.__new__(WandbLogger)  # without a run
    run = SimpleNamespace(log=lambda values, commit: pictures.update(values))
    monkeypatch.setattr(WandbLogger, "experiment", run)
    vocabulary = SimpleNamespace(pieces=lambda words: [f"w{word}" for word in words])
    language = SimpleNamespace(vocabulary=vocabulary, words=lambda words: "a b")
    prepared = SimpleNamespace(
        words=lambda *of: ["line"] * 9,
        languages=Sides(language, language),
        split=lambda name: Sides([[4, 5]] * 9, None),
    )
    alignment = np.full((3, 3), 1 / 3, np.float32)
    best = Hypothesis(np.array([6, 7]), -1.0, -1.0, np.zeros(3), {"alignment": alignment})
    translated = dict.fromkeys((0, 2, 7), best)
    samples = TranslationSamples(count=3, traced=2)  # sentences 0 and 2 are shown, and 0 is traced
    validated(samples, trainer_with(logger), translated, model=model, prepared=prepared)
    names = ("coverage", "fertility", "memory_cells", "memory_gate", "memory_weights", "position")
    alignments = ("valid/alignment_0", "valid/alignment_1")
    assert pictures.pop("valid/translations").data == [["line", "line", "a b"]] * 2
    assert sorted(pictures) == sorted((*alignments, *(f"valid/{name}_0" for name in names)))
    assert all(min(picture.image.size) > 50 for picture in pictures.values())


def test_learning_rate_is_that_of_the_step_and_exact(monkeypatch):
    monkeypatch.setattr("nmt.training.callbacks.is_logged", lambda trainer: True)
    logged, group = {}, {"lr": 0.001}
    trainer = SimpleNamespace(optimizers=[SimpleNamespace(param_groups=[group])])
    module = SimpleNamespace(log=lambda name, value, **_: logged.update({name: value.item()}))
    callback = LearningRate()
    callback.on_train_batch_start(trainer, module, None, 0)
    group["lr"] = 0.0005  # by a schedule
    callback.on_train_batch_end(trainer, module, None, None, 0)
    assert logged == {"lr": 0.001}


def test_throughput_leaves_out_validations_and_what_follows(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr("nmt.training.callbacks.time.perf_counter", lambda: seconds[0])
    monkeypatch.setattr("nmt.training.callbacks.is_logged", lambda trainer: True)
    throughput, batch = Throughput(), SimpleNamespace(global_words=100)
    rates = []
    module = SimpleNamespace(log=lambda name, rate, **_: rates.append(rate))
    for number in range(6):
        throughput.on_train_batch_start(None, module, batch, number)
        seconds[0] += 1
        throughput.on_train_batch_end(None, module, None, batch, number)
        if number % 2:
            seconds[0] += 10
            throughput.on_validation_end(None, module)
            seconds[0] += 100  # pictures, checkpoints
    assert rates == [100] * 6
