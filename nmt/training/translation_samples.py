"""Show translations of validation sentences in valid_samples.json, W&B and TensorBoard.

W&B and TensorBoard also show pictures of alignments and traces. The served page of a comparison shows the file.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger

from nmt.data.batches import Batch
from nmt.data.parallel_text import SIDES
from nmt.data.vocabulary import END, SPECIAL
from nmt.runs.folder import SAMPLES
from nmt.search.beam import Hypothesis
from nmt.search.forced_decoding import add_traces
from nmt.system.files import write_json
from nmt.training.csv_logger import CsvLogger
from nmt.training.distributed import gather_from_ranks
from nmt.training.lightning_internals import logged_step
from nmt.training.lightning_module import TrainingModule
from nmt.translate.layers import Layer, to_layers


class Sample(NamedTuple):
    """A translated sentence as text, and its alignment and traces over the pieces of both sides."""

    texts: list[str]  # source, reference, translation
    source_pieces: list[str]
    target_pieces: list[str]
    alignment: np.ndarray
    layers: list[Layer]


class TranslationSamples(Callback):
    """Show the first `count` validation sentences, where a logger can show texts, a table or images.

    The first `traced` of them have pictures of their traces too; a picture takes about 0.15 s.
    """

    def __init__(self, count: int = 8, traced: int = 3):
        self.count, self.traced = count, traced
        self.hypotheses: dict[int, Hypothesis] = {}  # with traces, of this rank and the last validation

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: TrainingModule, outputs: Any, batch: Batch, batch_idx: int, *others: Any
    ) -> None:
        """Trace sentences now, because a moving average of the weights leaves the model before the validation ends."""
        numbers, traced = batch.sentences.tolist(), min(self.count, self.traced)
        rows = [row for row, number in enumerate(numbers) if number < traced and number in pl_module.translated]
        if rows and trainer.loggers:
            hypotheses = [pl_module.translated[numbers[row]] for row in rows]
            aligned_word = pl_module.validation_search.aligned_word
            source = batch.source[rows], batch.source_lengths[rows]
            hypotheses = add_traces(pl_module.model, *source, hypotheses, aligned_word)
            self.hypotheses |= {numbers[row]: hypothesis for row, hypothesis in zip(rows, hypotheses, strict=True)}

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: TrainingModule) -> None:
        """Gather the sentences from all ranks and give them to the loggers of the first, before the scores."""
        writers = [(logger, write) for logger in trainer.loggers if (write := _writer_for(logger))]
        if trainer.sanity_checking or not writers:
            return
        samples, self.hypotheses = gather_from_ranks(self._samples(pl_module)), {}
        for logger, write in writers if trainer.is_global_zero else ():
            write(logger, [samples[number] for number in sorted(samples)], logged_step(trainer))  # as its scores

    def _samples(self, module: TrainingModule) -> dict[int, Sample]:
        """Return the samples that this rank translated, by their numbers."""
        sources, references = (module.prepared.words("valid", side) for side in SIDES)
        best = {number: module.translated[number] for number in range(self.count) if number in module.translated}
        best |= self.hypotheses
        return {number: _sample(module, number, best[number], sources[number], references[number]) for number in best}


def _sample(module: TrainingModule, number: int, best: Hypothesis, source: str, reference: str) -> Sample:
    languages = module.prepared.languages
    source_pieces = languages.source.vocabulary.pieces(module.prepared.split("valid").source[number])
    target_pieces = languages.target.vocabulary.pieces(best.words)
    target_length, source_length = best.alignment.shape
    source_pieces += [SPECIAL[END]] * (source_length - len(source_pieces))
    target_pieces += [SPECIAL[END]] * (target_length - len(target_pieces))
    texts = [source, reference, languages.target.words(best.words)]
    layers = to_layers({name: values for name, values in best.trace.items() if name != "alignment"})
    return Sample(texts, source_pieces, target_pieces, best.alignment, layers)


def _writer_for(logger: Logger) -> Callable[[Logger, list[Sample], int], None] | None:
    if isinstance(logger, CsvLogger):
        return _write_beside_metrics
    if isinstance(logger, WandbLogger):
        return _write_to_wandb
    return _write_to_tensorboard if isinstance(logger, TensorBoardLogger) else None


def _write_beside_metrics(logger: CsvLogger, samples: list[Sample], step: int) -> None:
    """Write the texts of this validation over those of the last one."""
    write_json(logger.path.with_name(SAMPLES), {"step": step, "sentences": [sample.texts for sample in samples]})


def _write_to_wandb(logger: Logger, samples: list[Sample], step: int) -> None:
    """Log all samples of a validation in the row that its scores complete."""
    from wandb import Image, Table

    values = {"valid/translations": Table(["source", "reference", "translation"], [one.texts for one in samples])}
    for number, sample in enumerate(samples):  # one key each, because W&B shows the images of a list at one size
        values |= {f"valid/{name}_{number}": Image(image) for name, image in _images(sample)}
    logger.experiment.log(values, commit=False)


def _write_to_tensorboard(logger: Logger, samples: list[Sample], step: int) -> None:
    for number, sample in enumerate(samples):
        for name, image in _images(sample):
            logger.experiment.add_image(f"valid/{name}_{number}", image, step, dataformats="HWC")
        logger.experiment.add_text(f"valid/translation_{number}", "  \n".join(sample.texts), step)


def _images(sample: Sample) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and pixels of the alignment and of each trace."""
    from nmt.evaluation.heatmap import draw_heatmap, draw_layer, to_pixels

    drawn = sample.source_pieces, sample.target_pieces, sample.alignment
    yield "alignment", to_pixels(draw_heatmap(*drawn))
    for layer in sample.layers:
        yield layer.name, to_pixels(draw_layer(*drawn, layer))
