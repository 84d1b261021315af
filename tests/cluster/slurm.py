"""A SLURM cluster of two nodes on this one machine, of Debian's slurm-wlm and munge: for tests, and gone after them.

Everything – keys, sockets, states, logs – lies in a folder of its own; `SLURM_CONF` in the environment leads there.
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
SECONDS_UNTIL_REQUEUED = 15  # for so long SLURM keeps a requeued job waiting; by default two minutes

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
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=5
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why no cluster can be started here; empty where one can."""
    lacking = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    return f"no {', '.join(lacking)} here: install Debian's slurm-wlm and munge" if lacking else ""


def _path() -> str:
    return os.environ["PATH"] + os.pathsep + "/usr/sbin"


@dataclass(frozen=True)
class Cluster:
    """A running one. Commands for it need `environment`."""

    folder: Path
    environment: dict[str, str]

    def ask(self, *command: str) -> str:
        """What a command of SLURM's answers."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout.strip()

    def submitted(self, script: Path, *options: str) -> str:
        """The job's number."""
        return self.ask("sbatch", "--parsable", *options, str(script))

    def state_of(self, job: str) -> str:
        """PENDING, RUNNING, COMPLETED …"""
        return self._told(job)["JobState"]

    def restarts_of(self, job: str) -> int:
        """How often it was started again."""
        return int(self._told(job)["Restarts"])

    def nodes_of(self, job: str) -> int:
        """On how many it runs, or ran."""
        return int(self._told(job)["NumNodes"])

    def wait_for(self, job: str, *states: str, seconds: float = 120.0) -> str:
        """Until the job is in one of these states, or has ended; its state then."""
        return until(
            lambda: (state := self.state_of(job)) in ENDED.union(states) and state,
            seconds,
            lambda: f"job {job} is {self.state_of(job)}, not {' or '.join(states or ['ended'])}",
        )

    def _told(self, job: str) -> dict[str, str]:
        words = self.ask("scontrol", "show", "job", "--oneliner", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)


def until(answer: Callable[[], object], seconds: float, otherwise: Callable[[], str]):
    """The first answer that is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := answer():
            return found
        time.sleep(0.2)
    raise TimeoutError(f"after {seconds:.0f} s: {otherwise()}")


@contextlib.contextmanager
def two_nodes() -> Iterator[Cluster]:
    """Started, ready for jobs, and stopped with all that runs on it."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a path of pytest's is too long for a socket
    folder.chmod(0o755)  # munge wants everyone to find the socket
    (folder / "state").mkdir()
    controller, *ports = free_ports(1 + len(NODES))
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
            with (folder / f"{command[0]}.{len(started)}.log").open("wb") as said:
                started.append(subprocess.Popen(command, env=cluster.environment, stdout=said, stderr=said))
            if command[0] == "munged":
                until((folder / "munge.socket").exists, 10, (folder / "munged.0.log").read_text)
        until(lambda: _idle(cluster) == set(NODES), 60, lambda: _logs(folder))
        yield cluster
    finally:
        _stop(cluster, started)


def _idle(cluster: Cluster) -> set[str]:
    with contextlib.suppress(RuntimeError):
        return set(cluster.ask("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N").split())
    return set()


def _stop(cluster: Cluster, daemons: list[subprocess.Popen]) -> None:
    with contextlib.suppress(RuntimeError, TimeoutError):
        cluster.ask("scancel", "--full", f"--user={getpass.getuser()}")
        until(lambda: not cluster.ask("squeue", "--noheader"), 20, lambda: "jobs are left")
    for daemon in reversed(daemons):
        daemon.terminate()
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    for process in processes_with(f"SLURM_CONF={cluster.folder}/"):  # what jobs have left
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    shutil.rmtree(cluster.folder)


def processes_with(setting: str) -> list[int]:
    """Processes whose environment begins a line with this."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                if b"\0" + setting.encode() in b"\0" + (place / "environ").read_bytes():
                    found.append(int(place.name))
    return found


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _logs(folder: Path) -> str:
    return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in sorted(folder.glob("*.log")))
