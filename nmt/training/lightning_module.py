"""The one LightningModule: it trains whatever translator the configuration composed."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytorch_lightning
import torch
from pytorch_lightning import Trainer
from torch import Tensor, nn
from torch.optim import Optimizer

from nmt.data.batches import Batch
from nmt.data.candidate_lists import Candidates
from nmt.data.corpus_cache import Prepared
from nmt.errors import ConfigurationError, UserError
from nmt.evaluation import perplexity as likelihood
from nmt.evaluation.bleu import corpus_bleu
from nmt.model.translator import Translator
from nmt.search.beam import Hypothesis, search
from nmt.search.settings import Search
from nmt.training.clipping import clip_norm, clip_values
from nmt.training.distributed import gathered, summed
from nmt.training.nonfinite_guard import Finite
from nmt.training.resume_optimizer import retune, retuned

SCORES = {"valid/loss": "min", "valid/perplexity": "min", "valid/bleu": "max"}  # of a validation: which is better


def check_monitor(callback: str, monitor: str, mode: str) -> None:
    """Or a run fails after its first epoch, or keeps its worst checkpoint."""
    if monitor not in SCORES:
        raise ConfigurationError(
            f"{callback}.monitor={monitor}: choose {', '.join(SCORES)}, or add what a callback of yours logs to SCORES "
            f"in {__name__}"
        )
    if mode != (best := SCORES[monitor]):
        better = {"min": "lower", "max": "higher"}[best]
        raise ConfigurationError(f"{callback}.mode={mode}: {better} {monitor} is better; write {callback}.mode={best}")


def check_loss(label_smoothing: float, normalize: str) -> None:
    if normalize not in ("words", "sentences", "sum"):
        raise ConfigurationError(f"loss.normalize={normalize}: choose words, sentences or sum")
    if not 0 <= label_smoothing < 1:
        raise ConfigurationError(f"loss.label_smoothing={label_smoothing}: must be at least 0, and below 1")


class Training(pytorch_lightning.LightningModule):
    """Loss, optimiser, and validation by perplexity and by BLEU of a real search.

    normalize: what the gradient is a mean over, `words` (target words of the batch, over all ranks) or `sentences` (as
    the papers do), or that it is the `sum` (GroundHog). `record` is what a checkpoint carries to be loadable alone:
    plain containers.
    """

    def __init__(
        self,
        *,
        model: Translator,
        optimizer: Callable[..., Optimizer],
        schedule: Callable[[Optimizer], Mapping[str, Any] | None],
        prepared: Prepared,
        candidates: Candidates | None,
        validation_search: Search,
        label_smoothing: float,
        normalize: str,
        finite: Finite,
        record: Mapping[str, Any],
    ):
        super().__init__()
        check_loss(label_smoothing, normalize)
        self.model = model
        self.make_optimizer, self.make_schedule = optimizer, schedule
        self.prepared, self.candidates, self.validation_search = prepared, candidates, validation_search
        self.label_smoothing, self.normalize = label_smoothing, normalize
        self.finite, self.record = finite, dict(record)
        self.random_state: Tensor | None = None  # of a checkpoint gone on from
        self.random_state_of_gpu: Tensor | None = None
        self.retuned: set[str] = set()  # settings of its optimiser that are others now
        self.was_scheduled = False
        self.translated: dict[int, Hypothesis] = {}  # this rank's, of the last validation
        self.batches: list[Batch] = []  # of the step being made
        self.of_step: Tensor  # objective, nats and pieces so far, of this rank
        self.objective = self.nats_per_piece = math.nan  # of a step, over all ranks
        self.gradient_norm: Tensor | None = None  # of the last step, before it was clipped

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if batch_idx % self.trainer.accumulate_grad_batches == 0:
            self.batches, self.of_step = [], torch.zeros(3, device=self.device)
        self.batches.append(batch)
        loss = self.model.loss(batch, self.label_smoothing)
        whole = {"words": batch.whole_words, "sentences": batch.whole_sentences, "sum": 1}[self.normalize]
        pieces = loss.likelihood.new_tensor(len(batch.target_words))
        self.of_step += torch.stack([loss.objective / whole, loss.likelihood, pieces]).detach()
        # Ranks' gradients are averaged, and so, by Lightning, are those of as many batches as a step usually has
        parts = self.trainer.accumulate_grad_batches
        if self.normalize != "sum":
            parts /= _batches_of_a_step(self.trainer, batch_idx)
        return loss.objective * self.trainer.world_size * parts / whole

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        self.objective, nats, pieces = summed(self.of_step, self.device).tolist()
        self.nats_per_piece = nats / pieces

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        self.log("train/loss", self.nats_per_piece, prog_bar=True, batch_size=1, rank_zero_only=True)

    def on_validation_epoch_start(self) -> None:
        self.totals = torch.zeros(3, dtype=torch.float64)  # as likelihood.counts has them
        self.references = self.prepared.words("valid", "target")
        self.words = likelihood.words_of(self.references)
        self.translated, self.batches = {}, []

    def validation_step(self, batch: Batch, _: int) -> None:
        self.totals += likelihood.counts(self.model, batch, self.words)
        if not self.trainer.sanity_checking and len(batch.target_words):
            how = self.validation_search
            found = search(self.model, batch.source, batch.source_lengths, how, candidates=self.candidates)
            self.translated.update(
                (sentence, hypotheses[0]) for sentence, hypotheses in zip(batch.sentences.tolist(), found, strict=True)
            )

    def on_validation_epoch_end(self) -> None:
        if self.trainer.sanity_checking:
            return
        language = self.prepared.languages.target
        said = gathered({sentence: language.words(best.words) for sentence, best in self.translated.items()})
        numbers = sorted(said)  # all of them, unless trainer.limit_val_batches cuts the set
        bleu = corpus_bleu([said[number] for number in numbers], [self.references[number] for number in numbers])
        scores = likelihood.scores(summed(self.totals, self.device)) | {"bleu": bleu.score}
        self.log_dict({f"valid/{name}": one for name, one in scores.items()}, prog_bar=True, rank_zero_only=False)

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = self.make_optimizer(self.model.parameters())
        schedule = self.make_schedule(optimizer)
        return {"optimizer": optimizer} | ({"lr_scheduler": schedule} if schedule else {})

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Lightning refuses fused optimisers under any mixed precision, though only loss scaling (fp16, which is not
        among ours) cannot have them, and does not know sparse gradients."""
        by_norm = gradient_clip_algorithm in (None, "norm")
        self.gradient_norm = clip_norm(self.model.parameters(), gradient_clip_val if by_norm else None)
        if gradient_clip_val and not by_norm:
            clip_values(self.model.parameters(), gradient_clip_val)
        self._leave_out_what_is_no_number(optimizer)

    def _leave_out_what_is_no_number(self, optimizer: Optimizer) -> None:
        """All ranks see the same; an optimiser without gradients changes nothing."""
        loss, norm = self.objective, float(self.gradient_norm)
        sentences: list[int] = []
        if self.finite.is_unusual(loss, norm):
            sentences = sorted(gathered({number: 0 for batch in self.batches for number in batch.sentences.tolist()}))
        trainer = self.trainer
        if not self.finite.passes(loss, norm, trainer.global_step, sentences, writes=trainer.is_global_zero):
            optimizer.zero_grad(set_to_none=True)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["nmt"] = self.record
        checkpoint["finite"] = self.finite.state_dict()
        checkpoint["random_state"] = torch.get_rng_state()  # dropout goes on where it stopped
        if self.device.type == "cuda":
            checkpoint["random_state_of_gpu"] = torch.cuda.get_rng_state(self.device)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if checkpoint["nmt"]["vocabularies"] != self.record["vocabularies"]:
            raise UserError(
                f"ckpt_path={self.trainer.ckpt_path}: is of other vocabularies than those of the data, whose words its "
                "weights would take for others; train on its data, or begin anew (without ckpt_path=, or, where it is "
                "this run's own, with resume=false)"
            )
        self.random_state = checkpoint["random_state"]
        self.random_state_of_gpu = checkpoint.get("random_state_of_gpu")  # none where it was trained on the CPU
        settings = checkpoint["nmt"]["config"], self.record["config"]
        self.retuned = retuned(self.trainer.ckpt_path, *settings)
        self.was_scheduled = bool(checkpoint["lr_schedulers"])
        self.finite.load_state_dict(checkpoint["finite"])

    def on_train_start(self) -> None:
        if self.retuned:
            fresh = self.make_optimizer([nn.Parameter(torch.zeros(1))]).defaults
            settings = {name: value for name, value in fresh.items() if name in self.retuned}
            retune(self.trainer, settings, was_scheduled=self.was_scheduled)
        if self.trainer.is_global_zero:
            self.finite.begin(self.trainer.global_step)
        if self.random_state is not None:
            torch.set_rng_state(self.random_state)
        if self.random_state_of_gpu is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(self.random_state_of_gpu, self.device)
        if self.global_rank:  # or shares of a batch, which are of like length, would have the same dropout
            torch.manual_seed(torch.initial_seed() + 1_000_003 * self.global_rank + self.trainer.global_step)


def _batches_of_a_step(trainer: Trainer, batch_idx: int) -> int:
    """An epoch's last step may have fewer than the others."""
    usually = trainer.accumulate_grad_batches
    return min(usually, trainer.num_training_batches - batch_idx // usually * usually)


def parameter_counts(model: nn.Module) -> dict[str, int]:
    """Parameters by part, and together (tied ones once)."""
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in model.named_children()}
    return counts | {"total": sum(parameter.numel() for parameter in model.parameters())}
