"""Records the GPUs' power with the vendor's own tool while a replay runs: a CSV file that the tool writes.

The tool samples in a process of its own; nothing is read until the replay is over. Which rows count, and whether they
may, is decided where the log is integrated.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import TracebackType

from ridgeline.core.errors import EnvironmentFailed

# A header with a time, a device and a power column, then a row a device each second or faster.
TOOLS = {
    "nvidia-smi": ("--query-gpu=timestamp,index,power.draw", "--format=csv", "-lms", "500"),
    "amd-smi": ("monitor", "--power-usage", "--watch", "1", "--csv"),
}
_PATIENCE_S = 5.0


class PowerLog:
    """`with PowerLog(tool, path)`: the tool runs inside the block. Raises EnvironmentFailed when it is not there."""

    def __init__(self, tool: str, path: Path) -> None:
        self._command = (tool, *TOOLS[tool])
        self.path = path
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PowerLog:
        if shutil.which(self._command[0]) is None:
            raise EnvironmentFailed(
                f"`{self._command[0]}` is not installed here", hint="name a CSV file that another host records"
            )
        with self.path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.DEVNULL
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
