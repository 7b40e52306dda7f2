"""Machines that services are started on: this one, or another through an agent at the end of a pipe.

In: a command with its environment. Out: a process that can be polled and stopped, free ports, facts of the machine. An
agent (agent.py) holds its services exactly as this process would, and ends with its pipe: a supervisor that is killed
leaves nothing on any machine. What carries the pipe (srun) is the caller's choice.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.cgroups import sweep_groups
from ridgeline.launch.contained import Contained
from ridgeline.launch.ports import LOOPBACK, PortLeases
from ridgeline.launch.probe import Node, node_from, probe
from ridgeline.launch.runtimes import reap
from ridgeline.launch.stall import Effort

ANSWER_S = 60.0  # for an agent to answer; one that does not has lost its machine
COME_UP_S = 120.0  # for an agent's first word: interpreters start slowly from shared file systems


class Process(Protocol):
    """A service that runs somewhere."""

    log: Path
    containment: str

    def poll(self) -> int | None:
        """Exit code, minus a signal's number, or None while it runs. Never blocks for long."""

    def stop(self, grace_s: float) -> int | None:
        """End it: SIGTERM, the grace, then force."""

    def effort(self) -> Effort:
        """What its process tree has done so far."""

    def autopsy(self, why: str = "") -> str:
        """What it was doing, for people, before it is killed."""


class Machine(Protocol):
    """Somewhere to start services. `address`: where they listen and are asked."""

    name: str
    address: str

    def probe(self, folder: Path) -> Node: ...

    def lease(self, count: int) -> int: ...

    def reap(self, owner: str) -> list[str]:
        """Remove containers that an earlier start of `owner` left there; their ids."""

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> Process: ...

    def close(self) -> None: ...


class ThisMachine:
    """The machine we run on."""

    def __init__(self, name: str = "", address: str = LOOPBACK) -> None:
        self.name = name or os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        self.address = address
        sweep_groups()  # what a run left here that was killed together with its guardians
        self._leases = PortLeases(address)

    def probe(self, folder: Path) -> Node:
        """Facts of it; `folder`: where results will lie."""
        return probe(folder)

    def lease(self, count: int) -> int:
        """The first of `count` neighbouring free ports, ours until `close`."""
        return self._leases.lease(count)

    def reap(self, owner: str) -> list[str]:
        return reap(owner)

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> Process:
        """Start a command with `env` added to our environment."""
        return Contained(argv, env={**os.environ, **env}, cwd=cwd, log=log)

    def close(self) -> None:
        self._leases.close()


class AgentMachine:
    """Another machine. `words` start an agent there with its standard input and output on ours.

    Raises EnvironmentFailed when the agent does not come up, and from every question that it does not answer.
    """

    def __init__(self, name: str, address: str, words: Sequence[str], log: Path) -> None:
        self.name, self.address = name, address
        self.ended: dict[int, int] = {}  # exit status of services by their number
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*words, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self._buffer = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._asked = 0
        self.gone = False
        try:
            self._answer(0, COME_UP_S)
        except EnvironmentFailed:
            self.close()
            raise

    def probe(self, folder: Path) -> Node:
        return node_from(self.ask("probe", folder=str(folder.resolve())))

    def lease(self, count: int) -> int:
        return int(self.ask("lease", count=count))

    def reap(self, owner: str) -> list[str]:
        return list(self.ask("reap", owner=owner))

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> Process:
        """Start a command there with `env` added to the agent's environment; folder and log must be shared."""
        folder, file = str(cwd.resolve()), str(log.resolve())
        started = self.ask("start", argv=list(argv), env=dict(env), cwd=folder, log=file)
        return _Far(self, int(started["number"]), f"{started['held']} on {self.name}", log)

    def close(self) -> None:
        """End the agent and what is left of its services."""
        with contextlib.suppress(OSError):  # what was not sent any more
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def ask(self, what: str, within_s: float = ANSWER_S, **more: Any) -> Any:
        """One question and its answer."""
        self._asked += 1
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"id": self._asked, "do": what, **more}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._lost() from error
        answer = self._answer(self._asked, within_s)
        if "error" in answer:
            raise EnvironmentFailed(f"node {self.name}: {answer['error']}", hint=answer.get("hint"))
        return answer["is"]

    def hear(self, within_s: float = 0.0) -> None:
        """Take in what the agent has said."""
        stdout = self._process.stdout
        assert stdout is not None
        while not self.gone and select.select([stdout], [], [], within_s)[0]:
            data = os.read(stdout.fileno(), 1 << 16)
            self.gone = not data
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                said = json.loads(line)
                if "ended" in said:
                    self.ended[said["ended"]] = said["status"]
                else:
                    self._answers[said["id"]] = said
            within_s = 0.0

    def _answer(self, number: int, within_s: float) -> dict[str, Any]:
        end = time.monotonic() + within_s
        while number not in self._answers and not self.gone and (left := end - time.monotonic()) > 0:
            self.hear(left)
        if number not in self._answers:
            raise self._lost()
        return self._answers.pop(number)

    def _lost(self) -> EnvironmentFailed:
        try:
            said = self._log.read_text("utf-8", "replace").strip().splitlines()[-3:]
        except OSError:
            said = []
        how = "ended" if self.gone else "does not answer"
        return EnvironmentFailed(
            f"the agent on node {self.name} {how}" + "".join(f"\n  | {line}" for line in said),
            hint=f"its log is `{self._log}`; the node may be lost",
        )


class _Far:
    """A service on another machine."""

    def __init__(self, machine: AgentMachine, number: int, containment: str, log: Path) -> None:
        self._machine, self._number = machine, number
        self.containment, self.log = containment, log

    def poll(self) -> int | None:
        self._machine.hear()
        status = self._machine.ended.get(self._number)
        if status is None and self._machine.gone:  # with its agent: the log says so, where causes are looked for
            self._machine.ended[self._number] = status = -signal.SIGKILL
            with contextlib.suppress(OSError), self.log.open("a") as log:
                log.write(f"the agent on node {self._machine.name} ended, and with it this service\n")
        return status

    def stop(self, grace_s: float) -> int | None:
        if self._machine.gone:
            return self.poll()
        status: int | None = self._machine.ask("stop", grace_s + ANSWER_S, number=self._number, grace_s=grace_s)
        return status

    def effort(self) -> Effort:
        return Effort(*self._machine.ask("effort", number=self._number))

    def autopsy(self, why: str = "") -> str:
        return str(self._machine.ask("autopsy", number=self._number, why=why))
