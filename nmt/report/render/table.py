"""A table, and its Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nmt.errors import make_printable


class Bold(str):
    """A cell in bold."""


@dataclass(frozen=True)
class Table:
    """Columns with their heads, and rows of cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    alignment: Sequence[str] = ()  # of each column: --- (default), ---: for the right, :---: for the middle

    def drop_empty_columns(self) -> "Table":
        """Return the table without the columns in which all cells are empty."""
        kept = [place for place in range(len(self.columns)) if any(row[place] != "" for row in self.rows)]
        columns, *rows = ([cells[place] for place in kept] for cells in (self.columns, *self.rows))
        return Table(columns, rows, [self.alignment[place] for place in kept] if self.alignment else ())

    def to_markdown(self) -> list[str]:
        """Return the lines of the table in Markdown."""
        alignment = self.alignment or ["---"] * len(self.columns)
        rows = [[escape_markdown(cell) for cell in row] for row in (self.columns, *self.rows)]
        return [f"| {' | '.join(cells)} |" for cells in (rows[0], alignment, *rows[1:])]


def escape_markdown(value: Any) -> str:
    """Return text in which nothing is markup; a single * needs no escape."""
    text = make_printable(" ".join(str(value).split())).replace("\\", "\\\\").replace("|", "\\|")
    text = (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "\\`").replace("](", "]\\(")
    )
    text = text.replace("*", "\\*") if text.count("*") > 1 else text
    return f"**{text}**" if isinstance(value, Bold) else text
