"""Repeats as one point: means of good ones, their ranges, and what is not good stays for itself."""

from __future__ import annotations

from dataclasses import replace

from tests.results.builders import point

from ridgeline.core.point import Axis, Caution, Measure, Validity
from ridgeline.results.repeats import folded

Y = Axis("y", "u", "higher")


def test_means_samples_and_ranges() -> None:
    repeats = [replace(point(4, y=value), id=f"r{number}") for number, value in enumerate((10.0, 14.0, 12.0))]
    answer = folded([*repeats, point(8, y=3.0)])
    first, other = answer.points
    assert first.id == "r0" and first.facts["repeats"] == 3 and "repeats" not in other.facts
    assert first.measures["y"] == Measure(12.0, "u", 9) and first.measures["gone"].reason == "never seen"
    assert answer.interval(first, Y) == (10.0, 14.0) and answer.interval(other, Y) is None
    assert answer.interval(first, Axis("gone")) is None


def test_a_measure_that_one_repeat_lacks_is_that_of_the_others() -> None:
    lacking = replace(point(4), id="b", measures={"y": Measure(None, "u", 2, "withheld")})
    answer = folded([replace(point(4, y=5.0), id="a"), lacking])
    assert answer.points[0].measures["y"] == Measure(5.0, "u", 3) and answer.interval(answer.points[0], Y) is None


def test_bad_repeats_take_no_part_and_cautions_add_up() -> None:
    good, unproven = replace(point(4, y=10.0), id="a"), replace(point(4, y=20.0), id="b", validity=Validity.UNPROVEN)
    bad = replace(point(4, y=900.0), id="c", validity=Validity.INVALID, reasons=("aborted: gone",))
    warm = replace(good, cautions=(Caution("warm-cache", "41 %"),))
    answer = folded([warm, unproven, bad])
    assert [(p.id, p.value("y"), p.validity) for p in answer.points] == [
        ("a", 15.0, "unproven"),
        ("c", 900.0, "invalid"),
    ]
    assert [caution.code for caution in answer.points[0].cautions] == ["warm-cache"]
