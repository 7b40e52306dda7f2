"""What staging reports back is checked field by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.publish.gate.kit import write_policy

from ridgeline.cli.main import main
from ridgeline.core.errors import InputError
from ridgeline.publish.staging.callback import read_callback, text

GOOD: dict[str, Any] = {
    "type": "completed",
    "repository": "acme/bench",
    "pr-number": 7,
    "run-id": 500,
    "run-attempt": 2,
    "date": "2026-08-21",
    "requester": "ann",
    "comment-id": 9,
    "success": True,
}


def test_started_and_completed() -> None:
    assert text(read_callback(GOOD, "acme/bench")) == "Staging run 500 (attempt 2) of 2026-08-21 is done.\n"
    assert "failed" in text(read_callback(GOOD | {"success": False}, "acme/bench"))
    started = read_callback(GOOD | {"type": "started", "success": None}, "acme/bench")
    assert started.success is None and "has started" in text(started)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("repository", "mallory/bench"),
        ("repository", "../x"),
        ("type", "done"),
        ("pr-number", "7"),
        ("run-id", -1),
        ("run-attempt", 0),
        ("date", "2026-8-21"),
        ("date", "2026-02-31"),
        ("date", "2026-08-21\n"),
        ("requester", "ann; rm"),
        ("requester", ""),
        ("comment-id", None),
        ("success", "true"),
    ],
)
def test_anything_else_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        read_callback(GOOD | {name: value}, "acme/bench")
    assert [problem.key for problem in caught.value.problems] == [name]


def test_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"action": "staged", "client_payload": GOOD}))
    assert main(["pr", "callback", "--event", str(event), "--policy", str(write_policy(tmp_path))]) == 0
    assert "is done" in capsys.readouterr().out
    event.write_text(json.dumps({"client_payload": [1]}))
    assert main(["pr", "callback", "--event", str(event), "--policy", str(write_policy(tmp_path))]) == 2
