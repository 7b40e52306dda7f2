"""The garbage collector kept out of a measured window."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from walking the loaded sessions and the gathered records in mid-window: what exists
    is frozen, and of what is made, only the last thousand objects are looked at, once. That takes half a millisecond;
    ten thousand take five to eight (measured: they hold the arrivals of whole answers), which would be late stamps, and
    a full collection tens. The client makes no cycles that live longer than a connection. What somebody else froze
    stays frozen."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000, 1_000_000, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not frozen:
            gc.unfreeze()
