"""Explain errors of other libraries in one line that names the key and what to type.

Each row of the tables at the end has a type of error, a pattern of its message, and the function that makes the line.
They are read from top to bottom. Without a row, the user sees the library's own text.
"""

import errno
import inspect
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import hydra.utils
from hydra.errors import (
    ConfigCompositionException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from nmt.config.chosen_files import name_file
from nmt.config.diff import flatten_settings
from nmt.config.overrides import MULTIRUN, explain_split_argument, quote_value
from nmt.config.schema import is_group, list_choices
from nmt.config.user_dir import list_conf_dirs
from nmt.errors import UserError, did_you_mean, first_line, locate_error

HYDRA_PLUGINS = {  # packages with launchers and sweepers, and the extras that install them
    "optuna": ("hydra-optuna-sweeper", "optuna"),
    "submitit_slurm": ("hydra-submitit-launcher", "slurm"),
    "submitit_local": ("hydra-submitit-launcher", "slurm"),
    "ray": ("hydra-ray-launcher", None),
}
AFTER_A_FAILED_JOB = "the same command skips completed jobs; give it when the others have ended"
TRACEBACK = "(traceback:"  # marks the line of an unexpected error
SHOW_TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"


def explain(error: BaseException) -> str:
    """Return one line: an explanation, or where in the package the error arose, and the library's own text."""
    *_, cause = _list_causes(error)
    return find_explanation(error) or locate_error(cause) or f"{type(cause).__name__}: {first_line(cause)}"


def find_explanation(error: BaseException) -> str | None:
    """Return the explanation of an error of Hydra, OmegaConf, YAML or the system, or None."""
    return _look_up(ROWS, error)


def explain_with_log(error: BaseException, log: Path) -> str:
    """Return one line that also names the log, which holds the traceback of an unexpected error."""
    is_unexpected = find_explanation(error) is None and log.is_file()
    return explain(error) + (f" {TRACEBACK} {log})" if is_unexpected else "")


def explain_construction_error(error: Exception, section: str, settings: DictConfig) -> str:
    """Explain why a class refuses the settings of a section; its error names at most an argument."""
    return _look_up(CONSTRUCTION_ROWS, error, section, settings) or f"{section}: {first_line(error)}"


def explain_training_error(error: Exception, *, checkpoint: Any, epochs: int | None, batch: Any) -> str | None:
    """Explain an error of training, or return None; `batch` is the last training batch, None if there was none."""
    return _look_up(TRAINING_ROWS, error, checkpoint, epochs, batch)


def _look_up(rows: Sequence[tuple], error: BaseException, *context: Any) -> str | None:
    """Return the line of the first row that fits the error or one of its causes."""
    for kind, pattern, make_line in rows:
        for cause in _list_causes(error):
            match = re.search(pattern, str(cause)) if isinstance(cause, kind) else None
            if match and (line := make_line(cause, match, *context)):
                return line
    return None


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _arguments() -> Iterator[tuple[str, str]]:
    """Yield key and value of each argument of the command."""
    for argument in sys.argv[1:]:
        key, _, value = argument.partition("=")
        yield key.lstrip("+"), value


def _full_disk(error: OSError, _: re.Match) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}. Fix: make room, then give the same command again"


def _run_folder(error: OSError, _: re.Match) -> str | None:
    """Name the argument with the folder that Hydra could not make."""
    for key, folder in _arguments():
        is_named = error.filename and Path(folder.strip("'\"")).is_relative_to(error.filename)
        if key in ("hydra.run.dir", "hydra.sweep.dir") and is_named:
            return f"{key}={folder}: cannot be written ({error.strerror})"
    return None


def _unknown_choice(error: MissingConfigException, match: re.Match) -> str:
    group, _, choice = match[1].rpartition("/")
    known = [option for option in error.options if not option.startswith("_")]
    if group.startswith("experiment"):  # because an experiment is named with the folder of its paper
        group, choice, known = "experiment", match[1].removeprefix("experiment/"), list_choices("experiment")
    if choice in HYDRA_PLUGINS and group.startswith("hydra/"):
        package, extra = HYDRA_PLUGINS[choice]
        return f"{group}={choice}: needs {package}{f' (extra: {extra})' if extra else ''}. Fix: pip install {package}"
    return f"{group}={choice}: no such choice{did_you_mean(choice, known)}. Fix: choose {', '.join(known)}"


def _number_as_choice(_: ValueError, __: re.Match) -> str:
    for group, choices in _arguments():
        known = list_choices(group) if group and is_group(group) else []
        for choice in choices.split(",") if known else ():  # a sweep has several
            if choice not in known:
                fix = "leave it out, or choose" if choice == "null" else "choose"
                return f"{group}={choice}: no such choice. Fix: {fix} {', '.join(known)}"
    return "an argument has no key before its =. Fix: write KEY=VALUE or GROUP=CHOICE"


def _bad_syntax(error: OverrideParseException, _: re.Match) -> str:
    """Explain an argument that Hydra's grammar cannot read, and how to quote it."""
    if message := explain_split_argument(error.override, sys.argv[1:]):
        return message
    key, _, value = error.override.partition("=")
    reason = "" if first_line(error).startswith("Lexer") else f" ({first_line(error)})"
    fix = ""
    if not key.isascii():
        fix = ". Fix: write keys with a to z, digits, - and _"
    elif value.startswith(("[", "{")):
        fix = """. Fix: quote what has = in its value, and all for the shell: 'KEY=["a=b"]'""" if "=" in value else ""
    elif value and " " not in key:
        quoted = quote_value(value) if re.search(r'["\\]', value) else f'"{value}"'
        fix = f". Fix: quote the value, and all for the shell: {shlex.quote(f'{key}={quoted}')}"
    return f"{error.override}: cannot be read{reason}{fix}"


def _several_values(_: ConfigCompositionException, match: re.Match) -> str:
    key = match[1].partition("=")[0]
    fix = f"give one (train.py -m trains with each); write a list as {key}=[…,…], and a decimal number with a point"
    return f"{match[1]}: several values. Fix: {fix}"


def _section(error: InstantiationException) -> str:
    key = re.search(r"full_key: (\S+)", str(error))
    section = key[1].removeprefix("model.") if key else "the configuration"
    return section.removeprefix("decoder.") if section.startswith("decoder.attention") else section


def _bad_target(error: InstantiationException, match: re.Match) -> str:
    *_, cause = _list_causes(error)
    reason = locate_error(cause) or f"cannot be imported ({first_line(cause)})"
    return f"{_section(error)}._target_={match[1]}: {reason}"


def _unknown_key(error: OmegaConfBaseException, _: re.Match) -> str:
    key, section = str(error.full_key), str(error.full_key).rpartition(".")[0]
    known = [str(name) for name in error.parent_node if not str(name).startswith(("_", "hydra"))]
    is_sweep, for_all = MULTIRUN & set(sys.argv), f"where every choice that is swept has it, write ++{key}=…"
    if not known and (options := list_choices(section)):
        fix = f"{section.replace('.', '/')}={'|'.join(options)}" + (f"; or, {for_all}" if is_sweep else "")
        return f"{key}: {section} is not chosen. Fix: {fix}"
    hint = did_you_mean(str(error.key), known) or _find_deeper(str(error.key), error.parent_node)
    hint = hint or _find_in_choices(str(error.key), section.replace(".", "/"))
    takes_more = not str(error.parent_node.get("_target_", "nmt.")).startswith("nmt.")  # keys that conf/ does not list
    if not hint and (takes_more or section in ("callbacks", "logger")):
        hint = f" (a new one is added by a +: +{key})"
    place = f"{section} has" if section else "there are"
    line = f"{key}: no such key{hint}; {place} {', '.join(known) or 'none'}"
    for group, chosen in _arguments() if is_sweep else ():  # because the swept choices have different keys
        if key.startswith(f"{group.replace('/', '.')}.") and "," in chosen and list_choices(group):
            return f"{line} (of one choice of {group}). Fix: {for_all}"
    return line


def _find_deeper(name: str, node: DictConfig) -> str:
    """Suggest the keys of this name in inner sections."""
    leaves = " ".join(flatten_settings(OmegaConf.to_container(node)))
    keys = list(dict.fromkeys(re.findall(rf"(?<!\S)\S+?\.{re.escape(name)}(?![^\s.])", leaves)))
    return f" (did you mean {' or '.join(keys[:3])}?)" if keys else ""


def _find_in_choices(name: str, group: str) -> str:
    """Name the choices of a group whose files have this key."""
    files = [file for folder in list_conf_dirs() if group for file in folder.glob(f"{group}/[!_]*.yaml")]
    having = set()
    for file in files:
        with suppress(MarkedYAMLError):  # a file that is not chosen may be half written
            having |= {f"{group}={file.stem}"} if name in OmegaConf.load(file) else set()
    return f" ({' or '.join(sorted(having))} has it)" if having else ""


def _broken_yaml(error: MarkedYAMLError, _: re.Match) -> str:
    problem = ", ".join(filter(None, (error.context, error.problem)))
    mark = error.problem_mark
    return f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _too_few_values(error: IndexError, _: re.Match, section: str, settings: DictConfig) -> str:
    lists = ", ".join(f"{section}.{key}={value}" for key, value in settings.items() if OmegaConf.is_list(value))
    return f"{lists or section}: too few values ({first_line(error)})"


def _unexpected_argument(error: InstantiationException, match: re.Match) -> str:
    target = re.search("call to target '(.+?)'", str(error))
    known = list(inspect.signature(hydra.utils.get_object(target[1])).parameters)
    key, hint = f"{_section(error)}.{match[1]}", did_you_mean(match[1], known)
    return f"{key}: no such setting{name_file(key)}{hint}. Fix: choose {', '.join(known)}"


def _unknown_argument(_: TypeError, match: re.Match, section: str, settings: DictConfig) -> str:
    _, *known = inspect.signature(hydra.utils.get_object(settings._target_)).parameters
    key = f"{section}.{match[1]}"
    return f"{key}: no such setting{name_file(key)}{did_you_mean(match[1], known)}. Fix: choose {', '.join(known)}"


def _out_of_memory(error: RuntimeError, _: re.Match, checkpoint: Any, epochs: Any, batch: Any) -> str:
    if batch is None:
        place = "outside training batches, before them or in a validation"
        fix = "lower data.valid_batches.size, or choose a smaller size="
    else:
        words = f"{batch.source.shape[1]} source and {batch.target_input.shape[0]} target words"
        place = f"in a batch with {len(batch.sentences)} sentences of up to {words}"
        fix = "lower data.batches.size or data.max_length, or choose a smaller size=, trainer.precision=bf16-mixed, or "
        fix += "trainer.accumulate_grad_batches with smaller batches"
    return f"out of memory {place} ({first_line(error)}). Fix: {fix}"


def _job_without_result(_: RuntimeError, match: re.Match) -> str:
    return (
        f"job {match[1]}: ended without a result (state {match[3]}); log: {match[2]}_log.err. Fix: the same command, "
        "when the other jobs have ended, resumes it from its last checkpoint; hydra.launcher.timeout_min=… gives it "
        "more time"
    )


def _job_outside_training(_: RuntimeError, match: re.Match) -> str:
    """Return the last line of a job's traceback, because submitit's own text holds all of it."""
    *_, last = match[1].strip().splitlines()
    return f"{match[2]}: the job failed: {last} ({AFTER_A_FAILED_JOB})"


# fmt: off
ROWS = (
    (UserError, "", lambda error, _: str(error)),
    (OSError, rf"^\[Errno ({errno.ENOSPC}|{errno.EDQUOT})\]", _full_disk),
    (OSError, r"^\[Errno \d+\]", _run_folder),
    (MissingConfigException, "Could not find '(.+)'", _unknown_choice),
    (ValueError, "^Config group override must be a string or a list", _number_as_choice),
    (OverrideParseException, "", _bad_syntax),
    (ConfigCompositionException, "^(?:Ambiguous value for argument|Sweep parameters) '(.*)'", _several_values),
    (ConfigCompositionException, r"override '(\w+)/(\w+)'\. No match", lambda _, match:
        f"{match[1]}/{match[2]}: the chosen {match[1]} has no {match[2]}. "
        f"Fix: leave it out, or choose another {match[1]}"),
    (ConfigCompositionException, r"override '(\w+)'\. No match", lambda _, match:
        f"{match[1]}: none is chosen by default. Fix: add a choice with +{match[1]}=…"),
    (ConfigCompositionException, r"^Multiple values for (\S+)\. .* \S+: (\S+)'", lambda _, match:
        f"+{match[1]}={match[2]}: {match[1]} is already in the defaults. Fix: leave out the +"),
    (ConfigCompositionException, "item is already at '(.*)'", lambda _, match:
        f"+{match[1]}: there is such a key already. Fix: leave out the +"),
    (RuntimeError, r"^Found more than one stateful callback of type `(\w+)`", lambda _, match:
        f"callbacks: two of {match[1]} have one monitor and mode, so a checkpoint cannot tell them apart. "
        "Fix: give the second another monitor, such as monitor: valid/perplexity, mode: min"),
    (InstantiationException, "Error locating target '(.*?)'", _bad_target),
    (InstantiationException, r"unexpected keyword argument '(\w+)'", _unexpected_argument),
    (InstantiationException, r"missing \d+ required .*", lambda error, match:
        f"{_section(error)}: needs " + ", ".join(re.findall(r"'(\w+)\\?'", match[0]))),
    (InstantiationException, "", lambda error, _: f"{_section(error)}: {first_line(error.__cause__ or error)}"),
    (OmegaConfBaseException, r"hydra\.runtime\.output_dir", lambda *_: "--resolve" in sys.argv and
        "--resolve: a run has no folder before it starts. Fix: resolve a section that does not name it: -p trainer"),
    (OmegaConfBaseException, "^Key '.*' (is not in struct|not in ')", _unknown_key),
    (OmegaConfBaseException, "", lambda error, _:
        f"{error.full_key}: {first_line(error)}" if error.full_key else first_line(error)),
    (MarkedYAMLError, r"line \d+, column", _broken_yaml),
    # submitit's errors
    (RuntimeError, '^Could not detect "srun"', lambda *_:
        "hydra/launcher=submitit_slurm: finds no srun, so this is no node of a SLURM cluster. Fix: leave out "
        "hydra/launcher= and hydra.launcher.…, and the jobs run on this machine"),
    (ValueError, "^LocalExecutor can use only one node", lambda *_:
        "hydra/launcher=submitit_local: is for one machine. Fix: leave out hydra.launcher.nodes="),
    (RuntimeError, "sbatch: error: (.+)$", lambda _, match:
        f"sbatch refused the jobs: {match[1]}. Fix: give the hydra.launcher keys that your cluster wants, such as "
        "partition, account and gpus_per_node (docs/scaling.md)"),
    (RuntimeError, r"^Job not requeued because: (.+?)\.?$", lambda _, match:
        f"stopped by the cluster and not requeued ({match[1]}). Fix: hydra.launcher.timeout_min=… gives a job more "
        "time, hydra.launcher.max_num_timeout=… requeues it when its time ends"),
    (RuntimeError, r"^Job (\S+) \(task: \d+\) with path (.+)_result\.pkl\nhas not .* \(state: (\w+)\)",
        _job_without_result),
    (RuntimeError, r"(?s)^Job \(task=\d+\) failed during .*?\n-+\n(.+)\n-+\n.*?at paths:\n  - (.+?)\n",
        _job_outside_training),
)
CONSTRUCTION_ROWS = (  # the functions also take the section and its settings
    (IndexError, "", _too_few_values),
    (TypeError, r"unexpected keyword argument '(\w+)'", _unknown_argument),
)
TRAINING_ROWS = (  # the functions also take checkpoint, epochs and batch
    (ValueError, r"`val_check_interval` \((\d+)\) must be .* training batches \((\d+)\)", lambda _, match, *__:
        f"trainer.val_check_interval={match[1]}: an epoch has {match[2]} batches. "
        "Fix: give at most so many; null validates once per epoch"),
    (Exception, "^You restored a checkpoint", lambda _, __, checkpoint, epochs, batch:  # Lightning's exception
        f"ckpt_path={checkpoint}: was trained for longer than trainer.max_epochs={epochs}. "
        f"Fix: raise it, or init_from={checkpoint} starts from the weights alone"),
    (RuntimeError, r"^Error\(s\) in loading state_dict", lambda _, __, checkpoint, epochs, batch:
        f"ckpt_path={checkpoint}: of a model with other settings. Fix: init_from={checkpoint} takes weights by name"),
    (RuntimeError, "out of memory|can't allocate memory", _out_of_memory),
    (RuntimeError, "gloo.*(Connection|Read error|Write error|Timed out|timeout)|NCCL|Socket", lambda error, *_:
        "another rank died, or cannot be reached; its last output says why. "
        f"Fix: the same command resumes from the last checkpoint ({first_line(error)})"),
)
# fmt: on
