"""Show translations of validation sentences in W&B and TensorBoard, with their alignments as heatmaps."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.loggers import Logger

from nmt.data.parallel_text import SIDES
from nmt.data.vocabulary import END, SPECIAL
from nmt.training.distributed import gather_from_ranks, highest
from nmt.training.lightning_module import TrainingModule


class Sample(NamedTuple):
    """A translated sentence as text, and its alignment over the pieces of both sides."""

    source: str
    reference: str
    translation: str
    source_pieces: list[str]
    target_pieces: list[str]
    alignment: np.ndarray

    @property
    def texts(self) -> list[str]:
        """The row of a table."""
        return [self.source, self.reference, self.translation]


class TranslationSamples(Callback):
    """Show the first `count` validation sentences, where a logger can show a table or images."""

    def __init__(self, count: int = 8):
        self.count = count

    def on_validation_end(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Gather the sentences from all ranks and give them to the loggers of the first."""
        if trainer.sanity_checking:
            return
        loggers = trainer.loggers if trainer.is_global_zero else ()  # other ranks have dummies that accept anything
        writers = [(logger, write) for logger in loggers if (write := _writer_for(logger))]
        if not highest(len(writers), pl_module.device):
            return
        samples = gather_from_ranks(self._samples(pl_module))
        for logger, write in writers:
            write(logger, [samples[number] for number in sorted(samples)], trainer.global_step)

    def _samples(self, module: TrainingModule) -> dict[int, Sample]:
        """Return the samples that this rank translated, by their numbers."""
        sources, references = (module.prepared.words("valid", side) for side in SIDES)
        numbers = (number for number in range(self.count) if number in module.translated)
        return {number: _sample(module, number, sources[number], references[number]) for number in numbers}


def _sample(module: TrainingModule, number: int, source: str, reference: str) -> Sample:
    best, prepared = module.translated[number], module.prepared
    languages = prepared.languages
    source_pieces = languages.source.vocabulary.pieces(prepared.split("valid").source[number])
    target_pieces = languages.target.vocabulary.pieces(best.words)
    target_length, source_length = best.alignment.shape
    source_pieces += [SPECIAL[END]] * (source_length - len(source_pieces))
    target_pieces += [SPECIAL[END]] * (target_length - len(target_pieces))
    translation = languages.target.words(best.words)
    return Sample(source, reference, translation, source_pieces, target_pieces, best.alignment)


def _writer_for(logger: Logger) -> Callable[[Logger, list[Sample], int], None] | None:
    if hasattr(logger, "log_table"):
        return _write_to_wandb
    return _write_to_tensorboard if hasattr(logger.experiment, "add_image") else None


def _write_to_wandb(logger: Logger, samples: list[Sample], step: int) -> None:
    logger.log_table("valid/translations", ["source", "reference", "translation"], [one.texts for one in samples])
    for number, sample in enumerate(samples):  # one key each, because W&B shows the images of a list at one size
        logger.log_image(f"valid/alignment_{number}", [_image(sample)])


def _write_to_tensorboard(logger: Logger, samples: list[Sample], step: int) -> None:
    for number, sample in enumerate(samples):
        logger.experiment.add_image(f"valid/alignment_{number}", _image(sample), step, dataformats="HWC")
        logger.experiment.add_text(f"valid/translation_{number}", "  \n".join(sample.texts), step)


def _image(sample: Sample) -> np.ndarray:
    from nmt.evaluation.heatmap import draw_heatmap, to_pixels

    return to_pixels(draw_heatmap(sample.source_pieces, sample.target_pieces, sample.alignment))
