"""List keys with their defaults and the comments of their YAML files, for --help."""

import json
import re
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from nmt.config.diff import flatten_settings
from nmt.config.installation import CONF_DIR
from nmt.config.schema import list_files

LINE = re.compile(r"( *)(?:([\w./]+):(?: (?!#)(.*?))?)?(?:(?:^| +)# (.*))?")
WIDTH = 36  # of a setting, before its comment


def describe_keys(command: str) -> str:
    """Return a line for each key of conf/COMMAND.yaml and of the files that its `defaults` name."""
    texts = [(CONF_DIR / f"{name}.yaml").read_text(encoding="utf-8") for name in reversed(list_files(command))]
    keys = (_format_key(f"{key}={default}", comment) for text in texts for key, default, comment in read_keys(text))
    return "\n".join(keys)


def describe_settings(config: Mapping[str, Any], choices: Mapping[str, Any]) -> str:
    """Return a line for each setting of a composed configuration, and for each section with a comment.

    Args:
        config: The configuration.
        choices: The choice of each group, from whose files the comments are.
    """
    comments, lines, sections = _read_comments(choices), [], set()
    for key, value in sorted(flatten_settings(config).items(), key=lambda item: "." in item[0]):
        *parents, name = key.split(".")
        if name.startswith("_"):
            continue
        for section in (".".join(parents[: depth + 1]) for depth in range(len(parents))):
            if section in comments and section not in sections:
                lines.append(_format_key(f"{section}:", comments[section], WIDTH))
            sections.add(section)
        lines.append(_format_key(f"{key}={_as_argument(value)}", comments.get(key, ""), WIDTH))
    return "\n".join(lines)


def read_keys(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the dotted key, the default and the comment, which may begin above it, of each key in a YAML file."""
    parents: list[tuple[int, str]] = []
    comments: list[str] = []
    header = re.match(r"(?:#.*\n|\s)*", text).end()  # comments of the file itself
    for line in text[header:].splitlines():
        match = LINE.fullmatch(line)
        if match is None:  # an item of a list
            continue
        indent, key, default, comment = match.groups()
        comments += [comment] if comment else []
        if key and key != "defaults":
            parents = [(depth, name) for depth, name in parents if depth < len(indent)]
            yield ".".join([*(name for _, name in parents), key]), default or "", ". ".join(comments)
            parents.append((len(indent), key))
        comments = [] if key else comments


def _read_comments(choices: Mapping[str, Any]) -> dict[str, str]:
    """Return the comment of each key that has one, from the chosen files and from those that choices have in common."""
    chosen = [CONF_DIR / group / f"{choice}.yaml" for group, choice in choices.items() if not group.startswith("hydra")]
    shared = [path for name in ("_*.yaml", "default.yaml") for path in sorted(CONF_DIR.glob(f"*/{name}"))]
    comments: dict[str, str] = {}
    for path in (CONF_DIR / "config.yaml", CONF_DIR / "search.yaml", *chosen, *shared):
        folders = ("search",) if path.stem == "search" else path.parent.relative_to(CONF_DIR).parts
        for key, _, comment in read_keys(path.read_text(encoding="utf-8")) if path.is_file() else ():
            if comment:
                comments.setdefault(".".join([*folders, key]), comment)
    return comments


def _format_key(argument: str, comment: str, width: int = 22) -> str:
    wrapped = wrap(comment, 110 - width, break_on_hyphens=False)
    return (f"  {argument:<{width}} " + f"\n{' ' * (width + 3)}".join(wrapped)).rstrip()


def _as_argument(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
