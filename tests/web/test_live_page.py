"""The page of a comparison in a browser, served by compare.py while its runs go on."""

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import contextmanager

import pytest
from commands import ROOT, TWELVE_STEPS, quick_python
from report.folders import pairs, write_run

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
expect = playwright.expect

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("the live page")]
RUNNING = {"status": "running", "planned_steps": 1000}
LINES = pairs(60)
PATIENCE = 60_000  # milliseconds that a change may take: a poll, and a comparison


@pytest.fixture
def sweep(tmp_path):
    """Return the folder of a sweep: a completed job, a running, a failed and a waiting one."""
    folder = tmp_path / "sweep"
    write_job(folder, "additive", mistakes=0.3)
    running = write_job(folder, "dot", summary=RUNNING)
    samples = [["ma pu .", ". pu ma", ". pu pu"], ["<b>nibi</b>", "nibi", "<i>nibi</i>"]]
    (running / "valid_samples.json").write_text(json.dumps({"step": 350, "sentences": samples}))
    write_job(folder, "coverage", summary={"status": "failed", "error": "ValueError: loss is NaN"})
    names = [f"attention={name},seed=1" for name in ("additive", "dot", "coverage", "waits")]
    states = ("completed", "running", "failed", "waiting")
    jobs = [
        {"folder": name, "overrides": name.split(","), "status": status}
        for name, status in zip(names, states, strict=True)
    ]
    jobs[2]["error"] = "ValueError: loss is NaN"
    (folder / "sweep.json").write_text(json.dumps({"jobs": jobs}))
    return folder


def write_job(folder, attention: str, **run):
    changes = {"attention._target_": attention}
    given = {"overrides": (f"attention={attention}",), "choices": {"attention": attention}}
    return write_run(folder / f"attention={attention},seed=1", changes=changes, lines=LINES, **given, **run)


def complete(run) -> None:
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"status": "completed"}))


def add_row(run, step: int) -> None:
    with (run / "metrics.csv").open("a") as file:
        file.write(f"0,{step},,,{step / 20},1.0,2.0\n")


@contextmanager
def serving(*arguments: str):
    """Serve the page, and yield its address and what was reported before; Ctrl-C stops it without a traceback."""
    words = [quick_python(), str(ROOT / "compare.py"), *arguments, "resamples=20", "serve=true", "port=0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    lines = []
    while not (address := re.search(r"http://127\.0\.0\.1:\d+/", (lines or [""])[-1])):
        lines.append(process.stderr.readline())
        assert lines[-1], lines
    try:
        yield address[0], lines[:-1]
    except BaseException:  # of the test
        process.kill()
        raise
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[1]
    assert process.returncode in (0, 130)
    assert "Traceback" not in output


@contextmanager
def opened(browser, address: str, **viewport):
    """Open the page, which must connect to its server alone and write nothing to the console."""
    page, messages, requests = browser.new_page(viewport={"width": 1280, "height": 800} | viewport), [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    yield page
    page.close()
    assert messages == []
    assert [url for url in requests if not url.startswith((address, "data:"))] == []


@pytest.fixture
def page(browser, sweep):
    with serving(str(sweep)) as (address, _), opened(browser, address) as page:
        expect(page.locator("#leaderboard tbody tr")).to_have_count(1, timeout=PATIENCE)
        page.wait_for_selector("article")
        yield page


def job(page, name: str) -> list[str]:
    return page.locator("#jobs tbody tr", has_text=name).locator("th, td").all_inner_texts()


def test_jobs_have_their_state_progress_and_reason(page):
    assert job(page, "additive")[1:3] == ["completed", "351 steps"]
    assert job(page, "dot")[1:4] == ["running", "351 of 1,000 steps", "–"]
    assert (job(page, "coverage")[1], job(page, "coverage")[-1]) == ("failed", "ValueError: loss is NaN")
    assert job(page, "waits")[1:4] == ["waiting", "–", "–"]
    assert "1 running, 1 failed, 1 waiting, 1 completed." in page.locator("#jobs").inner_text()
    assert re.search(r"CPU \d+ % of \d+ cores · memory [\d.]+ of [\d.]+ GiB", page.locator("#machine").inner_text())


def test_curves_grow_and_time_left_appears(page, sweep):
    curves = page.locator("#curves figure", has_text="BLEU").last.locator("path.curve")
    expect(curves).to_have_count(3)  # the failed run has curves too
    before = curves.evaluate_all("all => all.map(one => one.getAttribute('d').split('L').length)")
    add_row(sweep / "attention=dot,seed=1", 499)
    expect(page.locator("#jobs tbody tr", has_text="dot")).to_contain_text("500 of 1,000 steps", timeout=PATIENCE)
    assert re.fullmatch(r"[\d:]+", job(page, "dot")[3])
    after = curves.evaluate_all("all => all.map(one => one.getAttribute('d').split('L').length)")
    assert sum(after) == sum(before) + 1


def test_a_run_joins_the_tables_when_it_is_evaluated_and_keeps_its_colour(page, sweep):
    swatch = page.locator("#jobs tbody tr", has_text="dot").locator(".swatch line")
    colour = swatch.get_attribute("style")
    complete(sweep / "attention=dot,seed=1")
    expect(page.locator("#leaderboard tbody tr")).to_have_count(2, timeout=PATIENCE)
    assert swatch.get_attribute("style") == colour
    assert page.locator("#leaderboard tr", has_text="dot").locator(".swatch line").get_attribute("style") == colour
    assert page.locator("#settings").is_visible()


def test_evaluations_of_one_run_have_a_colour_and_a_switch_each(page, sweep):
    run = sweep / "attention=additive,seed=1"
    shutil.copytree(run / "test", run / "test,beam=10")
    scores = json.loads((run / "test" / "scores.json").read_text())
    (run / "test,beam=10" / "scores.json").write_text(json.dumps(scores | {"search": {"beam": 10}}))
    rows = page.locator("#leaderboard tbody tr")
    expect(rows).to_have_count(2, timeout=PATIENCE)
    styles = [swatch.get_attribute("style") for swatch in rows.locator(".swatch line").all()]
    assert len(set(styles)) == 2
    buttons = page.locator("#lengths .legend button[aria-pressed]")
    buttons.first.click()
    assert [button.get_attribute("aria-pressed") for button in buttons.all()] == ["false", "true"]


def test_choices_and_place_of_the_reader_stay(page, sweep):
    page.get_by_role("button", name="chrF", exact=True).click()
    page.locator("#scores summary").click()
    page.locator("#scores input[value=aer]").check()
    page.locator("#curves .legend button", has_text="coverage").click()
    page.locator("#runs details summary").first.click()
    page.select_option("#order", "number")
    page.fill("#search", "nibi")
    page.wait_for_selector("article mark")  # because the search is drawn after a pause
    page.locator("article button", has_text="Alignments").first.click()
    page.wait_for_selector(".heatmap")
    page.locator("#sentences .pager").scroll_into_view_if_needed()
    page.focus("#search")
    top = page.locator("#sentences").bounding_box()["y"]
    number = page.locator("article").first.get_attribute("data-number")
    complete(sweep / "attention=dot,seed=1")
    expect(page.locator("#leaderboard tbody tr")).to_have_count(2, timeout=PATIENCE)
    expect(page.locator("#search")).to_be_focused()
    assert page.input_value("#search") == "nibi"
    assert page.locator("article").first.get_attribute("data-number") == number
    page.wait_for_selector(".heatmap")
    assert page.locator("#sentences").bounding_box()["y"] == pytest.approx(top, abs=80)
    assert page.locator("#leaderboard th[aria-sort]").inner_text() == "chrF"
    assert page.locator("#scores input[value=aer]").is_checked()
    assert page.locator("#scores").get_attribute("open") is not None
    assert "AER" in page.locator("#leaderboard thead").inner_text()
    assert page.locator("#curves .legend button[aria-pressed=false]").all_inner_texts() == ["attention=coverage"]
    assert page.locator("#runs details[open] pre").count() == 1
    assert page.input_value("#order") == "number"


def test_sections_without_changes_are_not_drawn_again(page, sweep):
    page.evaluate("document.querySelectorAll('section.part').forEach((one) => (one.dataset.old = 'yes'))")
    add_row(sweep / "attention=dot,seed=1", 499)
    expect(page.locator("#jobs tbody tr", has_text="dot")).to_contain_text("500 of", timeout=PATIENCE)
    redrawn = page.locator("section.part:not([data-old])").evaluate_all("all => all.map((one) => one.id)")
    assert redrawn == ["jobs", "curves"]


def test_translations_of_the_last_validation_stand_side_by_side(page, sweep):
    cards = page.locator("#samples .sentence")
    expect(cards).to_have_count(2)
    assert cards.first.locator("dd.translation").inner_text() == ". pu pu"
    assert cards.nth(1).locator("dd").first.inner_text() == "<b>nibi</b>"
    samples = {"step": 10, "sentences": [["ma pu .", ". pu ma", "ma ma"]]}
    (sweep / "attention=coverage,seed=1" / "valid_samples.json").write_text(json.dumps(samples))
    expect(cards.first.locator("dd.translation")).to_have_text([". pu pu", "ma ma"], timeout=PATIENCE)
    assert cards.first.locator(".differs").all_inner_texts() == ["pu", "ma"]  # the reference has each once


def test_a_removed_run_and_a_stopped_server_cost_one_line(browser, sweep):
    with serving(str(sweep)) as (address, _):
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("article")
        shutil.rmtree(sweep / "attention=coverage,seed=1")
        (sweep / "sweep.json").unlink()
        gone = [f"attention={name}: its folder is gone" for name in ("coverage", "waits")]
        expect(page.locator(".notice")).to_have_text(gone, timeout=PATIENCE)
        assert page.locator("#jobs tbody tr").count() == 2
    silence = page.locator(".notice", has_text="The server has given no answer since")
    expect(silence).to_have_count(1, timeout=PATIENCE)
    assert page.locator("article").count() > 0
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_scrolling_sideways(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


MANY_EPOCHS = (*TWELVE_STEPS, "trainer.max_epochs=60", "callbacks.early_stopping.patience=60", "threads=1")
COUNT_POINTS = """() => document.querySelector("#curves path.curve")?.getAttribute("d").split("L").length ?? 0"""


@pytest.mark.timeout(600)
def test_a_sweep_is_watched_from_before_its_first_job_to_its_end(browser, tmp_path):
    with serving(str(tmp_path / "sweep")) as (address, lines), opened(browser, address) as page:
        assert lines == [f"{tmp_path}/sweep: no such folder yet\n"]
        assert page.locator(".notice").inner_text() == f"{tmp_path}/sweep: no such folder yet"
        scored = ("score_test=true", "data.tests.test.count=10")
        seeds = ("-m", "seed=1,2", *scored, f"hydra.sweep.dir={tmp_path / 'sweep'}")
        words = [quick_python(), ROOT / "train.py", *MANY_EPOCHS, *seeds]
        training = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            watch_the_first_job(page)
            assert training.wait(300) == 0
        finally:
            training.terminate()
        expect(page.locator("#jobs .state.completed")).to_have_count(2, timeout=PATIENCE)
        expect(page.locator("#leaderboard tbody")).to_contain_text("2 seeds", timeout=PATIENCE)
        assert page.locator("#leaderboard tbody tr").count() == 1
        assert page.locator("#jobs tbody").inner_text().count("720 steps") == 2


def watch_the_first_job(page):
    first, second = page.locator("#jobs tbody tr", has_text="seed=1"), page.locator("#jobs tbody tr").last
    expect(first).to_contain_text(re.compile(r"running[\d,]+ of 720 steps\d+:\d\d"), timeout=PATIENCE)
    expect(second).to_contain_text("waiting")
    points = page.evaluate(COUNT_POINTS)
    while page.evaluate(COUNT_POINTS) < points + 2:  # two validations later
        expect(first).to_contain_text("running")
        page.wait_for_timeout(500)
    expect(second).to_contain_text("waiting")  # so the first job is not at its end
    assert page.locator("#samples .sentence").count() == 8
