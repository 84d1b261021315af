"""Transfer of weights by name: all of them, or none."""

import pytest
import torch
from compositions import composed

from nmt.errors import ConfigurationError
from nmt.training.transfer import check_fresh, transfer

PLAIN = composed("decoder=feedback")
BUFFER = "decoder.memory.*"


def refusal(weights, model, fresh):
    with pytest.raises(ConfigurationError) as caught:
        transfer(weights, model, fresh, origin="init_from=there")
    return str(caught.value)


def test_all_weights_but_the_fresh_ones_come_from_the_other_model():
    model = composed("decoder=feedback", "memory=buffer")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    moved = transfer(PLAIN.state_dict(), model, [BUFFER], origin="there")
    assert moved.transferred == list(PLAIN.state_dict())
    assert set(moved.fresh) == {name for name in before if name.startswith("decoder.memory.")}
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name] if name in moved.fresh else PLAIN.state_dict()[name])
    assert not torch.equal(before["encoder.recurrence.weight_ih_l0"], model.encoder.recurrence.weight_ih_l0)


def test_the_fresh_parameters_are_those_the_papers_list():
    """Wang 2016: W_Ra U_Ra v w_Rg W_ERS W_ADD (and W_INI, which RNNsearch* has not either); Meng 2016: W_F W_U."""
    memory = transfer(PLAIN.state_dict(), composed("decoder=feedback", "memory=buffer"), [BUFFER], origin="there").fresh
    reading = [f"decoder.memory.reading.{name}" for name in ("score.energy", "score.query.weight", "score.key.weight")]
    gates = [f"decoder.memory.{name}.weight" for name in ("reading.gate", "erase", "add", "start")]
    assert sorted(memory) == sorted([*reading, *gates, "decoder.memory.perturbation"])
    interactive = composed("attention=interactive")
    writing = transfer(composed().state_dict(), interactive, ["decoder.attention.writing.*"], origin="there").fresh
    assert sorted(writing) == [f"decoder.attention.writing.{name}.weight" for name in ("forget", "update")]


def test_weights_that_do_not_fit_are_named():
    buffered = composed("decoder=feedback", "memory=buffer")
    assert "init_from=there: lacks decoder.memory.perturbation" in refusal(PLAIN.state_dict(), buffered, [])
    assert "name them in fresh=[…]" in refusal(PLAIN.state_dict(), buffered, [])
    assert "has decoder.memory.perturbation" in refusal(buffered.state_dict(), PLAIN, [])
    wider = composed("decoder=feedback", "size.hidden=40")
    assert "decoder.attention.score.query.weight (24, 32) there, (24, 40) here" in refusal(
        PLAIN.state_dict(), wider, []
    )


def test_a_name_of_fresh_that_matches_no_weight_is_refused():
    check_fresh(["decoder.*"], PLAIN)
    with pytest.raises(ConfigurationError, match=r"fresh=\['decoder.memroy.\*'\]: this model has no such parameter"):
        check_fresh(["decoder.memroy.*"], PLAIN)
    with pytest.raises(ConfigurationError, match=r"fresh=\['\*'\]: leaves nothing to take from the other run"):
        check_fresh(["*"], PLAIN)


def test_the_names_of_one_parameter_are_transferred_together():
    tied = composed("model.tie_embeddings=output")
    names = ["target_embedding.weight", "output.weight"]
    assert all(name in tied.state_dict() for name in names)
    untied = {name: value.clone() for name, value in tied.state_dict().items()}
    assert transfer(untied, tied, [], origin="there").fresh == []
    untied["output.weight"] = untied["output.weight"] + 1
    message = refusal(untied, tied, [])
    assert all(name in message for name in names)
    assert "are one parameter here, and differ there" in message
    for name in names:
        with pytest.raises(ConfigurationError, match=rf"{' and '.join(names)} are one .* name all of them, or none"):
            check_fresh([name], tied)
    check_fresh(names, tied)
    before = tied.output.weight.clone()
    assert set(names) <= set(transfer(untied, tied, names, origin="there").fresh)
    assert torch.equal(tied.output.weight, before)
