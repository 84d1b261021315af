"""The summary of a run, above all when it ends badly."""

import importlib.util
import json
import logging
import os
import shutil
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from compositions import composed, configured
from omegaconf import OmegaConf
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities.exceptions import SIGTERMException
from random_batches import batch_of

from nmt.errors import ConfigurationError, UserError
from nmt.runs.provenance import git_commit
from nmt.runs.resume import EarlierTraining
from nmt.training.experiment import explain_fit_errors, make_loggers, make_trainer, results
from nmt.training.last_checkpoint import LastCheckpoint
from nmt.training.lightning_module import TrainingModule
from nmt.training.preflight import check_ranks
from nmt.training.run_summary import keep_summary

BATCH = SimpleNamespace(sentences=torch.arange(64), source=torch.zeros(64, 48), target_input=torch.zeros(51, 64))

TRAINER = SimpleNamespace(ckpt_path=None, max_epochs=3)


def in_training(*batches):
    return explain_fit_errors(TRAINER, SimpleNamespace(batches=list(batches)))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_out_of_memory_names_the_batch_and_what_to_lower(error):
    with pytest.raises(UserError) as raised, in_training(BATCH):
        raise error
    message = str(raised.value)
    assert message.startswith("out of memory in a batch with 64 sentences of up to 48 source and 51 target words")
    assert "data.batches.size" in message
    assert str(error)[:20] in message


def test_out_of_memory_elsewhere_does_not_blame_a_batch():
    with pytest.raises(UserError, match=r"or in a validation.*lower data\.valid_batches\.size"), in_training():
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_run_needs_no_git(monkeypatch):
    assert len(git_commit()) >= 40
    monkeypatch.setenv("PATH", "/nowhere")
    assert git_commit() is None


def test_an_error_of_the_network_is_explained_as_a_lost_rank():
    reason = "[/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:44951: Connection reset by peer. GLHF!"
    with pytest.raises(UserError, match=r"another rank died, .* Connection reset"), in_training():
        raise RuntimeError(reason)


def test_other_errors_are_raised_unchanged():
    with pytest.raises(RuntimeError, match="shapes"), in_training():
        raise RuntimeError("shapes do not fit")


def test_the_summary_holds_how_a_run_ended_and_the_time_of_all_processes(tmp_path):
    with pytest.raises(ValueError, match="broken"), keep_summary(tmp_path, EarlierTraining(seconds=100.0)):  # noqa: PT012
        assert json.loads((tmp_path / "summary.json").read_text())["status"] == "running"
        raise ValueError("broken")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert summary["error"].endswith("ValueError: broken")
    assert 100 <= summary["wall_seconds"] < 105
    entries = {"started": "then", "initialized_from": {"run": "first"}}
    with keep_summary(
        tmp_path, EarlierTraining(other_settings_from="/elsewhere/last.ckpt", summary=entries)
    ) as summary:
        assert json.loads((tmp_path / "summary.json").read_text()).items() >= entries.items()
        summary.update(parameters=7)
        assert json.loads((tmp_path / "summary.json").read_text())["parameters"] == 7
    assert json.loads((tmp_path / "summary.json").read_text()).items() >= entries.items()
    assert json.loads((tmp_path / "summary.json").read_text())["went_on_with"] == "/elsewhere/last.ckpt"


@pytest.mark.parametrize("starts_again", [False, True])
def test_a_completed_run_keeps_its_summary_until_another_starts(tmp_path, starts_again):
    def fail(*, starts):
        with keep_summary(tmp_path, EarlierTraining(starts_again=starts_again)) as summary:
            summary.start() if starts else summary.write()
            raise ValueError("broken")

    before = '{"status": "completed", "best": 7}'
    (tmp_path / "summary.json").write_text(before)
    with pytest.raises(ValueError, match="broken"):
        fail(starts=False)
    assert (tmp_path / "summary.json").read_text() == before
    with pytest.raises(ValueError, match="broken"):
        fail(starts=True)
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "failed"


def test_a_refused_command_keeps_the_settings_of_a_stopped_run(tmp_path):
    for folder, seed in ((tmp_path / ".hydra", 2), (tmp_path / "checkpoints" / ".hydra", 1)):
        folder.mkdir(parents=True)
        (folder / "overrides.yaml").write_text(f"- seed={seed}\n")
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    with pytest.raises(UserError), keep_summary(tmp_path, EarlierTraining()):
        raise UserError("search.beam=-1: refused")
    assert (tmp_path / "checkpoints" / ".hydra" / "overrides.yaml").read_text() == "- seed=1\n"


def test_the_last_checkpoint_holds_the_states_of_all_others(tmp_path):
    last = {"_target_": "nmt.training.last_checkpoint.LastCheckpoint", "dirpath": str(tmp_path)}
    every = {"_target_": "pytorch_lightning.callbacks.ModelCheckpoint", "monitor": "valid/loss"}
    trainer = {"_target_": "pytorch_lightning.Trainer", "accelerator": "cpu"}
    config = OmegaConf.create({"callbacks": {"last": last, "every": every}, "trainer": trainer})
    trainer = make_trainer(config, tmp_path, [])
    assert isinstance(trainer.checkpoint_callbacks[-1], LastCheckpoint)
    assert len(trainer.checkpoint_callbacks) == 2


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (SIGTERMException(), 143, "stopped by SIGTERM"),
        (SIGTERMException(signal.SIGHUP), 129, "stopped by SIGHUP"),
        (KeyboardInterrupt(), 130, "stopped by SIGINT"),
    ],
)
def test_a_stopped_run_names_its_signal_and_how_to_resume(tmp_path, error, status, message, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(SystemExit) as left, keep_summary(tmp_path, EarlierTraining()):
        raise error
    assert left.value.code == status
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["error"]) == ("interrupted", message)
    assert caplog.messages[-1] == f"to resume: the same command, with hydra.run.dir={tmp_path}"
    with pytest.raises(SystemExit), keep_summary(tmp_path, EarlierTraining(starts_again=True)):
        raise error
    assert caplog.messages[-1].endswith(f"{tmp_path} resume=auto")  # because resume=false would put it aside
    (tmp_path / "a=b c").mkdir()
    with pytest.raises(SystemExit), keep_summary(tmp_path / "a=b c", EarlierTraining()):
        raise error
    assert caplog.messages[-1].endswith(f"""with 'hydra.run.dir='"'"'{tmp_path}/a=b c'"'"''""")


@pytest.mark.parametrize("starts_again", [False, True])
def test_a_stopped_job_of_another_launcher_names_the_command_of_its_sweep(tmp_path, starts_again, caplog):
    caplog.set_level(logging.INFO)
    earlier = EarlierTraining(starts_again=starts_again)
    (tmp_path / "seed=1").mkdir()
    with pytest.raises(SystemExit), keep_summary(tmp_path / "seed=1", earlier, tmp_path):
        raise SIGTERMException
    place = f"hydra.sweep.dir={tmp_path}" + " resume=auto" * starts_again
    command = "the same -m command once the other jobs have ended (it skips completed ones)"
    assert caplog.messages[-1] == f"to resume: {command}, with {place}"


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_signals_stop_a_run_before_and_after_training_too(tmp_path, sent):
    before = signal.signal(sent, signal.SIG_DFL)  # the tests themselves may be under nohup
    with pytest.raises(SystemExit) as left, keep_summary(tmp_path, EarlierTraining()):
        os.kill(os.getpid(), sent)
    assert left.value.code == 128 + sent
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "interrupted"
    assert signal.signal(sent, before) is signal.SIG_DFL


def test_a_run_under_nohup_outlives_its_terminal(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with keep_summary(tmp_path, EarlierTraining()):
        os.kill(os.getpid(), signal.SIGHUP)
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "completed"
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN


@pytest.mark.parametrize("starter", ["", "sweep"])
@pytest.mark.parametrize("job", ["7", None])
def test_a_slurm_job_is_requeued_before_and_after_training_too(tmp_path, monkeypatch, job, starter):
    """Outside SLURM the signal asks for a checkpoint, and there is nothing to save then. A sweep requeues its jobs."""
    if starter:
        monkeypatch.setenv("NMT_IS_JOB", "1")
    requeued = []
    monkeypatch.setattr("nmt.training.run_summary.requeue", lambda: requeued.append(status_of(tmp_path)))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: requeued.append("before"))
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    try:
        with pytest.raises(SystemExit) if job else nullcontext() as left, keep_summary(tmp_path, EarlierTraining()):
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert requeued == ({"": ["interrupted"], "sweep": []}[starter] if job else ["before"])
    assert left is None or left.value.code == 128 + signal.SIGUSR1


def status_of(folder):
    return json.loads((folder / "summary.json").read_text())["status"]


def test_the_error_of_a_run_survives_a_summary_that_cannot_be_written(tmp_path, caplog):
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(ValueError, match="broken"), keep_summary(folder, EarlierTraining()):  # noqa: PT012
        shutil.rmtree(folder)
        raise ValueError("broken")
    assert "cannot be written" in caplog.text


def test_a_run_without_a_place_for_its_results_does_not_end_as_completed(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(FileNotFoundError), keep_summary(folder, EarlierTraining()):
        shutil.rmtree(folder)


def test_the_best_checkpoint_is_relative_to_a_folder_reached_by_a_link(tmp_path):
    (tmp_path / "disk" / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    best = ModelCheckpoint(monitor="valid/bleu")
    best.best_model_score, best.best_model_path = 1.0, f"{tmp_path}/disk/run/checkpoints/best.ckpt"
    trainer = SimpleNamespace(
        checkpoint_callbacks=[LastCheckpoint(dirpath=str(tmp_path)), best],
        global_step=1,
        current_epoch=1,
        lightning_module=SimpleNamespace(guard=SimpleNamespace(skipped=0, spikes=0)),
        callback_metrics={},
        default_root_dir=f"{tmp_path}/link/run",
    )
    assert results(trainer)["best"]["checkpoint"] == "checkpoints/best.ckpt"


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(
    ("normalize", "number", "factor"),
    [
        *(("sum", number, 3.0) for number in range(5)),
        *(("words", number, 1 / 9 if number < 3 else 3 / 2 / 9) for number in range(5)),
        *(("sentences", number, 1 / 2 if number < 3 else 3 / 2 / 2) for number in range(5)),
    ],
)
def test_the_loss_makes_up_for_the_batches_and_ranks_lightning_divides_by(normalize, number, factor, ranks):
    """Three of an epoch's five batches make a step, then two."""
    batch = batch_of([[4, 5], [6]], [[4, 5, 6], [5, 6, 4, 5]])
    model = composed()
    trainer = SimpleNamespace(accumulate_grad_batches=3, num_training_batches=5, world_size=ranks)
    module = SimpleNamespace(model=model, normalize=normalize, label_smoothing=0.2, trainer=trainer, device="cpu")
    module.batches, module.step_totals = [], torch.zeros(())
    loss = TrainingModule.training_step(module, batch, number)
    assert loss.item() == pytest.approx(ranks * factor * model.loss(batch, 0.2).objective.item())


@pytest.mark.parametrize("penalty", [[], ["attention/penalty=coverage"]])
def test_the_penalty_is_counted_beside_the_loss(penalty):
    batch = batch_of([[4, 5], [6]], [[4, 5, 6], [5, 6, 4, 5]])
    trainer = SimpleNamespace(accumulate_grad_batches=2, num_training_batches=2, world_size=1)
    module = SimpleNamespace(model=composed(*penalty), normalize="sum", label_smoothing=0.0, trainer=trainer)
    module.device = "cpu"
    for number in range(2):
        TrainingModule.training_step(module, batch, number)
    objective, pieces, *losses = module.step_totals.tolist()
    assert (pieces, len(losses)) == (2 * 9, 1 + len(penalty))
    assert min(losses) > 0
    assert sum(losses) == pytest.approx(objective)


@pytest.mark.parametrize("accumulates", [True, False])
def test_a_validation_among_accumulated_batches_keeps_those_of_the_step(monkeypatch, accumulates):
    monkeypatch.setattr("nmt.training.lightning_module.accumulates_gradients", lambda trainer: accumulates)
    module = SimpleNamespace(prepared=SimpleNamespace(words=lambda *_: []), trainer=None, batches=["first"])
    TrainingModule.on_validation_epoch_start(module)
    assert module.batches == (["first"] if accumulates else [])


def test_validation_bleu_uses_every_reference_of_a_sentence(monkeypatch):
    monkeypatch.setattr("nmt.training.lightning_module.accumulates_gradients", lambda trainer: False)
    references = [["a b c d", "x y z"], ["a b c d e", "q r s t"]]
    prepared = SimpleNamespace(
        words=lambda split, side: references[0],
        valid_references=lambda: references,
        languages=SimpleNamespace(target=SimpleNamespace(words=" ".join)),
    )
    logged = {}
    module = SimpleNamespace(prepared=prepared, trainer=SimpleNamespace(sanity_checking=False), device="cpu")
    module.log_dict = lambda scores, **_: logged.update(scores)
    TrainingModule.on_validation_epoch_start(module)
    module.totals += 1
    module.translated = {
        number: SimpleNamespace(words=words.split()) for number, words in ((1, "q r s t"), (0, "a b c d e"))
    }
    TrainingModule.on_validation_epoch_end(module)
    assert logged["valid/bleu"] == pytest.approx(100)


def drawn_by(rank: int, *, step: int = 0, stored: torch.Tensor | None = None) -> list[float]:
    """Return what a rank draws first when training starts or resumes."""
    torch.manual_seed(5)
    guard, trainer = (
        SimpleNamespace(drop_reports_from=lambda step: None),
        SimpleNamespace(is_global_zero=True, global_step=step),
    )
    state = {"random_state": stored, "random_state_of_gpu": None, "changed_settings": set()}
    TrainingModule.on_train_start(SimpleNamespace(trainer=trainer, guard=guard, global_rank=rank, **state))
    return torch.rand(3).tolist()


@pytest.mark.parametrize(("then", "restored"), [("cuda:1", ["on cuda:1"]), ("cpu", [])])
def test_the_random_state_of_a_gpu_is_restored(monkeypatch, then, restored):
    restored_on = []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: f"on {device}")
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: restored_on.append(state))
    guard = SimpleNamespace(drop_reports_from=lambda step: None, state_dict=dict, load_state_dict=lambda state: None)
    trainer = SimpleNamespace(is_global_zero=True, global_step=3, ckpt_path="last.ckpt")
    record = {"vocabularies": {}, "config": {}}
    module = SimpleNamespace(record=record, guard=guard, trainer=trainer, global_rank=0, device=torch.device("cuda:1"))
    module.read_last_step = lambda: None
    checkpoint = {"lr_schedulers": []}
    TrainingModule.on_save_checkpoint(module, checkpoint)
    module.device = torch.device(then)
    TrainingModule.on_load_checkpoint(module, checkpoint)
    TrainingModule.on_train_start(module)
    assert restored_on == restored


def test_each_rank_draws_its_own_dropout_and_the_first_that_of_one_rank():
    torch.manual_seed(5)
    alone, stored = torch.rand(3).tolist(), torch.get_rng_state()
    after = torch.rand(3).tolist()
    assert drawn_by(0) == alone
    assert drawn_by(0, step=7, stored=stored) == after
    drawn = [alone, after, drawn_by(1), drawn_by(2), drawn_by(1, step=7, stored=stored)]
    assert len({tuple(one) for one in drawn}) == 5


@pytest.mark.parametrize("precision", ["bf16-mixed", "32-true"])
@pytest.mark.parametrize("has_products", [True, False])
def test_bfloat16_without_bfloat16_products_is_a_warning(precision, has_products, monkeypatch, caplog):
    monkeypatch.setattr("nmt.training.preflight.has_bfloat16_products", lambda: has_products)
    config = configured("trainer=cpu", f"trainer.precision={precision}")
    check_ranks(config, Trainer(accelerator="cpu", devices=1, precision=precision, logger=False))
    warns = "has no bfloat16 products, so training is slower. Fix: trainer.precision=32-true" in caplog.text
    assert warns == (precision == "bf16-mixed" and not has_products)


@pytest.mark.parametrize(("nodes", "fits"), [(1, False), (2, True)])
def test_torchrun_with_other_numbers_is_told_both_numbers(nodes, fits, monkeypatch):
    given = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": 4, "RANK": 0, "LOCAL_RANK": 0, "GROUP_RANK": 0}
    given |= {"LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}
    for key, value in given.items():
        monkeypatch.setenv(key, str(value))
    config = configured("trainer=ddp_cpu", "trainer.devices=2", f"trainer.num_nodes={nodes}")
    trainer = Trainer(accelerator="cpu", devices=2, num_nodes=nodes, strategy="ddp", logger=False)
    with nullcontext() if fits else pytest.raises(ConfigurationError, match=r"devices=2: .* are 4\. Fix"):
        check_ranks(config, trainer)


@pytest.mark.parametrize("tasks", [1, 2])
def test_other_numbers_of_processes_than_devices_are_refused(tasks, monkeypatch):
    """SLURM sets these variables in the script too, where Lightning then starts no processes."""
    given = {"NTASKS": tasks, "JOB_ID": 7, "JOB_NAME": "first", "PROCID": 0, "LOCALID": 0, "NODEID": 0}
    for key, value in (given | ({"NTASKS_PER_NODE": 2} if tasks == 2 else {})).items():
        monkeypatch.setenv(f"SLURM_{key}", str(value))
    config = configured("trainer=ddp_cpu", "trainer.devices=2")
    trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False)
    if tasks == 2:
        check_ranks(config, trainer)
        return
    with pytest.raises(ConfigurationError, match=r"trainer.devices=2: this is for 2 processes, and here are 1\."):
        check_ranks(config, trainer)


def test_without_wandb_a_run_warns_and_writes_metrics_only(monkeypatch, caplog):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    configured = OmegaConf.create({"wandb": {"offline": True}, "csv": {"_target_": "types.SimpleNamespace"}})
    assert make_loggers(configured) == [SimpleNamespace()]
    assert "only metrics.csv is written. Fix: pip install wandb" in caplog.text


@pytest.mark.parametrize("package", ["wandb", "tensorboard"])
def test_a_chosen_logger_that_is_not_installed_is_refused(package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=rf"logger={package}: needs {package} \(extra: {package}\). Fix: pip install {package}"
    ):
        make_loggers(OmegaConf.create({package: {"offline": False}}))
