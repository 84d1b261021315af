"""Measure the size of a comparison's page, and the time to write it, to open it and to search in it.

    python benchmarks/comparison_page.py RUNS SENTENCES

The runs are artificial, with sentences of about 20 words. All runs have the alignments of the first run.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from report import folders  # noqa: E402

from nmt.cli.arguments import read_arguments  # noqa: E402
from nmt.cli.compare import compare  # noqa: E402


def make_pairs(count: int) -> list[tuple[str, str]]:
    """Return random sentence pairs with the vocabulary of a language, in which some words are frequent."""
    random = np.random.default_rng(0)
    letters = np.array(list("aaabcdeeeefghiiklmnnooprrsstttuvwz"))
    words = ["".join(random.choice(letters, random.integers(2, 11))) for _ in range(8000)]
    folders.WORDS = tuple(words)
    frequency = 1 / np.arange(10, 8010)

    def sentence(length: int) -> str:
        return " ".join(random.choice(words, length, p=frequency / frequency.sum()))

    return [(sentence(length), sentence(length + 1)) for length in random.poisson(19, count) + 1]


def write_runs(folder: Path, count: int, sentences: int) -> None:
    """Write the first run; the others are copies with other settings and translations."""
    pairs, random = make_pairs(sentences), np.random.default_rng(1)
    first = folders.write_run(folder / "run0", lines=pairs, mistakes=0.2)
    config = (first / ".hydra" / "config.yaml").read_text()
    stored = [json.loads(line) for line in (first / "test" / "sentences.jsonl").read_text().splitlines()]
    for number in range(1, count):
        run = folder / f"run{number}"
        shutil.copytree(first, run, copy_function=os.link)
        changed = config.replace("dropout: 0.2", f"dropout: {0.1 + number // 10 / 20}")
        replace_file(run / ".hydra" / "config.yaml", changed.replace("hidden: 32", f"hidden: {32 * (number % 10 + 1)}"))
        for sentence, (_, reference) in zip(stored, pairs, strict=True):
            words = reference.split()
            for position in np.flatnonzero(random.random(len(words)) < 0.1 + 0.005 * number):
                words[position] = folders.WORDS[random.integers(len(folders.WORDS))]
            sentence["hypothesis"], sentence["words"] = " ".join(words), [*words, "</s>"]
        replace_file(run / "test" / "sentences.jsonl", "".join(json.dumps(sentence) + "\n" for sentence in stored))


def replace_file(path: Path, text: str) -> None:
    """Replace a file, because the old one is a hard link to that of the first run."""
    path.unlink()
    path.write_text(text, encoding="utf-8")


def time_page(path: Path) -> tuple[float, float, float]:
    """Return the seconds to show the sentences, to search in all of them, and to show alignments of several systems."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1400, "height": 900})
        started = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("article")
        shown = time.perf_counter()
        page.fill("#search", "no such words as these")
        page.get_by_text("No sentence contains").wait_for()
        searched = time.perf_counter()
        page.fill("#search", "")
        page.wait_for_selector("article")
        cleared = time.perf_counter()
        page.locator("article button:enabled").first.click()
        page.wait_for_selector(".heatmap")
        mapped = time.perf_counter()
        chromium.close()
    return shown - started, searched - shown, mapped - cleared


def main(count: int, sentences: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_runs(folder, count, sentences)
        settings, _ = read_arguments("compare", [f"output={folder}/compare.html"], usage="")
        started, cpu_started = time.perf_counter(), time.process_time()
        compare([str(folder)], settings)
        seconds_to_write, cpu = time.perf_counter() - started, time.process_time() - cpu_started
        size = (folder / "compare.html").stat().st_size / 1e6
        seconds = [time_page(folder / "compare.html") for _ in range(3)]
        shown, searched, mapped = (sorted(column)[1] for column in zip(*seconds, strict=True))
    print(
        f"{count} runs, {sentences} sentences: written in {seconds_to_write:.1f} s ({cpu:.1f} s of CPU), {size:.1f} MB"
    )
    print(
        f"medians of three: opened in {shown:.2f} s, searched in {searched:.2f} s, alignments opened in {mapped:.2f} s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int)
    parser.add_argument("sentences", type=int)
    options = parser.parse_args()
    main(options.runs, options.sentences)
