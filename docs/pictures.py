"""Make pictures of these pages again, light and dark.

This needs Chromium, the runs of tutorial.md (multirun/captions), and those of a study:

    python -m studies restore toy
    python docs/pictures.py

Some pictures are of runs that this program trains: `python docs/pictures.py demo` makes compare_sentences.png,
page.png and inside.png, and `python docs/pictures.py live` makes live.png. NAME.png is light and NAME_dark.png is dark.
growth.png is made by benchmarks/growth.py.
"""

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from nmt import compare  # noqa: E402, because the line above says where it is

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
STUDY, TUTORIAL, DEMO = (ROOT / "multirun" / name for name in ("toy", "captions", "pictures"))
PARTS = {  # of the runs that show sentences
    "general": "decoder=luong attention=general",
    "local_p": "decoder=luong attention=local_p",
    "fertility": "attention=coverage_fertility",
    "memory": "decoder=feedback memory=buffer attention/window=local_p",
}
SENTENCE = "Gurcu pu ma ma nibi papa me neba ?"
HALF = re.compile(r"^(2[5-9]|3)\d+ of 500 steps")
MOST_HOURS = 2  # that the small sweep may take
CAPTION = "Eine Frau in einem roten Kleid sitzt auf einer Bank und liest ein Buch."


def main() -> None:
    """Make all pictures."""
    path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as started, TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        chosen = sys.argv[1:] or ["study", "demo", "live"]
        if "study" in chosen:
            draw_comparisons(browser, Path(folder))
            draw_translations(browser)
        if "demo" in chosen:
            train_demo()
            draw_sentences(browser, Path(folder))
            draw_pages(browser)
        if "live" in chosen:
            draw_sweep(browser, Path(folder) / "live")
        browser.close()


def draw_comparisons(browser: Browser, folder: Path) -> None:
    """Draw the pages of compare.py."""
    systems = ("additive", "coverage_embedding", "interactive", "temporal")
    study = [path for name in systems for path in sorted(STUDY.glob(f"attention={name},*"))]
    draw_comparison(browser, folder, {"leaderboard": 950, "compare": 2500}, study, test="long")
    draw_comparison(browser, folder, {"tutorial": 950}, [TUTORIAL])


def draw_comparison(browser: Browser, folder: Path, heights: dict[str, int], runs: list[Path], **settings: str) -> None:
    """Draw the upper part of a comparison's page, in pictures of several heights."""
    page = compare(runs, baseline="attention=additive", **settings).save(folder / "compare.html")
    for shown, suffix in open_in_both_schemes(browser, page.as_uri()):
        shown.wait_for_selector("article")
        for name, height in heights.items():
            shown.set_viewport_size({"width": 1400, "height": height})
            save(shown.screenshot(), f"{name}{suffix}")


def draw_translations(browser: Browser) -> None:
    """Draw parts of the page of translate.py."""
    runs = [TUTORIAL / f"attention={name},experiment=captions,seed=1" for name in ("additive", "coverage")]
    names = ",".join(f"'{run}'" for run in runs)
    with serve("translate", f"runs=[{names}]") as address:
        for shown, suffix in open_in_both_schemes(browser, address):
            shown.wait_for_selector("input[name=run]")
            shown.check("#traces")
            shown.fill("#text", CAPTION)
            shown.click("#go")
            for name, part in {"tutorial_traces": ".columns", "alignment": ".heatmap"}.items():
                save(shown.locator(part).first.screenshot(), f"{name}{suffix}")


def train_demo() -> None:
    """Train and score a run of the toy language with each of some parts; those that are there already are kept."""
    for name, parts in PARTS.items():
        settings = ["experiment=demo", "score_test=true", "threads=1", "logger=none", *parts.split()]
        command = [sys.executable, str(ROOT / "train.py"), *settings, f"hydra.run.dir={DEMO / name}"]
        subprocess.run(command, cwd=ROOT, check=True)


def draw_sentences(browser: Browser, folder: Path) -> None:
    """Draw the sentences of a comparison's page, one of them with its alignments."""
    runs = [DEMO / name for name in ("general", "local_p")]
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(compare(runs, baseline="general").save(folder / "sentences.html").as_uri())
    page.get_by_label("Order").select_option(index=1)
    sentence = page.locator("article").first
    sentence.get_by_role("button", name="Alignments").click()
    sentence.locator(".heatmap").nth(3).wait_for()
    page.evaluate("window.scrollTo(0, 0)")
    top, bottom = page.locator("h2", has_text="Sentences").bounding_box(), sentence.bounding_box()
    height = bottom["y"] + bottom["height"] - top["y"] + 20
    clip = {"x": 0, "y": top["y"] - 10, "width": 1280, "height": height}
    save(page.screenshot(full_page=True, clip=clip), "compare_sentences")


def draw_pages(browser: Browser) -> None:
    """Draw the page of translate.py with two runs, and the traces of two others."""
    for runs, traces, name in (("general", "local_p"), False, "page"), (("fertility", "memory"), True, "inside"):
        names = ",".join(f"'{DEMO / run}'" for run in runs)
        with serve("translate", f"runs=[{names}]") as address:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(address)
            page.wait_for_selector("input[name=run]")
            page.set_checked("#traces", traces)
            page.fill("#text", SENTENCE)
            page.click("#go")
            page.locator(".heatmap").nth(1).wait_for()
            shown = page.locator(".columns").first if traces else page
            save(shown.screenshot() if traces else page.screenshot(full_page=True), name)
            page.close()


def draw_sweep(browser: Browser, folder: Path) -> None:
    """Train a small sweep, in which attention=dot fails, and draw its page when the next system is half trained."""
    size = ["size.encoder=48", "data.train.count=20000", "data.valid.count=200", "trainer.max_epochs=2"]
    settings = ["experiment=demo", "trainer.val_check_interval=0.2", "score_test=true", "threads=1", "logger=none"]
    swept = ["attention=additive,dot,coverage,temporal", f"hydra.sweep.dir={folder}"]
    command = [sys.executable, str(ROOT / "train.py"), "-m", *settings, *size, *swept]
    with subprocess.Popen(command, cwd=ROOT) as training:
        with serve("compare", str(folder), "baseline=attention=additive") as address:
            page = browser.new_page(viewport={"width": 1280, "height": 1300})
            page.goto(address)
            row = page.locator("#jobs tbody tr", has_text="attention=coverage")
            row.get_by_text(HALF).wait_for(timeout=MOST_HOURS * 3_600_000)
            save(page.screenshot(), "live")
        training.terminate()


@contextmanager
def serve(verb: str, *arguments: str) -> Iterator[str]:
    """Serve a page of translate.py or compare.py, and yield its address."""
    command = [sys.executable, str(ROOT / f"{verb}.py"), *arguments, "serve=true", "port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield next(filter(None, (re.search(r"http://\S+", line) for line in process.stderr)))[0]
        process.terminate()


def open_in_both_schemes(browser: Browser, address: str) -> Iterator[tuple[Page, str]]:
    """Yield the page in a light window, then in a dark one, with the end of its pictures' names."""
    for scheme, suffix in (("light", ""), ("dark", "_dark")):
        page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme=scheme)
        page.goto(address)
        yield page, suffix
        page.close()


def save(picture: bytes, name: str) -> None:
    """Write a picture with 256 colours, a third of the size."""
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256)
    image.save(ROOT / "docs" / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
