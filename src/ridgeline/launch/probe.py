"""What a node has before anything is started on it: disk, shared memory, memory that may be locked, GPUs with their
links, network links, ports in use.

In: nothing but the machine. Out: facts that are stored with every point, and what would make a start fail. A value that
cannot be had is None. Seconds, not minutes: nothing is loaded or measured here.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.units import GIB, MIB

LEAST_SHM = 64 * MIB  # engines hand tensors over in /dev/shm; the default of container engines is this
LEAST_MEMLOCK = 1 << 30  # registering KV for RDMA locks it
QUERY_S = 10.0
NVLINK = ("nvidia-smi", "nvlink", "--status")
NVIDIA = ("nvidia-smi", "--query-gpu=name,memory.total,memory.free,temperature.gpu", "--format=csv,noheader,nounits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as its driver tells. MiB and degrees Celsius."""

    name: str
    total_mib: int
    free_mib: int
    celsius: int | None


class Link(NamedTuple):
    """A link of a node: an NVLink of a GPU, or a port of a network card. `up`: it carries data."""

    name: str
    up: bool
    text: str  # rate or state, as told


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Facts of this machine. Bytes. `memlock` None: no limit. `gpus` None: no driver answered. `listening`: TCP ports
    that servers have taken."""

    host: str
    cpus: int
    memory: int
    memory_free: int
    disk_free: int
    shm_free: int | None
    memlock: int | None
    gpus: tuple[Gpu, ...] | None
    links: tuple[Link, ...] = ()
    listening: tuple[int, ...] = ()

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
        links=(*parse_nvlink((ask or _ask)(NVLINK) or ""), *network_links()),
        listening=listening_ports(),
    )


def node_from(plain: Mapping[str, Any]) -> Node:
    """The facts that `Node.plain` made, after a way as JSON."""
    gpus = plain["gpus"]
    more = {"links": tuple(Link(*link) for link in plain["links"]), "listening": tuple(plain["listening"])}
    return Node(**{**plain, **more, "gpus": None if gpus is None else tuple(Gpu(**gpu) for gpu in gpus)})


def parse_nvidia(text: str) -> tuple[Gpu, ...]:
    """Rows of nvidia-smi's CSV; rows that are not understood are left out."""
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 4 and words[1].isdigit() and words[2].isdigit():
            heat = int(words[3]) if words[3].isdigit() else None
            found.append(Gpu(name=words[0], total_mib=int(words[1]), free_mib=int(words[2]), celsius=heat))
    return tuple(found)


def parse_nvlink(text: str) -> tuple[Link, ...]:
    """Links of `nvidia-smi nvlink --status`: `Link 3: 26.562 GB/s` or `Link 3: <inactive>` under each `GPU n:`."""
    found = []
    gpu = "GPU"
    for line in text.splitlines():
        if match := re.match(r"(GPU \d+):", line):
            gpu = match[1]
        elif match := re.match(r"\s+(Link \d+): (.+)", line):
            found.append(Link(f"{gpu} {match[1]}", "inactive" not in match[2], match[2].strip()))
    return tuple(found)


def network_links(root: Path = Path("/sys/class/infiniband")) -> tuple[Link, ...]:
    """Ports of RDMA cards, InfiniBand and RoCE, as the kernel tells: `4: ACTIVE`, `400 Gb/sec (4X NDR)`."""
    found = []
    for port in sorted(root.glob("*/ports/*")):
        try:
            state, rate = (port / "state").read_text().strip(), (port / "rate").read_text().strip()
        except OSError:
            continue
        found.append(Link(f"{port.parent.parent.name}/{port.name}", state.endswith("ACTIVE"), f"{state}, {rate}"))
    return tuple(found)


def listening_ports(tables: tuple[str, ...] = ("/proc/net/tcp", "/proc/net/tcp6")) -> tuple[int, ...]:
    """TCP ports that somebody listens on (state 0A in the kernel's table)."""
    found: set[int] = set()
    for table in tables:
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        found |= {int(row.split()[1].rpartition(":")[2], 16) for row in rows if row.split()[3] == "0A"}
    return tuple(sorted(found))


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
    nvlinks = [link for link in node.links if link.name.startswith("GPU")]
    dark = [link.name for link in nvlinks if not link.up]
    if dark and len(dark) < len(nvlinks) and _is_real(deployment):  # all dark: no bridge, which is no fault
        wrong.append(f"{len(dark)} of {len(nvlinks)} NVLinks are inactive ({', '.join(dark[:3])})")
    moves_kv = {service.role for service in deployment.services} & {"prefill", "decode", "cache"}
    if moves_kv and _is_real(deployment):
        if node.memlock is not None and node.memlock < LEAST_MEMLOCK:
            wrong.append(f"only {node.memlock / MIB:.0f} MiB may be locked in memory (`ulimit -l`), and KV is moved")
        network = [link for link in node.links if link not in nvlinks]
        if network and not any(link.up for link in network) and any(service.node for service in deployment.services):
            wrong.append(f"no network link is up ({network[0].name}: {network[0].text})")
    taken = sorted(set(fixed_ports(deployment)) & set(node.listening))
    if taken:
        wrong.append(f"port {', '.join(map(str, taken))} is taken, and the recipe names it")
    if wrong:
        raise EnvironmentFailed(
            f"node {node.host} is not fit: {'; '.join(wrong)}", hint="free it, or run on another node"
        )


def fixed_ports(deployment: Deployment) -> Iterator[int]:
    """Ports that argv names as numbers instead of by symbol: `--port 8000`, `--http-port=8000`."""
    for service in deployment.services:
        words = [item.text for item in service.argv]
        for word, following in zip(words, (*words[1:], ""), strict=False):
            flag, glued, value = word.partition("=")
            if flag.startswith("-") and flag.endswith("port"):
                text = value if glued else following
                if text.isdecimal() and int(text):
                    yield int(text)


def _is_real(deployment: Deployment) -> bool:
    return deployment.kind != "emulated"


def _ask(words: tuple[str, ...]) -> str | None:
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(
            list(words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=QUERY_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None
