from __future__ import annotations

from typing import Any

import pytest

from ridgeline.publish.charts.words import heading, plain


@pytest.mark.parametrize(
    ("key", "text"),
    [("warmup_per_lane", "Warmup per lane"), ("duration_s", "Duration, s"), ("host.cpus", "Host · cpus"), ("", "")],
)
def test_headings(key: str, text: str) -> None:
    assert heading(key) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not recorded"),
        (True, "yes"),
        (0, "0"),
        ([1, "a"], "1, a"),
        ({"tp": 2, "dp_attn": False, "ep": None, "more": {"x": 0.5}}, "tp 2 · more x 0.5"),
    ],
)
def test_values(value: Any, text: str) -> None:
    assert plain(value) == text
