"""The private parts of uvicorn that the server depends on, to close connections of clients that neither ask nor read.

`tests/web/test_uvicorn_internals.py` checks them against the installed version.
"""

import asyncio
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

SECONDS_TO_ASK = 20.0  # in which a client must complete a request, or read a part of its answer
MOST_CONNECTIONS = 100  # because each may hold an answer in memory that its client does not read


class ImpatientProtocol(H11Protocol):
    """Close a connection whose request stays incomplete, even by the byte, or whose client reads nothing."""

    unsent = 0  # bytes of the answer when the connection was last checked

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to watch the connection."""
        super().connection_made(transport)
        self._watch()

    def _watch(self) -> None:
        if self in self.connections:  # also while it is closing, because it then still holds what its client must read
            self.loop.call_later(SECONDS_TO_ASK, self._close_if_same, self.cycle)

    def _close_if_same(self, cycle: RequestResponseCycle | None) -> None:
        """Close the connection if it has got no request since it had this one, or its client has read nothing since."""
        before, self.unsent = self.unsent, self.transport.get_write_buffer_size()
        if self.unsent and self.unsent == before:
            self.transport.abort()
        elif not self.unsent and self.cycle is cycle and self._lacks_request():
            self.transport.close()
        self._watch()

    def _lacks_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def shutdown(self) -> None:
        """Close the connection, unless a request is being answered."""
        if self._lacks_request():
            self.transport.close()
        else:
            super().shutdown()


def make_server(app: Starlette) -> "Server":
    """Return the server of an application."""
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        backlog=16,  # without a free descriptor, asyncio tries to accept as many connections, and logs each failure
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=5,  # for an answer that is being sent
    )
    return Server(config)


class Server(uvicorn.Server):
    """A server that ends the translation it is at when it is stopped."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note in the application that the server stops."""
        self.config.app.state.stopping = True
        super().handle_exit(sig, frame)
