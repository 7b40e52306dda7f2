"""Cgroups that hold services where PID namespaces are not allowed, and the sweep of what a killed run left in them.

A group is named after its owner, PID and start time, so that the next start on this machine tells groups of the living
from those of the dead. Only cgroup v2 is used: its groups are killed as a whole. Where none can be made, there is none.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from pathlib import Path

PREFIX = "ridgeline-"
_NAME = re.compile(r"ridgeline-(\d+)-(\d+)-\d+\Z")
_COUNT = itertools.count()
EMPTY_WITHIN_S = 2.0


def own_group(mountinfo: str | None = None, membership: str | None = None) -> Path | None:
    """The cgroup v2 folder that this process is in; None where there is none. Texts of /proc/self for tests."""
    mounts = _text("/proc/self/mountinfo") if mountinfo is None else mountinfo
    groups = _text("/proc/self/cgroup") if membership is None else membership
    place = next((line.split(" ")[4] for line in mounts.splitlines() if " - cgroup2 " in line), None)
    path = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), None)
    return Path(place) / path.lstrip("/") if place and path is not None else None


def new_group(parent: Path | None = None) -> Path | None:
    """A new, empty group of ours; None where the kernel does not let us."""
    above = parent or own_group()
    if above is None:
        return None
    group = above / f"{PREFIX}{os.getpid()}-{_started(os.getpid())}-{next(_COUNT)}"
    try:
        group.mkdir()
    except OSError:
        return None
    return group


def sweep_groups(parent: Path | None = None) -> list[str]:
    """Kill what is left in groups whose owner is dead, and remove them; returns the names of those that held
    processes."""
    above = parent or own_group()
    found = []
    for group in sorted(above.glob(f"{PREFIX}*")) if above else []:
        match = _NAME.match(group.name)
        if match is None or _started(int(match[1])) == int(match[2]):
            continue
        if members(group):
            found.append(group.name)
            kill_group(group)
        remove_group(group)
    return found


def kill_group(group: Path) -> None:
    """Kill every process of a group and wait until it is empty, for a while."""
    end = time.monotonic() + EMPTY_WITHIN_S
    while (left := members(group)) and time.monotonic() < end:
        try:
            (group / "cgroup.kill").write_text("1")
        except OSError:  # a kernel before 5.14
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, 9)
        time.sleep(0.01)


def remove_group(group: Path) -> None:
    """Remove an empty group; one that is not empty stays for the next sweep."""
    with contextlib.suppress(OSError):
        group.rmdir()


def members(group: Path) -> list[int]:
    """PIDs in a group."""
    return [int(line) for line in _text(str(group / "cgroup.procs")).split()]


def _started(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None for one that is gone."""
    try:
        return int(_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
    except (IndexError, ValueError):
        return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
