"""One service under a guardian, seen from the supervisor: start, poll, signal, wait."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.autopsy import autopsy
from ridgeline.launch.cgroups import kill_group, new_group, remove_group
from ridgeline.launch.runtimes import remove_container
from ridgeline.launch.stall import Effort, effort

GUARDIAN = Path(__file__).with_name("guardian.py")
DOCKER = "docker by label, cidfile and reaper"
EVERYWHERE = {"PYTHONFAULTHANDLER": "1"}  # an engine that crashes, or is asked to (autopsy.py), prints its stacks


class _CannotIsolate(Exception):
    """The kernel gave a namespace but not its /proc."""


class Contained:
    """A running service. `containment` says which guarantee holds; see guardian.py."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> None:
        """Start `argv`. Output goes to `log`. Raises EnvironmentFailed when the guardian does not come up."""
        self.log = log
        try:
            self._spawn(argv, env, cwd)
        except _CannotIsolate:
            self._spawn(argv, {**env, "RIDGELINE_CONTAINMENT": "cgroup"}, cwd)

    def _spawn(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._control, theirs = socket.socketpair()
        self._group = new_group()
        held = ["--cgroup", str(self._group)] if self._group else []
        self._docker = _cidfile(argv)
        if self._docker:
            held += ["--cidfile", self._docker]
        with self.log.open("ab") as output, theirs:
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARDIAN), str(theirs.fileno()), *held, "--", *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**EVERYWHERE, **env},
                cwd=cwd,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._buffer = b""
        self.containment = ""
        self.pid: int | None = None  # as the service's own namespace counts
        self.exit_status: int | None = None  # exit code, or minus the signal's number; None while it runs
        self._await_start()

    def _await_start(self) -> None:
        deadline = time.monotonic() + 30.0
        while self.pid is None and self.exit_status is None:
            if not self._read(deadline - time.monotonic()):
                self.close()
                raise EnvironmentFailed("the process guardian did not come up", hint=f"see `{self.log}`")

    def _read(self, timeout: float) -> bool:
        """Take in what the guardian says within `timeout` seconds. False when it said nothing."""
        if not select.select([self._control], [], [], max(0.0, timeout))[0]:
            return False
        data = self._control.recv(4096)
        if not data:  # the guardian is gone without a word: it was killed, and with it the service
            self.exit_status = self.exit_status if self.exit_status is not None else -signal.SIGKILL
            return True
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            word, _, value = line.decode().partition(" ")
            if word == "held":
                self.containment = f"{DOCKER}; its client by {value}" if self._docker else value
                if value != "cgroup":
                    self._drop_group()
            elif word == "started":
                self.pid = int(value)
            elif word == "exited":
                self.exit_status = os.waitstatus_to_exitcode(int(value))
            elif word == "error":
                self.close()
                raise _CannotIsolate(value)
        return True

    @property
    def guardian_pid(self) -> int:
        """The process that holds the service, as this machine counts; the service's own processes are below it."""
        return self._guardian.pid

    def poll(self) -> int | None:
        """The exit status if it has ended, else None. Never blocks."""
        while self.exit_status is None and self._read(0.0):
            pass
        return self.exit_status

    def wait(self, timeout: float) -> int | None:
        """Wait up to `timeout` seconds for the end."""
        deadline = time.monotonic() + timeout
        while self.exit_status is None and (left := deadline - time.monotonic()) > 0:
            self._read(left)
        return self.exit_status

    def signal(self, number: int) -> None:
        """Send a signal to the service's process group."""
        with contextlib.suppress(OSError):
            self._control.sendall(f"signal {int(number)}\n".encode())

    def stop(self, grace_s: float) -> int | None:
        """SIGTERM, up to `grace_s` seconds, then everything that is left is killed. Returns the exit status."""
        if self.poll() is None:
            self.signal(signal.SIGTERM)
            self.wait(grace_s)
        self.close()
        return self.exit_status

    def effort(self) -> Effort:
        """What its process tree has done so far."""
        return effort(self.guardian_pid, self.log)

    def autopsy(self, why: str = "") -> str:
        """What it was doing, for people, before it is killed."""
        return autopsy(self.guardian_pid, self.log, why=why)

    def close(self) -> None:
        """Kill every process of the service and wait until they are gone."""
        self._control.close()
        self._guardian.wait()
        self._drop_group()
        if self._docker:
            remove_container(Path(self._docker))

    def _drop_group(self) -> None:
        """Whatever is left in it, should the guardian have been killed, goes with it."""
        group, self._group = self._group, None
        if group is not None:
            kill_group(group)
            remove_group(group)


def _cidfile(argv: Sequence[str]) -> str | None:
    """Where docker's client writes down which container it started: the daemon keeps it when the client is killed."""
    words = (word.partition("=") for word in argv) if argv[:2] == ["docker", "run"] else ()
    return next((value for name, _, value in words if name == "--cidfile"), None)
