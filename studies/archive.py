"""Runs in small: what a comparison needs of a run, without weights, alignments, and the texts of test sets.

A study outlives the machines it runs on: what is completed is kept, put back elsewhere, and not trained again. Test
sets come with licences of their own, so their texts are not kept: they are read from the data when a run is put back.
"""

import gzip
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml
from omegaconf import OmegaConf

from nmt.data.vocabulary import END, SPECIAL
from nmt.errors import UserError, first_line
from nmt.evaluation.test_set import test_set
from nmt.report.load.evaluation import digest_of
from nmt.report.load.run_folder import RunFolder
from nmt.report.load.safe_files import UnreadableError
from nmt.runs.folder import CHECKPOINTS, CHOICES, CONFIG, METRICS, OVERRIDES, SUMMARY, read_summary
from nmt.runs.trained_model import data_of
from nmt.system.files import whole, write_json, write_text

SUFFIX = ".json.gz"
FILES = (CONFIG, OVERRIDES, METRICS)
PROBLEMS = (
    UserError,
    UnreadableError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    zlib.error,
)


def keep_runs(runs: Sequence[RunFolder], tests: Sequence[str], place: Path) -> Iterator[str]:
    """What is completed and evaluated, as `place`/its folder.json.gz. Says what is not, or replaces another run."""
    for run in runs:
        path = place / f"{_nameable(_within_the_project(run.folder))}{SUFFIX}"
        try:
            run.must_be_completed()
        except UnreadableError:  # the comparison says why
            continue
        try:
            before = _read(path) if path.exists() else None
            packed = _packed(run, tests, before)
        except PROBLEMS as error:
            yield f"{run.folder}: is not kept ({_reason(error)})"
            continue
        if before and _begun(before) != _begun(packed):
            yield f"{path}: was of a run begun {_begun(before)}; now it is of the one begun {_begun(packed)}"
        if packed != before:
            _write(path, packed)


def put_back(folders: Sequence[str], place: Path) -> dict[Path, str]:
    """The kept runs of these folders that are not there, or not completed: "" where one was put back, or why not."""
    found = {}
    for folder, path in _kept(folders, place):
        if not folder.exists():
            try:
                _put_back(_read(path), folder)
                found[folder] = ""
            except PROBLEMS as error:
                found[folder] = _reason(error)
        elif read_summary(folder).get("status", "ensemble") not in ("completed", "ensemble"):
            found[folder] = "another run was begun there; move it away to have the kept one"
    return found


def _within_the_project(folder: Path | str) -> Path:
    path = Path(os.path.relpath(folder))
    if path.parts[0] == "..":
        raise UserError(f"{folder}: runs are kept by their path from here, but it lies elsewhere")
    return path


def _nameable(folder: Path) -> str:
    """On every file system that a clone may lie on."""
    return re.sub(r'["*<>?|:\\%]', lambda found: f"%{ord(found[0]):02X}", str(folder))


def _kept(folders: Sequence[str], place: Path) -> Iterator[tuple[Path, Path]]:
    for name in map(_nameable, map(_within_the_project, folders)):
        for path in [place / f"{name}{SUFFIX}", *sorted((place / name).rglob(f"*{SUFFIX}"))]:
            if path.is_file():
                yield Path(unquote(str(path.relative_to(place)).removesuffix(SUFFIX))), path


def _read(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(gzip.decompress(path.read_bytes()))
        if not all(isinstance(kept[part], dict) for part in ("summary", "files", "choices", "tests")):
            raise ValueError("not a run")
    except PROBLEMS as error:
        raise UnreadableError(f"{path} is damaged ({first_line(error)}); take it from git again") from None
    return kept


def _write(path: Path, packed: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as draft:
        draft.write_bytes(gzip.compress(json.dumps(packed, ensure_ascii=False).encode(), mtime=0))


def _reason(error: Exception) -> str:
    return first_line(error) if isinstance(error, UserError | UnreadableError) else f"{type(error).__name__}: {error}"


def _begun(kept: Mapping[str, Any]) -> str | None:
    return kept["summary"].get("started")


def _packed(run: RunFolder, tests: Sequence[str], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """With what was kept of the same run on other test sets."""
    here = run.trained == run.folder
    packed = {
        "summary": _placeless(run.summary) if here else {},
        "files": {name: (run.folder / name).read_text("utf-8") for name in FILES if (run.folder / name).is_file()},
        "choices": run.choices if here else {},
        "tests": {},
    }
    earlier = before["tests"] if before and _begun(before) == _begun(packed) else {}
    packed["tests"] = earlier | {test: _packed_test(run, test, earlier.get(test)) for test in tests}
    return packed


def _packed_test(run: RunFolder, test: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
    evaluated = run.on(test)
    if later := run.trained_later(evaluated.weights):
        raise UnreadableError(later)
    stored = json.loads((run.folder / test / "scores.json").read_text("utf-8"))
    own = run.trained or Path(stored["members"][0]["run"])
    config = before["config"] if before and not (own / CONFIG).exists() else (own / CONFIG).read_text("utf-8")
    overrides = _portable(stored.get("data_overrides") or [])
    _texts(config, test, evaluated.digest, overrides)  # or nobody could put it back
    scores = {key: value for key, value in _placeless(stored).items() if key != "run"}
    return {"config": config, "digest": evaluated.digest, "scores": scores, "hypotheses": evaluated.hypotheses}


def _placeless(node: Any) -> Any:
    """Folders of a machine are nobody else's business: a path from here, or what lies there."""
    if isinstance(node, Mapping):
        return {key: _placeless(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_placeless(value) for value in node]
    if isinstance(node, str) and node.startswith("/"):
        path = os.path.relpath(node)
        return Path(node).name if path.startswith("..") else path
    return node


def _portable(overrides: Sequence[str]) -> list[str]:
    """What evaluate.py was told of the data."""
    for override in overrides:
        if override.partition("=")[2].startswith("/"):
            raise UserError(
                f"{override} is a place on this machine: evaluate it with a path from here, or from '${{data.dir}}'"
            )
    return list(overrides)


def _texts(config: str, test: str, digest: str, overrides: Sequence[str]) -> list[dict[str, Any]]:
    """What the data, changed by KEY=VALUEs, have of a test set's sentences."""
    data = data_of(OmegaConf.create(config), [*overrides, f"data.test={test}"])
    found, preprocess, end = test_set(data), data.preprocessing.source, [SPECIAL[END]] * data.source_end
    lines = list(zip((line.source for line in found.lines), *found.references, strict=True))
    if digest_of(lines) != digest:
        raise UserError(f"{test}: the data now have other texts than it was scored on; is data.dir the same data?")
    return [
        {"source": source, "reference": reference, "further_references": further}
        | {"source_words": [*preprocess(source).split(), *end]}
        for source, reference, *further in lines
    ]


def _put_back(kept: Mapping[str, Any], folder: Path) -> None:
    """In one step: whoever looks for runs there sees it whole or not at all."""
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        for test, of_test in kept["tests"].items():
            _unpack_test(of_test, draft / test, folder)
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


def _unpack_test(kept: Mapping[str, Any], draft: Path, folder: Path) -> None:
    """Word by word only the source is known: what a translation was made of went with its alignment."""
    texts = _texts(kept["config"], draft.name, kept["digest"], kept["scores"].get("data_overrides") or [])
    sentences = [text | {"hypothesis": said} for text, said in zip(texts, kept["hypotheses"], strict=True)]
    draft.mkdir(parents=True)
    write_text(draft / "sentences.jsonl", "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in sentences))
    write_json(draft / "scores.json", {"run": str(folder)} | kept["scores"])
