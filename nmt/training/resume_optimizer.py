"""Apply changed settings to an optimizer whose state comes from a checkpoint."""

from collections.abc import Mapping
from typing import Any

from pytorch_lightning import Trainer
from torch.optim.lr_scheduler import LambdaLR

from nmt.config.diff import find_changes, flatten_settings
from nmt.errors import UserError


def changed_settings(checkpoint: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Return the names of changed settings of the optimizer, and "schedule" if one of its settings changed."""
    class_before, class_now = (flatten_settings(settings).get("optimizer._target_") for settings in (before, now))
    if class_before != class_now:
        raise UserError(
            f"ckpt_path={checkpoint}: the state of {class_before} in it is of no use to {class_now}. "
            f"Fix: init_from={checkpoint} starts from the weights alone"
        )
    keys = [key.split(".") for key in find_changes(before, now)]
    of_optimizer = {names[0] for group, *names in keys if group == "optimizer" and names}
    return of_optimizer | {group for group, *_ in keys if group == "schedule"}


def drop_changes(state: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a schedule without changed settings, and for another class only what it says of the past."""
    if before.get("_target_") == now.get("_target_"):
        return {key: value for key, value in state.items() if before.get(key) == now.get(key)}
    past = {key: state[key] for key in ("last_epoch", "_step_count", "_last_lr") if key in state}
    return past | {"lr_lambdas": ()}  # which LambdaLR reads


def apply_settings(trainer: Trainer, settings: Mapping[str, Any], *, had_schedule: bool) -> None:
    """Apply settings of the optimizer, and restart its schedule from the epochs already trained.

    A learning rate keeps the factor that its schedule has reached.
    """
    groups, schedules = trainer.optimizers[0].param_groups, trainer.lr_scheduler_configs
    for group in groups:
        base = group.get("initial_lr", group["lr"])
        factor = group["lr"] / base if base and schedules else 1.0
        group |= settings
        group["initial_lr"] = settings.get("lr", base)
        group["lr"] = factor * group["initial_lr"]
    for config in schedules:
        schedule = config.scheduler
        schedule.base_lrs = [group["initial_lr"] for group in groups]
        if isinstance(schedule, LambdaLR):
            if not had_schedule:  # an epoch counts from its last batch on, with which a schedule steps
                schedule.last_epoch = trainer.current_epoch + trainer.is_last_batch
            for group, factor_after in zip(groups, schedule.lr_lambdas, strict=True):
                group["lr"] = group["initial_lr"] * factor_after(schedule.last_epoch)
