"""The baseline to beat: RNNsearch (Bahdanau et al. 2015, sections 3 and A.2), hand-written in plain PyTorch.

Only what must be sequential stands inside the decoding loop. Keys, embeddings and the embeddings' share of the GRU
gates are computed before it for all words at once; readout, softmax and loss after it, for real words only.

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
"""The sizes of Bahdanau et al. 2015 (30,000 words a side); the constructor's defaults are the `small` comparison."""


class HoistedBaseline(nn.Module):
    """Bidirectional GRU, additive attention, GRU decoder that takes the context into its cell.

    `encoder` is the size of one direction (default: half the decoder's). The readout is tanh of size `readout`
    (default: that of the embedding), or with `maxout` the maximum over pairs, of that size.
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
            raise ValueError("readout and maxout are two forms of the same layer: give one of them")
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
        """Annotations (B, S, C) and the decoder's first state (B, H)."""
        embedded = self.dropout(self.source_embedding(source))  # (B, S, E)
        # Packed, so that the backward direction begins at the last real word and padding costs nothing.
        packed = pack_padded_sequence(embedded, source_lengths, batch_first=True, enforce_sorted=False)
        packed, last = self.encoder(packed)
        annotations, _ = pad_packed_sequence(packed, batch_first=True, total_length=source.size(1))
        return annotations, torch.tanh(self.initial(last[1]))  # s_0 = tanh(W · backward annotation of the first word)

    def unroll(self, source: Tensor, annotations: Tensor, state: Tensor, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """States (T, B, H) and contexts (T, B, C) for the target words `embedded` (T, B, E)."""
        keys = self.key(annotations)  # (B, S, A)
        padding = torch.zeros(source.shape, device=source.device).masked_fill_(source == 0, float("-inf"))  # (B, S)
        states, contexts = [], []
        # unbind rather than [i]: the backward of indexing writes a whole (T, B, 3H) gradient at every step.
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
        """One step of PyTorch's form of the GRU, from input gates (B, 3H) that are already summed."""
        hidden = state.size(1)
        input_pair, input_new = input_gates.split((2 * hidden, hidden), dim=1)
        hidden_pair, hidden_new = self.hidden_gates(state).split((2 * hidden, hidden), dim=1)
        reset, update = torch.sigmoid(input_pair + hidden_pair).chunk(2, dim=1)
        new = torch.tanh(input_new + reset * hidden_new)  # s̃
        return new + update * (state - new)  # u ⊙ s + (1 − u) ⊙ s̃

    def loss(self, source: Tensor, source_lengths: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        """Mean nats per real target word. `source_lengths` stays on the CPU."""
        annotations, state = self.encode(source, source_lengths)
        embedded = self.dropout(self.target_embedding(target_input))  # (T, B, E)
        states, contexts = self.unroll(source, annotations, state, embedded)
        real = target_output != 0
        features = self.readout(torch.cat((states, embedded, contexts), dim=2)[real])  # (N, R or 2R)
        # Which two units make a pair is only a matter of the rows' order: the halves need no strided reading.
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
    """Real target words per second over the second half of `steps` updates, and every update's loss.

    Adam in fp32; the first half is warm-up. The batches are taken in their order, again from the first when they run
    out. Without a `model`, one of the `small` comparison size is made whose vocabularies end at the largest index in
    `batches`: give the model where these are not the whole training set, or the softmax is too cheap.
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
        losses.append(loss.item())  # after the update: on a GPU this waits until the update is done
        words += int((batch[3] != 0).sum())
    return words / (time.perf_counter() - began), losses
