"""Which machines a deployment's nodes are, as Slurm tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.core.deployment import Deployment, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.allocation import OneMachine, SlurmNodes, allocation, nodes_of, srun_words

SERVICES = (Service("prefill0", (), node=0), Service("decode0", (), node=2), Service("router", ()))
POOLS = Deployment(SERVICES, "router", "m", "emulated")


def slurm(words: Sequence[str]) -> str:
    if words[:3] == ["scontrol", "show", "hostnames"]:
        assert words[3] == "n[1-3]"
        return "n1\nn2\nn3\n"
    name = words[3]
    return f"NodeName={name} Arch=x86_64 NodeAddr=10.0.0.{name[1:]} NodeHostName=host{name[1:]}\n"


def test_nodes_are_counted_from_what_services_name() -> None:
    assert nodes_of(POOLS) == 3
    assert nodes_of(Deployment((Service("engine", ()),), "engine", "m", "vllm")) == 1


def test_a_job_of_several_nodes_is_an_allocation() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "n[1-3]", "SLURMD_NODENAME": "n1"}
    found = allocation(environ, slurm)
    assert found == SlurmNodes((("n1", "10.0.0.1"), ("n2", "10.0.0.2"), ("n3", "10.0.0.3")), "n1")


@pytest.mark.parametrize("environ", [{}, {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1"}])
def test_anything_else_is_this_machine(environ: dict[str, str]) -> None:
    assert isinstance(allocation(environ, slurm), OneMachine)


def test_one_machine_holds_all_nodes_of_an_emulated_deployment_only(tmp_path: Path) -> None:
    with OneMachine().open(POOLS, tmp_path) as place:
        assert len(place.machines) == 3
        assert len(place.distinct) == 1
        assert place.of(SERVICES[1]).address == "127.0.0.1"
    with (
        pytest.raises(EnvironmentFailed, match="decode0 belong on other nodes: this deployment needs 3"),
        OneMachine().open(replace(POOLS, kind="vllm"), tmp_path),
    ):
        pytest.fail("real engines do not share GPUs")


def test_too_small_a_job_is_refused(tmp_path: Path) -> None:
    nodes = SlurmNodes((("n1", "10.0.0.1"), ("n2", "10.0.0.2")), "n1")
    with pytest.raises(EnvironmentFailed, match="needs 3 nodes, and the Slurm job has 2"), nodes.open(POOLS, tmp_path):
        pytest.fail("there is no third node")


def test_a_step_lies_beside_others_on_one_node() -> None:
    words = srun_words("n2")
    assert words[0] == "srun"
    assert {"--overlap", "--nodes=1", "--ntasks=1", "--nodelist=n2"} <= set(words)
