"""Readouts: from features of a step to the vector x of the output layer. They run on all steps, after the loop."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

State = Float[Tensor, "*steps state"]
Word = Float[Tensor, "*steps word"]
Context = Float[Tensor, "*steps context"]
Output = Float[Tensor, "*steps output"]


class _LinearSum(nn.Module):
    """U_o s + V_o e(y_{i-1}) + C_o c_i: the first part of both deep outputs."""

    def __init__(self, state_size: int, word_size: int, context_size: int, sum_size: int):
        super().__init__()
        self.state = nn.Linear(state_size, sum_size)
        self.word = nn.Linear(word_size, sum_size, bias=False)
        self.context = nn.Linear(context_size, sum_size, bias=False)

    def linear_sum(self, state: State, word: Word, context: Context) -> Output:
        """Return the sum."""
        return self.state(state) + self.word(word) + self.context(context)


class DeepOutput(_LinearSum):
    """tanh(W_l s_i + W_p e(y_{i-1}) + W_c c_i); dl4mt."""

    def __init__(self, *, state_size: int, word_size: int, context_size: int, output_size: int, dropout: float):
        super().__init__(state_size, word_size, context_size, output_size)
        self.output_size = output_size
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: State, word: Word, context: Context) -> Output:
        """Return x."""
        return self.dropout(torch.tanh(self.linear_sum(state, word, context)))


class Maxout(_LinearSum):
    """The maximum over adjacent pairs of the sum, then a linear layer; Bahdanau 2015 §A.2.2, GroundHog."""

    def __init__(
        self,
        *,
        state_size: int,
        word_size: int,
        context_size: int,
        maxout_size: int,
        output_size: int,
        dropout: float,
    ):
        super().__init__(state_size, word_size, context_size, 2 * maxout_size)
        self.output_size = output_size
        self.dropout = nn.Dropout(dropout)
        self.projection = nn.Linear(maxout_size, output_size, bias=False)

    def forward(self, state: State, word: Word, context: Context) -> Output:
        """Return x."""
        pairs = self.linear_sum(state, word, context).unflatten(-1, (-1, 2))
        return self.projection(self.dropout(pairs.amax(-1)))


class StateOnly(nn.Module):
    """The state alone: Luong 2015, whose softmax reads only the attentional vector h̃_i."""

    def __init__(self, *, state_size: int, dropout: float):
        super().__init__()
        self.output_size = state_size
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: State, word: Word, context: Context) -> Output:
        """Return x."""
        return self.dropout(state)
