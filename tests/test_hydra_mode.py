"""The tests' own get_mode returns the same as Hydra's."""

import pytest
from compositions import choices
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from hydra_mode import compose_mode, get_mode

from nmt.config.installation import CONF_DIR

SWEEPS = ["hydra.mode=MULTIRUN", "hparams_search=optuna", *(f"+table={name}" for name in choices("table"))]
MODES = dict.fromkeys(SWEEPS, RunMode.MULTIRUN) | {"hydra.mode=RUN": RunMode.RUN, "attention=dot": None}


@pytest.mark.parametrize("override", MODES)
def test_the_mode_is_that_which_hydra_composes(override):
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert compose_mode(hydra, "config", [override]) == get_mode(hydra, "config", [override]) == MODES[override]


def test_a_mode_in_the_main_configuration_would_be_seen(monkeypatch):
    monkeypatch.setattr("hydra_mode.SET_MODE", {"config.yaml"})
    monkeypatch.setattr("hydra_mode.compose_mode", lambda *_: RunMode.MULTIRUN)
    assert get_mode(None, "config", []) == RunMode.MULTIRUN
