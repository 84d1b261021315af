"""Lines of n-best lists: number ||| text ||| score …, like Moses without features, with ||| escaped within a text."""

SEPARATOR = "|||"
ESCAPED_SEPARATOR = "&#124;&#124;&#124;"


def format_nbest_line(number: int, text: str, *others: str) -> str:
    """Return a line of an n-best list."""
    return f" {SEPARATOR} ".join((str(number), text.replace(SEPARATOR, ESCAPED_SEPARATOR), *others))


def parse_nbest_line(line: str) -> tuple[int, str, float]:
    """Return number, text and score of a line; fields after the score are ignored.

    Raises:
        ValueError: A field is missing, or is not a number.
    """
    # append a space, because the last field may be empty and its space stripped
    number, text, score, *_ = f"{line} ".split(f" {SEPARATOR} ")
    return int(number), text.replace(ESCAPED_SEPARATOR, SEPARATOR), float(score)
