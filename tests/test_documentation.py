"""The documents agree with one another and with the program."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, answer
from readability import count_syllables, reading_ease, sentences, words

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HAND_WRITTEN = [path for path in DOCUMENTS if "results" not in path.parts]  # the results are written by studies/
FIRST_PAGES = [ROOT / "README.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
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


@pytest.mark.parametrize("document", HAND_WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_sentence_has_more_than_thirty_words(document):
    found = sentences(document.read_text(encoding="utf-8"))
    assert [sentence for sentence in found if len(words(sentence)) > 30] == []


@pytest.mark.parametrize("document", FIRST_PAGES, ids=lambda path: path.name)
def test_first_pages_are_easy_to_read(document):
    assert reading_ease(document.read_text(encoding="utf-8")) > 50


def test_sentences_are_those_of_paragraphs_and_items():
    page = "# A heading\n\nTwo `a b`. Run\n[it](x.md) now:\n\n    code. More code.\n\n"
    page += "- First. `Second` one\n  goes on.\n\n| a. B. |\n"
    assert sentences(page) == ["Two Code.", "Run it now:", "First.", "Code one goes on."]
    assert words("BLEU of 0.5, p < 0.05: it's all") == ["BLEU", "of", "0.5", "p", "0.05", "it's", "all"]


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("the", 1),
        ("make", 1),
        ("table", 2),
        ("trained", 1),
        ("started", 2),
        ("attention", 3),
        ("words", 1),
        ("BLEU", 1),
    ],
)
def test_syllables_are_counted(word, count):
    assert count_syllables(word) == count


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # strict: a broken link is an error
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("the site")
def test_the_site_has_every_key_and_typeset_equations(site):
    page = (site / "keys.html").read_text(encoding="utf-8")
    for key in ("length_penalty", "vocabulary.minimum_count", "graphs", "spike"):
        assert f"{key}</code>" in page
    assert (site / "results" / "multi30k_ende.html").is_file()
    equations = (site / "concepts.html").read_text(encoding="utf-8")
    assert equations.count("<math") == len(re.findall(r"```math|\$`", (ROOT / "docs" / "concepts.md").read_text()))


@pytest.mark.slow
@pytest.mark.xdist_group("the site")
def test_search_works_from_the_disk_without_a_network(site, browser):
    page, requests = browser.new_page(viewport={"width": 1400, "height": 900}), []
    page.on("request", lambda request: requests.append(request.url))
    for query, name in (("local-p", "mechanisms"), ("resume", "experiments"), ("BLEU", "evaluation")):
        page.goto((site / "index.html").as_uri())
        page.fill("[data-md-component=search-query]", query)
        page.wait_for_selector(f".md-search-result__link[href*='{name}.html']", state="attached")
    assert [url for url in requests if url.startswith("http")] == []


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
