"""Pages of the site that are made from other files, and equations.

The start page is made from README.md, the page of all keys from conf/, that of the Python interface from its
docstrings. Equations are LaTeX, which GitHub typesets:
```math blocks, and $`…`$ in a line. The site has them as MathML, which browsers draw without a script or a font.
"""

import html
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from nmt.api.compared_runs import ComparedRuns, compare
from nmt.api.loaded_model import Model, load
from nmt.api.translations import Translation
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
    for path in sorted((ROOT / "conf").rglob("*.yaml"), key=lambda path: (len(path.parts), path)):
        name = path.relative_to(ROOT / "conf").as_posix()
        if name.startswith(("experiment/", "table/", "hydra/")):  # they set keys of other files
            continue
        rows = list(_read_rows(path.read_text(encoding="utf-8")))
        if rows:
            yield f"\n## {name}\n\n| key | default | meaning |\n|---|---|---|"
            yield from (f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)


def _read_rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield key, default and comment of each key that has one of both; names with a _ are Hydra's."""
    for key, default, comment in read_keys(text):
        if (default or comment) and not key.rpartition(".")[2].startswith("_"):
            yield f"`{key}`", f"`{default}`" if default else "", comment


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
