"""The page's end points against those who are no friends: other sites' pages, endless requests, foreign names."""

import json
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from nmt.config.schema import defaults_of
from nmt.search.settings import Search
from nmt.web.server import MOST_BYTES, MOST_CHARACTERS, MOST_LINES, application, hosts_of

JSON = {"Content-Type": "application/json"}


class Idle:
    """In place of a run: says what it was asked for."""

    def about(self):
        return {}

    def translate(self, lines, how):
        return {"lines": [[] for _ in lines], "seconds": 0.0, "beam": how.beam}


def client_of(host: str = "127.0.0.1", base_url: str = "http://127.0.0.1:8000") -> TestClient:
    app = application({"idle": Idle()}, Search(), hosts_of(host))
    return TestClient(app, base_url=base_url, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client():
    return client_of()


def test_it_is_served_to_this_machine_alone_unless_told_otherwise():
    assert defaults_of("translate").host == "127.0.0.1"


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
def test_a_name_that_leads_here_is_not_answered(client, host):
    """DNS rebinding: a foreign page's own name, made to point at this machine."""
    for path in ("/", "/runs", "/nowhere"):
        assert client.get(path, headers={"Host": host}).status_code == 400
    assert client.post("/translate", json={"text": "ma"}, headers={"Host": host}).status_code == 400


def test_an_open_page_answers_to_the_machines_names_and_addresses_and_still_to_no_other(monkeypatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))]
    monkeypatch.setattr("nmt.web.server.socket.getaddrinfo", lambda *_: found)
    everywhere = client_of("0.0.0.0")
    for host in (socket.gethostname(), socket.getfqdn(), "192.0.2.7:8000", "localhost:8000", "127.0.0.1"):
        assert everywhere.get("/runs", headers={"Host": host}).status_code == 200
    assert everywhere.get("/runs", headers={"Host": "evil.example"}).status_code == 400


def test_an_open_page_answers_to_the_machines_addresses_of_version_6(monkeypatch):
    addresses = [("2001:db8::1", 0, 0, 0), ("fe80::1%eth0", 0, 0, 2)]
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", address) for address in addresses]
    monkeypatch.setattr("nmt.web.server.socket.getaddrinfo", lambda *_: found)
    everywhere = client_of("::", "http://[2001:db8::1]:8000")
    assert everywhere.get("/runs").status_code == 200
    for host in ("[2001:db8::1]", "[2001:DB8::1]:8000", "[fe80::1]:8000", "[::1]:8000"):
        assert everywhere.get("/runs", headers={"Host": host}).status_code == 200
    for host in ("[2001:db8::2]:8000", "2001:db8::1", "[evil.example]"):
        assert everywhere.get("/runs", headers={"Host": host}).status_code == 400


def test_an_open_page_answers_to_the_address_that_it_goes_out_by(monkeypatch):
    """Which the machine's own name may not lead to."""

    class Asking(socket.socket):
        def connect(self, address):
            pass

        def getsockname(self):
            return ("2001:db8::7", 9, 0, 0) if self.family == socket.AF_INET6 else ("192.0.2.7", 9)

    monkeypatch.setattr("nmt.web.server.socket.getaddrinfo", lambda *_: [])
    monkeypatch.setattr("nmt.web.server.socket.socket", Asking)
    everywhere = client_of("::")
    for host in ("[2001:db8::7]:8000", "192.0.2.7:8000"):
        assert everywhere.get("/runs", headers={"Host": host}).status_code == 200


def test_a_page_at_an_address_of_version_6_answers_to_it():
    version_6 = client_of("::1", "http://[::1]:8000")
    assert version_6.get("/runs").status_code == 200
    assert version_6.get("/runs", headers={"Host": "[::2]:8000"}).status_code == 400
    assert version_6.get("/runs", headers={"Host": "[evil.example]"}).status_code == 400


def test_another_sites_page_gets_no_leave_to_ask(client):
    """No answer carries a header by which a browser would hand it to a foreign page."""
    foreign = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    asked = client.options("/translate", headers=foreign | {"Access-Control-Request-Headers": "content-type"})
    assert asked.status_code == 405
    for answer in (asked, client.get("/runs", headers=foreign), client.post("/translate", json={"text": "ma"})):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_request_without_end_is_cut_off(client):
    """It says nothing of its length; what is too much is not kept."""
    chunks = (b" " * 10_000 for _ in range(1000))
    answer = client.post("/translate", content=chunks, headers=JSON)
    assert (answer.status_code, answer.json()) == (400, {"error": f"the request is longer than {MOST_BYTES:,} bytes"})


def test_the_longest_text_there_may_be_is_taken_and_the_next_is_not(client):
    text = "\n".join(["\U0001f600" * MOST_CHARACTERS] * MOST_LINES)
    body = json.dumps({"text": text}).encode()  # twelve bytes a character
    assert len(body) < MOST_BYTES
    assert client.post("/translate", content=body, headers=JSON).status_code == 200
    for more in (text + "\nma", text + "\U0001f600"):
        assert client.post("/translate", json={"text": more}).json()["error"].startswith("text: ")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_translating_is_asked_for_by_post_alone(client, method):
    assert client.request(method, "/translate").status_code == 405


@pytest.mark.parametrize("path", ["/../app.py", "/page.html", "/%2e%2e/app.py", "//etc/passwd", "/runs/"])
def test_there_are_no_other_files(client, path):
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
def test_whatever_is_asked_is_answered_or_refused_in_plain_words(body):
    answer = client_of().post("/translate", content=body, headers=JSON)
    assert answer.status_code in (200, 400)
    assert answer.json()["error"] if answer.status_code == 400 else answer.json()["lines"]


@settings(deadline=5000, max_examples=150, database=None, derandomize=True)
@given(st.text(max_size=30), VALUES.filter(lambda value: not isinstance(value, str)))
def test_a_text_is_asked_for_with_settings_of_the_right_kind(text, beam):
    answer = client_of().post("/translate", content=json.dumps({"text": "ma" + text, "beam": beam}), headers=JSON)
    if isinstance(beam, int) and not isinstance(beam, bool) and 1 <= beam <= 50:
        assert answer.json()["runs"][0]["beam"] == beam
    else:
        assert answer.status_code == 400
