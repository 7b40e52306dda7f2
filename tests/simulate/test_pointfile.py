"""Tables and JSON of every form are read; what is wrong is said all at once with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.errors import InputError, Problem
from ridgeline.simulate.pointfile import Record, content_of

ROWS = "hardware,conc,tpot_ms\nh200,4,5.5\nb200,8,6\n"


def records(path: Path, data: bytes | str) -> tuple[list[Record], list[Problem]]:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    problems: list[Problem] = []
    return content_of(path, problems).records, problems


@pytest.mark.parametrize(
    "data",
    [
        ROWS.encode(),
        ROWS.encode("utf-8-sig"),
        ROWS.encode("utf-16"),
        ROWS.replace("\n", "\r\n").encode(),
        ROWS.replace("\n", "\r").encode(),
        ROWS.replace(",", ";").replace("5.5", "5,5").encode(),
        ROWS.replace(",", "\t").encode(),
        b"\n\n" + ROWS.encode() + b"\n,,\n",
        b'[{"hardware": "h200", "conc": 4, "tpot_ms": 5.5}, {"hardware": "b200", "conc": "8", "tpot_ms": 6}]',
        b'{"hardware": "h200", "conc": 4, "tpot_ms": 5.5}\n\n{"hardware": "b200", "conc": 8, "tpot_ms": 6.0}\n',
    ],
)
def test_forms_of_one_table_read_alike(data: bytes, tmp_path: Path) -> None:
    found, problems = records(tmp_path / "p", data)
    assert not problems
    assert [(r.text("hardware"), r.whole("conc"), r.positive("tpot_ms")) for r in found] == [
        ("h200", 4, 5.5),
        ("b200", 8, 6.0),
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"a,b\n", "has a header and no rows"),
        (b"[]", "holds an empty list"),
        (b'[{"a": 1},', "is not JSON"),
        (b"a,b\n\xff\xfe,1\n", "is not text in UTF-8"),
        (b'a,b\n"x,1\n', "cannot be read as a table"),
        (b"\x1f\x8b\x08\x00", "is not text in UTF-8"),
    ],
)
def test_files_that_hold_nothing_say_so(data: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        records(tmp_path / "p", data)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        content_of(tmp_path / "nowhere", [])


def test_broken_rows_are_named_and_the_others_kept(tmp_path: Path) -> None:
    found, problems = records(tmp_path / "p.csv", "a,b,a\n1,2,3\n4,5\n6,7,8,9\n")
    assert [record.line for record in found] == [2]
    said = [(p.where.line if p.where else None, p.message) for p in problems]
    assert said == [
        (1, "is the name of two columns"),
        (3, "has 2 cells where the header has 3"),
        (4, "has 4 cells where the header has 3"),
    ]
    lines, problems = records(tmp_path / "p.jsonl", '{"a": 1}\n{"a": \n[1]\n{"a": 2}\n')
    assert [record.line for record in lines] == [1, 4]
    assert [p.where.line for p in problems if p.where] == [2, 3]


def test_a_value_that_is_wrong_has_a_line_a_column_and_advice(tmp_path: Path) -> None:
    [record], problems = records(tmp_path / "p.csv", 'name,conc,tpot\n"a, b",0,-1\n')
    assert (record.whole("conc"), record.positive("tpot")) == (1, None)
    assert [(p.key, p.where.line, p.where.column, p.message) for p in problems if p.where] == [
        ("conc", 2, 8, "must be at least 1, is '0'"),
        ("tpot", 2, 10, "must be a number above 0, is '-1'"),
    ]
    assert "not measured" in (problems[1].hint or "")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "-3", "abc", "1e999", "5 ms"])
def test_no_measurement_is_nan_infinite_nothing_or_words(value: str, tmp_path: Path) -> None:
    [record], problems = records(tmp_path / "p.csv", f"tput\n{value}\n")
    assert record.positive("tput") is None
    assert len(problems) == 1


def test_what_is_not_there_is_not_zero(tmp_path: Path) -> None:
    [record], problems = records(tmp_path / "p.csv", "a,b,c,flag\n,2,,\n")
    assert (record.positive("a"), record.positive("a", "b"), record.share("c")) == (None, 2.0, None)
    assert record.whole("a", default=7) == 7 and not record.flag("flag")
    assert not problems
    record.whole("a", "c")
    assert [(p.key, p.message) for p in problems] == [("a", "is missing")]


def test_json_keeps_its_path(tmp_path: Path) -> None:
    found, problems = records(tmp_path / "p.json", '[{"m": {"x": 1}}, {"m": {"x": "?"}, "y": true, "z": NaN}]')
    assert found[0].inside("m").positive("x") == 1
    assert found[1].inside("m").positive("x") is None
    assert found[1].positive("y") is found[1].positive("z") is None
    found[1].whole("y")
    assert [p.key for p in problems] == ["[1].m.x", "[1].y", "[1].z", "[1].y"]
    assert found[0].inside("nothing").positive("x") is None


@given(st.floats(1e-9, 1e12), st.integers(1, 10**8))
@settings(max_examples=40)
def test_numbers_survive_with_and_without_thousands(number: float, whole: int) -> None:
    problems: list[Problem] = []
    record = Record({"x": repr(number), "n": f"{whole:,}", "f": f"{whole}.0"}, Path("p"), problems)
    assert record.positive("x") == number
    assert record.whole("n") == record.whole("f") == whole
    assert not problems
