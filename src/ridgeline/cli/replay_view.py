"""How a running replay is shown: a table that refreshes on a terminal, plain lines in a pipe, events for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from ridgeline.core.point import Point
from ridgeline.core.record import Replay

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from ridgeline.replay.progress import Progress

Summary = Sequence[tuple[str, str, float, str]]  # label, measure, factor, unit
_LINE_EVERY_S = 10.0  # simulated seconds between plain lines, at least


class View(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, progress: Progress) -> None: ...

    def result(self, summary: Summary, point: Point, replay: Replay) -> None: ...


def choose_view(*, as_json: bool) -> View:
    """Events when asked for, a live table when stderr is a terminal, else lines."""
    if as_json:
        return Events()
    return Panel() if sys.stderr.isatty() else Lines()


class Lines:
    """A line each ten simulated seconds on stderr, and when the phase changes; the summary on stdout."""

    def __init__(self) -> None:
        self._phase = ""
        self._next_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, progress: Progress) -> None:
        if progress.phase != self._phase or progress.at_s >= self._next_s:
            self._phase, self._next_s = progress.phase, progress.at_s + _LINE_EVERY_S
            sys.stderr.write(sentence(progress) + "\n")

    def result(self, summary: Summary, point: Point, replay: Replay) -> None:
        for label, name, factor, unit in summary:
            measure = point.measures.get(name)
            if measure is not None:
                value = "-" if measure.value is None else f"{measure.value * factor:,.2f} {unit}"
                sys.stdout.write(f"{label:<14}{value}" + (f"  ({measure.reason})" if measure.reason else "") + "\n")
        sys.stdout.write(f"{'source':<14}{point.source}\n{'validity':<14}{point.validity}\n")
        for reason in point.reasons:
            sys.stderr.write(f"invalid: {reason}\n")
        fatal = {reason.partition(":")[0] for reason in point.reasons}
        for caution in point.cautions:
            if caution.code not in fatal:
                sys.stderr.write(f"caution: {caution.code}: {caution.message}\n")


class Panel(Lines):
    """A table on stderr that refreshes in place."""

    _live: Live

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, value, trace)

    def show(self, progress: Progress) -> None:
        self._live.update(table(progress))


class Events(Lines):
    """JSON lines on stdout."""

    def show(self, progress: Progress) -> None:
        _write({"event": "progress", **asdict(progress)})

    def result(self, summary: Summary, point: Point, replay: Replay) -> None:
        values = {
            name: {"value": measure.value, "unit": measure.unit, "reason": measure.reason}
            for name, measure in point.measures.items()
        }
        _write(
            {
                "event": "result",
                "source": str(point.source),
                "validity": str(point.validity),
                "reasons": list(point.reasons),
                "cautions": [{"code": caution.code, "message": caution.message} for caution in point.cautions],
                "measures": values,
                "health": dict(replay.health),
                "aborted": replay.aborted,
            }
        )


def sentence(progress: Progress) -> str:
    """One line of a log."""
    failed = f", {progress.failed} failed" if progress.failed else ""
    ttft = f"{_ms(progress.ttft_p50_s)} / {_ms(progress.ttft_p99_s)}"
    return (
        f"{progress.at_s:8.1f} s  {progress.phase}: {progress.done} done{failed}, {progress.in_flight} in flight on "
        f"{progress.lanes_in_flight} of {progress.lanes} lanes; TTFT {ttft} (p50 / p99), "
        f"ITL {_ms(progress.itl_p50_s)}, send lag {_ms(progress.send_lag_p99_s)}"
    )


def table(progress: Progress) -> Table:
    """The live view."""
    from rich.table import Table

    grid = Table(title=f"replay: {progress.phase}, {progress.at_s:,.0f} s", title_justify="left", show_header=False)
    rate, tokens = progress.requests_per_s, progress.output_tokens_per_s
    rows = [
        ("lanes busy", f"{progress.lanes_in_flight} of {progress.lanes}"),
        ("requests", f"{progress.done:,} done, {progress.in_flight} in flight, {progress.failed} failed"),
        ("rate", "-" if rate is None or tokens is None else f"{rate:,.2f} requests/s, {tokens:,.0f} output tokens/s"),
        ("TTFT p50 / p99", f"{_ms(progress.ttft_p50_s)} / {_ms(progress.ttft_p99_s)}"),
        ("ITL p50 / p99", f"{_ms(progress.itl_p50_s)} / {_ms(progress.itl_p99_s)}"),
        ("send lag p99", _ms(progress.send_lag_p99_s)),
        *((f"{count} x", message) for message, count in progress.errors.items()),
    ]
    for label, value in rows:
        grid.add_row(label, value)
    return grid


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:,.1f} ms"


def _write(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
    sys.stdout.flush()
