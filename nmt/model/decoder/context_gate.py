"""Context gates: how much the source and the target each contribute to a new state; Tu 2017 §3.

    z_i = σ(W_z e(y_{i-1}) + U_z s_{i-1} + C_z c_i)

    source:  s_i = f(W e(y_{i-1}) + U s_{i-1} + z_i ⊙ C c_i)
    target:  s_i = f(z_i ⊙ (W e(y_{i-1}) + U s_{i-1}) + C c_i)
    both:    s_i = f((1 − z_i) ⊙ (W e(y_{i-1}) + U s_{i-1}) + z_i ⊙ C c_i)

f is a cell with several gates: z_i scales the products of each of them. With a memory, r stands for s_{i-1}. In the
conditional decoder s̃ does, and W e(y_{i-1}) is absent, because the word is in s̃.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.errors import ConfigurationError

SCALED = ("source", "target", "both")
Scale = Float[Tensor, "hypothesis hidden"]


class ContextGate(nn.Module):
    """The gate z_i of Tu 2017 §3; `scales` says which products it scales: source, target or both."""

    def __init__(self, *, word_size: int, hidden_size: int, context_size: int, scales: str):
        super().__init__()
        if scales not in SCALED:
            raise ConfigurationError(f"decoder.context_gate.scales={scales}: choose {', '.join(SCALED)}")
        self.scales = scales
        self.word = nn.Linear(word_size, hidden_size)  # W_z
        self.state = nn.Linear(hidden_size, hidden_size, bias=False)  # U_z
        self.context = nn.Linear(context_size, hidden_size, bias=False)  # C_z

    def forward(
        self,
        word: Float[Tensor, "hypothesis word"],
        hidden: Float[Tensor, "hypothesis hidden"],
        context: Float[Tensor, "hypothesis context"],
    ) -> tuple[Scale, Scale, dict[str, Tensor]]:
        """Return the scales of the target's and of the source's products, and the mean of z_i as a trace."""
        gate = torch.sigmoid(self.word(word) + self.state(hidden) + self.context(context))  # z_i
        one = torch.ones_like(gate)
        target, source = {"source": (one, gate), "target": (gate, one), "both": (1 - gate, gate)}[self.scales]
        return target, source, {"context_gate": gate.mean(1, keepdim=True)}
