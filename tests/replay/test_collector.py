from __future__ import annotations

import pytest

from ridgeline.replay import collector


class Collector:
    """Stands for `gc`: what is asked of it, and what is frozen."""

    def __init__(self, frozen: int) -> None:
        self.frozen = frozen
        self.thresholds: tuple[int, ...] = (700, 10, 10)
        self.asked: list[str] = []

    def get_threshold(self) -> tuple[int, ...]:
        return self.thresholds

    def set_threshold(self, *values: int) -> None:
        self.thresholds = values

    def get_freeze_count(self) -> int:
        return self.frozen

    def collect(self) -> None:
        self.asked.append("collect")

    def freeze(self) -> None:
        self.asked.append("freeze")

    def unfreeze(self) -> None:
        self.asked.append("unfreeze")


@pytest.mark.parametrize(("frozen", "afterwards"), [(0, ["unfreeze"]), (5, [])])
def test_the_collector_is_as_it_was_and_what_others_froze_stays_frozen(
    frozen: int, afterwards: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = Collector(frozen)
    monkeypatch.setattr(collector, "gc", stand_in)
    with collector.quiet_collector():
        assert stand_in.asked == ["collect", "freeze"] and stand_in.thresholds[1] > 10
    assert stand_in.asked == ["collect", "freeze", *afterwards] and stand_in.thresholds == (700, 10, 10)
