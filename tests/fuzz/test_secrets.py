"""Secrets of the environment never enter a run folder."""

import gzip
import tarfile
import zipfile
from pathlib import Path

import pytest
from commands import command
from offline_wandb import read, records

KEY = "c0ffee" + "1234567890abcdef" * 2 + "ab"  # 40 hexadecimal digits, as W&B's keys are
OTHER = "a-made-up-secret-of-this-test"
SECRETS = {"WANDB_API_KEY": KEY, "AWS_SECRET_ACCESS_KEY": OTHER}


def unpack_file(path: Path) -> list[bytes]:
    """Return the bytes of a file and of its compressed members."""
    content = path.read_bytes()
    contents = [content]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            contents += [archive.read(name) for name in archive.namelist()]
    if content[:2] == b"\x1f\x8b":
        contents.append(gzip.decompress(content))
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            contents += [archive.extractfile(member).read() for member in archive if member.isfile()]
    if path.suffix == ".wandb":  # the file splits records that are longer than a block
        contents += [record.SerializeToString() for record in records(path)]
    return contents


@pytest.mark.slow
def test_a_run_folder_contains_no_secret_of_the_environment(tmp_path):
    run = tmp_path / "run"
    sizes = ("size=tiny", "data.train.count=200", "data.valid.count=20", "trainer.max_epochs=1")
    done = command("train", *sizes, f"hydra.run.dir={run}", **SECRETS)
    command("evaluate", f"run={run}", "data.tests.test.count=5", **SECRETS)
    files = [path for path in run.rglob("*") if path.is_file()]
    assert read(run)["exit_code"] == 0  # W&B's files are included and complete
    assert {"summary.json", "metrics.csv", "train.log", "last.ckpt", "scores.json"} <= {path.name for path in files}
    for secret in SECRETS.values():
        assert secret not in done.stdout + done.stderr
        forms = (secret.encode(), secret[::-1].encode(), secret.encode().hex().encode(), secret.encode("utf-16-le"))
        holding = {
            path.name for path in files for content in unpack_file(path) if any(form in content for form in forms)
        }
        assert holding == set()


def test_the_search_finds_secrets_in_compressed_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("part", KEY * 20)
    (tmp_path / "b.gz").write_bytes(gzip.compress(KEY.encode() * 20))
    for path in tmp_path.iterdir():
        assert KEY.encode() not in path.read_bytes()
        assert any(KEY.encode() in content for content in unpack_file(path))
