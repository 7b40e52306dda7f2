"""Usage errors name what was given."""

from __future__ import annotations

import pytest

from ridgeline.cli.main import main

URL = ["replay", "--url", "http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--duration", "abc"], "error: `abc` for --duration should be a valid number\n"),
        (["--workers=3x"], "error: `3x` for --workers should be a valid integer\n"),
        (["--duration"], "error: Option '--duration' requires an argument\n"),
        (["--no-such"], "error: No such option: --no-such\n"),
    ],
)
def test_a_value_that_cannot_be_read_is_told(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*URL, *more]) == 2
    told = capsys.readouterr().err
    assert told.startswith(said) and "hint: `ridgeline replay --help`" in told
