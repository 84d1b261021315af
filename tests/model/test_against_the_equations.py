"""The composed models compute what the papers say: losses, traces and gradients equal those of literal loops.

The loops (tests/reference) go over one sentence, one position and one step at a time in float64; here they get the
parameters of a composed model, and the model gets all sentences in one padded batch.
"""

from functools import partial

import pytest
import torch
from compositions import composed
from random_batches import batch_of, random_rows
from reference import attention, cells, decoders, memory, scores

from nmt.data.vocabulary import END, START

SOURCES = random_rows([4, 7, 1, 3], 19, seed=1)
TARGETS = random_rows([5, 2, 4, 3], 23, seed=2)


def score_of(score, covered=None):
    """`covered`: what takes a coverage into the score."""
    kind = type(score).__name__
    told = (
        {} if covered is None else {"V": covered.weight} if kind in ("Additive", "Concat") else {"w": covered.weight[0]}
    )
    bound = {
        "Additive": lambda: partial(
            scores.additive, v=score.energy, W=score.query.weight, U=score.key.weight, b=both(score)
        ),
        "Dot": lambda: scores.dot,
        "General": lambda: partial(scores.general, W=score.scale * score.key.weight),
        "Concat": lambda: concat_of(score),
        "Location": lambda: partial(scores.location, W_a=score.query.weight),
    }[kind]()
    return partial(bound, **told)


def both(score):
    return None if score.query.bias is None else score.query.bias + score.key.bias


def concat_of(score):
    if isinstance(score.key, torch.nn.Identity):
        return partial(scores.concat_code, v=score.energy, W=score.query.weight)
    return partial(scores.concat, v=score.energy, W=torch.cat([score.query.weight, score.key.weight], dim=1))


def looking_of(model, annotations, source):
    """The attention of a sentence; `source` its words, without the end symbol."""
    looks = model.decoder.attention
    if type(looks).__name__ == "NoAttention":
        return attention.Nowhere(annotations)
    parts = {"score": score_of(looks.score, getattr(looks, "covered", None))}
    if looks.window:
        parts["window"] = window_of(looks.window, len(source))
    if looks.history:
        parts["history"] = (
            partial(attention.temporal, last=looks.history.window)
            if looks.history.window != 0
            else attention.no_history
        )
    if looks.coverage:
        parts["coverage"] = coverage_of(looks.coverage, annotations, torch.tensor([*source, END]))
    if looks.writing:
        own = None if looks.writing.shared else score_of(looks.writing.score)
        parts["writing"] = attention.Interactive(looks.writing.forget.weight, looks.writing.update.weight, own)
    return attention.Attention(annotations, **parts)


def window_of(window, words):
    if type(window).__name__ == "Monotonic":
        return partial(attention.local_m, D=window.half_width, J=words)
    return partial(attention.local_p, D=window.half_width, J=words, W_p=window.query.weight, v_p=window.energy)


def coverage_of(coverage, annotations, words):
    kind = type(coverage).__name__
    if kind == "Linguistic":
        return attention.linguistic(annotations)
    if kind == "Fertility":
        return attention.fertility(annotations, U_f=coverage.fertility.weight[0], N=coverage.most)
    if kind == "Embedding":
        return attention.embedding(list(coverage.embedding.weight[words]), **gates_of(coverage))
    neural = attention.neural_tanh if kind == "NeuralTanh" else attention.neural_gru
    a = coverage.alignment.weight[:, 0]
    return neural(annotations, W=coverage.recurrent.weight, a=a, B=coverage.annotation.weight, T=coverage.query.weight)


def gates_of(coverage):
    """The reference names each gate's matrices: reset, update, candidate."""
    named = {}
    for name, weight in (("y", coverage.word.weight), ("alpha", coverage.alignment.weight[:, 0])):
        named |= dict(zip((f"W_r{name}", f"W_z{name}", f"W_{name}"), weight.chunk(3), strict=True))
    return named | dict(zip(("U_r", "U_z", "U"), coverage.recurrent.weight.chunk(3), strict=True))


def memory_of(model, annotations):
    buffer = model.decoder.memory
    if type(buffer).__name__ == "NoMemory":
        return None
    return memory.Buffer(
        annotations,
        list(buffer.perturbation),
        W_INI=buffer.start.weight,
        reading=addressing_of(buffer.reading),
        writing=addressing_of(buffer.writing) if buffer.writing else None,
        W_ERS=buffer.erase.weight,
        W_ADD=buffer.add.weight,
    )


def addressing_of(addressing):
    score = addressing.score
    return memory.Addressing(score.key.weight, score.query.weight, score.energy, addressing.gate.weight[0])


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


def steps_of(model, annotations, last, words, looking, remembering):
    decoder, kind = model.decoder, type(model.decoder).__name__
    if kind == "Luong":
        return decoders.luong(
            words,
            decoders.initial_states_copy(last),
            looking,
            layers=luong_layers(decoder),
            W_c=decoder.attentional.weight if hasattr(decoder, "attentional") else None,
            input_feeding=decoder.input_feeding,
            memory=remembering,
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
        return decoders.bahdanau(words, state, looking, gru_weights=joined, memory=remembering)
    if kind == "Feedback":
        W_r, W_y = decoder.state_query.weight, decoder.word_query
        return decoders.feedback(
            words, state, looking, W_r=W_r, W_y=W_y.weight, b=W_y.bias, gru_weights=joined, memory=remembering
        )
    first = {"W_ih": word.weight, "b_ih": word.bias} | recurrent
    second = decoder.second_recurrent_gates
    second = {"W_ih": context.weight, "b_ih": context.bias, "W_hh": second.weight, "b_hh": second.bias}
    return decoders.conditional(words, state, looking, gru_1=first, gru_2=second, memory=remembering)


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
    """Nats of a sentence, its steps, its attention and its memory."""
    annotations, last = encoded(model, source)
    looking, remembering = looking_of(model, annotations, source), memory_of(model, annotations)
    words = list(model.target_embedding.weight[torch.tensor([START, *target])])
    steps = steps_of(model, annotations, last, words, looking, remembering)
    nats = 0.0
    for step, word, wanted in zip(steps, words, [*target, END], strict=True):
        logits = model.output.weight @ vector_of(model, step, word)
        if model.output.bias is not None:
            logits = logits + model.output.bias
        nats = nats - (logits[wanted] - torch.log(torch.exp(logits).sum()))
    return nats + penalty_of(model, looking), looking.trace(), remembering


def penalty_of(model, looking):
    coverage = getattr(model.decoder.attention, "coverage", None)
    weight = getattr(coverage, "auxiliary", 0.0)
    return (
        attention.fertility_penalty(looking.coverage.fertilities, looking.alignments, weight=weight) if weight else 0.0
    )


def traced(looked, remembering):
    """What the model's trace should hold of one sentence."""
    known = {
        "alignment": looked.alignments,
        "coverage": looked.coverage_after,
        "position": looked.positions,
        "fertility": None if looked.fertilities is None else looked.fertilities.expand_as(looked.alignments),
    }
    if remembering is not None:
        weights = torch.stack([torch.stack(weights) for weights in remembering.read_weights[1:]])
        known["memory_weights"] = weights[:, None]
        known["memory_gate"] = torch.stack(remembering.gates)[:, None]
    return {name: value for name, value in known.items() if value is not None}


LUONG = ("decoder=luong", "encoder=lstm")
MECHANISMS = (
    *("local_m", "local_p", "temporal", "temporal_local", "interactive", "interactive_coverage"),
    *(f"coverage{kind}" for kind in ("", "_tanh", "_linguistic", "_fertility", "_embedding")),
)
COMPOSITIONS = [
    *((f"decoder={decoder}",) for decoder in ("bahdanau", "feedback", "conditional")),
    *((f"attention={name}",) for name in ("dot", "general", "general_scaled", "concat", "location")),
    *((f"decoder={decoder}", "attention=none") for decoder in ("bahdanau", "feedback", "conditional")),
    *((*LUONG, "attention=none", f"decoder.input_feeding={feeding}") for feeding in ("false", "true")),
    ("attention=additive", "attention.score.bias=true"),
    ("attention=concat", "attention.score.identity_source=true", "attention.score.attention_size=32"),
    ("attention=location", "attention.score.positions=3"),
    ("decoder=bahdanau", "size.hidden=14", "size.embedding=9", "size.attention=5", "attention=general"),
    *((*LUONG, f"attention={name}") for name in ("dot", "general", "concat", "location")),
    (*LUONG, "encoder.reverse=true"),
    (*LUONG, "encoder.reverse=true", "decoder.input_feeding=false", "model.output_bias=false"),
    (*LUONG, "size.layers=3", "size.hidden=10", "size.embedding=7"),
    ("encoder=lstm", "decoder=conditional", "encoder.reverse=true"),
    *((f"attention={name}",) for name in MECHANISMS),
    *(("decoder=bahdanau", f"attention={name}") for name in MECHANISMS),
    *((*LUONG, f"attention={name}") for name in MECHANISMS),
    *(
        (f"attention={name}", f"attention/score={score}")
        for name in ("coverage", "temporal", "interactive")
        for score in ("dot", "location")
    ),
    *((f"attention={name}", "attention.window.half_width=2") for name in ("local_m", "local_p", "temporal_local")),
    (*LUONG, "encoder.reverse=true", "attention=local_p", "attention.window.half_width=3"),
    ("attention=local_m", "attention/score=location", "attention.score.positions=3", "attention.window.half_width=1"),
    *(("attention=temporal", f"attention.history.window={steps}") for steps in (0, 1, 3)),
    ("attention=coverage", "attention.coverage.size=1"),
    ("attention=coverage_fertility", "attention.coverage.most=3.5", "attention.coverage.auxiliary=0.7"),
    (
        "attention=coverage_linguistic",
        "attention/score=general",
        "attention/window=local_p",
        "attention.window.half_width=2",
    ),
    ("attention=interactive", "attention.writing.shared=false"),
    (
        "attention=interactive_coverage",
        "attention/window=local_p",
        "attention/history=temporal",
        "attention.window.half_width=2",
    ),
    *((f"decoder={decoder}", "memory=buffer") for decoder in ("bahdanau", "feedback", "conditional")),
    (*LUONG, "memory=buffer"),
    ("decoder=feedback", "memory=buffer", "memory.shared=false", "memory.cells=3"),
    ("decoder=feedback", "memory=buffer", "memory.cells=1"),
    ("decoder=feedback", "memory=buffer", "attention=interactive_coverage"),
    (*LUONG, "memory=buffer", "memory.shared=false", "attention=coverage_embedding"),
]


@pytest.mark.parametrize("overrides", COMPOSITIONS, ids=" ".join)
def test_losses_traces_and_gradients_equal_those_of_a_literal_loop(overrides):
    model = composed(*overrides, "initialization=uniform").double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 5  # U[−0.5, 0.5]: what a step does then matters to the next
    batch = batch_of(SOURCES, TARGETS)
    literally = [literal(model, source, target) for source, target in zip(SOURCES, TARGETS, strict=True)]
    expected = sum(nats for nats, _, _ in literally)
    loss = model.loss(batch).objective
    torch.testing.assert_close(loss, expected)
    trace = model.unroll(batch, keep_trace=True).trace
    for number, (_, looked, remembering) in enumerate(literally):
        wanted = traced(looked, remembering)
        assert wanted.keys() == trace.keys()
        for name, value in wanted.items():
            inside = (slice(length) for length in value.shape[1:])
            torch.testing.assert_close(
                trace[name][: len(value), number][:, *inside],
                value,
                check_dtype=False,
                msg=lambda m, n=name: f"{n}: {m}",
            )
    names, parameters = zip(*model.named_parameters(), strict=True)
    ours = torch.autograd.grad(loss, parameters)
    theirs = torch.autograd.grad(expected, parameters, allow_unused=True)
    for name, our, their in zip(names, ours, theirs, strict=True):
        torch.testing.assert_close(
            our, torch.zeros_like(our) if their is None else their, msg=lambda m, n=name: f"{n}: {m}"
        )
