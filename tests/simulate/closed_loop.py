"""Replays of closed loops that other tests compare."""

from __future__ import annotations

from ridgeline.core.topology import Topology
from ridgeline.engine.options import options_from
from ridgeline.simulate.closedloop import ClosedLoop, GrowingPrompts
from ridgeline.simulate.engine import engine_of
from ridgeline.simulate.virtual import Pools, simulate

__all__ = ["ClosedLoop", "GrowingPrompts", "told"]


def told() -> str:
    """Small replays of every kind, everything that could differ between processes written out."""
    two = Topology(2, dp_attn=True)
    drafting = {"num_speculative_tokens": 3, "acceptance_length": 2.3, "router": "cache-aware"}
    texts = []
    for more in ({"topology": two}, {"topology": two, **drafting}, {"host_kv_tokens": 40_000}, {"pools": True}):
        pools, topology = more.pop("pools", False), more.pop("topology", Topology(1))
        options = options_from("qwen3-0.6b", "h200", topology, kv_tokens=5000, **more)
        engines = [engine_of(options, lazy=True) for _ in range(3)]
        pacer = ClosedLoop(3, 4, 900, 300, 20, 30_000_000)
        engine = Pools(tuple(engines[:1]), tuple(engines[1:])) if pools else engines[0]
        replay = simulate(pacer, GrowingPrompts(pacer), options, engine=engine)
        texts.append(repr([(record.chunk_ns, record.cached_tokens) for record in replay.records]))
        texts.append(repr(replay.samples))
    return "\n".join(texts)
