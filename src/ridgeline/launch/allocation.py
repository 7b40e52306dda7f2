"""Which machines the nodes of a deployment are: this one, or those of the Slurm job that we run in.

Services name nodes by number (`Service.node`). Inside a job of several nodes, number k is the job's k-th node, and
services there are started by an agent that `srun` carries: the job's own containment holds above ours. On one machine
an emulated deployment may keep all its nodes there, since it occupies no GPUs; a real one is refused by name.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from ridgeline.core.deployment import Deployment, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.machines import AgentMachine, Machine, ThisMachine
from ridgeline.launch.slurm import Command, run_command

EMULATED = "emulated"


class Place(NamedTuple):
    """The machine of each node, by number."""

    machines: tuple[Machine, ...]

    def of(self, service: Service) -> Machine:
        """Where a service belongs."""
        return self.machines[service.node or 0]

    @property
    def distinct(self) -> tuple[Machine, ...]:
        """Each machine once."""
        return tuple(dict.fromkeys(self.machines))


class Allocation(Protocol):
    """Machines that are ours for now."""

    def open(self, deployment: Deployment, folder: Path) -> contextlib.AbstractContextManager[Place]:
        """The machines of a deployment's nodes while the block runs. Raises EnvironmentFailed when there are not
        enough."""


def nodes_of(deployment: Deployment) -> int:
    """How many nodes a deployment names."""
    return 1 + max((service.node or 0 for service in deployment.services), default=0)


class OneMachine:
    """This machine alone."""

    @contextlib.contextmanager
    def open(self, deployment: Deployment, folder: Path) -> Iterator[Place]:
        count = nodes_of(deployment)
        if count > 1 and deployment.kind != EMULATED:
            away = [service.name for service in deployment.services if service.node]
            raise EnvironmentFailed(
                f"{', '.join(away)} belong on other nodes: this deployment needs {count}, and this machine is one",
                hint="`--executor slurm` asks for them, or run inside an allocation of that many nodes",
            )
        machine = ThisMachine()
        try:
            yield Place((machine,) * count)
        finally:
            machine.close()


@dataclass(frozen=True, slots=True)
class SlurmNodes:
    """The nodes of the Slurm job we run in: names and addresses in the job's order. `here`: the name of the one that
    this process is on, empty when it is none of them (salloc on a login node)."""

    nodes: tuple[tuple[str, str], ...]
    here: str = ""

    @contextlib.contextmanager
    def open(self, deployment: Deployment, folder: Path) -> Iterator[Place]:
        count = nodes_of(deployment)
        if count > len(self.nodes):
            raise EnvironmentFailed(
                f"this deployment needs {count} nodes, and the Slurm job has {len(self.nodes)}",
                hint="ask for more: `--nodes` of the job",
            )
        with contextlib.ExitStack() as stack:
            machines: list[Machine] = []
            for name, address in self.nodes[:count]:
                machine: Machine
                if name == self.here:
                    machine = ThisMachine(name, address)
                else:
                    words = [*srun_words(name), sys.executable, "-m", "ridgeline.launch.agent"]
                    machine = AgentMachine(name, address, words, folder / f"agent-{name}.log")
                stack.callback(machine.close)
                machines.append(machine)
            yield Place(tuple(machines))


def srun_words(node: str) -> list[str]:
    """A step on one node of our own job, beside others, with our environment. It gets all that the job has there."""
    return [
        "srun",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        "--export=ALL",
        "--job-name=ridgeline",
    ]


def allocation(environ: Mapping[str, str] | None = None, run: Command = run_command) -> Allocation:
    """What we may use: the nodes of the Slurm job around us when it has several, else this machine. Raises
    EnvironmentFailed when Slurm does not say where they are."""
    found = os.environ if environ is None else environ
    if "SLURM_JOB_ID" not in found or int(found.get("SLURM_JOB_NUM_NODES", "1")) < 2:
        return OneMachine()
    names = run(["scontrol", "show", "hostnames", found["SLURM_JOB_NODELIST"]]).split()
    return SlurmNodes(tuple((name, _address(name, run)) for name in names), found.get("SLURMD_NODENAME", ""))


def _address(name: str, run: Command) -> str:
    """Where Slurm itself reaches a node; its name is not always known to the resolver."""
    words = run(["scontrol", "show", "node", name, "--oneliner"]).split()
    return next((word.partition("=")[2] for word in words if word.startswith("NodeAddr=")), name)
