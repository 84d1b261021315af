"""Models built from configurations, and configurations that are refused."""

import pytest
import torch
from compositions import composed, configured
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from random_batches import batch_of
from torch import nn


def refusal(*overrides: str) -> str:
    with pytest.raises(InstantiationException) as caught:
        composed(*overrides)
    return str(caught.value.__cause__)


def test_sizes_that_do_not_fit_are_refused_with_a_fix():
    assert "size 32 and the annotation's size 20 must be equal. Fix: attention=general" in refusal(
        "attention=dot", "size.encoder=10"
    )
    assert "are 1 × 20, but the decoder has 1 × 32. Fix: decoder.layers=1 decoder.hidden_size=20" in refusal(
        "decoder=luong", "size.encoder=10"
    )
    assert "encoder.annotation_size=33: must be even" in refusal("encoder.annotation_size=33")
    assert "attention_size=24: must equal encoder.annotation_size=32" in refusal(
        "attention=concat", "attention.score.identity_source=true"
    )


def test_parts_of_an_attention_that_do_not_fit_are_refused_with_a_fix():
    exponential = "exp(e_ij) of this score, history or coverage may be above 1. Fix: attention/weights=softmax"
    assert exponential in refusal("attention/weights=exponential")
    assert exponential in refusal("attention=location", "attention/history=temporal")
    assert exponential in refusal("attention=location", "attention/coverage=linguistic")
    fertility = "attention/penalty: needs a coverage that shows fertility. Fix: choose such"
    assert fertility in refusal("attention/penalty=fertility")
    assert fertility in refusal("attention/penalty=fertility", "attention=coverage")
    assert "weight=-1.0: must be at least 0" in refusal("attention/penalty=coverage", "attention.penalty.weight=-1.0")
    twice = ("+attention/coverage@attention.coverage.parts.second=tanh",)
    assert "two of gru, location_aware, second show the same values" in refusal(
        "attention/coverage=gru_location_aware", *twice
    )


def test_an_experiment_overrides_the_defaults_and_the_command_line_overrides_both():
    assert configured().dropout == 0.2
    assert configured("experiment=demo").dropout == 0.1
    assert configured("experiment=demo").name == "demo"
    assert configured("experiment=demo", "dropout=0.3").dropout == 0.3


def test_misspelt_values_are_refused_with_the_valid_choices():
    assert "choose none, output or all" in refusal("model.tie_embeddings=yes")
    assert "choose previous or current" in refusal("decoder=bahdanau", "decoder.readout_state=next")


def test_tied_embeddings_share_their_weights():
    output = composed("model.tie_embeddings=output")
    assert output.output.weight is output.target_embedding.weight
    assert output.source_embedding.weight is not output.target_embedding.weight
    assert "the readout gives 9 values, an embedding has 24" in refusal("model.tie_embeddings=output", "size.readout=9")
    assert "data.vocabulary.joint=true" in refusal("model.tie_embeddings=all")


def test_initialisations_of_each_kind_of_parameter_follow_the_papers():
    sizes = ("size.hidden=300", "size.encoder=150", "size.attention=300", "size.embedding=200")
    model = composed(*sizes, "decoder=bahdanau", "initialization=groundhog")
    assert model.source_embedding.weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert model.decoder.word_gates.weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert model.decoder.attention.score.key.weight.std().item() == pytest.approx(0.001, rel=0.1)
    assert (model.decoder.attention.score.energy == 0).all()
    assert (model.decoder.word_gates.bias == 0).all()
    for gate in model.decoder.recurrent_gates.weight.split(300):
        torch.testing.assert_close(gate @ gate.T, torch.eye(300), atol=1e-4, rtol=0.0)
    uniform = composed(*sizes, "decoder=luong", "encoder=lstm", "initialization=uniform")
    for name, parameter in uniform.named_parameters():
        assert parameter.abs().max() <= 0.1, name
        assert parameter.std().item() == pytest.approx(0.2 / 12**0.5, rel=0.1), name


@pytest.mark.parametrize("initialization", ["default", "groundhog", "gaussian", "uniform"])
def test_vectors_and_numbers_of_a_new_mechanism_keep_their_initial_values(initialization):
    model = composed(f"initialization={initialization}")
    score = model.decoder.attention.score
    score.norm, score.temperature = nn.LayerNorm(7), nn.Parameter(torch.tensor(2.5))
    initialize = instantiate(configured(f"initialization={initialization}").initialization)
    initialize(model)
    assert (score.norm.weight == 1).all()
    assert score.temperature.item() == 2.5
    assert (score.norm.bias == 0).all() == (initialization != "uniform")


def test_annotations_of_a_source_read_backwards_are_in_the_original_order():
    torch.manual_seed(1)
    model = composed("encoder=lstm", "encoder.reverse=true", "size.layers=1")
    words, lengths = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2])
    before = model.encode(words, lengths).annotations
    after = model.encode(torch.tensor([[5, 6, 7, 4], [11, 10, 0, 0]]), lengths).annotations
    torch.testing.assert_close(before[1, 1], after[1, 1])  # read before the changed word
    assert not torch.isclose(before[0, 0], after[0, 0]).all()  # read after it
    straight = composed("encoder=lstm", "size.layers=1").encode(words, lengths).annotations
    assert not torch.isclose(before, straight).all()


def test_dropout_is_active_in_training_and_absent_in_evaluation():
    model = composed("dropout=0.5")
    words, lengths = torch.tensor([[5, 6, 7]]), torch.tensor([3])
    torch.testing.assert_close(model.encode(words, lengths).annotations, model.encode(words, lengths).annotations)
    model.train()
    first, second = (model.encode(words, lengths).annotations for _ in range(2))
    assert not torch.isclose(first, second).all()


@pytest.mark.parametrize(
    ("overrides", "place"),
    [
        (("decoder=conditional",), "decoder.readout.dropout"),
        (("decoder=bahdanau",), "decoder.readout.dropout"),
        (("decoder=luong", "encoder=lstm"), "decoder.readout.dropout"),
        ((), "encoder.annotation_dropout"),
    ],
)
def test_each_dropout_changes_the_loss_by_itself(overrides, place):
    model, batch = composed(*overrides, "dropout=0.0").double().train(), batch_of([[5, 6, 7]], [[8, 9]])
    plain = model.loss(batch).objective
    model.get_submodule(place).p = 0.5
    first, second = model.loss(batch).objective, model.loss(batch).objective
    assert not torch.isclose(first, plain)
    assert not torch.isclose(first, second)


def test_dropout_acts_on_the_embeddings_of_target_words_too():
    model = composed("dropout=0.0").train()
    model.embedding_dropout.p = 0.5
    words = model.unroll(batch_of([[5] * 20], [[6] * 20])).words
    assert (words == 0).float().mean().item() == pytest.approx(0.5, abs=0.15)


def test_dropout_acts_between_the_layers_of_luongs_decoder():
    parts = ("decoder=luong", "encoder=lstm", "size.layers=2", "attention=none", "decoder.input_feeding=false")
    model = composed(*parts, "decoder.dropout=1.0")
    bound, state = model.begin(model.encode(torch.tensor([[5, 6, 7]]), torch.tensor([3])))

    def top(word):
        inputs = model.decoder.prepare(model.target_embedding(torch.tensor([word])))
        return model.decoder.step(inputs, state, bound)[0].state

    assert not torch.isclose(top(5), top(6)).all()
    model.decoder.train()
    torch.testing.assert_close(top(5), top(6))


def test_dropout_acts_on_the_vector_that_luong_feeds_back():
    """Dropout acts on every input of a layer in Zaremba 2015, which Luong 2015 §4.1 follows."""
    model = composed("decoder=luong", "encoder=lstm", "size.layers=1", "decoder.dropout=1.0")
    bound, state = model.begin(model.encode(torch.tensor([[5, 6, 7]]), torch.tensor([3])))
    inputs = model.decoder.prepare(model.target_embedding(torch.tensor([2])))
    changed = state._replace(hidden=state.hidden._replace(attentional=torch.ones_like(state.hidden.attentional)))

    def next_hidden(state):
        return model.decoder.step(inputs, state, bound)[0].state

    assert not torch.isclose(next_hidden(state), next_hidden(changed)).all()
    model.decoder.train()
    torch.testing.assert_close(next_hidden(state), next_hidden(changed))
