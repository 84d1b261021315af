"""Add COMET to scores.json, by the program comet-score in an environment of its own.

unbabel-comet is not imported, because it needs NumPy 1 and an earlier huggingface-hub.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from omegaconf import DictConfig

from nmt.errors import ConfigurationError, DataError, make_printable
from nmt.evaluation.corpus_score import Score
from nmt.evaluation.stored_evaluation import Sentence, read_evaluation
from nmt.evaluation.test_set import TestSet
from nmt.runs.folder import CHECKPOINTS, LOCK, SCORES
from nmt.system.files import check_writable, suggest_path, to_path, write_json, write_text
from nmt.system.hub import PREFIX, is_hub_name
from nmt.system.locks import lock_file
from nmt.system.safe_files import UnreadableError, inside, is_number, read_json

MODEL = "Unbabel/wmt22-comet-da"
DETAIL = "mean over sentences, times 100"
GPUS = {"cpu": "0", "cuda": "1", "auto": "1"}  # of comet-score; with 1 it takes a GPU if there is one
INSTALL = "python -m venv comet && comet/bin/pip install unbabel-comet, then comet=comet/bin/comet-score"


def make_comet_command(settings: DictConfig) -> list[str]:
    """Return the program and its options; raise ConfigurationError if a setting is wrong for any run."""
    if settings.comet is None:
        raise ConfigurationError(f"comet_model={settings.comet_model}: needs comet= too. Fix: comet=PROGRAM")
    if settings.output is not None:
        raise ConfigurationError(f"output={settings.output}: has no effect with comet=. Fix: leave it out")
    if settings.device not in GPUS:
        raise ConfigurationError(
            f"device={settings.device}: comet= takes {', '.join(GPUS)}. Fix: CUDA_VISIBLE_DEVICES names the GPU"
        )
    program = shutil.which(str(settings.comet))
    if program is None:
        raise ConfigurationError(f"comet={settings.comet}: no such program. Fix: {INSTALL}")
    return [program, "--model", str(settings.comet_model or MODEL), "--gpus", GPUS[settings.device], "--only_system"]


def add_comet(settings: DictConfig) -> Iterator[tuple[Path, Score]]:
    """Carry out `comet=PROGRAM`: score each evaluation of a run, and yield its folder and COMET.

    An evaluation that cannot be read is an error only after the others are scored.
    """
    command, run = make_comet_command(settings), _find_folder(settings)
    tests = sorted(path.parent.name for path in run.glob(f"*/{SCORES}"))
    if not tests:
        raise DataError(f"{run}: has no evaluation. Fix: evaluate it first: the same command without comet=")
    unreadable = []
    for test in tests:
        try:
            yield run / test, _add_to_evaluation(run, test, command)
        except UnreadableError as error:
            unreadable.append(f"{run}: {error}")
    if unreadable:
        raise DataError("; ".join(unreadable))


def _find_folder(settings: DictConfig) -> Path:
    """Return the folder that holds the evaluations of a run or an ensemble."""
    if settings.run is None:
        place = ", for an ensemble that in outputs/ensembles/" if settings.runs else ""
        raise ConfigurationError(f"comet={settings.comet}: of which run? Fix: name the folder of a run{place}")
    if is_hub_name(name := str(settings.run)):
        return Path("outputs", "hub", name.removeprefix(PREFIX))
    path = to_path(name)
    if path.is_file():
        return path.parent.parent if path.parent.name == CHECKPOINTS else path.parent
    if not path.is_dir():
        raise ConfigurationError(f"run={path}: no such folder or checkpoint{suggest_path(path)}")
    return path


def _add_to_evaluation(run: Path, test: str, command: Sequence[str]) -> Score:
    """Score an evaluation, and write the score if nobody has evaluated the run again meanwhile."""
    folder, path = run / test, inside(run, f"{test}/{SCORES}")
    check_writable(folder, str(folder))
    evaluation, stored = read_evaluation(run, test), read_json(path)
    segments = _score_sentences(command, evaluation.sentences)
    comet = Score(100 * sum(segments) / len(segments), f"model:{command[2]}", DETAIL)
    with lock_file(folder / LOCK, message=f"{folder}: another process writes its results there; waiting for it"):
        if read_json(inside(run, f"{test}/{SCORES}")) != stored:
            raise UnreadableError(f"{test} was evaluated again meanwhile. Fix: give the same command again")
        stored["scores"]["comet"] = comet._asdict()
        write_json(path, stored)
    return comet


def _score_sentences(command: Sequence[str], sentences: Sequence[Sentence]) -> list[float]:
    """Return the score of each sentence; the program shows its progress and its errors itself."""
    with TemporaryDirectory() as folder:
        output = Path(folder, "comet.json")
        arguments = ["--to_json", str(output)]
        for option, text in {"-s": "source", "-t": "hypothesis", "-r": "reference"}.items():
            lines = (" ".join(getattr(sentence, text).split()) for sentence in sentences)
            write_text(Path(folder, text), "".join(f"{line}\n" for line in lines))
            arguments += [option, str(Path(folder, text))]
        try:
            status = subprocess.run([*command, *arguments], stdout=subprocess.DEVNULL, check=False).returncode
        except OSError as error:  # such as a script whose environment was moved
            raise ConfigurationError(
                f"comet={command[0]}: cannot be started ({error.strerror}). Fix: {INSTALL}"
            ) from None
        if status:
            raise DataError(f"comet={command[0]}: ended with status {status}. Fix: see its lines above")
        try:
            [rows] = json.loads(output.read_text(encoding="utf-8")).values()
            scores = [row["COMET"] for row in rows]
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            scores = []
    if len(scores) != len(sentences) or not all(map(is_number, scores)):
        raise DataError(f"comet={command[0]}: did not write a score for each sentence. Fix: {INSTALL}")
    return scores


def keep_comet(folder: Path, test: TestSet, texts: Sequence[str]) -> dict[str, dict]:
    """Return COMET as an evaluation's folder has it, if it is of the same sentences and translations."""
    try:
        earlier = read_evaluation(folder.parent, folder.name)
    except UnreadableError:
        return {}
    sentences = [(one.source, one.reference, one.hypothesis) for one in earlier.sentences]
    current = [(pair.source, pair.target, text) for pair, text in zip(test.pairs, texts, strict=True)]
    if "comet" not in earlier.scores or sentences != current:
        return {}
    signature = make_printable(earlier.signatures.get("comet", ""))
    return {"comet": Score(earlier.scores["comet"], signature, DETAIL)._asdict()}
