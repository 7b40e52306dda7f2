"""CSV: blank for missing, 0 for zero, units in the head."""

from __future__ import annotations

import csv
import dataclasses
import io

from tests.results.builders import point

from ridgeline.core.point import Caution, Measure, Validity
from ridgeline.results.export.columns import to_table
from ridgeline.results.export.table import to_csv


def test_csv() -> None:
    first = point(4, ttft=0.1)
    second = dataclasses.replace(
        point(8, ttft=0.0),
        validity=Validity.INVALID,
        reasons=("error-rate: 40 %, of 9",),
        cautions=(Caution("few-samples", "", ""),),
        measures={"ttft": Measure(0.0, "s"), "only": Measure(1 / 3, "x")},
    )
    rows = list(csv.DictReader(io.StringIO(to_csv([first, second]))))
    assert rows[0]["ttft (s)"] == "0.1" and rows[0]["gone (s)"] == ""
    assert rows[1]["ttft (s)"] == "0.0" and rows[1]["gone (s)"] == "" and float(rows[1]["only (x)"]) == 1 / 3
    assert rows[1]["reasons"] == "error-rate: 40 %, of 9" and rows[1]["cautions"] == "few-samples"
    assert [row["repeat"] for row in rows] == ["", ""]
    second = dataclasses.replace(first, provenance={"repeat": 2})
    assert [row["repeat"] for row in csv.DictReader(io.StringIO(to_csv([second])))] == ["2"]
    assert to_table([first, second]).column("repeat").to_pylist() == [None, 2]
    chosen = list(csv.reader(io.StringIO(to_csv([first], ["ttft", "never"]))))
    assert chosen[0][-2:] == ["ttft (u)", "never"] and chosen[1][-2:] == ["0.1", ""]
