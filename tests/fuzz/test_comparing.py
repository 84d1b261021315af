"""Compare damaged and hostile run folders: each is compared or listed with the reason."""

import csv
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzz.damage import TREES, anything_or_damaged, changed_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from report.folders import pairs, with_gold, with_traces, write_run

from nmt.cli.compare import compare
from nmt.config.schema import load_defaults
from nmt.errors import UserError
from nmt.report.load.evaluated_runs import load_run
from nmt.report.load.progress import read_progress
from nmt.report.load.run_folder import find_runs, read_choices, read_run, read_settings
from nmt.report.render.page_payload import pack_alignments
from nmt.system.safe_files import UnreadableError

FILES = (
    "summary.json",
    "metrics.csv",
    ".hydra/config.yaml",
    ".hydra/overrides.yaml",
    ".hydra/hydra.yaml",
    "test/scores.json",
    "test/sentences.jsonl",
    "test/alignments.npz",
    "test/traces.npz",
    "test/forced_alignments.npz",
)
SECRET = "a-secret-of-the-environment"
LINK = "is a link out of its folder. Fix: copy the file there"


@pytest.fixture(scope="module")
def runs_to_compare(tmp_path_factory):
    """Write an intact run, and return it with the files of a second run."""
    folder = tmp_path_factory.mktemp("compared")
    write_run(folder / "runs" / "whole", seed=1, lines=pairs(6))
    other = write_run(folder / "other", seed=2, lines=pairs(6), mistakes=0.2)
    with_traces(other)
    with_gold(other)
    return folder, {name: (other / name).read_bytes() for name in FILES}


def compare_changed_run(runs_to_compare, changed: dict[str, bytes | None]) -> dict:
    """Return the comparison tables of the intact run and the changed run."""
    folder, files = runs_to_compare
    for name, content in (files | changed).items():
        path = folder / "runs" / "changed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
    (folder / "runs" / "sweep.json").unlink(missing_ok=True)
    if "sweep.json" in changed:
        (folder / "runs" / "changed" / "sweep.json").rename(folder / "runs" / "sweep.json")
    keys = OmegaConf.merge(load_defaults("compare"), {"output": str(folder / "page.html"), "resamples": 5})
    compare([str(folder / "runs")], keys)
    return json.loads((folder / "page.json").read_text(encoding="utf-8"))


def assert_run_is_listed(runs_to_compare, changed) -> None:
    tables = compare_changed_run(runs_to_compare, changed)
    named = [run for system in tables["systems"] for run in system["runs"]]
    named += [one["run"] for one in tables["not_compared"]]
    assert {"whole", "changed"} <= set(named)  # no run is dropped silently


def as_json(node) -> bytes:
    return json.dumps(node).encode(errors="surrogatepass")


def draw_changes(runs_to_compare):
    """Draw changes to files, as bytes or as parsed content."""
    files = runs_to_compare[1]

    def changes_of(name: str):
        kinds = [anything_or_damaged(files[name])]
        if name.endswith(".json"):
            kinds.append(changed_trees(json.loads(files[name])).map(as_json))
        if name.endswith(".jsonl"):
            first, rest = files[name].split(b"\n", 1)
            kinds.append(changed_trees(json.loads(first)).map(lambda node: as_json(node) + b"\n" + rest))
        if name.endswith(".yaml"):
            tree = OmegaConf.to_container(OmegaConf.create(files[name].decode()))
            kinds.append(changed_trees(tree).map(as_json))  # JSON is YAML too
        return st.tuples(st.just(name), st.one_of(st.none(), *kinds))

    return st.lists(st.sampled_from(FILES).flatmap(changes_of), min_size=1, max_size=2).map(dict)


@given(st.data())
def test_a_damaged_run_is_compared_or_listed_as_left_out(runs_to_compare, data):
    assert_run_is_listed(runs_to_compare, data.draw(draw_changes(runs_to_compare)))


@pytest.mark.slow
@settings(settings.get_profile("thorough"))
@given(st.data())
def test_many_damaged_runs_are_compared_or_listed_as_left_out(runs_to_compare, data):
    assert_run_is_listed(runs_to_compare, data.draw(draw_changes(runs_to_compare)))


SWEEP = {"jobs": [{"folder": "seed=3", "overrides": ["seed=3"], "status": "waiting"}]}


@given(st.one_of(changed_trees(SWEEP).map(as_json), TREES.map(as_json), anything_or_damaged(as_json(SWEEP))))
def test_a_run_is_listed_beside_a_changed_sweep_file(runs_to_compare, content):
    assert_run_is_listed(runs_to_compare, {"sweep.json": content})


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "a/../../b", "..", "", "\0", "\ud800", "x" * 300, 7, ["a"]])
def test_a_sweep_file_cannot_name_folders_outside_the_sweep(tmp_path, name):
    write_run(tmp_path / "sweep" / "seed=1")
    jobs = [{"folder": name, "overrides": [], "status": "waiting"}]
    (tmp_path / "sweep" / "sweep.json").write_bytes(as_json({"jobs": jobs}))
    assert [run.folder.name for run in find_runs([str(tmp_path / "sweep")])] == ["seed=1"]


def test_an_oversized_csv_field_removes_only_the_learning_curves(runs_to_compare):
    tables = compare_changed_run(
        runs_to_compare, {"metrics.csv": b"step,train/loss\n1," + b"9" * (csv.field_size_limit() + 1) + b"\n"}
    )
    assert len(tables["systems"]) == 1  # one system, because the runs differ only in the seed
    assert [one["note"] for one in tables["notes"]] == ["metrics.csv holds no steps: no learning curves"]


@pytest.mark.parametrize("seed", [[], {"a": 1}, "${oc.env:SEED}", None, 1.5])
def test_an_invalid_seed_becomes_none(runs_to_compare, seed):
    config = OmegaConf.to_container(OmegaConf.create(runs_to_compare[1][".hydra/config.yaml"].decode()))
    tables = compare_changed_run(runs_to_compare, {".hydra/config.yaml": as_json(config | {"seed": seed})})
    runs = {
        run: seed for system in tables["systems"] for run, seed in zip(system["runs"], system["seeds"], strict=True)
    }
    assert runs == {"whole": 1, "changed": None}


LAUGHS = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
YAMLS = {
    "!!python/object/apply:os.system ['touch MARKER']": "is not YAML",
    "!!python/name:os.system": "is not YAML",
    "a: !!python/object/new:subprocess.Popen [[touch, MARKER]]": "is not YAML",
    "l0: &l0 lol\n" + LAUGHS: "repeats parts of itself",
    "a: &a {b: *a}": "repeats parts of itself",
    "[" * 900: "is nested more than 50 times",
    "[" * 100_000: "is not YAML",  # the YAML reader fails above a thousand levels
    "{a: " * 200 + "1" + "}" * 200: "is nested more than 50 times",
    "a: 0x" + "f" * 5000: "a number of more than 18 figures",
}


@pytest.mark.parametrize("content", YAMLS, ids=lambda content: content[:30])
def test_hostile_yaml_removes_only_the_settings(runs_to_compare, tmp_path, content):
    text = content.replace("MARKER", str(tmp_path / "marker"))
    tables = compare_changed_run(runs_to_compare, {".hydra/config.yaml": text.encode()})
    (note,) = [one["note"] for one in tables["notes"]]
    assert YAMLS[content] in note
    assert "config.yaml" in note
    assert not (tmp_path / "marker").exists()


def test_interpolations_are_shown_without_being_resolved(runs_to_compare, monkeypatch):
    """The page contains no environment variables of the user who compares the runs."""
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    config = {"seed": 9, "dropout": "${oc.env:WANDB_API_KEY}", "data": {"test": "${oc.env:WANDB_API_KEY}"}}
    overrides = ["attention=${oc.env:WANDB_API_KEY}"]
    chosen = {"hydra": {"runtime": {"choices": {"attention": "${oc.env:WANDB_API_KEY}"}}}}
    changed = {"config": config, "overrides": overrides, "hydra": chosen}
    tables = compare_changed_run(
        runs_to_compare, {f".hydra/{name}.yaml": as_json(content) for name, content in changed.items()}
    )
    assert "${oc.env:WANDB_API_KEY}" in {system["settings"].get("dropout") for system in tables["systems"]}
    for written in runs_to_compare[0].glob("page.*"):
        assert SECRET not in written.read_text(encoding="utf-8")


class Marks:
    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def build_pickled_archive(marker: Path, name: str = "0") -> bytes:
    content = io.BytesIO()
    np.savez(content, **{name: np.array([Marks(marker)], dtype=object)}, allow_pickle=True)
    return content.getvalue()


def build_bomb() -> bytes:
    """Build an archive of ten kilobytes that unpacks to a hundred megabytes of weights."""
    content = io.BytesIO()
    np.savez_compressed(content, **{"0": np.zeros((5000, 5000), np.float32)})
    return content.getvalue()


def build_oversized_archive() -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 31, 1 << 20)})
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number in range(20):
            archive.writestr(f"{number}.npy", header.getvalue())
    return content.getvalue()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (build_pickled_archive, "alignments.npz is damaged"),
        (lambda _: build_bomb(), "alignments.npz is not of sentences"),
        (lambda _: build_oversized_archive(), "alignments.npz is damaged"),
        (lambda _: build_pickled_archive(_)[:-30], "alignments.npz is damaged"),
    ],
    ids=["pickle", "bomb", "size", "cut"],
)
def test_hostile_archives_remove_only_the_alignments(runs_to_compare, tmp_path, made, message):
    tables = compare_changed_run(runs_to_compare, {"test/alignments.npz": made(tmp_path / "marker")})
    assert [one["note"].startswith(message) for one in tables["notes"]] == [True]
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda marker: build_pickled_archive(marker, "coverage/0"), "traces.npz is damaged"),
        (lambda _: build_bomb(), "traces.npz is not of sentences"),
        (lambda _: build_pickled_archive(_)[:-30], "traces.npz is damaged"),
    ],
    ids=["pickle", "bomb", "cut"],
)
def test_hostile_archives_remove_only_the_traces(runs_to_compare, tmp_path, made, message):
    tables = compare_changed_run(runs_to_compare, {"test/traces.npz": made(tmp_path / "marker")})
    assert [one["note"].startswith(message) for one in tables["notes"]] == [True]
    assert not (tmp_path / "marker").exists()


def test_arrays_that_do_not_fit_their_sentence_are_not_read(tmp_path):
    """A small archive could otherwise unpack to more than the memory."""
    folder = write_run(tmp_path / "run", lines=[("ma pu", "pu ma")] * 50)
    with_traces(folder)
    run = load_run(read_run(folder), "test")
    rows, columns = len(run.evaluation.sentences[0].words), len(run.evaluation.sentences[0].source_words)
    aligned, traced = folder / "test" / "alignments.npz", folder / "test" / "traces.npz"
    alignments, traces = dict(np.load(aligned)), dict(np.load(traced))
    np.savez(aligned, **alignments | {"0": np.zeros((rows, columns + 1), np.float16)})
    np.savez(traced, **traces | {"memory_weights/0": np.zeros((rows, 1, 1001), np.float16)})
    damaged = [f"{name}.npz is damaged (ValueError)" for name in ("alignments", "traces")]
    assert [note.split(":")[0] for note in pack_alignments([run], 1e6)[1][0]] == damaged
    many = {f"memory_{number}/0": np.zeros((rows, 1, 1000), np.float16) for number in range(800)}
    np.savez(aligned, **alignments)
    np.savez_compressed(traced, **traces | many)
    assert [note.split(":")[0] for note in pack_alignments([run], 1e6)[1][0]] == damaged[1:]


@pytest.mark.parametrize(
    "name", ["summary.json", "metrics.csv", ".hydra/config.yaml", "test/scores.json", "test/sentences.jsonl"]
)
def test_a_file_larger_than_any_real_one_is_not_read(tmp_path, name):
    folder = write_run(tmp_path / "run")
    os.truncate(folder / name, 2**40)  # sparse: it takes no room on the disk
    assert f"{name.removeprefix('.hydra/')} has {2**40} bytes, and may have " in read_everything(folder)


@pytest.mark.parametrize("tokenizer", ["evil", "../x", ""])
def test_a_run_with_an_unknown_bleu_tokenizer_is_left_out(runs_to_compare, tokenizer):
    scores = json.loads(runs_to_compare[1]["test/scores.json"])
    scores["scores"]["bleu"]["signature"] = f"nrefs:1|case:mixed|tok:{tokenizer}"
    tables = compare_changed_run(runs_to_compare, {"test/scores.json": as_json(scores)})
    (left_out,) = tables["not_compared"]
    assert left_out["run"] == "changed"
    assert f"BLEU with tok:{tokenizer} cannot be counted here" in left_out["reason"]


def test_members_of_an_ensemble_are_never_opened(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "ensemble")
    for name in ("summary.json", "metrics.csv"):
        (folder / name).unlink()
    shutil.rmtree(folder / ".hydra")
    scores = json.loads((folder / "test" / "scores.json").read_text())
    scores["members"] = [{"run": "/etc", "checkpoint": "passwd"}, {"run": "../../elsewhere"}]
    (folder / "test" / "scores.json").write_text(json.dumps(scores))
    opened = []
    monkeypatch.setattr(Path, "read_text", _record_reads(opened, Path.read_text))
    assert load_run(read_run(folder), "test").problem == ""
    assert opened
    assert all(path.resolve().is_relative_to(folder.resolve()) for path in opened)


def _record_reads(opened, read):
    def noted(path, *arguments, **keywords):
        opened.append(path)
        return read(path, *arguments, **keywords)

    return noted


def test_a_folder_with_only_damaged_runs_is_one_error(tmp_path):
    write_run(tmp_path / "a")
    (tmp_path / "a" / "test" / "scores.json").write_text("[")
    keys = OmegaConf.merge(load_defaults("compare"), {"output": str(tmp_path / "page.html")})
    with pytest.raises(UserError, match=r"nothing can be compared: a: test/scores\.json is not JSON"):
        compare([str(tmp_path / "a")], keys)


@pytest.mark.parametrize("name", [*FILES, "valid_samples.json", ".hydra", "test"])
def test_a_link_out_of_a_run_is_not_read(tmp_path, name):
    """A run from somebody else must not copy a file of the user into the page."""
    folder, other = write_run(tmp_path / "run"), write_run(tmp_path / "other", seed=77, mistakes=1)
    for path in (folder, other):
        (path / "valid_samples.json").write_text('{"step": 1, "sentences": [["secret", "a", "b"]]}')
        with_traces(path)
        with_gold(path)
    path = folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(other / name)
    assert LINK in read_everything(folder)
    path.unlink()
    path.symlink_to(shutil.move(other / name, folder / "kept"))  # within the folder
    (tmp_path / "link").symlink_to(folder)
    assert LINK not in read_everything(tmp_path / "link")


def read_everything(folder: Path) -> str:
    """Return the error or the notes of reading a run with its curves, samples, alignments and traces."""
    run = read_run(folder)
    notes = [run.problem, *read_progress(run, {})["notes"], *([] if read_choices(folder) else [LINK])]
    try:
        evaluated = load_run(run, "test")
        return str([*notes, evaluated.notes, pack_alignments([evaluated], 1e6)[1]])
    except UnreadableError as error:
        return str([*notes, error])


def test_a_shared_model_in_the_cache_of_the_hub_is_read(tmp_path):
    """The cache keeps files in blobs/, and links to them from snapshots/COMMIT/."""
    snapshot = tmp_path / "snapshots" / "0123"
    for place in (snapshot, tmp_path / "blobs"):
        place.mkdir(parents=True)
    (tmp_path / "blobs" / "a").write_text('{"config": {"seed": 3}}')
    (tmp_path / "blobs" / "b").touch()
    (snapshot / "config.json").symlink_to("../../blobs/a")
    (snapshot / "model.safetensors").symlink_to("../../blobs/b")
    assert read_settings(read_run(snapshot)).seed == 3
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "secret.json").write_text('{"config": {"seed": 4}}')
    assert read_settings(read_run(snapshot)).seed is None
