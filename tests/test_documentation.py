"""The documents agree with one another and with the program."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, answer

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
COMMAND = re.compile(r"^    (?:nmt-train|python train\.py) ((?:.*\\\n)*.*)$", re.M)
# what a reader fills in, and what has no single configuration
UNFINISHED = ("…", "FOLDER", "RUN", "OWNER", "mine", "my_project", "VALUE", "CHOICE", "--help", "--config-dir", "--cfg")
UNFINISHED += ("choice(",)


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(document):
    for match in LINK.finditer(document.read_text(encoding="utf-8")):
        target, _, anchor = (match[1] or match[2]).partition("#")
        if "://" in target:
            continue
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def test_the_first_page_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 100


@pytest.mark.slow
def test_the_site_is_built_and_has_every_key(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # strict: a broken link is an error
    page = (tmp_path / "keys.html").read_text(encoding="utf-8")
    for key in ("length_penalty", "vocabulary.minimum_count", "graphs", "spike"):
        assert f"{key}</code>" in page
    assert (tmp_path / "results" / "multi30k_ende.html").is_file()


def commands() -> list[str]:
    found = {
        re.sub(r"\\\n *", "", command).partition("  #")[0].strip()
        for document in DOCUMENTS
        if "results" not in document.parts  # their commands are those of kept runs
        for command in COMMAND.findall(document.read_text(encoding="utf-8"))
    }
    return sorted(command for command in found if not any(part in command for part in UNFINISHED))


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_every_training_command_composes(command, capfd, monkeypatch):
    """A sweep is represented by its first job."""
    arguments = shlex.split(re.sub(r"[\[\]]", "", command) if "-m " in command else command, comments=True)
    if "-m" in arguments:
        arguments = [re.sub(r"^(\+?[\w./]+=[^,]*),.*", r"\1", argument) for argument in arguments if argument != "-m"]
    status, log = answer("train", *arguments, "--cfg", "job", capture=capfd, monkeypatch=monkeypatch)
    assert status == 0, log
