"""The infinite cache: how many leading blocks of each prompt any earlier prompt of the session already held."""

from __future__ import annotations

from collections.abc import Iterable

from ridgeline.trace.blocks import BlockIds

DENSE_IDS = 1 << 24  # below this a byte per possible id is cheaper than a set


def infinite_cache_hits(prompts: Iterable[BlockIds]) -> list[int]:
    """Leading blocks already seen, for each prompt in the order of sending."""
    prompts = list(prompts)
    largest = max((int(p.numpy().max()) for p in prompts if len(p)), default=0)
    smallest = min((int(p.numpy().min()) for p in prompts if len(p)), default=0)
    if smallest >= 0 and largest < DENSE_IDS:
        return _dense(prompts, largest)
    seen: set[int] = set()
    hits = []
    for prompt in prompts:
        hits.append(next((i for i, block in enumerate(prompt) if block not in seen), len(prompt)))
        seen.update(prompt)
    return hits


def _dense(prompts: list[BlockIds], largest: int) -> list[int]:
    import numpy as np

    seen = np.zeros(largest + 1, dtype=bool)
    known: dict[int, int] = {}  # shared array -> how many of its ids have been seen
    hits = []
    for prompt in prompts:
        done = min(known.get(id(prompt.base), 0), len(prompt))
        fresh = prompt.numpy()[done:]
        have = seen[fresh]
        first = int(have.argmin()) if len(have) else 0
        hits.append(done + (first if len(have) and not have[first] else len(have)))
        seen[fresh] = True
        known[id(prompt.base)] = max(known.get(id(prompt.base), 0), len(prompt))
    return hits
