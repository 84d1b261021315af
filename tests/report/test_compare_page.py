"""The page of a comparison in a browser, opened from the disk."""

import json
import re
from contextlib import contextmanager

import numpy as np
import pytest
from heatmaps import check_reading
from report.folders import with_alignments, with_gold, with_traces, write_run

from nmt.cli.arguments import read_arguments
from nmt.cli.compare import compare

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")

MARKUP = "<b>ma</b> <script>document.title='broken'</script>"
LINES = [(f"ma pu nibi {number} .", f". {number} nibi pu ma") for number in range(60)] + [(MARKUP, f"a {MARKUP} b")]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("the page of a comparison")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Compare three systems, one of two seeds, one with damaged alignments and no time, and a failed run."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        write_run(folder / f"additive_s{seed}", seed=seed, lines=LINES, mistakes=0.3)
    write_run(folder / "dot", changes={"attention.score._target_": "D"}, choices={"attention": "dot"}, lines=LINES)
    wide = {
        "changes": {"size.hidden": 64, "dropout": 0.1 + 0.2},
        "choices": {"size": "wide"},
        "summary": {"wall_seconds": None},
    }
    write_run(folder / "wide", **wide, lines=LINES, mistakes=0.5)
    (folder / "wide" / "test" / "alignments.npz").write_bytes(b"damaged")
    for name, right in (("additive_s1", 0), ("additive_s2", 1), ("dot", 2), ("wide", 1)):
        with_alignments(folder / name, right)
    with_traces(folder / "additive_s2")
    with_gold(folder / "wide")
    write_run(folder / "failed", summary={"status": "failed", "error": "ValueError: nan"})
    return write_page(folder)


def write_page(folder):
    settings, _ = read_arguments("compare", [f"output={folder}/compare.html", "resamples=50"], usage="")
    compare([str(folder)], settings)
    return folder


@pytest.fixture
def page(browser, runs):
    with opened(browser, runs) as page:
        yield page


@contextmanager
def opened(browser, folder):
    """Open the page, which must load nothing else and write nothing to the console."""
    page, messages, requests = browser.new_page(viewport={"width": 1400, "height": 900}), [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((folder / "compare.html").as_uri())
    page.wait_for_selector("article")
    yield page
    page.close()
    assert messages == []
    assert [url for url in requests if not url.startswith("data:")] == [(folder / "compare.html").as_uri()]


def figure(page, title: str):
    return page.locator("figure", has=page.get_by_role("heading", name=title, exact=True))


def column(page, head: str) -> list[str]:
    heads = page.locator("#leaderboard thead button").all_inner_texts()
    return page.locator(f"#leaderboard tbody tr > :nth-child({heads.index(head) + 1})").all_inner_texts()


def systems(page) -> list[str]:
    return [text.split("\n")[0].split("2 seeds")[0].replace("baseline", "").strip() for text in column(page, "system")]


def choose(page, first: str, second: str, order: str) -> None:
    page.select_option("#first", label=first)
    page.select_option("#second", label=second)
    page.select_option("#order", order)


def test_the_leaderboard_is_sorted_by_a_click_on_a_head(page):
    assert systems(page) == ["dot", "additive", "wide"]
    page.get_by_role("button", name="system", exact=True).click()
    assert systems(page) == ["additive", "dot", "wide"]
    page.get_by_role("button", name="BLEU", exact=True).click()
    page.get_by_role("button", name="BLEU", exact=True).click()
    assert systems(page) == ["wide", "additive", "dot"]
    assert page.locator("#leaderboard th[aria-sort=ascending]").inner_text() == "BLEU"
    assert column(page, "attention") == ["additive", "additive", "dot"]
    assert "2 seeds" in column(page, "system")[1]
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d", column(page, "BLEU")[1])


@pytest.mark.parametrize("score", ["bleu", "words_left_out", "length_ratio"])
def test_the_best_of_each_score_is_bold(page, score):
    """Length ratios are 1.0 (dot), 1.2 and 1.4."""
    page.locator("#scores summary").click()
    for box in page.locator("#scores input").all():
        box.set_checked(box.get_attribute("value") == score)
    (bold,) = page.locator("#leaderboard tbody tr", has=page.locator("td.best")).all_inner_texts()
    assert bold.startswith("dot")


def test_a_score_without_a_better_direction_has_no_best(page):
    page.locator("#scores summary").click()
    for box in page.locator("#scores input").all():
        box.set_checked(box.get_attribute("value") == "attention_entropy")
    assert column(page, "attention entropy") == [
        "0.80 ± 0.00" if "seeds" in one else "0.80" for one in column(page, "system")
    ]
    assert page.locator("#leaderboard td.best").count() == 0
    offered = [option.get_attribute("value") for option in page.locator("#against_settings option").all()]
    assert "length_ratio" in offered
    assert "attention_entropy" not in offered


def test_scores_are_chosen_and_systems_filtered(page):
    assert "AER" not in page.locator("#leaderboard thead").inner_text()
    page.locator("#scores summary").click()
    page.locator("#scores input[value=aer]").check()
    assert column(page, "AER")[0] == "20.00"
    page.fill("#filter", "dot")
    assert systems(page) == ["dot"]
    page.fill("#filter", "no such system")
    assert page.get_by_text("No system matches the filter.").is_visible()


def test_the_legend_switches_systems_in_every_chart(page):
    curves = page.locator("#curves figure path.curve")
    points = figure(page, "BLEU by source length").locator(".interval")
    playwright.expect(curves).to_have_count(16)
    playwright.expect(points).to_have_count(3)
    page.locator("#curves .legend button", has_text="additive").click()
    playwright.expect(curves).to_have_count(8)  # additive is two of four runs
    playwright.expect(points).to_have_count(2)
    assert page.locator("#lengths .legend button[aria-pressed=false]").inner_text() == "additive"
    page.select_option("#against", "time")
    assert "time" in page.locator("#curves .note").first.inner_text()


def test_charts_without_a_system_say_so(page):
    legend = page.locator("#lengths .legend")
    assert legend.inner_text().endswith("none")
    legend.get_by_text("none").click()
    assert page.locator("#curves figure, #lengths figure").count() == 0
    assert page.get_by_text("No system is shown.").count() == 2
    legend.get_by_role("button", name="dot").click()
    assert legend.get_by_text("1 of 3 shown").is_visible()
    assert page.get_by_text("No system is shown.").count() == 0


def test_a_chart_names_the_runs_that_it_cannot_draw(page):
    caption = figure(page, "Loss").locator("figcaption")
    assert "Not drawn" not in caption.inner_text()
    page.select_option("#against", "time")
    assert caption.inner_text().endswith("Not drawn, without values or time: wide.")
    assert figure(page, "BLEU").locator("path.curve").count() == 3


PAPERS = {
    "Loss": "Luong 2015, Figure 5",
    "BLEU by source length": "Tu 2016, Figure 6, left",
    "Length of translations by source length": "Tu 2016, Figure 6, right",
    "BLEU of longer sentences": "Meng 2016, Figure 4",
}


def test_every_chart_has_a_caption_and_names_the_figure_of_a_paper(page):
    captions = page.locator("figure figcaption").all_inner_texts()
    assert len(captions) == page.locator("figure").count() == 11
    assert all(len(caption) > 30 and caption.endswith(".") for caption in captions)
    for title, paper in PAPERS.items():
        assert paper in figure(page, title).locator("figcaption").inner_text()


def test_marks_of_the_length_charts_read_out_the_values_of_the_tables(page, runs):
    tables = json.loads((runs / "compare.json").read_text())
    for title, kind in {"BLEU by source length": "by_length", "BLEU of longer sentences": "longer_than"}.items():
        bleu = [f"{one['name']} source words · {one['bleu']:.2f}" for one in tables[kind]["dot"]]
        check_marks(figure(page, title), bleu)
    lengths = [
        f"{one['name']} source words · {one['words']:.2f} words; {one['reference_words']:.2f} in the reference"
        for one in tables["by_length"]["dot"]
    ]
    check_marks(figure(page, "Length of translations by source length"), lengths)


def check_marks(chart, texts: list[str]) -> None:
    """Point at each mark of the first system, `dot`."""
    marks = chart.locator(".interval").first.locator("circle[opacity='0']")
    assert marks.count() == len(texts)
    for mark, text in zip(marks.all(), texts, strict=True):
        mark.hover()
        assert chart.locator(".note").inner_text().startswith(f"dot · {text}")


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """Compare two runs of equal BLEU with one validation each, whose losses are far apart."""
    folder = tmp_path_factory.mktemp("single")
    for name, loss in (("low", 2), ("high", 40)):
        run = write_run(folder / name, changes={"dropout": loss / 100})
        rows = ["epoch,step,train/loss,valid/bleu,valid/loss,valid/perplexity", f"0,2000,,20,{loss},{2 * loss}"]
        (run / "metrics.csv").write_text("\n".join(rows) + "\n")
    return write_page(folder)


@pytest.mark.parametrize("axis", ["steps", "time"])
def test_labels_and_points_stay_in_their_chart_with_one_validation(browser, single, axis):
    with opened(browser, single) as page:
        page.select_option("#against", axis)
        figure(page, "Loss").locator("circle").first.wait_for()
        for chart in page.locator("figure:has(svg)").all():
            frame, labels = chart.bounding_box(), [text.bounding_box() for text in chart.locator("svg text").all()]
            assert labels
            assert all(is_inside(label, frame) for label in labels)
        for title in ("Loss", "Perplexity"):
            grid = [line.bounding_box()["y"] for line in figure(page, title).locator(".grid").all()]
            points = [point.bounding_box()["y"] for point in figure(page, title).locator("g circle").all()]
            assert len(points) == 2
            assert min(grid) - 60 < min(points) < max(points) < max(grid) + 60


def is_inside(box: dict, frame: dict) -> bool:
    ends = (box["x"] + box["width"], box["y"] + box["height"])
    frame_ends = (frame["x"] + frame["width"], frame["y"] + frame["height"])
    starts = box["x"] >= frame["x"] and box["y"] >= frame["y"]
    return starts and ends[0] <= frame_ends[0] and ends[1] <= frame_ends[1]


@pytest.mark.parametrize(("kind", "measures"), [("adequacy", 4), ("alignment", 2)])
def test_measures_are_shown_with_p(page, kind, measures):
    page.locator(f"#{kind} summary").click()
    rows = page.locator(f"#{kind} tbody tr")
    assert rows.count() == 3
    heads = page.locator(f"#{kind} th.number").all_inner_texts()
    assert heads[1:4] == ["Δ", "p, sentences", "p, seeds"]
    cells = rows.filter(has_text="additive").locator("td").all_inner_texts()
    assert [cells[place] for place, head in enumerate(heads) if head == "Δ"] == ["baseline"] * measures
    other = rows.filter(has_not_text="baseline").first.locator("td").all_inner_texts()
    assert re.fullmatch(r"[+−]\d+\.\d\d|0\.00", other[1])
    assert re.fullmatch(r"\d\.\d{3}", other[2])
    assert re.fullmatch(r"\d\.\d{3}", other[3])


def test_p_over_sentences_is_never_bold(page):
    assert any(text.startswith(("0.0", "<")) for text in column(page, "p, sentences"))
    page.locator("#adequacy summary").click()
    for table in page.locator("#leaderboard table, #adequacy table").all():
        heads = table.locator("thead th").all_inner_texts()
        bold = table.locator("td.significant").evaluate_all("cells => cells.map((cell) => cell.cellIndex)")
        assert {heads[place] for place in bold} <= {"p, seeds"}


def test_a_score_is_the_same_number_in_all_parts_of_the_page(page):
    page.locator("#scores summary").click()
    page.locator("#scores input[value=words_left_out]").check()
    scores = dict(zip(systems(page), column(page, "words left out"), strict=True))
    page.locator("#adequacy summary").click()
    heads = page.locator("#adequacy thead th").all_inner_texts()
    for row in page.locator("#adequacy tbody tr").all():
        cells = row.locator("th, td").all_inner_texts()
        assert scores[cells[0]].split(" ")[0] == cells[heads.index("words left out")]
        bars = figure(page, "Words left out").locator(".bars")
        assert scores[cells[0]] in bars.inner_text()


def test_arrow_keys_read_out_the_points_of_a_curve(page):
    chart = page.locator("#curves figure").last
    chart.locator("svg[tabindex]").focus()
    page.keyboard.press("ArrowRight")
    assert re.search(r"valid/bleu · 50 · \d", chart.locator(".note").inner_text())


def test_a_click_on_a_value_keeps_the_lines_through_it(page):
    assert page.locator("#settings .path").count() == 3
    page.locator("#settings text.value", has_text="dot").click()
    assert page.locator("#settings .path:not(.out)").get_attribute("aria-label").startswith("dot: BLEU")
    page.locator("#settings text.value", has_text="wide").click()
    assert page.locator("#settings .path:not(.out)").count() == 0
    assert page.locator("#settings .note").inner_text().startswith("no system has all of the chosen values")
    page.locator("#settings text.value", has_text="wide").click()
    assert page.locator("#settings .note").inner_text().startswith("point at a line")


def test_two_systems_are_compared_sentence_by_sentence(page):
    choose(page, "additive_s1", "dot", "better")
    gains = [float(text.replace("−", "-")) for text in page.locator("article .gain").all_inner_texts()]
    assert (len(gains), gains) == (20, sorted(gains, reverse=True))
    tally = [int(number) for number in page.locator(".tally b").all_inner_texts()]
    assert sum(tally) == len(LINES)
    page.click("#next")
    playwright.expect(page.locator(".pager span")).to_have_text("21–40 of 61")
    choose(page, "dot", "dot", "number")
    playwright.expect(page.locator(".tally b").first).to_have_text("0")
    assert page.locator("article .differs").count() == 0


@pytest.mark.parametrize(("length", "moved_differs"), [(1000, True), (3000, False)])
def test_very_long_texts_are_compared_as_sets_of_words(page, length, moved_differs):
    middle = [f"w{number}" for number in range(length)]
    words = page.evaluate("texts => markDifferences(...texts)", [["moved", " ", "new", *middle], [*middle, "moved"]])
    assert words == [["moved", moved_differs], [" ", False], ["new", True], *([word, False] for word in middle)]


def test_other_systems_can_be_shown_too(page):
    page.locator("#sentences summary", has_text="Also show").click()
    box = page.locator("#sentences label", has_text="wide").locator("input")
    assert box.bounding_box()["width"] < 30
    box.check()
    playwright.expect(page.locator("article").first.locator("dd.translation")).to_have_count(3)


def test_search_finds_words_and_markup_stays_text(page):
    page.fill("#search", "</SCRIPT>")
    playwright.expect(page.locator("article")).to_have_count(1)
    assert page.locator("article dd").nth(0).inner_text() == MARKUP
    assert page.locator("article dd b, article dd script").count() == 0
    assert page.title().startswith("test: 3 systems")
    page.fill("#search", "nowhere to be found")
    page.wait_for_selector("text=No sentence contains")


def test_shown_alignments_equal_the_stored_ones(page, runs):
    choose(page, "additive_s1", "wide", "number")
    playwright.expect(page.locator("article").first).to_have_attribute("data-number", "0")
    first = page.locator("article").first
    first.get_by_role("button", name="Alignments").click()
    first = first.locator(".heatmaps").first
    first.locator(".heatmap").wait_for()
    assert first.locator(".heatmap").count() == 1
    assert "could not be read" in first.locator("> div").nth(1).inner_text()
    shown = first.locator(".heatmap tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => Number(cell.textContent)))"
    )
    stored = np.load(runs / "additive_s1" / "test" / "alignments.npz")["0"].astype(float)
    assert np.abs(np.array(shown) - stored).max() < 0.026
    assert first.locator(".heatmap thead th").all_inner_texts() == [*LINES[0][0].split(), "</s>"]
    first.locator(".heatmap tbody th").nth(0).hover()
    word = first.locator(".heatmap tbody th").nth(0).inner_text()
    best = LINES[0][0].split()[stored[0].argmax()]
    assert first.locator(".readout").inner_text().startswith(f"{word} ← {best} 0.")


def test_layers_are_drawn_where_a_run_has_traces(page, runs):
    choose(page, "additive_s2", "dot", "number")
    article = page.locator("article[data-number='0']")
    article.get_by_role("button", name="Alignments").click()
    article.locator(".heatmap").nth(1).wait_for()
    first, second = article.locator(".heatmaps > div").all()
    coverage = np.load(runs / "additive_s2" / "test" / "traces.npz")["coverage/0"].astype(float)
    shown = first.locator(".bar").evaluate_all("all => all.map(one => Number(one.style.getPropertyValue('--share')))")
    assert np.abs(np.array(shown) - (coverage / coverage.max()).ravel()).max() < 0.001
    numbers = first.locator(".numbers td").all_inner_texts()
    assert numbers == ["fertility", *(f"{column / 4:.2f}" for column in range(coverage.shape[1]))]
    assert first.locator(".cell").count() == 2 * len(coverage)
    assert len(first.locator(".line polyline").get_attribute("points").split(" ")) == len(coverage)
    assert second.locator(".bar, .numbers, .line, .cell, .layers").count() == 0


def test_gold_links_are_outlined_where_the_reference_is_forced(page):
    choose(page, "additive_s1", "wide", "number")
    article = page.locator("article[data-number='0']")
    article.get_by_role("button", name="Alignments").click()
    forced = article.locator(".heatmaps").nth(1)
    forced.locator(".heatmap").wait_for()
    assert "Luong 2015, Figure 7" in article.locator(".caption").nth(1).inner_text()
    without, with_links = forced.locator("> div").all()
    assert "no alignments of this run" in without.inner_text()
    source, reference = (line.split() for line in LINES[0])
    assert with_links.locator("thead th").all_inner_texts() == source
    assert with_links.locator("tbody th").all_inner_texts() == reference
    squares = with_links.locator("tbody tr").nth(0).locator("td"), with_links.locator("tbody tr").nth(1).locator("td")
    assert with_links.locator(".link").count() == 2
    squares[0].nth(0).hover()
    assert with_links.locator(".readout").inner_text() == f"{reference[0]} ← {source[0]} 0.75 · gold link"
    squares[1].nth(1).hover()
    assert with_links.locator(".readout").inner_text().endswith(" 0.75 · possible gold link")
    squares[1].nth(0).hover()
    assert with_links.locator(".readout").inner_text() == f"{reference[1]} ← {source[0]} 0.00"
    with_links.get_by_label("gold links").uncheck()
    assert not with_links.locator(".link").first.is_visible()


def test_words_and_squares_are_read_out_on_hover_and_focus(page):
    choose(page, "additive_s1", "dot", "number")
    first = page.locator("article[data-number='0']")
    first.get_by_role("button", name="Alignments").click()
    first.locator(".heatmap").nth(1).wait_for()
    for place in first.locator("div:has(> .readout)").all():
        check_reading(page, place, digits=2, probable=False)


def test_runs_show_their_configuration_and_runs_left_out_the_reason(page):
    first = page.locator("#runs details").first
    first.locator("summary").click()
    first.locator("pre").wait_for()
    assert "hidden: 32" in first.locator("pre").inner_text()
    assert "python train.py seed=" in first.inner_text()
    listed = page.locator("#not_compared").inner_text()
    assert "failed: ValueError: nan" in listed
    assert "alignments.npz is damaged" in listed


def test_an_installed_project_repeats_a_run_with_its_own_command(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.config.installation.IS_INSTALLED", True)
    write_run(tmp_path / "run", overrides=("name=`id`",))
    with opened(browser, write_page(tmp_path)) as page:
        page.locator("#runs summary").first.click()
        page.locator("#runs pre").first.wait_for()
        assert "nmt-train 'name=`id`' seed=1" in page.locator("#runs details").first.inner_text()


def test_the_leaderboard_fits_a_screen_of_1280_pixels(page):
    page.set_viewport_size({"width": 1280, "height": 800})
    page.locator("#scores summary").click()
    for score in ("words_too_often", "words_left_out"):
        page.locator(f"#scores input[value={score}]").check()
    table = page.locator("#leaderboard .scroll")
    assert table.evaluate("table => table.scrollWidth <= table.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_scrolling_sideways(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 400, "height": 800})
    page.locator("article button:enabled").first.click()
    page.wait_for_selector(".heatmap")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
