"""One-line errors: a mistake in a command is reported with its key and the allowed values."""

import argparse
import json
import os
import re
import sys
from contextlib import nullcontext
from importlib.util import find_spec

import pytest
import torch
from commands import answer, command, quick_python
from hydra.errors import InstantiationException

import nmt.model
from nmt.config.explain import explain
from nmt.config.schema import load_defaults
from nmt.errors import UserError
from nmt.runs.training_folder import lock_run_folder

MISTAKES = {
    "attention=adittive": r"attention=adittive: no such choice \(did you mean additive\?\). Fix: choose additive,",
    "attenton=dot": r"attenton: no such key \(did you mean attention\?\); there are size, data",
    "attention.foo=1": "attention.foo: no such key; attention has context_size, window, history",
    "-m attention=dot,additive seed.foo=1": "seed.foo: (?!.*swept)",
    "-m hydra/launcher=submitit_slurm hydra.launcher.timeout=3": r"hydra.launcher.timeout: no such key \(did you",
    "-m attention=dot,additive trainer.max_epoch=1": "trainer.max_epoch: no such key (?!.*swept)",
    "attention=none attention/window=local_m": "attention/window: the chosen attention has no window. Fix: leave",
    "attention=local_p attention.window.half_width=0": "attention.window.half_width=0: must be at least 1",
    "attention=interactive attention.writing.shared=false attention/window=local_m": "attention.writing.shared=false",
    "attention=temporal attention.history.window=-1": "attention.history.window=-1: must be at least 0, or null",
    "attention=coverage attention.coverage.size=0": "attention.coverage.size=0: must be at least 1",
    "attention=coverage_fertility attention.coverage.most=0.0": "attention.coverage.most=0.0: must be above 0",
    "attention=location attention.score.positions=0": "attention.score.positions=0: must be at least 1",
    "attention=none attention.context_size=64": "attention.context_size=64: must be 0 without attention",
    "memory=buffer memory.cells=0": "memory.cells=0: must be at least 1",
    "+attention.foo=1": "attention.foo: no such setting. Fix: choose context_size, score, weights, window, history, ",
    "+attention=coverage": r"\+attention=coverage: attention is already in the defaults. Fix: leave out the \+$",
    "+trainer.max_epochs=3": r"\+trainer.max_epochs: there is such a key already. Fix: leave out the \+$",
    "trainer.max_epoch=3": r"trainer.max_epoch: no such key \(did you mean max_epochs\?\); trainer has ",
    "optimizer.lr=fast": "optimizer.lr=fast: must be a number; the default is 0.001$",
    "optimizer.lr=0,001": r"optimizer.lr=0,001: several values. Fix: give one \(train.py -m trains with each\);",
    "seed=range(1,3)": r"seed=range\(1,3\): several values. Fix: give one \(train.py -m trains with each\); write",
    "decoder=luong encoder=lstm attention=general decoder.input_feeding=no": "decoder.input_feeding=no: must be true",
    "dropout=true": "dropout=true: must be a number; the default is 0.2$",
    "dropout=1": "dropout=1: must be at least 0, and below 1$",
    "encoder.dropout=-0.1": "encoder.dropout=-0.1: must be at least 0, and below 1$",
    "trainer.max_epochs=2.5": "trainer.max_epochs=2.5: must be a whole number; the default is 20$",
    "score_test=1": "score_test=1: must be true or false; the default is false$",
    "attention.score._target_=nmt.model.attention.score.Mine": ".*Mine: refused, .* no such class .* Fix: correct",
    "+callbacks.mine={_target_:nope.Nope}": r"callbacks.mine._target_=nope.Nope: cannot be imported \(No module",
    "schedule._target_=nmt.nope": r"schedule._target_=nmt.nope: cannot be imported \(No module named 'nmt.nope'\)$",
    "attention.score=dot": "attention.score=dot: dot is a choice of a group. Fix: attention/score=dot$",
    "data.candidates=lists": "data.candidates=lists: lists is a choice of a group. Fix: data/candidates=lists$",
    "validation=beam": r"validation=beam: is a section with settings \(beam\). Fix: validation.NAME=VALUE$",
    "++drpout=0.3": r"drpout: no such key, nothing reads it \(did you mean dropout\?\)",
    "++size.hiden=3": r"size.hiden: no such key, nothing reads it \(did you mean hidden\?\)",
    "size=512": "size=512: no such choice. Fix: choose base,.*tiny",
    "-m attention=additive,dot debug=null": "debug=null: no such choice. Fix: leave it out, or choose overfit, steps",
    "data.test=tst": "data.test=tst: no such test set. Fix: choose test, long, valid",
    "data.test=earlier.1": "data.test='earlier.1': not a valid name for a folder of the run",
    "data.tests.news.source=x": "data.tests.news.source: no such key. Fix: choose split, count",
    "+data.tests.news.split=test": r"data.tests.news.count must be given. Fix: data.tests.news.count=VALUE$",
    "data.tests.tset.count=5": r"data.tests.tset.split must be given. Fix: data.tests.tset.split=VALUE$",
    "data.train.count=-200": "data.train: count=-200: must be from 1 to 10000000",
    "data.train.split=tst": "data.train: split=tst: not a split of the toy language. Fix: choose train,.*long$",
    "data.max_length=0": "data.max_length=0: must be at least 1, or null for no limit",
    "data.vocabulary.kind=unigrams": r"data.vocabulary.kind=unigrams: unknown kind \(did you mean unigram\?\). Fix: ch",
    "data.vocabulary.size=2": "data.vocabulary.size=2: must be above 4",
    "data.score.tokenize=moses": "tokenize=moses: no such tokenizer. Fix: choose none, ",
    "finite.spike=1 data=multi30k": "finite.most_in_a_row=.*, finite.spike=1: at least one step",
    "optimizer=sparse_adam +optimizer.fused=true": "optimizer: fused=True: not made for sparse gradients.",
    "optimizer=sparse_adam +optimizer.weight_decay=0.1": "optimizer: weight_decay=0.1: not made for sparse gradients.",
    "loss.label_smoothing=2": "loss.label_smoothing=2: must be at least 0, and below 1",
    "loss.normalize=word": "loss.normalize=word: choose words, sentences or sum",
    "score_test=true data.tests.news.source=tpyo.en data.tests.news.target=x data.test=news data=text "
    "data.train.source=train.py data.train.target=train.py data.valid.source=train.py data.valid.target=train.py "
    "data.source.language=en data.target.language=de": "tpyo.en: no such file",
    "callbacks.checkpoint=null": "callbacks.early_stopping: monitors what callbacks.checkpoint does, and that is null",
    "+trainer.default_root_dir=x": "trainer.default_root_dir: would have no effect, hydra.run.dir=FOLDER sets it",
    "callbacks.checkpoint.save_top_k=3": "callbacks.checkpoint.save_top_k=3: must be 1, because best.ckpt is the run's",
    "callbacks.checkpoint.filename=top": "callbacks.checkpoint.filename=top: must be best, because best.ckpt is the",
    "callbacks.checkpoint.monitor=val/bleu": "callbacks.checkpoint.monitor=val/bleu: choose valid/loss, valid/perp",
    "callbacks.checkpoint.monitor=valid/loss": "callbacks.checkpoint.mode=max: lower valid/loss is better",
    "callbacks.early_stopping.mode=min": "callbacks.early_stopping.mode=min: higher valid/bleu is .* Fix: .*mode=max$",
    "trainer.gradient_clip_val=-1": "trainer.gradient_clip_val=-1: must be at least 0",
    "trainer.strategy=ddp_spawn": "trainer.strategy=ddp_spawn: its ranks cannot .* Fix: choose auto, ddp, ",
    "trainer.plugins=[x]": r"trainer.plugins=\['x'\]: must be a list, each with a _target_, the class to make",
    "trainer.plugins=null": r"trainer.plugins=None: must be a list, each with a _target_, the class to make",
    "trainer.accumulate_grad_batches=0": "trainer.accumulate_grad_batches=0: must be at least 1",
    "trainer.accumulate_grad_batches=null": "trainer.accumulate_grad_batches=None: must be at least 1",
    "memory=buffer memory.noise=-1.0": "memory.noise=-1.0: must be at least 0",
    "graphs=true trainer=cpu": "graphs=true: needs an NVIDIA GPU. Fix: trainer=gpu where there is one, or graphs=false",
    "data.batches.multiple=0": "data.batches.multiple=0 or data.valid_batches.multiple=0: must be at least 1",
    "trainer=ddp_cpu trainer.devices=5000": "trainer.devices=5000: so many processes on .* cores would stop the",
    "+optimizer.betas=[0.9]": r"optimizer.betas=\[0.9\]: too few values \(list index out of range\)",
    "+optimizer.beta=[0.9,0.9]": r"optimizer.beta: no such setting \(did you mean betas\?\). Fix: choose lr, betas",
    "+schedule.foo=3": "schedule.foo: no such setting. Fix: choose after$",
    "++loss.smoothing=0.1": r"loss.smoothing: no such key, .* \(did you mean label_smoothing\?\). Fix: choose label_sm",
    "+callbacks.mine.foo=3": "callbacks.mine: has no _target_, the class to make; callbacks has checkpoint, last",
    "+callbacks.mine=3": "callbacks.mine: has no _target_, the class to make; callbacks has checkpoint, last",
    "+logger.cvs.path=x": r"logger.cvs: has no _target_, the class to make \(did you mean csv\?\); logger has csv$",
    "optimizer.lr=-1": "optimizer: Invalid learning rate: -1",
    "optimizer=sgd schedule.after=-5": "schedule.after=-5: must be a number of epochs, or null for never",
    "validation.beam=0": "validation.beam=0: must be at least 1",
    "search.stop=now": "search.stop=now: no such choice. Fix: stop=safe or stop=first",
    "search.bean=10": r"search.bean: no such key \(did you mean beam\?\); search has beam, nbest,",
    "+search.bean=10": r"search.bean: no such key, nothing reads it \(did you mean beam\?\). Fix: choose beam,",
    "seed=-1": "seed=-1: must be a whole number from 0 to 4294967295",
    "size.hidden=0": "size.hidden=0: must be at least 1",
    "trainer.max_steps=0": "nothing was trained: a new run, and .*, trainer.max_steps=0 leave nothing to do",
    "device=gpu": "device=gpu: no such device. Fix: device=auto, cpu, cuda or cuda:1$",
    "device=cuda": "trainer.accelerator=cuda: torch .* finds no GPU here. Fix: trainer=cpu trains without one$",
    "threads=5000": "threads=5000: must be a number of threads from 1 to 1024, or null",
    "data.seed=-5": "data.seed=-5: must be a whole number from 0 to 4294967295",
    "trainer.val_check_interval=0": "trainer.val_check_interval=0: must be a number of batches, or a part of an epoch",
    "trainer.val_check_interval=1.5": "trainer.val_check_interval=1.5: must be a number of batches, or a part of an",
    "fresh=[a]": r"fresh=\['a'\]: has no effect without init_from= or pretraining=",
    "score_unknown=tranlate": "score_unknown=tranlate: no such mode. Fix: score_unknown=keep, score_un",
    "data.batches.unit=words": "data.batches.unit=words or data.valid_batches.unit=words: unknown unit. Fix: choose "
    "sentences or tokens",
    "size.encoder=10 attention=dot": "attention=dot: .* must be equal. Fix: attention=general",
    "data=text": "data.train.source and data.train.target must be given",
    "data=text data.train.source=a data.train.target=b": "data.valid.source and data.valid.target must be given",
    "data=text data.train.source=[a,b] data.train.target=c data.valid.source=v data.valid.target=v": "data.train: b: "
    "has no partner among 2 source and 1 target files. Fix: name as many target files as source files$",
    "data=multi30k": "nowhere/multi30k/raw/train.en.gz: no such file .*python -m nmt.data.download multi30k",
    "data=multi30k data.train.source=mine.en": "mine.en: no such file$",
    "trainer.precision=bf16-true": "trainer.precision=bf16-true: choose 32-true, bf16-mixed, 32, bf16",
    "seed=[1": r"seed=\[1: cannot be read \(no viable alternative at input '\[1'\)$",
    "pretraining={overrides:[seed=2]}": r"pretraining=.*: cannot be read .*Fix: quote what has = .*'KEY=\[\"a=b\"\]'$",
    "init_from=runs/seed=1,dropout=0": r"init_from=.*: cannot be read .*: 'init_from=\"runs/seed=1,dropout=0\"'$",
    "data.train.source=/a(b": r"data.train.source=/a\(b: cannot be read .*Fix: .*: 'data.train.source=\"/a\(b\"'$",
    "vectors=cc.vec": r"vectors=cc.vec: is a section with settings \(source, target\). Fix: vectors.NAME=VALUE$",
    "vectors.target=/nowhere.vec": "vectors.target=/nowhere.vec: no such file$",
    "vectors.target=README.md": r"vectors.target=README.md, line 1: is not a word and its numbers. Fix: name word vec",
    "init_from=a#b": "init_from=a#b: cannot be read. Fix: quote the value, and all for the .*: 'init_from=\"a#b\"'$",
    "=3": "an argument has no key before its =",
    "experiment=luong2015/bse": r"experiment=luong2015/bse: no such choice \(did you mean luong2015/base\?\). Fix",
    "ckpt_path=/nowhere": "ckpt_path=/nowhere: no such checkpoint$",
    "ckpt_path=tests": "ckpt_path=tests: is a folder. Fix: name a checkpoint, such as tests/checkpoints/last.ckpt$",
    "ckpt_path=README.md": r"ckpt_path=README.md: cannot be loaded as a checkpoint \(File is not a zip file\)",
    "init_from=/nowhere": "init_from=/nowhere: no such folder or checkpoint",
    "table=tu2016_table1": r"table: none is chosen by default. Fix: add a choice with \+table=…$",
    "+table=tu2016": "table=tu2016: no such choice .*Fix: choose luong2015_footnote15, luong2015_table1",
    "hydra.run.dir=": "hydra.run.dir=: names no folder. Fix: leave it out, or name one$",
    "hydra.run.dir=README.md": r"hydra.run.dir=README.md: cannot be written \(File exists\)$",
    "hydra.run.dir=README.md/a/b": r"hydra.run.dir=README.md/a/b: cannot be written \(Not a directory\)$",
    "-m hydra.sweep.dir=README.md seed=1,2": r"hydra.sweep.dir=README.md: cannot be written \(File exists\)$",
    "pretraining_folder=README.md": r"pretraining_folder=README.md: cannot be written .*\. Fix: pretraining_folder=F",
    "--config-name mine": "--config-name: the main configuration is always config.yaml. Fix: put your settings",
    "pretraining={overrides:['trainer.max_epochs=two']}": "pretraining.overrides: trainer.max_epochs=two: must be",
    "experiment=wang2016/memdec_n4_fresh pretraining={without:[memory]}": "pretraining.without: "
    "memory=buffer was not chosen on the command line, .* Fix: .*pretraining.experiment=NAME",
    "pretraining={without:[memroy]}": r"pretraining.without: memroy is no group \(did you mean memory\?\); there are a",
    "pretraining={witout:[memory]}": r"pretraining.witout: no such key \(did you mean without\?\). Fix: choose exp",
    "pretraining=true": r"pretraining=true: must have settings \(experiment, without, overrides\). Fix: ",
    "pretraining={without:memory}": "pretraining.without=memory: must be a list of groups$",
    "pretraining={experiment:[demo]}": r"pretraining.experiment=\['demo'\]: must be the name of an experiment$",
    "-m +table=tu2016_table1 experiment=multi30k": ".* is not a row of Tu 2016, Table 1: .*Fix: leave out experiment=",
    "memory=buffer decoder=feedback pretraining={without:[memory]} fresh=[decoder.memroy.*]": "fresh=.*: this "
    r"model has no such parameter \(did you mean decoder.memory",
    "decoder=feedback memory=buffer pretraining={without:[memory]} fresh=decoder.memory.*": "fresh=decoder.memory..: "
    r"must be a list, such as \[decoder.memory.\*\]; the default is \[\]$",
    "encoder.reverse=true": r"encoder.reverse: no such key \(encoder=lstm has it\); encoder has word_size",
    "experiment=luong2015/base_reverse encoder=bilstm": "encoder.reverse=true: this encoder reads both ways. Fix: ",
    "decoder=feedback memory=buffer pretraining={without:[memory]}": "pretraining: lacks decoder.memory.perturbation, ",
    "data=multi30k data.source.language=cz": "data.source.language=cz: is the code of a country, not of .* Fix: "
    "data.source.language=cs$",
    "run=a run=b": "run=a run=b: one command repeats one run. Fix: keep one$",
    "-m attention=additive, coverage": "attention=additive, coverage: the shell splits it at the space. Fix: quote it: "
    "'attention=additive, coverage'$",
    "pretraining={without: [memory]}": r".*: the shell splits .* Fix: quote it: 'pretraining={without: \[memory\]}'$",
    "seed= 1": "seed= 1: the shell splits it at the space. Fix: quote it: 'seed= 1'$",
    "-m seed=1-3": r"seed=1-3: must be a number; the default is 1. Fix: -m 'seed=range\(1,4\)'$",
    "size=medium": "size=medium: no such choice. Fix: choose base, .*small, tiny",
    "experiment=dmo": r"experiment=dmo: no such choice \(did you mean demo\?\). Fix: choose ",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_training_command_ends_with_one_error_line(mistake, tmp_path, capfd, monkeypatch):
    run = tmp_path / "run"
    places = [f"hydra.run.dir={run}", f"hydra.sweep.dir={tmp_path}/sweep"]
    arguments = ["size=tiny", "logger=none", *places, *mistake.split()]
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch, NMT_DATA="nowhere")
    *_, last = stderr.strip().split("\n")
    assert status == 1
    assert re.search(f"^error: {MISTAKES[mistake]}", last), last
    assert "Traceback" not in stderr
    if (run / "summary.json").exists():
        summary = json.loads((run / "summary.json").read_text())
        assert summary["status"] == "failed"
        assert "Traceback" in summary["traceback"]
        assert "Traceback" in (run / "train.log").read_text()


def test_a_repeated_run_is_not_said_to_count(capfd, monkeypatch):
    _, stderr = answer("train", "run=a", "run=b", capture=capfd, monkeypatch=monkeypatch)
    assert stderr == "error: run=a run=b: one command repeats one run. Fix: keep one\n"


FOREIGN = {  # checkpoints as other toolkits write them
    "joeynmt": ({"steps": 3, "model_state": {}, "optimizer_state": {}}, "which holds steps, model_state, optimizer_"),
    "opennmt": (
        {"model": {}, "opt": argparse.Namespace(layers=2)},
        r"\(it holds more than tensors and plain containers",
    ),
    "huggingface": ({"encoder.embed_tokens.weight": torch.ones(2, 2)}, "which holds encoder.embed_tokens.weight. "),
    "tensor": (torch.ones(2), "which holds Tensor. "),
}


@pytest.mark.parametrize("toolkit", FOREIGN)
def test_a_checkpoint_of_another_toolkit_is_refused_in_one_line(toolkit, tmp_path, capfd, monkeypatch):
    content, reason = FOREIGN[toolkit]
    torch.save(content, path := tmp_path / "model.pt")
    quiet = ("logger=none", f"hydra.run.dir={tmp_path}/run")
    for verb, key, arguments in (
        ("train", "ckpt_path=", quiet),
        ("train", "init_from=", quiet),
        ("evaluate", "run=", ()),
    ):
        status, stderr = answer(verb, f"{key}{path}", *arguments, capture=capfd, monkeypatch=monkeypatch)
        assert status == 1
        last = stderr.strip().split("\n")[-1]
        assert re.fullmatch(
            rf"error: .*{path}: .*{reason}.*Fix: name a checkpoint of this project, such as .*", last
        ), last


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("evaluate", ["run"], r"run: no such folder or checkpoint, and not KEY=VALUE. Fix: name .*; --help explains"),
        ("translate", ["README.md"], r"README.md: is a file, not a run. Fix: .* or write KEY=README.md$"),
        ("translate", ["a/b=c"], "a/b=c: no such folder or checkpoint, and not KEY=VALUE. "),
        ("translate", ["threads=0"], "threads=0: must be a number of threads from 1 to 1024, or null"),
        ("evaluate", ["score=[a,", "b]"], r"score=\[a, b\]: the shell splits it .* Fix: quote it: 'score=\[a, b\]'"),
        ("evaluate", ["beem=3"], r"beem: no such key \(did you mean beam\?\); there are .*"),
        ("evaluate", [], "run: no run is given. Fix: name the folder of a run, or "),
        ("translate", ["run=/nowhere"], "run=/nowhere: no such folder or checkpoint"),
        ("evaluate", ["run=a", "test=long"], "test=long: no such key. Fix: data.test=long"),
        ("evaluate", ["runs=/a/b"], r"runs=/a/b: must be a list. Fix: 'runs=\[FOLDER,FOLDER\]', or run=/a/b for one"),
        ("translate", ["runs=[a,seed=1]"], r"runs: seed=1: no such folder; a comma cuts a name without quotes. Fix: "),
        ("evaluate", ["run=a", "average=logs"], r"average=logs: applies only to several runs. .*'runs=\[FOLDER,F"),
        ("evaluate", ["run=a", "runs=[b,c]"], "run=a: runs= is given too. Fix: leave out one of them"),
        ("evaluate", ["as_json=yess"], "as_json=yess: must be true or false; the default is false"),
        (
            "evaluate",
            ["run=a", "run=b"],
            r"run=a run=b: one key, several values. .* keep one, a b without run=, or 'runs=\[a,b\]' for an",
        ),
        ("translate", ["beam=2", "beam=3"], "beam=2 beam=3: one key, several values. Fix: keep one"),
        ("translate", ["beam=2.5"], "beam=2.5: must be a whole number; the default is 5"),
        ("translate", ["beam=wide"], "beam=wide: must be a number; the default is 5"),
        # what Hydra's grammar has beside KEY=VALUE
        ("translate", ["beam=1,2"], r"beam=1,2: several values. Fix: .* write a list as beam=\[…,…\]"),
        ("translate", ["~beam=5"], r"~beam: no such key \(did you mean beam\?\)"),
        ("compare", ["nmt", "hydra.run.dir=x"], "hydra: no such key; there are output, test, "),
        ("translate", ["attention=additive"], "attention: no such key; there are beam, "),
        ("evaluate", ["search.beam=4"], "search: no such key; there are beam, "),
        ("evaluate", ["beam.x=4"], "beam.x: no such key; beam has none"),
        ("translate", ["=4"], "=4: no such folder or checkpoint, and not KEY=VALUE. "),
        (
            "evaluate",
            ["run=a", "data.tests.été.source=x"],
            ".*: cannot be read. Fix: write keys with a to z, digits, - ",
        ),
    ],
)
def test_a_mistake_in_another_command_ends_with_one_error_line(name, arguments, message, capfd, monkeypatch):
    status, stderr = answer(name, *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert re.fullmatch(f"error: {message}.*\n", stderr), stderr


def test_a_setting_that_is_given_twice_is_named_with_the_one_that_counts(tmp_path, capfd, monkeypatch):
    arguments = ("seed=1", "seed=-1", "logger=none", f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    first, *_, last = stderr.strip().split("\n")
    assert first == "seed=1 seed=-1: the last one counts; -m seed=1,-1 trains with each"
    assert last.startswith("error: seed=-1: must be")


@pytest.mark.parametrize(
    "command_line",
    [
        "train data=multi30k data.train.source=~/a",
        "train init_from=~/a",
        "train run=~/a",
        "evaluate run=~/a",
        "evaluate runs=[~/a,~/b]",
        "evaluate links=~/a gold=~/a",
        "evaluate ~/a",
        "compare nmt output=~/a",
    ],
)
def test_a_tilde_in_a_path_is_the_home_folder(command_line, tmp_path, capfd, monkeypatch):
    name, *arguments = command_line.split()
    arguments += ["logger=none", f"hydra.run.dir={tmp_path}/run"] if name == "train" else []
    status, stderr = answer(name, *arguments, capture=capfd, monkeypatch=monkeypatch, HOME=str(tmp_path))
    assert status == 1
    assert f"{tmp_path}/a" in stderr.strip().split("\n")[-1]


def test_a_broken_configuration_file_is_named_with_its_line(tmp_path, capfd, monkeypatch):
    broken = tmp_path / "experiment" / "broken.yaml"
    broken.parent.mkdir()
    broken.write_text("# @package _global_\nname: mine\nseed: [1\ndropout: 0.1\n")
    arguments = ("--config-dir", str(tmp_path), "experiment=broken", f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    problem = "while parsing a flow sequence, did not find expected ',' or ']'"
    assert stderr.startswith(f"error: {broken}, line 4, column 8: {problem}")


IN_A_FILE = {
    "see: 3": r"see: no such key in FILE, nothing reads it \(did you mean seed\?\)$",
    "size: {hiden: 9}": r"size.hiden: no such key in FILE, .*\(did you mean hidden\?\). Fix: choose embedding, ",
    "loss: {smoothing: 0.1}": r"loss.smoothing: no such key in FILE, .*\(did you mean label_smoothing\?\). Fix",
    "loss: 3": r"loss=3: is a section with settings \(label_smoothing, normalize\)",
    "finite: null": "finite=null: must have settings$",
    "model: {bias: 1}": "model.bias: no such setting in FILE. Fix: choose source_vocabulary_size, ",
    "attention: {contxt_size: 3}": r"attention.contxt_size: no such setting in FILE \(did you mean context_size",
    "attention: {score: {qery_size: 3}}": r"attention.score.qery_size: no such setting in FILE \(did you mean query",
    "data: {max_lenth: 3}": r"data.max_lenth: no such setting in FILE \(did you mean max_length\?\)",
    "trainer: {max_epoch: 3}": r"trainer.max_epoch: no such setting in FILE \(did you mean max_epochs\?\)",
    "optimizer: {lrr: 3}": r"optimizer.lrr: no such setting in FILE \(did you mean lr\?\)",
    "wide: 12\nsize: {hidden: '${twice:${wide}}'}\ntrainer: {max_steps: 0}": "nothing was trained: a new run",
}


@pytest.mark.parametrize(("settings", "message"), IN_A_FILE.items())
def test_an_unused_key_in_a_users_file_is_refused(settings, message, tmp_path, capfd, monkeypatch):
    """A variable that another setting references is not unused."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(f"# @package _global_\n{settings}\n")
    arguments = ("--config-dir", str(tmp_path), "experiment=mine", "size=tiny", f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    file = re.escape(str(tmp_path / "experiment" / "mine.yaml"))
    assert re.search(f"^error: {message.replace('FILE', file)}", stderr.strip(), re.MULTILINE), stderr


def test_an_unused_key_names_the_file_of_its_group(tmp_path, capfd, monkeypatch):
    file = tmp_path / "attention" / "mine.yaml"
    file.parent.mkdir()
    file.write_text("defaults: [additive, _self_]\ncontxt_size: 3\n")
    arguments = ("--config-dir", str(tmp_path), "attention=mine", "size=tiny", f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert f"error: attention.contxt_size: no such setting in {file} (did you mean context_size?)" in stderr


def test_a_failed_import_of_a_callback_names_file_and_line(tmp_path, capfd, monkeypatch):
    mine = tmp_path / "mine.py"
    mine.write_text('"""A callback."""\nimport nopackage\n')
    monkeypatch.setattr("nmt.__path__", [*nmt.__path__, str(tmp_path)])
    monkeypatch.setattr("nmt.errors.PACKAGE", str(tmp_path))
    arguments = ("size=tiny", "+callbacks.mine={_target_:nmt.mine.Mine}", f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert (
        f"error: callbacks.mine._target_=nmt.mine.Mine: {mine}, line 2: ModuleNotFoundError: No module named" in stderr
    )


def test_an_error_in_a_mechanism_names_file_and_line(tmp_path, capfd, monkeypatch):
    broken = tmp_path / "broken_score.py"
    broken.write_text(
        "from nmt.model.attention.score import Dot\n"
        "class Mine(Dot):\n"
        "    def energies(self, queries, keys, bias=None):\n"
        "        return queries @ keys\n"
    )
    monkeypatch.setattr("nmt.model.__path__", [*nmt.model.__path__, str(tmp_path)])
    monkeypatch.setattr("nmt.errors.PACKAGE", str(tmp_path))
    settings = ("attention=dot", "attention.score._target_=nmt.model.broken_score.Mine", "data.train.count=50")
    arguments = ("size=tiny", "debug=steps", *settings, f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert re.search(
        rf"^error: {re.escape(str(broken))}, line 4: RuntimeError: Expected size for", stderr, re.MULTILINE
    )


@pytest.mark.parametrize(
    ("weights", "gain", "message"),
    [
        ("softmax[:, :1]", 1.0, r"Mine \(FILE\): returned the shape \(8, 1\). Fix: return \(8, \d+\)"),
        ("torch.sqrt(softmax - 1)", 1.0, "the loss .* correct FILE, line 9: FloatingPointError: sqrt returned NaN"),
        ("softmax * self.gain", float("nan"), "the loss .* Fix: give decoder.attention.weights.gain an initial value"),
        ("softmax + torch.sqrt(0 * self.gain)", 1.0, r"the loss .* Fix: \+trainer.detect_anomaly=true names the"),
    ],
)
def test_broken_weights_of_the_users_are_named(weights, gain, message, tmp_path, capfd, monkeypatch):
    broken = tmp_path / "broken_weights.py"
    broken.write_text(
        "import torch\n"
        "class Mine(torch.nn.Module):\n"
        "    normalizes = True\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        f"        self.gain = torch.nn.Parameter(torch.tensor(float('{gain}')))\n"
        "    def forward(self, energies):\n"
        "        softmax = torch.softmax(energies, dim=1)\n"
        f"        return {weights}\n"
    )
    monkeypatch.setattr("nmt.model.__path__", [*nmt.model.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nmt.model.broken_weights", raising=False)
    monkeypatch.setattr("nmt.errors.PACKAGE", str(tmp_path))
    settings = ("attention.weights._target_=nmt.model.broken_weights.Mine", "trainer.num_sanity_val_steps=0")
    small = ("size=tiny", "logger=none", "data.train.count=50", "data.batches.size=8", f"hydra.run.dir={tmp_path}/run")
    status, stderr = answer("train", *settings, *small, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert re.search(f"^error: {message.replace('FILE', re.escape(str(broken)))}", stderr, re.MULTILINE), stderr


@pytest.mark.parametrize("flag", [["-m"], []])
def test_a_sweep_with_a_mistake_in_one_job_starts_no_job(tmp_path, flag, capfd, monkeypatch):
    """The flag -m is allowed first or in the middle."""
    given = ["size=tiny", "logger=none", f"hydra.sweep.dir={tmp_path}", "decoder=luong", "encoder=lstm"]
    swept = ["attention=general", "decoder.input_feeding=true,no"]
    arguments = [*flag, *given, *swept] if flag else [*given, "-m", *swept]
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert stderr.strip().split("\n")[-1].startswith("error: decoder.input_feeding=no: must be true or false")
    assert not list(tmp_path.glob("*/train.log"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("trainer=gpu", "trainer.accelerator=gpu: torch [^ ]+ finds no GPU here. Fix: trainer=cpu trains without one"),
        (
            "trainer=slurm trainer.accelerator=cpu trainer.precision=32-true",
            "trainer=slurm: srun has not started this process. Fix: start it by srun in a job",
        ),
        (
            "trainer=ddp_cpu trainer.val_check_interval='00:00:00:01'",
            "trainer.val_check_interval=00:00:00:01: is a time, and each of 2 ranks has its own clock. Fix: give",
        ),
        (
            "trainer=ddp_cpu trainer.devices=1 trainer.num_nodes=2",
            "trainer.num_nodes=2: nothing starts the processes of the other nodes. Fix: give this command to srun",
        ),
        (
            "callbacks=ema callbacks.average.multi_avg_fn.decay=-3",
            "callbacks.average.multi_avg_fn.decay=-3: must be at least 0, and below 1",
        ),
        ("trainer=ddp_cpu optimizer=sparse_adam", "model.sparse_gradients=true .*for one rank, and here are 2"),
    ],
)
def test_trainer_settings_are_checked_before_the_data(settings, message, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    arguments = ("size=tiny", "logger=none", "data=multi30k", f"hydra.run.dir={tmp_path}", *settings.split())
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch, NMT_DATA="nowhere")
    assert status == 1
    assert re.search(f"^error: {message}", stderr.strip().split("\n")[-1]), stderr


@pytest.mark.parametrize("held", [True, False])
def test_a_refused_command_restores_the_composition_of_an_earlier_run(held, tmp_path, capfd, monkeypatch):
    stored_overrides = tmp_path / "checkpoints" / ".hydra" / "overrides.yaml"
    stored_overrides.parent.mkdir(parents=True)
    stored_overrides.write_text("- seed=1\n")
    refused = ["seed=2"] if held else ["seed=2", "dropout=yes"]
    with lock_run_folder(tmp_path) if held else nullcontext():
        _, stderr = answer("train", *refused, f"hydra.run.dir={tmp_path}", capture=capfd, monkeypatch=monkeypatch)
    assert ("another process trains there" if held else "dropout=yes: must be a number") in stderr
    assert (tmp_path / ".hydra" / "overrides.yaml").read_text() == "- seed=1\n"


@pytest.mark.parametrize(
    "refused",
    [
        "dropout=yes",
        "size.encoder=10 attention=dot",
        "data=multi30k",
        "-m seed=1,2 dropout=yes",
        "-m seed=1,2 init_from=/nowhere hydra.launcher.n_jobs=2",  # the jobs are started
    ],
)
def test_a_refused_command_leaves_no_new_folder(refused, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys, "executable", quick_python())  # with which jobs are started
    monkeypatch.chdir(tmp_path)
    status, _ = answer("train", *refused.split(), capture=capfd, monkeypatch=monkeypatch, NMT_DATA="nowhere")
    assert status == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(find_spec("submitit") is None, reason="hydra-submitit-launcher is not installed")
@pytest.mark.parametrize("seeds", ["1", "1,2"])  # one job, and an array
def test_a_sweep_that_slurm_refuses_leaves_no_new_folder(seeds, tmp_path, capfd, monkeypatch):
    programs, here = tmp_path / "bin", tmp_path / "here"
    for folder in (programs, here):
        folder.mkdir()
    for name in ("sbatch", "srun"):
        (programs / name).write_text("#!/bin/sh\necho 'sbatch: error: Invalid partition name specified' >&2\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.chdir(here)
    arguments = ("-m", "hydra/launcher=submitit_slurm", f"seed={seeds}", "hydra.launcher.partition=nowhere")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert "error: sbatch refused the jobs: Invalid partition name specified. Fix: " in stderr
    assert not list(here.iterdir())


@pytest.mark.parametrize("kept", ["an empty folder", "a file of the user's"])
def test_a_refused_command_keeps_what_the_user_made(kept, tmp_path, capfd, monkeypatch):
    run = tmp_path / "run"
    if kept == "an empty folder":
        run.mkdir()
    else:  # written between the start of the command and its end

        def write_and_refuse(*_):
            (run / "notes.txt").touch()
            raise UserError("refused")

        monkeypatch.setattr("nmt.training.experiment.find_earlier_training", write_and_refuse)
    assert answer("train", "dropout=1.5", f"hydra.run.dir={run}", capture=capfd, monkeypatch=monkeypatch)[0] == 1
    assert run.is_dir()


@pytest.mark.parametrize("kept", ["a completed job", "a log with a traceback", "training"])
def test_a_failed_sweep_keeps_what_its_jobs_leave(kept, tmp_path, capfd, monkeypatch):
    def fail(sweep):
        for number, job in enumerate(sweep.jobs):
            job.folder.mkdir(parents=True)
            (job.folder / ("metrics.csv" if kept == "training" else "train.log")).touch()
            sweep.states[number] = "completed" if kept == "a completed job" and number else "failed"
            sweep.errors[number] = f"lost{' (traceback: train.log)' if kept == 'a log with a traceback' else ''}"
        sweep._write()

    monkeypatch.setattr("nmt.launch.sweep.Sweep.run", fail)
    folder = tmp_path / "sweep"
    assert (
        answer("train", "-m", "seed=1,2", f"hydra.sweep.dir={folder}", capture=capfd, monkeypatch=monkeypatch)[0] == 1
    )
    assert len(list(folder.glob("seed=*/*"))) == 2


def test_an_unexpected_error_names_the_log_with_the_traceback(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("nmt.training.experiment.make_trainer", lambda *_: 1 / 0)
    arguments = ("size=tiny", "logger=none", "data.train.count=50", f"hydra.run.dir={tmp_path}")
    status, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    last = stderr.strip().split("\n")[-1]
    assert status == 1
    assert re.fullmatch(
        rf"error: .*/training/experiment.py, line \d+: ZeroDivisionError: division by zero "
        rf"\(traceback: {tmp_path}/train.log\)",
        last,
    )
    assert "make_trainer" in (tmp_path / "train.log").read_text()
    assert json.loads((tmp_path / "summary.json").read_text())["error"] == last.removeprefix("error: ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["data.target.tokenizer=moses"], "language rules of Moses: data.target.language=en"),
        (
            ["data.source.normalize=true", "data.target.tokenizer=moses", "data.target.language=de"],
            "language rules of Moses: data.source.language=en data.target.language=de",
        ),
        ([], None),
    ],
)
def test_a_run_names_its_language_rules_before_it_reads_text(arguments, line, tmp_path, capfd, monkeypatch):
    texts = ("data=text", *(f"data.{key}=nowhere" for key in ("train.source", "train.target", "valid.source")))
    arguments = (*texts, "data.valid.target=nowhere", *arguments, "size=tiny", f"hydra.run.dir={tmp_path}/run")
    _, stderr = answer("train", *arguments, capture=capfd, monkeypatch=monkeypatch)
    lines = stderr.split("\n")
    assert [text for text in lines if "rules" in text] == [line] * bool(line)
    assert "error: nowhere: no such file" in lines


@pytest.mark.parametrize(
    "message",
    [
        "TypeError(\"Mine.__init__() missing 2 required keyword-only arguments: 'start' and 'end'\")",
        "TypeError('Mine.__init__() missing 2 required keyword-only arguments: \\'start\\' and \\'end\\'')",
    ],
)
def test_missing_settings_are_named_without_quotes(message):
    error = InstantiationException(
        f"Error in call to target 'nmt.model.mine.Mine':\n{message}\nfull_key: model.decoder"
    )
    assert explain(error) == "decoder: needs start, end"


def test_processes_started_by_a_run_print_no_traceback(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("nmt.training.experiment.train", lambda _: sys.exit(os.environ.get("HYDRA_FULL_ERROR", "none")))
    status, stderr = answer("train", f"hydra.run.dir={tmp_path}", capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr) == (1, "none\n")


def test_a_real_command_ends_with_one_error_line(tmp_path):
    done = command("train", "size=tiny", "attention=dot", "size.encoder=10", f"hydra.run.dir={tmp_path}", check=False)
    assert done.returncode == 1
    assert done.stderr.count("error: ") == 1
    assert done.stderr.strip().split("\n")[-1].startswith("error: attention=dot: the query's size")


def test_resolve_refuses_settings_that_need_the_run_folder():
    done = command("train", "--cfg", "job", "--resolve", check=False)
    assert done.returncode == 1
    *_, last = done.stderr.strip().split("\n")
    assert last.startswith("error: --resolve: a run has no folder before it starts")
    assert "max_epochs: 20" in command("train", "--cfg", "job", "--resolve", "-p", "trainer").stdout


def test_help_lists_the_groups_with_their_choices():
    text = command("train", "--help").stdout
    assert "attention: additive, concat, coverage" in text
    assert "attention/history: temporal" in text
    assert "data: am3_zhen, hub, multi30k" in text


@pytest.mark.parametrize("name", ["evaluate", "translate", "compare", "align"])
def test_help_lists_every_key_with_its_default_and_comment(name):
    text = command(name, "--help").stdout
    assert f"python {name}.py " in text
    for key in load_defaults(name):
        assert re.search(rf"^  {key}=\S+ +\S", text, re.MULTILINE), key
