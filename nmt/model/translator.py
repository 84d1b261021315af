"""The complete model: word ids in, logits of the next word out. One class for every composition of parts."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.errors import ConfigurationError
from nmt.model.candidate_model import CandidateModel
from nmt.model.decoder.types import DecoderBound, DecoderState, Features, Trace
from nmt.model.encoder import EncodedSource, Encoder
from nmt.model.initialization import Initialization
from nmt.model.loop import Loop, run_loop
from nmt.model.output import Loss, Output


@runtime_checkable
class Examples(Protocol):
    """The fields of a batch that the model reads; the target is laid out time first."""

    source: Int[Tensor, "batch source"]
    source_lengths: Int[Tensor, " batch"]  # on the CPU
    target_input: Int[Tensor, "target batch"]  # <s> y_1 … y_I
    target_words: Int[Tensor, " words"]  # y_1 … y_I </s> of all sentences, without padding
    target_index: Int[Tensor, " words"]  # their places in the flattened (target, batch) grid
    candidates: Int[Tensor, " candidates"] | None  # words that the softmax may be limited to, ascending
    links: Float[Tensor, "target batch source"] | None  # given alignments, for a penalty that follows them


class DecoderOutputs(NamedTuple):
    """The outputs of all steps; first dimension: target."""

    words: Float[Tensor, "target batch word"]  # e(y_{i-1})
    features: Features
    trace: Trace


class Translator(nn.Module):
    """Embeddings, encoder, decoder (with its attention, memory and readout), and output layer.

    Args:
        source_vocabulary_size: number of source words.
        target_vocabulary_size: number of target words.
        embedding_size: size of a word embedding.
        encoder: the encoder.
        decoder: the decoder.
        initialization: the initial values of the parameters.
        embedding_dropout: on the embeddings of both sides.
        output_bias: the output layer has a bias.
        tie_embeddings: `output` shares the target embedding with the output layer; `all` shares the source embedding
            too, which needs a joint vocabulary; `none` shares nothing.
        sparse_gradients: gradients of embeddings and candidate rows hold only the rows in use.
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
        self.loop: Loop = run_loop  # training on a GPU may replace it by graphs
        self.output = Output(
            input_size=decoder.readout.output_size,
            vocabulary_size=target_vocabulary_size,
            bias=output_bias,
            sparse=sparse_gradients,
        )
        self._tie_embeddings(tie_embeddings)
        initialization(self)

    def _tie_embeddings(self, tie_embeddings: str) -> None:
        if tie_embeddings not in ("none", "output", "all"):
            raise ConfigurationError(f"model.tie_embeddings={tie_embeddings}: choose none, output or all")
        if tie_embeddings == "none":
            return
        embedding = self.target_embedding.weight
        if self.output.weight.shape != embedding.shape:
            raise ConfigurationError(
                f"model.tie_embeddings={tie_embeddings}: the readout gives {self.output.weight.shape[1]} values, an "
                f"embedding has {embedding.shape[1]}. Fix: size.readout={embedding.shape[1]}; with decoder=luong, "
                f"size.hidden={embedding.shape[1]}"
            )
        self.output.weight = embedding
        if tie_embeddings == "all":
            if self.source_embedding.weight.shape != embedding.shape:
                raise ConfigurationError(
                    "model.tie_embeddings=all: needs one vocabulary for both sides. Fix: data.vocabulary.joint=true"
                )
            self.source_embedding.weight = embedding

    def encode(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> EncodedSource:
        """Return the encoded source; `lengths` is on the CPU."""
        return self.encoder(self.embedding_dropout(self.source_embedding(source)), source, lengths)

    def begin(self, source: EncodedSource) -> tuple[DecoderBound, DecoderState]:
        """Return the values that are fixed for each sentence, and the first state."""
        return self.decoder.begin(source)

    def next(
        self, words: Int[Tensor, " hypothesis"], state: DecoderState, bound: DecoderBound
    ) -> tuple[Float[Tensor, "hypothesis vocabulary"], Trace, DecoderState]:
        """Return the logits of the word after `words`, the trace, and the new state; the step of a search."""
        vectors, trace, state = self.step(words, state, bound)
        return self.output(vectors), trace, state

    def step(
        self, words: Int[Tensor, " hypothesis"], state: DecoderState, bound: DecoderBound
    ) -> tuple[Float[Tensor, "hypothesis output"], Trace, DecoderState]:
        """Return the input of the output layer after `words`, the trace, and the new state."""
        embedded = self.embedding_dropout(self.target_embedding(words))
        features, trace, state = self.decoder.step(self.decoder.prepare(embedded), state, bound)
        return self.decoder.readout(features.state, embedded, features.context), trace, state

    def restrict_vocabulary(
        self, words: Int[Tensor, " candidates"], allowed: Bool[Tensor, "sentence candidates"]
    ) -> CandidateModel:
        """Return a view of this model for a search over a list of candidate words."""
        return CandidateModel(self, words, allowed)

    @property
    def needs_links(self) -> bool:
        """True if the attention's penalty follows given links."""
        penalty = self.decoder.attention.penalty
        return penalty is not None and penalty.needs_links

    def unroll(self, batch: Examples, *, trace_names: tuple[str, ...] | None = ()) -> DecoderOutputs:
        """Run the decoder over the given target words, and keep these values of the trace; None: all."""
        bound, state = self.begin(self.encode(batch.source, batch.source_lengths))
        embedded = self.embedding_dropout(self.target_embedding(batch.target_input))
        inputs = self.decoder.prepare(embedded)
        return DecoderOutputs(embedded, *self.loop(self.decoder, inputs, state, bound, trace_names))

    def loss(self, batch: Examples, smoothing: float = 0.0) -> Loss:
        """Return the loss, summed over the words of the batch.

        In training the softmax is limited to the batch's candidates, if it has any.
        The attention's penalty, if it has one, is added to the objective.
        """
        penalty = self.decoder.attention.penalty
        outputs = self.unroll(batch, trace_names=("alignment", *penalty.needs) if penalty else ())

        def drop_padding(steps: Tensor) -> Tensor:
            return steps.flatten(0, 1).index_select(0, batch.target_index)

        vectors = self.decoder.readout(
            drop_padding(outputs.features.state), drop_padding(outputs.words), drop_padding(outputs.features.context)
        )
        candidates = batch.candidates if self.training else None
        loss = self.output.loss(vectors, batch.target_words, smoothing, candidates)
        if not penalty:
            return loss
        term = penalty(outputs.trace, _unpadded(batch), batch.links)
        return loss._replace(objective=loss.objective + term, penalty=term.detach())


def _unpadded(batch: Examples) -> Bool[Tensor, "target batch source"]:
    """Return True for steps and source positions that are not padding."""
    steps = torch.zeros_like(batch.target_input, dtype=torch.bool)
    steps.view(-1)[batch.target_index] = True
    positions = torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]
    return steps[:, :, None] & positions.to(steps.device, non_blocking=True)
