"""A killed command leaves no process behind, except a training, which the next command waits for."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import ROOT, TWELVE_STEPS
from end_to_end.test_sweeps_and_ranks import find_process, start_training

EPOCHS = "trainer.max_epochs=4"


def is_alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds: float = 500) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kill_once_training(arguments: list[str], runs: Path, pattern: str) -> int:
    """Start a command, kill it once its run has a checkpoint, and return the process of the run, which is stopped."""
    with start_training(*arguments, python=sys.executable) as process:
        checkpoint = f"{pattern}/checkpoints/last.ckpt"
        wait_until(lambda: list(runs.glob(checkpoint)) or process.poll())
        orphan = find_process(str(next(runs.glob(checkpoint)).parents[1]))
        os.kill(orphan, signal.SIGSTOP)
        process.kill()
        process.stderr.close()
    return orphan


def run_again(arguments: list[str], orphan: int, number: int) -> str:
    """Run a command that waits for an orphan; send the orphan a signal then, and return the output of the command."""
    lines = []
    with start_training(*arguments) as process:
        for line in process.stderr:
            lines.append(line)
            if "another process trains there; waiting for it" in line:
                os.kill(orphan, number)
    assert process.returncode == 0, "".join(lines)
    wait_until(lambda: not is_alive(orphan), 60)  # a process unlocks its run before it ends
    return "".join(lines)


@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGKILL])
def test_the_job_of_a_killed_sweep_is_waited_for_and_resumed_if_it_is_killed(tmp_path, number):
    sweep = ["-m", "attention=dot", EPOCHS, *TWELVE_STEPS, f"hydra.sweep.dir={tmp_path}"]
    job = kill_once_training(sweep, tmp_path, "attention=dot*")
    text = run_again(sweep, job, number)
    assert "job 1 of 1: another process trains in" in text
    assert ("resuming from" in text) is (number == signal.SIGKILL)
    assert [job["status"] for job in json.loads((tmp_path / "sweep.json").read_text())["jobs"]] == ["completed"]


def test_the_stage_of_a_killed_run_is_waited_for(tmp_path):
    arguments = [EPOCHS, *TWELVE_STEPS, "pretraining={overrides: ['seed=2']}", f"pretraining_folder={tmp_path}/stages"]
    stage = kill_once_training([*arguments, f"hydra.run.dir={tmp_path}/a"], tmp_path / "stages", "nmt-*")
    run_again([*arguments, f"hydra.run.dir={tmp_path}/b"], stage, signal.SIGCONT)
    assert json.loads((tmp_path / "b" / "summary.json").read_text())["status"] == "completed"
    (summary,) = (tmp_path / "stages").glob("nmt-*/summary.json")
    assert json.loads(summary.read_text())["status"] == "completed"


POOL = """
import os, time
from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.preprocess_pool import PreprocessPool
from nmt.data.preprocessing import Preprocessing

if __name__ == "__main__":
    side = Preprocessing(language="en", tokenizer="moses", normalize=False, lowercase=False)
    with PreprocessPool(Sides(side, side)) as pool:
        list(pool.preprocess([SentencePair("a", "b")]))
        print(*pool.pool._processes, flush=True)
        time.sleep(60)
"""


def test_processes_that_preprocess_end_with_a_killed_command(tmp_path):
    (tmp_path / "pool.py").write_text(POOL)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, tmp_path / "pool.py"], stdout=subprocess.PIPE, env=environment) as process:
        workers = [int(number) for number in process.stdout.readline().split()]
        assert workers
        assert all(map(is_alive, workers))
        process.kill()
    wait_until(lambda: not any(map(is_alive, workers)), 5)


ALIGNER = """
import os, time
from pathlib import Path

class SymmetrizedAlignmentModel: pass

class EflomalAlignmentModel:
    scheduled_iterations = 6000
    def read_sentence_pairs(self, *files):
        Path("aligner").write_text(str(os.getpid()))
    def start_training(self): pass
    def train(self): time.sleep(0.1)
"""
LEARN = """
from nmt.cli.exit_status import exit_with_one_line_errors
from nmt.data.lexical_table import learn_lexical_table
exit_with_one_line_errors(lambda: learn_lexical_table([("a", "b")]))()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_the_aligner_ends_with_its_command(tmp_path, number):
    """A killed command cannot remove its temporary files; any other end removes them."""
    for name in ("thot", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "thot" / "__init__.py").touch()
    (tmp_path / "thot" / "alignment.py").write_text(ALIGNER)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}", "TMPDIR": str(tmp_path / "tmp")}

    def reset_signals():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    program = [sys.executable, "-c", LEARN]
    with subprocess.Popen(program, env=environment, cwd=tmp_path, preexec_fn=reset_signals) as process:
        wait_until(lambda: (tmp_path / "aligner").exists() and (tmp_path / "aligner").read_text())
        process.send_signal(number)
        assert process.wait(10) == (-number if number == signal.SIGKILL else 128 + number)
    aligner = int((tmp_path / "aligner").read_text())
    wait_until(lambda: not is_alive(aligner), 5)
    assert list((tmp_path / "tmp").glob("aligner_*")) == [] or number == signal.SIGKILL
