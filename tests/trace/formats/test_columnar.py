"""The columnar form: everything comes back, ids stay in the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.trace.making import session, turn
from tests.trace.making import write as write_lines

from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.trace import load
from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.corpus import Corpus
from ridgeline.trace.formats.columnar import write
from ridgeline.trace.session import Recorded
from ridgeline.trace.synth import quickstart_trace


def corpus(*sessions: object) -> Corpus:
    return Corpus(sessions=tuple(sessions), source="t", format="weka", digest="d", clock="relative")  # type: ignore[arg-type]


def test_a_corpus_comes_back_as_it_was(tmp_path: Path) -> None:
    before = load(quickstart_trace())
    write(before, tmp_path / "q.arrow")
    after = load(tmp_path / "q.arrow")
    assert after.sessions == before.sessions
    assert replace(after, source="") == replace(before, source="")
    assert any(branch.join_turn is not None for s in after.sessions for branch in s.branches)
    few = load(tmp_path / "q.arrow", max_context=15_000, limit=3)
    assert few.sessions == load(quickstart_trace(), max_context=15_000, limit=3).sessions
    assert few.digest != after.digest


def test_shared_ids_are_stored_once_and_shared_again(tmp_path: Path) -> None:
    whole = BlockIds.of(range(100_000))
    turns = [turn(whole[: 1000 * (k + 1)]) for k in range(100)]
    write(corpus(session(turns)), tmp_path / "t.arrow")
    assert (tmp_path / "t.arrow").stat().st_size < 2 * 8 * 100_000
    first, *_, last = load(tmp_path / "t.arrow").sessions[0].root.turns
    assert isinstance(first.hash_ids, BlockIds) and isinstance(last.hash_ids, BlockIds)
    assert first.hash_ids.base is last.hash_ids.base
    assert isinstance(first.hash_ids.base, memoryview)


def test_texts_wide_ids_and_missing_values_come_back(tmp_path: Path) -> None:
    made = session(
        [turn([2**64 - 1, 3], at_ns=None, api_ns=None, kind=None), turn([], 5, messages=(("user", "é\n"),))],
        [turn([4])],
    )
    write(corpus(made), tmp_path / "t.arrow")
    assert load(tmp_path / "t.arrow").sessions == (made,)


def test_recorded_bodies_come_back_and_cost_nothing_where_there_are_none(tmp_path: Path) -> None:
    tree = session(
        [turn([1], recorded=Recorded(extra='{"a":1}')), turn([1], recorded=Recorded(payload="{}")), turn([1])]
    )
    write(corpus(tree), tmp_path / "b.arrow")
    assert load(tmp_path / "b.arrow").sessions == (tree,)
    write(corpus(session([turn([1])])), tmp_path / "plain.arrow")
    assert "recorded" not in pa.ipc.open_file(tmp_path / "plain.arrow").schema.names


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    path.write_bytes(b"ARROW1\0\0 but not really")
    with pytest.raises(InputError, match="not a trace written by"):
        load(path)
    with pytest.raises(EnvironmentFailed, match="cannot write"):
        write(corpus(session([turn([1])])), tmp_path / "none" / "t.arrow")


def test_a_converted_text_trace_still_has_its_texts(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "s.jsonl", {"text": "one"}, {"text": "two"})
    write(load(lines), tmp_path / "s.arrow")
    assert load(tmp_path / "s.arrow").sessions == load(lines).sessions
