"""A value over several runs: mean ± standard deviation."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from nmt.report.load.safe_files import is_number


def spread(values: Sequence[Any]) -> dict[str, Any] | None:
    """Of what there is, and `of` how many where some have none; the deviation of several alone."""
    numbers = [float(value) for value in values if is_number(value)]
    if not numbers:
        return None
    found = {"mean": mean(numbers)} | ({"deviation": stdev(numbers)} if len(numbers) > 1 else {})
    return found | ({"of": [len(numbers), len(values)]} if len(numbers) < len(values) else {})


def shown(found: Mapping[str, Any] | None, digits: int = 2) -> str:
    if found is None:
        return ""
    deviation = f" ± {found['deviation']:,.{digits}f}" if "deviation" in found else ""
    some = "({} of {})".format(*found["of"]) if "of" in found else ""
    return f"{found['mean']:,.{digits}f}{deviation} {some}".rstrip()
