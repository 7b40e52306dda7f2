"""The still picture of a run: which chart of all that a page offers."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.core.errors import AnswerIsNo, InputError
from ridgeline.core.point import Point
from ridgeline.publish.charts.data import page_data
from ridgeline.publish.report.picture import picture
from ridgeline.results.runfolder import RunHeader


def render_picture(points: Sequence[Point], *, header: RunHeader, x: str | None = None, y: str | None = None) -> str:
    """SVG text of the chart with the most points, on the measures `x` and `y` (default: the chart's usual pair).

    Raises InputError for a measure that is not offered, AnswerIsNo when no point can be drawn.
    """
    data = page_data(points, (), header=header)
    for name, key in (("x", x), ("y", y)):
        if key is not None and key not in data["axes"][name]:
            raise InputError(
                f"`{key}` is not offered as {name} axis", hint=f"choose from {', '.join(data['axes'][name])}"
            )
    counts = [sum(point["subject"] == at for point in data["points"]) for at in range(len(data["subjects"]))]
    if not counts or not data["axes"]["x"] or not data["axes"]["y"]:
        raise AnswerIsNo(
            "no point of this run can be drawn", hint="`ridgeline report RUN` lists what is missing and why"
        )
    subject = max(range(len(counts)), key=counts.__getitem__)
    about = data["subjects"][subject]
    return picture(data, x or about["x"], y or about["y"], subject=subject)
