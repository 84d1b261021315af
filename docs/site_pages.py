"""Pages of the site that are made from other files, and equations.

The start page is made from README.md, the page of all keys from conf/, that of the Python interface from its
docstrings. Equations are LaTeX, which GitHub typesets:
```math blocks, and $`…`$ in a line. The site has them as MathML, which browsers draw without a script or a font.
"""

import html
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from nmt.api.compared_runs import ComparedRuns, compare
from nmt.api.loaded_model import Model, load
from nmt.api.translations import Translation
from nmt.config.diff import flatten_settings
from nmt.config.key_list import read_keys

ROOT = Path(__file__).parents[1]
EQUATION = re.compile(
    r'<pre><code class="language-math">(?P<block>.*?)</code></pre>|\$<code>(?P<inline>.*?)</code>\$', re.S
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "CHANGELOG.md")}
    pages["CITATION.cff"] = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages["index.md"] = re.sub(r'(\]\(|src="|srcset=")docs/', r"\1", readme)
    pages["CONTRIBUTING.md"] = pages["CONTRIBUTING.md"].replace("](docs/", "](")
    pages["keys.md"] = "\n".join(describe_keys())
    pages["api.md"] = "\n".join(describe_interface())
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_content(content: str, **_) -> str:
    """Typeset the equations of a page."""
    return EQUATION.sub(_typeset, content)


def _typeset(equation: re.Match) -> str:
    latex = equation["block"] or equation["inline"]
    return convert(html.unescape(latex).strip(), display="block" if equation["block"] else "inline")


def describe_keys() -> Iterator[str]:
    """Yield the lines of a page with every key of conf/, its default and its comment."""
    yield "# Every key\n\nThe files of `conf/`, a table each. A group's choice comes with the keys of its file.\n"
    files = {path.relative_to(ROOT / "conf").as_posix(): path.read_text(encoding="utf-8") for path in list_files()}
    comments = read_comments(files)
    for name, text in files.items():
        if rows := list(read_rows(name, text, comments)):
            yield f"\n## {name}\n\n{read_header(text)}\n\n| key | default | meaning |\n|---|---|---|"
            yield from (f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)


def list_files() -> list[Path]:
    """Return the files of conf/ with keys of their own; recipes and tables set keys of other files."""
    files = sorted((ROOT / "conf").rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    others = ("experiment", "table", "hydra/help", "hydra/hydra_logging", "hydra/job_logging")
    return [path for path in files if not any(path.is_relative_to(ROOT / "conf" / folder) for folder in others)]


def read_header(text: str) -> str:
    """Return the comment at the beginning of a file as lines of code, because it may hold equations and commands."""
    header = re.match(r"(?:# @package.*\n)?((?:#.*\n)*)", text)[1]
    return re.sub("^# ?", "    ", header, flags=re.M).rstrip()


def read_comments(files: dict[str, str]) -> dict[tuple[str, str], str]:
    """Return the comment of each key by its group of files, by its full name and by the last part of it."""
    comments: dict[tuple[str, str], str] = {}
    for name, text in files.items():
        for key, _, comment in flatten_keys(text):
            for part in (key, key.rpartition(".")[2]) if comment else ():
                comments.setdefault((find_group(name), part), comment)
                comments.setdefault(("", part), comment)
    return comments


def find_group(name: str) -> str:
    """Return the folder of a file in conf/."""
    return name.rpartition("/")[0]


def read_rows(name: str, text: str, comments: dict[tuple[str, str], str]) -> Iterator[tuple[str, str, str]]:
    """Yield key, default and meaning of each key; names with a _ are Hydra's."""
    for key, default, comment in flatten_keys(text):
        first, _, rest = key.partition(".")
        last = key.rpartition(".")[2]
        if last.startswith("_") or not (default or comment):
            continue
        group = find_group(name)
        places = ((group, key), (first, rest), (group, last), ("", key))
        others = [comments[place] for place in places if place in comments]
        same = re.fullmatch(r"\$\{([\w.]+)\}", default)
        meaning = comment or (f"as `{same[1]}`" if same else next(iter(others), ""))
        yield f"`{key}`", f"`{default}`" if default else "", meaning


def flatten_keys(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a file; those of settings in one line, {split: test, count: 8}, one by one."""
    for key, default, comment in read_keys(text):
        if default.startswith("{") and "_target_" not in default:
            leaves = flatten_settings(yaml.safe_load(default))
            shared = comment if len(leaves) == 1 else ""
            for name, value in leaves.items():
                yield f"{key}.{name}" if name else key, json.dumps(value, ensure_ascii=False), shared
        else:
            yield key, default, comment


def describe_interface() -> Iterator[str]:
    """Yield the lines of a page with the functions and classes of the Python interface and their docstrings."""
    yield "# The Python interface\n\n[From Python](python.md) shows how to use it.\n"
    for entry in (load, Model, Translation, compare, ComparedRuns):
        yield from _describe(entry, entry.__name__, heading="##")
        if inspect.isclass(entry):
            for name, member in vars(entry).items():
                if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                    yield from _describe(member, f"{entry.__name__}.{name}", heading="###")


def _describe(entry: Any, name: str, heading: str) -> Iterator[str]:
    signature = f"{name}{inspect.signature(entry)}" if inspect.isfunction(entry) else name
    yield f"\n{heading} {name}\n\n```\n{signature}\n\n{inspect.getdoc(entry)}\n```"
