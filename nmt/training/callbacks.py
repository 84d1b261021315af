"""What is watched while training: speed, gradients, progress, and what the model says."""

import csv
import logging
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pytorch_lightning import Callback, Trainer
from torch import Tensor

from nmt.data.batches import Batch
from nmt.data.vocabulary import END, SPECIAL
from nmt.training.module import Training

log = logging.getLogger(__name__)


class Throughput(Callback):
    """Target words a second, over all ranks, validation left out."""

    def on_fit_start(self, trainer: Trainer, module: Training) -> None:
        self.words = 0
        self.seconds = 0.0

    def on_train_batch_start(self, trainer: Trainer, module: Training, batch: Batch, batch_idx: int) -> None:
        now = time.perf_counter()
        self.resumed = now if batch_idx == 0 or not hasattr(self, "resumed") else self.resumed

    def on_train_batch_end(
        self, trainer: Trainer, module: Training, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        self.words += batch.whole_words
        self.seconds += now - self.resumed
        self.resumed = now
        module.log("train/tokens_per_second", self.rate(), rank_zero_only=True, batch_size=1)

    def on_validation_end(self, trainer: Trainer, module: Training) -> None:
        self.resumed = time.perf_counter()

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
    after as many validations."""

    def __init__(self, *, sweep_folder: str, warm_up: int, siblings: int):
        self.sweep_folder, self.warm_up, self.siblings = Path(sweep_folder), warm_up, siblings
        self.scores: list[float] = []

    def on_validation_end(self, trainer: Trainer, module: Training) -> None:
        if trainer.sanity_checking:
            return
        self.scores.append(float(trainer.callback_metrics["valid/bleu"]))
        done = len(self.scores)
        others = [scores for scores in self._of_the_others(Path(trainer.default_root_dir)) if len(scores) >= done]
        if done > self.warm_up and len(others) >= self.siblings:
            median = statistics.median(max(scores[:done]) for scores in others)
            if max(self.scores) < median:
                log.info("pruned: the best of %d validations, %.4g, is below %.4g", done, max(self.scores), median)
                trainer.should_stop = True

    def _of_the_others(self, own: Path) -> list[list[float]]:
        found = []
        for file in self.sweep_folder.glob("*/metrics.csv"):
            if file.parent.resolve() != own.resolve():
                with file.open(encoding="utf-8", newline="") as rows:
                    found.append([float(row["valid/bleu"]) for row in csv.DictReader(rows) if row.get("valid/bleu")])
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
        module.log("train/gradient_norm", module.gradient_norm, rank_zero_only=True, batch_size=1)


class Progress(Callback):
    """Where there is no terminal for a bar: a line now and then, and one a validation."""

    def __init__(self, seconds: float = 30.0):
        self.seconds = seconds
        self.bar = sys.stderr.isatty()

    def on_train_start(self, trainer: Trainer, module: Training) -> None:
        self.said = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, module: Training, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        if not self.bar and time.perf_counter() - self.said > self.seconds:
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


class Translations(Callback):
    """The first validation sentences, translated: as a table and as alignment heatmaps, where a logger takes them."""

    def __init__(self, count: int = 8):
        self.count = count

    def on_validation_end(self, trainer: Trainer, module: Training) -> None:
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        shown = [self._sentence(module, number) for number in range(self.count) if number in module.translated]
        for logger in trainer.loggers:
            if hasattr(logger, "log_table"):  # W&B
                logger.log_table(
                    "valid/translations", ["source", "reference", "translation"], [row for row, _ in shown]
                )
                for number, (_, heatmap) in enumerate(shown):  # one key a picture: W&B shows a list at one size
                    logger.log_image(f"valid/alignment_{number}", [_image(*heatmap)])
            elif hasattr(logger.experiment, "add_image"):  # TensorBoard
                for number, (row, heatmap) in enumerate(shown):
                    image = _image(*heatmap)
                    logger.experiment.add_image(
                        f"valid/alignment_{number}", image, trainer.global_step, dataformats="HWC"
                    )
                    logger.experiment.add_text(f"valid/translation_{number}", "  \n".join(row), trainer.global_step)

    def _sentence(self, module: Training, number: int) -> tuple[list[str], tuple[list[str], list[str], np.ndarray]]:
        best, prepared = module.translated[number], module.prepared
        languages = prepared.languages
        pieces = languages.source.vocabulary.pieces(prepared.split("valid").source[number])
        source = pieces + [SPECIAL[END]] * (best.alignment.shape[1] - len(pieces))
        target = languages.target.vocabulary.pieces(best.words)
        target += [SPECIAL[END]] * (best.alignment.shape[0] - len(target))
        said = languages.target.words(best.words)
        lines = [prepared.lines("valid", side, raw=False)[number] for side in ("source", "target")]
        return [*lines, said], (source, target, best.alignment)


def _image(source: list[str], target: list[str], alignment: Tensor) -> np.ndarray:
    from nmt.evaluation.heatmap import draw, to_pixels

    return to_pixels(draw(source, target, alignment))
