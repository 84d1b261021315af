"""The end points of the page: what runs translate by themselves, and mistakes answered in plain words."""

import json
import shutil
import socket
import threading
import time

import numpy as np
import pytest
from commands import TWO_STEPS, command
from omegaconf import OmegaConf
from starlette.testclient import TestClient

from nmt.config.schema import defaults_of
from nmt.errors import ConfigurationError
from nmt.runs.trained_model import Run
from nmt.search.settings import Search
from nmt.translate.loading import replacing, translator_of
from nmt.web.server import application, hosts_of, opened_each, serve

RUNS = {"plain": "attention=additive", "windowed": "attention=local_p"}
LINES = ["Gurcu pu ma ma nibi .", "ma pu"]

pytestmark = pytest.mark.xdist_group("served runs")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, choice in RUNS.items():
        command("train", *TWO_STEPS, choice, f"hydra.run.dir={folder / name}")
    return [folder / name for name in RUNS]


def settings_of(*folders, **keys):
    given = {"runs": [str(folder) for folder in folders], "device": "cpu", **keys}
    return OmegaConf.merge(defaults_of("translate"), given)


def client_of(served, usual=None):
    return TestClient(application(served, usual or Search(), hosts_of("127.0.0.1")), base_url="http://127.0.0.1:8000")


@pytest.fixture(scope="module")
def client(folders):
    return client_of(opened_each(settings_of(*folders)))


def translated(client, **content):
    answer = client.post("/translate", json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_each_run_translates_as_it_does_by_itself(client, folders):
    found = translated(client, text="\n".join(LINES), beam=3, nbest=2, length_penalty=0.5)
    assert [run["name"] for run in found["runs"]] == list(RUNS)
    for folder, served in zip(folders, found["runs"], strict=True):
        run = Run(str(folder))
        alone = translator_of(run, "cpu")(LINES, Search(beam=3, nbest=2, length_penalty=0.5))
        for own, line in zip(alone, served["lines"], strict=True):
            assert len(own) == len(line) == 2
            for one, shown in zip(map(replacing([run], "copy"), own), line, strict=True):
                assert shown["text"] == one.text
                assert (shown["source_words"], shown["words"]) == (one.source, one.target)
                assert shown["score"] == pytest.approx(one.score, abs=1e-4)
                assert np.array(shown["alignment"]) == pytest.approx(one.alignment, abs=1e-3)


def test_runs_are_chosen_and_differ(client):
    (alone,) = translated(client, text=LINES[0], runs=["windowed"])["runs"]
    plain, windowed = translated(client, text=LINES[0])["runs"]
    assert alone["lines"] == windowed["lines"] != plain["lines"]


def test_alignments_have_a_row_a_word_and_a_column_a_source_word(client):
    (best,) = translated(client, text=LINES[0], runs=["plain"])["runs"][0]["lines"][0]
    weights = np.array(best["alignment"])
    assert weights.shape == (len(best["words"]), len(best["source_words"]))
    assert best["source_words"] == [*LINES[0].split(), "</s>"]
    assert weights.sum(1) == pytest.approx(1, abs=1e-2)


def test_the_search_is_the_one_asked_for(client, folders):
    (line,) = translated(client, text=LINES[0], runs=["plain"], beam=4, nbest=4, length_penalty=0)["runs"][0]["lines"]
    assert len(line) == 4
    assert [one["score"] for one in line] == sorted((one["score"] for one in line), reverse=True)
    assert all(one["score"] == pytest.approx(one["log_probability"]) for one in line)
    usual = Search(beam=2, nbest=2, longest_ratio=0.0, longest_extra=3)
    (line,) = translated(client_of(opened_each(settings_of(folders[0])), usual), text=LINES[0])["runs"][0]["lines"]
    assert len(line) == 2
    assert all(len(one["words"]) <= 3 for one in line)


def test_every_line_that_is_not_blank_is_translated(client):
    found = translated(client, text="\n ma pu \r\n\n  \nnibi\n")
    assert found["lines"] == ["ma pu", "nibi"]
    assert [len(run["lines"]) for run in found["runs"]] == [2, 2]
    assert found["runs"][0]["lines"][1][0]["source_words"] == ["nibi", "</s>"]


def test_markup_stays_text(client):
    markup = "<img src=x onerror=alert(1)> &amp;"
    answer = client.post("/translate", json={"text": markup})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["lines"] == [markup]
    assert answer.json()["runs"][0]["lines"][0][0]["source_words"] == [*markup.split(), "</s>"]
    assert "innerHTML" not in client.get("/").text


def test_half_a_character_does_not_break_it(client):
    answer = client.post("/translate", content=b'{"text": "ma \\ud800"}', headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    assert answer.json()["lines"] == ["ma ?"]


MISTAKES = {
    '{"text": " \\n "}': "text: there is nothing to translate",
    "{}": "text: there is nothing to translate",
    '{"text": 7}': "text: there is nothing to translate",
    json.dumps({"text": "ma\n" + 2001 * "a"}): "text: line 2 has 2,001 characters; at most 2,000",
    json.dumps({"text": 51 * "ma\n"}): "text: 51 lines; at most 50",
    '{"text": "ma", "runs": ["best"]}': "runs: best is not served here; there are plain, windowed",
    '{"text": "ma", "runs": [["plain"]]}': 'runs: ["plain"] is not served here',
    '{"text": "ma", "runs": []}': "runs: choose at least one run",
    '{"text": "ma", "beam": 0}': "beam=0: a whole number from 1 to 50 is expected",
    '{"text": "ma", "beam": 51}': "beam=51: a whole number from 1 to 50",
    '{"text": "ma", "beam": true}': "beam=true: a whole number",
    '{"text": "ma", "beam": ""}': "beam=: a whole number",
    '{"text": "ma", "nbest": 6}': "nbest=6: a whole number from 1 to 5",
    '{"text": "ma", "length_penalty": NaN}': "length_penalty=NaN: a number from 0 to 10",
    '{"text": "ma", "length_penalty": -1}': "length_penalty=-1: a number from 0 to 10",
    '{"text": "ma", "beem": 3}': "beem: no such key; there are text, runs, beam",
    '["ma"]': "the request must be a JSON object",
    '{"text": "ma"': "the request is not JSON",
    99999 * "[": "the request is not JSON",
    "\xff": "the request is not JSON",
    1_700_000 * " ": "the request is longer than 1,600,000 bytes",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[:40])
def test_a_mistake_is_answered_in_plain_words(client, mistake):
    answer = client.post("/translate", content=mistake.encode("latin-1"), headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(MISTAKES[mistake])


def test_a_failure_of_our_own_shows_no_traceback():
    class Failing:
        def translate(self, lines, how):
            raise ZeroDivisionError("a secret of the server")

    app = application({"broken": Failing()}, Search(), hosts_of("127.0.0.1"))
    answer = TestClient(app, base_url="http://localhost", raise_server_exceptions=False).post(
        "/translate", json={"text": "ma"}
    )
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("the server failed at this (ZeroDivisionError)")
    assert "secret" not in answer.text


def test_only_our_own_page_is_answered(client):
    for host in ("127.0.0.1:8000", "localhost"):
        assert client.get("/runs", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
        assert client.get("/runs", headers={"Host": host}).status_code == 400
        assert client.post("/translate", json={"text": "ma"}, headers={"Host": host}).status_code == 400
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", ""):
        answer = client.post("/translate", content=b'{"text": "ma"}', headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["error"]) == (400, "Content-Type must be application/json")


def test_the_page_loads_nothing_from_elsewhere(client):
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<textarea" in answer.text
    assert answer.text.replace("http://www.w3.org/2000/svg", "").count("//") == 0


def test_runs_say_what_they_are(client, folders, tmp_path):
    about = client.get("/runs").json()
    assert [run["name"] for run in about["runs"]] == list(RUNS)
    plain, windowed = about["runs"]
    assert list(plain["parts"]) == ["encoder", "decoder", "attention", "attention/score", "memory"]
    assert (plain["parts"]["attention"], windowed["parts"]["attention/window"]) == ("additive", "local_p")
    assert plain["overrides"][-1] == "attention=additive"
    assert plain["parameters"] == sum(parameter.numel() for parameter in Run(str(folders[0])).model.parameters())
    assert (about["search"]["beam"], about["search"]["length_penalty"]) == (5, 1.0)
    (packed,) = client_of(opened_each(settings_of(folders[0], int8=True))).get("/runs").json()["runs"]
    assert packed["parameters"] == plain["parameters"]
    shutil.copy(folders[1] / "checkpoints" / "last.ckpt", tmp_path / "alone.ckpt")
    (alone,) = client_of(opened_each(settings_of(tmp_path / "alone.ckpt"))).get("/runs").json()["runs"]
    assert alone["name"] == "alone.ckpt"
    assert (alone["parts"]["encoder"], alone["parts"]["attention/window"]) == ("GRUEncoder", "Predicted")
    assert alone["overrides"] == []


def test_folders_may_be_called_by_numbers(folders, tmp_path, monkeypatch):
    """KEY=VALUE makes a number of 2024."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2024").symlink_to(folders[0])
    settings = defaults_of("translate")
    assert list(opened_each(OmegaConf.merge(settings, {"run": 2024}))) == ["2024"]
    with pytest.raises(ConfigurationError, match=r"runs=\[2024,2024\]: one is named twice"):
        opened_each(OmegaConf.merge(settings, {"runs": [2024, 2024]}))
    with pytest.raises(ConfigurationError, match="one is named twice"):
        opened_each(OmegaConf.merge(settings, {"runs": ["2024", "2024/"]}))


def test_one_translates_at_a_time_and_the_page_stays_awake():
    going_on, most, may_end = [], [], threading.Event()

    class Slow:
        def about(self):
            return {}

        def translate(self, lines, how):
            going_on.append(lines)
            most.append(len(going_on))
            assert may_end.wait(30)
            going_on.pop()
            return {"lines": [[]], "seconds": 0.0}

    with client_of({"slow": Slow()}) as client:
        asked = [
            threading.Thread(target=client.post, args=("/translate",), kwargs={"json": {"text": "ma"}}) for _ in "ab"
        ]
        for one in asked:
            one.start()
        while not going_on:
            time.sleep(0.01)
        assert client.get("/runs").status_code == 200
        may_end.set()
        for one in asked:
            one.join(30)
    assert most == [1, 1]


def test_where_it_cannot_listen_it_says_so_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port={port}: another program uses it; name another, or port=0"):
            serve(settings_of("nowhere", host="127.0.0.1", port=port))
    with pytest.raises(ConfigurationError, match="port=70000: must be between 0"):
        serve(settings_of("nowhere", host="127.0.0.1", port=70000))
    with pytest.raises(ConfigurationError, match=r"host=192.0.2.1 port=0: cannot be listened at \("):
        serve(settings_of("nowhere", host="192.0.2.1", port=0))


@pytest.mark.parametrize("key", ["longest_line", "batch_size", "beam"])
def test_what_nothing_could_be_translated_with_is_refused_before_it_serves(key):
    with pytest.raises(ConfigurationError, match=f"{key}=0: must be at least 1"):
        serve(settings_of("nowhere", port=0, **{key: 0}))


def test_a_run_must_be_named():
    with pytest.raises(ConfigurationError, match="run=FOLDER must be given"):
        opened_each(settings_of())
