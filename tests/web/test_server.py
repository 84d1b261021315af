"""The server of the page: the same translations as without it, and a clear message for each mistake."""

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from commands import ROOT, TWO_STEPS, command
from omegaconf import OmegaConf
from starlette.testclient import TestClient
from untrained import make_content, write_checkpoint

from nmt.cli.arguments import read_arguments
from nmt.config.schema import load_defaults
from nmt.errors import ConfigurationError, UserError
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import Search
from nmt.system.matrix_products import set_precision
from nmt.translate.loading import make_translator
from nmt.translate.unknown_words import make_replacer
from nmt.web.hosts import allowed_hosts
from nmt.web.served_run import open_runs
from nmt.web.server import create_app, serve
from nmt.web.translation_request import parse_content

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
    values = {"runs": [str(folder) for folder in folders], "device": "cpu", **keys}
    return OmegaConf.merge(load_defaults("translate"), values)


def client_of(served, defaults=None):
    return TestClient(
        create_app(served, defaults or Search(), allowed_hosts("127.0.0.1")), base_url="http://127.0.0.1:8000"
    )


@pytest.fixture(scope="module")
def client(folders):
    return client_of(open_runs(settings_of(*folders)))


def translated(client, **content):
    answer = client.post("/translate", json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_served_run_translates_as_it_does_without_the_server(client, folders):
    result = translated(client, text="\n".join(LINES), beam=3, nbest=2, length_penalty=0.5)
    assert [run["name"] for run in result["runs"]] == list(RUNS)
    for folder, served in zip(folders, result["runs"], strict=True):
        run = TrainedRun(str(folder))
        alone = make_translator(run, "cpu")(LINES, Search(beam=3, nbest=2, length_penalty=0.5))
        for nbest, line in zip(alone, served["lines"], strict=True):
            assert len(nbest) == len(line) == 2
            for one, shown in zip(map(make_replacer(run, "copy"), nbest), line, strict=True):
                assert shown["text"] == one.text
                assert (shown["source_words"], shown["words"]) == (one.source, one.target)
                assert shown["score"] == pytest.approx(one.score, abs=1e-4)
                assert np.array(shown["alignment"]) == pytest.approx(one.alignment, abs=1e-3)


def test_a_request_can_choose_runs(client):
    (alone,) = translated(client, text=LINES[0], runs=["windowed"])["runs"]
    plain, windowed = translated(client, text=LINES[0])["runs"]
    assert alone["lines"] == windowed["lines"] != plain["lines"]


def test_alignments_have_a_row_per_word_and_a_column_per_source_word(client):
    (best,) = translated(client, text=LINES[0], runs=["plain"])["runs"][0]["lines"][0]
    weights = np.array(best["alignment"])
    assert weights.shape == (len(best["words"]), len(best["source_words"]))
    assert best["source_words"] == [*LINES[0].split(), "</s>"]
    assert weights.sum(1) == pytest.approx(1, abs=1e-2)


def test_a_request_can_ask_for_the_layers_of_each_translation(client, folders):
    plain, windowed = translated(client, text=LINES[0], beam=2, nbest=2, traces=True)["runs"]
    assert all("layers" not in one for one in plain["lines"][0])
    search, lines = Search(beam=2, nbest=2), [(LINES[0], None)]
    (line,) = make_translator(TrainedRun(str(folders[1])), "cpu").translate_lines(lines, search, traces=True)
    for one, shown in zip(line.translations, windowed["lines"][0], strict=True):
        positions = pytest.approx(one.traces["position"], abs=1e-4)
        assert shown["layers"] == [{"name": "position", "kind": "line", "values": positions}]
        assert len(one.traces["position"]) == len(shown["words"])
    (alone,) = translated(client, text=LINES[0], runs=["windowed"])["runs"]
    assert all("layers" not in one for one in alone["lines"][0])


def test_a_request_can_choose_the_search(client, folders):
    (line,) = translated(client, text=LINES[0], runs=["plain"], beam=4, nbest=4, length_penalty=0)["runs"][0]["lines"]
    assert len(line) == 4
    assert [one["score"] for one in line] == sorted((one["score"] for one in line), reverse=True)
    assert all(one["score"] == pytest.approx(one["log_probability"]) for one in line)
    defaults = Search(beam=2, nbest=2, longest_ratio=0.0, longest_extra=3)
    (line,) = translated(client_of(open_runs(settings_of(folders[0])), defaults), text=LINES[0])["runs"][0]["lines"]
    assert len(line) == 2
    assert all(len(one["words"]) <= 3 for one in line)


def test_every_line_that_is_not_blank_is_translated(client):
    result = translated(client, text="\n ma pu \r\n\n  \nnibi\n")
    assert result["lines"] == ["ma pu", "nibi"]
    assert [len(run["lines"]) for run in result["runs"]] == [2, 2]
    assert result["runs"][0]["lines"][1][0]["source_words"] == ["nibi", "</s>"]


def test_markup_is_treated_as_text(client):
    markup = "<img src=x onerror=alert(1)> &amp;"
    answer = client.post("/translate", json={"text": markup})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["lines"] == [markup]
    assert answer.json()["runs"][0]["lines"][0][0]["source_words"] == [*markup.split(), "</s>"]
    assert "innerHTML" not in client.get("/").text


def test_half_a_surrogate_pair_is_replaced(client):
    answer = client.post("/translate", content=b'{"text": "ma \\ud800"}', headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    assert answer.json()["lines"] == ["ma ?"]


MISTAKES = {
    '{"text": " \\n "}': "text: nothing to translate",
    "{}": "text: nothing to translate",
    '{"text": 7}': "text: nothing to translate",
    json.dumps({"text": "ma\n" + 2001 * "a"}): "text: line 2 has 2,001 characters, more than 2,000",
    json.dumps({"text": 51 * "ma\n"}): "text: 51 lines, more than 50",
    '{"text": "ma", "runs": ["best"]}': "runs: best is not served here. Fix: choose among plain, windowed",
    '{"text": "ma", "runs": [["plain"]]}': 'runs: ["plain"] is not served here',
    '{"text": "ma", "runs": []}': "runs: no run is chosen. Fix: choose at least one run",
    '{"text": "ma", "beam": 0}': "beam=0: must be a whole number from 1 to 50",
    '{"text": "ma", "beam": 51}': "beam=51: must be a whole number from 1 to 50",
    '{"text": "ma", "beam": true}': "beam=true: must be a whole number",
    '{"text": "ma", "beam": ""}': "beam=: must be a whole number",
    '{"text": "ma", "nbest": 6}': "nbest=6: must be a whole number from 1 to 5",
    '{"text": "ma", "length_penalty": NaN}': "length_penalty=NaN: must be a number from 0 to 10",
    '{"text": "ma", "length_penalty": -1}': "length_penalty=-1: must be a number from 0 to 10",
    '{"text": "ma", "traces": 1}': "traces=1: must be true or false",
    '{"text": "ma", "beem": 3}': "beem: no such key. Fix: use only text, runs, beam",
    '["ma"]': "the request must be a JSON object",
    '{"text": "ma"': "the request is not JSON",
    99999 * "[": "the request is not JSON",
    "\xff": "the request is not JSON",
    1_700_000 * " ": "the request is longer than 1,600,000 bytes",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[:40])
def test_a_mistake_is_answered_with_a_clear_message(client, mistake):
    answer = client.post("/translate", content=mistake.encode("latin-1"), headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(MISTAKES[mistake])


TOO_LARGE = {"text": "\n".join([" ".join(["ma"] * 666)] * 50), "beam": 50, "nbest": 50}
LONG = {"text": " ".join(["ma"] * 600), "beam": 12, "nbest": 12, "runs": ["plain"]}
LARGE = {"text": "\n".join([" ".join(["ma"] * 38)] * 50), "beam": 50, "nbest": 50, "runs": ["plain"]}


def test_a_request_whose_answer_is_too_large_says_what_to_lower(client):
    answer = client.post("/translate", json=TOO_LARGE)
    assert answer.status_code == 400
    assert re.fullmatch(
        r"text: with nbest=50 and 2 of the runs its alignments can have [\d,]+ values, more than 10,000,000. "
        "Fix: lower nbest, choose fewer runs, or send fewer or shorter lines",
        answer.json()["error"],
    )


def test_traces_count_as_values_of_the_answer(client):
    content = {"text": " ".join(["ma"] * 500), "runs": ["windowed"], "beam": 12, "nbest": 12}
    answer = client.post("/translate", json=content | {"traces": True})
    assert answer.status_code == 400
    assert "Fix: leave out traces, lower nbest" in answer.json()["error"]
    assert client.post("/translate", json=content).status_code == 200


def count_numbers(node):
    if isinstance(node, dict | list):
        return sum(map(count_numbers, node.values() if isinstance(node, dict) else node))
    return isinstance(node, int | float)


def test_no_answer_has_more_values_than_were_counted_before_it_was_computed(tmp_path):
    folder = write_checkpoint(tmp_path / "run", make_content("decoder=feedback", "memory=buffer", "memory.cells=60"))
    (run,) = open_runs(settings_of(folder)).values()
    search = Search(beam=1, longest_ratio=0.0, longest_extra=20, shortest_ratio=20.0)
    (line,) = run.translate(["ma"], search, traces=True)
    values = sum(count_numbers(translation[key]) for translation in line for key in ("alignment", "layers"))
    assert 20 * 60 < values <= run.count_values(["ma"], search, traces=True)


WITH_LITTLE_MEMORY = """
import json, re, resource, sys
sys.path.insert(0, "tests")
from web.test_server import LARGE, LONG, TOO_LARGE, client_of, open_runs, settings_of

client = client_of(open_runs(settings_of(*sys.argv[1:])))
client.post("/translate", json={"text": "ma", "traces": True})
used = 1024 * int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + 2**29, used + 2**29))
print(*(client.post("/translate", json=content).status_code for content in (TOO_LARGE, LARGE, LONG, TOO_LARGE)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_no_request_takes_more_than_half_a_gigabyte(folders):
    program = [sys.executable, "-c", WITH_LITTLE_MEMORY, *map(str, folders)]
    done = subprocess.run(program, capture_output=True, text=True, cwd=ROOT, timeout=280, check=False)
    assert done.stdout.split() == ["400", "200", "200", "400"], done.stderr


def test_a_failure_of_the_server_shows_no_traceback():
    class Failing:
        def count_values(self, lines, search, traces):
            return 0

        def translate(self, lines, search, traces):
            raise ZeroDivisionError("a secret of the server")

    app = create_app({"broken": Failing()}, Search(), allowed_hosts("127.0.0.1"))
    answer = TestClient(app, base_url="http://localhost", raise_server_exceptions=False).post(
        "/translate", json={"text": "ma"}
    )
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("the server failed (ZeroDivisionError)")
    assert "secret" not in answer.text


def test_only_the_servers_page_is_answered(client):
    for host in ("127.0.0.1:8000", "localhost"):
        assert client.get("/runs", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
        assert client.get("/runs", headers={"Host": host}).status_code == 400
        assert client.post("/translate", json={"text": "ma"}, headers={"Host": host}).status_code == 400
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", ""):
        answer = client.post("/translate", content=b'{"text": "ma"}', headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["error"]) == (400, "Content-Type: must be application/json")


def test_the_page_loads_nothing_from_elsewhere(client):
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<textarea" in answer.text
    text = answer.text.replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"//(?! )", text) == []  # with a space it begins a comment, and is no URL


def test_the_server_describes_its_runs(client, folders, tmp_path):
    answer = client.get("/runs").json()
    assert [run["name"] for run in answer["runs"]] == list(RUNS)
    plain, windowed = answer["runs"]
    groups = ["encoder", "decoder", "decoder/cell", "attention", "attention/weights", "attention/score", "memory"]
    assert list(plain["parts"]) == groups
    assert (plain["parts"]["attention"], windowed["parts"]["attention/window"]) == ("additive", "local_p")
    assert plain["overrides"][-1] == "attention=additive"
    assert plain["parameters"] == sum(parameter.numel() for parameter in TrainedRun(str(folders[0])).model.parameters())
    assert (answer["search"]["beam"], answer["search"]["length_penalty"]) == (5, 1.0)
    (packed,) = client_of(open_runs(settings_of(folders[0], int8=True))).get("/runs").json()["runs"]
    assert packed["parameters"] == plain["parameters"]
    shutil.copy(folders[1] / "checkpoints" / "last.ckpt", tmp_path / "alone.ckpt")
    (alone,) = client_of(open_runs(settings_of(tmp_path / "alone.ckpt"))).get("/runs").json()["runs"]
    assert alone["name"] == "alone.ckpt"
    assert (alone["parts"]["encoder"], alone["parts"]["attention/window"]) == ("GRUEncoder", "Predictive")
    assert alone["overrides"] == []


def test_a_folder_name_may_be_a_number(folders, tmp_path, monkeypatch):
    """KEY=VALUE turns 2024 into a number."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2024").symlink_to(folders[0])
    settings = load_defaults("translate")
    assert list(open_runs(OmegaConf.merge(settings, {"run": 2024}))) == ["2024"]
    with pytest.raises(ConfigurationError, match=r"runs=\[2024,2024\]: a run is named twice"):
        open_runs(OmegaConf.merge(settings, {"runs": [2024, 2024]}))
    with pytest.raises(ConfigurationError, match="a run is named twice"):
        open_runs(OmegaConf.merge(settings, {"runs": ["2024", "2024/"]}))


def test_only_one_request_translates_at_a_time_and_other_requests_are_answered():
    running, counts, may_end = [], [], threading.Event()

    class Slow:
        def describe(self):
            return {}

        def count_values(self, lines, search, traces):
            return 0

        def translate(self, lines, search, traces):
            running.append(lines)
            counts.append(len(running))
            assert may_end.wait(30)
            running.pop()
            return [[]]

    with client_of({"slow": Slow()}) as client:
        requests = [
            threading.Thread(target=client.post, args=("/translate",), kwargs={"json": {"text": "ma"}}) for _ in "ab"
        ]
        for request in requests:
            request.start()
        while not running:
            time.sleep(0.01)
        assert client.get("/runs").status_code == 200
        may_end.set()
        for request in requests:
            request.join(30)
    assert counts == [1, 1]


def test_an_address_that_cannot_be_used_is_refused_before_runs_are_loaded():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigurationError, match=f"port={port}: another program uses it. Fix: name another, or port=0"
        ):
            serve(settings_of("nowhere", host="127.0.0.1", port=port))
    with pytest.raises(ConfigurationError, match="port=70000: must be between 1 and 65535, or 0"):
        serve(settings_of("nowhere", host="127.0.0.1", port=70000))
    with pytest.raises(ConfigurationError, match=r"host=192.0.2.1 port=0: cannot listen there \("):
        serve(settings_of("nowhere", host="192.0.2.1", port=0))


def test_a_value_that_is_nested_too_deeply_to_show_is_refused_in_one_line():
    value: list = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(UserError, match=r"^beam=…: must be a whole number from 1 to 50$"):
        parse_content({"text": "ma", "beam": value}, {}, Search())


@pytest.mark.parametrize("key", ["longest_line", "batch_size", "beam"])
def test_invalid_settings_are_refused_before_runs_are_loaded(key):
    with pytest.raises(ConfigurationError, match=f"{key}=0: must be at least 1"):
        serve(settings_of("nowhere", port=0, **{key: 0}))


def test_the_page_begins_with_the_search_of_its_runs(folders, monkeypatch):
    monkeypatch.setattr("nmt.web.server.create_app", lambda served, search, hosts: pytest.fail(f"{search.beam}"))
    arguments = [f"runs=[{','.join(map(str, folders))}]", "port=0", "device=cpu"]
    for typed, beam in (((), 5), (("beam=7",), 7)):
        settings, _ = read_arguments("translate", [*arguments, *typed], usage="")
        with pytest.raises(pytest.fail.Exception, match=f"^{beam}$"):
            serve(settings)


@pytest.mark.parametrize("precision", ["medium", "highest"])
def test_the_page_has_the_matrix_products_of_its_settings(folders, monkeypatch, precision):
    monkeypatch.setattr("nmt.web.server.create_app", lambda *_: pytest.fail(torch.get_float32_matmul_precision()))
    try:
        with pytest.raises(pytest.fail.Exception, match=f"^{precision}$"):
            serve(settings_of(*folders, port=0, matmul_precision=precision))
    finally:
        set_precision("highest")


def test_a_run_must_be_given():
    with pytest.raises(ConfigurationError, match="run: no run is given"):
        open_runs(settings_of())
