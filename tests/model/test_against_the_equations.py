"""The composed models compute what the papers say: losses, alignments and gradients equal those of literal loops.

The loops (tests/reference) go over one sentence, one position and one step at a time in float64; here they get the
parameters of a composed model, and the model gets all sentences in one padded batch.
"""

from functools import partial

import pytest
import torch
from compositions import composed
from random_batches import batch_of, random_rows
from reference import attention, cells, decoders, scores

from nmt.data.vocabulary import END, START

SOURCES = random_rows([4, 7, 1, 3], 19, seed=1)
TARGETS = random_rows([5, 2, 4, 3], 23, seed=2)


def score_of(model):
    score = model.decoder.attention.score
    return {
        "Additive": lambda: partial(
            scores.additive, v=score.energy, W=score.query.weight, U=score.key.weight, b=both(score)
        ),
        "Dot": lambda: scores.dot,
        "General": lambda: partial(scores.general, W=score.key.weight),
        "Concat": lambda: concat_of(score),
        "Location": lambda: partial(scores.location, W_a=score.query.weight),
    }[type(score).__name__]()


def both(score):
    return None if score.query.bias is None else score.query.bias + score.key.bias


def concat_of(score):
    if isinstance(score.key, torch.nn.Identity):
        return partial(scores.concat_code, v=score.energy, W=score.query.weight)
    return partial(scores.concat, v=score.energy, W=torch.cat([score.query.weight, score.key.weight], dim=1))


def encoded(model, words):
    """Annotations and last states of a sentence, the end symbol included."""
    embedded = model.source_embedding.weight[torch.tensor([*words, END])]
    encoder, recurrence = model.encoder, model.encoder.recurrence
    layers = [weights(recurrence, f"l{layer}") for layer in range(encoder.layers)]
    if encoder.directions == 2:
        annotations = cells.bigru_encoder(list(embedded), forward=layers[0], backward=weights(recurrence, "l0_reverse"))
        return annotations, None
    return cells.stacked_lstm_encoder(list(embedded), layers=layers, reverse=encoder.reverse)


def weights(recurrence, suffix):
    names = {"W_ih": "weight_ih", "W_hh": "weight_hh", "b_ih": "bias_ih", "b_hh": "bias_hh"}
    return {key: getattr(recurrence, f"{name}_{suffix}") for key, name in names.items()}


def steps_of(model, annotations, last, words, looking):
    decoder, kind = model.decoder, type(model.decoder).__name__
    if kind == "Luong":
        return decoders.luong(
            words,
            decoders.initial_states_copy(last),
            looking,
            layers=luong_layers(decoder),
            W_c=decoder.attentional.weight,
            input_feeding=decoder.input_feeding,
        )
    initial = decoder.initial.projection
    start = (
        decoders.initial_state_mean if type(decoder.initial).__name__ == "FromMean" else decoders.initial_state_backward
    )
    state = start(annotations, W=initial.weight, b=initial.bias)
    recurrent = {"W_hh": decoder.recurrent_gates.weight, "b_hh": decoder.recurrent_gates.bias}
    word, context = decoder.word_gates, decoder.context_gates
    joined = {"W_ih": torch.cat([word.weight, context.weight], dim=1), "b_ih": word.bias} | recurrent
    if kind == "Bahdanau":
        return decoders.bahdanau(words, state, looking, gru_weights=joined)
    if kind == "Feedback":
        W_r, W_y = decoder.state_query.weight, decoder.word_query
        return decoders.feedback(words, state, looking, W_r=W_r, W_y=W_y.weight, b=W_y.bias, gru_weights=joined)
    first = {"W_ih": word.weight, "b_ih": word.bias} | recurrent
    second = decoder.second_recurrent_gates
    second = {"W_ih": context.weight, "b_ih": context.bias, "W_hh": second.weight, "b_hh": second.bias}
    return decoders.conditional(words, state, looking, gru_1=first, gru_2=second)


def luong_layers(decoder):
    """The first layer's input is [e(y); h̃]: its matrices stand apart in the model, because the word's is used early."""
    layers = []
    for number, recurrent in enumerate(decoder.recurrent_gates):
        inputs = decoder.word_gates if number == 0 else decoder.layer_gates[number - 1]
        W_ih = inputs.weight
        if number == 0 and decoder.input_feeding:
            W_ih = torch.cat([W_ih, decoder.fed_gates.weight], dim=1)
        layers.append({"W_ih": W_ih, "b_ih": inputs.bias, "W_hh": recurrent.weight})
    return layers


def vector_of(model, step, word):
    """What the softmax sees."""
    readout, kind = model.decoder.readout, type(model.decoder.readout).__name__
    if kind == "Direct":
        return step.attentional
    parts = {"state": readout.state.weight, "word": readout.word.weight, "context": readout.context.weight}
    if kind == "DeepOutput":
        W_l, W_p, W_c = parts.values()
        return decoders.deep_output(step.state, word, step.context, W_l=W_l, W_p=W_p, W_c=W_c, b=readout.state.bias)
    U_o, V_o, C_o = parts.values()
    W_o = readout.projection.weight
    previous = step.previous_state
    return decoders.maxout(previous, word, step.context, U_o=U_o, V_o=V_o, C_o=C_o, W_o=W_o, b=readout.state.bias)


def literal(model, source, target):
    """Nats of a sentence, and its alignment (steps, positions)."""
    annotations, last = encoded(model, source)
    looking = attention.Attention(annotations, score=score_of(model))
    words = list(model.target_embedding.weight[torch.tensor([START, *target])])
    steps = steps_of(model, annotations, last, words, looking)
    nats = 0.0
    for step, word, wanted in zip(steps, words, [*target, END], strict=True):
        logits = model.output.weight @ vector_of(model, step, word)
        if model.output.bias is not None:
            logits = logits + model.output.bias
        nats = nats - (logits[wanted] - torch.log(torch.exp(logits).sum()))
    return nats, torch.stack([step.alignment for step in steps])


LUONG = ("decoder=luong", "encoder=lstm")
COMPOSITIONS = [
    *((f"decoder={decoder}",) for decoder in ("bahdanau", "feedback", "conditional")),
    *((f"attention={name}",) for name in ("dot", "general", "concat", "location")),
    ("attention=additive", "attention.score.bias=true"),
    ("attention=concat", "attention.score.identity_source=true", "attention.score.attention_size=32"),
    ("attention=location", "attention.score.positions=3"),
    ("decoder=bahdanau", "size.hidden=14", "size.embedding=9", "size.attention=5", "attention=general"),
    *((*LUONG, f"attention={name}") for name in ("dot", "general", "concat", "location")),
    (*LUONG, "encoder.reverse=true"),
    (*LUONG, "encoder.reverse=true", "decoder.input_feeding=false", "model.output_bias=false"),
    (*LUONG, "size.layers=3", "size.hidden=10", "size.embedding=7"),
    ("encoder=lstm", "decoder=conditional", "encoder.reverse=true"),
]


@pytest.mark.parametrize("overrides", COMPOSITIONS, ids=" ".join)
def test_losses_alignments_and_gradients_equal_those_of_a_literal_loop(overrides):
    model = composed(*overrides, "initialization=uniform").double()
    batch = batch_of(SOURCES, TARGETS)
    literally = [literal(model, source, target) for source, target in zip(SOURCES, TARGETS, strict=True)]
    expected = sum(nats for nats, _ in literally)
    loss = model.loss(batch).objective
    torch.testing.assert_close(loss, expected)
    alignments = model.unroll(batch, keep_trace=True).trace["alignment"]
    for number, (_, alignment) in enumerate(literally):
        steps, positions = alignment.shape
        torch.testing.assert_close(alignments[:steps, number, :positions], alignment)
    names, parameters = zip(*model.named_parameters(), strict=True)
    ours = torch.autograd.grad(loss, parameters)
    theirs = torch.autograd.grad(expected, parameters, allow_unused=True)
    for name, our, their in zip(names, ours, theirs, strict=True):
        torch.testing.assert_close(
            our, torch.zeros_like(our) if their is None else their, msg=lambda m, n=name: f"{n}: {m}"
        )
