"""Workers of pools: how many ranks, on which nodes and GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recipes.cells import cell

from ridgeline.core.cell import Arm
from ridgeline.core.errors import InputError
from ridgeline.core.topology import Pool, Topology
from ridgeline.recipes.placement import place, ranks_of


def pools(*given_pools: Pool, per_node: int = 8) -> list[tuple[str, int, int, list[tuple[int, int]]]]:
    """(role, tp, dp, [(node, GPUs)]) of each worker."""
    workers = place(cell(arm=Arm(pools=given_pools)), per_node)
    return [
        (f"{w.role}{w.index}", w.ranks.tp, w.ranks.dp, [(seat.node, len(seat.gpus)) for seat in w.seats])
        for w in workers
    ]


@pytest.mark.parametrize(
    ("topology", "tp", "dp"),
    [
        (Topology(8), 8, 1),
        (Topology(8, ep=8), 8, 1),
        (Topology(8, ep=8, dp_attn=True), 1, 8),
        (Topology(8, ep=1, dp_attn=True), 1, 8),
        (Topology(1, ep=8, dp_attn=True), 1, 8),
        (Topology(8, ep=32, dp_attn=True), 8, 4),
    ],
)
def test_a_topology_says_how_many_ranks(topology: Topology, tp: int, dp: int) -> None:
    ranks = ranks_of(topology)
    assert (ranks.tp, ranks.dp) == (tp, dp)
    assert ranks.expert_parallel == (topology.ep > 1)


def test_workers_share_a_node_while_they_fit() -> None:
    assert pools(Pool("prefill", 3, Topology(4)), Pool("decode", 1, Topology(8))) == [
        ("prefill0", 4, 1, [(0, 4)]),
        ("prefill1", 4, 1, [(0, 4)]),
        ("prefill2", 4, 1, [(1, 4)]),
        ("decode0", 8, 1, [(2, 8)]),
    ]


def test_a_worker_wider_than_a_node_takes_several() -> None:
    assert pools(Pool("prefill", 2, Topology(8)), per_node=4) == [
        ("prefill0", 8, 1, [(0, 4), (1, 4)]),
        ("prefill1", 8, 1, [(2, 4), (3, 4)]),
    ]


def test_workers_that_are_the_ranks_of_one_engine() -> None:
    assert pools(Pool("prefill", 2, Topology(16, ep=32, dp_attn=True)), Pool("decode", 0, Topology(16))) == [
        ("prefill0", 16, 2, [(0, 8), (1, 8), (2, 8), (3, 8)])
    ]


def test_settings_place_pools() -> None:
    spread = Pool("decode", 2, Topology(4), settings=("DECODE_NODES=2", "CONFIG_FILE=x.yaml"))
    assert pools(spread) == [("decode0", 4, 1, [(0, 4)]), ("decode1", 4, 1, [(1, 4)])]
    narrow = Pool("decode", 1, Topology(8), settings=("DECODE_NODES=2", "GPUS_PER_NODE=4"))
    assert pools(narrow) == [("decode0", 8, 1, [(0, 4), (1, 4)])]


def test_too_few_nodes_are_refused_at_the_cells_place() -> None:
    with pytest.raises(InputError, match="2 x 8 GPUs need 2 nodes of 8, and DECODE_NODES says 1") as refused:
        pools(Pool("decode", 2, Topology(8), settings=("DECODE_NODES=1",)))
    assert refused.value.problems[0].where == cell().where


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from([1, 2, 4, 8, 16, 32]), st.booleans()), min_size=1, max_size=2
    ),
    st.sampled_from([4, 8]),
)
def test_no_gpu_has_two_workers(shapes: list[tuple[int, int, bool]], per_node: int) -> None:
    roles = ("prefill", "decode")
    arm = Arm(pools=tuple(Pool(roles[i], n, Topology(tp, dp_attn=dp)) for i, (n, tp, dp) in enumerate(shapes)))
    seats = [seat for worker in place(cell(arm=arm), per_node) for seat in worker.seats]
    used = [(seat.node, gpu) for seat in seats for gpu in seat.gpus]
    assert len(used) == len(set(used)) == sum(n * tp for n, tp, _ in shapes)
    assert all(gpu < per_node for _, gpu in used)
    assert {node for node, _ in used} == set(range(max(node for node, _ in used) + 1)), "no node stays empty"
