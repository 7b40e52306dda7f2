"""The error table: how wrong predictions are, by group and measure, beside what a reader could have had without them.

Every figure of a line is about one group (GPU, framework, model, precision, speculation) and one measure:

- error, bias: mean of |predicted / measured - 1| and of its sign; of a hit rate, which is a share, plain differences
- interpolation: the error of a straight line (log-log) through the arm's own other concurrencies, where it has three
- roofline: the error of bytes over bandwidth and arithmetic over peak, times the constant that suits the group's other
  points best (the median); fixed-sequence points only
- repeats: how far real runs of one point lie apart, median of (highest - lowest) / mean
- tau: Kendall's, of predicted against measured order inside series (one question: lengths, all layouts and loads); the
  lowest of the group's
- knee: arms of six points or more whose point of best compromise is foretold exactly, and within one step
- in band: share of values inside the prediction's 80 % band
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from datetime import date
from itertools import groupby
from typing import NamedTuple

from ridgeline.core.errors import InputError
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.evaluate import MEASURES, Row, error_of, group_of
from ridgeline.simulate.fit import predict
from ridgeline.simulate.points import Measured
from ridgeline.simulate.steady import Steady
from ridgeline.simulate.validate import knees, roofline

TPUT, TPOT = MEASURES[:2]
HIT = "cache hit"
_LEAST_ORDER, _LEAST_KNEE, _LEAST_LINE = 3, 6, 3
_REPEAT_DAYS = 3
_STEEPEST = 2.0  # power of the load that a measure follows at most
ALL, SURE = "all", "all but doubtful rows"


class Errors(NamedTuple):
    """One group and measure; shares, None where there is nothing to tell."""

    group: str
    measure: str
    n: int
    error: float
    bias: float
    interpolation: float | None
    roofline: float | None
    repeats: float | None
    tau: float | None
    knee: tuple[int, int, int] | None  # right, within one step, arms
    inside: float | None


def error_table(rows: Sequence[Row]) -> list[Errors]:
    """A line for every group and measure, then one for every measure over all groups."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[group_of(row)].append(row)
    plain = _rooflines(rows)
    found = [line for name, own in sorted(groups.items()) for line in _lines(name, own, plain)]
    if len(groups) > 1:
        found += _lines(ALL, rows, plain)
    sure = [row for row in rows if not row.point.doubtful]
    if len(sure) < len(rows):
        found += _lines(SURE, sure, plain)
    return found


def _lines(name: str, rows: Sequence[Row], plain: dict[int, Steady]) -> list[Errors]:
    found = []
    for measure in MEASURES:
        own = [row for row in rows if row.measure == measure]
        if not own:
            continue
        errors = [error_of(row) for row in own]
        banded = [row for row in own if row.low is not None and row.high is not None]
        inside = [(row.low or 0.0) <= row.measured <= (row.high or 0.0) for row in banded]
        found.append(
            Errors(
                name,
                measure,
                len(own),
                statistics.fmean(map(abs, errors)),
                statistics.fmean(errors),
                _interpolated(own),
                _roofline_error(own, plain, measure),
                _repeats(own),
                _order(own),
                _knees(rows) if measure == TPUT else None,
                sum(inside) / len(inside) if inside else None,
            )
        )
    return found


def _by(rows: Sequence[Row], key: Callable[[Row], Hashable]) -> dict[Hashable, list[Row]]:
    found: dict[Hashable, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _curves(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of one arm; where an arm was run several times over its loads, of one day."""
    found = []
    for own in _by(rows, lambda row: (row.file, row.point.arm, row.point.source)).values():
        days = {row.point.date for row in own}
        several = len(days) > 1 and len({row.point.conc for row in own}) < len(own)
        found += list(_by(own, lambda row: row.point.date).values()) if several else [own]
    return found


def _interpolated(rows: Sequence[Row]) -> float | None:
    """Error of the line through a point's neighbours in its arm, over points of arms with three concurrencies."""
    errors = []
    for own in _curves(rows):
        curve: dict[int, list[float]] = defaultdict(list)
        for row in own:
            curve[row.point.conc].append(row.measured)
        means = sorted((conc, statistics.fmean(values)) for conc, values in curve.items())
        if len(means) < _LEAST_LINE or any(value <= 0 for _, value in means):
            continue
        said = {conc: _without(means, index) for index, (conc, _) in enumerate(means)}
        for row in own:
            guess = said[row.point.conc]
            errors.append(abs(guess - row.measured if row.measure == HIT else guess / row.measured - 1))
    return statistics.fmean(errors) if errors else None


def _without(curve: Sequence[tuple[int, float]], index: int) -> float:
    """What the points around one say of it: straight in log-log, beyond the ends through the last two, but no steeper
    than a square: loads that are nearly the same say nothing about far ones."""
    last = len(curve) - 1
    before, after = (1, 2) if index == 0 else (last - 2, last - 1) if index == last else (index - 1, index + 1)
    (a, low), (b, high) = curve[before], curve[after]
    slope = math.log(high / low) / math.log(b / a)
    return math.exp(math.log(low) + max(-_STEEPEST, min(_STEEPEST, slope)) * math.log(curve[index][0] / a))


def _rooflines(rows: Sequence[Row]) -> dict[int, Steady]:
    """The plain roofline of every fixed-sequence point, by the point's identity."""
    parameters, found = roofline(), dict[int, Steady]()
    prices: dict[int, StepCost] = {}
    for row in rows:
        point = row.point
        if row.measure in (TPUT, TPOT) and point.kind == "fixed" and id(point) not in found:
            try:
                found[id(point)] = predict(point, parameters, prices)
            except InputError:  # points of steps and starts describe no layout under load
                continue
    return found


def _roofline_error(rows: Sequence[Row], plain: dict[int, Steady], measure: str) -> float | None:
    if measure not in (TPUT, TPOT):
        return None
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if seen := plain.get(id(row.point)):
            said = seen.tput_per_gpu if measure == TPUT else seen.tpot_s
            groups[group_of(row)].append(math.log(said / row.measured))
    errors = []
    for logs in groups.values():
        logs.sort()
        if len(logs) > 1:
            errors += [abs(math.exp(log - _median_without(logs, index)) - 1) for index, log in enumerate(logs)]
    return statistics.fmean(errors) if errors else None


def _median_without(values: Sequence[float], index: int) -> float:
    """The median of sorted values but one."""
    count = len(values) - 1
    low, high = (values[at + (at >= index)] for at in ((count - 1) // 2, count // 2))
    return (low + high) / 2


def _repeats(rows: Sequence[Row]) -> float | None:
    """Median spread of runs of one point: equal in all that is predicted, at most three days apart where dates say."""
    spreads = []
    for own in _by(rows, _cell).values():
        for run in _close(own):
            values = [row.measured for row in run]
            if len(values) > 1:
                size = max(values) - min(values)
                spreads.append(size if run[0].measure == HIT else size / statistics.fmean(values))
    return statistics.median(spreads) if spreads else None


def _cell(row: Row) -> Hashable:
    """What runs of one point share. Runs without a date are repeats of others in their file only."""
    point = row.point
    return ("" if point.date else row.file, point.arm, point.source, point.conc)


def _close(rows: Sequence[Row]) -> list[list[Row]]:
    """Runs of rows whose dates are at most three days from the first one's; rows without dates are one run."""
    dated = sorted(rows, key=lambda row: row.point.date or "")
    found: list[list[Row]] = []
    for row in dated:
        if found and _days(found[-1][0].point, row.point) <= _REPEAT_DAYS:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _days(a: Measured, b: Measured) -> int:
    try:
        return abs((date.fromisoformat(a.date or "") - date.fromisoformat(b.date or "")).days)
    except ValueError:
        return 0 if a.date == b.date else _REPEAT_DAYS + 1


def _order(rows: Sequence[Row]) -> float | None:
    """The lowest tau of the series with at least three values; None without any."""
    found = []
    for own in _by(rows, lambda row: row.point.series).values():
        cells = {(row.point.label, row.point.conc) for row in own}
        if len(cells) >= _LEAST_ORDER and own[0].measure in MEASURES[:4]:
            found.append(order([(row.predicted, row.measured) for row in own]))
    return min(found) if found else None


def order(pairs: Sequence[tuple[float, float]]) -> float:
    """Kendall's tau-a, in n log n (Knight 1966): pairs that agree less those that do not, over all."""
    count = len(pairs)
    ranked = sorted(pairs)
    total = count * (count - 1) // 2
    alike = sum(
        sign * _ties(values)
        for sign, values in ((1, [a for a, _ in ranked]), (1, sorted(b for _, b in ranked)), (-1, ranked))
    )
    _, crossed = _crossings([b for _, b in ranked])
    return (total - alike - 2 * crossed) / total


def _ties(values: Sequence[object]) -> int:
    """Pairs of equal neighbours-in-order."""
    return sum(size * (size - 1) // 2 for size in (len(list(run)) for _, run in groupby(values)))


def _crossings(values: list[float]) -> tuple[list[float], int]:
    """The values sorted, and how many pairs stood the wrong way round."""
    if len(values) < 2:
        return values, 0
    middle = len(values) // 2
    (left, a), (right, b) = _crossings(values[:middle]), _crossings(values[middle:])
    merged, crossed, i = list[float](), a + b, 0
    for value in right:
        while i < len(left) and left[i] <= value:
            merged.append(left[i])
            i += 1
        crossed += len(left) - i
        merged.append(value)
    return merged + left[i:], crossed


def _knees(rows: Sequence[Row]) -> tuple[int, int, int] | None:
    """Of curves with at least six loads that have throughput and time per token."""
    steps: list[int] = []
    tpots = {id(row.point): row.predicted for row in rows if row.measure == TPOT}
    for own in _curves([row for row in rows if row.measure == TPUT and id(row.point) in tpots]):
        once = {row.point.conc: row for row in own}.values()  # of repeats the last
        pairs = [(row.point, Steady(tpots[id(row.point)], 0.0, row.predicted, 0.0)) for row in once]
        steps += [missed for missed, _ in knees(pairs, least=_LEAST_KNEE)]
    return (sum(s == 0 for s in steps), sum(s <= 1 for s in steps), len(steps)) if steps else None


HEAD = ("group", "measure", "n", "error", "bias", "interp.", "roofline", "repeats", "tau", "knee", "in band")
LEGEND = (
    "error     mean of |predicted / measured - 1|; of cache hits, which are shares, of the plain difference",
    "bias      the same with its sign: + is predicted too high",
    "interp.   error of a straight line through the two neighbouring concurrencies measured on the same layout",
    "roofline  error of bytes / bandwidth and arithmetic / peak, times the constant that suits the group's others best",
    "repeats   how far real runs of one point lie apart, median; differences below that say nothing",
    "tau       order of predictions against measurements, 1 is the same order; the worst question of the group",
    "knee      arms of six points or more: best compromise foretold exactly / within one step / arms",
    "in band   share of measurements inside the prediction's 80 % band",
)  # fmt: skip


def shown(table: Sequence[Errors]) -> str:
    """The table as text with its columns explained; a group's name stands on its first line."""
    cells: list[tuple[str, ...]] = [HEAD]
    last = ""
    for line in table:
        cells.append(_cells(line, "" if line.group == last else line.group))
        last = line.group
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEAD))]
    lines = []
    for row in cells:
        left = "  ".join(cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True))
        right = "  ".join(cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True))
        lines.append(f"{left}  {right}".rstrip())
    return "\n".join(lines) + "\n"


def _cells(line: Errors, group: str) -> tuple[str, ...]:
    knee = "" if line.knee is None else "/".join(map(str, line.knee))
    hit = line.measure == HIT
    return (
        group, line.measure, str(line.n), _share(line.error, hit), _share(line.bias, hit, sign="+"),
        _share(line.interpolation, hit), _share(line.roofline, hit), _share(line.repeats, hit),
        "" if line.tau is None else f"{line.tau:.2f}", knee, "" if line.inside is None else f"{line.inside:.0%}",
    )  # fmt: skip


def _share(value: float | None, plain: bool, sign: str = "") -> str:
    if value is None:
        return ""
    return f"{value:{sign}.2f}" if plain else f"{100 * value:{sign}.1f} %"
