"""Cells packed into walltimes: which cells one job runs, and which no job could.

In: groups of cells that share an engine start, what each will take, and the walltime of a job. Out: bundles, none
longer than the walltime, and the cells that do not fit alone, each with its arithmetic. A group that is too long is
split, and every part pays its own start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ridgeline.core.errors import InputError, Problem
from ridgeline.sweep.groups import Group, HasDeployment
from ridgeline.sweep.times import Times

RESERVE = 0.05  # of the walltime: to stop engines and store what was measured

T = TypeVar("T", bound=HasDeployment)


class Bundle(NamedTuple, Generic[T]):
    """Parts of groups that one job runs one after the other, and what they will take."""

    parts: tuple[Group[T], ...]
    seconds: float

    @property
    def members(self) -> list[tuple[int, T]]:
        """Cells in the order they run."""
        return [member for part in self.parts for member in part.members]


class TooLong(NamedTuple, Generic[T]):
    """A cell that no job of this walltime can run. `why` is the arithmetic."""

    at: int  # place in the sweep, from 1
    item: T
    why: str


class Packed(NamedTuple, Generic[T]):
    """Bundles in the order of their first cells."""

    bundles: list[Bundle[T]]
    refused: list[TooLong[T]]


def packed(
    groups: Sequence[Group[T]],
    expect: Callable[[T], Times],
    walltime_s: float | None,
    *,
    together: Callable[[T], object] | None = None,
) -> Packed[T]:
    """`walltime_s` None: no limit, so each group is a bundle. `together`: a key; groups of equal keys may share a job
    (first fit, the longest first), while without it every bundle holds one engine start only."""
    limit = None if walltime_s is None else walltime_s * (1 - RESERVE)
    parts: list[Bundle[T]] = []
    refused: list[TooLong[T]] = []
    for group in groups:
        found, own = _split(group, expect, limit)
        parts += found
        refused += own
    if together is not None and limit is not None:
        parts = _joined(parts, limit, together)
    return Packed(sorted(parts, key=lambda bundle: bundle.members[0][0]), refused)


def _split(
    group: Group[T], expect: Callable[[T], Times], limit: float | None
) -> tuple[list[Bundle[T]], list[TooLong[T]]]:
    found: list[Bundle[T]] = []
    refused: list[TooLong[T]] = []
    open_: list[tuple[int, T]] = []
    spent = 0.0
    for index, item in group.members:
        times = expect(item)
        if limit is not None and times.start_s + times.cell_s > limit:
            refused.append(TooLong(index, item, arithmetic(times, limit)))
            continue
        if open_ and limit is not None and spent + times.cell_s > limit:
            found.append(Bundle((Group(group.deployment, open_),), spent))
            open_ = []
        if not open_:
            spent = times.start_s
        open_ = [*open_, (index, item)]
        spent += times.cell_s
    if open_:
        found.append(Bundle((Group(group.deployment, open_),), spent))
    return found, refused


def _joined(parts: Sequence[Bundle[T]], limit: float, key: Callable[[T], object]) -> list[Bundle[T]]:
    jobs: list[Bundle[T]] = []
    for part in sorted(parts, key=lambda bundle: (-bundle.seconds, bundle.members[0][0])):
        own = key(part.members[0][1])
        for place, job in enumerate(jobs):
            if key(job.members[0][1]) == own and job.seconds + part.seconds <= limit:
                jobs[place] = Bundle((*job.parts, *part.parts), job.seconds + part.seconds)
                break
        else:
            jobs.append(part)
    return jobs


def arithmetic(times: Times, limit: float) -> str:
    """Why a cell does not fit, for people."""
    return (
        f"start {times.start_s:,.0f} s + warm-up {times.warmup_s:,.0f} s + window {times.window_s:,.0f} s + drain "
        f"{times.drain_s:,.0f} s = {times.start_s + times.cell_s:,.0f} s ({times.source}), and {limit:,.0f} s are there"
    )


def walltime_s(text: str) -> float:
    """Seconds of a walltime as Slurm writes it (`90` is minutes, `4:30` minutes and seconds, `4:00:00`, `1-12`) or with
    a unit (`90s`, `30m`, `4h`, `2d`). Raises InputError."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    try:
        if text[-1:] in units:
            seconds = float(text[:-1]) * units[text[-1]]
        else:
            days, dash, clock = text.rpartition("-")
            parts = [int(part) for part in clock.split(":")]
            if dash:  # days-hours[:minutes[:seconds]]
                scale = (3600, 60, 1)
            else:  # minutes, minutes:seconds, hours:minutes:seconds
                scale = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}[len(parts)]  # type: ignore[assignment]
            seconds = int(days or 0) * 86400.0 + sum(a * b for a, b in zip(parts, scale, strict=False))
            if len(parts) > len(scale):
                raise ValueError(text)
    except (ValueError, KeyError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        hint = "write it like 4:00:00, 1-12:00:00, 90m or 4h"
        raise InputError([Problem(f"`{text}` is not a walltime", key="walltime", hint=hint)])
    return seconds
