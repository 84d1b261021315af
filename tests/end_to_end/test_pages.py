"""The commands of the pages, run in the order of each page, in a small copy of the project."""

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from code_blocks import Block, find_blocks
from commands import ROOT
from documented_files import write_users_folder

PAGES = ("README", "comparing", "data", "evaluation", "experiments", "python", "settings", "translation", "wandb")
SMALLER = {  # in files of conf/
    "trainer/default.yaml": {"max_steps: -1": "max_steps: 2", "_batches: 1.0": "_batches: 2"},
    "data/toy.yaml": {"count: 50000": "count: 60", "count: 500}": "count: 8}", "count: 1000": "count: 8"},
    "experiment/demo.yaml": {"count: 40000": "count: 60"},
    "experiment/multi30k.yaml": {"size: 10000": "size: 120"},
    "data/pydocs_zhen.yaml": {"size: 12000": "size: 120"},
}
NOT_RUN = re.compile(  # what needs a network or another program, serves a page, takes long, or has a test of its own
    r"make |\. \.venv|wandb sync|python -m nmt\.data\.download|python -c|curl|jq"
    r"|.*(\bpip install|serve=true|hf:|\bcomet=|wandb_workspace|--help|\+table=.*seed=1,2,3)"
)
INSTEAD = {
    r"\[([\w.]+=[^\]\s]*)\](?=\s|$)": r"\1",  # [beam=10] of a synopsis
    r" (…|\[KEY=VALUE …\])": "",
    r"RUN_OR_SWEEP|multirun/NAME": "multirun/first",
    r"=NAME\b": "=test_2016",
    r"baseline=RUN\b": "baseline=attention=additive",
    r"data=test_2016": "data=multi30k",
    r"ckpt_path=FOLDER": "data=multi30k trainer.max_steps=4 ckpt_path=outputs/first",
    r"\bOTHER\b|outputs/general/RUN": "outputs/second",
    r"runs=\[A,B,C,D\]": "runs=[outputs/first,outputs/second]",
    r"\bFOLDER\b": "outputs/first",
    r"seed=1,2,3": "seed=1,2",
    r"data.vocabulary.size=\d+": "data.vocabulary.size=120",
    r"n_trials=\d+": "n_trials=2",
}
SENTENCES = {
    "en": "a man is standing on a ladder",
    "de": "ein Mann steht auf einer Leiter",
    "fr": "un homme est sur une échelle",
    "zh": "一名男子站在梯子上",
}


def text(language: str, lines: int = 80) -> bytes:
    """Return lines of a language that begin alike and have other numbers."""
    words = SENTENCES[language].split()
    return "".join(f"{' '.join(words[: 3 + number % 4])} {number % 40} .\n" for number in range(lines)).encode()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a copy of the project with small defaults, data sets, texts of a user, two runs and a sweep."""
    place = tmp_path_factory.mktemp("project")
    for part in ("nmt", "conf", "hydra_plugins"):
        shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for verb in ("train", "evaluate", "translate", "compare", "align"):
        shutil.copy(ROOT / f"{verb}.py", place)
    for size in (place / "conf" / "size").glob("*.yaml"):
        shutil.copy(ROOT / "conf" / "size" / "tiny.yaml", size)
    for name, changes in SMALLER.items():
        content = (place / "conf" / name).read_text(encoding="utf-8")
        for long, short in changes.items():
            assert long in content
            content = content.replace(long, short)
        (place / "conf" / name).write_text(content, encoding="utf-8")
    write_data_sets(place / "data")
    write_texts(place)
    write_users_folder(place)
    for name in ("first", "second"):
        run(place, f"python train.py data=multi30k logger=none hydra.run.dir=outputs/{name}")
    sweep = "experiment=multi30k attention=additive,coverage seed=1,2 sweep=first"
    run(place, f"python train.py -m {sweep} score_test=true")
    return place


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


def run(place, line: str) -> str:
    """Run a line in a shell in which `python` is this one, and return its output."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "WANDB_MODE": "offline"}
    shell = ["bash", "-e", "-o", "pipefail", "-c", line]
    done = subprocess.run(shell, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def lines_to_run(block: Block) -> list[str]:
    """Return the commands of a block with names for its placeholders; none of a block that shows no commands."""
    if block.language == "python" and block.document.name == "README.md":  # other pages' have tests of their own
        return [f"python -c {shlex.quote(block.text)}"]
    if block.language not in ("", "sh", "bash") or not re.search(r"python |nmt-", block.text):
        return []
    lines = [line for line in block.lines if not NOT_RUN.match(line)]
    for pattern, replacement in INSTEAD.items():
        lines = [re.sub(pattern, replacement, line) for line in lines]
    return lines


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_in_its_order(prepared, tmp_path, page):
    place = shutil.copytree(prepared, tmp_path / "project")
    (document,) = ROOT.glob(f"{page}.md") if page == "README" else (ROOT / "docs").glob(f"{page}.md")
    blocks = sorted(find_blocks(document), key=lambda block: document.read_text(encoding="utf-8").index(block.text))
    lines = [line for block in blocks for line in lines_to_run(block)]
    assert lines
    for line in lines:
        run(place, line)
