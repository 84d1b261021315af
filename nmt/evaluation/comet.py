"""Add COMET to scores.json, by the program comet-score in an environment of its own.

unbabel-comet is not imported, because it needs NumPy 1 and an earlier huggingface-hub.
"""

import logging
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from omegaconf import DictConfig

from nmt.errors import ConfigurationError, DataError
from nmt.evaluation.corpus_score import Score
from nmt.evaluation.stored_evaluation import Evaluation, read_evaluation
from nmt.evaluation.test_set import TestSet
from nmt.runs.folder import LOCK, SCORES
from nmt.system.files import write_json, write_text
from nmt.system.locks import lock_file
from nmt.system.safe_files import UnreadableError, inside, is_number, read_json

log = logging.getLogger(__name__)

MODEL = "Unbabel/wmt22-comet-da"
INSTALL = "python -m venv comet && comet/bin/pip install unbabel-comet, then comet=comet/bin/comet-score"


def add_comet(settings: DictConfig) -> Iterator[tuple[Path, Score]]:
    """Carry out `comet=PROGRAM`: score each evaluation of a run, and yield its folder and COMET."""
    if settings.comet is None:
        raise ConfigurationError(f"comet_model={settings.comet_model}: needs comet= too. Fix: comet=PROGRAM")
    if settings.run is None:
        raise ConfigurationError(f"comet={settings.comet}: which run? Fix: name the folder of an evaluated run")
    program = shutil.which(str(settings.comet))
    if program is None:
        raise ConfigurationError(f"comet={settings.comet}: no such program. Fix: {INSTALL}")
    run = Path(settings.run)
    tests = sorted(path.parent.name for path in run.glob(f"*/{SCORES}"))
    if not tests:
        raise DataError(f"{run}: has no evaluation. Fix: evaluate it first: the same command without comet=")
    for test in tests:
        with lock_file(run / test / LOCK, message=f"{run / test}: another process writes its results; waiting for it"):
            yield run / test, _add_to_evaluation(run, test, program, settings)


def _add_to_evaluation(run: Path, test: str, program: str, settings: DictConfig) -> Score:
    try:
        evaluation = read_evaluation(run, test)
        stored = read_json(inside(run, f"{test}/{SCORES}"))
    except UnreadableError as error:
        raise DataError(f"{run}: {error}") from None
    model = settings.comet_model or MODEL
    options = ["--model", model, "--gpus", "0" if settings.device == "cpu" else "1"]
    segments = _score_sentences([program, *options], evaluation, str(settings.comet))
    comet = Score(100 * sum(segments) / len(segments), f"model:{model}", "the mean over sentences, times 100")
    stored["scores"]["comet"] = comet._asdict()
    write_json(run / test / SCORES, stored)
    return comet


def _score_sentences(command: Sequence[str], evaluation: Evaluation, name: str) -> list[float]:
    """Return the score of each sentence; the program shows its progress and its errors itself."""
    with TemporaryDirectory() as folder:
        texts = {"-s": "source", "-t": "hypothesis", "-r": "reference"}
        arguments = []
        for option, text in texts.items():
            lines = (" ".join(getattr(sentence, text).split()) for sentence in evaluation.sentences)
            write_text(path := Path(folder, text), "".join(f"{line}\n" for line in lines))
            arguments += [option, str(path)]
        output = Path(folder, "comet.json")
        done = subprocess.run(
            [*command, *arguments, "--only_system", "--to_json", str(output)], stdout=subprocess.DEVNULL, check=False
        )
        if done.returncode or not output.is_file():
            raise DataError(f"comet={name}: ended with status {done.returncode}. Fix: see its lines above")
        try:
            [rows] = read_json(output).values()
            scores = [row["COMET"] for row in rows]
        except (UnreadableError, ValueError, LookupError, TypeError, AttributeError):
            scores = []
    if len(scores) != len(evaluation.sentences) or not all(map(is_number, scores)):
        raise DataError(f"comet={name}: did not write a score for each sentence. Fix: {INSTALL}")
    return scores


def keep_comet(folder: Path, test: TestSet, texts: Sequence[str]) -> dict[str, Any]:
    """Return COMET as an evaluation's folder has it, if it is of the same sentences and translations."""
    try:
        earlier = read_evaluation(folder.parent, folder.name)
        comet = read_json(inside(folder, SCORES))["scores"].get("comet")
    except UnreadableError:
        return {}
    sentences = [(one.source, one.reference, one.hypothesis) for one in earlier.sentences]
    same = sentences == [(pair.source, pair.target, text) for pair, text in zip(test.pairs, texts, strict=True)]
    return {"comet": comet} if comet and same else {}
