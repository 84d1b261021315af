"""What is watched while training: speed, gradients, progress, and what the model says."""

import logging
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.loggers import Logger

from nmt.data.batches import Batch
from nmt.data.parallel_text import SIDES
from nmt.data.vocabulary import END, SPECIAL
from nmt.runs.folder import METRICS, jobs_of, read_metrics
from nmt.training.distributed import gathered, highest
from nmt.training.lightning_module import Training

log = logging.getLogger(__name__)


class Throughput(Callback):
    """Target words a second, over all ranks, validation left out."""

    def on_fit_start(self, trainer: Trainer, module: Training) -> None:
        self.words = 0
        self.seconds = 0.0
        self.resumed: float | None = None  # when the last batch ended; None: what came since was no training

    def on_train_batch_start(self, trainer: Trainer, module: Training, batch: Batch, batch_idx: int) -> None:
        if batch_idx == 0 or self.resumed is None:
            self.resumed = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, module: Training, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        self.words += batch.whole_words
        self.seconds += now - self.resumed
        self.resumed = now
        module.log("train/tokens_per_second", self.rate(), rank_zero_only=True, batch_size=1)

    def on_validation_end(self, trainer: Trainer, module: Training) -> None:
        self.resumed = None  # pictures and checkpoints are made after this

    def rate(self) -> float:
        return self.words / max(self.seconds, 1e-9)


class LastValidation(Callback):
    """Validates where training ends in the middle of an epoch (trainer.max_steps), so that what was learnt is kept."""

    def on_train_batch_end(
        self, trainer: Trainer, module: Training, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        if 0 < trainer.max_steps <= trainer.global_step:
            trainer.should_stop = True  # Lightning validates where it stops


class MedianPruning(Callback):
    """Ends a run of a sweep whose best validation BLEU so far is below the median that the sweep's other runs had
    after as many validations. Runs in its folder that are of an earlier sweep, by sweep.json, are not looked at."""

    def __init__(self, *, sweep_folder: str, warm_up: int, siblings: int):
        self.sweep_folder, self.warm_up, self.siblings = Path(sweep_folder), warm_up, siblings
        self.scores: list[float] = []

    def on_validation_end(self, trainer: Trainer, module: Training) -> None:
        if trainer.sanity_checking:
            return
        self.scores.append(float(trainer.callback_metrics["valid/bleu"]))
        if highest(int(self._is_behind(Path(trainer.default_root_dir))), module.device):
            trainer.should_stop = True

    def _is_behind(self, own: Path) -> bool:
        """Each rank reads the others' files at a moment of its own, so that ranks may not agree."""
        done, best = len(self.scores), max(self.scores)
        others = [scores for scores in self._of_the_others(own) if len(scores) >= done]
        if done <= self.warm_up or len(others) < self.siblings:
            return False
        median = statistics.median(max(scores[:done]) for scores in others)
        if best < median:
            log.info("pruned: the best of %d validations, %.4g, is below %.4g", done, best, median)
        return best < median

    def _of_the_others(self, own: Path) -> list[list[float]]:
        found, jobs = [], jobs_of(self.sweep_folder)
        for file in self.sweep_folder.glob(f"*/{METRICS}"):
            if file.parent.resolve() != own.resolve() and (not jobs or file.parent.resolve() in jobs):
                rows = read_metrics(file)
                found.append([float(row["valid/bleu"]) for row in rows if row.get("valid/bleu")])
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"scores": self.scores}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.scores = list(state["scores"])


class GradientNorm(Callback):
    """The norm before clipping."""

    def on_train_batch_end(
        self, trainer: Trainer, module: Training, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        if module.gradient_norm is not None:
            module.log("train/gradient_norm", module.gradient_norm, rank_zero_only=True, batch_size=1)


class Progress(Callback):
    """Where there is no terminal for a bar: a line now and then, and one a validation."""

    def __init__(self, seconds: float = 30.0):
        self.seconds = seconds

    def on_train_start(self, trainer: Trainer, module: Training) -> None:
        self.said = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, module: Training, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        if trainer.progress_bar_callback is None and time.perf_counter() - self.said > self.seconds:
            self._say(trainer, f"batch {batch_idx + 1} of {trainer.num_training_batches}", ("train/loss",))

    def on_validation_end(self, trainer: Trainer, module: Training) -> None:
        if not trainer.sanity_checking:
            self._say(trainer, "validated", ("train/loss", "valid/loss", "valid/perplexity", "valid/bleu"))

    def _say(self, trainer: Trainer, what: str, names: tuple[str, ...]) -> None:
        self.said = time.perf_counter()
        metrics = trainer.callback_metrics
        values = ", ".join(f"{name} {float(metrics[name]):.4g}" for name in names if name in metrics)
        if trainer.is_global_zero:
            log.info("epoch %d, step %d, %s: %s", trainer.current_epoch, trainer.global_step, what, values)


class Shown(NamedTuple):
    """A sentence in words, and its alignment over the pieces of both sides."""

    source: str
    reference: str
    translation: str
    source_pieces: list[str]
    target_pieces: list[str]
    alignment: np.ndarray

    @property
    def words(self) -> list[str]:
        return [self.source, self.reference, self.translation]


def _sentence(module: Training, number: int, source: str, reference: str) -> Shown:
    best, prepared = module.translated[number], module.prepared
    languages = prepared.languages
    pieces = languages.source.vocabulary.pieces(prepared.split("valid").source[number])
    said = languages.target.vocabulary.pieces(best.words)
    ends = best.alignment.shape[1] - len(pieces), best.alignment.shape[0] - len(said)
    pieces, said = (side + [SPECIAL[END]] * end for side, end in zip((pieces, said), ends, strict=True))
    return Shown(source, reference, languages.target.words(best.words), pieces, said, best.alignment)


def _way_to_show(logger: Logger) -> Callable[[Logger, list[Shown], int], None] | None:
    if hasattr(logger, "log_table"):
        return _to_wandb
    return _to_tensorboard if hasattr(logger.experiment, "add_image") else None


def _to_wandb(logger: Logger, shown: list[Shown], step: int) -> None:
    logger.log_table("valid/translations", ["source", "reference", "translation"], [one.words for one in shown])
    for number, one in enumerate(shown):  # one key a picture: W&B shows a list at one size
        logger.log_image(f"valid/alignment_{number}", [_image(one)])


def _to_tensorboard(logger: Logger, shown: list[Shown], step: int) -> None:
    for number, one in enumerate(shown):
        logger.experiment.add_image(f"valid/alignment_{number}", _image(one), step, dataformats="HWC")
        logger.experiment.add_text(f"valid/translation_{number}", "  \n".join(one.words), step)


def _image(shown: Shown) -> np.ndarray:
    from nmt.evaluation.heatmap import draw, to_pixels

    return to_pixels(draw(shown.source_pieces, shown.target_pieces, shown.alignment))


class Translations(Callback):
    """The first validation sentences, translated: as a table and as alignment heatmaps, where a logger takes them."""

    def __init__(self, count: int = 8):
        self.count = count

    def on_validation_end(self, trainer: Trainer, module: Training) -> None:
        if trainer.sanity_checking:
            return
        loggers = trainer.loggers if trainer.is_global_zero else ()  # the others' would take anything, and do nothing
        shows = [(logger, show) for logger in loggers if (show := _way_to_show(logger))]
        if not highest(len(shows), module.device):
            return
        shown = gathered(self._sentences(module))
        for logger, show in shows:
            show(logger, [shown[number] for number in sorted(shown)], trainer.global_step)

    def _sentences(self, module: Training) -> dict[int, Shown]:
        """Those that this rank translated."""
        lines = [module.prepared.words("valid", side) for side in SIDES]
        numbers = (number for number in range(self.count) if number in module.translated)
        return {number: _sentence(module, number, lines[0][number], lines[1][number]) for number in numbers}
