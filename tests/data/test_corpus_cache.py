"""The corpus cache: one entry for each text and settings, written once."""

import multiprocessing
import os
import shutil
import subprocess
import time
from pathlib import Path
from random import Random

import numpy as np
import pytest
from kills import killed_at_call

from nmt.data import corpus_cache
from nmt.data.corpus_cache import prepare
from nmt.data.parallel_text import FilePairs, Sides
from nmt.data.preprocess_pool import PreprocessPool
from nmt.data.preprocessing import Preprocessing
from nmt.errors import ConfigurationError, DataError
from nmt.system import checksums
from nmt.system.checksums import find_damage

PLAIN = Preprocessing(language="xx", normalize=False, tokenizer="none", lowercase=False)
MOSES = Preprocessing(language="en", normalize=True, tokenizer="moses", lowercase=True)
WORDS = {"kind": "words", "size": 1000, "minimum_count": 1, "joint": False}


def corpus(folder: Path, name: str, lines: list[tuple[str, str]]) -> FilePairs:
    for side, texts in zip(("src", "tgt"), zip(*lines, strict=True), strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return FilePairs(str(folder / f"{name}.src"), str(folder / f"{name}.tgt"))


def prepared(folder: Path, *, train=None, valid=None, tests=None, preprocessing=PLAIN, vocabulary=WORDS, cache="cache"):
    return prepare(
        folder / cache,
        train=corpus(folder, "train", train or [("a b", "x"), ("b c a", "y x"), ("c", "z z z z")]),
        valid=corpus(folder, "valid", valid or [("a d", "x w")]),
        tests={name: corpus(folder, name, lines) for name, lines in (tests or {}).items()},
        preprocessing=Sides(preprocessing, preprocessing),
        vocabulary=vocabulary,
    )


def test_ids_encode_the_corpus(tmp_path):
    entry = prepared(tmp_path)
    text, languages = entry.split("train"), entry.languages
    assert [languages.source.words(text.source[n]) for n in range(3)] == ["a b", "b c a", "c"]
    assert [languages.target.words(text.target[n]) for n in range(3)] == ["x", "y x", "z z z z"]
    assert text.target.lengths(np.arange(3)).tolist() == [1, 2, 4]
    assert entry.languages.source.words(entry.split("valid").source[0]) == "a <unk>"
    assert entry.about["valid"]["source_unknown_rate"] == 0.5


def test_second_call_opens_the_entry_of_the_first(tmp_path):
    first = prepared(tmp_path)
    made = (first.folder / "about.json").stat().st_mtime_ns
    assert prepared(tmp_path).folder == first.folder
    assert (first.folder / "about.json").stat().st_mtime_ns == made


@pytest.mark.parametrize(
    "changed",
    [
        {"train": [("a", "x")]},
        {"valid": [("b", "x")]},
        {"preprocessing": MOSES},
        {"vocabulary": WORDS | {"size": 6}},
    ],
)
def test_each_text_and_setting_changes_the_name_of_the_entry(tmp_path, changed):
    assert prepared(tmp_path, **changed).folder != prepared(tmp_path).folder


@pytest.mark.slow
def test_preprocessing_in_several_processes_keeps_the_order(tmp_path):
    lines = [(f"Word, {n}!", f"Wort; {n}?") for n in range(9000)]
    entry = prepared(tmp_path, train=lines, preprocessing=MOSES, vocabulary=WORDS | {"size": 20000})
    text, languages = entry.split("train"), entry.languages
    for number in (0, 4095, 4096, 8999):
        assert languages.source.words(text.source[number]) == f"word , {number} !"
        assert languages.target.words(text.target[number]) == f"wort ; {number} ?"


def test_joint_vocabulary_serves_both_sides(tmp_path):
    languages = prepared(tmp_path, vocabulary=WORDS | {"joint": True}).languages
    assert languages.source.vocabulary.to_json() == languages.target.vocabulary.to_json()
    assert languages.source.vocabulary.words(languages.source.vocabulary.encode(["z"])[0]) == ["z"]


def test_leaks_into_the_training_text_are_counted(tmp_path):
    leaks = prepared(
        tmp_path,
        valid=[("a b", "new"), ("a b", "x"), ("new", "new")],
        tests={"test": [("new", "y x"), ("b c a", "y x")]},
    ).about["leaks"]
    assert leaks["valid"] == {"sentences": 3, "source_in_train": 2, "target_in_train": 1, "pair_in_train": 1}
    assert leaks["test"] == {"sentences": 2, "source_in_train": 1, "target_in_train": 2, "pair_in_train": 1}


def test_preprocessed_validation_text_is_stored(tmp_path):
    entry = prepared(tmp_path, valid=[("Hello,\u2028World", "It's  \x85so.")], preprocessing=MOSES)
    assert entry.words("valid", "target") == ["it &apos;s so ."]


def test_further_references_of_the_validation_text_are_stored_for_its_pairs(tmp_path):
    train = corpus(tmp_path, "train", [("a b", "x")])
    corpus(tmp_path, "valid", [("A B", "X, Y"), ("\x07", "x"), ("a", "x")])  # preprocessing leaves nothing of \x07
    files = [str(tmp_path / f"valid.{side}") for side in ("src", "tgt", "other", "third")]
    (tmp_path / "valid.other").write_text("X; y\ngone\n\n", encoding="utf-8")
    (tmp_path / "valid.third").write_text("Y!\ngone\nX\n", encoding="utf-8")

    def prepare_with(*references):
        valid = FilePairs(*files[:2], references=references)
        sides = Sides(MOSES, MOSES)
        return prepare(tmp_path, train=train, valid=valid, tests={}, preprocessing=sides, vocabulary=WORDS)

    entry = prepare_with(*files[2:])
    assert entry.valid_references() == [["x , y", "x"], ["x ; y", ""], ["y !", "x"]]
    assert prepare_with().valid_references() == [["x , y", "x"]]
    assert prepare_with(files[2]).text_digest != entry.text_digest


def test_bad_corpus_leaves_no_cache_entry(tmp_path):
    with pytest.raises(DataError, match=r"train\.tgt, line 2: empty"):
        prepared(tmp_path, train=[("a", "x"), ("b", "")])
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize("split", ["train", "valid", "tests"])
def test_file_replaced_while_it_is_prepared_is_an_error_and_leaves_no_cache_entry(tmp_path, monkeypatch, split):
    replaced, preprocess = [], PreprocessPool.preprocess

    def replace_first(pool, pairs):
        if not replaced:
            replaced.append(corpus(tmp_path, split, [("b", "y")]))
        return preprocess(pool, pairs)

    monkeypatch.setattr(PreprocessPool, "preprocess", replace_first)
    with pytest.raises(DataError, match=rf"data\.{split}: a file was replaced while it was prepared\. Fix: give the"):
        prepared(tmp_path, tests={"tests": [("a", "x")]})
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


def test_a_file_that_is_replaced_and_put_back_while_it_is_prepared_is_an_error(tmp_path, monkeypatch):
    path, kept, preprocess, texts = tmp_path / "valid.src", tmp_path / "kept", PreprocessPool.preprocess, []

    def preprocess_replaced(pool, pairs):
        texts.append(pairs)
        if len(texts) == 1:  # the validation text
            path.rename(kept)
            path.write_text("b c\n")
        if len(texts) == 2:  # the training text
            kept.rename(path)
        return preprocess(pool, pairs)

    monkeypatch.setattr(PreprocessPool, "preprocess", preprocess_replaced)
    with pytest.raises(DataError, match=r"data\.valid: a file was replaced while it was prepared"):
        prepared(tmp_path)
    assert path.read_text() == "a d\n"


@pytest.mark.parametrize("key", ["source", "target", "alignments", "references"])
def test_a_pipe_in_a_test_set_is_refused_because_reading_it_would_never_end(tmp_path, key):
    files = {name: str(tmp_path / name) for name in ("source", "target", "alignments", "references")}
    for file in files.values():
        Path(file).write_text("1-1\n")
    os.unlink(files[key])
    os.mkfifo(files[key])
    pairs = FilePairs(**files)
    with pytest.raises(DataError, match=f"{key}: cannot be read .it is a pipe or a device"):
        print(list(pairs), pairs.gold(), pairs.further_references())


def test_error_names_the_key_of_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    message = rf"data.cache={tmp_path}/file: cannot be written \(Not a directory\)\. Fix: data\.cache=FOLDER, or set"
    with pytest.raises(ConfigurationError, match=message):
        prepared(tmp_path, cache="file")


def test_full_disk_leaves_no_cache_entry_and_the_next_command_writes_it(tmp_path):
    disk = tmp_path / "cache"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    long = [(f"a b c {number}", f"x y z {number}") for number in range(3000)]
    try:
        with pytest.raises(OSError, match="No space left on device"):
            prepared(tmp_path, train=long)
        assert [path.name for path in disk.iterdir() if path.suffix != ".lock"] == []
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        assert len(prepared(tmp_path, train=long).split("train").source) == 3000
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_draft_of_a_killed_process_is_removed(tmp_path):
    folder = prepared(tmp_path).folder
    draft = folder.with_name(folder.name + ".draft")
    shutil.move(folder, draft)  # as if the process was killed before the rename
    assert prepared(tmp_path).folder == folder
    assert not draft.exists()


@pytest.mark.slow
@pytest.mark.parametrize("is_damaged", [False, True])
def test_entry_is_complete_after_a_kill_at_any_step(tmp_path, is_damaged):
    folder = prepared(tmp_path).folder
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    steps = [(Path, "mkdir"), (Path, "rename"), (Path, "unlink"), (shutil, "rmtree"), (checksums, "sync")]
    calls, number = [], -1
    while len(calls) > number:
        number += 1
        cut_in_half(folder / "about.json") if is_damaged else shutil.rmtree(folder)
        with killed_at_call(number, *steps) as calls:
            prepared(tmp_path)
        assert find_damage(folder) or {path.name: path.read_bytes() for path in folder.iterdir()} == before
        prepared(tmp_path)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert [entry.name for entry in (tmp_path / "cache").iterdir() if entry.suffix != ".lock"] == [folder.name]
    assert calls.count("rename") == 1
    assert len(calls) > 10


def test_error_names_a_draft_of_another_user(tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(Path, "mkdir", lambda path, **keywords: None if keywords else refuse(path))
    message = (
        rf"data.cache={tmp_path}/cache: .*\.draft belongs to another user. Fix: data.cache=FOLDER, or set NMT_CACHE"
    )
    with pytest.raises(ConfigurationError, match=message):
        prepared(tmp_path)


@pytest.mark.parametrize("kind", ["fifo", "device", "pipe"])
def test_pipes_and_devices_are_no_corpus(tmp_path, kind):
    """Reading a pipe may never end, and works only once."""
    corpus(tmp_path, "train", [("a", "x")])
    path = tmp_path / "train.src"
    path.unlink()
    reader, writer = os.pipe()
    os.mkfifo(path) if kind == "fifo" else path.symlink_to("/dev/zero" if kind == "device" else f"/dev/fd/{reader}")
    train = FilePairs(str(path), str(tmp_path / "train.tgt"))
    message = rf"{path}: cannot be read \(it is a pipe or a device, not a regular file\)\. Fix: name a regular file"
    with pytest.raises(DataError, match=message):
        train.identity()
    os.close(reader)
    os.close(writer)


def overwrite_with_zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("damage", [overwrite_with_zeros, cut_in_half, Path.unlink])
@pytest.mark.parametrize(
    "name",
    ["about.json", "checksums.json", "source.tokenizer.json", "train.source.numbers", "train.target.offsets.npy"],
)
def test_damaged_entry_is_named_and_prepared_again(tmp_path, caplog, damage, name):
    folder = prepared(tmp_path).folder
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    damage(folder / name)
    prepared(tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [message.startswith(f"{folder}: ") and name in message for message in caplog.messages] == [True]


def test_files_of_an_entry_are_on_the_disk_before_it_appears(tmp_path, monkeypatch):
    synced = []

    def record_sync(path):
        synced.append(path.name)
        assert [entry.suffix for entry in tmp_path.glob("cache/*/")] == [".draft"]

    monkeypatch.setattr(checksums, "sync", record_sync)
    folder = prepared(tmp_path).folder
    assert {path.name for path in folder.iterdir()} | {f"{folder.name}.draft"} == set(synced)


def test_processes_that_start_together_prepare_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        folders = pool.starmap(prepared_folder, [(tmp_path, number) for number in range(4)])
    assert len({name for name, _ in folders}) == 1
    assert len({made for _, made in folders}) == 1, "made more than once"


@pytest.mark.slow
def test_survivors_of_killed_processes_share_one_complete_cache_entry(tmp_path):
    context, random = multiprocessing.get_context("spawn"), Random(1)
    answers = context.Queue()
    processes = [context.Process(target=slowly_prepared_folder, args=(tmp_path, n, answers)) for n in range(20)]
    for process in processes:
        process.start()
    until = time.monotonic() + 60
    while not (tmp_path / "cache" / "preparing").is_file() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(1)  # until the others wait for the lock
    preparing = int((tmp_path / "cache" / "preparing").read_text())
    assert list(tmp_path.glob("cache/*.draft"))
    killed = {preparing, *random.sample([n for n in range(20) if n != preparing], 4)}
    for number in killed:
        processes[number].kill()
    for process in processes:
        process.join(120)
    assert [process.exitcode for n, process in enumerate(processes) if n not in killed] == [0] * 15
    entries = [answers.get(timeout=5) for _ in range(15)]
    assert len({name for name, _ in entries}) == 1
    assert len({made for _, made in entries}) == 1, "made more than once"
    assert not list(tmp_path.glob("cache/*.draft"))


def slowly_prepared_folder(folder: Path, number: int, answers) -> None:
    """Prepare slowly, and write the number of the process that prepares."""
    learn = corpus_cache._learn_vocabularies

    def slow(draft, vocabulary):
        (draft.parent / "preparing").write_text(str(number))
        time.sleep(4)
        return learn(draft, vocabulary)

    corpus_cache._learn_vocabularies = slow
    answers.put(prepared_folder(folder, number))


def prepared_folder(folder: Path, number: int) -> tuple[str, int]:
    corpus_folder = folder / str(number)
    corpus_folder.mkdir()
    entry = prepared(corpus_folder, cache="../cache")
    return entry.folder.name, (entry.folder / "about.json").stat().st_mtime_ns
