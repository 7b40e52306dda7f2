"""A null server for load generators: compiled from its C source (not part of the repository) or given as a binary.

It answers at once or on an exact schedule and logs when it handed each event to the kernel, on the monotonic clock.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parent.parent.parent


def known(path: str) -> Path | None:
    """A file below RIDGELINE_GOLDEN (default `../shared`), None when absent."""
    found = ROOT / os.environ.get("RIDGELINE_GOLDEN", "../shared") / path
    return found if found.exists() else None


class NullServer:
    """`with NullServer.find(binary) as server`: on a free loopback port, pinned to core 0 when there are two."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self.log = folder / "sends.jsonl"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def find(cls, binary: Path | None) -> NullServer | None:
        """The given binary, or one compiled from the known source into a temporary folder; None when there is
        neither, with the reason on stdout."""
        folder = Path(tempfile.mkdtemp(prefix="ridgeline-bench-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        if binary is None:
            source = known("loadgen/nullsse.c")
            if source is None or shutil.which("gcc") is None:
                print("skipped: no null server (give --server PATH, or RIDGELINE_GOLDEN with its source, and gcc)")
                return None
            binary = folder / "nullsse"
            subprocess.run(["gcc", "-O3", "-march=native", "-o", str(binary), str(source)], check=True)
        return cls(binary, folder)

    def __enter__(self) -> NullServer:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        cpu = ["-c", "0"] if (os.cpu_count() or 1) > 1 else []
        self._process = subprocess.Popen(
            [str(self._binary), "-p", str(self.port), *cpu, "--log", str(self.log)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: _ahead(-15),
        )
        for _ in range(200):
            try:
                self.ask("/health")
                return self
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the null server does not answer")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(10)
        self.log.unlink(missing_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return bytes(answer.read())

    def configure(self, first_us: int, gap_us: int, log: bool = False) -> None:
        """Delays of the tokens, and whether sends are logged from now on."""
        self.log.write_bytes(b"")
        self.ask(f"/_cfg?ttft_us={first_us}&itl_us={gap_us}&log={int(log)}")
        self.ask("/_reset")

    def sends(self) -> dict[str, tuple[int, list[int]]]:
        """Request id -> (its first byte seen, send time of each event), of what was logged."""
        self.ask("/_flush")
        rows = map(json.loads, self.log.read_text().splitlines())
        return {row["xrid"]: (row["first_byte"], row["send"]) for row in rows}


def pinned_to_client_core() -> None:
    """For a child process: keep off the server's core, and ahead of other work where that is permitted."""
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {1})
    _ahead(-10)


def _ahead(niceness: int) -> None:
    with contextlib.suppress(PermissionError):
        os.nice(niceness)
