"""The served comparison without a browser: what it reads again, what it sends, what it refuses."""

import json
import os
import shutil
import socket

import pytest
from commands import answer
from report.folders import write_run
from starlette.testclient import TestClient

import nmt.web.live_comparison
from nmt.cli.arguments import read_arguments
from nmt.web.comparison_server import create_app
from nmt.web.hosts import allowed_hosts
from nmt.web.live_comparison import LiveComparison

RUNNING = {"status": "running", "planned_steps": 1000}


@pytest.fixture(autouse=True)
def _never_too_early(monkeypatch):
    monkeypatch.setattr("nmt.web.live_comparison.SECONDS_BETWEEN_READS", 0.0)


def live(*folders, **given) -> LiveComparison:
    settings, _ = read_arguments("compare", ["resamples=20", *(f"{key}={value}" for key, value in given.items())], "")
    return LiveComparison([str(folder) for folder in folders], settings)


def updated(comparison: LiveComparison) -> dict:
    """Return the contents of all parts, when everything is read and compared."""
    comparison.update()
    if comparison.worker:
        comparison.worker.join()
        comparison.update()
    return {name: part.content for name, part in comparison.parts.items()}


def changes(comparison: LiveComparison, known: dict) -> dict:
    updated(comparison)
    text = comparison.list_changes({name: part.tag for name, part in known.items()})
    return {name: part["content"] for name, part in json.loads(text or "{}").items() if name != "machine"}


def add_row(run, step: int, bleu: float, time: float) -> None:
    with (run / "metrics.csv").open("a") as file:
        file.write(f"0,{step},,,{bleu},1.0,2.0\n")
    os.utime(run / "metrics.csv", (time, time))


def test_a_run_appears_when_it_is_evaluated(tmp_path):
    write_run(tmp_path / "first")
    running = write_run(tmp_path / "second", seed=2, changes={"dropout": 0.3}, summary=RUNNING)
    comparison = live(tmp_path)
    assert [row["system"] for row in updated(comparison)["comparison"]["tables"]["systems"]] == ["first"]
    known = dict(comparison.parts)
    summary = json.loads((running / "summary.json").read_text())
    (running / "summary.json").write_text(json.dumps(summary | {"status": "completed"}))
    later = changes(comparison, known)
    assert {row["system"] for row in later["comparison"]["tables"]["systems"]} == {"first", "second"}
    assert [job["status"] for job in later["jobs"]] == ["completed", "completed"]


def test_jobs_keep_the_order_of_their_sweep_when_a_folder_appears(tmp_path):
    jobs = [{"folder": name, "name": name, "overrides": [], "status": "waiting"} for name in ("seed=3", "seed=1")]
    write_run(tmp_path / "seed=1", summary=RUNNING)
    (tmp_path / "sweep.json").write_text(json.dumps({"jobs": jobs}))
    comparison = live(tmp_path)
    before = [job["folder"] for job in updated(comparison)["jobs"]]
    write_run(tmp_path / "seed=3", seed=3, summary=RUNNING)
    after = [job["folder"] for job in updated(comparison)["jobs"]]
    assert before == after == [str(tmp_path / name) for name in ("seed=3", "seed=1")]


def counted(monkeypatch, *names: str) -> list[str]:
    """Return a list that grows with each call of these functions of the module."""
    calls = []
    for name in names:
        function = getattr(nmt.web.live_comparison, name)
        wrapper = lambda *given, name=name, function=function: calls.append(name) or function(*given)  # noqa: E731
        monkeypatch.setattr(nmt.web.live_comparison, name, wrapper)
    return calls


def test_what_did_not_change_is_neither_read_nor_sent_again(tmp_path, monkeypatch):
    calls = counted(monkeypatch, "find_runs", "read_progress", "compare_runs")
    write_run(tmp_path / "first")
    second = write_run(tmp_path / "second", summary=RUNNING)
    comparison = live(tmp_path)
    updated(comparison)
    assert sorted(calls) == ["compare_runs", "find_runs", "read_progress", "read_progress"]
    known = dict(comparison.parts)
    assert changes(comparison, known) == {}
    assert len(calls) == 4
    add_row(second, 500, 99.0, 10.0**9)
    later = changes(comparison, known)
    assert set(later) == {"jobs", "curves"}
    assert later["curves"][str(second)]["bleu"]["valid/bleu"][1][-1] == 99.0
    assert calls[4:] == ["read_progress"]  # of the second run


def test_time_left_follows_from_the_speed_since_the_run_was_first_seen(tmp_path):
    run = write_run(tmp_path / "run", summary=RUNNING)
    os.utime(run / "metrics.csv", (1000, 1000))
    comparison = live(tmp_path)
    assert updated(comparison)["jobs"][0]["seconds_left"] is None
    add_row(run, 450, 30.0, 1020)  # 100 steps in 20 s
    (job,) = updated(comparison)["jobs"]
    assert job["steps"] == 451
    assert job["seconds_left"] == pytest.approx((1000 - 451) / 5)


def test_a_resumed_run_with_fewer_steps_is_timed_again(tmp_path):
    run = write_run(tmp_path / "run", summary=RUNNING)
    comparison = live(tmp_path)
    updated(comparison)
    (run / "metrics.csv").write_text("step,valid/bleu\n99,3\n")
    assert updated(comparison)["jobs"][0]["seconds_left"] is None
    (run / "metrics.csv").write_text("step,valid/bleu\n99,3\n199,4\n")
    assert updated(comparison)["jobs"][0]["seconds_left"] >= 0


def test_a_sweep_that_has_not_begun_is_waited_for(tmp_path):
    comparison = live(tmp_path / "sweep")
    parts = updated(comparison)
    assert (parts["jobs"], parts["comparison"]) == ([], None)
    assert parts["messages"] == [f"{tmp_path}/sweep: no such folder yet"]
    write_run(tmp_path / "sweep" / "seed=1")
    later = updated(comparison)
    assert (later["messages"], len(later["jobs"])) == ([], 1)
    assert later["comparison"]["tables"]["sentences"] == 20


def test_a_folder_without_runs_says_so(tmp_path):
    (message,) = updated(live(tmp_path))["messages"]
    assert message.startswith(f"{tmp_path}: no run there. Fix: ")


def test_a_removed_run_costs_itself_alone(tmp_path):
    for name in ("first", "second"):
        write_run(tmp_path / name, changes={"dropout": len(name)})
    comparison = live(tmp_path)
    assert len(updated(comparison)["comparison"]["tables"]["systems"]) == 2
    shutil.rmtree(tmp_path / "second")
    parts = updated(comparison)
    assert parts["messages"] == ["second: its folder is gone"]
    assert [row["system"] for row in parts["comparison"]["tables"]["systems"]] == ["first"]


def test_runs_that_vanish_while_they_are_compared_leave_the_page_as_it_was(tmp_path, monkeypatch):
    write_run(tmp_path / "first")
    comparison = live(tmp_path)
    before = updated(comparison)["comparison"]
    monkeypatch.setattr("nmt.web.live_comparison.compare_runs", lambda *_: (tmp_path / "gone").stat())
    write_run(tmp_path / "second")
    parts = updated(comparison)
    assert parts["comparison"] == before
    (message,) = parts["messages"]
    assert message.startswith("the comparison is as before (FileNotFoundError: ")


def test_damaged_files_are_noted_and_cost_what_they_hold(tmp_path):
    write_run(tmp_path / "first")
    damaged = write_run(tmp_path / "second", summary=RUNNING)
    for name in ("metrics.csv", "summary.json", "valid_samples.json"):
        (damaged / name).write_bytes(b"\xff\0{")
    (tmp_path / "sweep.json").write_text("[")
    parts = updated(live(tmp_path))
    job = next(job for job in parts["jobs"] if job["name"] == "second")
    assert (job["status"], len(job["notes"])) == ("unknown", 3)
    assert len(parts["comparison"]["tables"]["systems"]) == 1


def test_runs_without_an_evaluation_are_told_how_to_get_one(tmp_path):
    write_run(tmp_path / "run", summary=RUNNING)
    (message,) = updated(live(tmp_path))["messages"]
    assert "score_test=true" in message


def test_a_baseline_that_is_not_there_is_reported_on_the_page(tmp_path):
    write_run(tmp_path / "first")
    (message,) = updated(live(tmp_path, baseline="frist"))["messages"]
    assert "baseline=frist: no such run or system. Fix: choose one of first (did you mean first?)" in message


@pytest.fixture
def client(tmp_path):
    write_run(tmp_path / "run", overrides=("x=</script><script>alert(1)",))
    app = create_app(live(tmp_path), allowed_hosts("127.0.0.1"))
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


def test_known_parts_are_not_sent(client):
    parts = client.get("/changes").json()
    assert set(parts) == {"jobs", "curves", "samples", "comparison", "messages", "machine"}
    tags = {name: part["tag"] for name, part in parts.items()} | {"machine": "other"}
    again = client.get("/changes", params=tags)
    assert set(again.json()) <= {"machine", "comparison", "messages"}  # the comparison may have ended meanwhile
    assert again.headers["cache-control"] == "no-store"


def test_nothing_new_is_answered_without_content(client, monkeypatch):
    monkeypatch.setattr("nmt.web.live_comparison.LiveComparison.update", lambda self: None)
    tags = {name: part["tag"] for name, part in client.get("/changes").json().items()}
    assert client.get("/changes", params=tags).status_code == 204


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "0.0.0.0", ""])
def test_a_foreign_name_of_this_machine_is_refused(client, host):
    for path in ("/", "/changes", "/nowhere"):
        assert client.get(path, headers={"Host": host}).status_code == 400


def test_the_served_page_may_connect_to_its_server_alone(client):
    page = client.get("/")
    assert "connect-src 'self'" in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "<script>alert(1)" not in page.text


def test_other_methods_and_paths_are_refused(client):
    assert client.post("/changes").status_code == 405
    assert client.get("/../summary.json").status_code == 404


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["serve=true"], "nothing to compare. Fix: "),
        (["FOLDER", "serve=true", "resamples=0"], "resamples=0: must be at least 1"),
        (["FOLDER", "serve=true", "port=99999"], "port=99999: must be between 1 and 65535"),
        (["FILE", "serve=true"], "is a file, not a run. Fix: "),
        (["FOLDER", "serv=true"], "serv"),
        (["FOLDER", "serve", "serve=true"], "serve: no such folder or checkpoint, and not KEY=VALUE"),
        (["FOLDER", "serve=maybe"], "serve=maybe: "),
    ],
)
def test_a_wrong_command_is_answered_in_one_line(tmp_path, arguments, reason, capfd, monkeypatch):
    (tmp_path / "file").write_text("")
    paths = {"FOLDER": str(tmp_path), "FILE": str(tmp_path / "file")}
    words = [paths.get(word, word) for word in arguments]
    status, errors = answer("compare", *words, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert reason in errors
    assert errors.count("\n") == 1


def test_a_port_in_use_is_named(tmp_path, capfd, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = (str(tmp_path), "serve=true", f"port={port}")
        status, errors = answer("compare", *words, capture=capfd, monkeypatch=monkeypatch)
    assert (status, errors) == (
        1,
        f"error: port={port}: another program uses it. Fix: name another, or port=0 for a free one\n",
    )


def test_a_missing_package_is_named_with_its_command(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("nmt.errors.is_importable", lambda name: name != "psutil")
    status, errors = answer("compare", str(tmp_path), "serve=true", capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert "(extra: serve). Fix: pip install starlette uvicorn psutil" in errors
