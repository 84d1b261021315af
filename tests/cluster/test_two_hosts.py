"""Torchrun on two hosts (linked network namespaces), and jobs with a killed rank."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from commands import ROOT, TWELVE_STEPS, command

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hosts")]

ADDRESSES = ("10.77.0.1", "10.77.0.2")
WIRE = "wire"  # the network interface of either host


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[list[str]]]:
    """Create two hosts; yield the command prefix that runs a command on each host."""
    if shutil.which("ip") is None:
        pytest.skip("no ip here: install Debian's iproute2")
    names = [f"nmt-{os.getpid()}-{number}" for number in range(2)]
    try:
        for name in names:
            _run_ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces can be made here: {error.stderr.strip()}")
    try:
        first, second = names
        _run_ip("-n", first, "link", "add", WIRE, "type", "veth", "peer", "name", WIRE, "netns", second)
        for name, address in zip(names, ADDRESSES, strict=True):
            _run_ip("-n", name, "address", "add", f"{address}/24", "dev", WIRE)
            _run_ip("-n", name, "link", "set", WIRE, "up")
            _run_ip("-n", name, "link", "set", "lo", "up")
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in names:
            _run_ip("netns", "delete", name)


def _run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def start_commands(*commands: list[str]) -> Iterator[list[subprocess.Popen]]:
    """Start commands in parallel and kill their remaining processes afterwards."""
    environment = os.environ | {"GLOO_SOCKET_IFNAME": WIRE}
    if len(commands) == 1:
        del environment["GLOO_SOCKET_IFNAME"]
    started = [
        subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for words in commands
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def build_torchrun_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", *words]


def build_host_commands(hosts: list[list[str]], *arguments: str) -> list[list[str]]:
    """Return the torchrun command of each host."""
    same = ("--nnodes=2", f"--master-addr={ADDRESSES[0]}", "--master-port=29500")
    job = ("train.py", "trainer=ddp_cpu", "trainer.devices=1", "trainer.num_nodes=2", *arguments)
    return [[*host, *build_torchrun_command(*same, f"--node-rank={rank}", *job)] for rank, host in enumerate(hosts)]


def find_ranks(text: str) -> dict[int, int]:
    """Map rank to process id for the training processes whose command line contains a text."""
    processes = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                line = (place / "cmdline").read_bytes().decode(errors="replace")
                if text not in line:
                    continue
                environment = (place / "environ").read_bytes().split(b"\0")
                ranks = [int(each[5:]) for each in environment if each.startswith(b"RANK=")]
                processes[ranks[0] if ranks else -1] = int(place.name)  # torchrun itself has no rank
    return processes


def wait_for_epoch(program: subprocess.Popen, epoch: int) -> str:
    lines = []
    for line in program.stderr:
        lines.append(line)
        if f"epoch {epoch}," in line and "validated" in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def test_two_hosts_train_the_same_weights_as_one_process(tmp_path, hosts):
    shared = (*TWELVE_STEPS, "trainer.max_epochs=2")
    command("train", *shared, "trainer=cpu", f"hydra.run.dir={tmp_path}/one")
    with start_commands(*build_host_commands(hosts, *shared, f"hydra.run.dir={tmp_path}/two")) as programs:
        logs = [program.communicate(timeout=120)[1] for program in programs]
        assert [program.returncode for program in programs] == [0, 0], logs
    assert ["MEMBER: 1/2" in logs[0], "MEMBER: 2/2" in logs[1]] == [True, True]
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
    one, two = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "two"))
    assert one["status"] == two["status"] == "completed"
    assert one["steps"] == two["steps"] == 24
    assert two["last"]["valid/perplexity"] == pytest.approx(one["last"]["valid/perplexity"], rel=1e-4)
    weights = [
        torch.load(tmp_path / name / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for name in ("one", "two")
    ]
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_a_job_with_a_killed_rank_ends_and_names_the_rank(tmp_path):
    words = build_torchrun_command(
        "--standalone", "--nproc-per-node=2", "train.py", "trainer=ddp_cpu", "trainer.max_epochs=1000"
    )
    with start_commands([*words, *TWELVE_STEPS, f"hydra.run.dir={tmp_path}"]) as (program,):
        wait_for_epoch(program, 2)  # the checkpoint of epoch 1 exists
        os.kill(find_ranks(str(tmp_path))[1], signal.SIGKILL)
        killed = time.monotonic()
        _, log = program.communicate(timeout=60)
        took = time.monotonic() - killed
    assert program.returncode == 1
    assert took < 60
    assert "Signal 9 (SIGKILL)" in log
    assert "rank      : 1 (local_rank: 1)" in log
    assert find_ranks(str(tmp_path)) == {}
    assert json.loads((tmp_path / "summary.json").read_text())["status"] != "completed"
    assert torch.load(tmp_path / "checkpoints/last.ckpt", weights_only=True)["global_step"] >= 24


def wait_for_warning(program: subprocess.Popen, rank: int) -> str:
    """Return the warning of a rank that does not answer, which must come within a minute."""
    start = time.monotonic()
    while f"rank {rank} does not answer" not in (line := program.stderr.readline()):
        assert program.poll() is None
    assert time.monotonic() - start < 60
    return line


def test_the_only_rank_of_a_host_is_named_if_it_stops_for_a_time_or_its_network_is_lost(tmp_path, hosts):
    names = [host[-1] for host in hosts]
    commands = build_host_commands(hosts, *TWELVE_STEPS, "trainer.max_epochs=1000", f"hydra.run.dir={tmp_path}")
    with start_commands(*commands) as programs:
        wait_for_epoch(programs[0], 0)
        rank = find_ranks(str(tmp_path))[1]
        os.kill(rank, signal.SIGSTOP)
        warning = wait_for_warning(programs[0], 1)
        assert f"its process {rank} on {ADDRESSES[1]} is stopped" in warning
        assert f"kill -CONT {rank} there" in warning
        os.kill(rank, signal.SIGCONT)
        assert any("validated" in line for line in programs[0].stderr)  # the run goes on
        _run_ip("-n", names[1], "link", "set", WIRE, "down")
        try:
            wait_for_warning(programs[1], 0)
        finally:
            _run_ip("-n", names[1], "link", "set", WIRE, "up")


def test_a_host_ends_when_the_rank_of_its_peer_is_killed(tmp_path, hosts):
    with start_commands(
        *build_host_commands(hosts, *TWELVE_STEPS, "trainer.max_epochs=1000", f"hydra.run.dir={tmp_path}")
    ) as programs:
        wait_for_epoch(programs[0], 1)
        os.kill(find_ranks(str(tmp_path))[1], signal.SIGKILL)
        logs = [program.communicate(timeout=60)[1] for program in programs]
    assert [program.returncode for program in programs] == [1, 1]
    assert "Signal 9 (SIGKILL)" in logs[1]
    assert re.search("another rank died.*Connection (closed|reset) by peer", logs[0])
    assert find_ranks(str(tmp_path)) == {}
