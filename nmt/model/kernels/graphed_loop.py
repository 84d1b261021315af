"""The loop of training as graphs of a GPU: recorded once for each shape, then replayed.

A step of a decoder is dozens of small operations, and to launch each of them takes longer than to compute it. A graph
launches the operations of all steps at once. Its tensors stay at fixed places in memory: values are copied in before a
replay, and out after it. torch.cuda.make_graphed_callables does the same, but returns gradients in the fixed memory
itself, where the next replay overwrites them.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from nmt.model.decoder.types import DecoderBound, DecoderState, Features, Trace
from nmt.model.kernels import weights_once
from nmt.model.loop import TraceNames, run_loop
from nmt.model.tree import Tree, leaves_of, with_leaves

MOST_GRAPHS = 256  # of different shapes; each keeps a copy of its inputs and outputs
Tensors = Sequence[Tensor]
Recording = tuple[Callable[[], None], Tensors]  # what replays a function, and the tensors that a replay fills
Recorder = Callable[[Callable[[], Tensors]], Recording]


class CudaRecorder:
    """Records functions as CUDA graphs. They share memory, because none runs while another one's results are needed.

    Args:
        device: the GPU; None: the current one of the first recording.
    """

    def __init__(self, device: str | None = None):
        self.pool, self.device = torch.cuda.graph_pool_handle(), device
        self.stream: torch.cuda.Stream | None = None

    def __call__(self, function: Callable[[], Tensors]) -> Recording:
        """Record a function without arguments."""
        # torch's own stream for recordings is on one GPU, and operations on another would not be recorded
        self.stream = self.stream or torch.cuda.Stream(self.device)
        graph = torch.cuda.CUDAGraph()
        # thread_local, because threads of NCCL may call CUDA meanwhile
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            results = function()
        return graph.replay, results


class GraphedLoop:
    """Runs the loop of a decoder as graphs, in place of `run_loop`.

    A shape is recorded when it comes for the second time, because the last batch of an epoch has a shape of its own.
    Batches without gradients run as usual.

    Args:
        record: records a function.
    """

    def __init__(self, record: Recorder):
        self.record = record
        self.graphs: dict[tuple, _Graph | None] = {}  # by shape; None: seen once
        self.gradients: dict[nn.Parameter, Tensor] = {}  # fixed memory, common to all graphs

    def __call__(
        self, decoder: nn.Module, inputs: Tree, state: DecoderState, bound: DecoderBound, trace_names: TraceNames
    ) -> tuple[Features, Trace]:
        """Return the features and the trace of all steps; first dimension: target."""
        values = (inputs, state, bound)
        leaves = leaves_of(values)
        shapes = tuple((leaf.shape, leaf.dtype, leaf.requires_grad) for leaf in leaves)
        key = (trace_names, weights_once.autocast_dtype(leaves[0].device), shapes)
        is_new = key not in self.graphs
        if is_new and len(self.graphs) < MOST_GRAPHS and torch.is_grad_enabled():
            self.graphs[key] = None
        if is_new or not torch.is_grad_enabled():
            return run_loop(decoder, *values, trace_names)
        if self.graphs[key] is None:
            self.graphs[key] = _Graph(self, decoder, values, trace_names)
        return self.graphs[key](leaves)


class _Steps(nn.Module):
    """The loop as a module, so that its parameters can be replaced."""

    def __init__(self, decoder: nn.Module):
        super().__init__()
        self.decoder = decoder

    def forward(self, *values: Any) -> tuple[Features, Trace]:
        return run_loop(self.decoder, *values)


class _Graph:
    """The loop for one shape, and its backward pass."""

    def __init__(self, loop: GraphedLoop, decoder: nn.Module, values: Tree, trace_names: TraceNames):
        self.trace_names, self.common = trace_names, loop.gradients
        self.inputs = [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves_of(values)]
        self.steps = _Steps(decoder)
        parameters = {name: parameter for name, parameter in self.steps.named_parameters() if parameter.requires_grad}
        self.parameters = list(parameters.values())
        # other tensors of the same memory, because autograd computes the gradients of the parameters themselves on the
        # stream of their first use, which is not the one that is recorded
        self.aliases = [parameter.detach().requires_grad_() for parameter in self.parameters]
        self.named_aliases = dict(zip(parameters, self.aliases, strict=True))
        self.values = with_leaves(values, self.inputs)
        self.run_forward, self.outputs = loop.record(self._forward)
        self.output_gradients = [torch.zeros_like(output) for output in compress(self.outputs, self.differentiable)]
        self.run_backward, self.gradients = loop.record(self._backward)
        self.computed = []  # so that other graphs can use the memory of what the backward pass needs

    def _forward(self) -> Tensors:
        features, trace = functional_call(self.steps, self.named_aliases, (*self.values, self.trace_names))
        self.computed, self.trace_keys = [*features, *trace.values()], tuple(trace)
        self.differentiable = [output.requires_grad for output in self.computed]
        return [output.detach() for output in self.computed]

    def _backward(self) -> Tensors:
        """Return the gradients of those inputs and parameters that have any."""
        outputs = list(compress(self.computed, self.differentiable))
        sources = [*self.inputs, *self.aliases]
        differentiable = [source for source in sources if source.requires_grad]
        computed = iter(torch.autograd.grad(outputs, differentiable, self.output_gradients, allow_unused=True))
        gradients = [next(computed) if source.requires_grad else None for source in sources]
        self.exists = [gradient is not None for gradient in gradients]
        parameters = [*[None] * len(self.inputs), *self.parameters]
        pairs = compress(zip(parameters, gradients, strict=True), self.exists)
        return [gradient if parameter is None else self._share(parameter, gradient) for parameter, gradient in pairs]

    def _share(self, parameter: nn.Parameter, gradient: Tensor) -> Tensor:
        """Copy the gradient of a parameter to the memory that all graphs share."""
        if parameter not in self.common:
            self.common[parameter] = torch.empty_like(parameter)
        return self.common[parameter].copy_(gradient)

    def __call__(self, leaves: Tensors) -> tuple[Features, Trace]:
        """Return the features and the trace for other values of the same shapes."""
        outputs = _Replay.apply(self, *leaves, *self.parameters)
        count = len(Features._fields)
        return Features(*outputs[:count]), dict(zip(self.trace_keys, outputs[count:], strict=True))


class _Replay(torch.autograd.Function):
    """A replay as one operation; results are copies, because they are kept while the next replay runs."""

    @staticmethod
    def forward(context: Any, graph: _Graph, *values: Tensor) -> tuple[Tensor, ...]:
        context.graph = graph
        for fixed, value in zip(graph.inputs, values[: len(graph.inputs)], strict=True):
            fixed.copy_(value)
        graph.run_forward()
        outputs = tuple(output.clone() for output in graph.outputs)
        fixed = (output for output, has in zip(outputs, graph.differentiable, strict=True) if not has)
        context.mark_non_differentiable(*fixed)
        return outputs

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        graph = context.graph
        for fixed, gradient in zip(graph.output_gradients, compress(gradients, graph.differentiable), strict=True):
            fixed.copy_(gradient)
        graph.run_backward()
        copies = (gradient.clone() for gradient in graph.gradients)
        return None, *(next(copies) if exists else None for exists in graph.exists)
