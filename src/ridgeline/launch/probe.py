"""What a node has before anything is started on it: disk, shared memory, memory that may be locked, GPUs.

In: nothing but the machine. Out: facts that are stored with every point, and what would make a start fail. A value that
cannot be had is None. Seconds, not minutes: nothing is loaded or measured here.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.units import GIB, MIB

LEAST_SHM = 64 * MIB  # engines hand tensors over in /dev/shm; the default of container engines is this
QUERY_S = 10.0
NVIDIA = ("nvidia-smi", "--query-gpu=name,memory.total,memory.free,temperature.gpu", "--format=csv,noheader,nounits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as its driver tells. MiB and degrees Celsius."""

    name: str
    total_mib: int
    free_mib: int
    celsius: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Facts of this machine. Bytes. `memlock` None: no limit. `gpus` None: no driver answered."""

    host: str
    cpus: int
    memory: int
    memory_free: int
    disk_free: int
    shm_free: int | None
    memlock: int | None
    gpus: tuple[Gpu, ...] | None

    def plain(self) -> dict[str, object]:
        """For storing."""
        return asdict(self)


def probe(folder: Path, ask: Callable[[tuple[str, ...]], str | None] | None = None) -> Node:
    """Facts of this machine; `folder`: where results will lie."""
    memory = psutil.virtual_memory()
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    said = (ask or _ask)(NVIDIA)
    return Node(
        host=os.uname().nodename,
        cpus=os.cpu_count() or 1,
        memory=memory.total,
        memory_free=memory.available,
        disk_free=shutil.disk_usage(folder).free,
        shm_free=shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else None,
        memlock=None if soft == resource.RLIM_INFINITY else soft,
        gpus=None if said is None else parse_nvidia(said),
    )


def parse_nvidia(text: str) -> tuple[Gpu, ...]:
    """Rows of nvidia-smi's CSV; rows that are not understood are left out."""
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 4 and words[1].isdigit() and words[2].isdigit():
            heat = int(words[3]) if words[3].isdigit() else None
            found.append(Gpu(name=words[0], total_mib=int(words[1]), free_mib=int(words[2]), celsius=heat))
    return tuple(found)


def refuse_unfit(node: Node, deployment: Deployment) -> None:
    """Raise EnvironmentFailed for what would make any start of `deployment` fail on this node. The disk is not judged:
    what a cell will write is not known, and a full disk loses no finished cell."""
    wrong = []
    if node.shm_free is not None and node.shm_free < LEAST_SHM and _is_real(deployment):
        wrong.append(f"{node.shm_free / MIB:.0f} MiB are free in /dev/shm")
    busy = [gpu for gpu in node.gpus or () if gpu.free_mib < gpu.total_mib / 2]
    if busy and _is_real(deployment):
        used = ", ".join(f"{gpu.name} {(gpu.total_mib - gpu.free_mib) * MIB / GIB:.0f} GiB" for gpu in busy)
        wrong.append(f"more than half of the memory of {len(busy)} GPUs is in use ({used})")
    if wrong:
        raise EnvironmentFailed(
            f"node {node.host} is not fit: {'; '.join(wrong)}", hint="free it, or run on another node"
        )


def _is_real(deployment: Deployment) -> bool:
    return deployment.kind != "emulated"


def _ask(words: tuple[str, ...]) -> str | None:
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(list(words), capture_output=True, text=True, timeout=QUERY_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None
