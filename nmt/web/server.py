"""`translate.py serve=true`: a page where several runs translate side by side.

- GET /: the page.
- GET /runs: the runs, and the default search.
- POST /translate: {"text": …, "runs": [NAME, …], "beam": 5, "length_penalty": 1.0, "nbest": 5, "traces": false};
  only text is needed. With traces, translations have layers: what the parts of the model show.

A request that is refused is answered by {"error": …} with status 400.
"""

import asyncio
import dataclasses
import errno
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from omegaconf import DictConfig
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from nmt.errors import ConfigurationError, UserError
from nmt.search.settings import Search
from nmt.system.threads import set_threads
from nmt.translate.loading import build_search, check_settings
from nmt.web.hosts import ANY_ADDRESS, allowed_hosts, format_for_url
from nmt.web.served_run import ServedRun, open_runs
from nmt.web.translation_request import TranslationRequest, parse_content, read_content

FOLDER = Path(__file__).parent
PAGE_PARTS = {  # by placeholder
    "styles": "shared.css",
    "page_styles": "translate.css",
    "elements": "elements.js",
    "layers": "layers.js",
    "heatmap": "heatmap.js",
    "text_diff": "text_diff.js",
    "translate": "translate.js",
}
PAGE_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


def serve(settings: DictConfig) -> None:
    """Serve the page until interrupted."""
    with _listen(settings.host, settings.port) as listener:
        check_settings(settings)
        set_threads(settings.threads)
        served = open_runs(settings)
        search = build_search(settings, [one.run for one in served.values()])
        app = create_app(served, search, allowed_hosts(settings.host))
        host = format_for_url("localhost" if settings.host in ANY_ADDRESS else settings.host)
        print(f"serving at http://{host}:{listener.getsockname()[1]}/ – Ctrl-C stops it", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none")
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise ConfigurationError(f"port={port}: must be between 1 and {2**16 - 1}, or 0 for a free one")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"port={port}: another program uses it. Fix: name another, or port=0 for a free one"
            ) from None
        raise ConfigurationError(f"host={host} port={port}: cannot listen there ({error.strerror})") from None


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

    async def translate(request: Request) -> JSONResponse:
        parsed = parse_content(await read_content(request), served, defaults)
        async with one_at_a_time:
            return await run_in_threadpool(_translate, parsed)

    return Starlette(
        routes=[Route("/", page), Route("/runs", runs), Route("/translate", translate, methods=["POST"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers={UserError: _answer_user_error, Exception: _answer_failure},
    )


def build_page() -> str:
    """Return the page with its styles and scripts inside, so that it loads nothing else."""
    page = (FOLDER / "translate.html").read_text(encoding="utf-8")
    for placeholder, name in PAGE_PARTS.items():
        page = page.replace(f"{{{{{placeholder}}}}}", (FOLDER / name).read_text(encoding="utf-8"))
    return page


def _translate(request: TranslationRequest) -> JSONResponse:
    """Check the size and translate; the response is built here too, because much JSON would block the event loop."""
    request.check_size()
    results = [
        {"name": name, **run.translate(request.lines, request.search, request.traces)}
        for name, run in request.runs.items()
    ]
    return JSONResponse({"lines": request.lines, "runs": results})


async def _answer_user_error(_: Request, error: Exception) -> JSONResponse:
    message = str(error).encode(errors="replace").decode()  # because it may quote half of a surrogate pair
    return JSONResponse({"error": message}, status_code=400)


async def _answer_failure(_: Request, error: Exception) -> JSONResponse:
    message = f"the server failed ({type(error).__name__}); the traceback is in the terminal where it was started"
    return JSONResponse({"error": message}, status_code=500)
