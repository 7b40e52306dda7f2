"""A real Slurm of three nodes on this machine, in a folder of its own, on loopback, stopped by process id.

Needs the packages slurm-wlm and munge, and root. Where they are missing, tests skip and say so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scontrol")
UP_S = 30.0

CONF = """ClusterName=ridgeline
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
TaskPlugin=task/none
ProctrackType=proctrack/linuxproc
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=3
MinJobAge=60
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
SchedulerParameters=sched_interval=1,batch_sched_delay=0
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 Sockets=1 CoresPerSocket=2 "
    "RealMemory=4000 State=UNKNOWN\n"
)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def slurm(folder: Path, monkeypatch: pytest.MonkeyPatch, nodes: tuple[str, ...] = ("n1", "n2", "n3")) -> Iterator[None]:
    """A cluster while the block runs. Skips the test where it cannot be had."""
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"no real Slurm: {', '.join(missing) or 'root'} is missing (apt-get install slurm-wlm munge)")
    for name in ("state", *(f"spool-{node}" for node in nodes)):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    host = socket.gethostname().split(".")[0]
    text = CONF.format(host=host, folder=folder, ctld=_port())
    text += "".join(NODE.format(name=node, host=host, port=_port()) for node in nodes)
    text += f"PartitionName=all Nodes={','.join(nodes)} Default=YES MaxTime=INFINITE State=UP\n"
    (folder / "slurm.conf").write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        program = _program(words[0]) or words[0]
        with (folder / f"{words[0]}.out").open("ab") as log:
            started.append(subprocess.Popen([program, *words[1:]], stdout=log, stderr=log, start_new_session=True))

    try:
        names = {"socket": "munge.socket", "key-file": "munge.key", "log-file": "munged.log"}
        names |= {"pid-file": "munged.pid", "seed-file": "munge.seed"}
        start("munged", "--foreground", "--force", *(f"--{key}={folder}/{name}" for key, name in names.items()))
        _until(lambda: (folder / "munge.socket").exists(), folder)
        start("slurmctld", "-D", "-c")
        for node in nodes:
            start("slurmd", "-D", "-N", node)
        _until(lambda: _idle() >= len(nodes), folder)
        yield
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in reversed(started):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _idle() -> int:
    done = subprocess.run(["sinfo", "-h", "-N", "--format=%t"], capture_output=True, text=True)
    return done.stdout.split().count("idle")


def _until(condition, folder: Path) -> None:
    end = time.monotonic() + UP_S
    while not condition():
        if time.monotonic() > end:
            said = "; ".join(
                path.read_text("utf-8", "replace")[-300:] for path in (*folder.glob("*.out"), *folder.glob("*.log"))
            )
            pytest.skip(f"no real Slurm: it did not come up: {said}")
        time.sleep(0.2)
