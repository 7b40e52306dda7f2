"""How a running replay is shown: a table on a terminal, lines in a pipe, events for machines."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from ridgeline.cli.replay_view import Events, Lines, Panel, choose_view, sentence, table
from ridgeline.replay.progress import Progress


def progress(**changes: object) -> Progress:
    plain: dict[str, object] = {
        "at_s": 12.0, "phase": "profiling", "lanes": 8, "lanes_in_flight": 5, "in_flight": 7, "sent": 110, "done": 103,
        "outcomes": {"ok": 100, "http_error": 2, "cancelled": 1}, "output_tokens": 5000, "requests_per_s": 8.5,
        "output_tokens_per_s": 410.0, "ttft_p50_s": 0.05, "ttft_p99_s": 0.25, "itl_p50_s": 0.01, "itl_p99_s": None,
        "send_lag_p99_s": 0.0004, "errors": {"http_error: HTTP 500: boom": 2},
    }  # fmt: skip
    return Progress(**(plain | changes))  # type: ignore[arg-type]


def test_the_table_has_phase_lanes_rates_latencies_lag_and_errors() -> None:
    console = Console(file=io.StringIO(), width=110)
    console.print(table(progress()))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("profiling", "5 of 8", "7 in flight, 2 failed", "8.50 requests/s", "410 output tokens/s"):
        assert part in text
    for part in ("50.0 ms / 250.0 ms", "10.0 ms / -", "0.4 ms", "2 x", "HTTP 500: boom"):
        assert part in text
    console.print(table(progress(requests_per_s=None, ttft_p50_s=None)))


def test_lines_come_every_ten_seconds_and_with_each_phase(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines() as view:
        for at in (0.0, 1.0, 9.0, 10.5, 11.0):
            view.show(progress(at_s=at))
        view.show(progress(at_s=11.5, phase="drain"))
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.err.splitlines()] == ["0.0", "10.5", "11.5"] and told.out == ""
    assert "2 failed" in sentence(progress()) and "failed" not in sentence(progress(outcomes={"ok": 1}))


def test_a_pipe_gets_lines_and_machines_get_events(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert type(choose_view(as_json=False)) is Lines and isinstance(choose_view(as_json=True), Events)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert isinstance(choose_view(as_json=False), Panel)
    choose_view(as_json=True).show(progress())
    event = json.loads(capsys.readouterr().out)
    assert (event["event"], event["in_flight"], event["errors"]) == ("progress", 7, {"http_error: HTTP 500: boom": 2})


def test_the_panel_draws_while_it_runs_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Panel() as view:
        view.show(progress())
    assert capsys.readouterr().out == ""
