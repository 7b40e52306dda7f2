"""How a running sweep is shown: a live panel on a terminal, plain lines in a pipe, events for machines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from ridgeline.core.point import Point
from ridgeline.sweep.events import Event

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

MILLI = 1e3


class View(Protocol):
    """A context that is told every event."""

    def __call__(self, event: Event) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def choose_view(*, as_json: bool) -> View:
    """Events when asked for, a live panel when stderr is a terminal, else lines."""
    if as_json:
        return Machine(sys.stdout)
    return Panel() if sys.stderr.isatty() else Lines(sys.stderr)


class Lines:
    """One line a finished cell: what fits a log."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, event: Event) -> None:
        if line := sentence(event):
            self._out.write(line + "\n")
            self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Machine(Lines):
    """JSON lines on stdout: every event, progress included."""

    def __call__(self, event: Event) -> None:
        data: dict[str, object] = {"event": event.kind, "index": event.index, "total": event.total}
        data |= {"cell": event.cell.name} if event.cell else {}
        data |= {"text": event.text} if event.text else {}
        if event.progress is not None:
            data["progress"] = {name: getattr(event.progress, name) for name in event.progress.__dataclass_fields__}
        if event.point is not None:
            data["measures"] = {name: measure.value for name, measure in event.point.measures.items()}
        self._out.write(json.dumps(data, default=dict) + "\n")
        self._out.flush()


class Panel:
    """A live panel on stderr: the cell under way with its numbers so far; finished cells scroll by above it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._now = now
        self._began = now()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.live import Live

        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        assert self._live is not None
        if line := sentence(event):
            self._console.print(line, style="red" if event.kind == "failed" else None, markup=False)
        if event.cell is not None:
            self._live.update(self._panel(event))

    def _panel(self, event: Event) -> Table:
        from rich.table import Table

        assert event.cell is not None
        table = Table.grid(padding=(0, 2))
        title = f"cell {event.index} of {event.total}  {event.title}"
        table.add_row(title, f"{self._now() - self._began:.0f} s", style="bold")
        progress = event.progress
        if progress is None:
            table.add_row(f"{event.kind} {event.text}", "")
            return table
        rate = _unit(progress.output_tokens_per_s, "tok/s", 1.0)
        table.add_row(
            f"{progress.phase}  {progress.at_s:,.0f} s  {progress.lanes} lanes, {progress.in_flight} in flight", rate
        )
        table.add_row(
            f"{progress.done:,} answers, {progress.failed} failed  "
            f"TTFT p50 {_unit(progress.ttft_p50_s, 'ms', MILLI)}  ITL p50 {_unit(progress.itl_p50_s, 'ms', MILLI)}",
            f"lag p99 {_unit(progress.send_lag_p99_s, 'ms', MILLI)}",
        )
        return table


def sentence(event: Event) -> str:
    """The line an event is worth in a log; empty for most."""
    if event.cell is None:
        return event.text
    head = f"[{event.index}/{event.total}] {event.title}"
    if event.kind == "skip":
        return f"{head}: finished before, skipped"
    if event.kind == "failed":
        return f"{head}: FAILED in {event.text}"
    if event.kind == "done" and event.point is not None:
        return f"{head}: {_figures(event.point)}"
    if event.kind == "done" and event.text:
        return f"{head}: {event.text}"
    if event.kind == "left":
        return f"{head}: left out, {event.text}"
    if event.kind == "chosen":
        return f"{head}: {event.text}"
    return ""


def _figures(point: Point) -> str:
    shown = (
        ("throughput_per_gpu.total", "tok/s/GPU total", 1.0),
        ("interactivity.p50", "tok/s/user p50", 1.0),
        ("ttft.p50", "ms TTFT p50", MILLI),
        ("server_cache_hit", "cache hit", 1.0),
    )
    parts = [_unit(point.value(name), unit, factor) for name, unit, factor in shown]
    state = "" if point.validity == "valid" else f"  {point.validity}: {'; '.join(point.reasons)}"
    state += f"  [{', '.join(caution.code for caution in point.cautions)}]" if point.cautions else ""
    return f"{point.source}  " + "  ".join(part for part in parts if part != "-") + state


def _unit(value: float | None, unit: str, factor: float) -> str:
    """`value` x `factor` with its unit, `-` when there is none."""
    if value is None:
        return "-"
    scaled = value * factor
    return f"{scaled:,.0f} {unit}" if abs(scaled) >= 100 else f"{scaled:.3g} {unit}"
