"""Agentic points predicted and held against what was measured; prints what docs/reference/calibration.md shows of them.

    python bench/agentic.py [POINTS.csv ...] [--ship]

`--ship` writes the page's agentic tables again. Points: RIDGELINE_GOLDEN/results/agentic_points.csv and
kimik3_agentic.csv unless given. No number of the model was fitted to them; rules were chosen with their misses known.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ridgeline.simulate.evaluate import MEASURES, Row, evaluated, table

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/calibration.md"
START, END = "<!-- agentic -->", "<!-- /agentic -->"
TPUT, ITL, FIRST, HIT = MEASURES[:4]


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _errors(rows: Sequence[Row], name: str) -> str:
    """A line of the first table: size and sign of the error of every measure, order by throughput."""
    line = table(rows)[0] if len({row.point.series for row in rows}) == 1 else table(rows)[-1]
    found = {measure: (size, bias, count) for measure, size, bias, count in line.errors}
    cells = [name, str(found[TPUT][2])]
    for measure in (TPUT, ITL, FIRST):
        size, bias, _ = found[measure]
        cells += [_share(size), f"{100 * bias:+.0f} %"]
    hit = found.get(HIT)
    cells.append("" if hit is None else f"{hit[0]:.2f} ({hit[1]:+.2f})")
    cells.append("" if line.tau is None else f"{line.tau:.2f}")
    return "| " + " | ".join(cells) + " |"


def _point(rows: Sequence[Row]) -> str:
    """A line of the second table: measured and predicted."""
    point = rows[0].point
    found = {row.measure: row for row in rows}

    def pair(measure: str, factor: float, digits: int) -> list[str]:
        row = found.get(measure)
        values = (None, None) if row is None else (row.measured, row.predicted)
        return ["" if value is None else f"{factor * value:,.{digits}f}" for value in values]

    name = f"{point.hardware} {point.model} {point.label}" + (" host tier" if point.offload else "")
    cells = [name, str(point.conc), *pair(TPUT, 1, 0), *pair(ITL, 1e3, 1), *pair(FIRST, 1, 1), *pair(HIT, 1, 2)]
    return "| " + " | ".join(cells) + " |"


def section(rows: Sequence[Row], refused: Sequence[str]) -> str:
    """The page's agentic tables."""
    series: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    points: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        p = row.point
        series[p.hardware, p.engine, p.model, p.precision, p.spec].append(row)
        points[row.file, p.row].append(row)
    named = {f"{k[0]}/{k[1]} {k[2]} {k[3]} {k[4]}": own for k, own in sorted(series.items(), key=str)}
    lines = [
        "| series | points | throughput error | bias | ITL error | bias | first token error | bias | hit error | tau |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_errors(own, name) for name, own in named.items()),
        _errors(rows, "all"),
        "",
        "Measured and predicted, point by point (first token: the median where the table gives it, else the mean):",
        "",
        "| cell | lanes | tokens/s/GPU | predicted | ITL, ms | predicted | first token, s | predicted | hit"
        " | predicted |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_point(own) for _, own in sorted(points.items())),
        "",
        f"{len(points)} points, "
        + (f"{len(refused)} not covered: " if refused else "all that the tables hold")
        + "; ".join(sorted({r.split(": ", 1)[1] for r in refused})),
    ]
    return "\n".join(lines)


def ship(text: str) -> None:
    """Put the tables between the page's marks."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START)
    PAGE.write_text(before + START + "\n\n" + text + "\n\n" + END + rest.split(END)[1], encoding="utf-8")


def main() -> int:
    given = [argument for argument in sys.argv[1:] if argument != "--ship"]
    results = Path(os.environ.get("RIDGELINE_GOLDEN", ROOT.parent / "shared")) / "results"
    paths = [Path(name) for name in given] or [results / "agentic_points.csv", results / "kimik3_agentic.csv"]
    if missing := [path for path in paths if not path.exists()]:
        print(json.dumps({"bench": "agentic", "skipped": f"no {missing[0]}"}))
        return 0
    start = sum(os.times()[:4])  # processes that replay included
    rows, refused, *_ = evaluated(paths, jobs=len(os.sched_getaffinity(0)))
    text = section(rows, refused)
    print(text, file=sys.stderr)
    if "--ship" in sys.argv:
        ship(text)
    errors = {
        line.name: {name: [round(size, 3), round(bias, 3)] for name, size, bias, _ in line.errors}
        for line in table(rows)
    }
    print(json.dumps({"bench": "agentic", "cpu_s": round(sum(os.times()[:4]) - start), "errors": errors}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
