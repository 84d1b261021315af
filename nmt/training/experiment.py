"""Train one run: resolve_run → preflight → prepare → fit → finish."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import hydra.utils
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from nmt.config.diff import find_changes
from nmt.config.explain import explain_training_error
from nmt.config.overrides import read_overrides
from nmt.config.resolvers import starts_from_pretrained
from nmt.data.candidate_lists import Candidates
from nmt.data.corpus_cache import PreparedCorpus
from nmt.data.datamodule import TranslationData
from nmt.data.named_files import Permission, remember
from nmt.errors import UserError, is_importable, require_packages
from nmt.evaluation.bleu import warn_of_low_bleu
from nmt.evaluation.run_evaluation import evaluate_run
from nmt.evaluation.test_set import read_test_set
from nmt.model.kernels.graphed_loop import CudaRecorder, GraphedLoop
from nmt.runs.checkpoint_file import load_checkpoint
from nmt.runs.code_fingerprint import code_version
from nmt.runs.folder import CONFIG, has_checkpoint, restore_composition
from nmt.runs.provenance import git_commit, versions
from nmt.runs.resume import CompletedAlreadyError, EarlierTraining, check_other_data, find_earlier_training
from nmt.runs.scoring import Scoring, is_scored, read_scoring
from nmt.runs.stored_overrides import find_typed
from nmt.runs.trained_model import build_model, with_vocabulary_sizes
from nmt.runs.training_folder import finish_putting_aside, lock_run_folder, put_aside, refuse_working_directory
from nmt.system.hardware import describe_hardware
from nmt.system.locks import HeldLock
from nmt.system.matrix_products import set_up_products
from nmt.system.safe_files import UnreadableError, read_yaml
from nmt.training.callbacks import LockGuard
from nmt.training.last_checkpoint import LastCheckpoint
from nmt.training.lightning_internals import stop_watching_ranks
from nmt.training.lightning_module import TrainingModule, parameter_counts
from nmt.training.nonfinite_guard import NonfiniteGuard
from nmt.training.preflight import check_ranks, check_settings, list_places
from nmt.training.pretrained_vectors import fill_embeddings
from nmt.training.pretraining import offer_as_stage, pretrained, stage_folder
from nmt.training.process_setup import set_up_process
from nmt.training.run_summary import RunSummary, keep_summary
from nmt.training.stopped_ranks import StoppedRanks
from nmt.training.transfer import initialize_from
from nmt.training.wandb_run import WandbRun

log = logging.getLogger(__name__)


class RunPlan(NamedTuple):
    """The training that a command starts; `config` stays as it was composed."""

    config: DictConfig
    folder: Path
    overrides: tuple[str, ...]
    earlier: EarlierTraining


class PreparedRun(NamedTuple):
    """A planned run with everything that `fit` needs."""

    plan: RunPlan
    trainer: Trainer
    module: TrainingModule
    data: TranslationData
    stage: Path  # the folder it would have as a pretraining stage


def train(config: DictConfig) -> float | None:
    """Train with the composed configuration; return the best validation score, for sweepers."""
    hydra_config = HydraConfig.get()
    folder = Path(hydra_config.runtime.output_dir)
    sweep = Path(hydra_config.sweep.dir).absolute() if hydra_config.mode == RunMode.MULTIRUN else None
    refuse_working_directory(folder, Path(hydra_config.runtime.cwd))
    with lock_run_folder(folder) as lock:
        finish_putting_aside(folder)
        try:
            plan = resolve_run(config, folder)
        except CompletedAlreadyError as error:
            restore_composition(folder)  # which Hydra has overwritten
            return score_completed(folder, read_scoring(config), error.summary)
        with keep_summary(folder, plan.earlier, sweep) as summary:
            preflight(plan, summary)
            prepared = prepare(plan, summary, lock)
            fit(prepared, summary)
            finish(prepared, summary)
    return summary.entries.get("best", {}).get("score")


def resolve_run(config: DictConfig, folder: Path) -> RunPlan:
    """Settle what to train: a new run, or one that this folder or ckpt_path holds."""
    return RunPlan(config, folder, read_overrides(), find_earlier_training(config, folder))


def score_completed(folder: Path, scoring: Scoring | None, summary: Mapping[str, Any]) -> float | None:
    """Score a completed run if it is to be scored and its scores are missing."""
    log.info("completed already: %s (resume=false trains it again)", folder)
    if scoring and rank_zero_only.rank == 0 and not is_scored(folder, scoring):
        evaluate_run(folder, scoring)
    return summary.get("best", {}).get("score")


def preflight(plan: RunPlan, summary: RunSummary) -> None:
    """Set up the process, and refuse settings that would fail only after hours of data preparation."""
    set_up_process(plan.config)
    check_settings(plan.config, plan.overrides, plan.earlier.checkpoint)
    remember(list_places(plan.config))
    if plan.earlier.starts_again:
        put_aside(plan.folder)
        summary.start()
    if plan.config.repeats:
        _warn_of_changes(plan.config)


def prepare(plan: RunPlan, summary: RunSummary, lock: HeldLock | None) -> PreparedRun:
    """Prepare data, model and trainer; what can be refused without the data is refused before they are prepared."""
    config, entries = plan.config, summary.entries
    loggers = make_loggers(config.logger)
    callbacks = (summary, LockGuard(lock), StoppedRanks())
    trainer = make_trainer(config, plan.folder, loggers, *callbacks)
    check_ranks(config, trainer)
    data = make_data(plan)
    corpus = data.prepare()
    if entries.get("data", corpus.text_digest) != corpus.text_digest:
        check_other_data(config.resume, plan.folder)
        entries["went_on_with"] = str(plan.earlier.checkpoint)
    stage = stage_folder(config, plan.overrides, data)
    sized = with_vocabulary_sizes(config, *(len(language.vocabulary) for language in corpus.languages))
    module = make_module(sized, corpus, plan.folder, data.candidate_lists())
    if module.model.needs_links:
        data.read_links()
    summary.update(stage=stage.name)
    if trainer.is_global_zero:  # before the run trains a stage of its own, so that a job that needs this run waits
        offer_as_stage(plan.folder, stage)
    entries |= {"data": corpus.text_digest} | _initialize(plan, module)
    device, precision = trainer.strategy.root_device, entries.get("matmul_precision")
    entries["matmul_precision"] = set_up_products(config.matmul_precision, precision, module.model, device)
    code, codes = code_version(config), entries.get("code", [])
    codes = codes if code in codes else [*codes, code]
    summary.update(parameters=parameter_counts(module.model), versions=versions(), git_commit=git_commit(), code=codes)
    log.info("%s parameters; run folder: %s", f"{entries['parameters']['total']:,}", plan.folder)
    for logger in loggers:  # only now, because a pretraining stage would inherit W&B's directories
        logger.log_hyperparams(OmegaConf.to_container(sized, resolve=True))
        summary.loggers.append(logger)  # only now, because closing a W&B logger opens its run
    return PreparedRun(plan, trainer, module, data, stage)


def make_data(plan: RunPlan) -> TranslationData:
    """Build the data, and read the test set, because a wrong one is refused before the data are prepared."""
    config, checkpoint = plan.config, plan.earlier.checkpoint
    data = hydra.utils.instantiate(config.data)
    if config.repeats:
        typed = find_typed(config.repeats, plan.overrides)
        data.permission = Permission(config.repeats, typed, "type the file yourself")
    if data.vocabulary_run and checkpoint:  # because the other run may be gone
        data.vocabulary_run = str(checkpoint)
    if config.score_test:
        read_test_set(data)
    elif config.data.test is not None:
        data.test_pairs()
    return data


def fit(run: PreparedRun, summary: RunSummary) -> None:
    """Train until Lightning stops; a command that leaves nothing to train is an error."""
    config, trainer, checkpoint = run.plan.config, run.trainer, run.plan.earlier.checkpoint
    started = time.perf_counter()
    try:
        with explain_fit_errors(trainer, run.module):
            trainer.fit(run.module, run.data, ckpt_path=checkpoint, weights_only=True)
    finally:
        stop_watching_ranks()
        seconds = run.plan.earlier.seconds + time.perf_counter() - started
        summary.entries["train_seconds"] = round(seconds, 1)
        # after training, because Lightning's launcher shares out the threads among ranks
        hardware = describe_hardware(trainer.strategy.root_device)
        summary.entries["machine"] = hardware | {"ranks": trainer.world_size}
    if not (summary.trained or (summary.started and has_checkpoint(run.plan.folder))):
        where = f"ckpt_path={checkpoint} is at step {trainer.global_step}" if checkpoint else "a new run"
        limits = f"trainer.max_epochs={config.trainer.max_epochs}, trainer.max_steps={config.trainer.max_steps}"
        raise UserError(f"nothing was trained: {where}, and {limits} leave nothing to do. Fix: raise them")


@contextmanager
def explain_fit_errors(trainer: Trainer, module: TrainingModule) -> Iterator[None]:
    """Turn out-of-memory, NCCL/Gloo and state-dict errors into messages that say what to do."""
    try:
        yield
    except (RuntimeError, ValueError, MisconfigurationException) as error:
        batch = module.batches[-1] if module.batches else None
        message = explain_training_error(error, checkpoint=trainer.ckpt_path, epochs=trainer.max_epochs, batch=batch)
        if message is None:
            raise
        raise UserError(message) from error


def finish(run: PreparedRun, summary: RunSummary) -> None:
    """Note the results, score the test set, and offer the run as a pretraining stage."""
    plan, trainer = run.plan, run.trainer
    summary.entries |= results(trainer)
    summary.entries["last"] = plan.earlier.metrics | summary.entries["last"]
    if trainer.is_global_zero:
        bleu = summary.entries["last"].get("valid/bleu")
        scoring = read_scoring(plan.config)
        if bleu is not None and not (scoring and scoring.test is None):  # or it would warn twice
            warn_of_low_bleu("valid", bleu)
        if scoring:
            evaluate_run(plan.folder, scoring)
        for logger in trainer.loggers:
            if isinstance(logger, WandbRun):
                logger.end(plan.folder, summary.entries, run.data)
        offer_as_stage(plan.folder, run.stage)  # again, because an equal run that began later may have failed


def _warn_of_changes(config: DictConfig) -> None:
    """Name changed settings that affect training, because files of conf/ may differ since the repeated run."""
    try:
        before = read_yaml(Path(config.repeats) / CONFIG)
    except UnreadableError as error:
        log.warning("run=%s: %s, so its settings are not compared", config.repeats, error)
        return
    if differing := sorted(find_changes(before, OmegaConf.to_container(config))):
        log.warning("not as in %s: %s", config.repeats, ", ".join(differing))


def _initialize(plan: RunPlan, module: TrainingModule) -> dict[str, Any]:
    """Take the weights of another run or pretrained vectors, if they are given; a resumed run has its own weights."""
    config, languages = plan.config, module.prepared.languages
    if plan.earlier.checkpoint:
        return {}
    if not starts_from_pretrained(config):
        vectors = fill_embeddings(config.vectors, module.model, languages)
        return {"vectors": vectors} if vectors else {}
    source = config.init_from if config.pretraining is None else str(pretrained(config.pretraining, plan.overrides))
    return {"initialized_from": initialize_from(source, module.model, languages, config.fresh, config.user_dir)}


def make_module(
    config: DictConfig, corpus: PreparedCorpus, folder: Path, candidates: Candidates | None = None
) -> TrainingModule:
    """Build the LightningModule from settings with vocabulary sizes."""
    source, target = (language.vocabulary.to_json() for language in corpus.languages)
    record = {"config": OmegaConf.to_container(config), "vocabularies": {"source": source, "target": target}}
    model = build_model(config, config.user_dir)
    if config.graphs:
        model.loop = GraphedLoop(CudaRecorder())
    return TrainingModule(
        model=model,
        optimizer=hydra.utils.instantiate(config.optimizer),
        schedule=hydra.utils.instantiate(config.schedule),
        prepared=corpus,
        candidates=candidates,
        validation_search=hydra.utils.instantiate(config.validation),
        guard=NonfiniteGuard(path=str(folder / "unusual_steps.jsonl"), **config.finite),
        record=record,
        **config.loss,
    )


def make_trainer(config: DictConfig, folder: Path, loggers: list[Logger], *callbacks: Callback) -> Trainer:
    """Build the Trainer with the configured callbacks and these."""
    configured = [hydra.utils.instantiate(settings) for settings in config.callbacks.values() if settings is not None]
    configured.sort(key=lambda callback: isinstance(callback, LastCheckpoint))  # last, because it saves others' states
    return hydra.utils.instantiate(
        config.trainer,
        logger=loggers,
        callbacks=[*configured, *callbacks],
        default_root_dir=str(folder),
        enable_progress_bar=sys.stderr.isatty(),
    )


def make_loggers(configured: DictConfig) -> list[Logger]:
    """Build the loggers; without the package wandb, only the offline copy of W&B is left out."""
    configured = {name: settings for name, settings in configured.items() if settings is not None}
    if "wandb" in configured and configured["wandb"].get("offline") and not is_importable("wandb"):
        log.warning("logger=local: wandb is not installed, so only metrics.csv is written. Fix: pip install wandb")
        del configured["wandb"]
    for package in configured.keys() & {"wandb", "tensorboard"}:
        require_packages(f"logger={package}", package, extra=package)
    return [hydra.utils.instantiate(settings) for settings in configured.values()]


def results(trainer: Trainer) -> dict[str, Any]:
    """Return the entries of summary.json for a finished training."""
    guard = trainer.lightning_module.guard
    entries: dict[str, Any] = {
        "steps": trainer.global_step,
        "epochs": trainer.current_epoch,
        "steps_left_out": guard.skipped,
        "gradient_spikes": guard.spikes,
        "last": {name: float(value) for name, value in sorted(trainer.callback_metrics.items())},
    }
    checkpoint = next((one for one in trainer.checkpoint_callbacks if isinstance(one, ModelCheckpoint)), None)
    if checkpoint is not None and checkpoint.best_model_score is not None:
        best, folder = map(os.path.realpath, (checkpoint.best_model_path, trainer.default_root_dir))
        entries["best"] = {
            "metric": checkpoint.monitor,
            "score": float(checkpoint.best_model_score),
            "checkpoint": os.path.relpath(best, folder),
            "step": _step_of(Path(best)),
        }
    return entries


@rank_zero_only
def _step_of(checkpoint: Path) -> int | None:
    """Return the step of a checkpoint; None where it is gone, which must not fail a finished run."""
    with suppress(UserError):
        return load_checkpoint(checkpoint)["global_step"]
    return None
