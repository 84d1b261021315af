"""The fingerprint of the code that trains a run."""

import ast

import pytest
from compositions import configured

from nmt.runs import code_fingerprint
from nmt.runs.code_fingerprint import code_version, digest_of, strip_comments

PROGRAM = '''"""A module."""

class Half:
    """Divides by two."""

    factor = 0.5  # of all

    def of(self, x):
        """x / 2"""
        return self.factor * x
'''


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (PROGRAM.replace("Divides by two", "Halves").replace("  # of all", ""), True),
        (PROGRAM.replace("        return self", "\n        # an equation\n        return self"), True),
        (PROGRAM.replace('        """x / 2"""\n', ""), True),
        (PROGRAM.replace("0.5", "0.4"), False),
        (PROGRAM.replace("self.factor * x", "x * self.factor"), False),
        (PROGRAM.replace("factor = 0.5", "factor = '0.5'"), False),
    ],
)
def test_comments_and_docstrings_do_not_change_the_digest(now, same):
    assert (ast.unparse(strip_comments(now)) == ast.unparse(strip_comments(PROGRAM))) is same


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package's folder with a score, whose files a test may change."""
    attention = tmp_path / "model" / "attention"
    attention.mkdir(parents=True)
    (attention / "score.py").write_text(
        "from nmt.model.tools import half\nfrom nmt.data.text import read\nSIZE = 3\n"
        "class Dot:\n    def energies(self, x):\n        return half(x) * SIZE\n"
        "class Cosine(Dot):\n    pass\n"
    )
    (tmp_path / "model" / "tools.py").write_text("def half(x):\n    return x / 2\ndef twice(x):\n    return 2 * x\n")
    monkeypatch.setattr(code_fingerprint, "PACKAGE", tmp_path)

    def change(file, before, after):
        text = (tmp_path / file).read_text()
        assert before in text
        (tmp_path / file).write_text(text.replace(before, after))
        forget()

    def forget():
        for function in ("digest_of", "_references", "_definitions", "_imports", "_tree"):
            getattr(code_fingerprint, function).cache_clear()

    forget()
    yield change
    forget()


@pytest.mark.parametrize(
    ("file", "before", "after", "changed"),
    [
        ("model/attention/score.py", "SIZE = 3", "SIZE = 4", {"Dot", "Cosine"}),
        ("model/tools.py", "x / 2", "x / 3", {"Dot", "Cosine"}),
        ("model/tools.py", "2 * x", "3 * x", set()),
        ("model/attention/score.py", "pass", "size = 1", {"Cosine"}),
        ("model/attention/score.py", "class Cosine", "class New:\n    pass\nclass Cosine", set()),
    ],
)
def test_a_change_counts_for_the_classes_that_refer_to_it(package, file, before, after, changed):
    paths = {name: f"nmt.model.attention.score.{name}" for name in ("Dot", "Cosine")}
    earlier = {name: digest_of(path) for name, path in paths.items()}
    package(file, before, after)
    assert {name for name, path in paths.items() if digest_of(path) != earlier[name]} == changed


def test_a_configuration_names_the_code_that_it_uses():
    version = code_version(configured("attention=coverage"))
    assert version["nmt.model.attention.coverage.NeuralGRU"] != version["nmt.model.attention.score.Additive"]
    assert "nmt.model.attention.coverage.Fertility" not in version
    assert len(version["nmt.training.experiment.train"]) == len(version["nmt.data.batches.BatchLoader"]) == 16
    plain = code_version(configured())
    assert all(version[target] == digest for target, digest in plain.items())


def test_the_plan_and_the_making_of_batches_count_for_every_run():
    names = {name for _, name in code_fingerprint._reach(("nmt.data.batches", "BatchLoader"))}
    assert {"BatchPlan", "sort_by", "collate", "GivenLinks"} <= names


@pytest.fixture
def user_dir(package, tmp_path, monkeypatch):
    """A user's folder with a score that refers to three other files; returns what changes them."""
    folder = tmp_path / "project"
    (folder / "inner").mkdir(parents=True)
    (folder / "my_parts.py").write_text(
        "import tools\nfrom inner.sizes import size\nfrom nmt.model.attention.score import Dot\n"
        "class Mine(Dot):\n    def energies(self, x):\n        return tools.thrice(x) * size()\n"
        "class Other:\n    pass\n"
    )
    (folder / "tools.py").write_text("def thrice(x):\n    return 3 * x\n")
    (folder / "inner" / "__init__.py").write_text("SIZE = 5\n")
    (folder / "inner" / "sizes.py").write_text("from . import SIZE\ndef size():\n    return SIZE\n")
    monkeypatch.setattr(code_fingerprint, "user_folders", [str(folder)])
    return lambda file, before, after: package(f"project/{file}", before, after)


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("my_parts.py", "* size()", "+ size()"),
        ("tools.py", "3 * x", "4 * x"),
        ("inner/sizes.py", "return SIZE", "return SIZE + 1"),
        ("inner/__init__.py", "5", "6"),
        ("../model/tools.py", "x / 2", "x / 3"),
    ],
)
def test_a_change_of_the_users_code_counts_for_the_users_class(user_dir, file, before, after):
    targets = ("my_parts.Mine", "my_parts.Other")
    mine, other = map(digest_of, targets)
    user_dir(file, before, after)
    assert digest_of("my_parts.Mine") != mine
    assert digest_of("my_parts.Other") == other


def test_a_configuration_names_the_users_code(user_dir):
    config = configured("++attention.score._target_=my_parts.Mine")
    assert code_version(config)["my_parts.Mine"] == digest_of("my_parts.Mine")
