"""`translate.py serve=true`: a page where several runs translate side by side, and the end points it asks.

    GET /            page.html
    GET /runs        what the runs are, and how they search unless asked otherwise
    POST /translate  {"text": …, "runs": [NAME, …], "beam": 5, "length_penalty": 1.0, "nbest": 5}; all but text may lack

What cannot be done is answered by {"error": …} and a status of 400.
"""

import asyncio
import dataclasses
import errno
import json
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from omegaconf import DictConfig, OmegaConf
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from nmt.errors import ConfigurationError, UserError
from nmt.report.load.run_folder import RunFolder, names_of
from nmt.runs.trained_model import Run
from nmt.search.settings import Search
from nmt.translate.loading import as_record, paths_of, replacing, search_of, translator_of

HERE = Path(__file__).parent
PAGE = HERE / "translate.html"
SHARED = {"styles": "shared.css", "heatmap": "heatmap.js", "differing": "text_diff.js"}
PAGE_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
PARTS = ("encoder", "decoder", "attention", "memory")
ANY_ADDRESS = ("0.0.0.0", "::")
WIDEST_BEAM, MOST_LINES, MOST_CHARACTERS, MOST_LENGTH_PENALTY = 50, 50, 2000, 10.0
MOST_BYTES = 16 * MOST_LINES * MOST_CHARACTERS  # of a request; a character is at most 12 bytes of JSON
HYPOTHESES = 320  # searched at once: a wide beam takes fewer lines together


def serve(settings: DictConfig) -> None:
    """Until it is interrupted."""
    with _listening(settings.host, settings.port) as listening:
        usual = search_of(settings)
        app = application(opened_each(settings), usual, hosts_of(settings.host))
        shown = _in_a_url("localhost" if settings.host in ANY_ADDRESS else settings.host)
        print(f"serving at http://{shown}:{listening.getsockname()[1]}/ – Ctrl-C ends it", file=sys.stderr, flush=True)
        quiet = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none")
        uvicorn.Server(quiet).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise ConfigurationError(f"port={port}: must be between 0 (a free one) and {2**16 - 1}")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"port={port}: another program uses it; name another, or port=0 for a free one"
            ) from None
        raise ConfigurationError(f"host={host} port={port}: cannot be listened at ({error.strerror})") from None


def hosts_of(host: str) -> list[str]:
    """The names it answers to: a foreign page must not reach it by a name that leads here (DNS rebinding)."""
    own = _names_of_this_machine() if host in ANY_ADDRESS else ()
    return ["localhost", "127.0.0.1", *map(_in_a_url, (host, *own))]


def _in_a_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _names_of_this_machine() -> set[str]:
    """And the addresses that others reach it by."""
    names = {socket.gethostname(), socket.getfqdn(), "::1"}
    for name in list(names):
        with suppress(OSError):
            names |= {_without_zone(address[0]) for *_, address in socket.getaddrinfo(name, None)}
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((elsewhere, 9))  # sends nothing: by which address it would go out
            names.add(_without_zone(asking.getsockname()[0]))
    return names


def _without_zone(address: Any) -> str:
    """fe80::1%eth0 is fe80::1 to whoever asks for it: zones are known to one machine alone."""
    return str(address).partition("%")[0]


class Served:
    """A run that is ready to translate, and what it is."""

    def __init__(self, run: Run, settings: DictConfig):
        self.run, self.longest, self.batch_size = run, settings.longest_line, settings.batch_size
        self.parameters = sum(parameter.numel() for parameter in run.model.parameters())  # before int8 packs some
        self.translator = translator_of(run, settings.device, settings.candidates, int8=settings.int8)
        self.replaced = replacing([run], settings.unknown)

    def about(self) -> dict[str, Any]:
        return {
            "languages": [language.preprocessing.language for language in self.run.languages],
            "parts": parts_of(self.run),
            "overrides": RunFolder(self.run.folder).overrides,
            "parameters": self.parameters,
            "steps": self.run.step,
        }

    def translate(self, lines: list[str], how: Search) -> dict[str, Any]:
        """The n best translations of each line."""
        started = time.perf_counter()
        together = max(1, min(self.batch_size, HYPOTHESES // how.beam))
        asked = ((line, None) for line in lines)
        found = self.translator.lines(asked, how, batch_size=together, longest=self.longest)
        translations = [[as_record(self.replaced(one), alignment=True) for one in line.translations] for line in found]
        return {"lines": translations, "seconds": round(time.perf_counter() - started, 3)}


def opened_each(settings: DictConfig) -> dict[str, Served]:
    """The runs of `run` or `runs`, each for itself, by name."""
    paths = paths_of(settings)
    names = names_of(paths)
    if len(set(names)) < len(names):
        raise ConfigurationError(f"runs=[{','.join(paths)}]: one is named twice")
    return {name: Served(Run(path), settings) for name, path in zip(names, paths, strict=True)}


def parts_of(run: Run) -> dict[str, str]:
    """Group by group what was chosen, where the folder still says so; of a lone checkpoint, the parts' classes."""
    found = RunFolder(run.folder).choices or dict(_classes(OmegaConf.to_container(run.config)))
    of_model = {group: choice for group, choice in found.items() if group.split("/")[0] in PARTS and choice is not None}
    return {group: of_model[group] for group in sorted(of_model, key=lambda group: PARTS.index(group.split("/")[0]))}


def _classes(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in PARTS:
        yield part, _class(config.get(part))
        inner = config.get(part)
        for name, node in inner.items() if isinstance(inner, Mapping) else ():
            if name not in PARTS:
                yield f"{part}/{name}", _class(node)


def _class(node: Any) -> str | None:
    return str(node["_target_"]).rpartition(".")[2] if isinstance(node, Mapping) and "_target_" in node else None


def whole_page() -> str:
    """With what it shares with the page of a comparison, so that it loads nothing."""
    whole = PAGE.read_text(encoding="utf-8")
    for place, name in SHARED.items():
        whole = whole.replace(f"{{{{{place}}}}}", (HERE / name).read_text(encoding="utf-8"))
    return whole


def application(served: Mapping[str, Served], usual: Search, hosts: list[str]) -> Starlette:
    one_at_a_time = asyncio.Lock()  # two translations would fight for the cores
    whole = whole_page()

    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(whole, headers=PAGE_HEADERS)

    async def runs(_: Request) -> JSONResponse:
        about = [{"name": name, **one.about()} for name, one in served.items()]
        return JSONResponse({"runs": about, "search": dataclasses.asdict(usual)})

    async def translate(request: Request) -> JSONResponse:
        wanted = wanted_of(await _content(request), served, usual)
        async with one_at_a_time:
            return await run_in_threadpool(_translated, wanted)

    return Starlette(
        routes=[Route("/", page), Route("/runs", runs), Route("/translate", translate, methods=["POST"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers={UserError: _refused, Exception: _failed},
    )


async def _refused(_: Request, error: Exception) -> JSONResponse:
    said = str(error).encode(errors="replace").decode()  # it may quote half a character of the request
    return JSONResponse({"error": said}, status_code=400)


async def _failed(_: Request, error: Exception) -> JSONResponse:
    said = f"the server failed at this ({type(error).__name__}); it says more where it was started"
    return JSONResponse({"error": said}, status_code=500)


class Wanted(NamedTuple):
    runs: dict[str, Served]
    lines: list[str]
    how: Search


def _translated(wanted: Wanted) -> JSONResponse:
    """Serialised here too, off the event loop: much JSON takes its time."""
    found = [{"name": name, **one.translate(wanted.lines, wanted.how)} for name, one in wanted.runs.items()]
    return JSONResponse({"lines": wanted.lines, "runs": found})


async def _content(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise UserError("Content-Type must be application/json")  # other kinds a foreign page could send unasked
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise UserError(f"the request is longer than {MOST_BYTES:,} bytes")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise UserError("the request is not JSON") from None
    if not isinstance(content, dict):
        raise UserError("the request must be a JSON object")
    return content


def wanted_of(content: dict[str, Any], served: Mapping[str, Served], usual: Search) -> Wanted:
    if unknown := content.keys() - {"text", "runs", "beam", "length_penalty", "nbest"}:
        raise UserError(f"{min(unknown)}: no such key; there are text, runs, beam, length_penalty, nbest")
    beam = _number(content, "beam", usual.beam, int, 1, WIDEST_BEAM)
    how = dataclasses.replace(
        usual,
        beam=beam,
        nbest=_number(content, "nbest", min(usual.nbest, beam), int, 1, beam),
        length_penalty=_number(content, "length_penalty", usual.length_penalty, (int, float), 0, MOST_LENGTH_PENALTY),
    )
    return Wanted(_runs(content, served), _lines(content), how)


def _number(content: dict[str, Any], key: str, usual: float, kind: Any, least: float, most: float) -> float:
    value = content.get(key, usual)
    if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
        name = "a whole number" if kind is int else "a number"
        raise UserError(f"{key}={_short(value)}: {name} from {least} to {most:g} is expected")
    return value


def _runs(content: dict[str, Any], served: Mapping[str, Served]) -> dict[str, Served]:
    names = content.get("runs", list(served))
    if not isinstance(names, list) or not names:
        raise UserError("runs: choose at least one run")
    for name in names:
        if not isinstance(name, str) or name not in served:
            raise UserError(f"runs: {_short(name)} is not served here; there are {', '.join(served)}")
    return {name: served[name] for name in names}


def _lines(content: dict[str, Any]) -> list[str]:
    text = content.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UserError("text: there is nothing to translate; write a sentence")
    whole = text.encode(errors="replace").decode()  # halves of characters, which JSON can hold, are no text
    lines = [line.strip() for line in whole.split("\n")]
    for number, line in enumerate(lines, start=1):
        if len(line) > MOST_CHARACTERS:
            raise UserError(f"text: line {number} has {len(line):,} characters; at most {MOST_CHARACTERS:,} can be")
    lines = [line for line in lines if line]
    if len(lines) > MOST_LINES:
        raise UserError(
            f"text: {len(lines):,} lines; at most {MOST_LINES} can be (translate.py takes files of any size)"
        )
    return lines


def _short(value: Any) -> str:
    said = value if isinstance(value, str) else json.dumps(value)
    return said if len(said) <= 60 else f"{said[:60]}…"
