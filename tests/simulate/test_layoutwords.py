"""Layouts in words, as tables, articles and launch scripts write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.topology import Topology
from ridgeline.simulate.layoutwords import layout_of
from ridgeline.simulate.points import Measured, Prefill


@pytest.mark.parametrize(
    ("words", "label", "count"),
    [
        ("TP8", "TP8", 1), ("tp=4", "TP4", 1), ("8", "TP8", 1), ("TEP8", "TP8EP8", 1), ("DEP8", "DP8EP8", 1),
        ("DPA8+EP8", "DP8EP8", 1), ("TP8/DPA", "DP8", 1), ("DP8", "DP8", 1), ("ADP4 EP4", "DP4EP4", 1),
        ("TP 4, EP 4", "TP4EP4", 1), ("TP=4 / 4 GPUs", "TP4", 1), ("12 GPU, TP=12", "TP12", 1),
        ("32 GPU, EP=8", "DP8EP8", 4), ("8 GPU, EP=1", "TP8", 1), ("68 GPU, EP=1", "TP4", 17), ("TP8x2", "TP8", 2),
        ("2xTP8", "TP8", 2), ("DP8EP8x6", "DP8EP8", 6), ("DP2TP4", "TP4", 2), ("TP8DCP4", "TP8DCP4", 1),
        ("TP4PP2", "TP4PP2", 1), ("TP8 PCP2", "TP8PCP2", 1), ("TP1", "TP1", 1),
    ],
)  # fmt: skip
def test_one_kind_of_worker(words: str, label: str, count: int) -> None:
    found = layout_of(words)
    assert found is not None and found.prefill is None and not found.offload
    assert (found.decode.topology.label, found.decode.workers) == (label, count)


@pytest.mark.parametrize(
    ("words", "prefill", "decode"),
    [
        ("P1x3/D4x4", ("TP1", 3), ("TP4", 4)),
        ("P4x1/D32x1", ("TP4", 1), ("TP32", 1)),
        ("1P2D DEP8", ("DP8EP8", 1), ("DP8EP8", 2)),
        ("prefill TP4 / decode DEP8", ("TP4", 1), ("DP8EP8", 1)),
        ("P: DEP4 x 2 / D: DEP16", ("DP4EP4", 2), ("DP16EP16", 1)),
        ("PTP4/DDEP8", ("TP4", 1), ("DP8EP8", 1)),
    ],
)
def test_pools(words: str, prefill: tuple[str, int], decode: tuple[str, int]) -> None:
    found = layout_of(words)
    assert found is not None and found.prefill is not None
    assert (found.prefill.topology.label, found.prefill.workers) == prefill
    assert (found.decode.topology.label, found.decode.workers) == decode


def test_counts_of_workers_need_a_layout_of_one() -> None:
    assert layout_of("2P1D") is None
    found = layout_of("2P1D", Topology(4))
    assert found is not None and found.prefill is not None
    assert (found.prefill.workers, found.decode.workers, found.decode.topology.tp) == (2, 1, 4)


@pytest.mark.parametrize("words", ["TP8 host tier", "TP8 + HiCache", "tp8-offload", "TP8, DRAM"])
def test_a_cache_tier_in_host_memory(words: str) -> None:
    found = layout_of(words)
    assert found is not None and found.offload and found.decode.topology == Topology(8)


@pytest.mark.parametrize("words", ["", "nonsense", "wide", "TP0", "P/D", "prefill / decode"])
def test_what_is_no_layout(words: str) -> None:
    assert layout_of(words) is None


def test_what_words_leave_open_is_said() -> None:
    for words in ("32 GPU, EP=8", "DP2TP4", "68 GPU, EP=1"):
        found = layout_of(words)
        assert found is not None and found.assumed


SIZES = st.sampled_from([1, 2, 4, 8, 16])
WORKERS = st.builds(
    lambda tp, pp, dcp, wide, dp: Topology(tp, pp=pp, dcp=dcp, ep=tp if wide and tp > 1 else 1, dp_attn=dp and tp > 1),
    SIZES, st.sampled_from([1, 2]), st.sampled_from([1, 4]), st.booleans(), st.booleans(),
)  # fmt: skip


@given(WORKERS, st.integers(1, 9), st.none() | st.tuples(WORKERS, st.integers(1, 9)))
@settings(max_examples=60)
def test_labels_of_points_are_read_back(own: Topology, workers: int, prefill: tuple[Topology, int] | None) -> None:
    point = Measured(
        row=1, hardware="h200", engine="vllm", model="x", precision="fp8", spec="none", topology=own, conc=1,
        workers=workers, prefill=Prefill(*prefill) if prefill else None,
    )  # fmt: skip
    found = layout_of(point.label)
    assert found is not None and not found.assumed
    assert (found.decode.topology, found.decode.workers) == (own, workers)
    if prefill is None:
        assert found.prefill is None
    else:
        assert found.prefill is not None and (found.prefill.topology, found.prefill.workers) == prefill
