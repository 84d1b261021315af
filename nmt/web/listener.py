"""Listen on an address, and serve an application until interrupted."""

import errno
import socket
import sys
from collections.abc import Sequence

from omegaconf import DictConfig
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from nmt.errors import ConfigurationError, UserError
from nmt.web.hosts import ANY_ADDRESS, format_for_url
from nmt.web.uvicorn_internals import make_server

PAGE_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


def listen(settings: DictConfig) -> socket.socket:
    """Return a socket that listens on `host` and `port`."""
    host, port = settings.host, settings.port
    if host is None:
        raise ConfigurationError("host=null: must be a name or an address. Fix: host=127.0.0.1")
    if port is None or not 0 <= port < 2**16:
        raise ConfigurationError(
            f"port={'null' if port is None else port}: must be between 1 and {2**16 - 1}, or 0 for a free one"
        )
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"port={port}: another program uses it. Fix: name another, or port=0 for a free one"
            ) from None
        raise ConfigurationError(f"host={host} port={port}: cannot listen there ({error.strerror})") from None


def make_app(routes: Sequence[Route], hosts: list[str]) -> Starlette:
    """Return an application that answers to these host names alone, and each error by {"error": …}."""
    return Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers={UserError: _answer_user_error, Exception: _answer_failure},
    )


def run_app(app: Starlette, listener: socket.socket, host: str) -> None:
    """Serve until interrupted."""
    name = format_for_url("localhost" if host in ANY_ADDRESS else host)
    print(f"serving at http://{name}:{listener.getsockname()[1]}/ – Ctrl-C stops it", file=sys.stderr, flush=True)
    make_server(app).run(sockets=[listener])


async def _answer_user_error(_: Request, error: Exception) -> JSONResponse:
    message = str(error).encode(errors="replace").decode()  # because it may quote half of a surrogate pair
    return JSONResponse({"error": message}, status_code=400)


async def _answer_failure(_: Request, error: Exception) -> JSONResponse:
    message = f"the server failed ({type(error).__name__}); the traceback is in the terminal where it was started"
    return JSONResponse({"error": message}, status_code=500)
