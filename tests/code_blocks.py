"""Find the code blocks of the documents, and the commands in them."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

FENCED = re.compile(r"^( *)```(?P<language>\w*)\n(?P<text>.*?)^\1```$", re.M | re.S)
INDENTED = re.compile(r"(?:\A|(?<=\n\n))(?P<text>(?: {4}.*\n(?:\n+(?= {4}))?)+)")
CONTINUED = re.compile(r"\\\n\s*|(?<=\|)\n\s*")
BEHIND = re.compile(r" {2,}.*$|\s+# .*$")  # a comment, or a description in a second column
OURS = re.compile(
    r"(?:^|[\s/])(?:nmt-(?P<installed>\w+)|(?P<verb>train|evaluate|translate|compare)\.py)(?= |$)(?P<rest>.*)"
)
OPTIONAL = re.compile(r"\[([\w.]+=[^\]\s]*)\](?=\s|$)")  # [beam=10] of a synopsis
NOT_ARGUMENTS = {"$@", "…", "[KEY=VALUE", "…]", "|", ">", "<", "&&", "target", "source"}


class Block(NamedTuple):
    """A code block: its language, empty if none is written, and its lines."""

    document: Path
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Return the lines, without comments; a line that ends with a backslash goes on in the next one."""
        lines = [BEHIND.sub("", line.strip()) for line in CONTINUED.sub("", self.text).splitlines()]
        return [line for line in lines if line and not line.startswith("#")]


def find_blocks(document: Path) -> list[Block]:
    """Return the fenced and the indented code blocks of a document."""
    text = document.read_text(encoding="utf-8")
    fenced = [Block(document, match["language"], match["text"]) for match in FENCED.finditer(text)]
    rest = FENCED.sub("", text)
    return fenced + [Block(document, "", match["text"]) for match in INDENTED.finditer(rest)]


def parse_command(line: str) -> tuple[str, list[str]] | None:
    """Return verb and arguments of a command of this project, without what is open (…); None for another line."""
    match = OURS.search(line)
    if match is None:
        return None
    rest = OPTIONAL.sub(r"\1", match["rest"].partition(";")[0]).replace("$beam", "5")
    arguments = [word for word in shlex.split(rest, comments=True) if word not in NOT_ARGUMENTS]
    return match["verb"] or match["installed"], arguments
