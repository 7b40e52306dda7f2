"""Columns say the same of a table, a file and a replay, however its words are coded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.results.builders import S, record

from ridgeline.core.record import Outcome, Phases, Replay
from ridgeline.results import records
from ridgeline.results.metrics.columns import OUTCOMES, Columns


def test_words_are_told_by_any_coding(tmp_path: Path) -> None:
    made = [record(i, i * S, outcome=outcome) for i, outcome in enumerate([*Outcome, *reversed(Outcome)])]
    replay = Replay(records=tuple(made), phases=Phases())
    wanted = [OUTCOMES.index(str(item.outcome)) for item in made]
    table = records.with_metadata(records.to_table(made), records.replay_metadata(replay))
    plain = table.set_column(table.schema.get_field_index("outcome"), "outcome", table["outcome"].cast(pa.string()))
    halves = pa.concat_tables([records.to_table(made[:2]), records.to_table(made[2:])])  # a dictionary each
    pq.write_table(table, tmp_path / "r.parquet", row_group_size=3)
    for source in (replay, table, plain, halves, tmp_path / "r.parquet"):
        found = Columns.of(source)
        assert found.outcome.tolist() == wanted
        assert found.profiling.all() and found.profiling.dtype == bool


@pytest.mark.parametrize("coded", [True, False])
def test_words_that_are_missing_or_unknown_are_no_outcome(coded: bool) -> None:
    table = records.to_table([record(i, i * S) for i in range(3)])
    words = pa.array(["ok", None, "something else"])
    words = words.dictionary_encode() if coded else words
    found = Columns.of(table.set_column(table.schema.get_field_index("outcome"), "outcome", words))
    assert found.outcome.tolist() == [OUTCOMES.index("ok"), -1, -1]
    assert np.array_equal(found.is_outcome(Outcome.OK), [True, False, False])
    assert len(Columns.of(records.SCHEMA.empty_table())) == 0
