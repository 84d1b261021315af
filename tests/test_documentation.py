"""The documents agree with one another and with the program."""

import inspect
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from code_blocks import find_blocks, parse_command
from commands import ROOT, answer
from documented_files import write_users_folder
from omegaconf import OmegaConf
from readability import count_syllables, reading_ease, sentences, words

from nmt.api.compared_runs import ComparedRuns
from nmt.api.loaded_model import Model
from nmt.api.translations import Translation
from nmt.cli.arguments import read_arguments
from nmt.cli.evaluate import choose_task
from nmt.cli.run_arguments import split_runs

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HAND_WRITTEN = [path for path in DOCUMENTS if "results" not in path.parts]  # the results are written by studies/
FIRST_PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


pytestmark = pytest.mark.usefixtures("forgotten_users_folder")


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
    for name in ("search", "evaluate", "translate", "compare", "align"):
        keys = OmegaConf.load(ROOT / "conf" / f"{name}.yaml").keys() - {"defaults"}
        assert [key for key in keys if f"<code>{key}</code>" not in page] == []
    rows = re.findall(r"<tr>\s*<td><code>(.*?)</code></td>\s*<td>.*?</td>\s*<td>(.*?)</td>", page)
    assert len(rows) > 500
    assert [key for key, meaning in rows if not meaning] == []
    interface = (site / "api.html").read_text(encoding="utf-8")
    for entry in (Model, Translation, ComparedRuns):
        public = [name for name, member in inspect.getmembers(entry, inspect.isfunction) if not name.startswith("_")]
        assert public
        assert [name for name in public if f">{entry.__name__}.{name}<" not in interface] == []
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


@pytest.mark.slow
@pytest.mark.xdist_group("the site")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_pages_fit_narrow_and_wide_windows_in_light_and_dark(site, browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for name in ("index", "tutorial", "mechanisms", "concepts", "keys", "results/multi30k_ende"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        shown = page.locator("article img").filter(visible=True)
        assert shown.evaluate_all("images => images.every(image => image.naturalWidth > 0)"), name
        background, text = (
            sum(map(int, re.findall(r"\d+", page.evaluate(f"getComputedStyle(document.body)['{what}']"))[:3]))
            for what in ("background-color", "color")
        )
        assert (background < 200 < text) if scheme == "dark" else (text < 500 < background), name
    page.close()


SHELLS = ("", "sh", "bash")
OTHER_PROGRAMS = {
    ".", "apptainer", "awk", "cd", "comet/bin/comet-score", "cp", "export", "for", "jq", "mkdir", "paste", "pip",
    ".venv/bin/pip", "ray/bin/pip", "ray/bin/ray", "wandb", "wc",
}  # fmt: skip
PYTHON = re.compile(r"(?:\S*/)?python (?:-m (?P<module>[\w.]+)|(?P<file>[\w/]+\.py)|-c)")
SHOWN = {  # indented blocks that are no commands, by how they begin
    "code.md": ["train.py evaluate.py translate.py"],
    "data.md": ["pairs  "],  # what align.py prints
    "evaluation.md": ["attention received"],
    "experiments.md": ["# @package _global_"],  # test_the_table_of_the_document_composes
    "faq.md": ["@software{"],
    "mechanisms.md": ["read:   e_ij"],
    "scaling.md": ["status=$?"],  # test_a_container_s_script_requeues_what_was_stopped_and_keeps_the_status
    "settings.md": ["outputs/<name>/<time>/"],
    "translation.md": ["log P(y | x)"],
    "tutorial.md": ["pairs = list(", "a, b = "],  # test_the_other_ways_to_split
    "wandb.md": ["logger=wandb: W&B cannot be reached"],
}
FENCED = {  # the documents whose blocks of a language have a test of their own
    "math": ["concepts.md"],  # the site's equations
    "sh": ["tutorial.md"],
    "python": ["README.md", "python.md", "evaluation.md", "extending.md", "tutorial.md"],  # tests/end_to_end
    "yaml": ["extending.md", "tutorial.md"],
    "text": ["tutorial.md"],
}
BLOCKS = [block for document in HAND_WRITTEN for block in find_blocks(document) if block.language in SHELLS]
BLOCKS = [block for block in BLOCKS if not block.text.strip().startswith(tuple(SHOWN.get(block.document.name, ["\0"])))]
COMMANDS = {line: command for block in BLOCKS for line in block.lines if (command := parse_command(line))}
WITHOUT_PLUGIN = re.compile(r"\+?hydra(/launcher=ray|\.launcher\.ray\.)")


def is_tested(line: str) -> bool:
    """Return whether a line is a command that a test reads, that exists, or that is of another program."""
    python = PYTHON.match(line)
    if line in COMMANDS or line.startswith(("error: ", *OTHER_PROGRAMS)):
        return True
    if python:
        return (ROOT / python["file"]).is_file() if python["file"] else find_spec(python["module"] or "sys") is not None
    return line.startswith("make ") and f"\n{line.split()[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", HAND_WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_code_block_is_tested(document):
    for block in find_blocks(document):
        assert block.language in ("", "bash") or document.name in FENCED[block.language], block.text
    blocks = [block for block in BLOCKS if block.document == document and block.language not in FENCED]
    assert [line for block in blocks for line in block.lines if not is_tested(line)] == []


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line, (verb, _) in COMMANDS.items() if verb == "train" and line[0] != "$"])
def test_every_training_command_composes(line, tmp_path, capfd, monkeypatch):
    """A sweep is represented by its first job."""
    arguments = [word for word in COMMANDS[line][1] if word != "FOLDER" and not WITHOUT_PLUGIN.match(word)]
    if "user_dir=my_project" in arguments:
        write_users_folder(tmp_path)
        monkeypatch.chdir(tmp_path)
    if "experiment=captions" in arguments:  # of the tutorial, whose own test trains with it
        arguments.remove("experiment=captions")
    instead = {"data=NAME": "data=text", "attention=additive,cosine": "attention=additive"}
    arguments = [instead.get(word, word) for word in arguments]
    shows = [] if {"--help", "--cfg"} & set(arguments) else ["--cfg", "job"]
    status, log = answer("train", *arguments, *shows, capture=capfd, monkeypatch=monkeypatch)
    assert status == 0, log


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line, (verb, _) in COMMANDS.items() if verb != "train"])
def test_every_other_command_is_understood(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_users_folder(tmp_path)
    verb, words = COMMANDS[line]
    arguments = [word.replace("*", "seed=1") for word in words]
    for word in arguments:
        if "/" in word.partition("=")[0] or "=" not in word:
            (tmp_path / word).mkdir(parents=True, exist_ok=True)
    runs, others = split_runs(verb, arguments)
    settings, data_overrides = read_arguments(verb, others, usage="", takes_data=verb == "evaluate")
    assert runs or settings.get("run") or settings.get("runs")
    if verb == "evaluate":
        choose_task(settings, data_overrides)


ERRORS = re.compile(r"^    \$ python train\.py (?P<arguments>.*)\n    (?P<error>error: .*?)(?: …)?$", re.M)


@pytest.mark.slow
@pytest.mark.parametrize("document", ["faq.md", "tutorial.md"])
def test_a_shown_error_is_that_of_the_command(document, tmp_path, capfd, monkeypatch):
    shown = ERRORS.search((ROOT / "docs" / document).read_text(encoding="utf-8"))
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "captions.yaml").touch()  # which a reader of the tutorial has written
    arguments = (*shlex.split(shown["arguments"]), f"user_dir={tmp_path}")
    _, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert stderr.startswith(shown["error"])


@pytest.mark.slow
def test_the_table_of_the_document_composes(tmp_path, capfd, monkeypatch):
    text = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    table, recipe = (
        block.text for block in find_blocks(ROOT / "docs" / "experiments.md") if "# @package" in block.text
    )
    assert all(name in text for name in ("conf/table/mine.yaml", "conf/experiment/mine/nmt.yaml"))
    for name, content in (("table/mine", table), ("experiment/mine/nmt", recipe)):
        file = tmp_path / "conf" / f"{name}.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(dedent(content), encoding="utf-8")
    arguments = ("-m", "+table=mine", "--cfg", "job", f"user_dir={tmp_path}")
    monkeypatch.setattr("sys.stdout", output := StringIO())
    assert answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)[0] == 0
    settings = OmegaConf.create(output.getvalue())
    assert (settings.name, settings.tabulated.table, settings.paper.rows.table3) == ("mine/nmt", "table3", "NMT")


def test_the_folders_of_the_code_page_exist():
    (block,) = find_blocks(ROOT / "docs" / "code.md")
    names = re.findall(r"^    (nmt/\w+|\w+/)", block.text, re.M)
    assert len(names) > 15
    assert [name for name in names if not (ROOT / name).is_dir()] == []


def test_traces_are_read_as_the_document_says(tmp_path, monkeypatch):
    (tmp_path / "FOLDER" / "test").mkdir(parents=True)
    np.savez(tmp_path / "FOLDER" / "test" / "traces.npz", **{"coverage/7": np.ones((2, 3), np.float16)})
    monkeypatch.chdir(tmp_path)
    (program,) = (block.text for block in find_blocks(ROOT / "docs" / "evaluation.md") if block.language == "python")
    values: dict = {}
    exec(program, values)
    assert values["coverage"].shape == (2, 3)


@pytest.mark.parametrize(("status", "requeued"), [(0, False), (1, False), (138, True), (143, True)])
def test_a_container_s_script_requeues_what_was_stopped_and_keeps_the_status(tmp_path, status, requeued):
    (lines,) = re.findall(r"\n\n((?: .*\n)*? +exit \$status\n)", (ROOT / "docs" / "scaling.md").read_text())
    script = f'scontrol() {{ echo "$@"; }}; (exit {status})\n{lines}'
    done = subprocess.run(
        ["bash", "-c", script], env={"SLURM_JOB_ID": "7"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (status, "requeue 7\n" * requeued)


@pytest.mark.parametrize(("part", "sizes"), [("a, b = ", [2000, 2000, 1000]), ("pairs = list(", [500, 500, 4000])])
def test_the_other_ways_to_split(tmp_path, monkeypatch, part, sizes):
    blocks = find_blocks(ROOT / "docs" / "tutorial.md")
    program = next(block.text for block in blocks if block.text.startswith("import random"))
    (other,) = (dedent(block.text) for block in blocks if block.text.strip().startswith(part))
    if part == "a, b = ":
        program = re.sub(r".*shuffle.*\n", "", program)
        program = re.sub(r"^parts = .*\n", other, program, flags=re.M)
    else:
        program = re.sub(r"^(pairs = .*\n)", rf"\1{other}", program, flags=re.M)
    (tmp_path / "mine").mkdir()
    for language in ("de", "en"):
        (tmp_path / "mine" / f"all.{language}").write_text("".join(f"{language} {number}\n" for number in range(5000)))
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    assert [
        len((tmp_path / "mine" / f"{name}.de").read_text().splitlines()) for name in ("test", "valid", "train")
    ] == sizes


EQUATION = re.compile(r"^\| `(\w+)=(\w+)` \| (.+) \|$", re.M)


def test_the_equations_of_the_parts_are_those_of_their_files():
    text = (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    equations = EQUATION.findall(text.partition("`attention/…=…`")[2].partition("\n\n")[0])
    assert len(equations) > 20
    for group, choice, equation in equations:
        first, *_ = (ROOT / "conf" / "attention" / group / f"{choice}.yaml").read_text(encoding="utf-8").split("\n")
        assert equation in first
