"""Layers over a heatmap: how to draw a trace, as its dimensions and values say."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Layer(NamedTuple):
    """A trace to draw.

    Attributes:
        name: The name of the trace.
        kind: `map`: numbers of the source words in each step; `numbers`: numbers of the source words that are the same
            in all steps; `line`: a source position, from 1, in each step; `cells`: numbers beside the source in each
            step.
        values: (step, source), (source,), (step,) or (step, cell).
    """

    name: str
    kind: str
    values: np.ndarray

    def to_dict(self, digits: int) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"name": self.name, "kind": self.kind, "values": np.round(self.values.astype(float), digits).tolist()}


def to_layers(traces: Mapping[str, np.ndarray]) -> list[Layer]:
    """Return the layers of a translation, from traces as `trace_translations` describes them."""
    return [_to_layer(name, values) for name, values in traces.items()]


def _to_layer(name: str, values: np.ndarray) -> Layer:
    if values.ndim == 1:
        return Layer(name, "line", values)
    if values.ndim == 3:
        return Layer(name, "cells", values[:, 0])
    if len(values) > 1 and (values == values[0]).all():
        return Layer(name, "numbers", values[0])
    return Layer(name, "map", values)
