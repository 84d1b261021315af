"""Every choice of every config group trains and translates; new YAML files are tested automatically."""

import gzip
import json
from itertools import zip_longest

import pytest
import torch
from commands import TWO_STEPS, answer, command
from compositions import choices
from hydra import compose, initialize_config_dir
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.config.installation import CONF_DIR
from nmt.data.toy_corpus import ToyPairs
from nmt.runs.trained_model import TrainedRun, build_model
from nmt.search.settings import Search
from nmt.translate.loading import make_translator

GROUPS = ("encoder", "decoder", "attention", "memory", "optimizer", "initialization", "callbacks")
FILE_DATA = ("data=multi30k", "data=tatoeba_deen", "data=am3_zhen", "data=pydocs_zhen")
FILE_DATA = (*FILE_DATA, "experiment=multi30k", "experiment=pydocs_zhen")
DEMO = ("experiment=demo", "trainer.max_epochs=1", "size.embedding=16")
HARDWARE = {"gpu", "ddp", "slurm"}  # choices that need hardware a test machine may lack


def train_run(tmp_path, capfd, monkeypatch, *arguments: str, **environment: str) -> TrainedRun:
    status, stderr = answer(
        "train", *arguments, f"hydra.run.dir={tmp_path}/run", capture=capfd, monkeypatch=monkeypatch, **environment
    )
    assert status == 0, stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "completed"
    assert summary["steps"] >= 2
    return TrainedRun(str(tmp_path / "run" / "checkpoints" / "last.ckpt"))


def assert_translates(run: TrainedRun, line: str) -> None:
    ((best, *_),) = make_translator(run, "cpu")([line], Search(beam=2))
    assert best.alignment.shape == (len(best.target), len(best.source))
    assert best.log_probability < 0


CHOICES = [[f"{group}={choice}" for choice in choices(group)] for group in GROUPS]


@pytest.mark.parametrize("model", [*zip_longest(*CHOICES), DEMO], ids=lambda model: " ".join(filter(None, model)))
def test_each_choice_trains_two_steps_and_translates(model, tmp_path, capfd, monkeypatch):
    """The first model has the first choice of each group, and so on; a group at its end has its default."""
    run = train_run(tmp_path, capfd, monkeypatch, *TWO_STEPS, *filter(None, model))
    assert_translates(run, "Gurcu pu ma ma nibi .")


@pytest.mark.parametrize("choice", FILE_DATA)
def test_a_data_set_of_files_trains_and_translates(choice, tmp_path, capfd, monkeypatch):
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        config = compose("config", overrides=[choice, f"data.dir={tmp_path}"])
    sentences = {"zh": "他用Python编程。", "en": "A man, 35, is `coding`.", "de": "Zwei Männer (jung) lachen."}
    for files in (config.data.train, config.data.valid, *config.data.tests.values()):
        for side in ("source", "target"):
            (tmp_path / files[side]).parent.mkdir(parents=True, exist_ok=True)
            text = "".join(f"{sentences[config.data[side].language]} {number}\n" for number in range(12))
            (tmp_path / files[side]).write_bytes(gzip.compress(text.encode()))
    arguments = ("size=tiny", "debug=steps", "logger=none", choice, "data.vocabulary.minimum_count=1")
    run = train_run(tmp_path, capfd, monkeypatch, *arguments, NMT_DATA=str(tmp_path), NMT_CACHE=str(tmp_path / "cache"))
    assert_translates(run, sentences[config.data.source.language])


@pytest.mark.parametrize("choice", [choice for choice in choices("trainer") if choice not in {*HARDWARE, "ddp_cpu"}])
def test_a_trainer_choice_trains_two_steps(choice, tmp_path, capfd, monkeypatch):
    train_run(tmp_path, capfd, monkeypatch, f"trainer={choice}", *TWO_STEPS)


@pytest.mark.parametrize(
    "setting",
    [
        "trainer.precision=bf16-mixed",
        "trainer.accumulate_grad_batches=2",
        "model.tie_embeddings=output",
        "data.vocabulary.joint=true model.tie_embeddings=all",
        "data.vocabulary.kind=bpe data.vocabulary.size=120",
        "data.vocabulary.kind=unigram data.vocabulary.size=120",
        "data.batches.unit=tokens data.batches.size=400",
        "loss.label_smoothing=0.1",
        "decoder=luong encoder=lstm encoder.reverse=true decoder.input_feeding=false data.source_end=false",
        "callbacks.checkpoint.monitor=valid/perplexity callbacks.checkpoint.mode=min",
    ],
)
def test_a_setting_trains_two_steps_and_translates(setting, tmp_path, capfd, monkeypatch):
    run = train_run(tmp_path, capfd, monkeypatch, *TWO_STEPS, *setting.split())
    assert_translates(run, "Gurcu pu ma ma nibi .")


def test_tensorboard_logs_scores_translations_and_alignments(tmp_path, capfd, monkeypatch):
    settings = [setting for setting in TWO_STEPS if setting not in ("debug=steps", "logger=none")]
    train_run(
        tmp_path,
        capfd,
        monkeypatch,
        *settings,
        "trainer.max_epochs=1",
        "trainer.log_every_n_steps=1",
        "logger=tensorboard",
        "attention=coverage_fertility",
    )
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert {"train/loss", "valid/bleu", "valid/perplexity"} <= set(events.Tags()["scalars"])
    alignments = {f"valid/alignment_{number}" for number in range(8)}
    traces = {f"valid/{name}_{number}" for number in range(3) for name in ("coverage", "fertility")}
    assert set(events.Tags()["images"]) == alignments | traces
    (written,) = events.Tensors("valid/translation_0/text_summary")
    line = next(iter(ToyPairs("valid", 8)))
    assert written.tensor_proto.string_val[0].decode().startswith(f"{line.source}  \n{line.target}  \n")


@pytest.mark.slow
def test_one_batch_is_overfitted(tmp_path):
    command("train", "debug=overfit", "size=tiny", "data.train.count=200", f"hydra.run.dir={tmp_path}")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["steps"] == 200
    assert summary["last"]["train/loss"] < 0.2


@pytest.mark.parametrize("size", choices("size"))
def test_a_size_builds_every_decoder(size):
    for decoder in choices("decoder"):
        encoder = "lstm" if decoder == "luong" else "bigru"
        with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            config = compose("config", overrides=[f"size={size}", f"decoder={decoder}", f"encoder={encoder}"])
        config.model.source_vocabulary_size = config.model.target_vocabulary_size = 100
        with torch.device("meta"):
            model = build_model(config)
        assert sum(parameter.numel() for parameter in model.parameters()) > 10_000


def test_the_baseline_of_tu_2016_has_the_papers_parameter_count():
    """The paper reports 84.3M (§5.2): all matrices and embeddings for 30,000 words a side, without vectors."""
    overrides = ["experiment=tu2016/groundhog", "size=paper", "model.source_vocabulary_size=30000"]
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        config = compose("config", overrides=[*overrides, "model.target_vocabulary_size=30000"])
    total = sum(parameter.numel() for parameter in build_model(config).parameters() if parameter.dim() > 1)
    assert total / 1e6 == pytest.approx(84.3, abs=0.05)
