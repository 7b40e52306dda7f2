"""Starts services on a node for a supervisor elsewhere: `python -m ridgeline.launch.agent ADDRESS`.

Questions come as JSON lines on standard input, answers go to standard output: `{"id", "do", ...}` and `{"id", "is"}` or
`{"id", "error", "hint"}`; `{"ended": NUMBER, "status": N}` comes unasked, within a fraction of a second. When its input
ends, because the supervisor stopped or was killed in any way, every service is killed.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

from ridgeline.core.errors import RidgelineError
from ridgeline.launch.machines import Process, ThisMachine

LOOK_EVERY_S = 0.2


class Agent:
    """The services of one node, by number."""

    def __init__(self, address: str) -> None:
        self.machine = ThisMachine(os.environ.get("SLURMD_NODENAME", ""), address)
        self.services: dict[int, Process] = {}
        self._told: set[int] = set()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question."""
        try:
            return {"id": asked["id"], "is": self._do(asked)}
        except (RidgelineError, OSError) as error:
            hint = error.hint if isinstance(error, RidgelineError) else None
            return {"id": asked["id"], "error": str(getattr(error, "message", error)), "hint": hint}

    def ended(self) -> list[dict[str, int]]:
        """Services that have ended since the last look."""
        found = []
        for number, process in self.services.items():
            if number not in self._told and (status := process.poll()) is not None:
                self._told.add(number)
                found.append({"ended": number, "status": status})
        return found

    def close(self) -> None:
        """Kill what runs, the last started first."""
        for process in reversed(self.services.values()):
            process.stop(0.0)
        self.machine.close()

    def _do(self, asked: dict[str, Any]) -> Any:
        what = asked["do"]
        if what == "probe":
            return self.machine.probe(Path(asked["folder"])).plain()
        if what == "lease":
            return self.machine.lease(asked["count"])
        if what == "reap":
            return self.machine.reap(asked["owner"])
        if what == "start":
            process = self.machine.start(asked["argv"], asked["env"], Path(asked["cwd"]), Path(asked["log"]))
            number = len(self.services)
            self.services[number] = process
            return {"number": number, "held": process.containment}
        process = self.services[asked["number"]]
        if what == "stop":
            return process.stop(asked["grace_s"])
        return list(process.effort()) if what == "effort" else process.autopsy(asked["why"])


def main() -> int:
    """Serve until standard input ends."""
    agent = Agent(sys.argv[1])
    buffer = b""
    _say({"id": 0, "is": "ready"})
    try:
        while True:
            if select.select([0], [], [], LOOK_EVERY_S)[0]:
                data = os.read(0, 1 << 16)
                if not data:
                    return 0
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    _say(agent.answer(json.loads(line)))
            for event in agent.ended():
                _say(event)
    finally:
        agent.close()


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
