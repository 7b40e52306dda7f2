"""The alarm on the event loop: once, not early, and without a timerfd too."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from ridgeline.core.alarm import Alarm


def test_the_alarm_rings_once_and_not_early() -> None:
    async def main() -> tuple[list[int], int, int]:
        loop = asyncio.get_running_loop()
        rung: list[int] = []
        alarm = Alarm(loop, lambda: rung.append(time.monotonic_ns()))
        due = time.monotonic_ns() + 2_300_000
        alarm.set(due - 1_000_000)
        alarm.set(due)  # replaces the earlier time
        await asyncio.sleep(0.02)
        once = len(rung)
        alarm.set(1)  # long past: soon
        await asyncio.sleep(0.01)
        alarm.set(time.monotonic_ns() + 5_000_000)
        alarm.set(None)
        await asyncio.sleep(0.02)
        alarm.close()
        return rung, once, due

    rung, once, due = uvloop.run(main())
    assert once == 1 and len(rung) == 2 and rung[0] >= due


def test_the_alarm_without_timerfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "other")

    async def main() -> int:
        rung: list[int] = []
        alarm = Alarm(asyncio.get_running_loop(), lambda: rung.append(1))
        alarm.set(time.monotonic_ns() + 1_000_000)
        await asyncio.sleep(0.02)
        alarm.set(None)
        alarm.close()
        return len(rung)

    assert asyncio.run(main()) == 1
