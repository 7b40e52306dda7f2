"""Layouts as people write them: `TP8`, `TEP8`, `DEP8`, `DPA8+EP8`, `TP8/DPA`, `TP 4, EP 4`, `32 GPU, EP=8`, `TP8x2`,
`DP2TP4`, `TP8DCP4`, `1P1D`, `P1x3/D4x4`, `TP8 host tier`.

    letters   TP tensor parallel, EP expert parallel, PP pipeline, DCP and PCP decode and prefill context parallel
    DP        data-parallel attention over that many GPUs (also DPA, ADP); DEP, TEP: the same or TP, experts spread
    xN, N x   that many equal workers
    a+b       prefill workers and decode workers, as labels of points are written: `TP8x1+DP8EP8x6`
    P.../D... prefill pool and decode pool, `P1x3`: workers of one GPU, three of them; `2P1D`: workers, two and one
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from ridgeline.core.topology import Topology

_SIZE = re.compile(r"(?<!m)(dep|tep|dpa|adp|dcp|pcp|dp|tp|ep|pp)[\s=_:-]*(\d+)", re.IGNORECASE)
_GPUS = re.compile(r"(\d+)\s*(?:x\s*)?gpus?\b", re.IGNORECASE)
_TIMES = re.compile(r"(?:\d|\))\s*[x×*]\s*(\d+)\b|\b(\d+)\s*[x×*]\s*(?=[a-z(])", re.IGNORECASE)
_COUNTS = re.compile(r"^\s*(\d+)\s*p\s*[-+/_:]?\s*(\d+)\s*d\b", re.IGNORECASE)
_POOLS = re.compile(
    r"^\s*p(?:refill)?[\s:]*(?P<p>[^/|]*?\d[^/|]*?)\s*[/|+,;]\s*d(?:ecode)?[\s:]*(?!p|e|c)(?P<d>.*\d.*)$", re.IGNORECASE
)
_BARE = re.compile(r"^(\d+)(?:\s*[x×*]\s*(\d+))?$")
_NODE = 8  # GPUs
MOST_GPUS = 4096  # of a layout, or workers of one
_ATTENTION = re.compile(r"(?<!m)(dep|tep|dpa|adp|dp|tp)[\s=_:-]*\d", re.IGNORECASE)
_TIER = re.compile(r"host tier|hicache|offload|dram|cpu tier|kv tier", re.IGNORECASE)


class Workers(NamedTuple):
    """Equal workers of one layout. `assumed`: what the words do not say and how it was taken."""

    topology: Topology
    workers: int = 1
    assumed: tuple[str, ...] = ()


class Layout(NamedTuple):
    """What answers: workers that do everything, or a prefill pool and one that decodes; a cache tier in host memory."""

    decode: Workers
    prefill: Workers | None = None
    offload: bool = False

    @property
    def assumed(self) -> tuple[str, ...]:
        return (*(self.prefill.assumed if self.prefill else ()), *self.decode.assumed)


def layout_of(words: str, base: Topology | None = None) -> Layout | None:
    """The layout that words describe; None when they describe none. `base`: a worker's layout where the words only
    count workers (`1P1D`)."""
    offload = bool(_TIER.search(words))
    counts = _COUNTS.match(words)
    if counts:
        rest = words[counts.end() :]
        worker = _workers(rest)
        topology = worker.topology if worker else base
        if topology is None:
            return None
        prefill, decode = (Workers(topology, min(MOST_GPUS, max(1, int(counts[which])))) for which in (1, 2))
        return Layout(decode, prefill, offload)
    pools = _POOLS.match(words)
    if pools:
        prefill_pool, decode_pool = _workers(pools["p"]), _workers(pools["d"])
        if prefill_pool is not None and decode_pool is not None:
            return Layout(decode_pool, prefill_pool, offload)
        return None
    halves = words.split("+")
    if len(halves) == 2 and all(_ATTENTION.search(half) for half in halves):  # as our own labels are written
        prefill_pool, decode_pool = _workers(halves[0]), _workers(halves[1])
        return Layout(decode_pool, prefill_pool, offload) if prefill_pool and decode_pool else None
    whole = _workers(words)
    return None if whole is None else Layout(whole, None, offload)


def _workers(words: str) -> Workers | None:
    bare = _BARE.match(words.strip())
    if bare:
        width, count = int(bare[1]), int(bare[2] or 1)
        return Workers(Topology(max(1, width)), count) if max(width, count) <= MOST_GPUS else None
    sizes: dict[str, int] = {}
    for name, size in _SIZE.findall(words):
        if not 1 <= int(size) <= MOST_GPUS:
            return None
        sizes.setdefault(name.lower(), int(size))
    gpus = _GPUS.search(words)
    if not sizes and not gpus:
        return None
    times = _TIMES.search(_GPUS.sub(" ", words))
    count = min(MOST_GPUS, int(times[1] or times[2])) if times else 1
    return _of_sizes(
        sizes,
        min(MOST_GPUS, int(gpus[1])) if gpus else None,
        count,
        spread=bool(re.search(r"\b(dpa|adp|dp[\s-]*attn)\b", words, re.I)),
    )


def _of_sizes(sizes: dict[str, int], gpus: int | None, count: int, *, spread: bool) -> Workers:
    assumed: list[str] = []
    pp, dcp, pcp = (sizes.get(name, 1) for name in ("pp", "dcp", "pcp"))
    tp, ep = sizes.get("tp"), sizes.get("ep", 1)
    ranks = sizes.get("dpa") or sizes.get("adp") or sizes.get("dp")
    if wide := sizes.get("dep"):
        topology = Topology(wide, ep=wide, dp_attn=True)
    elif wide := sizes.get("tep"):
        topology = Topology(wide, ep=wide)
    elif ranks and tp and ranks > 1 and tp not in (1, ranks):
        assumed.append(f"{ranks} data-parallel ranks of {tp} GPUs taken as {ranks} workers")
        topology, count = Topology(tp, ep=min(ep, tp)), count * ranks
    elif ranks and ranks > 1:
        topology = Topology(ranks, ep=ep, dp_attn=True)
    elif tp:
        topology = Topology(tp, ep=ep, dp_attn=spread and tp > 1)
    elif ep > 1:
        assumed.append(f"attention of {ep} GPUs with spread experts taken as data-parallel")
        topology = Topology(ep, ep=ep, dp_attn=True)
    else:
        width = gpus or 1
        if width > _NODE:  # several workers: of the widest that a node holds and that divides them
            width = max(size for size in range(1, _NODE + 1) if width % size == 0)
            assumed.append(f"{gpus} GPUs taken as workers of {width}")
        topology = Topology(width)
    topology = replace(topology, pp=pp, dcp=dcp, pcp=pcp)
    if gpus and gpus != topology.gpus * count:
        if gpus % topology.gpus == 0:
            count = gpus // topology.gpus
        else:
            assumed.append(f"{gpus} GPUs taken as one worker")
            topology, count = replace(topology, tp=gpus, ep=gpus if topology.ep > 1 else 1, pp=1, pcp=1), 1
    return Workers(topology, count, tuple(assumed))
