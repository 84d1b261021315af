"""Runs in small: what a comparison needs of a run, without weights, alignments, and the texts of test sets.

A study outlives the machines it runs on: what is completed is kept, put back elsewhere, and not trained again. Test
sets come with licences of their own, so their texts are not kept: they are read from the data when a run is put back.
"""

import gzip
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from nmt.errors import UserError
from nmt.evaluation.verb import test_set
from nmt.report.reading import UnreadableError, read_json
from nmt.report.runs import RunFolder, digest_of
from nmt.run import data_of, write_json, write_text

SUFFIX = ".json.gz"
CONFIG, CHOICES = ".hydra/config.yaml", ".hydra/hydra.yaml"
FILES = (CONFIG, ".hydra/overrides.yaml", "metrics.csv", "summary.json")


def keep_runs(runs: Sequence[RunFolder], tests: Sequence[str], place: Path) -> None:
    """What is completed and evaluated, each run as `place`/its folder.json.gz; without its weights it never will be."""
    for run in runs:
        try:
            run.must_be_completed()
            packed = _packed(run, tests)
        except UnreadableError:  # the comparison says why
            continue
        path = place / run.folder.with_name(run.folder.name + SUFFIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(packed, ensure_ascii=False).encode(), mtime=0))


def put_back(folders: Sequence[str], place: Path) -> list[Path]:
    """Writes, and names, the runs kept of these folders that nobody has begun there."""
    missing = {folder: path for folder, path in _kept(folders, place) if not folder.exists()}
    for folder, path in missing.items():
        draft = folder.with_name(f".{folder.name}")
        shutil.rmtree(draft, ignore_errors=True)  # of an attempt that failed
        _unpack(json.loads(gzip.decompress(path.read_bytes())), draft)
        draft.rename(folder)
    return list(missing)


def _kept(folders: Sequence[str], place: Path) -> Iterator[tuple[Path, Path]]:
    for folder in folders:
        for path in [place / (folder + SUFFIX), *sorted((place / folder).rglob(f"*{SUFFIX}"))]:
            if path.is_file():
                yield path.relative_to(place).with_name(path.name.removesuffix(SUFFIX)), path


def _packed(run: RunFolder, tests: Sequence[str]) -> dict[str, Any]:
    """Its evaluations, and those of its files that speak of no machine's folders."""
    files = {name: (run.folder / name).read_text(encoding="utf-8") for name in FILES if (run.folder / name).is_file()}
    return {"files": files, "choices": run.choices, "tests": {test: _packed_test(run, test) for test in tests}}


def _packed_test(run: RunFolder, test: str) -> dict[str, Any]:
    evaluated, scores = run.on(test), read_json(run.folder / test / "scores.json")
    member = run.folder if run.config else Path(scores["members"][0]["run"])
    where = (member / CONFIG).read_text(encoding="utf-8")  # the test set's texts are
    return {"config": where, "digest": evaluated.digest, "scores": scores, "hypotheses": evaluated.hypotheses}


def _unpack(kept: Mapping[str, Any], folder: Path) -> None:
    for test, of_test in kept["tests"].items():
        _unpack_test(of_test, folder / test)
    if kept["choices"]:
        _write(folder / CHOICES, yaml.safe_dump({"hydra": {"runtime": {"choices": kept["choices"]}}}))
    for name, text in kept["files"].items():
        _write(folder / name, text)


def _unpack_test(kept: Mapping[str, Any], folder: Path) -> None:
    """Word by word only the source is known: what a translation was made of went with its alignment."""
    data = data_of(OmegaConf.create(kept["config"]), [f"data.test={folder.name}"])
    test, preprocess = test_set(data), data.preprocessing.source
    if digest_of(zip((line.source for line in test.lines), *test.references, strict=True)) != kept["digest"]:
        of = folder.parent.name.removeprefix(".")
        raise UserError(f"{folder.name} of {of}: was scored on other texts than data has now; is it the same?")
    sentences = [
        {"source": line.source, "reference": line.target, "hypothesis": hypothesis, "further_references": further}
        | {"source_words": [*preprocess(line.source).split(), *["</s>"] * data.source_end]}
        for line, hypothesis, (_, *further) in zip(
            test.lines, kept["hypotheses"], zip(*test.references, strict=True), strict=True
        )
    ]
    _write(folder / "sentences.jsonl", "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in sentences))
    write_json(folder / "scores.json", kept["scores"])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
