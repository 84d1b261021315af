"""Several models that translate as one: at each step the probabilities of the next word are averaged."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmt.errors import ConfigurationError
from nmt.model.output import Loss
from nmt.model.translator import Examples, Translator
from nmt.search.forced_decoding import force_decode


class Member(NamedTuple):
    """A model of an ensemble."""

    model: Translator
    source_end: bool  # true if it was trained with the end symbol of the source


class Ensemble:
    """A weighted mixture of models that is searched like a single model.

    Members share their vocabularies; everything else may differ. Alignments are averaged too. If any member reads the
    end symbol of the source, the source contains it; the other members do not read it.

    Args:
        members: The models.
        weights: A weight for each member; None: equal weights.
        average: `probabilities`, or `logs` (log-probabilities), where a member can veto a word.
    """

    def __init__(self, members: Sequence[Member], *, weights: Sequence[float] | None = None, average: str):
        if average not in ("probabilities", "logs"):
            raise ConfigurationError(f"average={average}: no such average. Fix: average=probabilities or average=logs")
        weights = list(weights) if weights else [1.0] * len(members)
        if len(weights) != len(members) or min(weights) < 0 or sum(weights) <= 0:
            raise ConfigurationError(
                f"weights={weights}: must be one number for each of the {len(members)} runs, none below 0, one above 0"
            )
        used = [number for number, weight in enumerate(weights) if weight]  # because 0 times -inf is NaN
        self.members, self.average = [members[number] for number in used], average
        self.weights = [weights[number] / sum(weights) for number in used]
        self.numbers = [number + 1 for number in used]  # of the members, in their traces
        self.source_end = any(member.source_end for member in self.members)

    def to(self, device: str) -> "Ensemble":
        """Move all members to a device."""
        for member in self.members:
            member.model.to(device)
        return self

    def eval(self) -> "Ensemble":
        """Set all members to evaluation mode."""
        for member in self.members:
            member.model.eval()
        return self

    def restrict_vocabulary(self, words: Tensor, allowed: Tensor) -> "Ensemble":
        """Return an ensemble whose members know only these words."""
        members = [member._replace(model=member.model.restrict_vocabulary(words, allowed)) for member in self.members]
        return Ensemble(members, weights=self.weights, average=self.average)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, ...]:
        """Encode the source with each member."""
        return tuple(
            member.model.encode(source, lengths - int(self.source_end and not member.source_end))
            for member in self.members
        )

    def begin(self, source: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the bound sources and the first states of all members."""
        pairs = [member.model.begin(encoded) for member, encoded in zip(self.members, source, strict=True)]
        bound, state = zip(*pairs, strict=True)
        return bound, state

    def next(self, words: Tensor, state: tuple, bound: tuple) -> tuple[Tensor, dict[str, Tensor], tuple]:
        """Make one step with each member, and average log-probabilities and alignments."""
        steps = [member.model.next for member in self.members]
        logits, trace, states = self._advance(steps, words, state, bound)
        logs = [member_logits.float().log_softmax(1) for member_logits in logits]
        if self.average == "logs":
            return self._average(logs), trace, states
        weighted = [member_logs + math.log(weight) for member_logs, weight in zip(logs, self.weights, strict=True)]
        return torch.stack(weighted).logsumexp(0), trace, states

    def step(self, words: Tensor, state: tuple, bound: tuple) -> tuple[tuple[Tensor, ...], dict[str, Tensor], tuple]:
        """Return the inputs of the members' output layers, the trace, and the new states."""
        return self._advance([member.model.step for member in self.members], words, state, bound)

    def _advance(
        self, steps: Sequence[Callable], words: Tensor, state: tuple, bound: tuple
    ) -> tuple[tuple[Tensor, ...], dict[str, Tensor], tuple]:
        """Make a step of each member; average the alignments, and number the other values that members show."""
        results = [step(words, *values) for step, *values in zip(steps, state, bound, strict=True)]
        outputs, traces, states = zip(*results, strict=True)
        alignment = self._average([trace["alignment"].float() for trace in traces])
        shown = {
            f"{name}_{number}": values
            for number, trace in zip(self.numbers, traces, strict=True)
            for name, values in trace.items()
            if name != "alignment"
        }
        return outputs, {"alignment": alignment} | shown, states

    def _average(self, values: Sequence[Tensor]) -> Tensor:
        # without a tensor of the weights, because to copy it to a GPU would wait for the GPU
        return torch.stack([weight * value for weight, value in zip(self.weights, values, strict=True)]).sum(0)

    def loss(self, batch: Examples) -> Loss:
        """Return the negative log-likelihood of the mixture, summed over the batch."""
        nats = -force_decode(self, batch).word_scores.sum()
        return Loss(nats, nats)
