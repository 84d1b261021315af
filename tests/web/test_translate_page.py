"""The page in a browser, served by translate.py: text in, translations and heatmaps of two runs."""

import os
import re
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from commands import ROOT, TWO_STEPS, command, quick_python
from heatmaps import check_reading

LINE = "Gurcu pu ma ma nibi ."

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("the page")]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Serve three runs; at the end Ctrl-C stops the server without a traceback."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("additive", "general"):
        command("train", *TWO_STEPS, f"attention={name}", f"hydra.run.dir={folder / name}")
    parts = ("attention=coverage_fertility", "attention/window=local_p", "memory=buffer")
    command("train", *TWO_STEPS, *parts, f"hydra.run.dir={folder / 'inside'}")
    with serving(f"runs=[{folder}/additive,{folder}/general,{folder}/inside]") as process:
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
        yield address
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)[1]
    assert process.returncode in (0, 130)
    assert "Traceback" not in output


def serving(*arguments: str) -> subprocess.Popen:
    command_line = [quick_python(), str(ROOT / "translate.py"), *arguments, "serve=true", "port=0", "device=cpu"]
    return subprocess.Popen(
        command_line, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


@pytest.fixture
def page(browser, address):
    """Open the page; its console may only report refused requests."""
    page, messages = browser.new_page(viewport={"width": 1400, "height": 900}), []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(address)
    page.wait_for_selector("input[name=run]")
    yield page
    page.close()
    assert [line for line in messages if "400 (Bad Request)" not in line] == []


def translate(page, text: str) -> None:
    page.fill("#text", text)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#go:enabled")


def results(page) -> list[dict]:
    """Return what the page shows for each run."""
    return [
        {
            "name": one.locator("h3").inner_text(),
            "text": one.locator(".translation").inner_text(),
            "source": one.locator("thead th").all_text_contents(),
            "words": one.locator("tbody th").all_text_contents(),
            "weights": [float(weight) for weight in one.locator("tbody td").all_text_contents()],
        }
        for one in page.locator(".result").all()
    ]


def test_two_runs_translate_side_by_side(page, tmp_path):
    with page.expect_response("**/translate") as answered:
        translate(page, LINE)
    shown = results(page)
    assert [run["name"] for run in shown] == ["additive", "general"]
    for run, answer in zip(shown, answered.value.json()["runs"], strict=True):
        best = answer["lines"][0][0]
        assert run["text"] == best["text"]
        assert (run["source"], run["words"]) == ([*LINE.split(), "</s>"], best["words"])
        assert run["weights"] == pytest.approx([weight for row in best["alignment"] for weight in row], abs=0.006)
    left, right = (one.bounding_box() for one in page.locator(".result").all())
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_other_translations_of_the_n_best_can_be_opened(page):
    translate(page, LINE)
    first = page.locator(".result").first
    first.locator("summary").click()
    assert first.locator(".best button").count() == 5
    first.locator(".best button").nth(3).click()
    assert "number 4 of 5" in first.locator(".scores").inner_text()
    chosen = first.locator(".best button[aria-pressed=true] span").nth(1).inner_text()
    assert first.locator(".translation").inner_text() == chosen


def test_a_word_or_square_shows_its_values_when_pointed_at_or_focused(page):
    translate(page, LINE)
    check_reading(page, page.locator(".result").first.locator("div:has(> .readout)"), digits=4, probable=True)


@pytest.fixture
def layers(page) -> dict:
    """Translate with a run whose parts show values, and return its layers by name."""
    for box in page.locator("input[name=run]").all():
        box.set_checked(box.get_attribute("value") == "inside")
    page.locator("#traces").check()
    with page.expect_response("**/translate") as answered:
        translate(page, LINE)
    return {layer["name"]: layer["values"] for layer in answered.value.json()["runs"][0]["lines"][0][0]["layers"]}


def shares(page, selector: str) -> list[float]:
    return page.locator(selector).evaluate_all("all => all.map(one => Number(one.style.getPropertyValue('--share')))")


def test_layers_show_the_values_of_the_answer(page, layers):
    coverage = [value for row in layers["coverage"] for value in row]
    assert shares(page, ".heatmap .bar") == pytest.approx([value / max(coverage) for value in coverage], abs=1e-6)
    numbers = page.locator(".heatmap .numbers td").all_inner_texts()
    assert numbers == ["fertility", *(f"{value:.2f}" for value in layers["fertility"])]
    for number, name in enumerate(("memory_weights", "memory_gate", "memory_cells"), start=3):
        cells = [value for row in layers[name] for value in row]
        expected = pytest.approx([value / max(cells) for value in cells], abs=1e-6)
        assert shares(page, f".heatmap [data-layer='{number}']") == expected


def test_a_line_passes_through_the_source_positions(page, layers):
    points = page.locator(".line polyline").get_attribute("points").split(" ")
    boxes = page.locator(".heatmap thead th").evaluate_all("all => all.map(one => [one.offsetLeft, one.offsetWidth])")
    centres = [left + width / 2 for left, width in boxes]
    assert len(points) == len(layers["position"])
    for point, position in zip(points, layers["position"], strict=True):
        left = int(position) - 1
        expected = centres[left] + (position - int(position)) * (centres[left + 1] - centres[left])
        assert float(point.split(",")[0]) == pytest.approx(expected, abs=0.01)


def test_layers_are_read_out_and_hidden(page, layers):
    page.locator(".heatmap tbody tr").nth(1).locator("td").nth(2).hover()
    values = f" · coverage {layers['coverage'][1][2]:.2f} · fertility {layers['fertility'][2]:.2f}"
    assert page.locator(".readout").inner_text().endswith(values)
    page.locator(".heatmap tbody tr").nth(1).locator("[data-layer='3']").nth(4).hover()
    assert page.locator(".readout").inner_text().endswith(f" · memory weights 5 {layers['memory_weights'][1][4]:.2f}")
    page.locator(".heatmap tbody th").nth(1).focus()
    assert f" · position {layers['position'][1]:.2f} · memory weights " in page.locator(".readout").inner_text()
    for name, selector in {"coverage": ".bar", "fertility": ".numbers", "position": ".line", "memory": ".cell"}.items():
        assert page.locator(selector).first.is_visible()
        for box in page.locator(".layers label", has_text=name).locator("input").all():
            box.uncheck()
        assert page.locator(f"{selector}:visible").count() == 0


def test_without_the_option_no_values_are_sent(page):
    with page.expect_response("**/translate") as answered:
        translate(page, LINE)
    assert "layers" not in answered.value.text()
    assert page.locator(".layers").count() == 0


def test_a_mistake_is_shown_and_earlier_results_stay(page):
    translate(page, LINE)
    page.fill("#beam", "51")
    translate(page, LINE)
    assert page.locator("#problem").inner_text() == "beam=51: must be a whole number from 1 to 50"
    assert page.locator(".result").count() == 2
    page.fill("#beam", "2")
    for box in page.locator("input[name=run]").all():
        box.uncheck()
    translate(page, LINE)
    assert page.locator("#problem").inner_text() == "runs: no run is chosen. Fix: choose at least one run"
    page.locator("input[name=run]").first.check()
    translate(page, "")
    assert page.locator("#problem").inner_text().startswith("text: nothing to translate")
    translate(page, LINE)
    assert page.locator("#problem").is_hidden()
    assert page.locator(".result").count() == 1


def test_markup_is_shown_as_typed(page):
    markup = "<b>ma</b> <img src=x onerror=document.title='broken'>"
    translate(page, markup)
    assert page.locator("article h2").inner_text() == markup
    assert page.locator("article img, article h2 b").count() == 0
    assert page.title() == "Translate and compare"


def test_a_copied_link_shows_the_same_results_at_the_press_of_a_button(page, address):
    translate(page, f"{LINE}\nma pu")
    link, shown = page.url, results(page)
    assert quote(LINE.split()[0]) in link
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#go:focus")
    page.keyboard.press("Enter")
    page.wait_for_selector(".result")
    assert results(page) == shown
    page.goto(f"{address}?text=ma&runs=general&beam=1")
    page.wait_for_selector("#go:focus")
    page.click("#go")
    page.wait_for_selector(".result")
    assert [run["name"] for run in results(page)] == ["general"]


def test_a_link_of_another_site_translates_nothing(page, address):
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.set_content(f'<a href="{address}?text=ma&traces=true">translate</a>')
    page.click("a")
    page.wait_for_selector("#go:focus")
    page.wait_for_load_state("networkidle")
    assert page.input_value("#text") == "ma"
    assert [url for url in requests if url.endswith("/translate")] == []


def test_on_a_narrow_screen_only_heatmaps_scroll_sideways(page):
    page.set_viewport_size({"width": 400, "height": 800})
    translate(page, 12 * f"{LINE} ")
    widths = "document.documentElement.scrollWidth", "document.querySelector('.scroll').scrollWidth"
    width, heatmap = map(page.evaluate, widths)
    assert width <= 400 < heatmap


def test_a_second_server_on_the_same_port_ends_with_an_error(address):
    port, folder = address.rstrip("/").rpartition(":")[2], Path("nowhere")
    done = command("translate", f"run={folder}", "serve=true", f"port={port}", check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"error: port={port}: another program uses it")
