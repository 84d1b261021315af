"""Cancel a translation that nobody waits for, because its client has left or the server stops."""

import asyncio
import threading
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from torch.nn.modules.module import register_module_forward_pre_hook

SECONDS_BETWEEN_POLLS = 0.2


class UnawaitedError(Exception):
    """Nobody waits for the answer."""


async def run_while_awaited(request: Request, work: Callable[[], Response]) -> Response:
    """Run `work` in a thread, and end it early if the client leaves or `app.state.stopping` is set."""
    left = threading.Event()

    def check(*_: object) -> None:
        if left.is_set() or getattr(request.app.state, "stopping", False):
            raise UnawaitedError

    def run() -> Response:
        try:
            with register_module_forward_pre_hook(check):  # because each step of a search calls modules
                return work()
        except UnawaitedError:
            return Response(status_code=503)

    working = asyncio.ensure_future(run_in_threadpool(run))
    try:
        while not working.done():
            if await request.is_disconnected():
                left.set()
            await asyncio.wait([working], timeout=SECONDS_BETWEEN_POLLS)
    finally:
        left.set()  # because a signal that uvicorn does not handle ends the loop here
    return working.result()
