"""The whole model: word numbers in, log-probabilities out. Every composition of parts is one of this class."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.candidate_model import Restricted
from nmt.model.decoder.types import Bound, Features, State, Trace
from nmt.model.encoder import Encoded, Encoder
from nmt.model.initialization import Initialization
from nmt.model.output import Loss, Output
from nmt.model.tree import map_tree


@runtime_checkable
class Examples(Protocol):
    """What the model needs of a batch; the target is laid out time first."""

    source: Int[Tensor, "batch source"]
    source_lengths: Int[Tensor, " batch"]  # on the CPU
    target_input: Int[Tensor, "target batch"]  # <s> y_1 … y_I
    target_words: Int[Tensor, " words"]  # y_1 … y_I </s> of all sentences, padding left out
    target_index: Int[Tensor, " words"]  # where in the flattened (target, batch) grid they stand
    candidates: Int[Tensor, " candidates"] | None  # the words, ascending, that the softmax may be limited to


class Unrolled(NamedTuple):
    """A whole target, step by step."""

    words: Float[Tensor, "target batch word"]  # e(y_{i-1})
    features: Features
    trace: Trace  # each entry stacked over the steps, first dimension: target


class Translator(nn.Module):
    """Encoder, decoder with its attention, memory and readout, embeddings and output layer.

    tie_embeddings: `none`; `output` – the output layer is the target embedding; `all` – and the source embedding too
    (joint vocabularies). sparse_gradients: those of embeddings and candidates' output rows hold only the rows in use.
    """

    def __init__(
        self,
        *,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_size: int,
        encoder: Encoder,
        decoder: nn.Module,
        initialization: Initialization,
        embedding_dropout: float,
        output_bias: bool,
        tie_embeddings: str,
        sparse_gradients: bool = False,
    ):
        super().__init__()
        self.source_embedding = nn.Embedding(source_vocabulary_size, embedding_size, sparse=sparse_gradients)
        self.target_embedding = nn.Embedding(target_vocabulary_size, embedding_size, sparse=sparse_gradients)
        self.embedding_dropout = nn.Dropout(embedding_dropout)
        self.encoder, self.decoder = encoder, decoder
        self.output = Output(
            input_size=decoder.readout.output_size,
            vocabulary_size=target_vocabulary_size,
            bias=output_bias,
            sparse=sparse_gradients,
        )
        self._tie(tie_embeddings)
        initialization(self)

    def _tie(self, tie_embeddings: str) -> None:
        if tie_embeddings not in ("none", "output", "all"):
            raise ConfigurationError(f"model.tie_embeddings={tie_embeddings}: choose none, output or all")
        if tie_embeddings == "none":
            return
        embedding = self.target_embedding.weight
        if self.output.weight.shape != embedding.shape:
            raise ConfigurationError(
                f"model.tie_embeddings={tie_embeddings}: the readout gives {self.output.weight.shape[1]} values, an "
                f"embedding has {embedding.shape[1]}; make the readout's output_size and model.embedding_size equal"
            )
        self.output.weight = embedding
        if tie_embeddings == "all":
            if self.source_embedding.weight.shape != embedding.shape:
                raise ConfigurationError("model.tie_embeddings=all needs data.vocabulary.joint=true")
            self.source_embedding.weight = embedding

    def encode(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> Encoded:
        return self.encoder(self.embedding_dropout(self.source_embedding(source)), source, lengths)

    def begin(self, source: Encoded) -> tuple[Bound, State]:
        return self.decoder.begin(source)

    def next(
        self, words: Int[Tensor, " hypothesis"], state: State, bound: Bound
    ) -> tuple[Float[Tensor, "hypothesis vocabulary"], Trace, State]:
        """One step of a search: unnormalised log-probabilities of the next word after `words`."""
        vectors, trace, state = self.advance(words, state, bound)
        return self.output(vectors), trace, state

    def advance(
        self, words: Int[Tensor, " hypothesis"], state: State, bound: Bound
    ) -> tuple[Float[Tensor, "hypothesis output"], Trace, State]:
        """What the output layer sees after `words`."""
        embedded = self.embedding_dropout(self.target_embedding(words))
        features, trace, state = self.decoder.step(self.decoder.prepare(embedded), state, bound)
        return self.decoder.readout(features.state, embedded, features.context), trace, state

    def restricted(self, words: Int[Tensor, " candidates"], allowed: Bool[Tensor, "sentence candidates"]) -> Restricted:
        """Itself, searched over these words only."""
        return Restricted(self, words, allowed)

    def unroll(self, batch: Examples, *, keep_trace: bool = False) -> Unrolled:
        """Run the decoder over given target words; what stands before and after the loop is done at once."""
        bound, state = self.begin(self.encode(batch.source, batch.source_lengths))
        embedded = self.embedding_dropout(self.target_embedding(batch.target_input))
        inputs = self.decoder.prepare(embedded)
        features, traces = [], []
        for step in zip(*(part.unbind(0) for part in inputs), strict=True):
            seen, trace, state = self.decoder.step(type(inputs)(*step), state, bound)
            features.append(seen)
            if keep_trace:
                traces.append(trace)
        stacked = {name: torch.stack([trace[name] for trace in traces]) for name in (traces[0] if traces else ())}
        return Unrolled(embedded, Features(*map(torch.stack, zip(*features, strict=True))), stacked)

    def loss(self, batch: Examples, smoothing: float = 0.0) -> Loss:
        """Summed over the batch's words. Padding is dropped before the readout, so the softmax never sees it.

        In training the softmax is over the batch's candidates, where it has them, else over the vocabulary. An
        attention's own penalty, where it has one, joins the objective.
        """
        penalty = self.decoder.attention.penalty
        unrolled = self.unroll(batch, keep_trace=penalty is not None)
        state, word, context = map_tree(
            lambda steps: steps.flatten(0, 1).index_select(0, batch.target_index),
            (unrolled.features.state, unrolled.words, unrolled.features.context),
        )
        candidates = batch.candidates if self.training else None
        vectors = self.decoder.readout(state, word, context)
        loss = self.output.loss(vectors, batch.target_words, smoothing, candidates)
        if penalty is None:
            return loss
        return loss._replace(objective=loss.objective + penalty(unrolled.trace, _real(batch)))


def _real(batch: Examples) -> Bool[Tensor, "target batch source"]:
    """Which steps at which source positions are no padding."""
    steps = torch.zeros_like(batch.target_input, dtype=torch.bool)
    steps.view(-1)[batch.target_index] = True
    positions = torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]
    return steps[:, :, None] & positions.to(steps.device)
