"""An optimiser that is gone on with has, with its state, the settings of before: those that have changed are set."""

from collections.abc import Mapping
from typing import Any

from pytorch_lightning import Trainer
from torch.optim.lr_scheduler import LambdaLR

from nmt.config.diff import changed, leaves
from nmt.errors import UserError

CLASS = "optimizer._target_"


def retuned(checkpoint: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Settings `optimizer.NAME`, and `schedule`, that are not what they were; another optimiser is refused."""
    was, is_now = leaves(before).get(CLASS), leaves(now).get(CLASS)
    if was != is_now:
        raise UserError(
            f"ckpt_path={checkpoint}: what {was} remembers of its steps is nothing that {is_now} could go on with; "
            f"init_from={checkpoint} starts from the weights"
        )
    keys = [key.split(".") for key in changed(before, now)]
    own = {names[0] for group, *names in keys if group == "optimizer" and names}
    return own | {group for group, *_ in keys if group == "schedule"}


def retune(trainer: Trainer, settings: Mapping[str, Any], *, was_scheduled: bool) -> None:
    """`settings` of the optimiser take effect; a rate keeps the part of it that its schedule has left, and a schedule
    counts the epochs that are over, whether the run had it then or not."""
    groups, schedules = trainer.optimizers[0].param_groups, trainer.lr_scheduler_configs
    for group in groups:
        base = group.get("initial_lr", group["lr"])
        left = group["lr"] / base if base and schedules else 1.0
        group |= settings
        group["initial_lr"] = settings.get("lr", base)
        group["lr"] = left * group["initial_lr"]
    for one in schedules:
        schedule = one.scheduler
        schedule.base_lrs = [group["initial_lr"] for group in groups]
        if isinstance(schedule, LambdaLR):
            if not was_scheduled:
                is_over = trainer.fit_loop.epoch_loop.batch_progress.is_last_batch  # a schedule steps with that batch
                schedule.last_epoch = trainer.current_epoch + is_over
            for group, factor in zip(groups, schedule.lr_lambdas, strict=True):
                group["lr"] = group["initial_lr"] * factor(schedule.last_epoch)
