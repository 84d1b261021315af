"""Explanations of the errors of other libraries, which are provoked here."""

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import hydra.utils
import pytest
import torch
from compositions import configured
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from pytorch_lightning import Trainer
from pytorch_lightning.demos.boring_classes import BoringModel

from nmt.cli.train import train_composed
from nmt.config.explain import (
    CONSTRUCTION_ROWS,
    HYDRA_PLUGINS,
    ROWS,
    TRAINING_ROWS,
    _look_up,
    explain,
    explain_construction_error,
    explain_training_error,
)

BATCH = SimpleNamespace(sentences=torch.arange(64), source=torch.zeros(64, 48), target_input=torch.zeros(51, 64))
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "limit_val_batches": 0}


VALIDATES = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
BEST_OF_LOSS = {"_target_": "pytorch_lightning.callbacks.ModelCheckpoint", "monitor": "loss"}


def build(**settings):
    """Build a part of a configuration below the key model.encoder."""
    return hydra.utils.instantiate(OmegaConf.create({"model": {"encoder": settings}}).model.encoder)


def fill_disk(_):
    with open("/dev/full", "w") as file:
        file.write("text")


def make_folder_below_a_file(folder):
    (folder / "file").write_text("")
    (folder / "file" / "run").mkdir(parents=True)


def read_broken_yaml(folder):
    (folder / "mine.yaml").write_text("name: mine\nseed: [1\ndropout: 0.1\n")
    OmegaConf.load(folder / "mine.yaml")


def print_resolved(_):
    sys.argv[1:] = ["--cfg", "job", "--resolve"]
    try:
        train_composed()
    finally:
        GlobalHydra.instance().clear()


def build_optimizer(**settings):
    build(_target_="torch.optim.Adam", _partial_=True, **settings)([torch.nn.Parameter(torch.zeros(1))])


def resume_beyond_the_last_epoch(folder):
    trainer = Trainer(max_epochs=2, limit_train_batches=1, default_root_dir=folder, accelerator="cpu", **QUIET)
    trainer.fit(BoringModel())
    trainer.save_checkpoint(folder / "last.ckpt")
    trainer = Trainer(max_epochs=1, limit_train_batches=1, default_root_dir=folder, accelerator="cpu", **QUIET)
    trainer.fit(BoringModel(), ckpt_path=folder / "last.ckpt")


def lose_a_rank(folder):
    """Talk to a rank that ends right after it has joined."""
    join = (
        "import os, sys, torch.distributed as dist; "
        "dist.init_process_group('gloo', init_method=sys.argv[1], rank=1, world_size=2); os._exit(1)"
    )
    method = f"file://{folder}/store"
    other = subprocess.Popen([sys.executable, "-c", join, method])
    torch.distributed.init_process_group("gloo", method, rank=0, world_size=2, timeout=timedelta(seconds=60))
    try:
        other.wait()
        torch.distributed.all_reduce(torch.zeros(1))
    finally:
        torch.distributed.destroy_process_group()


def submit(function):
    """Return what runs a function as a job of submitit that must fail, without a cluster."""

    def run(folder):
        submitit = pytest.importorskip("submitit", reason="pip install -r requirements-dev.txt")
        job = submitit.LocalExecutor(folder).submit(function)
        job._results_timeout_s = 0  # because it waits so long for results on a slow disk
        job.result()

    return run


def submit_without_slurm(folder):
    submitit = pytest.importorskip("submitit", reason="pip install -r requirements-dev.txt")
    with patch.dict(os.environ, PATH=str(folder)):
        submitit.SlurmExecutor(folder)


def submit_to_two_nodes_of_one_machine(folder):
    submitit = pytest.importorskip("submitit", reason="pip install -r requirements-dev.txt")
    submitit.LocalExecutor(folder).update_parameters(nodes=2)


def submit_to_a_partition_that_is_not_there(_):
    """Do what submitit does when sbatch, here a stand-in, refuses a job."""
    utils = pytest.importorskip("submitit.core.utils", reason="pip install -r requirements-dev.txt")
    refusal = "sbatch: error: invalid partition: gpux\nsbatch: error: Batch job submission failed: Invalid partition"
    utils.CommandFunction(["sh", "-c", f"echo '{refusal}' >&2; exit 1"], verbose=False)()


def run_out_of_time(_):
    """Do what submitit does in a job when its time ends for the last time."""
    environment = pytest.importorskip("submitit.core.job_environment", reason="pip install -r requirements-dev.txt")
    delayed = SimpleNamespace(function=None, _timeout_min=0, _timeout_countdown=0)
    environment.SignalHandler(SimpleNamespace(global_rank=0), None, delayed).checkpoint_and_try_requeue(10)


def compose(*overrides):
    return lambda _: configured(*overrides)


CASES = {  # type and pattern of a row: the command, the error, the line
    ("UserError", ""): (
        [],
        lambda _: build(_target_="nmt.search.settings.Search", beam=0),
        "beam=0: ",
    ),
    ("OSError", r"^\[Errno (28|122)\]"): ([], fill_disk, "No space left on device. Fix: make room, then give the same"),
    ("OSError", r"^\[Errno \d+\]"): (
        ["seed=2", "hydra.run.dir=FOLDER/file/run"],
        make_folder_below_a_file,
        r"hydra.run.dir=FOLDER/file/run: cannot be written \(Not a directory\)$",
    ),
    ("MissingConfigException", "Could not find '(.+)'"): (
        [],
        compose("attention=adittive"),
        r"attention=adittive: no such choice \(did you mean additive\?\). Fix: choose additive, concat",
    ),
    ("ValueError", "^Config group override must be a string or a list"): (
        ["size=512"],
        compose("size=512"),
        "size=512: no such choice. Fix: choose base,",
    ),
    ("OverrideParseException", ""): (
        [],
        compose("init_from=a#b"),
        "init_from=a#b: cannot be read. Fix: quote the value, and all for the shell: 'init_from=\"a#b\"'$",
    ),
    ("ConfigCompositionException", "^(?:Ambiguous value for argument|Sweep parameters) '(.*)'"): (
        [],
        compose("optimizer.lr=0,001"),
        r"optimizer.lr=0,001: several values. Fix: give one .* write a list as optimizer.lr=\[…,…\]",
    ),
    ("ConfigCompositionException", r"override '(\w+)/(\w+)'\. No match"): (
        [],
        compose("attention=none", "attention/window=local_m"),
        "attention/window: the chosen attention has no window. Fix: leave it out, or choose another attention$",
    ),
    ("ConfigCompositionException", r"override '(\w+)'\. No match"): (
        [],
        compose("table=tu2016_table1"),
        r"table: none is chosen by default. Fix: add a choice with \+table=…$",
    ),
    ("ConfigCompositionException", r"^Multiple values for (\S+)\. .* \S+: (\S+)'"): (
        [],
        compose("+attention=dot"),
        r"\+attention=dot: attention is already in the defaults. Fix: leave out the \+$",
    ),
    ("ConfigCompositionException", "item is already at '(.*)'"): (
        [],
        compose("+seed=3"),
        r"\+seed: there is such a key already. Fix: leave out the \+$",
    ),
    ("RuntimeError", r"^Found more than one stateful callback of type `(\w+)`"): (
        [],
        lambda _: build(_target_="pytorch_lightning.Trainer", callbacks=[BEST_OF_LOSS, BEST_OF_LOSS], **QUIET),
        "callbacks: two of ModelCheckpoint have one monitor and mode, .* Fix: give the second another monitor",
    ),
    ("InstantiationException", "Error locating target '(.*?)'"): (
        [],
        lambda _: build(_target_="nope.Nope"),
        r"encoder._target_=nope.Nope: cannot be imported \(No module named 'nope'\)$",
    ),
    ("InstantiationException", r"unexpected keyword argument '(\w+)'"): (
        [],
        lambda _: build(_target_="nmt.search.settings.Search", foo=1),
        "encoder.foo: no such setting. Fix: choose beam, ",
    ),
    ("InstantiationException", r"missing \d+ required .*"): (
        [],
        lambda _: build(_target_="nmt.config.overrides.quote_value"),
        "encoder: needs value$",
    ),
    ("InstantiationException", ""): (
        [],
        lambda _: build(_target_="nmt.config.resolvers.twice", size="a"),
        r"encoder: invalid literal for int\(\) with base 10: 'a'$",
    ),
    ("OmegaConfBaseException", r"hydra\.runtime\.output_dir"): (
        [],
        print_resolved,
        "--resolve: a run has no folder before it starts. Fix: resolve a section that does not name it: -p trainer$",
    ),
    ("OmegaConfBaseException", "^Key '.*' (is not in struct|not in ')"): (
        [],
        compose("trainer.max_epoch=3"),
        r"trainer.max_epoch: no such key \(did you mean max_epochs\?\); trainer has ",
    ),
    ("OmegaConfBaseException", ""): (
        [],
        lambda _: configured("size.hidden=${nope}").size.hidden,
        "size.hidden: Interpolation key 'nope' not found$",
    ),
    ("MarkedYAMLError", r"line \d+, column"): (
        [],
        read_broken_yaml,
        "FOLDER/mine.yaml, line 3, column 8: while parsing a flow sequence, did not find expected ',' or ']'",
    ),
    ("RuntimeError", '^Could not detect "srun"'): (
        [],
        submit_without_slurm,
        "hydra/launcher=submitit_slurm: finds no srun, .* Fix: leave out hydra/launcher= and hydra.launcher",
    ),
    ("ValueError", "^LocalExecutor can use only one node"): (
        [],
        submit_to_two_nodes_of_one_machine,
        "hydra/launcher=submitit_local: is for one machine. Fix: leave out hydra.launcher.nodes=",
    ),
    ("RuntimeError", "sbatch: error: (.+)$"): (
        [],
        submit_to_a_partition_that_is_not_there,
        "sbatch refused the jobs: Batch job submission failed: Invalid partition. Fix: give the hydra.launcher keys",
    ),
    ("RuntimeError", r"^Job not requeued because: (.+?)\.?$"): (
        [],
        run_out_of_time,
        r"stopped by the cluster and not requeued \(timed-out too many times\). Fix: hydra.launcher.timeout_min=",
    ),
    ("RuntimeError", r"^Job (\S+) \(task: \d+\) with path (.+)_result\.pkl\nhas not .* \(state: (\w+)\)"): (
        [],
        submit(lambda: os._exit(3)),
        r"job (\d+): ended without a result \(state \w+\); log: FOLDER/\1_0_log.err. Fix: the same command, when",
    ),
    ("RuntimeError", r"(?s)^Job \(task=\d+\) failed during .*?\n-+\n(.+)\n-+\n.*?at paths:\n  - (.+?)\n"): (
        [],
        submit(lambda: 1 / 0),
        r"FOLDER/\d+_0_log.err: the job failed: ZeroDivisionError: division by zero \(the same command skips",
    ),
    ("IndexError", ""): (
        [],
        lambda _: build_optimizer(betas=[0.9]),
        r"optimizer.betas=\[0.9\]: too few values \(list index out of range\)$",
    ),
    ("TypeError", r"unexpected keyword argument '(\w+)'"): (
        [],
        lambda _: build_optimizer(beta=[0.9, 0.9]),
        r"optimizer.beta: no such setting \(did you mean betas\?\). Fix: choose lr, betas",
    ),
    ("ValueError", r"`val_check_interval` \((\d+)\) must be .* training batches \((\d+)\)"): (
        [],
        lambda folder: Trainer(val_check_interval=99, default_root_dir=folder, accelerator="cpu", **VALIDATES).fit(
            BoringModel()
        ),
        "trainer.val_check_interval=99: an epoch has 64 batches. Fix: give at most so many; null validates",
    ),
    ("Exception", "^You restored a checkpoint"): (
        [],
        resume_beyond_the_last_epoch,
        "ckpt_path=last.ckpt: was trained for longer than trainer.max_epochs=1. Fix: raise it, or init_from=last.ckpt",
    ),
    ("RuntimeError", r"^Error\(s\) in loading state_dict"): (
        [],
        lambda _: torch.nn.Linear(2, 3).load_state_dict(torch.nn.Linear(3, 3).state_dict()),
        "ckpt_path=last.ckpt: of a model with other settings. Fix: init_from=last.ckpt takes weights by name$",
    ),
    ("RuntimeError", "out of memory|can't allocate memory"): (
        [],
        lambda _: torch.empty(2**50),
        r"out of memory in a batch with 64 sentences of up to 48 source and 51 target words \(.*can't allocate memory"
        r".*\). Fix: lower data.batches.size",
    ),
    ("RuntimeError", "gloo.*(Connection|Read error|Write error|Timed out|timeout)|NCCL|Socket"): (
        [],
        lose_a_rank,
        r"another rank died, or cannot be reached; its last output says why. Fix: the same command resumes .*gloo",
    ),
}
CONTEXT = {
    ROWS: (),
    CONSTRUCTION_ROWS: ("optimizer", OmegaConf.create({"_target_": "torch.optim.Adam", "lr": 0.1, "betas": [0.9]})),
    TRAINING_ROWS: ("last.ckpt", 1, BATCH),
}
EVERY_ROW = [(rows, number) for rows in CONTEXT for number in range(len(rows))]


def row_name(rows, number) -> tuple[str, str]:
    return rows[number][0].__name__, rows[number][1]


@pytest.mark.parametrize(("rows", "number"), EVERY_ROW, ids=[" ".join(row_name(*row)) for row in EVERY_ROW])
def test_each_row_explains_a_real_error(rows, number, tmp_path, monkeypatch):
    command, provoke, line = CASES[row_name(rows, number)]
    monkeypatch.setattr(sys, "argv", ["train.py", *(argument.replace("FOLDER", str(tmp_path)) for argument in command)])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(Exception) as raised:  # noqa: PT011, because each row has another error
        provoke(tmp_path)
    assert _look_up(rows[:number], raised.value, *CONTEXT[rows]) is None
    explanation = _look_up(rows[: number + 1], raised.value, *CONTEXT[rows])
    assert re.match(line.replace("FOLDER", re.escape(str(tmp_path))), explanation), explanation
    assert "\n" not in explanation


def test_there_is_no_case_without_a_row():
    assert set(CASES) == {row_name(*row) for row in EVERY_ROW}


def test_an_error_without_a_row_keeps_its_text_on_one_line():
    assert explain(ZeroDivisionError("division\tby zero\nand more")) == "ZeroDivisionError: division by zero"
    assert explain(KeyError()) == "KeyError: KeyError"


def test_the_text_is_that_of_the_first_cause():
    error = RuntimeError("late")
    error.__cause__ = ValueError("early")
    assert explain(error) == "ValueError: early"


def test_other_errors_of_training_are_not_explained():
    shapes = RuntimeError("shapes do not fit")
    assert explain_training_error(shapes, checkpoint=None, epochs=1, batch=None) is None


def test_out_of_memory_without_a_batch_blames_no_batch():
    line = explain_training_error(torch.OutOfMemoryError("CUDA out of memory"), checkpoint=None, epochs=1, batch=None)
    assert line.startswith(
        "out of memory outside training batches, before them or in a validation (CUDA out of memory)"
    )
    assert line.endswith("Fix: lower data.valid_batches.size, or choose a smaller size=")


def test_other_errors_of_construction_name_the_section():
    assert explain_construction_error(ValueError("Invalid learning rate: -1"), "optimizer", None) == (
        "optimizer: Invalid learning rate: -1"
    )


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            "attention.window.half_width=3",
            r"attention.window is not chosen. Fix: attention/window=local_m\|local_p\|mixture$",
        ),
        ("max_epochs=3", r"max_epochs: no such key \(did you mean trainer.max_epochs\?\); there are size, "),
        ("optimizer.betas=3", r"optimizer.betas: no such key \(a new one is added by a \+: \+optimizer.betas\)"),
        (
            "attention.score.foo=1 -m attention=dot,additive",
            r"of one choice of attention\). Fix: where every .* write \+",
        ),
    ],
)
def test_hints_for_unknown_keys(arguments, hint, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments.split()])
    with pytest.raises(Exception) as raised:  # noqa: PT011, because Hydra raises errors of many kinds
        configured(arguments.split()[0])
    assert re.search(hint, explain(raised.value)), explain(raised.value)


def test_a_failed_import_of_this_project_names_file_and_line(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import torch\nimport not_there\n")
    monkeypatch.setattr("nmt.model.__path__", [str(tmp_path)])
    monkeypatch.setattr("nmt.errors.PACKAGE", str(tmp_path))
    with pytest.raises(Exception) as raised:  # noqa: PT011, because Hydra raises errors of many kinds
        build(_target_="nmt.model.mine.Mine")
    assert explain(raised.value).startswith(f"encoder._target_=nmt.model.mine.Mine: {tmp_path}/mine.py, line 2: ")


def test_importing_the_explanations_imports_neither_torch_nor_lightning():
    code = "import sys, nmt.config.explain; print({'torch', 'pytorch_lightning'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout == b"set()\n"
    assert os.environ.get("HYDRA_FULL_ERROR") is None


def test_a_launcher_that_is_not_installed_names_its_package(monkeypatch):
    monkeypatch.setitem(HYDRA_PLUGINS, "absent", ("hydra-absent-launcher", "absent"))
    with pytest.raises(Exception) as raised:  # noqa: PT011, because Hydra raises errors of many kinds
        configured("hydra/launcher=absent")
    line = "hydra/launcher=absent: needs hydra-absent-launcher (extra: absent). Fix: pip install hydra-absent-launcher"
    assert explain(raised.value) == line
