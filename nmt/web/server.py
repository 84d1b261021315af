"""`translate.py serve=true`: a page where several runs translate side by side.

- GET /: the page.
- GET /runs: the runs, and the default search.
- POST /translate: {"text": …, "runs": [NAME, …], "beam": 5, "length_penalty": 1.0, "nbest": 5, "traces": false};
  only text is needed. With traces, translations have layers: what the parts of the model show.

A request that is refused is answered by {"error": …} with status 400.
"""

import asyncio
import dataclasses
import json
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from omegaconf import DictConfig
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nmt.errors import ConfigurationError
from nmt.search.settings import Search
from nmt.system.threads import set_threads
from nmt.translate.loading import build_search, check_settings, set_up_search
from nmt.web.cancellation import run_while_awaited
from nmt.web.hosts import allowed_hosts
from nmt.web.listener import PAGE_HEADERS, listen, make_app, run_app
from nmt.web.served_run import ServedRun, open_runs
from nmt.web.translation_request import MAX_BEAM, TranslationRequest, parse_content, read_content

FOLDER = Path(__file__).parent
to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
SCRIPTS = ("elements.js", "layers.js", "heatmap.js", "text_diff.js", "translate.js")


def serve(settings: DictConfig) -> None:
    """Serve the page until interrupted."""
    with listen(settings) as listener:
        check_settings(settings)
        set_threads(settings.threads)
        served = open_runs(settings)
        opened = [one.run for one in served.values()]
        set_up_search(settings, opened[0].model)
        search = build_search(settings, opened)
        if search.beam > MAX_BEAM:
            raise ConfigurationError(f"beam={search.beam}: the page takes at most {MAX_BEAM}. Fix: beam={MAX_BEAM}")
        run_app(create_app(served, search, allowed_hosts(settings.host)), listener, settings.host)


def create_app(served: Mapping[str, ServedRun], defaults: Search, hosts: list[str]) -> Starlette:
    """Return the application that serves the page and translates.

    Args:
        served: The runs, by name.
        defaults: The search of requests that choose no other.
        hosts: The host names to answer to.
    """
    one_at_a_time = asyncio.Lock()  # because two translations would compete for the cores
    html = build_page()

    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(html, headers=PAGE_HEADERS)

    async def runs(_: Request) -> JSONResponse:
        descriptions = [{"name": name, **run.describe()} for name, run in served.items()]
        return JSONResponse({"runs": descriptions, "search": dataclasses.asdict(defaults)})

    async def translate(request: Request) -> Response:
        parsed = parse_content(await read_content(request), served, defaults)
        async with one_at_a_time:
            return await run_while_awaited(request, partial(_translate, parsed))

    routes = [Route("/", page), Route("/runs", runs), Route("/translate", translate, methods=["POST"])]
    return make_app(routes, hosts)


def build_page() -> str:
    """Return the page with its styles and scripts inside, so that it loads nothing else."""
    names = ("shared.css", "translate.css", "translate.html", *SCRIPTS)
    styles, page_styles, page, *scripts = ((FOLDER / name).read_text(encoding="utf-8") for name in names)
    parts = {"styles": styles, "page_styles": page_styles}
    parts["scripts"] = "\n".join(f"<script>{script}</script>" for script in scripts)
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: parts[placeholder[1]], page)


def _translate(request: TranslationRequest) -> StreamingResponse:
    """Check the size and translate all before the answer begins, because an error has another status."""
    request.check_size()
    return StreamingResponse(iter(list(_write_answer(request))), media_type="application/json")


def _write_answer(request: TranslationRequest) -> Iterator[str]:
    """Yield the JSON of an answer, one translation after another, because text takes less memory than its values."""
    yield f'{{"lines": {to_json(request.lines)}, "runs": ['
    for run_number, (name, run) in enumerate(request.runs.items()):
        start = time.perf_counter()
        yield f'{", " * (run_number > 0)}{{"name": {to_json(name)}, "lines": ['
        for number, translations in enumerate(run.translate(request.lines, request.search, request.traces)):
            yield f"{',' * (number > 0)}[{','.join(map(to_json, translations))}]"
        yield f'], "seconds": {time.perf_counter() - start:.3f}}}'
    yield "]}"
