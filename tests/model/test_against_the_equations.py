"""Composed models equal the equations of the papers in loss, trace and gradients.

The equations are literal float64 loops over one sentence (tests/reference). They get the parameters of a
composed model. The model gets all sentences in one padded batch.
"""

from dataclasses import replace
from functools import partial

import pytest
import torch
from compositions import composed
from random_batches import batch_of, random_rows
from reference import attention, cells, decoders, memory, scores

from nmt.data.vocabulary import END, START

SOURCES = random_rows([4, 7, 1, 3], 19, seed=1)
TARGETS = random_rows([5, 2, 4, 3], 23, seed=2)
LINKS = [  # source positions of each target word, and of the end symbol
    [[0], [1, 2], [], [3], [0, 4], [4]],
    [[6], [], [7]],
    [[0], [0], [1], [], [0, 1]],
    [[2], [1], [], [3]],
]


def links_tensor():
    links = torch.zeros(6, 4, 8, dtype=torch.float64)
    for sentence, steps in enumerate(LINKS):
        for step, positions in enumerate(steps):
            links[step, sentence, positions] = 1.0
    return links


def reference_score(score, coverage_weights=None):
    """Return the literal score with the parameters of a model's score, and V or w of a coverage."""
    kind = type(score).__name__
    if kind == "Additive":
        b = None if score.query.bias is None else score.query.bias + score.key.bias
        literal = partial(scores.additive, v=score.energy, W=score.query.weight, U=score.key.weight, b=b)
    elif kind == "Concat" and isinstance(score.key, torch.nn.Identity):
        literal = partial(scores.concat_code, v=score.energy, W=score.query.weight)
    elif kind == "Concat":
        literal = partial(scores.concat, v=score.energy, W=torch.cat([score.query.weight, score.key.weight], dim=1))
    elif kind == "General":
        literal = partial(scores.general, W=score.scale * score.key.weight)
    elif kind == "Location":
        literal = partial(scores.location, W_a=score.query.weight)
    else:
        literal = {"Dot": scores.dot, "NoScore": scores.none}[kind]
    if coverage_weights is None:
        return literal
    has_tanh = kind in ("Additive", "Concat")
    return partial(literal, V=coverage_weights) if has_tanh else partial(literal, w=coverage_weights[0])


def reference_attention(model, annotations, source):
    """Return the literal attention of a sentence; `source` holds its words without the end symbol."""
    joined = model.decoder.attention
    if type(joined).__name__ == "NoAttention":
        return attention.NoAttention(annotations)
    coverage_weights = joined.covered.weight if joined.coverage else None
    parts = {"score": reference_score(joined.score, coverage_weights)}
    parts["weights"] = getattr(attention, type(joined.weights).__name__.lower())
    if joined.window:
        parts["window"] = reference_window(joined.window, len(source))
    if joined.history:
        last = joined.history.window
        parts["history"] = attention.no_history if last == 0 else partial(attention.temporal, last=last)
    if joined.coverage:
        parts["coverage"] = reference_coverage(joined.coverage, annotations, torch.tensor([*source, END]))
    if joined.writing:
        score = None if joined.writing.shared else reference_score(joined.writing.score)
        parts["writing"] = attention.Interactive(joined.writing.forget.weight, joined.writing.update.weight, score)
    return attention.Attention(annotations, **parts)


def reference_window(window, words):
    if type(window).__name__ == "Monotonic":
        return partial(attention.local_m, D=window.half_width, J=words)
    if type(window).__name__ == "Mixture":
        return attention.Mixture(W=window.query.weight, b=window.query.bias)
    return partial(attention.local_p, D=window.half_width, J=words, W_p=window.query.weight, v_p=window.energy)


def reference_coverage(coverage, annotations, words):
    kind = type(coverage).__name__
    if kind == "Linguistic":
        return attention.linguistic(annotations)
    if kind == "Fertility":
        return attention.fertility(annotations, U_f=coverage.fertility.weight[0], N=coverage.most)
    if kind == "Embedding":
        return attention.embedding(list(coverage.embedding.weight[words]), **embedding_gates(coverage))
    if kind == "LocationAware":
        return attention.location_aware(annotations, F=coverage.filters.weight[:, 0])
    if kind == "Joined":
        return attention.joined([reference_coverage(part, annotations, words) for part in coverage.parts.values()])
    neural = attention.neural_tanh if kind == "NeuralTanh" else attention.neural_gru
    further = {"C_c": coverage.context.weight} if coverage.context else {}
    further |= {"b_e": coverage.energies.weight[:, 0]} if coverage.energies else {}
    a, B, T = coverage.alignment.weight[:, 0], coverage.annotation.weight, coverage.query.weight
    return neural(annotations, W=coverage.recurrent.weight, a=a, B=B, T=T, **further)


def embedding_gates(coverage):
    """Return the matrices of each gate by the names of the paper: r reset, z update, none candidate."""
    gates = {}
    for name, weight in (("y", coverage.word.weight), ("alpha", coverage.alignment.weight[:, 0])):
        gates |= dict(zip((f"W_r{name}", f"W_z{name}", f"W_{name}"), weight.chunk(3), strict=True))
    return gates | dict(zip(("U_r", "U_z", "U"), coverage.recurrent.weight.chunk(3), strict=True))


def reference_memory(model, annotations):
    buffer = model.decoder.memory
    if type(buffer).__name__ == "NoMemory":
        return None
    return memory.Buffer(
        annotations,
        list(buffer.perturbation),
        W_INI=buffer.start.weight,
        reading=reference_addressing(buffer.reading),
        writing=reference_addressing(buffer.writing) if buffer.writing else None,
        W_ERS=buffer.erase.weight,
        W_ADD=buffer.add.weight,
    )


def reference_addressing(addressing):
    score = addressing.score
    return memory.Addressing(score.key.weight, score.query.weight, score.energy, addressing.gate.weight[0])


def reference_encoder(model, words):
    """Return annotations and last states of a sentence with its end symbol."""
    embedded = model.source_embedding.weight[torch.tensor([*words, END])]
    encoder, recurrence = model.encoder, model.encoder.recurrence
    layers = [recurrent_weights(recurrence, f"l{layer}") for layer in range(encoder.layers)]
    if encoder.directions == 2:
        annotations = cells.bigru_encoder(
            list(embedded), forward=layers[0], backward=recurrent_weights(recurrence, "l0_reverse")
        )
        return annotations, None
    return cells.stacked_lstm_encoder(list(embedded), layers=layers, reverse=encoder.reverse)


def recurrent_weights(recurrence, suffix):
    names = {"W_ih": "weight_ih", "W_hh": "weight_hh", "b_ih": "bias_ih", "b_hh": "bias_hh"}
    return {key: getattr(recurrence, f"{name}_{suffix}") for key, name in names.items()}


def reference_steps(model, annotations, last, words, literal_attention, literal_memory):
    """Return the steps of the literal decoder; `last` holds the encoder's last states."""
    decoder, kind = model.decoder, type(model.decoder).__name__
    if kind == "Luong":
        return decoders.luong(
            words,
            decoders.initial_states_copy(last),
            literal_attention,
            layers=luong_layers(decoder),
            W_c=decoder.attentional.weight if hasattr(decoder, "attentional") else None,
            input_feeding=decoder.input_feeding,
            memory=literal_memory,
        )
    from_mean = type(decoder.initial).__name__ == "FromMean"
    initial_state = decoders.initial_state_mean if from_mean else decoders.initial_state_backward
    projection = decoder.initial.projection
    inputs = (words, initial_state(annotations, W=projection.weight, b=projection.bias), literal_attention)
    recurrent = {"W_hh": decoder.recurrent_gates.weight, "b_hh": decoder.recurrent_gates.bias}
    word, context = decoder.word_gates, decoder.context_gates
    further = {"memory": literal_memory, "gate": reference_gate(decoder)}
    if kind == "Conditional":
        first = {"W_ih": word.weight, "b_ih": word.bias} | recurrent
        gates = decoder.second_recurrent_gates
        second = {"W_ih": context.weight, "b_ih": context.bias, "W_hh": gates.weight, "b_hh": gates.bias}
        return decoders.conditional(*inputs, first=first, second=second, **further)
    weights = {"W_ih": torch.cat([word.weight, context.weight], dim=1), "b_ih": word.bias} | recurrent
    if kind == "Bahdanau":
        return decoders.bahdanau(*inputs, weights=weights, **further)
    W_r, W_y, b = decoder.state_query.weight, decoder.word_query.weight, decoder.word_query.bias
    return decoders.feedback(*inputs, W_r=W_r, W_y=W_y, b=b, weights=weights, **further)


def reference_gate(decoder):
    gate = decoder.context_gate
    if gate is None:
        return decoders.no_gate
    return decoders.ContextGate(
        W_z=gate.word.weight, U_z=gate.state.weight, C_z=gate.context.weight, b=gate.word.bias, scales=gate.scales
    )


def luong_layers(decoder):
    """Return the weights of each layer; the model splits the matrices of the first layer, whose input is [e(y); h̃]."""
    layers = []
    for number, recurrent in enumerate(decoder.recurrent_gates):
        inputs = decoder.word_gates if number == 0 else decoder.layer_gates[number - 1]
        W_ih = inputs.weight
        if number == 0 and decoder.input_feeding:
            W_ih = torch.cat([W_ih, decoder.fed_gates.weight], dim=1)
        layers.append({"W_ih": W_ih, "b_ih": inputs.bias, "W_hh": recurrent.weight})
    return layers


def reference_readout(model, step, word):
    """Return the vector that the softmax reads."""
    readout, kind = model.decoder.readout, type(model.decoder.readout).__name__
    if kind == "StateOnly":
        return step.attentional
    W_state, W_word, W_context, b = (
        readout.state.weight,
        readout.word.weight,
        readout.context.weight,
        readout.state.bias,
    )
    if kind == "DeepOutput":
        return decoders.deep_output(step.state, word, step.context, W_l=W_state, W_p=W_word, W_c=W_context, b=b)
    matrices = {"U_o": W_state, "V_o": W_word, "C_o": W_context, "W_o": readout.projection.weight}
    reads_current = getattr(model.decoder, "readout_state", "previous") == "current"
    state = step.state if reads_current else step.previous_state
    return decoders.maxout(state, word, step.context, **matrices, b=b)


def run_reference(model, source, target, links):
    """Return −log p(target | source) with the penalty, the attention's trace, and the memory."""
    annotations, last = reference_encoder(model, source)
    literal_attention = reference_attention(model, annotations, source)
    literal_memory = reference_memory(model, annotations)
    words = list(model.target_embedding.weight[torch.tensor([START, *target])])
    steps = reference_steps(model, annotations, last, words, literal_attention, literal_memory)
    nats = 0.0
    for step, word, next_word in zip(steps, words, [*target, END], strict=True):
        logits = model.output.weight @ reference_readout(model, step, word)
        if model.output.bias is not None:
            logits = logits + model.output.bias
        nats = nats - (logits[next_word] - torch.log(torch.exp(logits).sum()))
    return nats + reference_penalty(model, literal_attention, links), literal_attention.trace(), literal_memory


def reference_penalty(model, literal_attention, links):
    """Return the attention's penalty on a sentence, or 0."""
    penalty = model.decoder.attention.penalty
    if penalty is None:
        return 0.0
    alignments, kind = literal_attention.alignments, type(penalty).__name__
    if kind == "FertilityObjective":
        return attention.fertility_penalty(literal_attention.coverage.fertilities, alignments, weight=penalty.weight)
    if kind == "GuidedAttention":
        return attention.guided(alignments, links, weight=penalty.weight)
    literal = {"DoublyStochastic": attention.doubly_stochastic, "CoverageLoss": attention.coverage_loss}[kind]
    return literal(alignments, weight=penalty.weight)


def past_shares(energies, last):
    """Return the share of each position in the past attention after each step, over the `last` n steps or all."""
    odds = torch.exp(energies)
    sums = torch.stack([odds[max(0, i - (last or i)) : i].sum(0) for i in range(1, len(odds) + 1)])
    return sums / sums.sum(1, keepdim=True)


def reference_trace(model, attention_trace, literal_memory):
    """Return the trace that the model should give for one sentence."""
    fertilities = attention_trace.fertilities
    trace = {
        "alignment": attention_trace.alignments,
        "coverage": attention_trace.coverage_after,
        "position": attention_trace.positions,
        "fertility": None if fertilities is None else fertilities.expand_as(attention_trace.alignments),
    }
    if attention_trace.writing_weights is not None:
        trace["annotations"] = attention_trace.annotations[:-1]
    history = getattr(model.decoder.attention, "history", None)
    if history is not None and history.window != 0:
        trace["past_attention"] = past_shares(attention_trace.energies, history.window)
    if literal_memory is not None:
        weights = torch.stack([torch.stack(weights) for weights in literal_memory.read_weights[1:]])
        trace["memory_weights"] = weights[:, None]
        trace["memory_gate"] = torch.stack(literal_memory.gates)[:, None]
        trace["memory_cells"] = torch.stack([torch.stack(cells) for cells in literal_memory.versions[:-1]])[:, None]
    return {name: value for name, value in trace.items() if value is not None}


LUONG = ("decoder=luong", "encoder=lstm")
FURTHER_INPUTS = ("attention.coverage.energies=true", "attention.coverage.context_size=${attention.context_size}")
RENORMALISING = ("softmax", "sparsemax")


def penalty(name):
    return f"attention/penalty={name}", "attention.penalty.weight=0.7"


MECHANISMS = (
    *("local_m", "local_p", "temporal", "temporal_local", "interactive", "interactive_coverage"),
    *(f"coverage{kind}" for kind in ("", "_tanh", "_linguistic", "_fertility", "_embedding")),
)
COMPOSITIONS = [
    *((f"decoder={decoder}",) for decoder in ("bahdanau", "feedback", "conditional")),
    ("decoder=bahdanau", "decoder.readout_state=current"),
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
    (
        *("attention=local_m", "attention/score=location", "attention/weights=sparsemax"),
        *("attention.score.positions=2", "attention.window.half_width=1"),
    ),
    *(("attention=temporal", f"attention.history.window={steps}") for steps in (0, 1, 3)),
    ("attention=coverage", "attention.coverage.size=1"),
    ("attention=coverage_fertility", "attention.coverage.most=3.5", *penalty("fertility")),
    *(penalty(name) for name in ("doubly_stochastic", "coverage", "guided")),
    ("attention=temporal", "attention/coverage=fertility", "attention/window=local_p", *penalty("coverage")),
    (*LUONG, "attention=interactive", *penalty("guided")),
    ("attention=coverage", *FURTHER_INPUTS),
    ("attention=coverage_tanh", "attention/window=local_m", "attention.window.half_width=1", *FURTHER_INPUTS),
    *((f"attention={name}",) for name in ("location_aware", "mixture", "sparsemax")),
    *((*LUONG, f"attention={name}") for name in ("location_aware", "mixture", "sparsemax")),
    ("attention=location_aware", "attention.coverage.half_width=1", "attention/score=general"),
    ("attention/coverage=gru_location_aware",),
    ("attention/coverage=gru_location_aware", "attention/history=temporal", "attention/weights=sparsemax"),
    ("attention=interactive", "attention.writing.shared=false", "attention/weights=sparsemax"),
    ("attention=interactive", "attention/score=location", "attention/weights=exponential", "attention/window=local_p"),
    *((f"decoder={decoder}", "decoder/cell=lstm") for decoder in ("bahdanau", "feedback", "conditional")),
    *(
        (f"decoder={decoder}", f"decoder/context_gate={gate}")
        for decoder in ("bahdanau", "feedback", "conditional")
        for gate in ("source", "target", "both")
    ),
    ("decoder=feedback", "decoder/cell=lstm", "decoder/context_gate=both", "memory=buffer", "attention=coverage"),
    *(("attention=location", "attention.score.positions=3", f"attention/weights={name}") for name in RENORMALISING),
    ("attention=local_p", "attention/score=location", "attention/weights=exponential"),
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
def test_losses_traces_and_gradients_equal_a_literal_loop(overrides):
    model = composed(*overrides, "initialization=uniform").double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 5  # U[−0.5, 0.5], so that each step has an influence on the next
    batch = replace(batch_of(SOURCES, TARGETS), links=links_tensor())
    references = [run_reference(model, *sentence) for sentence in zip(SOURCES, TARGETS, LINKS, strict=True)]
    expected_loss = sum(nats for nats, _, _ in references)
    loss = model.loss(batch).objective
    torch.testing.assert_close(loss, expected_loss)
    trace = model.unroll(batch, trace_names=None).trace
    for sentence, (_, attention_trace, literal_memory) in enumerate(references):
        expected_trace = reference_trace(model, attention_trace, literal_memory)
        assert expected_trace.keys() == trace.keys() - {"context_gate"}
        for name, expected in expected_trace.items():
            unpadded = (slice(length) for length in expected.shape[1:])
            actual = trace[name][: len(expected), sentence][:, *unpadded]
            torch.testing.assert_close(actual, expected, check_dtype=False, msg=lambda m, n=name: f"{n}: {m}")
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    expected_gradients = torch.autograd.grad(expected_loss, parameters, allow_unused=True)
    for name, actual, expected in zip(names, gradients, expected_gradients, strict=True):
        expected = torch.zeros_like(actual) if expected is None else expected
        torch.testing.assert_close(actual, expected, msg=lambda m, n=name: f"{n}: {m}")
