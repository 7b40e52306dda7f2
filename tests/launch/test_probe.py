"""What a node has is found before anything is started, and what cannot work is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.units import GIB, MIB
from ridgeline.launch.probe import Gpu, Node, parse_nvidia, probe, refuse_unfit

REAL = Deployment((Service(name="engine", argv=(Item("vllm"),)),), "engine", "m", "vllm")
NODE = Node(
    host="n1", cpus=8, memory=64 * GIB, memory_free=60 * GIB, disk_free=GIB, shm_free=GIB, memlock=None, gpus=None
)
IDLE = Gpu(name="H200", total_mib=143771, free_mib=143000, celsius=31)


def test_this_machine_has_facts_and_gpus_only_with_a_driver(tmp_path: Path) -> None:
    node = probe(tmp_path, lambda words: None)
    assert node.gpus is None
    assert node.cpus >= 1
    assert 0 < node.memory_free <= node.memory
    assert node.disk_free > 0
    assert probe(tmp_path, lambda words: "NVIDIA H200, 143771, 143000, 31\n").gpus == (
        replace(IDLE, name="NVIDIA H200"),
    )


def test_rows_of_the_driver() -> None:
    assert parse_nvidia("NVIDIA H200, 143771, 22, 31\nbroken\nX, [N/A], 3, 4\n") == (
        Gpu(name="NVIDIA H200", total_mib=143771, free_mib=22, celsius=31),
    )
    assert parse_nvidia("T4, 15360, 15000, [N/A]")[0].celsius is None
    assert parse_nvidia("") == ()


def test_a_fit_node_passes() -> None:
    refuse_unfit(NODE, REAL)
    refuse_unfit(replace(NODE, gpus=(IDLE, IDLE)), REAL)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (replace(NODE, shm_free=8 * MIB), "8 MiB are free in /dev/shm"),
        (replace(NODE, gpus=(IDLE, replace(IDLE, free_mib=9000))), "memory of 1 GPUs is in use"),
    ],
)
def test_what_would_fail_is_refused(node: Node, message: str) -> None:
    with pytest.raises(EnvironmentFailed, match=message):
        refuse_unfit(node, REAL)


def test_the_emulated_engine_needs_no_gpu() -> None:
    refuse_unfit(replace(NODE, shm_free=0, gpus=(replace(IDLE, free_mib=0),)), replace(REAL, kind="emulated"))
