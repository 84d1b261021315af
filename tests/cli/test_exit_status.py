"""Errors and log lines of commands, which may quote a run from somebody else."""

import json
import logging

import pytest
from commands import answer

from nmt.cli.exit_status import exit_with_one_line_errors

ESCAPES = "\x1b]0;title\x07\x9b2J\u202e"


@pytest.fixture(autouse=True)
def _restore_log_records():
    yield
    logging.setLogRecordFactory(logging.LogRecord)


@pytest.mark.parametrize("verb", ["train", "compare"])
def test_errors_show_escape_sequences_instead_of_sending_them(verb, tmp_path, capsys, monkeypatch):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "overrides.yaml").write_text(json.dumps([f"seed={ESCAPES}"]))
    (tmp_path / "summary.json").write_text(json.dumps({"status": "failed", "error": ESCAPES}))
    arguments = [f"run={tmp_path}"] if verb == "train" else [str(tmp_path)]
    status, stderr = answer(verb, *arguments, capture=capsys, monkeypatch=monkeypatch)
    assert (status, stderr.strip().isprintable()) == (1, True)
    assert "\ufffd]0;title\ufffd\ufffd2J\ufffd" in stderr


def test_log_lines_show_escape_sequences_instead_of_sending_them(caplog):
    exit_with_one_line_errors(lambda: logging.getLogger("nmt").warning("a\n%s", ESCAPES))()
    assert caplog.messages == ["a\n\ufffd]0;title\ufffd\ufffd2J\ufffd"]
