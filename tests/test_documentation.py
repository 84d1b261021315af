"""The documents agree with one another and with the program."""

import re
import shlex
from pathlib import Path

import pytest
from commands import ROOT, answer

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
COMMAND = re.compile(r"^    (?:nmt-train|python train\.py) ((?:.*\\\n)*.*)$", re.M)
# what a reader fills in, and what has no single configuration
UNFINISHED = ("…", "FOLDER", "RUN", "OWNER", "mine", "VALUE", "CHOICE", "--help", "--config-dir", "--cfg", "choice(")


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
    """Of a sweep, the first job."""
    arguments = shlex.split(re.sub(r"[\[\]]", "", command) if "-m " in command else command, comments=True)
    if "-m" in arguments:
        arguments = [re.sub(r"^(\+?[\w./]+=[^,]*),.*", r"\1", argument) for argument in arguments if argument != "-m"]
    status, log = answer("train", *arguments, "--cfg", "job", capture=capfd, monkeypatch=monkeypatch)
    assert status == 0, log
