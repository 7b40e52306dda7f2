"""The garbage collector kept out of a measured window."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from walking the loaded sessions and the gathered records in mid-window: what exists
    is frozen, young objects are still collected, and the full collection (tens of milliseconds on a large heap) is put
    off to the end. The client makes no cycles that live longer than a connection."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
