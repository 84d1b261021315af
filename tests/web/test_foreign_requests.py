"""The server against attacks: pages of other sites, endless requests, foreign host names."""

import json
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from nmt.config.schema import load_defaults
from nmt.search.settings import Search
from nmt.web.hosts import allowed_hosts
from nmt.web.server import create_app
from nmt.web.translation_request import MAX_BYTES, MAX_CHARACTERS, MAX_LINES

JSON = {"Content-Type": "application/json"}


class Idle:
    """A run that translates nothing; it returns the beam of the request."""

    def describe(self):
        return {}

    def count_values(self, lines, search, traces):
        return 0

    def translate(self, lines, search, traces):
        return [[{"beam": search.beam}] for _ in lines]


def client_of(host: str = "127.0.0.1", base_url: str = "http://127.0.0.1:8000") -> TestClient:
    app = create_app({"idle": Idle()}, Search(), allowed_hosts(host))
    return TestClient(app, base_url=base_url, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client():
    return client_of()


def test_by_default_the_server_answers_only_this_machine():
    assert load_defaults("translate").host == "127.0.0.1"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8000",
        "evil.example#127.0.0.1",
        "evil.example@127.0.0.1",
        "127.0.0.1@evil.example",
        "127.0.0.2",
        "0.0.0.0",
        "[::1]:8000",
        "",
    ],
)
def test_a_foreign_name_of_this_machine_is_refused(client, host):
    """DNS rebinding: a foreign page lets its own host name point to this machine."""
    for path in ("/", "/runs", "/nowhere"):
        assert client.get(path, headers={"Host": host}).status_code == 400
    assert client.post("/translate", json={"text": "ma"}, headers={"Host": host}).status_code == 400


def test_a_public_server_answers_only_to_the_names_and_addresses_of_the_machine(monkeypatch):
    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))]
    monkeypatch.setattr("nmt.web.hosts.socket.getaddrinfo", lambda *_: addresses)
    everywhere = client_of("0.0.0.0")
    for host in (socket.gethostname(), socket.getfqdn(), "192.0.2.7:8000", "localhost:8000", "127.0.0.1"):
        assert everywhere.get("/runs", headers={"Host": host}).status_code == 200
    assert everywhere.get("/runs", headers={"Host": "evil.example"}).status_code == 400


def test_a_public_server_answers_to_the_ipv6_addresses_of_the_machine(monkeypatch):
    pairs = [("2001:db8::1", 0, 0, 0), ("fe80::1%eth0", 0, 0, 2)]
    addresses = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", pair) for pair in pairs]
    monkeypatch.setattr("nmt.web.hosts.socket.getaddrinfo", lambda *_: addresses)
    everywhere = client_of("::", "http://[2001:db8::1]:8000")
    assert everywhere.get("/runs").status_code == 200
    for host in ("[2001:db8::1]", "[2001:DB8::1]:8000", "[fe80::1]:8000", "[::1]:8000"):
        assert everywhere.get("/runs", headers={"Host": host}).status_code == 200
    for host in ("[2001:db8::2]:8000", "2001:db8::1", "[evil.example]"):
        assert everywhere.get("/runs", headers={"Host": host}).status_code == 400


def test_a_public_server_answers_to_the_address_that_packets_leave_from(monkeypatch):
    """The name of the machine may resolve to another address."""

    class Connection(socket.socket):
        def connect(self, address):
            pass

        def getsockname(self):
            return ("2001:db8::7", 9, 0, 0) if self.family == socket.AF_INET6 else ("192.0.2.7", 9)

    monkeypatch.setattr("nmt.web.hosts.socket.getaddrinfo", lambda *_: [])
    monkeypatch.setattr("nmt.web.hosts.socket.socket", Connection)
    everywhere = client_of("::")
    for host in ("[2001:db8::7]:8000", "192.0.2.7:8000"):
        assert everywhere.get("/runs", headers={"Host": host}).status_code == 200


def test_a_server_on_an_ipv6_address_answers_to_it():
    version_6 = client_of("::1", "http://[::1]:8000")
    assert version_6.get("/runs").status_code == 200
    assert version_6.get("/runs", headers={"Host": "[::2]:8000"}).status_code == 400
    assert version_6.get("/runs", headers={"Host": "[evil.example]"}).status_code == 400


def test_pages_of_other_sites_get_no_permission(client):
    """A browser needs a header to give an answer to a foreign page; no answer has one."""
    foreign = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    preflight = client.options("/translate", headers=foreign | {"Access-Control-Request-Headers": "content-type"})
    assert preflight.status_code == 405
    for answer in (preflight, client.get("/runs", headers=foreign), client.post("/translate", json={"text": "ma"})):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_an_endless_request_without_a_length_is_refused(client):
    chunks = (b" " * 10_000 for _ in range(1000))
    answer = client.post("/translate", content=chunks, headers=JSON)
    assert (answer.status_code, answer.json()) == (400, {"error": f"the request is longer than {MAX_BYTES:,} bytes"})


def test_the_longest_text_is_accepted_and_a_longer_one_is_refused(client):
    text = "\n".join(["\U0001f600" * MAX_CHARACTERS] * MAX_LINES)
    body = json.dumps({"text": text}).encode()  # twelve bytes a character
    assert len(body) < MAX_BYTES
    assert client.post("/translate", content=body, headers=JSON).status_code == 200
    for more in (text + "\nma", text + "\U0001f600"):
        assert client.post("/translate", json={"text": more}).json()["error"].startswith("text: ")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_only_post_requests_translate(client, method):
    assert client.request(method, "/translate").status_code == 405


@pytest.mark.parametrize("path", ["/../server.py", "/translate.html", "/%2e%2e/server.py", "//etc/passwd", "/runs/"])
def test_no_other_file_is_served(client, path):
    answer = client.get(path, follow_redirects=False)
    assert answer.status_code in (307, 404, 405)
    assert "import" not in answer.text


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.just(10**400),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(("\ud800", "idle", "ma\n" * 60, "\0", "a" * 3000)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)
KEYS = st.sampled_from(("text", "runs", "beam", "nbest", "length_penalty", "other"))


@settings(deadline=5000, max_examples=150, database=None, derandomize=True)
@given(st.one_of(st.dictionaries(KEYS, VALUES, max_size=5).map(lambda it: json.dumps(it).encode()), st.binary()))
def test_every_request_is_answered_or_refused_with_a_message(body):
    answer = client_of().post("/translate", content=body, headers=JSON)
    assert answer.status_code in (200, 400)
    assert answer.json()["error"] if answer.status_code == 400 else answer.json()["lines"]


@settings(deadline=5000, max_examples=150, database=None, derandomize=True)
@given(st.text(max_size=30), VALUES.filter(lambda value: not isinstance(value, str)))
def test_a_beam_of_the_wrong_type_is_refused(text, beam):
    answer = client_of().post("/translate", content=json.dumps({"text": "ma" + text, "beam": beam}), headers=JSON)
    if isinstance(beam, int) and not isinstance(beam, bool) and 1 <= beam <= 50:
        assert answer.json()["runs"][0]["lines"][0][0]["beam"] == beam
    else:
        assert answer.status_code == 400
