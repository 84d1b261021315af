"""The notebooks run from top to bottom. Jupyter is not needed: its few commands in them are done here."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, quick_path
from matplotlib.figure import Figure

from nmt.api.translations import Translation
from nmt.errors import user_folders

FOLDER = ROOT / "docs" / "notebooks"
PAIRS = "data.train.count=10000"
FEWER = "data.train.count=1000 data.valid.count=20 data.tests.test.count=50"  # or each notebook would train for minutes


def read_cells(name: str) -> list[str]:
    cells = json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)  # they would go out of date
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert PAIRS in "".join(sources)
    return [source.replace(PAIRS, FEWER) for source in sources]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line, which Jupyter shows."""
    magic, _, text = source.partition("\n")
    if magic.startswith("%%writefile "):
        return Path(magic.split()[1]).write_text(f"{text}\n", encoding="utf-8")
    source = re.sub(r"^%matplotlib inline$", "", source, flags=re.M)
    source = re.sub(r"^%cd -q (.*)$", r"os.chdir('\1')", source, flags=re.M)
    source = re.sub(r"^!((?:.*\\\n)*.*)$", r"run_shell(r'''\1''')", source, flags=re.M)
    *lines, last = ast.parse(source).body
    is_value = isinstance(last, ast.Expr)
    exec(compile(ast.Module(lines if is_value else [*lines, last], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if is_value else None


def run_shell(line: str) -> None:
    environment = os.environ | {"PATH": quick_path()}
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def run_notebook(tmp_path, monkeypatch):
    """Return a function that runs a notebook in an otherwise empty checkout, and returns its variables and values."""
    place = tmp_path / "docs" / "notebooks"
    place.mkdir(parents=True)
    for name in ("train.py", "evaluate.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(name: str) -> tuple[dict[str, Any], list[Any]]:
        names: dict[str, Any] = {"os": os, "run_shell": run_shell}
        return names, [run_cell(cell, names) for cell in read_cells(name)]

    yield run
    user_folders.clear()
    sys.modules.pop("my_parts", None)


def test_the_first_look_trains_translates_draws_and_compares(run_notebook):
    names, values = run_notebook("first_look.ipynb")
    (translation,) = (value for value in values if isinstance(value, Translation))
    assert set(translation.traces) == {"coverage"}
    assert any(isinstance(value, Figure) for value in values)
    assert {system["system"] for system in names["compared"].tables["systems"]} == {"additive", "coverage"}
    assert Path("outputs/first_look/compare.html").is_file()


def test_the_notebook_of_a_mechanism_writes_checks_trains_and_draws_it(run_notebook):
    names, values = run_notebook("own_mechanism.ipynb")
    assert names["summary"]["last"]["train/loss"] < 0.3
    assert type(names["model"]._runs[0].model.decoder.attention.score) is names["Distance"]
    assert isinstance(values[-1], Translation)
