"""Statistics against a hand-made session, and the known figures of the public set."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import golden
from tests.trace.making import call, marker, weka, write

from ridgeline.trace import load
from ridgeline.trace.stats import distribution, hit_rate, statistics


def test_figures_of_a_session_counted_by_hand(tmp_path: Path) -> None:
    record = weka(
        [
            call(0, [1, 2], out=30),
            marker(1.5, [call(0, [8], out=5), call(2, [8, 9], out=5)], duration_ms=4000),
            call(10, [1, 2, 3], out=20),
            call(20, [1, 2, 3, 4], out=0, api_time=3),
        ]
    )
    found = statistics(load(write(tmp_path / "t.jsonl", record)))
    assert (found["sessions"], found["requests"], found["branches"], found["background_branches"]) == (1, 5, 1, 0)
    assert found["conversations"] == {"root": 1, "subagent": 1}
    assert (found["subagent_turns"]["mean"], found["requests_outside_subagents"]["mean"]) == (2, 3)
    assert found["gap_s"]["mean"] == 9.0
    assert found["length_min"]["max"] == pytest.approx(23 / 60)
    assert found["peak_context_tokens"]["max"] == 257
    assert found["unique_blocks"]["max"] == 6
    assert found["hit_rate"] == pytest.approx((0 + 0 + 1 + 2 + 3) / 12)
    assert found["input_output_ratio"] == pytest.approx(64 * 12 / 60)
    assert hit_rate(load(tmp_path / "t.jsonl").sessions[0]) == found["hit_rate"]


def test_nothing_to_describe_is_not_zero(tmp_path: Path) -> None:
    assert distribution([]) is None
    found = statistics(load(write(tmp_path / "t.jsonl", {"input_length": 5, "output_length": 1})))
    assert (found["gap_s"], found["server_s"], found["hit_rate"], found["length_min"]) == (None, None, None, None)


def test_the_public_files_have_their_known_shape() -> None:
    found = statistics(load(golden("traces/weka/files")))
    assert found["sessions"] == 13
    assert found["subagent_clock"] == "relative"
    assert found["input_output_ratio"] > 50
    assert found["hit_rate_by_session"]["p50"] > 0.8
