"""Logs of KV stores show what they lost, and nothing where they work."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.launch.engines import read_log, stores

TROUBLE = (
    "E1130 14:00:00.1 7 master_service.cpp:99] [EVICT] PushOffloadingQueue failed for key=a",
    "W1130 14:00:00.1 7 master_service.cpp:99] BatchEvict: OpLog reservation failed for key=a",
    "[2026-11-30 14:00:00] LMCache WARNING: HiddenStateStore: out of HS pool memory after eviction; dropping",
    "[2026-11-30 14:00:00] LMCache ERROR: read lock expired before the retrieve had ended",
    "W1130 14:00:00.1 7 client.cpp:12] lease has expired, key=a",
)
SOUND = (
    "I1130 14:00:00.1 7 master_service.cpp:99] Mem Storage: 1 GB / 2 GB | Eviction: Success/Attempts=3/3",
    "[2026-11-30 14:00:00] LMCache INFO: eviction policy LRU, lease time 7200 s",
    "I1130 14:00:00.1 7 master.cpp:1] eviction_ratio=0.05 default_kv_lease_ttl=5000",
)


@pytest.mark.parametrize("line", TROUBLE)
def test_trouble(line: str, tmp_path: Path) -> None:
    (tmp_path / "store.log").write_text(f"{line}\n")
    (piece,) = read_log(tmp_path / "store.log", stores.SHAPES, stores.PARSER)
    assert (piece.name, piece.parser) == ("store_trouble", "kv-store/1")


def test_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "store.log").write_text("\n".join(SOUND) + "\n")
    assert read_log(tmp_path / "store.log", stores.SHAPES, stores.PARSER) == []
