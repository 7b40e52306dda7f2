"""The tests' scripted server as a process of its own: slower than the null server, and always there."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from parts.nullserver import ROOT


class Scripted:
    """`with Scripted(first_ms, gap_ms, tokens) as server`: `url` while inside, `sends` afterwards."""

    def __init__(self, first_ms: float, gap_ms: float, tokens: int) -> None:
        folder = Path(tempfile.mkdtemp(prefix="ridgeline-bench-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._log = folder / "sends.jsonl"
        script = ROOT / "tests" / "replay" / "scripted_server.py"
        pace = ["--first-ms", str(first_ms), "--gap-ms", str(gap_ms), "--tokens", str(tokens)]
        self._command = [sys.executable, str(script), *pace, "--log", str(self._log)]
        self.url = ""

    def __enter__(self) -> Scripted:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=30)

    def sends(self) -> dict[str, tuple[int, list[int]]]:
        """Request id -> (arrival, send time of each token). The role's event comes first and is left out."""
        rows = map(json.loads, self._log.read_text().splitlines())
        return {row["id"]: (row["arrived"], row["sends"][1:-1]) for row in rows}
