"""Documents name their format and version; older ones are migrated step by step, newer ones refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from ridgeline.core.errors import InputError
from ridgeline.results.formats import Format


@dataclass(frozen=True)
class Body:
    ttft_s: float
    label: str


def rename(body: dict[str, Any]) -> dict[str, Any]:
    return {"ttft_ms": body["ttft"]}


def to_seconds(body: dict[str, Any]) -> dict[str, Any]:
    return {"ttft_s": body["ttft_ms"] / 1000, "label": "old"}


THIRD = Format("test.body", 3, {1: rename, 2: to_seconds})


def at_version(version: object, body: object) -> bytes:
    return json.dumps({"format": "test.body", "version": version, "body": body}).encode()


def test_round_trip_and_every_older_version() -> None:
    assert THIRD.decode(THIRD.encode(Body(0.5, "é")), Body, "f") == Body(0.5, "é")
    assert THIRD.decode(at_version(1, {"ttft": 500}), Body, "f") == Body(0.5, "old")
    assert THIRD.decode(at_version(2, {"ttft_ms": 250}), Body, "f") == Body(0.25, "old")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (at_version(4, {}), "version 4; this Ridgeline reads up to 3"),
        (at_version(0, {}), "no version"),
        (at_version(True, {}), "no version"),
        (at_version(3, []), "no version or body"),
        (at_version(3, {"ttft_s": "fast", "label": "x"}), "not a valid test.body"),
        (b'{"format": "other", "version": 3, "body": {}}', "not a test.body document"),
        (b"[]", "not a test.body document"),
        (b'{"format": "test.body", "version": 3, "body": {"ttft_s": NaN, "label": ""}}', "NaN is not JSON"),
        (b"{", "not a JSON document"),
    ],
)
def test_refusals_name_the_file_and_the_reason(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        THIRD.decode(data, Body, "some/point.json")
    assert "some/point.json" in str(caught.value)


def test_nan_is_not_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        THIRD.encode(Body(float("nan"), "x"))
