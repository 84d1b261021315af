"""A temporary SLURM cluster of two nodes on this machine, from Debian's slurm-wlm and munge.

One temporary folder contains all keys, sockets, states and logs; the environment variable `SLURM_CONF` points to it.
"""

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
NODES = ("n1", "n2")
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"})
SECONDS_UNTIL_REQUEUED = 15  # SLURM delays a requeued job this long; its default is two minutes

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={requeued}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=5
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def explain_missing() -> str:
    """Return why no cluster can start here, or an empty string."""
    lacking = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    return f"no {', '.join(lacking)} here: install Debian's slurm-wlm and munge" if lacking else ""


def _path() -> str:
    return os.environ["PATH"] + os.pathsep + "/usr/sbin"


@dataclass(frozen=True)
class Cluster:
    """A running cluster. Its commands need `environment`."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        """Run a SLURM command and return its output."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout.strip()

    def submit(self, script: Path, *options: str) -> str:
        """Submit a script and return the job's number."""
        return self.run("sbatch", "--parsable", *options, str(script))

    def read_state(self, job: str) -> str:
        """Return the job's state: PENDING, RUNNING, COMPLETED …"""
        return self._read_job(job)["JobState"]

    def count_restarts(self, job: str) -> int:
        """Return the number of restarts of a job."""
        return int(self._read_job(job)["Restarts"])

    def count_nodes(self, job: str) -> int:
        """Return the number of nodes of a job."""
        return int(self._read_job(job)["NumNodes"])

    def wait_for(self, job: str, *states: str, seconds: float = 120.0) -> str:
        """Wait until the job is in one of these states or has ended, and return its state."""
        return wait_until(
            lambda: (state := self.read_state(job)) in ENDED.union(states) and state,
            seconds,
            lambda: f"job {job} is {self.read_state(job)}, not {' or '.join(states or ['ended'])}",
        )

    def _read_job(self, job: str) -> dict[str, str]:
        words = self.run("scontrol", "show", "job", "--oneliner", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)


def wait_until(condition: Callable[[], object], seconds: float, describe_failure: Callable[[], str]):
    """Poll a condition and return its first true result."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.2)
    raise TimeoutError(f"after {seconds:.0f} s: {describe_failure()}")


@contextlib.contextmanager
def start_two_nodes() -> Iterator[Cluster]:
    """Start a cluster that is ready for jobs; afterwards stop it and all its processes."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a path of pytest's is too long for a socket
    folder.chmod(0o755)  # munge requires a socket that every user can reach
    (folder / "state").mkdir()
    controller, *ports = find_free_ports(1 + len(NODES))
    host = socket.gethostname()
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN"
        for name, port in zip(NODES, ports, strict=True)
    )
    user = getpass.getuser()
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder, host=host, controller=controller, user=user, nodes=nodes, requeued=SECONDS_UNTIL_REQUEUED
        )
    )
    (folder / "munge.key").touch(mode=0o600)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}
    cluster = Cluster(folder, ours | {"SLURM_CONF": str(configuration), "PATH": _path()})
    files = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
    daemons = [
        ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files],
        ["slurmctld", "-D"],
        *(["slurmd", "-D", "-N", name] for name in NODES),
    ]
    started: list[subprocess.Popen] = []
    try:
        for command in daemons:
            with (folder / f"{command[0]}.{len(started)}.log").open("wb") as log:
                started.append(subprocess.Popen(command, env=cluster.environment, stdout=log, stderr=log))
            if command[0] == "munged":
                wait_until((folder / "munge.socket").exists, 10, (folder / "munged.0.log").read_text)
        wait_until(lambda: _list_idle_nodes(cluster) == set(NODES), 60, lambda: _read_logs(folder))
        yield cluster
    finally:
        _stop(cluster, started)


def _list_idle_nodes(cluster: Cluster) -> set[str]:
    with contextlib.suppress(RuntimeError):
        return set(cluster.run("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N").split())
    return set()


def _stop(cluster: Cluster, daemons: list[subprocess.Popen]) -> None:
    with contextlib.suppress(RuntimeError, TimeoutError):
        cluster.run("scancel", "--full", f"--user={getpass.getuser()}")
        wait_until(lambda: not cluster.run("squeue", "--noheader"), 20, lambda: "jobs are left")
    for daemon in reversed(daemons):
        daemon.terminate()
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    for process in find_processes(f"SLURM_CONF={cluster.folder}/"):  # processes that jobs left running
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    shutil.rmtree(cluster.folder)


def find_processes(setting: str) -> list[int]:
    """Return the processes with an environment variable that begins with `setting`."""
    processes = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                if b"\0" + setting.encode() in b"\0" + (place / "environ").read_bytes():
                    processes.append(int(place.name))
    return processes


def find_free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _read_logs(folder: Path) -> str:
    return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in sorted(folder.glob("*.log")))
