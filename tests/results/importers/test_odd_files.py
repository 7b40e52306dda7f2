"""What is no result is refused with what is wrong with it, whatever its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.results.importers import find, foreign


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("cut.json", b'{"median_ttft_ms": 1, "model_id": "m', "not a JSON document: Unterminated string"),
        ("deep.json", b"[" * 100_000, "too deep to read"),
        ("binary.json", b"\xff\xfe\x00", "not UTF-8 text"),
        ("other.json", b'{"model_id": 1}', "not recognised by any importer"),
        ("empty.json", b"", "the file is empty"),
        ("rows.json.gz", b"\x1f\x8b", "a .gz archive\n  hint: unpack it"),
        ("binary.csv", b"\xff,\x00,\n\x00", "not recognised by any importer"),
        ("loose.csv", b"hardware,framework\n1,2\n", "not recognised by any importer"),
    ],
)
def test_files_that_are_no_results(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    with pytest.raises(InputError) as caught:
        find(file)
    assert said in str(caught.value) and name in str(caught.value)


def test_folders_without_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the folder is empty"):
        find(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match="not recognised by any importer"):
        find(tmp_path)


def test_rows_that_say_nothing_are_no_points(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    rows = ["x,300", "-4,300", "4,nan", "4,inf", "4,1e400", "4,", "8,300", '"unclosed']
    file.write_text("hardware,framework,conc,tput_per_gpu\n" + "\n".join(f"h200,vllm,{row}" for row in rows))
    importer, bundle = find(file)
    found = importer.read(bundle, False)
    (run,) = found.runs
    assert [item.point.concurrency for item in run.points] == [8]
    assert {left.name: left.count for left in found.unmapped} == {"a row": 7, "tput_per_gpu": 3}


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.integers(), st.floats(), st.text(), st.none(), st.booleans(), st.just(10**400)))
def test_any_value_is_a_number_or_none(value: object) -> None:
    number = foreign.number(value)
    assert number is None or number - number == 0
    assert abs(foreign.whole(value)) < 1 << 31
