"""The server ends what nobody waits for: translations, and connections without a request."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from commands import ROOT

from nmt.search.settings import Search
from nmt.web import uvicorn_internals
from nmt.web.cancellation import run_while_awaited
from nmt.web.server import create_app
from nmt.web.uvicorn_internals import make_server

HEAD = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
BODY = json.dumps({"text": "ma"})


class Endless:
    """A run that translates until it is ended."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    def describe(self):
        return {}

    def count_values(self, lines, search, traces):
        return 0

    def translate(self, lines, search, traces):
        self.begun.set()
        try:
            while True:
                torch.nn.Identity()(torch.zeros(1))
                time.sleep(0.01)
        finally:
            self.ended.set()


@contextmanager
def serving(run):
    """Serve a run in a thread; yield its address and its server."""
    server = make_server(create_app({"run": run}, Search(), ["localhost"]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address, server
        finally:
            server.handle_exit(signal.SIGINT, None)
            thread.join(10)
            assert not thread.is_alive()


def ask(address, text):
    connection = socket.create_connection(address, timeout=10)
    connection.sendall(text.encode())
    return connection


def test_the_translation_of_a_client_that_left_ends():
    run = Endless()
    with serving(run) as (address, _):
        first, second = (ask(address, HEAD.format(len(BODY)) + BODY) for _ in "ab")
        assert run.begun.wait(10)
        first.close()
        second.close()
        assert run.ended.wait(5)
        with ask(address, "GET /runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as third:
            assert b"200 OK" in third.recv(1000)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_translations(number):
    run = Endless()
    with serving(run) as (address, server):
        connections = [ask(address, HEAD.format(len(BODY)) + BODY) for _ in "ab"]
        assert run.begun.wait(10)
        start = time.monotonic()
        server.handle_exit(number, None)
        assert [b"503" in connection.recv(1000) for connection in connections] == [True, True]
        assert time.monotonic() - start < 3
    assert run.ended.is_set()


class Waiting:
    """A request whose client stays."""

    app = SimpleNamespace(state=SimpleNamespace())

    async def is_disconnected(self):
        return False


def test_a_signal_that_uvicorn_does_not_know_ends_the_translation():
    run = Endless()

    async def answer_until_hangup():
        answer = asyncio.ensure_future(run_while_awaited(Waiting(), partial(run.translate, [], None, traces=False)))
        await asyncio.to_thread(run.begun.wait, 10)
        answer.cancel()  # as the end of the event loop does
        await asyncio.to_thread(run.ended.wait, 10)

    asyncio.run(answer_until_hangup())
    assert run.ended.is_set()


@pytest.mark.parametrize(
    "text",
    ["", "GET / HT", HEAD.format(len(BODY)) + BODY[:3], "GET /runs HTTP/1.1\r\nHost: localhost\r\n\r\nGET /ru"],
    ids=["nothing", "half a head", "half a body", "half a second request"],
)
@pytest.mark.parametrize("trickles", [False, True])
def test_a_connection_without_a_complete_request_is_closed(monkeypatch, text, trickles):
    monkeypatch.setattr(uvicorn_internals, "SECONDS_TO_ASK", 0.3)
    with serving(Endless()) as (address, _), ask(address, text) as connection:
        connection.settimeout(0.05)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            try:
                if trickles and text:
                    connection.sendall(b"x")
                if not connection.recv(10_000):
                    return
            except TimeoutError:
                pass
            except ConnectionError:
                return
        pytest.fail("the connection is still open")


def test_a_connection_that_waits_for_its_translation_stays_open(monkeypatch):
    monkeypatch.setattr(uvicorn_internals, "SECONDS_TO_ASK", 0.1)
    run = Endless()
    with serving(run) as (address, _), ask(address, HEAD.format(len(BODY)) + BODY) as connection:
        assert run.begun.wait(10)
        connection.settimeout(1)
        with pytest.raises(TimeoutError):
            connection.recv(10)
        assert not run.ended.is_set()


class Long(Endless):
    """A run whose description does not fit into the buffers of a connection."""

    def describe(self):
        return {"text": "a" * 20_000_000}


GET = "GET /runs HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_a_client_that_does_not_read_its_answer_is_disconnected(monkeypatch):
    monkeypatch.setattr(uvicorn_internals, "SECONDS_TO_ASK", 0.5)
    with serving(Long()) as (address, server), ask(address, GET) as stalled, ask(address, GET) as slow:
        deadline, size = time.monotonic() + 8, 0
        while time.monotonic() < deadline and (part := slow.recv(500_000)):
            size += len(part)
            time.sleep(0.05)
        assert size > 20_000_000
        assert not server.server_state.connections
        stalled.settimeout(1)
        assert sum(map(len, iter(lambda: stalled.recv(1_000_000), b""))) < 20_000_000


def test_connections_above_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr(uvicorn_internals, "MOST_CONNECTIONS", 3)
    with serving(Endless()) as (address, _), ask(address, ""), ask(address, ""), ask(address, GET) as third:
        assert third.recv(1000).startswith(b"HTTP/1.1 503 Service Unavailable")


SERVE = """
import socket, sys
sys.path.insert(0, "tests")
from web.test_uvicorn_internals import Endless, Search, create_app, make_server
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    make_server(create_app({"run": Endless()}, Search(), ["localhost"])).run(sockets=[listener])
"""


def test_a_server_without_a_free_descriptor_logs_little_and_goes_on_later(tmp_path):
    limited = ["sh", "-c", 'ulimit -n 64; exec "$0" -c "$1"', sys.executable, SERVE]
    with (
        (tmp_path / "errors").open("wb") as errors,  # not a pipe, which would stop the server when it is full
        subprocess.Popen(limited, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            address = ("127.0.0.1", int(process.stdout.readline()))
            connections = [socket.create_connection(address, timeout=10) for _ in range(70)]
            time.sleep(4)
            for connection in connections:
                connection.close()
            with ask(address, "GET /runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as answered:
                assert b"200 OK" in answered.recv(1000)
        finally:
            process.terminate()
    assert 0 < (tmp_path / "errors").stat().st_size < 500_000
