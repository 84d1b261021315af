"""A value over several runs: mean ± standard deviation."""

from collections.abc import Iterable, Mapping
from statistics import mean, stdev
from typing import Any

from nmt.report.reading import is_number


def spread(values: Iterable[Any]) -> dict[str, float] | None:
    """Of what there is; the deviation of several alone."""
    numbers = [float(value) for value in values if is_number(value)]
    if not numbers:
        return None
    return {"mean": mean(numbers)} | ({"deviation": stdev(numbers)} if len(numbers) > 1 else {})


def shown(found: Mapping[str, float] | None, digits: int = 2) -> str:
    if found is None:
        return ""
    deviation = f" ± {found['deviation']:,.{digits}f}" if "deviation" in found else ""
    return f"{found['mean']:,.{digits}f}{deviation}"
