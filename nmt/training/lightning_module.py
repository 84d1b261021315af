"""The LightningModule, which trains whatever translator the configuration composed."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytorch_lightning
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nmt.data.batches import Batch
from nmt.data.candidate_lists import Candidates
from nmt.data.corpus_cache import PreparedCorpus
from nmt.errors import UserError
from nmt.evaluation import perplexity
from nmt.evaluation.bleu import corpus_bleu
from nmt.model.loop import run_loop
from nmt.model.translator import Translator
from nmt.search.beam import Hypothesis, beam_search
from nmt.search.settings import Search
from nmt.training.clipping import clip_norm, clip_values
from nmt.training.distributed import gather_from_ranks, sum_over_ranks
from nmt.training.first_nan import find_first_nan
from nmt.training.lightning_internals import accumulates_gradients
from nmt.training.nonfinite_guard import NonfiniteGuard
from nmt.training.resume_optimizer import apply_settings, changed_settings, drop_changes

LOSSES = ("train/loss", "train/penalty")  # per target piece; models without a penalty have only the first
SCORES = {"valid/loss": "min", "valid/perplexity": "min", "valid/bleu": "max"}  # of a validation, and what is better


class TrainingModule(pytorch_lightning.LightningModule):
    """Loss, optimizer, and validation by perplexity and by BLEU of a real search.

    Args:
        label_smoothing: the probability that is spread over all words.
        normalize: the gradient is a mean over the `words` of a step (over all ranks) or over its `sentences` (as in
            the papers), or their `sum` (GroundHog).
        record: plain containers which make a checkpoint loadable alone: config and vocabularies.
    """

    def __init__(
        self,
        *,
        model: Translator,
        optimizer: Callable[..., Optimizer],
        schedule: Callable[[Optimizer], Any],
        prepared: PreparedCorpus,
        candidates: Candidates | None,
        validation_search: Search,
        label_smoothing: float,
        normalize: str,
        guard: NonfiniteGuard,
        record: Mapping[str, Any],
    ):
        super().__init__()
        self.model = model
        self.make_optimizer, self.make_schedule = optimizer, schedule
        self.prepared, self.candidates, self.validation_search = prepared, candidates, validation_search
        self.label_smoothing, self.normalize = label_smoothing, normalize
        self.guard, self.record = guard, record
        self.random_state: Tensor | None = None  # of the checkpoint that training resumes from
        self.random_state_of_gpu: Tensor | None = None
        self.changed_settings: set[str] = set()  # of the optimizer, since that checkpoint
        self.had_schedule = False
        self.translated: dict[int, Hypothesis] = {}  # by this rank, in the last validation
        self.batches: list[Batch] = []  # of the current step
        self.step_totals: Tensor  # objective, pieces and LOSSES of the current step, on this rank
        self.losses: list[float] = []  # LOSSES of the last step that was read, over all ranks
        self.unread: Callable[[], bool] | None = None  # lets the guard check the last step
        self.gradient_norm: Tensor | None = None  # of the last step, before clipping

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch, scaled so that Lightning's means over ranks and batches come out right."""
        if batch_idx % self.trainer.accumulate_grad_batches == 0:
            self.batches, self.step_totals = [], torch.zeros((), device=self.device)
        self.batches.append(batch)
        loss = self.model.loss(batch, self.label_smoothing)
        divisor = {"words": batch.global_words, "sentences": batch.global_sentences, "sum": 1}[self.normalize]
        pieces = loss.negative_log_likelihood.new_full((), len(batch.target_words))
        losses = [loss.negative_log_likelihood] + ([] if loss.penalty is None else [loss.penalty])
        self.step_totals = self.step_totals + torch.stack([loss.objective / divisor, pieces, *losses]).detach()
        usual = self.trainer.accumulate_grad_batches  # by which Lightning divides, also if the last step has fewer
        batches = min(usual, self.trainer.num_training_batches - batch_idx // usual * usual)
        scale = usual if self.normalize == "sum" else usual / batches
        return loss.objective * self.trainer.world_size * scale / divisor

    def on_train_batch_end(self, *_: Any) -> None:
        """Log the loss of the last step that was read, and the attention's penalty."""
        for name, value in zip(LOSSES, self.losses, strict=False):
            loss = torch.tensor(value)  # on the CPU, because Lightning would copy it to a GPU, and wait
            self.log(name, loss, prog_bar=True, batch_size=1, rank_zero_only=True)

    def on_validation_epoch_start(self) -> None:
        """Reset what a validation adds up."""
        self.totals = torch.zeros(3, dtype=torch.float64)  # what perplexity.compute_totals returns
        self.reference_words = perplexity.count_words(self.prepared.words("valid", "target"))
        self.translated = {}
        if not accumulates_gradients(self.trainer):  # or reports would lack batches of this step
            self.batches = []

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Score a batch of references, and translate its sources."""
        self.totals += perplexity.compute_totals(self.model, batch, self.reference_words)
        if not self.trainer.sanity_checking and len(batch.target_words):
            source = batch.source, batch.source_lengths
            lists = beam_search(self.model, *source, self.validation_search, candidates=self.candidates)
            self.translated |= zip(batch.sentences.tolist(), (best for best, *_ in lists), strict=True)

    def on_validation_epoch_end(self) -> None:
        """Log loss, perplexity and BLEU over all ranks' sentences."""
        if self.trainer.sanity_checking:
            return
        language = self.prepared.languages.target
        texts = gather_from_ranks({number: language.words(best.words) for number, best in self.translated.items()})
        numbers = sorted(texts)  # all, unless trainer.limit_val_batches cuts the set
        references = [[lines[number] for number in numbers] for lines in self.prepared.valid_references()]
        bleu = corpus_bleu([texts[number] for number in numbers], references)
        scores = perplexity.compute_scores(sum_over_ranks(self.totals, self.device)) | {"bleu": bleu.score}
        self.log_dict({f"valid/{name}": value for name, value in scores.items()}, prog_bar=True)

    def configure_optimizers(self) -> dict[str, Any]:
        """Make the optimizer and its schedule."""
        optimizer = self.make_optimizer(self.model.parameters())
        schedule = self.make_schedule(optimizer)
        return {"optimizer": optimizer} | ({"lr_scheduler": schedule} if schedule else {})

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip gradients, sum the step's objective over the ranks, and skip the step if it is not finite.

        Lightning's own clipping refuses sparse gradients, and fused optimizers under any mixed precision, though only
        the loss scaling of fp16 cannot have them.
        """
        by_norm = gradient_clip_algorithm in (None, "norm")
        self.gradient_norm = clip_norm(self.model.parameters(), gradient_clip_val if by_norm else None)
        if gradient_clip_val and not by_norm:
            clip_values(self.model.parameters(), gradient_clip_val)
        objective, pieces, *losses = sum_over_ranks(self.step_totals, self.device)
        losses = [loss / pieces for loss in losses]
        self._skip_nonfinite_step(optimizer, torch.stack([objective, self.gradient_norm.to(objective), *losses]))

    def _skip_nonfinite_step(self, optimizer: Optimizer, values: Tensor) -> None:
        """Let the optimizer change nothing if loss or norm is not finite; all ranks decide alike.

        To read a number is to wait for a GPU. So a fused optimizer decides there, and the guard checks the step when
        the next one is made.
        """
        check = partial(self._is_allowed, copy_to_cpu(values), self.trainer.global_step, self.batches)
        # fused optimizers read found_inf, for the loss scaling of fp16
        if self.device.type == "cuda" and getattr(optimizer, "_step_supports_amp_scaling", False):
            optimizer.found_inf = (~values[:2].isfinite()).any().float()
            self.read_last_step()
            self.unread = check
        elif not check():
            optimizer.zero_grad(set_to_none=True)

    def read_last_step(self) -> None:
        """Let the guard check the last step, if it has not done so yet."""
        check, self.unread = self.unread, None
        if check is not None:
            check()

    def _is_allowed(self, read: Callable[[], list[float]], step: int, batches: list[Batch]) -> bool:
        """Ask the guard; `read` returns objective, gradient norm, and what a piece has of LOSSES."""
        loss, norm, *self.losses = read()
        find, explain = (lambda: _find_sentences(batches)), (lambda: self._explain_nan(batches[0]))
        return self.guard.allows(loss, norm, step, find, explain)

    def _explain_nan(self, batch: Batch) -> str:
        """Name the weight that is NaN, or the line that makes the first NaN of a loss."""
        if weights := [name for name, weight in self.model.named_parameters() if weight.isnan().any()]:
            return f"Fix: give {weights[0]} an initial value, which is NaN"
        self.model.loop = run_loop  # because graphs run none of its lines
        if place := find_first_nan(lambda: self.model.loss(batch, self.label_smoothing)):
            return f"Fix: correct {place}"
        return "Fix: +trainer.detect_anomaly=true names the operation whose gradient is NaN"

    def on_train_end(self) -> None:
        """Read the last step."""
        self.read_last_step()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the entries that runs/checkpoint_file.py lists."""
        self.read_last_step()
        checkpoint["nmt"] = self.record
        checkpoint["guard"] = self.guard.state_dict()
        checkpoint["random_state"] = torch.get_rng_state()  # because dropout has to continue where it stopped
        if self.device.type == "cuda":
            checkpoint["random_state_of_gpu"] = torch.cuda.get_rng_state(self.device)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of other vocabularies, and note what `on_train_start` restores."""
        if checkpoint["nmt"]["vocabularies"] != self.record["vocabularies"]:
            raise UserError(
                f"ckpt_path={self.trainer.ckpt_path}: is of other vocabularies than those of the data, so its weights "
                "would mean other words. Fix: train on its data, or start again (without ckpt_path=, or with "
                "resume=false where it is this run's own)"
            )
        self.random_state = checkpoint["random_state"]
        self.random_state_of_gpu = checkpoint.get("random_state_of_gpu")  # absent if it was trained on the CPU
        settings = checkpoint["nmt"]["config"], self.record["config"]
        self.changed_settings = changed_settings(self.trainer.ckpt_path, *settings)
        self.had_schedule = bool(checkpoint["lr_schedulers"])
        if "schedule" in self.changed_settings:  # or torch would restore its former settings
            of_schedule = [config["schedule"] for config in settings]
            checkpoint["lr_schedulers"] = [drop_changes(state, *of_schedule) for state in checkpoint["lr_schedulers"]]
        self.guard.load_state_dict(checkpoint["guard"])

    def on_train_start(self) -> None:
        """Apply changed settings of the optimizer, and restore the random state."""
        if self.changed_settings:
            defaults = self.make_optimizer([nn.Parameter(torch.zeros(1))]).defaults
            settings = {name: value for name, value in defaults.items() if name in self.changed_settings}
            apply_settings(self.trainer, settings, had_schedule=self.had_schedule)
        self.guard.drop_reports_from(self.trainer.global_step)
        if self.random_state is not None:
            torch.set_rng_state(self.random_state)
        if self.random_state_of_gpu is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(self.random_state_of_gpu, self.device)
        if self.global_rank:  # because equal dropout in the shares of a batch would be one mask for all
            torch.manual_seed(torch.initial_seed() + 1_000_003 * self.global_rank + self.trainer.global_step)


def _find_sentences(batches: list[Batch]) -> list[int]:
    """Return the numbers of all ranks' sentences in batches."""
    return sorted(gather_from_ranks({number: 0 for batch in batches for number in batch.sentences.tolist()}))


def copy_to_cpu(values: Tensor) -> Callable[[], list[float]]:
    """Copy numbers from a GPU, and return what reads them; the reading waits for the copy alone."""
    copy = values.to("cpu", non_blocking=True)
    if not values.is_cuda:
        return copy.tolist
    is_copied = torch.cuda.Event()
    is_copied.record()

    def read() -> list[float]:
        is_copied.synchronize()
        return copy.tolist()

    return read


def parameter_counts(model: nn.Module) -> dict[str, int]:
    """Return the number of parameters of each part, and in total; tied parameters count once."""
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in model.named_children()}
    return counts | {"total": sum(parameter.numel() for parameter in model.parameters())}
