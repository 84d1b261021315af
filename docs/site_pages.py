"""Pages of the site that are made from other files, and equations.

The start page is made from README.md, the page of all keys from conf/. Equations are LaTeX, which GitHub typesets:
```math blocks, and $`…`$ in a line. The site has them as MathML, which browsers draw without a script or a font.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
EQUATION = re.compile(
    r'<pre><code class="language-math">(?P<block>.*?)</code></pre>|\$<code>(?P<inline>.*?)</code>\$', re.S
)
KEY = re.compile(r"^(?P<indent> *)(?P<key>[\w./]+|'[^']+'):(?P<value>(?: +[^#\s][^#]*?)?)(?: +# (?P<comment>.*))?$")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "CHANGELOG.md")}
    pages["CITATION.cff"] = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages["index.md"] = re.sub(r'(\]\(|src="|srcset=")docs/', r"\1", readme)
    pages["CONTRIBUTING.md"] = pages["CONTRIBUTING.md"].replace("](docs/", "](")
    pages["keys.md"] = "\n".join(describe_keys())
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
        rows = list(read_keys(path.read_text(encoding="utf-8")))
        if rows:
            yield f"\n## {name}\n\n| key | default | meaning |\n|---|---|---|"
            yield from (f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)


def read_keys(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield key, default and comment of each line of a YAML file that has a key."""
    parents: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = KEY.match(line)
        if match is None or match["key"] in ("defaults", "_target_", "_partial_", "_convert_"):
            continue
        indent = len(match["indent"])
        parents = [(depth, name) for depth, name in parents if depth < indent]
        key = ".".join([*(name for _, name in parents), match["key"]])
        value, comment = match["value"].strip(), match["comment"] or ""
        if not value:
            parents.append((indent, match["key"]))
        if value or comment:
            yield f"`{key}`", f"`{value}`" if value else "", comment
