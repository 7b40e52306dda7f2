"""What a node has is found before anything is started, and what cannot work is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.units import GIB, MIB
from ridgeline.launch.probe import (
    Gpu,
    Link,
    Node,
    listening_ports,
    network_links,
    node_from,
    parse_nvidia,
    parse_nvlink,
    probe,
    refuse_unfit,
)

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


NVLINK = """GPU 0: NVIDIA H200 (UUID: GPU-1)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA H200 (UUID: GPU-2)
\t Link 0: 26.562 GB/s
"""
KV = Deployment(
    (Service("prefill0", (), role="prefill", node=0), Service("decode0", (), role="decode", node=1)), "x", "m", "vllm"
)


def test_links_of_gpus_and_of_the_network(tmp_path: Path) -> None:
    assert [(link.name, link.up) for link in parse_nvlink(NVLINK)] == [
        ("GPU 0 Link 0", True), ("GPU 0 Link 1", False), ("GPU 1 Link 0", True),
    ]  # fmt: skip
    port = tmp_path / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    (tmp_path / "mlx5_1" / "ports" / "1").mkdir(parents=True)  # its files cannot be read
    assert network_links(tmp_path) == (Link("mlx5_0/1", True, "4: ACTIVE, 400 Gb/sec (4X NDR)"),)
    assert network_links(tmp_path / "none") == ()


def test_ports_that_somebody_listens_on(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(
        "  sl  local_address rem_address   st tx_queue\n"
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n"
        "   1: 0100007F:1F91 0100007F:0050 01 00000000:00000000\n"
    )
    assert listening_ports((str(table), str(tmp_path / "none"))) == (8080,)


@pytest.mark.parametrize(
    ("node", "deployment", "message"),
    [
        (replace(NODE, links=parse_nvlink(NVLINK)), REAL, r"1 of 3 NVLinks are inactive \(GPU 0 Link 1\)"),
        (replace(NODE, memlock=64 << 10), KV, "only 0 MiB may be locked in memory"),
        (replace(NODE, links=(Link("mlx5_0/1", False, "1: DOWN, 10 Gb/sec"),)), KV, "no network link is up"),
        (
            replace(NODE, listening=(8000, 9000)),
            replace(REAL, services=(Service("e", (Item("vllm"), Item("--port"), Item("8000"), Item("--x-port=7"))),)),
            "port 8000 is taken, and the recipe names it",
        ),
    ],
)
def test_links_memlock_and_ports_that_would_fail_are_refused(node: Node, deployment: Deployment, message: str) -> None:
    with pytest.raises(EnvironmentFailed, match=message):
        refuse_unfit(node, deployment)


def test_links_that_are_all_dark_and_limits_that_nothing_needs_are_no_fault() -> None:
    dark = parse_nvlink(NVLINK.replace("26.562 GB/s", "<inactive>"))
    refuse_unfit(replace(NODE, links=dark, memlock=64 << 10, listening=(8000,)), REAL)


def test_facts_survive_the_way_as_json() -> None:
    import json

    node = replace(NODE, gpus=(IDLE,), links=parse_nvlink(NVLINK), listening=(22,))
    assert node_from(json.loads(json.dumps(node.plain()))) == node
