"""The scripts, styles and pages of nmt/web have short lines, short functions and no stray blanks."""

import re
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "nmt" / "web"
FILES = sorted(path for kind in ("js", "html", "css") for path in WEB.glob(f"*.{kind}"))
MAX_COLUMNS, MAX_LINES = 100, 60
# Prettier indents the closing brace of a function like its first line
FUNCTION = re.compile(r"^( *)\S.*(?:\)|=>) \{\n(?:.*\n)*?\1\}", re.MULTILINE)


def find_long_functions(script: str) -> list[str]:
    functions = [match[0] for match in FUNCTION.finditer(script)]
    return [function.split("\n")[0] for function in functions if function.count("\n") >= MAX_LINES]


def test_long_functions_and_methods_are_found():
    body = MAX_LINES * "    a();\n"
    assert find_long_functions(f"const f = (a) => {{\n{body}}};\n") == ["const f = (a) => {"]
    assert find_long_functions(f"class A {{\n  f() {{\n{body}  }}\n}}\n") == ["  f() {"]
    assert find_long_functions(f"class A {{\n  f() {{\n  }}\n{body}}}\n") == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_lines_and_functions_are_short(path):
    text = path.read_text(encoding="utf-8")
    assert [line for line in text.split("\n") if len(line) > MAX_COLUMNS or "\t" in line or line != line.rstrip()] == []
    assert find_long_functions(text) == []
