"""From a composed configuration to a finished run: loggers → callbacks → trainer → data → model → fit."""

import importlib.metadata
import logging
import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import hydra.utils
import pytorch_lightning
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from nmt.config.diff import leaves
from nmt.config.resolvers import starts_from_another
from nmt.data.batches import Batch
from nmt.data.candidate_lists import Candidates
from nmt.data.corpus_cache import Prepared
from nmt.errors import CheckpointError, UserError, first_line
from nmt.evaluation.test_set import evaluate_run, test_set
from nmt.runs.checkpoint_file import load_checkpoint
from nmt.runs.folder import CHECKPOINTS, CONFIG, is_scored
from nmt.runs.provenance import code_version, git_commit
from nmt.runs.trained_model import build_model
from nmt.system.hardware import machine
from nmt.training.lightning_module import Training, parameter_counts
from nmt.training.nonfinite_guard import Finite
from nmt.training.preflight import check_ranks, check_settings
from nmt.training.pretraining import offer, place_of, pretrained
from nmt.training.resume import (
    Before,
    CompletedAlreadyError,
    alone_in,
    must_not_hold,
    on_other_data,
    put_aside,
    settle,
)
from nmt.training.run_summary import Beginning, recorded
from nmt.training.transfer import initialize_from

log = logging.getLogger(__name__)

LOST_RANK = re.compile("gloo.*(Connection|Read error|Write error|Timed out|timeout)|NCCL|Socket")
VERSIONS = (
    "torch", "pytorch-lightning", "hydra-core", "numpy", "tokenizers", "sacremoses", "sacrebleu", "wandb",
)  # fmt: skip


def train(config: DictConfig) -> float | None:
    """Trains what the configuration composed; gives the best validation score, for sweepers."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    must_not_hold(folder, Path(HydraConfig.get().runtime.cwd))
    with alone_in(folder):
        try:
            before = settle(config, folder)
        except CompletedAlreadyError as done:
            log.info("completed already: %s (resume=false trains it anew)", folder)
            scored = is_scored(folder, config.data.test, config.score_unknown)
            if config.score_test and rank_zero_only.rank == 0 and not scored:
                evaluate_run(folder, config.score_unknown, config.data.test)
            return done.summary.get("best", {}).get("score")
        except CheckpointError as error:  # what the folder itself holds is passed over where it is damaged
            raise CheckpointError(f"ckpt_path={error}") from error
        return _trained(config, folder, before)


def _trained(config: DictConfig, folder: Path, before: Before) -> float | None:
    with recorded(folder, before) as record:
        summary = record.summary
        check_settings(config)
        if before.anew:
            put_aside(folder)
            record.begin()
        _settle_surroundings(config)
        if config.repeats:
            _say_what_changed(config)
        loggers = [_quiet(hydra.utils.instantiate(logger)) for logger in config.logger.values() if logger is not None]
        beginning = Beginning(record)
        # Now, or what it refuses is found only after data is prepared
        trainer = make_trainer(config, folder, loggers, beginning)
        check_ranks(config, trainer)
        data = hydra.utils.instantiate(config.data)
        if config.score_test:
            test_set(data)  # or what is wrong with it is found when training is done
        elif config.data.test is not None:
            data.test_pairs()  # or that there is none of the name
        prepared = data.prepare()
        if before.told.get("data", prepared.content) != prepared.content:
            summary["went_on_with"] = on_other_data(config, folder)
        summary["data"] = prepared.content
        place = place_of(config, HydraConfig.get().overrides.task)
        module = compose_module(config, prepared, folder, data.candidate_lists())
        summary |= initialized(config, module)
        summary |= {"parameters": parameter_counts(module.model), "versions": versions(), "git_commit": git_commit()}
        summary["code"] = list(dict.fromkeys([*before.told.get("code", ()), code_version()]))
        record.write()
        log.info("%s parameters; run folder: %s", f"{summary['parameters']['total']:,}", folder)
        record.loggers = loggers  # only now: to close a logger of W&B begins its run
        for logger in loggers:
            logger.log_hyperparams(OmegaConf.to_container(config, resolve=True))
        try:
            with explained(module):
                trainer.fit(module, data, ckpt_path=config.ckpt_path, weights_only=True)
        finally:  # threads are as the launcher of ranks has shared them out
            summary["machine"] = machine(trainer.strategy.root_device) | {"ranks": trainer.world_size}
        if not (record.begun and (beginning.trained or any((folder / CHECKPOINTS).glob("*.ckpt")))):
            raise UserError(_nothing_trained(config, trainer))
        summary |= _results(trainer, before.metrics)
        summary["stage"] = place.name
        if trainer.is_global_zero:
            if config.score_test:
                evaluate_run(folder, config.score_unknown, config.data.test)
            offer(folder, place, summary.get("went_on_with"))
    return summary.get("best", {}).get("score")


def initialized(config: DictConfig, module: Training) -> dict[str, Any]:
    """Weights of another run, where `pretraining` or `init_from` asks for them; those gone on with have their own."""
    source = config.init_from
    if config.ckpt_path or not starts_from_another(config):
        return {}
    if config.pretraining is not None:
        source = str(pretrained(config, HydraConfig.get().overrides.task))
    return {"initialized_from": initialize_from(source, module.model, module.prepared.languages, config.fresh)}


@contextmanager
def explained(module: Training) -> Iterator[None]:
    """What memory and network say of themselves helps nobody."""
    try:
        yield
    except MisconfigurationException as error:
        if "You restored a checkpoint" in str(error):
            raise UserError(
                f"ckpt_path={module.trainer.ckpt_path}: was trained for longer than "
                f"trainer.max_epochs={module.trainer.max_epochs}; raise it, or init_from= starts from its weights alone"
            ) from error
        raise
    except RuntimeError as error:
        reason = first_line(error)
        if "Error(s) in loading state_dict" in reason:
            raise UserError(
                f"ckpt_path={module.trainer.ckpt_path}: is of a model with other settings; init_from= takes over "
                "weights by their names"
            ) from error
        if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in reason:
            raise UserError(_out_of_memory(module.batches, reason)) from error
        if LOST_RANK.search(reason):
            raise UserError(
                "another rank died, or cannot be reached any more: what it said last tells why; the same command goes "
                f"on from the last checkpoint ({reason})"
            ) from error
        raise


def _out_of_memory(batches: list[Batch], reason: str) -> str:
    """With the batch that did not fit, and what to lower."""
    if not batches:
        return (
            "out of memory, not in a batch of training but before it or in a validation: lower "
            f"data.valid_batches.size, or choose a smaller size= ({reason})"
        )
    batch = batches[-1]
    return (
        f"out of memory in a batch with {len(batch.sentences)} sentences of up to {batch.source.shape[1]} source and "
        f"{batch.target_input.shape[0]} target words: lower data.batches.size or data.max_length, or choose a smaller "
        f"size=, trainer.precision=bf16-mixed, or trainer.accumulate_grad_batches with smaller batches ({reason})"
    )


def _settle_surroundings(config: DictConfig) -> None:
    os.environ.setdefault("WANDB_SILENT", "true")  # the summary says where its files are
    warnings.filterwarnings("ignore", message="The number of training batches")  # a short run is no mistake
    warnings.filterwarnings("ignore", message="It is recommended to use `self.log")  # every rank logs the same value
    warnings.filterwarnings("ignore", message="Checkpoint directory")  # a run may be gone on with
    warnings.filterwarnings("ignore", message="Experiment logs directory")  # it is the run's own folder
    warnings.filterwarnings("ignore", message="The `srun` command is available")  # it need not be used
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # Lightning's own, of torch's pytrees
    torch.set_float32_matmul_precision(config.matmul_precision)
    torch.backends.cudnn.allow_tf32 = config.matmul_precision != "highest"  # of recurrent layers, which ask only this
    if config.threads:
        torch.set_num_threads(config.threads)
        os.environ["OMP_NUM_THREADS"] = str(config.threads)  # or Lightning's launcher of ranks sets its own number
    pytorch_lightning.seed_everything(config.seed, workers=True, verbose=False)


def _say_what_changed(config: DictConfig) -> None:
    """Where the files of conf/ are no longer what they were when the repeated run was composed."""
    before = leaves(OmegaConf.to_container(OmegaConf.load(Path(config.repeats) / CONFIG)))
    now = leaves(OmegaConf.to_container(config))
    own = ("repeats", "ckpt_path")
    changed = [key for key in before.keys() | now.keys() if before.get(key) != now.get(key) and key not in own]
    if changed:
        log.warning("not as in %s: %s", config.repeats, ", ".join(sorted(changed)))


def compose_module(
    config: DictConfig, prepared: Prepared, folder: Path, candidates: Candidates | None = None
) -> Training:
    """The LightningModule; the model's vocabulary sizes are known only now."""
    source, target = (language.vocabulary for language in prepared.languages)
    config.model.source_vocabulary_size, config.model.target_vocabulary_size = len(source), len(target)
    vocabularies = {"source": source.to_json(), "target": target.to_json()}
    record = {"config": OmegaConf.to_container(config), "vocabularies": vocabularies}  # before building resolves it
    return Training(
        model=build_model(config),
        optimizer=hydra.utils.instantiate(config.optimizer),
        schedule=hydra.utils.instantiate(config.schedule),
        prepared=prepared,
        candidates=candidates,
        validation_search=hydra.utils.instantiate(config.validation),
        finite=Finite(path=str(folder / "unusual_steps.jsonl"), **config.finite),
        record=record,
        **config.loss,
    )


def make_trainer(config: DictConfig, folder: Path, loggers: list[Logger], *own: Callback) -> Trainer:
    callbacks = [hydra.utils.instantiate(given) for given in config.callbacks.values() if given is not None]
    return hydra.utils.instantiate(
        config.trainer,
        logger=loggers,
        callbacks=[*callbacks, *own],
        default_root_dir=str(folder),
        enable_progress_bar=sys.stderr.isatty(),
    )


def _nothing_trained(config: DictConfig, trainer: Trainer) -> str:
    limits = f"trainer.max_epochs={config.trainer.max_epochs}, trainer.max_steps={config.trainer.max_steps}"
    where = f"ckpt_path={config.ckpt_path} stands at step {trainer.global_step}" if config.ckpt_path else "a new run"
    return f"nothing was trained: {where}, and {limits} leave nothing to do; raise them"


def _quiet(logger: Logger) -> Logger:
    """Lightning hands `anonymous` on even where it is not given, and W&B warns that it has no effect."""
    if isinstance(logger, WandbLogger):
        logger._wandb_init.pop("anonymous", None)
    return logger


def _results(trainer: Trainer, metrics_before: Mapping[str, float]) -> dict[str, Any]:
    checkpoint = next((own for own in trainer.checkpoint_callbacks if isinstance(own, ModelCheckpoint)), None)
    results: dict[str, Any] = {
        "steps": trainer.global_step,
        "epochs": trainer.current_epoch,
        "steps_left_out": trainer.lightning_module.finite.left_out,
        "gradient_spikes": trainer.lightning_module.finite.spikes,
        "last": dict(metrics_before) | {name: float(value) for name, value in sorted(trainer.callback_metrics.items())},
    }
    if checkpoint is not None and checkpoint.best_model_score is not None:
        best, folder = map(os.path.realpath, (checkpoint.best_model_path, trainer.default_root_dir))
        results["best"] = {
            "metric": checkpoint.monitor,
            "score": float(checkpoint.best_model_score),
            "checkpoint": os.path.relpath(best, folder),
            "step": _step_of(Path(best)),
        }
    return results


@rank_zero_only
def _step_of(checkpoint: Path) -> int | None:
    """As the file says, which a run that went on may have from before; one that is gone spoils no run's end."""
    with suppress(UserError):
        return load_checkpoint(checkpoint)["global_step"]
    return None


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in VERSIONS}
