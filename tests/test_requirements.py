"""The ranges of the installed package and the pins of the project's own environment."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import nmt

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins():
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            if match := re.match(r"([\w-]+)==([\d.]+)", line):
                yield match[1], match[2]


def test_ci_tests_the_python_versions_that_the_package_accepts():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    tested = dict.fromkeys(re.findall(r'"(3\.\d+)"', workflow))
    accepted = SpecifierSet(PROJECT["requires-python"])
    assert list(tested) == [version for version in (f"3.{minor}" for minor in range(30)) if version in accepted]


def test_every_pin_lies_in_the_range_of_the_package():
    extras = [text for texts in PROJECT["optional-dependencies"].values() for text in texts]
    ranges = {one.name: one.specifier for one in map(Requirement, [*PROJECT["dependencies"], *extras])}
    assert dict(pins()).keys() == ranges.keys()
    assert [f"{name}=={version}" for name, version in pins() if version not in ranges[name]] == []


def test_lock_file_has_a_hash_of_every_pinned_package_but_torch():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    locked = {re.split("[ ;]", line)[0]: line.count("--hash=sha256:") for line in lines}
    assert {name for name, version in pins() if f"{name.lower()}=={version}" not in locked} == {"torch"}
    assert min(locked.values()) > 0


def test_lock_file_names_no_index():
    assert "://" not in (ROOT / "requirements.lock").read_text(encoding="utf-8")


def test_changelog_and_citation_name_the_version():
    assert f"\n## {nmt.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {nmt.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
