"""`compare.py RUN_OR_SWEEP … serve=true`: the page of a comparison, which changes as its runs go on.

- GET /: the page, with the data of this moment.
- GET /changes?NAME=TAG&…: the parts of the data that have another tag than the page's; status 204 if there are none.
"""

import asyncio
import sys
from collections.abc import Sequence

from omegaconf import DictConfig
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from nmt.errors import make_printable
from nmt.report.comparison import check_arguments
from nmt.report.load.run_folder import refuse_files
from nmt.report.render.html_page import render_page
from nmt.web.hosts import allowed_hosts
from nmt.web.listener import PAGE_HEADERS, listen, make_app, run_app
from nmt.web.live_comparison import LiveComparison


def serve(folders: Sequence[str], settings: DictConfig) -> None:
    """Serve the page until interrupted."""
    check_arguments(folders, settings)
    refuse_files(folders)
    with listen(settings) as listener:
        comparison = LiveComparison(folders, settings)
        comparison.update()
        for message in comparison.parts["messages"].content:
            print(make_printable(message), file=sys.stderr)
        run_app(create_app(comparison, allowed_hosts(settings.host)), listener, settings.host)


def create_app(comparison: LiveComparison, hosts: list[str]) -> Starlette:
    """Return the application that serves the page and what changes on it to these host names."""
    one_at_a_time = asyncio.Lock()  # because several open pages need the files read only once

    async def update() -> None:
        async with one_at_a_time:
            await run_in_threadpool(comparison.update)

    async def page(_: Request) -> HTMLResponse:
        await update()
        html = await run_in_threadpool(lambda: render_page(comparison.page_data(), is_served=True))
        return HTMLResponse(html, headers=PAGE_HEADERS)

    async def changes(request: Request) -> Response:
        await update()
        text = comparison.list_changes(request.query_params)
        headers = {"Cache-Control": "no-store"}
        return Response(text, 200 if text else 204, headers, media_type="application/json")

    return make_app([Route("/", page), Route("/changes", changes)], hosts)
