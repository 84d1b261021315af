"""The hand-written baseline: RNNsearch (Bahdanau et al. 2015, sections 3 and A.2) in plain PyTorch.

The decoding loop computes only what must be sequential. Keys, embeddings and the embeddings' share of the GRU gates are
computed before the loop, for all words at once. Readout, softmax and loss are computed after it, for real words only.

Letters: B sentences, S source words, T target words, N real (unpadded) target words, V target vocabulary,
E embedding, A attention size, C annotation = both directions of the encoder, H decoder state, R readout.
"""

import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
"""source (B, S), source lengths (B), target input (T, B), target output (T, B); all int64, words padded with 0."""

RNNSEARCH = {"embedding": 620, "hidden": 1000, "encoder": 1000, "attention": 1000, "maxout": 500}
"""The sizes of Bahdanau et al. 2015, with 30,000 words a side; the defaults of the constructor are those of `small`."""


class HoistedBaseline(nn.Module):
    """Bidirectional GRU, additive attention, and a GRU decoder whose cell reads the context.

    Args:
        source_vocabulary: The number of source words.
        target_vocabulary: The number of target words.
        embedding: The size of both embeddings.
        hidden: The size of the decoder's state.
        attention: The size of the keys.
        dropout: The rate of dropout on embeddings and readout.
        encoder: The size of one direction of the encoder; by default half of `hidden`.
        readout: The size of a tanh readout; by default that of the embedding.
        maxout: The size of a maxout readout over pairs, instead of the tanh readout.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        embedding: int = 256,
        hidden: int = 512,
        attention: int = 512,
        dropout: float = 0.2,
        *,
        encoder: int | None = None,
        readout: int | None = None,
        maxout: int | None = None,
    ) -> None:
        super().__init__()
        if readout is not None and maxout is not None:
            raise ValueError(
                "readout, maxout: both are given, but they are forms of the same layer. Fix: give one of them"
            )
        direction = encoder or hidden // 2
        annotation = 2 * direction
        features = maxout or readout or embedding
        self.source_embedding = nn.Embedding(source_vocabulary, embedding, padding_idx=0)
        self.target_embedding = nn.Embedding(target_vocabulary, embedding, padding_idx=0)
        self.encoder = nn.GRU(embedding, direction, batch_first=True, bidirectional=True)
        self.initial = nn.Linear(direction, hidden)
        self.key = nn.Linear(annotation, attention, bias=False)
        self.query = nn.Linear(hidden, attention, bias=False)
        self.energy = nn.Linear(attention, 1, bias=False)
        self.embedding_gates = nn.Linear(embedding, 3 * hidden)
        self.context_gates = nn.Linear(annotation, 3 * hidden, bias=False)
        self.hidden_gates = nn.Linear(hidden, 3 * hidden)
        self.maxout = maxout is not None
        self.readout = nn.Linear(hidden + embedding + annotation, 2 * features if self.maxout else features)
        self.output = nn.Linear(features, target_vocabulary)
        self.dropout = nn.Dropout(dropout)

    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the annotations (B, S, C) and the decoder's first state (B, H)."""
        embedded = self.dropout(self.source_embedding(source))  # (B, S, E)
        # packed, because the backward direction must begin at the last real word, and padding then costs nothing
        packed = pack_padded_sequence(embedded, source_lengths, batch_first=True, enforce_sorted=False)
        packed, last = self.encoder(packed)
        annotations, _ = pad_packed_sequence(packed, batch_first=True, total_length=source.size(1))
        return annotations, torch.tanh(self.initial(last[1]))  # s_0 = tanh(W · backward annotation of the first word)

    def unroll(self, source: Tensor, annotations: Tensor, state: Tensor, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Return states (T, B, H) and contexts (T, B, C) for the target words `embedded` (T, B, E)."""
        keys = self.key(annotations)  # (B, S, A)
        padding = torch.zeros(source.shape, device=source.device).masked_fill_(source == 0, float("-inf"))  # (B, S)
        states, contexts = [], []
        # unbind instead of [i], because the backward pass of indexing writes a (T, B, 3H) gradient at every step
        for embedding_gates in self.embedding_gates(embedded).unbind(0):
            # e_j = v · tanh(W s + U h_j),  α = softmax(e),  c = Σ_j α_j h_j
            energies = self.energy(torch.tanh(keys + self.query(state).unsqueeze(1))).squeeze(2)  # (B, S)
            weights = torch.softmax(energies + padding, dim=1)
            context = torch.bmm(weights.unsqueeze(1), annotations).squeeze(1)  # (B, C)
            state = self.gru(embedding_gates + self.context_gates(context), state)
            states.append(state)
            contexts.append(context)
        return torch.stack(states), torch.stack(contexts)

    def gru(self, input_gates: Tensor, state: Tensor) -> Tensor:
        """Return the next state of PyTorch's form of the GRU; the input gates (B, 3H) are already summed."""
        hidden = state.size(1)
        input_pair, input_new = input_gates.split((2 * hidden, hidden), dim=1)
        hidden_pair, hidden_new = self.hidden_gates(state).split((2 * hidden, hidden), dim=1)
        reset, update = torch.sigmoid(input_pair + hidden_pair).chunk(2, dim=1)
        new = torch.tanh(input_new + reset * hidden_new)  # s̃
        return new + update * (state - new)  # u ⊙ s + (1 − u) ⊙ s̃

    def loss(self, source: Tensor, source_lengths: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        """Return the mean loss of a real target word, in nats; `source_lengths` must be on the CPU."""
        annotations, state = self.encode(source, source_lengths)
        embedded = self.dropout(self.target_embedding(target_input))  # (T, B, E)
        states, contexts = self.unroll(source, annotations, state, embedded)
        real = target_output != 0
        features = self.readout(torch.cat((states, embedded, contexts), dim=2)[real])  # (N, R or 2R)
        # pairs are (i, i + R), because two halves need no strided reads; the order of rows has no meaning
        features = torch.maximum(*features.chunk(2, dim=1)) if self.maxout else torch.tanh(features)
        return functional.cross_entropy(self.output(self.dropout(features)), target_output[real])


def train_steps(
    batches: Sequence[Batch],
    steps: int,
    seed: int = 1,
    lr: float = 1e-3,
    clip: float = 1.0,
    *,
    model: HoistedBaseline | None = None,
) -> tuple[float, list[float]]:
    """Train with Adam in fp32, and measure the second half of the updates; the first half is warm-up.

    Args:
        batches: The batches in their order; training starts again from the first when they run out.
        steps: The number of updates.
        seed: The seed of weights and dropout.
        lr: The learning rate.
        clip: The largest gradient norm.
        model: By default a model of the `small` comparison size whose vocabularies end at the largest index in
            `batches`. Pass a model if `batches` is not the complete training set, because its softmax is too cheap
            otherwise.

    Returns:
        Real target words per second, and the loss of each update.
    """
    torch.manual_seed(seed)
    if model is None:
        source_vocabulary = 1 + max(int(source.max()) for source, _, _, _ in batches)
        target_vocabulary = 1 + max(int(target.max()) for _, _, _, target in batches)
        model = HoistedBaseline(source_vocabulary, target_vocabulary)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses: list[float] = []
    words, began = 0, time.perf_counter()
    for step in range(steps):
        if step == steps // 2:
            words, began = 0, time.perf_counter()
        batch = batches[step % len(batches)]
        optimizer.zero_grad()
        loss = model.loss(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())  # after the update, because on a GPU this call waits until the update is done
        words += int((batch[3] != 0).sum())
    return words / (time.perf_counter() - began), losses
