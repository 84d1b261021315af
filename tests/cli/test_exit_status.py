"""Errors and log lines of commands, which may quote a run from somebody else; the encoding of text."""

import json
import logging
import os
import subprocess
import sys

import pytest
from commands import ROOT, answer, command

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


@pytest.mark.parametrize(
    ("environment", "encoding"),
    [
        ({"LC_ALL": "C", "PYTHONUTF8": "0"}, "ascii"),
        ({"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "ascii"),
        ({"PYTHONIOENCODING": "latin-1"}, "iso8859-1"),
    ],
)
def test_text_that_is_not_utf8_is_refused_at_once(environment, encoding):
    done = command("evaluate", "Läufe/中", check=False, **environment)
    assert (done.returncode, done.stderr.strip()) == (
        1,
        f"error: the locale or PYTHONIOENCODING: text is {encoding} here, and must be UTF-8. "
        "Fix: unset PYTHONIOENCODING; export PYTHONUTF8=1",
    )


@pytest.mark.parametrize("environment", [{"LC_ALL": "POSIX"}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "UTF8:replace"}])
def test_names_with_letters_are_shown_in_any_locale_that_python_reads_as_utf8(environment):
    done = command("evaluate", "Läufe/中", check=False, **environment)
    assert done.stderr.startswith("error: Läufe/中: no such folder or checkpoint")


def test_a_name_that_is_not_utf8_is_refused_at_once():
    arguments = [sys.executable, ROOT / "train.py", b"hydra.run.dir='caf\xe9'"]
    done = subprocess.run(arguments, capture_output=True, env=os.environ, check=False)
    message = "error: hydra.run.dir='caf\ufffd': its name is not UTF-8. Fix: rename the file or folder"
    assert (done.returncode, done.stderr.decode().strip()) == (1, message)


@pytest.mark.parametrize("name", ["train", "evaluate", "translate", "compare", "align"])
def test_a_deleted_working_directory_is_one_line(tmp_path, name):
    words = f"mkdir gone && cd gone && rmdir ../gone && exec '{sys.executable}' '{ROOT}/{name}.py' seed=1"
    done = subprocess.run(["sh", "-c", words], capture_output=True, cwd=tmp_path, env=os.environ, check=False)
    message = "error: the working directory was deleted. Fix: cd to a folder that exists"
    assert (done.returncode, done.stderr.decode().strip()) == (1, message)


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_command_needs_neither_standard_input_nor_standard_error(tmp_path, closed):
    (tmp_path / "text").write_text("a b c d e\n")
    words = f"exec '{sys.executable}' '{ROOT}/evaluate.py' hypotheses=text reference=text as_json=true {closed}"
    done = subprocess.run(["sh", "-c", words], capture_output=True, cwd=tmp_path, env=os.environ, check=True)
    assert json.loads(done.stdout)["bleu"]["score"] == pytest.approx(100)
