"""What a run says of itself, above all when it ends badly."""

import json
import logging
import os
import shutil
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from compositions import composed
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities.exceptions import SIGTERMException
from random_batches import batch_of

from nmt.errors import UserError
from nmt.runs.provenance import git_commit
from nmt.training.experiment import _results, explained
from nmt.training.last_checkpoint import Last
from nmt.training.lightning_module import Training
from nmt.training.resume import Before
from nmt.training.run_summary import recorded

BATCH = SimpleNamespace(sentences=torch.arange(64), source=torch.zeros(64, 48), target_input=torch.zeros(51, 64))

NOTHING = SimpleNamespace(batches=[])


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_out_of_memory_names_the_batch_and_what_to_lower(error):
    with pytest.raises(UserError) as told, explained(SimpleNamespace(batches=[BATCH])):
        raise error
    said = str(told.value)
    assert said.startswith("out of memory in a batch with 64 sentences of up to 48 source and 51 target words: lower")
    assert "data.batches.size" in said
    assert str(error)[:20] in said


def test_out_of_memory_elsewhere_does_not_blame_a_batch():
    with pytest.raises(UserError, match=r"or in a validation: lower data\.valid_batches\.size"), explained(NOTHING):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_run_needs_no_git(monkeypatch):
    assert len(git_commit()) >= 40
    monkeypatch.setenv("PATH", "/nowhere")
    assert git_commit() is None


def test_a_lost_rank_is_called_so():
    reason = "[/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:44951: Connection reset by peer. GLHF!"
    with pytest.raises(UserError, match=r"another rank died, .* Connection reset"), explained(NOTHING):
        raise RuntimeError(reason)


def test_other_errors_are_left_as_they_are():
    with pytest.raises(RuntimeError, match="shapes"), explained(NOTHING):
        raise RuntimeError("shapes do not fit")


def test_a_run_says_how_it_ended_and_counts_the_time_before(tmp_path):
    with pytest.raises(ValueError, match="broken"), recorded(tmp_path, Before(seconds=100.0)):  # noqa: PT012
        assert json.loads((tmp_path / "summary.json").read_text())["status"] == "running"
        raise ValueError("broken")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert summary["error"] == "ValueError: broken"
    assert 100 <= summary["wall_seconds"] < 105
    told = {"started": "then", "initialized_from": {"run": "first"}}
    with recorded(tmp_path, Before(of_another="/elsewhere/last.ckpt", told=told)) as record:
        assert json.loads((tmp_path / "summary.json").read_text()).items() >= told.items()
        record.summary["parameters"] = 7
        record.write()
        assert json.loads((tmp_path / "summary.json").read_text())["parameters"] == 7
    assert json.loads((tmp_path / "summary.json").read_text()).items() >= told.items()
    assert json.loads((tmp_path / "summary.json").read_text())["went_on_with"] == "/elsewhere/last.ckpt"


@pytest.mark.parametrize("anew", [False, True])
def test_a_completed_run_stays_so_until_another_begins(tmp_path, anew):
    def fail(*, begins):
        with recorded(tmp_path, Before(anew=anew)) as record:
            record.begin() if begins else record.write()
            raise ValueError("broken")

    told = '{"status": "completed", "best": 7}'
    (tmp_path / "summary.json").write_text(told)
    with pytest.raises(ValueError, match="broken"):
        fail(begins=False)
    assert (tmp_path / "summary.json").read_text() == told
    with pytest.raises(ValueError, match="broken"):
        fail(begins=True)
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "failed"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (SIGTERMException(), 143, "stopped by SIGTERM"),
        (SIGTERMException(signal.SIGHUP), 129, "stopped by SIGHUP"),
        (KeyboardInterrupt(), 130, "stopped by SIGINT"),
    ],
)
def test_a_run_that_is_told_to_stop_says_by_what(tmp_path, error, status, said, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(SystemExit) as left, recorded(tmp_path, Before()):
        raise error
    assert left.value.code == status
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["error"]) == ("interrupted", said)
    assert caplog.messages[-1] == f"to go on: the same command, with hydra.run.dir={tmp_path}"
    with pytest.raises(SystemExit), recorded(tmp_path, Before(anew=True)):
        raise error
    assert caplog.messages[-1].endswith(f"{tmp_path} resume=auto")  # or what was begun anew would be put aside
    (tmp_path / "a=b c").mkdir()
    with pytest.raises(SystemExit), recorded(tmp_path / "a=b c", Before()):
        raise error
    assert caplog.messages[-1].endswith(f"""with 'hydra.run.dir='"'"'{tmp_path}/a=b c'"'"''""")


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_is_told_to_stop_before_and_after_training_too(tmp_path, sent):
    before = signal.signal(sent, signal.SIG_DFL)  # the tests themselves may be under nohup
    with pytest.raises(SystemExit) as left, recorded(tmp_path, Before()):
        os.kill(os.getpid(), sent)
    assert left.value.code == 128 + sent
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "interrupted"
    assert signal.signal(sent, before) is signal.SIG_DFL


def test_a_run_under_nohup_outlives_its_terminal(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with recorded(tmp_path, Before()):
        os.kill(os.getpid(), signal.SIGHUP)
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "completed"
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN


@pytest.mark.parametrize("job", ["7", None])
def test_a_slurm_job_whose_time_is_over_before_or_after_training_goes_into_the_queue_again(tmp_path, monkeypatch, job):
    """Outside SLURM the signal means: save, and go on; there is nothing to save then."""
    asked = []
    monkeypatch.setattr("nmt.training.run_summary.requeue", lambda: asked.append(status_of(tmp_path)))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: asked.append("before"))
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    try:
        with pytest.raises(SystemExit) if job else nullcontext() as left, recorded(tmp_path, Before()):
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert asked == (["interrupted"] if job else ["before"])
    assert left is None or left.value.code == 128 + signal.SIGUSR1


def status_of(folder):
    return json.loads((folder / "summary.json").read_text())["status"]


def test_where_even_the_summary_finds_no_room_the_runs_own_error_is_not_lost(tmp_path, caplog):
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(ValueError, match="broken"), recorded(folder, Before()):  # noqa: PT012
        shutil.rmtree(folder)
        raise ValueError("broken")
    assert "cannot be written" in caplog.text


def test_the_best_checkpoint_is_named_from_the_runs_folder_though_that_is_reached_by_a_link(tmp_path):
    (tmp_path / "disk" / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    best = ModelCheckpoint(monitor="valid/bleu")
    best.best_model_score, best.best_model_path = 1.0, f"{tmp_path}/disk/run/checkpoints/best.ckpt"
    trainer = SimpleNamespace(
        checkpoint_callbacks=[Last(dirpath=str(tmp_path)), best],
        global_step=1,
        current_epoch=1,
        lightning_module=SimpleNamespace(finite=SimpleNamespace(left_out=0, spikes=0)),
        callback_metrics={},
        default_root_dir=f"{tmp_path}/link/run",
    )
    assert _results(trainer, {})["best"]["checkpoint"] == "checkpoints/best.ckpt"


@pytest.mark.parametrize(
    ("how", "first", "counted"),
    [("sum", 0, 3.0), ("words", 0, 1 / 9), ("sentences", 0, 1 / 2), ("sum", 3, 3.0), ("words", 3, 3 / 2 / 9)],
)
def test_lightning_divides_by_accumulated_batches_also_where_a_sum_is_asked_for_or_fewer_are_left(how, first, counted):
    """Of an epoch's five batches three make a step, and then two."""
    batch = batch_of([[4, 5], [6]], [[4, 5, 6], [5, 6, 4, 5]])
    model = composed()
    accumulating = SimpleNamespace(accumulate_grad_batches=3, num_training_batches=5, world_size=1)
    module = SimpleNamespace(model=model, normalize=how, label_smoothing=0.0, trainer=accumulating, device="cpu")
    loss = Training.training_step(module, batch, first)
    assert loss.item() == pytest.approx(counted * model.loss(batch).objective.item())


def drawn_by(rank: int, *, step: int = 0, stored: torch.Tensor | None = None) -> list[float]:
    """What a rank draws first, when training begins or goes on."""
    torch.manual_seed(5)
    finite, trainer = SimpleNamespace(begin=lambda step: None), SimpleNamespace(is_global_zero=True, global_step=step)
    own = {"random_state": stored, "random_state_of_gpu": None, "retuned": set()}
    Training.on_train_start(SimpleNamespace(trainer=trainer, finite=finite, global_rank=rank, **own))
    return torch.rand(3).tolist()


@pytest.mark.parametrize(("then", "restored"), [("cuda:1", ["on cuda:1"]), ("cpu", [])])
def test_dropout_on_a_gpu_goes_on_too(monkeypatch, then, restored):
    given = []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: f"on {device}")
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: given.append(state))
    finite = SimpleNamespace(begin=lambda step: None, state_dict=dict, load_state_dict=lambda state: None)
    trainer = SimpleNamespace(is_global_zero=True, global_step=3, ckpt_path="last.ckpt")
    record = {"vocabularies": {}, "config": {}}
    module = SimpleNamespace(
        record=record, finite=finite, trainer=trainer, global_rank=0, device=torch.device("cuda:1")
    )
    checkpoint = {"lr_schedulers": []}
    Training.on_save_checkpoint(module, checkpoint)
    module.device = torch.device(then)
    Training.on_load_checkpoint(module, checkpoint)
    Training.on_train_start(module)
    assert given == restored


def test_ranks_draw_dropout_of_their_own_and_the_first_as_if_it_were_alone():
    torch.manual_seed(5)
    alone, stored = torch.rand(3).tolist(), torch.get_rng_state()
    after = torch.rand(3).tolist()
    assert drawn_by(0) == alone
    assert drawn_by(0, step=7, stored=stored) == after
    drawn = [alone, after, drawn_by(1), drawn_by(2), drawn_by(1, step=7, stored=stored)]
    assert len({tuple(one) for one in drawn}) == 5
