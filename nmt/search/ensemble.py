"""Several models that translate as one: the next word's probabilities are averaged at every step."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmt.errors import ConfigurationError
from nmt.model.output import Loss
from nmt.model.translator import Examples, Translator
from nmt.search.forced_decoding import force


class Member(NamedTuple):
    model: Translator
    source_end: bool  # whether it was trained to see the source's end symbol


class Ensemble:
    """Is searched as a single model is. Members share their vocabularies; all else about them may differ.

    average: `probabilities`, or `logs`, whose mean every member can veto. Alignments are averaged too. The source comes
    with its end symbol where any member sees it; the others do not look there.
    """

    def __init__(self, members: Sequence[Member], *, weights: Sequence[float] | None = None, average: str):
        if average not in ("probabilities", "logs"):
            raise ConfigurationError(f"average={average}: choose probabilities or logs")
        weights = list(weights) if weights else [1.0] * len(members)
        if len(weights) != len(members) or min(weights) < 0 or sum(weights) <= 0:
            raise ConfigurationError(f"weights={weights}: one number, not below 0, for each of the {len(members)} runs")
        heard = [number for number, weight in enumerate(weights) if weight]  # 0 times -inf would be no number
        self.members, self.average = [members[number] for number in heard], average
        self.weights = [weights[number] / sum(weights) for number in heard]
        self.source_end = any(member.source_end for member in self.members)

    def to(self, device: str) -> "Ensemble":
        for member in self.members:
            member.model.to(device)
        return self

    def eval(self) -> "Ensemble":
        for member in self.members:
            member.model.eval()
        return self

    def restricted(self, words: Tensor, allowed: Tensor) -> "Ensemble":
        """Itself, searched over these words only."""
        members = [member._replace(model=member.model.restricted(words, allowed)) for member in self.members]
        return Ensemble(members, weights=self.weights, average=self.average)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, ...]:
        return tuple(
            member.model.encode(source, lengths - int(self.source_end and not member.source_end))
            for member in self.members
        )

    def begin(self, source: tuple[Any, ...]) -> tuple[Any, Any]:
        begun = [member.model.begin(encoded) for member, encoded in zip(self.members, source, strict=True)]
        bound, state = zip(*begun, strict=True)
        return bound, state

    def next(self, words: Tensor, state: tuple, bound: tuple) -> tuple[Tensor, dict[str, Tensor], tuple]:
        steps = [
            member.model.next(words, own_state, own_bound)
            for member, own_state, own_bound in zip(self.members, state, bound, strict=True)
        ]
        logits, traces, states = zip(*steps, strict=True)
        logs = torch.stack([one.float().log_softmax(1) for one in logits])
        weights = torch.tensor(self.weights, device=words.device)
        if self.average == "logs":
            together = torch.tensordot(weights, logs, dims=1)
        else:
            together = (logs + weights.log()[:, None, None]).logsumexp(0)
        alignments = torch.stack([trace["alignment"].float() for trace in traces])
        return together, {"alignment": torch.tensordot(weights, alignments, dims=1)}, states

    def loss(self, batch: Examples) -> Loss:
        """Of given targets, word after word: the mixture's own negative log-likelihood, summed over the batch."""
        nats = -force(self, batch).word_scores.sum()
        return Loss(nats, nats)
