"""Lines of n-best lists, number ||| text ||| score …, as Moses writes them: what parts the fields is written otherwise
within a text, as Moses does with its |."""

BETWEEN, PARTING, WITHIN = " ||| ", "|||", "&#124;&#124;&#124;"


def nbest_line(number: int, text: str, *others: str) -> str:
    return BETWEEN.join((str(number), text.replace(PARTING, WITHIN), *others))


def read_nbest_line(line: str) -> tuple[int, str, float]:
    """Number, text and score; a ValueError where there are none. What follows the score is left out."""
    number, text, score, *_ = f"{line} ".split(BETWEEN)  # the last of four may be empty, and its blank gone
    return int(number), text.replace(WITHIN, PARTING), float(score)
