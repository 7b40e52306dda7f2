"""What a start that is about to be killed was doing: stacks of every process, their state, the GPUs', the last log
lines, as one text for people.

Stacks come from py-spy, from outside and without stopping anything for long. Where it is missing or is not allowed to
look, Python processes are asked to die with a dump (SIGABRT, which prints the stacks of all threads under
PYTHONFAULTHANDLER=1); they are about to be killed anyway.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from ridgeline.launch.stall import tree

PY_SPY_TIMEOUT_S = 20.0
GPU_TIMEOUT_S = 10.0
DUMP_WITHIN_S = 2.0
LAST_LINES = 40
MOST_WORDS = 300
GPU_STATE = (("nvidia-smi",), ("amd-smi", "monitor"), ("rocm-smi",))

Dump = Callable[[int], "str | None"]


def autopsy(root: int, log: Path, *, why: str = "", dump: Dump | None = None) -> str:
    """The text. `root`: the guardian, which is left out. `dump` gives the stacks of a process, None where it cannot."""
    ask = dump or py_spy()
    parts = [why] if why else []
    silent: list[psutil.Process] = []
    processes = tree(root)
    ours = processes[0].cmdline() if processes else []  # the guardian forks: its second process looks the same
    for process in processes[1:]:
        with contextlib.suppress(psutil.Error, OSError):
            if process.cmdline() == ours:
                continue
            words = " ".join(process.cmdline())[:MOST_WORDS]
            python = "python" in process.name().lower() or "python" in words.partition(" ")[0]
            state = _state(process)  # first: to be looked into is to be stopped for a moment
            found = ask(process.pid) if python and ask else None
            parts.append(f"== pid {process.pid}: {words}\n{state}{found or ''}")
            if python and found is None:
                silent.append(process)
    if silent:
        parts.append(_last_words(silent, log, installed=ask is not None))
    parts += _gpus()
    parts.append(f"== last lines of {log.name}\n" + "".join(f"{line}\n" for line in tail(log, LAST_LINES)))
    return "\n".join(parts)


def py_spy() -> Dump | None:
    """py-spy, where it is installed: beside this interpreter or on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        return None

    def dump(pid: int) -> str | None:
        try:
            done = subprocess.run(
                [program, "dump", "--pid", str(pid)],
                capture_output=True, text=True, timeout=PY_SPY_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout or None

    return dump


def tail(log: Path, lines: int) -> list[str]:
    """The last lines of a log, none when it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - max(16384, 400 * lines)))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []


def _state(process: psutil.Process) -> str:
    """What the kernel says a process does."""
    place = Path(f"/proc/{process.pid}")
    waiting = "unknown"
    with contextlib.suppress(OSError):
        waiting = (place / "wchan").read_text() or "0"
    times, memory = process.cpu_times(), process.memory_info().rss / (1 << 20)
    lines = [
        f"state {process.status()}, {process.num_threads()} threads, {times.user + times.system:.1f} s CPU, "
        f"{memory:,.0f} MiB, waits in {waiting}"
    ]
    with contextlib.suppress(OSError):
        lines += [f"  {line}" for line in (place / "stack").read_text().splitlines()[:12]]
    return "\n".join(lines) + "\n"


def _last_words(processes: Sequence[psutil.Process], log: Path, *, installed: bool) -> str:
    """Ask processes to die with a dump and return what that added to the log."""
    before = log.stat().st_size if log.exists() else 0
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            os.kill(process.pid, signal.SIGABRT)
    end = time.monotonic() + DUMP_WITHIN_S
    while any(map(_lives, processes)) and time.monotonic() < end:
        time.sleep(0.05)
    said = ""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(before)
        said = file.read().decode("utf-8", "replace")
    why = "py-spy may not look into these processes" if installed else "py-spy is not installed: `pip install py-spy`"
    return f"== stacks by faulthandler ({why})\n{said or 'nothing was said'}\n"


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ended between the two questions
        return False


def _gpus() -> Iterator[str]:
    for words in GPU_STATE:
        if shutil.which(words[0]):
            try:
                done = subprocess.run(words, capture_output=True, text=True, timeout=GPU_TIMEOUT_S, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                yield f"== {words[0]}\n{error}\n"
            else:
                yield f"== {words[0]}\n{done.stdout or done.stderr}"
            return
