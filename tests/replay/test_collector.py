from __future__ import annotations

import gc

import pytest

from ridgeline.replay.collector import quiet_collector


@pytest.mark.parametrize("frozen_before", [False, True])
def test_the_collector_is_as_it_was_and_what_others_froze_stays_frozen(frozen_before: bool) -> None:
    kept = gc.get_freeze_count()
    gc.unfreeze()
    try:
        if frozen_before:
            gc.freeze()
        thresholds, count = gc.get_threshold(), gc.get_freeze_count()
        with quiet_collector():
            assert gc.get_freeze_count() > count and gc.get_threshold()[1] > thresholds[1]
        assert gc.get_threshold() == thresholds
        assert (gc.get_freeze_count() > 0) is frozen_before
    finally:
        if kept:
            gc.freeze()
