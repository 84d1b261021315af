"""The loop of training: the steps of a decoder over given words, one after the other."""

from collections.abc import Callable

import torch
from torch import nn

from nmt.model.decoder.types import DecoderBound, DecoderState, Features, Trace
from nmt.model.kernels import weights_once
from nmt.model.tree import Tree

TraceNames = tuple[str, ...] | None  # the values of the trace to keep; None: all
Loop = Callable[[nn.Module, Tree, DecoderState, DecoderBound, TraceNames], tuple[Features, Trace]]


def run_loop(
    decoder: nn.Module, inputs: Tree, state: DecoderState, bound: DecoderBound, trace_names: TraceNames
) -> tuple[Features, Trace]:
    """Return the features and the trace of all steps; first dimension: target."""
    features, traces = [], []
    with weights_once.cast_weights_once(decoder, weights_once.autocast_dtype(inputs[0].device)):
        # unbind, because the gradients of all steps are then stacked once
        for parts in zip(*(part.unbind(0) for part in inputs), strict=True):
            step_features, trace, state = decoder.step(type(inputs)(*parts), state, bound)
            features.append(step_features)
            traces.append(trace if trace_names is None else {name: trace[name] for name in trace_names})
    stacked_trace = {name: torch.stack([trace[name] for trace in traces]) for name in traces[0]}
    return Features(*map(torch.stack, zip(*features, strict=True))), stacked_trace
