"""KEY=VALUE overrides on the command line: their order and their quotes."""

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from nmt.config.diff import flatten_settings, override_key
from nmt.errors import ConfigurationError

MULTIRUN = {"-m", "--multirun"}
# Keys whose values are paths or names; data.…NAME is the end of a key
PATHS = {"hydra.run.dir", "hydra.sweep.dir", "sweep", "name", "init_from", "ckpt_path", "pretraining_folder"}
PATHS |= {"run", "user_dir", "input", "output", "export", "push", "prefixes", "links", "gold", "hypotheses", "baseline"}
PATHS |= {"test", "vectors.source", "vectors.target", "comet", "comet_model"}
PATHS |= {f"data.…{name}" for name in ("dir", "cache", "path", "run", "test")}
LISTS_OF_PATHS = {"runs", "score", "rescore", "reference"}
LISTS_OF_PATHS |= {f"data.…{name}" for name in ("source", "target", "alignments", "references")}
# numbers and booleans as Hydra reads them
NUMBER_OR_BOOLEAN = re.compile(r"[+-]?[\d._]+(e[+-]?\d+)?|[+-]?(inf|nan)|true|false", re.IGNORECASE)
ITEM_OF_LIST = re.compile(r"""\s*('(?:[^']|'')*'|"[^"]*"|[^,]*?)\s*(?:,|$)""")


def prepare_arguments(arguments: list[str]) -> list[str]:
    """Refuse arguments that training cannot follow, move -m to the front, and replace device= by trainer settings."""
    for argument in arguments:
        # because the jobs of a sweep and pretraining stages are composed from config.yaml
        if re.match(r"(--config-name|-cn)\b", argument):
            raise ConfigurationError(
                f"{argument}: the main configuration is always config.yaml. Fix: put your settings into "
                "DIR/experiment/NAME.yaml and give --config-dir DIR experiment=NAME"
            )
        if argument in ("hydra.run.dir=", "hydra.sweep.dir="):  # Hydra would write to the working directory
            raise ConfigurationError(f"{argument}: names no folder. Fix: leave it out, or name one")
    overrides = [override for argument in arguments for override in _read_device(_quote_path(argument))]
    # -m first, because Hydra's parser reads no KEY=VALUE after a flag that follows others
    return sorted(overrides, key=lambda override: override not in MULTIRUN)


def _quote_path(argument: str) -> str:
    """Quote a path that Hydra would take for a number: 1e3 would become 1000.0, and 007 would become 7."""
    key, _, value = argument.partition("=")
    is_path = _shorten_key(key.lstrip("+")) in PATHS | LISTS_OF_PATHS
    return f"{key}={quote_value(value)}" if is_path and NUMBER_OR_BOOLEAN.fullmatch(value) else argument


def _shorten_key(key: str) -> str:
    """Return data.…NAME for the keys of data."""
    return re.sub(r"^data\..*?(?=\w*$)", "data.…", key)


def _read_device(argument: str) -> list[str]:
    """Return device=NAME, which all commands take, as overrides of the trainer, and any other argument as it is."""
    if not argument.startswith("device="):
        return [argument]
    device = re.fullmatch(r"device=(auto|cpu|cuda)(?:(?<=cuda):(\d+))?", argument)
    if device is None:
        raise ConfigurationError(f"{argument}: no such device. Fix: device=auto, cpu, cuda or cuda:1")
    return [f"trainer.accelerator={device[1]}", *([f"trainer.devices=[{device[2]}]"] if device[2] else [])]


def expand_home(argument: str) -> str:
    """Return an argument with the home folder in place of ~, because a shell expands no ~ after = or in quotes."""
    return re.sub(r"(^|[=,:\[]\s*['\"]?)~(?=/)", lambda match: match[1] + os.path.expanduser("~"), argument)


def find_repeated(arguments: Iterable[str]) -> list[str]:
    """Return the first KEY=VALUE arguments that give one key several values; empty if none do."""
    by_key: dict[str, dict[str, None]] = {}
    for argument in arguments:
        if "=" in argument:
            by_key.setdefault(override_key(argument), {})[argument] = None
    return next((list(repeated) for repeated in by_key.values() if len(repeated) > 1), [])


def explain_split_argument(part: str, arguments: Sequence[str]) -> str | None:
    """Explain an argument that has no meaning alone, because the shell has split KEY=VALUE at a space; or None."""
    for start, first in enumerate(arguments):
        for end in range(start + 1, len(arguments) + 1) if "=" in first else ():
            if _is_complete(typed := " ".join(arguments[start:end])):
                if end - start > 1 and part in arguments[start:end]:
                    return f"{typed}: the shell splits it at the space. Fix: quote it: {shlex.quote(typed)}"
                break
    return None


def _is_complete(argument: str) -> bool:
    """True if neither a value nor a closing bracket is missing at the end."""
    is_closed = all(argument.count(opening) <= argument.count(closing) for opening, closing in ("[]", "{}", "()"))
    return is_closed and not argument.endswith(("=", ",", ":"))


def read_overrides() -> tuple[str, ...]:
    """Return the overrides of the job as written, because validation=${search}, resolved, is no override."""
    return tuple(OmegaConf.to_container(HydraConfig.get().overrides.task))


def read_dotlist(arguments: Iterable[str]) -> DictConfig:
    """Return the settings of KEY=VALUE arguments, in Hydra's grammar, except paths, which are taken as typed."""
    settings = OmegaConf.create()
    for override in OverridesParser.create().parse_overrides([quote_paths(argument) for argument in arguments]):
        if override.is_sweep_override():
            key, _, text = override.input_line.partition("=")
            raise ConfigurationError(f"{key}={text}: several values. Fix: give one, or a list: {key}=[{text}]")
        OmegaConf.update(settings, override.key_or_group, override.value())
    return settings


def quote_paths(argument: str) -> str:
    """Return KEY=VALUE in Hydra's grammar, with its paths in quotes, so that they are taken as typed."""
    key, _, text = argument.partition("=")
    name = _shorten_key(key)
    if not text:
        return f"{key}=null"
    if name in LISTS_OF_PATHS and text.startswith("[") and text.endswith("]"):
        return f"{key}=[{','.join(_quote_typed(item) for item in ITEM_OF_LIST.findall(text[1:-1]) if item)}]"
    is_mapping = text.startswith("{") and text.endswith("}")  # such as data.source={language: de}
    return f"{key}={_quote_typed(text)}" if name in PATHS | LISTS_OF_PATHS and not is_mapping else argument


def _quote_typed(text: str) -> str:
    path = read_path(text)
    return "null" if path is None else quote_value(path)


def read_leaves(arguments: Iterable[str]) -> dict[str, Any]:
    """Return the settings of KEY=VALUE arguments by their dotted keys."""
    settings = OmegaConf.to_container(read_dotlist(arguments))
    return flatten_settings(settings) if settings else {}


def format_argument(key: str, value: Any) -> str:
    """Return KEY=VALUE as it is typed."""
    if isinstance(value, list):
        return f"{key}=[{','.join(map(str, value))}]"
    return f"{key}={json.dumps(value) if value is None or isinstance(value, bool) else value}"


def read_path(text: str) -> str | None:
    """Return a path as typed, without quotes around it; YAML would end it at " #" and turn 007 into 7."""
    if text in ("", "null"):
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace("''", "'") if text[0] == "'" else text[1:-1]
    return text


def quote_value(value: Path | str) -> str:
    r"""Quote a value for Hydra's grammar, in which = and , have a meaning, and \ has one only before a quote."""
    text = re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), str(value))
    return f"'{text}'"
