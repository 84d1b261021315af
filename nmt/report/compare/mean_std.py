"""The mean and the standard deviation of a value over several runs."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from nmt.system.safe_files import is_number


def mean_and_deviation(values: Sequence[Any]) -> dict[str, Any] | None:
    """Return the mean and deviation of the values that are numbers, and `of` how many, if not all are."""
    numbers = [float(value) for value in values if is_number(value)]
    if not numbers:
        return None
    summary = {"mean": mean(numbers)} | ({"deviation": stdev(numbers)} if len(numbers) > 1 else {})
    return summary | ({"of": [len(numbers), len(values)]} if len(numbers) < len(values) else {})


def format_mean(summary: Mapping[str, Any] | None, digits: int = 2) -> str:
    """Write mean ± deviation; an empty string without a mean."""
    if summary is None:
        return ""
    deviation = f" ± {summary['deviation']:,.{digits}f}" if "deviation" in summary else ""
    count = "({} of {})".format(*summary["of"]) if "of" in summary else ""
    return f"{summary['mean']:,.{digits}f}{deviation} {count}".rstrip()
