"""Ports that are ranges, files a service finds, and nodes this machine is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.launch.ports import PortLeases
from ridgeline.launch.render import Filling, render_argv, render_files
from ridgeline.launch.supervisor import Supervisor


def test_a_range_is_leased_as_a_whole() -> None:
    with PortLeases() as leases:
        first = leases.lease(8)
        again = leases.lease(8)
        assert not set(range(first, first + 8)) & set(range(again, again + 8))
        with PortLeases() as others:
            assert others.lease(4) not in range(first, first + 8)


def test_ports_of_a_range_and_hosts_are_filled_in() -> None:
    service = Service("engine", (Item("{port:ranks+3}"), Item("tcp://{host:store}:{port:store.rpc}")))
    ports = {("engine", "ranks"): 5000, ("store", "rpc"): 7000}
    assert render_argv(service, Filling(ports)) == ["5003", "tcp://127.0.0.1:7000"]


def test_files_are_rendered_and_must_stay_in_the_folder() -> None:
    ports = {("store", "rpc"): 7000}
    service = Service("engine", (), files=(("a.json", Item('{"x":"{host:store}:{port:store.rpc}"}')),))
    assert render_files(service, Filling(ports)) == {"a.json": '{"x":"127.0.0.1:7000"}'}
    for name in ("../a", "/a", "", ".."):
        with pytest.raises(InputError, match="plain file name"):
            render_files(Service("engine", (), files=((name, Item("")),)), {})


def test_a_service_finds_its_files(tmp_path: Path) -> None:
    check = "import sys,pathlib,time; sys.exit(pathlib.Path('a.txt').read_text() != 'hello')"
    service = Service("job", (Item("{python}"), Item("-c"), Item(check)), ports=(), readiness=None,
                      files=(("a.txt", Item("hello")),))  # fmt: skip
    with Supervisor(Deployment((service,), "job", "m", "test"), tmp_path) as supervisor:
        assert supervisor.running["job"].process.wait(20) == 0


def test_other_nodes_are_not_this_machine(tmp_path: Path) -> None:
    here, there = (Service(name, (Item("x"),), node=node) for name, node in (("here", 0), ("there", 1)))
    with pytest.raises(EnvironmentFailed, match="there belong on other nodes"):
        Supervisor(Deployment((here, there), "here", "m", "test"), tmp_path).__enter__()
