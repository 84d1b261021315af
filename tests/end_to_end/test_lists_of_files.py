"""Commands on a training text of several files."""

import json

import pytest
from commands import command

pytestmark = pytest.mark.slow


def write_corpus(folder) -> list[str]:
    """Write a text in two parts with links, and return the settings that name them."""
    folder.mkdir()
    for part, numbers in enumerate((range(30), range(30, 40))):
        (folder / f"{part}.en").write_text("".join(f"a man number {n}\n" for n in numbers))
        (folder / f"{part}.de").write_text("".join(f"ein mann nummer {n}\n" for n in numbers))
        (folder / f"{part}.links").write_text("1-1 2-2 3-3 4-4\n" * len(numbers))
    keys = {"source": "en", "target": "de", "alignments": "links"}
    return [f"data.train.{key}=[{folder}/0.{name},{folder}/1.{name}]" for key, name in keys.items()]


def test_a_run_on_several_files_is_evaluated_where_they_lie_now(tmp_path):
    train = write_corpus(tmp_path / "first")
    valid = [f"data.valid.source={tmp_path}/first/1.en", f"data.valid.target={tmp_path}/first/1.de"]
    settings = ("size=tiny", "debug=steps", "logger=none", "data=text", "attention/penalty=guided", *valid)
    settings += ("data.vocabulary.kind=unigram", "data.vocabulary.size=60", f"hydra.run.dir={tmp_path}/run")
    stderr = command("train", *settings, *train[:2], f"+{train[2]}", cwd=tmp_path).stderr
    assert "train: 40 pairs, unknown words 0.00 % / 0.00 %" in stderr
    assert "valid: of 10 sentences, the training text contains 10 sources, 10 targets and 10 pairs, so its" in stderr
    (tmp_path / "first").rename(tmp_path / "second")
    moved = [setting.replace("first", "second") for setting in (*train[:2], *valid)]
    done = command("evaluate", f"run={tmp_path}/run", "unknown=translate", "by_frequency=true", *moved, cwd=tmp_path)
    assert "word_table.tsv.gz: learning it from the training text" in done.stderr
    (scores,) = tmp_path.glob("run/valid,unknown=translate,source=1.en-*,target=1.de-*/scores.json")
    buckets = json.loads(scores.read_text())["by_frequency"]
    assert [bucket["reference_words"] for bucket in buckets if bucket["reference_words"]] == [10, 30]  # once, 40 times
    assert (tmp_path / "run" / "word_table.tsv.gz").is_file()
