"""Run folders as they are found on a disk: whole, half written, or damaged.

A file that cannot be read costs what it holds, and is told; it never costs another run.
"""

import csv
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.errors import UserError, first_line
from nmt.evaluation.adequacy import sentence_counts
from nmt.evaluation.bleu import sentence_statistics, words_of
from nmt.report.reading import UnreadableError, is_number, read_json, read_text, read_yaml
from nmt.run import name_of_test
from nmt.search.settings import BESIDE

MARKS = ("summary.json", "metrics.csv", "checkpoints", ".hydra")  # any of them makes a folder a run's
SWEEP = "sweep.json"
DEEPEST = 6  # folders below the one named, where runs are looked for
POINTS = 300  # of a curve, at most
CURVES = {"loss": ("train/loss", "valid/loss"), "perplexity": ("valid/perplexity",), "bleu": ("valid/bleu",)}
SPEED = "train/tokens_per_second"
AT_HAND = ("none", "13a", "intl", "zh", "char")  # tokenisers of sacrebleu that need nothing else


class LeftOut(NamedTuple):
    """What is not compared."""

    run: str
    reason: str


class Sentence(NamedTuple):
    source: str
    reference: str
    hypothesis: str
    source_words: list[str]
    words: list[str]
    further_references: list[str]


@dataclass
class Evaluated:
    """A run on a test set."""

    scores: dict[str, float]
    signatures: dict[str, str]
    search: dict[str, Any]
    sentences: list[Sentence]
    alignments: Path
    digest: str  # of sources and references
    weights: tuple[str, int] | None  # the checkpoint's name and step; None: an ensemble's, or not said
    counted: dict[str, Any]  # how BLEU was; empty: its signature alone says so

    @property
    def hypotheses(self) -> list[str]:
        return [sentence.hypothesis for sentence in self.sentences]

    @property
    def references(self) -> list[list[str]]:
        of_each = ([sentence.reference, *sentence.further_references] for sentence in self.sentences)
        return [list(lines) for lines in zip(*of_each, strict=True)]

    @cached_property
    def statistics(self) -> np.ndarray:
        """(sentence, 10): what BLEU is made of."""
        return sentence_statistics(self.hypotheses, self.references, **self.counting)

    @cached_property
    def adequacy(self) -> np.ndarray:
        """(sentence, 7): what over- and under-translation are made of, in words as BLEU counts them."""
        said = words_of(self.hypotheses, **self.counting)
        wanted = words_of([sentence.reference for sentence in self.sentences], **self.counting)
        return np.array([sentence_counts(*words) for words in zip(said, wanted, strict=True)])

    @property
    def counting(self) -> dict[str, Any]:
        """How BLEU was counted: nrefs:1|case:lc|tok:13a, unless it is told: some tokenisers are called otherwise."""
        if {"tokenize", "lowercase"} <= set(self.counted):
            return {name: self.counted[name] for name in ("tokenize", "lowercase")}
        said = dict(part.split(":", 1) for part in self.signatures.get("bleu", "").split("|") if ":" in part)
        return {"tokenize": said.get("tok", "13a"), "lowercase": said.get("case") == "lc"}


class Curves(NamedTuple):
    series: dict[str, dict[str, list[list[float]]]]  # loss, perplexity, bleu: column: steps and values
    speed: float | None  # target words a second, the median


@dataclass
class RunFolder:
    """What is known of a run; `notes` tell what could not be read, or does not belong together."""

    folder: Path
    name: str = ""
    state: str = ""  # of a job that has not begun
    notes: list[str] = field(default_factory=list)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """An ensemble of runs has none: it was never trained."""
        return {"status": "ensemble"} if self.is_ensemble else read_json(self.folder / "summary.json")

    @cached_property
    def config(self) -> dict[str, Any]:
        """As composed, interpolations unresolved."""
        found = self._noted(lambda: read_yaml(self.folder / ".hydra" / "config.yaml"), "its settings are not known", {})
        return found if isinstance(found, dict) else {}

    @property
    def config_text(self) -> str:
        return read_text(self.folder / ".hydra" / "config.yaml", "") if self.config else ""

    @cached_property
    def overrides(self) -> list[str]:
        path = self.folder / ".hydra" / "overrides.yaml"
        found = self._noted(lambda: read_yaml(path), "its command line is not known", [])
        return [str(override) for override in found] if isinstance(found, list) else []

    @cached_property
    def choices(self) -> dict[str, str]:
        """Group by group what was chosen, where Hydra says so."""
        try:
            found = read_yaml(self.folder / ".hydra" / "hydra.yaml")["hydra"]["runtime"]["choices"]
        except (UnreadableError, LookupError, TypeError):
            return {}
        items = found.items() if isinstance(found, dict) else ()
        return {str(group): str(choice) for group, choice in items if choice is not None}

    @cached_property
    def curves(self) -> Curves:
        return self._noted(lambda: read_curves(self.folder / "metrics.csv"), "no learning curves", Curves({}, None))

    @property
    def seed(self) -> Any:
        return self.config.get("seed")

    @property
    def own_test(self) -> str | None:
        """The test set that it is evaluated on where none is named."""
        data = self.config.get("data")
        return name_of_test(data.get("test")) if isinstance(data, Mapping) else None

    @property
    def tests(self) -> list[str]:
        return sorted(path.parent.name for path in self.folder.glob("*/scores.json"))

    @property
    def wandb(self) -> str | None:
        """Where its W&B files are; what is offline can be sent."""
        found = sorted(self.folder.glob("wandb/*run-*"))
        return str(found[-1]) if found else None

    def must_be_completed(self) -> None:
        if self.state:
            raise UnreadableError(f"{self.state}: it has not begun")
        status = self.summary.get("status")
        if status in ("completed", "ensemble"):
            return
        error = str(self.summary.get("error", "")).strip().split("\n")[0]
        raise UnreadableError(f"{status or 'summary.json has no status'}{f': {error}' if error else ''}")

    def on(self, test: str) -> Evaluated:
        if not (self.folder / test / "scores.json").is_file():
            others = f"; it was on {', '.join(self.tests)}" if self.tests else ""
            raise UnreadableError(f"not evaluated on {test}{others}: python evaluate.py run=FOLDER data.test={test}")
        found = read_evaluated(self.folder / test)
        if note := self.trained_later(found.weights) or self._not_its_best(found.weights):
            self.notes.append(note)
        return found

    def trained_later(self, evaluated: tuple[str, int] | None) -> str:
        """The scores are then of other weights than the curves, the steps and the time; empty: it was not."""
        best = _checkpoint_of([self.summary.get("best")])
        if not (evaluated and best and evaluated[0] == best[0] and evaluated[1] != best[1]):
            return ""
        how = "further" if best[1] > evaluated[1] else "anew"
        return f"evaluated at step {evaluated[1]}, trained {how} since; evaluate it again"

    def _not_its_best(self, evaluated: tuple[str, int] | None) -> str:
        best = _checkpoint_of([self.summary.get("best")])
        other = evaluated and best and evaluated != best
        return f"evaluated with {evaluated[0]}, step {evaluated[1]}; its best is {best[0]}" if other else ""

    @cached_property
    def is_ensemble(self) -> bool:
        return not (self.folder / "summary.json").is_file() and len(_members(self.folder)) > 1

    def _noted(self, read: Any, cost: str, instead: Any) -> Any:
        try:
            return read()
        except UnreadableError as error:
            if not self.is_ensemble:
                self.notes.append(f"{error}: {cost}")
            return instead


def find_runs(paths: Sequence[str]) -> list[RunFolder]:
    """Each once, in the order given; jobs of a sweep that have not begun are among them."""
    found: dict[Path, RunFolder] = {}
    for path in map(Path, paths):
        if path.is_file():
            raise UserError(f"{path}: is a file; name the folder of a run, or of a sweep")
        if not path.is_dir():
            raise UserError(f"{path}: no such folder")
        for run in _runs_under(path):
            found.setdefault(run.folder.resolve(), run)
    runs = list(found.values())
    if not runs:
        named = ", ".join(paths)
        raise UserError(f"{named}: no run there; a run's folder holds summary.json, a sweep's holds runs' folders")
    for run, name in zip(runs, _names([run.folder for run in runs]), strict=True):
        run.name = name
    return runs


def _runs_under(path: Path) -> Iterator[RunFolder]:
    """What lies in a run is no other run; sweeps' jobs that have not begun come last."""
    waiting = []
    for place, inner, files in os.walk(path):
        folder = Path(place)
        if SWEEP in files:
            waiting += _not_begun(folder)
        elif is_run(folder, {*inner, *files}):
            inner.clear()
            yield RunFolder(folder)
        inner[:] = sorted((name for name in inner if not name.startswith(".")), key=_naturally)
        if len(folder.parts) - len(path.parts) >= DEEPEST:
            inner.clear()
    yield from waiting


def is_run(folder: Path, held: set[str]) -> bool:
    return bool(held.intersection(MARKS)) or len(_members(folder)) > 1


def _members(folder: Path) -> list[Any]:
    """The runs that an ensemble, which leaves nothing but its results, is made of."""
    for path in sorted(folder.glob("*/scores.json")):
        try:
            members = read_json(path).get("members")
        except UnreadableError:
            continue
        if isinstance(members, list):
            return members
    return []


def _not_begun(path: Path) -> list[RunFolder]:
    try:
        jobs = read_json(path / SWEEP)["jobs"]
        missing = [job for job in jobs if _is_name(job["folder"]) and not (path / job["folder"]).is_dir()]
        runs = [RunFolder(path / job["folder"], state=str(job["status"])) for job in missing]
        for run, job in zip(runs, missing, strict=True):
            run.overrides = [str(override) for override in job["overrides"]]
    except (UnreadableError, LookupError, OSError, TypeError):
        return []
    return runs


def _is_name(text: Any) -> bool:
    """Of a folder that lies where it is said to: not a path that leads elsewhere."""
    return isinstance(text, str) and text.isprintable() and not set(text) & set("/\\") and text not in ("", ".", "..")


def _names(folders: Sequence[Path]) -> list[str]:
    """What is left of each path without the folders that all of them lie in."""
    absolute = [Path(os.path.abspath(folder)) for folder in folders]
    shared = os.path.commonpath([path.parent for path in absolute]) if absolute else ""
    return [path.relative_to(shared).as_posix() for path in absolute]


def _naturally(name: str) -> list[tuple[int, Any]]:
    """seed=2 before seed=10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]


def read_evaluated(folder: Path) -> Evaluated:
    where = folder.name
    stored = read_json(folder / "scores.json", f"{where}/scores.json")
    scores, signatures = scores_of(stored, f"{where}/scores.json")
    sentences = read_sentences(folder / "sentences.jsonl", f"{where}/sentences.jsonl")
    if stored.get("sentences") != len(sentences):
        raise UnreadableError(
            f"{where}/scores.json is of {stored.get('sentences')} sentences, sentences.jsonl of {len(sentences)}; "
            "evaluate it again"
        )
    search = stored.get("search") if isinstance(stored.get("search"), dict) else {}
    how = {f"search.{key}": value for key, value in search.items()}
    how |= {name: stored[name] for name in BESIDE if name in stored}
    digest = digest_of((one.source, one.reference, *one.further_references) for one in sentences)
    weights = _checkpoint_of(stored.get("members"))
    counted = stored.get("counted") if isinstance(stored.get("counted"), dict) else {}
    found = Evaluated(scores, signatures, how, sentences, folder / "alignments.npz", digest, weights, counted)
    if found.counting["tokenize"] not in AT_HAND:
        try:
            found.statistics  # noqa: B018 – kept
        except Exception as error:  # each tokeniser fails in a way of its own
            tok = found.counting["tokenize"]
            raise UnreadableError(f"BLEU with tok:{tok} cannot be counted here ({first_line(error)})") from None
    return found


def _checkpoint_of(members: Any) -> tuple[str, int] | None:
    """Its name and step, where there is but one and both are said."""
    match members:
        case [{"checkpoint": str(path), "step": int(step)}]:
            return Path(path).name, step
    return None


def scores_of(stored: Mapping[str, Any], where: str) -> tuple[dict[str, float], dict[str, str]]:
    """What scores.json says, and how it was counted."""
    given = stored.get("scores")
    if not isinstance(given, Mapping):
        raise UnreadableError(f"{where} holds no scores; evaluate it again")
    values = {name: one.get("score") if isinstance(one, Mapping) else one for name, one in given.items()}
    scores = {name: float(value) for name, value in values.items() if is_number(value)}
    if "bleu" not in scores:
        raise UnreadableError(f"{where} holds no BLEU; evaluate it again")
    signed = {name: one.get("signature") for name, one in given.items() if isinstance(one, Mapping)}
    return scores, {name: signature for name, signature in signed.items() if isinstance(signature, str)}


def read_sentences(path: Path, where: str) -> list[Sentence]:
    if not path.is_file():
        raise UnreadableError(f"has no {where}: evaluate it again")
    sentences = []
    for number, line in enumerate(read_text(path, where).split("\n"), start=1):
        if line:
            try:
                sentences.append(_sentence(json.loads(line)))
            except (ValueError, TypeError, LookupError, RecursionError):
                raise UnreadableError(f"{where}, line {number}: not a sentence's JSON; evaluate it again") from None
    if not sentences:
        raise UnreadableError(f"{where} is empty; evaluate it again")
    if len({len(sentence.further_references) for sentence in sentences}) > 1:
        raise UnreadableError(f"{where}: not all sentences have as many references; evaluate it again")
    return sentences


def _sentence(stored: Mapping[str, Any]) -> Sentence:
    texts = [stored[key] for key in ("source", "reference", "hypothesis")]
    words = [[str(word) for word in stored.get(key) or ()] for key in ("source_words", "words")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    further = [str(line) for line in stored.get("further_references") or ()]
    return Sentence(*texts, *words, further)


def read_curves(path: Path) -> Curves:
    lines = read_text(path, path.name).splitlines()
    try:
        rows = list(csv.DictReader(line for line in lines if line.strip("\0")))
    except csv.Error as error:
        raise UnreadableError(f"metrics.csv is not a table ({error})") from None
    if not rows or "step" not in rows[0]:
        raise UnreadableError("metrics.csv holds no steps")
    found = {
        name: {column: points for column in columns if (points := _points(rows, column))}
        for name, columns in CURVES.items()
    }
    speeds = sorted(values[1]) if (values := _points(rows, SPEED)) else []
    series = {name: {column: thinned(points) for column, points in of.items()} for name, of in found.items() if of}
    return Curves(series, speeds[len(speeds) // 2] if speeds else None)


def _points(rows: Sequence[Mapping[str, Any]], column: str) -> list[list[float]]:
    """Rows are sparse: a column has its values in some of them."""
    steps, values = [], []
    for number, row in enumerate(rows, start=2):
        if row.get(column):
            try:
                step, value = float(row["step"]), float(row[column])
            except (TypeError, ValueError):
                raise UnreadableError(f"metrics.csv, line {number}: {column} is not a number") from None
            if math.isfinite(step) and math.isfinite(value):
                steps.append(step)
                values.append(float(f"{value:.5g}"))
    return [steps, values] if steps else []


def thinned(points: list[list[float]]) -> list[list[float]]:
    """Few enough to be drawn; the last stays."""
    count = len(points[0])
    if count <= POINTS:
        return points
    kept = sorted({round(place * (count - 1) / (POINTS - 1)) for place in range(POINTS)})
    return [[values[place] for place in kept] for values in points]


def digest_of(pairs: Iterator[tuple[str, ...]]) -> str:
    digest = blake2b(digest_size=6)
    for pair in pairs:
        digest.update(json.dumps(pair).encode())
    return digest.hexdigest()
