"""Fits and validates the cost model on measured fixed-sequence points; prints what docs/reference/calibration.md shows.

    python bench/calibrate.py [POINTS.csv] [--ship]

`--ship` writes the parameter sets of the package and the page again. Points: RIDGELINE_GOLDEN/results/
fixed_seq_points.csv unless given.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ridgeline.simulate import choices as c
from ridgeline.simulate import validate as v
from ridgeline.simulate.fit import Fit, covered
from ridgeline.simulate.fitfile import PUBLIC, SHIPPED, text_of
from ridgeline.simulate.points import Measured, read_points
from ridgeline.simulate.steady import Steady

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/calibration.md"


def _share(value: float | None) -> str:
    return "" if value is None or value != value else f"{100 * value:.1f} %"


def _row(name: str, guesses: list[v.Guess]) -> str:
    e = v.errors(guesses)
    cells = (name, e.points, _share(e.tput), _share(e.tput_bias), _share(e.base_tput), _share(e.roof_tput),
             _share(e.tpot), _share(e.tpot_bias), _share(e.base_tpot), _share(e.roof_tpot))  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _odd(p: Measured) -> str:
    return f"{p.hardware}/{p.engine} {p.model} {p.label} {p.isl}/{p.osl} c{p.conc} ({p.implied:.1f})"


HEAD = """| {} | points | throughput error | bias | baseline | roofline | TPOT error | bias | baseline | roofline |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def _pairs(split: dict[v.Group, list[v.Guess]]) -> list[tuple[Measured, Steady]]:
    return [(guess.point, guess.model) for own in split.values() for guess in own]


def _best(name: str, ask: Callable[..., c.Contest]) -> str:
    """How often the layout that a prediction prefers is the best one measured, and what the choices cost."""
    at, least, peak = ask(), ask(rule=c.at_least), ask(rule=c.at_all, levels=(0.0,))
    near = sum(cost <= 0.05 for cost in at.costs) / max(1, at.asked)
    cells = (name, at.asked, _share(at.share), _share(near), _share(at.mean_cost), _share(at.mean_of_wrong),
             least.asked, _share(least.share), _share(least.mean_cost), peak.asked, _share(peak.share))  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _of(pairs: list[tuple[Measured, Steady]]) -> Callable[..., c.Contest]:
    return functools.partial(c.contest, pairs)


def _of_folds(fits: dict[v.Group, Fit]) -> Callable[..., c.Contest]:
    return lambda **how: c.together(c.with_one_unseen(found, **how) for found in fits.values())


def main() -> int:
    given = [arg for arg in sys.argv[1:] if not arg.startswith("--")]
    path = (
        Path(given[0])
        if given
        else ROOT / os.environ.get("RIDGELINE_GOLDEN", "../shared") / "results/fixed_seq_points.csv"
    )
    if not path.exists():
        print(json.dumps({"bench": "calibrate", "skipped": f"no points at {path.name} (RIDGELINE_GOLDEN)"}))
        return 0
    start = time.perf_counter()
    points, refused = covered(read_points(path))
    odd = [point for point in points if point.doubtful]
    sound = [point for point in points if not point.doubtful]
    plain = v.uncalibrated(points)
    evaluated = time.perf_counter() - start
    fits, unfit = v.fit_all(points)
    base, roof = v.Baseline(sound), v.Baseline(sound, v.roofline())
    splits = {
        "concurrency": {group: v.of_concurrency(found) for group, found in fits.items()},
        "topology": {group: v.of_topology(found, base, roof) for group, found in fits.items()},
        "model": {group: v.of_model(found, base, roof) for group, found in fits.items()},
        "GPU": {},
    }
    for guess in v.of_gpu(fits, base, roof):
        splits["GPU"].setdefault((guess.point.hardware, guess.point.engine), []).append(guess)
    lines = [f"{len(points)} points, {len(refused)} refused, {len(odd)} doubtful (see below) and left out.", ""]
    lines += ["### Four splits, all groups together", "", HEAD.format("left out")]
    lines += [_row(name, [g for found in own.values() for g in found]) for name, own in splits.items()]
    for name, own in splits.items():
        lines += ["", f"### Left out: {name}", "", HEAD.format("GPU and engine")]
        lines += [_row("/".join(group), found) for group, found in own.items() if found]
    lines += ["", "### In sample, bands, order", ""]
    lines += [
        "| GPU and engine | points | parameters | throughput error | spread (log) | 80 % band covers |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    spreads = {}
    for group, found in fits.items():
        own = splits["topology"][group] or splits["concurrency"][group]
        spreads[group] = v.spread(own)
        e = v.errors([v.Guess(point, seen, None, None, "") for point, seen in v.in_sample(found)])
        lines.append(
            f"| {'/'.join(group)} | {len(found.points)} | {len(found.names)} | {_share(e.tput)} | {spreads[group]:.3f} "
            f"| {_share(v.coverage(own))} |"
        )
    everything = [pair for found in fits.values() for pair in v.in_sample(found)]
    lines += [
        "",
        "| order in series of 12 points or more | series | lowest tau | median tau | at least 0.6 |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, pairs in (
        ("fitted parameters deleted", plain),
        ("the same, doubtful points left out", [p for p in plain if not p[0].doubtful]),
        ("fitted", everything),
    ):
        for index, what in enumerate(("throughput", "TPOT")):
            found = [pair[index] for pair in v.taus(pairs).values()]
            good, middle = sum(t >= 0.6 for t in found), statistics.median(found)
            lines.append(f"| {name}, by {what} | {len(found)} | {min(found):.2f} | {middle:.2f} | {good} |")
    steps = v.knees(everything)
    lines += [
        "",
        f"Knee of {len(steps)} arms of six points or more, fitted: right in "
        f"{_share(sum(s == 0 for s, _ in steps) / len(steps))}, at most one grid step off in "
        f"{_share(sum(s <= 1 for s, _ in steps) / len(steps))}. Curves are smooth: in "
        f"{_share(sum(near >= 0.9 for _, near in steps) / len(steps))} the foretold point is the measured knee or nine "
        "tenths as far above the chord.",
        "",
        "Best layout at 20, 40, 60 and 100 tokens/s/user (one within the noise of repeats counts as right):",
        "",
        "| predicted by a fit | asked at a speed | right | within 5 % | mean cost | mean of wrong ones "
        "| asked at least a speed | right | mean cost | asked for the most | right |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        _best("that has seen none (uncalibrated)", _of([pair for pair in plain if not pair[0].doubtful])),
        _best("that has not seen one of the layouts", _of_folds(fits)),
        _best("that has not seen the concurrency", _of(_pairs(splits["concurrency"]))),
        _best("that has seen all", _of(everything)),
        _best("*no model: every point from its own layout's neighbours*", _of(c.from_neighbours(sound))),
        _best("*no model: every layout's measurements as a straight line*", _of(c.straightened(sound))),
        "",
        "With every layout's own measurements made wrong by a normal factor of "
        + ", ".join(f"{100 * s:.0f} % ({_share(c.disturbed(sound, s))})" for s in (0.02, 0.03, 0.05, 0.08, 0.12))
        + " the choice at a speed is right in the share in brackets.",
        "",
        "Doubtful rows, whose own throughput and time per token say that less than an eighth of the stated requests "
        "decoded at once: " + "; ".join(map(_odd, odd)) + ".",
    ]
    table = "\n".join(lines) + "\n"
    if "--ship" in sys.argv:
        for group, found in fits.items():
            (SHIPPED / f"{group[0]}-{group[1]}.json").write_text(
                text_of(found, spreads[group], path.name, PUBLIC), encoding="utf-8"
            )
        head = PAGE.read_text(encoding="utf-8").split("<!-- tables -->")[0] if PAGE.exists() else ""
        PAGE.write_text(head + "<!-- tables -->\n\n" + table, encoding="utf-8")
    print(table)
    print(
        json.dumps(
            {
                "bench": "calibrate",
                "points": len(points),
                "evaluate_s": round(evaluated, 2),
                "all_s": round(time.perf_counter() - start, 1),
                "unfit": {"/".join(k): t for k, t in unfit.items()},
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
