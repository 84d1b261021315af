"""docs/tutorial.md, followed on a tiny text in a copy of the project."""

import gzip
import os
import re
import shutil
import subprocess

import pytest
from commands import ROOT, quick_path
from small_project import QUICKER, change_defaults

PART = re.compile(
    r"^`(?P<file>[\w/.]+)`\n\n```\w+\n(?P<content>.*?)^```$|^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
SMALLER = {  # what takes long, or needs the network
    "python -m nmt.data.download multi30k": "true",
    "1000": "8",
    "size: demo": "size: tiny",
    "size: 4000": "size: 200",
    "max_epochs: 2": "max_epochs: 1",
    "trainer.max_epochs=8 schedule.after=6": "trainer.max_epochs=2 schedule.after=1",
    "seed=1,2,3": "seed=1,2",
}


@pytest.fixture
def checkout(tmp_path):
    for part in ("nmt", "conf", "hydra_plugins"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for command in ("train", "evaluate", "translate", "compare"):
        shutil.copy(ROOT / f"{command}.py", tmp_path)
    change_defaults(tmp_path, QUICKER)
    text = tmp_path / "data" / "multi30k" / "raw"
    text.mkdir(parents=True)
    for side, words in (("de", "ein Mann steht auf einer Leiter"), ("en", "a man is standing on a ladder")):
        lines = "".join(f"{' '.join(words.split()[: 3 + number % 4])} {number % 40} .\n" for number in range(80))
        (text / f"train.{side}.gz").write_bytes(gzip.compress(lines.encode()))
    return tmp_path


def find_missing(shown: str, output: str) -> list[str]:
    """Return the lines with a number that are shown, and not printed with any numbers; … stands for anything.

    Lines without a number are of the text, or a translation.
    """
    kinds = {"…": ".*", "number": r"\d[\d,.:_-]*"}
    lines = {}
    for line in re.findall(r"^ *(.*\d.*)$", shown, re.M):
        parts = re.split(rf"({kinds['number']}|…)", line)
        lines[line] = "".join(
            re.escape(part) if n % 2 == 0 else kinds.get(part, kinds["number"]) for n, part in enumerate(parts)
        )
    return [line for line, pattern in lines.items() if not re.search(f"^ *{pattern}", output, re.M)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_can_be_followed(checkout):
    text, output = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), ""
    for long, short in SMALLER.items():
        assert long in text
        text = text.replace(long, short)
    for part in PART.finditer(text):
        if part["file"]:
            (checkout / part["file"]).write_text(part["content"], encoding="utf-8")
        elif part["language"] == "sh":
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", part["text"]],
                cwd=checkout, env=os.environ | {"PATH": quick_path()}, capture_output=True, text=True, check=False,
            )  # fmt: skip
            output = done.stdout + done.stderr
            assert done.returncode == 0, f"{part['text']}\n{output}"
        else:
            assert find_missing(part["text"], output) == [], output
