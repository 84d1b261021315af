"""Names and groups of runs in W&B."""

import json
from types import SimpleNamespace

import pytest
from hydra.types import RunMode

from nmt.runs.identity import HydraConfig, run_name, sweep_of


@pytest.mark.parametrize(
    ("mode", "has_list", "group", "name"),
    [
        (RunMode.RUN, False, None, "demo"),  # a single run
        (RunMode.RUN, True, "first", "seed=1"),  # a job of this project's launcher
        (RunMode.MULTIRUN, False, "first", "seed=1,size=tiny"),  # of another launcher, which writes no sweep.json
    ],
)
def test_a_job_is_grouped_by_its_sweep_and_named_by_its_overrides(tmp_path, monkeypatch, mode, has_list, group, name):
    folder = tmp_path / "first" / "seed=1,size=tiny"
    folder.mkdir(parents=True)
    if has_list:
        jobs = [{"folder": folder.name, "name": "seed=1"}]
        (tmp_path / "first" / "sweep.json").write_text(json.dumps({"jobs": jobs}))
    config = SimpleNamespace(runtime=SimpleNamespace(output_dir=str(folder)), mode=mode)
    monkeypatch.setattr(HydraConfig, "get", lambda: config)
    assert (sweep_of(), run_name("demo")) == (group, name)
