"""A copy of the project with small models and texts, in which documented commands take seconds."""

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from commands import ROOT, quick_python
from documented_files import write_users_folder

QUICKER = {  # in files of conf/
    "config.yaml": {"logger: local": "logger: none"},  # W&B takes as long as the rest of a short training
    "callbacks/default.yaml": {"count: 8": "count: 1"},  # drawings take longer than the training
}
SMALLER = QUICKER | {
    "trainer/default.yaml": {"max_steps: -1": "max_steps: 2", "_batches: 1.0": "_batches: 2"},
    "data/toy.yaml": {"count: 50000": "count: 60", "count: 500}": "count: 8}", "count: 1000": "count: 8"},
    "experiment/demo.yaml": {"count: 40000": "count: 60"},
    "experiment/multi30k.yaml": {"size: 10000": "size: 120"},
    "data/pydocs_zhen.yaml": {"size: 12000": "size: 120"},
}
SENTENCES = {
    "en": "a man is standing on a ladder",
    "de": "ein Mann steht auf einer Leiter",
    "fr": "un homme est sur une échelle",
    "zh": "一名男子站在梯子上",
}


def write_small_project(place: Path) -> None:
    """Write the code, small defaults, data sets, and the texts and code of a user."""
    for part in ("nmt", "conf", "hydra_plugins"):
        shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for verb in ("train", "evaluate", "translate", "compare", "align"):
        shutil.copy(ROOT / f"{verb}.py", place)
    for size in (place / "conf" / "size").glob("*.yaml"):
        shutil.copy(ROOT / "conf" / "size" / "tiny.yaml", size)
    change_defaults(place, SMALLER)
    write_data_sets(place / "data")
    write_texts(place)
    write_users_folder(place)


def change_defaults(place: Path, changes: dict[str, dict[str, str]]) -> None:
    for name, replacements in changes.items():
        content = (place / "conf" / name).read_text(encoding="utf-8")
        for long, short in replacements.items():
            assert long in content
            content = content.replace(long, short)
        (place / "conf" / name).write_text(content, encoding="utf-8")


def text(language: str, lines: int = 80) -> bytes:
    """Return lines of a language that begin alike and have other numbers."""
    words = SENTENCES[language].split()
    return "".join(f"{' '.join(words[: 3 + number % 4])} {number % 40} .\n" for number in range(lines)).encode()


def write_data_sets(place):
    names = ("train", "val", "test_2016_flickr", "test_2017_flickr")
    files = {f"multi30k/raw/{name}.{side}.gz": side for name in names for side in ("en", "de", "fr")}
    files |= {f"pydocs-zhen/{name}.{side}.gz": side for name in ("train", "dev", "test") for side in ("zh", "en")}
    for name, language in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(gzip.compress(text(language)))


def write_texts(place):
    for name in ("train", "dev", "test", "news", "hansards"):
        for language in SENTENCES:
            (place / f"{name}.{language}").write_bytes(text(language))
    (place / "news.en.gz").write_bytes(gzip.compress(text("en")))
    for name, language in (("source", "en"), ("source.txt", "en"), ("target.txt", "de")):
        (place / name).write_bytes(text(language, 5))
    (place / "nbest.txt").write_text("".join(f"{n} ||| ein Mann ||| -1.5\n" for n in range(5)), encoding="utf-8")
    pairs = zip(text("zh").decode().splitlines(), text("en").decode().splitlines(), strict=True)
    (place / "zhen.src-tgt").write_text("".join(f"{zh} ||| {en}\n" for zh, en in pairs), encoding="utf-8")
    for name in ("zhen.gold", "enfr.gold"):
        (place / name).write_text("1-1 2p2\n" * 80, encoding="utf-8")
    for language in ("en", "de"):
        vectors = [f"{word} {' '.join(map(str, np.ones(300)))}\n" for word in SENTENCES[language].split()]
        (place / f"cc.{language}.300.vec.gz").write_bytes(gzip.compress("".join(vectors).encode()))


def run_shell(place: Path, script: str, python: str | None = None, **variables: str) -> str:
    """Run commands in a shell with a given `python`, or with one that starts quickly, and return their output."""
    environment = os.environ | {"WANDB_MODE": "offline"} | variables
    environment.pop("NMT_DATA", None)  # or the large data sets would be read
    folders = [os.path.dirname(python or quick_python()), os.path.dirname(sys.executable)]
    environment["PATH"] = os.pathsep.join([*folders, environment["PATH"]])
    shell = ["bash", "-e", "-o", "pipefail", "-c", script]
    done = subprocess.run(shell, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr
