"""train.py run=FOLDER repeats a run, but not the sweep whose job it was."""

import json

from nmt.runs.stored_overrides import repeat_run


def test_a_job_of_a_table_is_repeated_as_a_single_run(tmp_path):
    folder = tmp_path / "run"
    (folder / ".hydra").mkdir(parents=True)
    overrides = ["experiment=tu2016/groundhog", "size=small", "seed=2"]
    of_the_sweep = ["+table=tu2016_table1", "hparams_search=optuna"]
    (folder / ".hydra/overrides.yaml").write_text(json.dumps([overrides[0], *of_the_sweep, *overrides[1:]]))
    assert repeat_run([f"run={folder}", "seed=3"]) == [*overrides, f"repeats='{folder}'", "seed=3"]
