"""One archive for each study: its tables, and its completed runs without weights, alignments and texts.

A study outlives the machines it runs on. A kept run can be restored elsewhere and is not trained again. Test sets have
licences of their own, so their texts are not kept: they are read from the data when a run is restored.
"""

import copy
import io
import json
import lzma
import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import HydraException
from omegaconf import OmegaConf

from nmt.data.vocabulary import END, SPECIAL
from nmt.errors import ConfigurationError, UserError, first_line
from nmt.evaluation.stored_evaluation import compute_digest
from nmt.evaluation.test_set import read_test_set
from nmt.report.load.evaluated_runs import load_evaluation, note_stale_scores
from nmt.report.load.run_folder import RunFolder, read_choices
from nmt.runs.folder import (
    CHECKPOINTS,
    CHOICES,
    CONFIG,
    METRICS,
    OVERRIDES,
    SUMMARY,
    list_evaluations,
    read_summary,
    strip_settings,
)
from nmt.runs.trained_model import build_data
from nmt.system.files import atomic_write, write_json, write_text
from nmt.system.safe_files import UnreadableError

TABLES, RUNS, LINES = "tables", "runs/", "lines/"  # entries of an archive
FILES = (CONFIG, OVERRIDES, METRICS)
PARTS = ("summary", "files", "choices", "tests")  # of a kept run
# for text, whose bytes do not lie in groups of four (pb): up to 6 % smaller than the preset alone
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, lzma.LZMAError, tarfile.TarError)
DAMAGE += (HydraException, ConfigurationError)  # of the arguments in it


class Archive:
    """The archive of a study, read whole and written whole.

    Args:
        path: the file, a tar of JSON files which is compressed as a whole; an empty archive where there is none.
            Translations lie apart from their runs: each row holds those of one sentence by all runs.
    """

    def __init__(self, path: Path):
        self.path = path
        self.entries: dict[str, Any] = {}
        if path.exists():
            try:
                unpacked = io.BytesIO(lzma.decompress(path.read_bytes()))  # checks the checksum, as tarfile does not
                with tarfile.open(fileobj=unpacked) as tar:
                    self.entries = _join({name: json.load(tar.extractfile(name)) for name in tar.getnames()})
            except DAMAGE as error:
                raise UnreadableError(f"{path} is damaged ({first_line(error)}). Fix: take it from git again") from None

    @property
    def tables(self) -> dict[str, Any] | None:
        """The study's tables and its list of runs."""
        return self.entries.get(TABLES)

    def kept_runs(self, folder: str) -> dict[Path, dict[str, Any]]:
        """Return the kept runs in a folder, or the one that lies there."""
        below = f"{RUNS}{folder}"
        names = [name for name in self.entries if name == below or name.startswith(f"{below}/")]
        return {Path(name.removeprefix(RUNS)): self.entries[name] for name in names}

    def write(self) -> None:
        """Write the archive; equal entries make equal files."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, entry in sorted(_part(self.entries).items()):
                content = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        with atomic_write(self.path) as draft:
            draft.write_bytes(lzma.compress(packed.getvalue(), filters=XZ))


def _part(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries with the lines of all runs for a sentence side by side.

    This makes most archives smaller, and all together by 8 %.
    """
    parted, tests = copy.deepcopy(dict(sorted(entries.items()))), {}
    for run, test, evaluation in _list_evaluations(parted):
        for place, key in (evaluation, "hypotheses"), (evaluation["scores"], "alignment_counts"):
            if lines := place.get(key):
                tests.setdefault(f"{LINES}{key}/{test}/{len(lines)}", {})[run] = lines
                place[key] = None
    columns = {
        name: {"runs": list(runs), "rows": list(zip(*runs.values(), strict=True))} for name, runs in tests.items()
    }
    return parted | columns


def _join(parted: Mapping[str, Any]) -> dict[str, Any]:
    """Put the lines that `_part` took out back into the runs."""
    entries = {name: entry for name, entry in parted.items() if not name.startswith(LINES)}
    evaluations = {(run, test): evaluation for run, test, evaluation in _list_evaluations(entries)}
    for name in parted.keys() - entries.keys():
        _, key, test, _ = name.split("/")
        for run, *lines in zip(parted[name]["runs"], *parted[name]["rows"], strict=True):
            place = evaluations[run, test]
            (place if key in place else place["scores"])[key] = lines
    return entries


def _list_evaluations(entries: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    runs = {name: kept for name, kept in entries.items() if name.startswith(RUNS)}
    return [(run, test, evaluation) for run, kept in runs.items() for test, evaluation in kept.get("tests", {}).items()]


def keep_runs(runs: Sequence[RunFolder], tests: Sequence[str], archive: Archive) -> list[str]:
    """Put completed and evaluated runs into an archive, which is not written yet.

    Returns:
        Messages on runs that were not kept, and on runs that replace another.
    """
    messages = []
    for run in runs:
        if run.problem:  # the comparison names it
            continue
        name = f"{RUNS}{relative_folder(run.folder)}"
        before = archive.entries.get(name)
        try:
            kept = _pack(run, tests, before)
        except (UserError, UnreadableError, *DAMAGE) as error:
            messages.append(f"{run.folder}: is not kept ({_reason(error)})")
            continue
        if before and _started(before) != _started(kept):
            messages.append(
                f"{run.folder}: the run started {_started(kept)} replaces the one started {_started(before)}"
            )
        archive.entries[name] = kept
    return messages


def restore_runs(folder: str, archive: Archive) -> dict[Path, str]:
    """Restore the kept runs in a folder which are not there.

    Returns:
        For each restored run an empty text, and for each other one the reason.
    """
    results = {}
    for path, kept in archive.kept_runs(relative_folder(folder)).items():
        if not path.exists():
            try:
                _restore(kept, path)
                results[path] = ""
            except (UserError, UnreadableError, *DAMAGE) as error:
                results[path] = _reason(error)
        elif read_summary(path).get("status", "ensemble") not in ("completed", "ensemble"):
            results[path] = "another run was started there. Fix: move it away"
    return results


def relative_folder(folder: Path | str) -> str:
    """Return a folder's path from the working directory, by which its runs are kept."""
    path = Path(os.path.relpath(folder))
    if path.parts[0] == "..":
        raise UserError(f"{folder}: lies outside the working directory, from which the paths of runs are kept")
    return path.as_posix()


def _reason(error: Exception) -> str:
    return first_line(error) if isinstance(error, UserError | UnreadableError) else f"{type(error).__name__}: {error}"


def _started(kept: Mapping[str, Any]) -> str | None:
    return kept["summary"].get("started")


def _pack(run: RunFolder, tests: Sequence[str], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is kept of a run: all its evaluations on the test sets, and those that were kept of it before."""
    was_trained_here = run.trained == run.folder  # an evaluation elsewhere and an ensemble were not
    kept = {
        "summary": _without_places(run.summary) if was_trained_here else {},
        "files": {name: (run.folder / name).read_text("utf-8") for name in FILES if (run.folder / name).is_file()},
        "choices": read_choices(run.training) if was_trained_here else {},
        "tests": {},
    }
    earlier = before["tests"] if before and _started(before) == _started(kept) else {}
    names = [name for test in tests for name in list_evaluations(run.folder, test) or [test]]
    kept["tests"] = earlier | {name: _pack_evaluation(run, name, earlier.get(name)) for name in names}
    return kept


def _pack_evaluation(run: RunFolder, name: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
    evaluation = load_evaluation(run, name)
    if stale := note_stale_scores(run, evaluation):
        raise UnreadableError(stale)
    stored = json.loads((run.folder / name / "scores.json").read_text("utf-8"))
    trained = run.trained or Path(stored["members"][0]["run"])
    config = before["config"] if before and not (trained / CONFIG).exists() else (trained / CONFIG).read_text("utf-8")
    _read_texts(config, name, evaluation.digest, _portable_overrides(stored))  # or the run could not be restored
    scores = {key: value for key, value in _without_places(stored).items() if key != "run"}
    if scores.get("alignment_counts"):
        scores["alignment_counts"] = list(map(_round_counts, scores["alignment_counts"]))
    return {"config": config, "digest": evaluation.digest, "scores": scores, "hypotheses": evaluation.hypotheses}


def _round_counts(row: str) -> str:
    """Round the sums of weights of a sentence to three decimals; further digits take a tenth of some archives."""
    return " ".join(f"{round(float(value), 3):.6g}" for value in row.split())


def _without_places(node: Any) -> Any:
    """Replace absolute paths, which tell of a machine, by paths from here or by names."""
    if isinstance(node, Mapping):
        return {key: _without_places(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_places(value) for value in node]
    if isinstance(node, str) and node.startswith("/"):
        path = os.path.relpath(node)
        return Path(node).name if path.startswith("..") else path
    return node


def _portable_overrides(scores: Mapping[str, Any]) -> list[str]:
    """Return the `data.` overrides of an evaluation; those with a place on this machine are an error."""
    overrides = list(scores.get("data_overrides") or [])
    for override in overrides:
        if override.partition("=")[2].startswith("/"):
            raise UserError(
                f"{override}: is a place on this machine. Fix: evaluate it with a path from here, or from "
                "'${data.dir}'"
            )
    return overrides


def _read_texts(config: str, evaluation: str, digest: str, overrides: Sequence[str]) -> list[dict[str, Any]]:
    """Return the sentences of an evaluation's test set as the data have them now."""
    test = strip_settings(evaluation)
    data = build_data(OmegaConf.create(config), [*overrides, f"data.test={test}"])
    test_set, preprocess, end = read_test_set(data), data.preprocessing.source, [SPECIAL[END]] * data.source_end
    lines = list(zip((line.source for line in test_set.pairs), *test_set.references, strict=True))
    if compute_digest(lines) != digest:
        raise UserError(f"{test}: the data hold other texts than those it was scored on. Fix: check data.dir")
    return [
        {"source": source, "reference": reference, "further_references": further}
        | {"source_words": [*preprocess(source).split(), *end]}
        for source, reference, *further in lines
    ]


def _restore(kept: Mapping[str, Any], folder: Path) -> None:
    """Write a run into a temporary folder and rename it, so that no command sees half of it."""
    if not all(isinstance(kept.get(part), dict) for part in PARTS):
        raise UnreadableError("what is kept is not a run")
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        for name, evaluation in kept["tests"].items():
            _restore_evaluation(evaluation, draft / name, folder)
        files = dict(kept["files"])
        if kept["choices"]:
            files[CHOICES] = yaml.safe_dump({"hydra": {"runtime": {"choices": kept["choices"]}}})
        composition = {f"{CHECKPOINTS}/{name}": text for name, text in files.items() if name.startswith(".hydra/")}
        for name, text in (files | composition).items():  # a training there compares its settings with the copy
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            write_text(draft / name, text)
        if kept["summary"]:
            write_json(draft / SUMMARY, kept["summary"])
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _restore_evaluation(kept: Mapping[str, Any], draft: Path, folder: Path) -> None:
    """Write the scores and sentences of an evaluation; the words of translations are lost with their alignments."""
    overrides = kept["scores"].get("data_overrides") or []
    texts = _read_texts(kept["config"], draft.name, kept["digest"], overrides)
    sentences = [text | {"hypothesis": line} for text, line in zip(texts, kept["hypotheses"], strict=True)]
    draft.mkdir(parents=True)
    lines = (json.dumps(sentence, ensure_ascii=False) for sentence in sentences)
    write_text(draft / "sentences.jsonl", "".join(f"{line}\n" for line in lines))
    write_json(draft / "scores.json", {"run": str(folder)} | kept["scores"])
