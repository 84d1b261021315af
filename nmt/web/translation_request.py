"""Read and check requests to translate; their sizes are limited, because anyone may send them."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request

from nmt.errors import UserError
from nmt.search.settings import RANGES, Search
from nmt.web.served_run import ServedRun

KEYS = ("text", "runs", "beam", "length_penalty", "nbest", "traces")
MAX_BEAM, MAX_LINES, MAX_CHARACTERS = 50, 50, 2000
MAX_VALUES = 10_000_000  # of all alignments and traces of an answer; each takes 10 bytes as text, and 70 before
MAX_BYTES = 16 * MAX_LINES * MAX_CHARACTERS  # of a request; a character is at most 12 bytes of JSON


class TranslationRequest(NamedTuple):
    """Lines to translate, the runs to translate them with, the search, and whether to show the traces."""

    runs: dict[str, ServedRun]
    lines: list[str]
    search: Search
    traces: bool

    def check_size(self) -> None:
        """Refuse a request whose answer would take too much memory."""
        values = sum(run.count_values(self.lines, self.search, self.traces) for run in self.runs.values())
        if values > MAX_VALUES:
            without_traces = "leave out traces, " if self.traces else ""
            raise UserError(
                f"text: with nbest={self.search.nbest} and {len(self.runs)} of the runs its alignments can have "
                f"{values:,} values, more than {MAX_VALUES:,}. Fix: {without_traces}lower nbest, choose fewer runs, or "
                "send fewer or shorter lines"
            )


async def read_content(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request contains."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # because a foreign page may send other types without the browser asking this server first
        raise UserError("Content-Type: must be application/json")
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                raise UserError(f"the request is longer than {MAX_BYTES:,} bytes")
    except ClientDisconnect:
        raise UserError("the request is incomplete") from None
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise UserError("the request is not JSON") from None
    if not isinstance(content, dict):
        raise UserError("the request must be a JSON object")
    return content


def parse_content(content: dict[str, Any], served: Mapping[str, ServedRun], defaults: Search) -> TranslationRequest:
    """Check the content of a request, and fill in defaults."""
    if unknown := content.keys() - set(KEYS):
        raise UserError(f"{min(unknown)}: no such key. Fix: use only {', '.join(KEYS)}")
    beam = _read_number(content, "beam", defaults.beam, int, 1, MAX_BEAM)
    most = MAX_BEAM if defaults.sample else beam  # samples are drawn whatever the beam is
    search = dataclasses.replace(
        defaults,
        beam=beam,
        nbest=_read_number(content, "nbest", min(defaults.nbest, most), int, 1, most),
        length_penalty=_read_number(
            content, "length_penalty", defaults.length_penalty, (int, float), *RANGES["length_penalty"]
        ),
    )
    traces = content.get("traces", False)
    if not isinstance(traces, bool):
        raise UserError(f"traces={_shorten(traces)}: must be true or false")
    return TranslationRequest(_read_runs(content, served), _read_lines(content), search, traces)


def _read_number(content: dict[str, Any], key: str, default: float, kind: Any, least: float, most: float) -> float:
    value = content.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
        name = "a whole number" if kind is int else "a number"
        raise UserError(f"{key}={_shorten(value)}: must be {name} from {least} to {most:g}")
    return value


def _read_runs(content: dict[str, Any], served: Mapping[str, ServedRun]) -> dict[str, ServedRun]:
    names = content.get("runs", list(served))
    if not isinstance(names, list) or not names:
        raise UserError("runs: no run is chosen. Fix: choose at least one run")
    for name in names:
        if not isinstance(name, str) or name not in served:
            raise UserError(f"runs: {_shorten(name)} is not served here. Fix: choose among {', '.join(served)}")
    return {name: served[name] for name in names}


def _read_lines(content: dict[str, Any]) -> list[str]:
    text = content.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UserError("text: nothing to translate. Fix: write a sentence")
    valid = text.encode(errors="replace").decode()  # because JSON can contain half of a surrogate pair
    lines = [line.strip() for line in valid.split("\n")]
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_CHARACTERS:
            raise UserError(f"text: line {number} has {len(line):,} characters, more than {MAX_CHARACTERS:,}")
    lines = [line for line in lines if line]
    if len(lines) > MAX_LINES:
        raise UserError(
            f"text: {len(lines):,} lines, more than {MAX_LINES}. Fix: translate.py, which takes files of any size"
        )
    return lines


def _shorten(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value)
    except RecursionError:
        text = "…"
    return text if len(text) <= 60 else f"{text[:60]}…"
