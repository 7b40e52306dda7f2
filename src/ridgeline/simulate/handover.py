"""KV that one engine hands to another: what it weighs and how long it takes.

A prefill engine offers the blocks of a prompt; a decode engine fetches those that its own cache does not hold, over one
link for each rank, one request after the other, before the request may be admitted (as vLLM's connectors do). Bytes
are those of whole blocks. What the offering engine keeps until it is fetched is not modelled: its blocks are free at
the end of its answer, as after any other.
"""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.core.units import nanoseconds

_COUNTERS = (
    ("kv_offers", "Prompts whose KV was offered to another engine.", "offers"),
    ("kv_offered_bytes", "Bytes of KV that were offered.", "offered"),
    ("kv_transfers", "Requests whose KV was fetched from another engine.", "fetches"),
    ("kv_transfer_bytes", "Bytes of KV that were fetched.", "fetched"),
    ("kv_transfer_seconds", "Simulated seconds that fetches took, waits for the link included.", "seconds"),
)


class Handover:
    """Counts offers and fetches per rank. `bandwidth`: bytes per simulated second into one rank."""

    def __init__(self, ranks: int, block_bytes: int, bandwidth: float) -> None:
        self.block_bytes = block_bytes
        self.bandwidth = bandwidth
        self.offers, self.fetches = [0] * ranks, [0] * ranks
        self.offered, self.fetched = [0] * ranks, [0] * ranks
        self.seconds = [0.0] * ranks
        self._free_ns = [0] * ranks  # when each rank's link is free again

    def offer(self, rank: int, blocks: int) -> int:
        """Blocks that wait for another engine; their bytes."""
        size = blocks * self.block_bytes
        self.offers[rank] += 1
        self.offered[rank] += size
        return size

    def fetch(self, rank: int, blocks: int, now_ns: int) -> int:
        """Bring blocks into a rank from `now_ns` on; the simulated time at which they are there."""
        size = blocks * self.block_bytes
        there = max(now_ns, self._free_ns[rank]) + max(1, nanoseconds(size / self.bandwidth))
        self._free_ns[rank] = there
        self.fetches[rank] += 1
        self.fetched[rank] += size
        self.seconds[rank] += (there - now_ns) / 1e9
        return there

    def lines(self) -> Iterator[str]:
        """Its part of the metrics page."""
        for name, text, own in _COUNTERS:
            full = f"ridgeline:{name}_total"
            yield f"# HELP {full} {text}"
            yield f"# TYPE {full} counter"
            for rank, value in enumerate(getattr(self, own)):
                yield f'{full}{{engine="{rank}"}} {float(value)!r}'
