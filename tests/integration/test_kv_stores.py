"""LMCache's server and Mooncake's master, from their recipes, started for real under supervision, asked, and gone."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.command import processes_with
from tests.integration.kvstores import lmcache_bin, mooncake_bin

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.launch.engines import read_log, stores
from ridgeline.launch.ports import PortLeases
from ridgeline.launch.readiness import request
from ridgeline.launch.supervisor import Supervisor
from ridgeline.recipes.lmcache import LmcacheServer, lmcache_server
from ridgeline.recipes.mooncake import MooncakeMaster, mooncake_master

pytestmark = pytest.mark.integration


def at(service: Service, folder: Path, **limits: float) -> Service:
    """A recipe's service with its program from a folder, at low priority."""
    first, *rest = service.argv
    argv = (Item("nice"), Item("-n"), Item("10"), Item(str(folder / first.text)), *rest)
    assert service.readiness is not None
    return replace(service, argv=argv, readiness=replace(service.readiness, timeout_s=limits.get("timeout_s", 240.0)))


def alone(service: Service, folder: Path, tag: str) -> Supervisor:
    tagged = replace(service, env=(*service.env, ("RIDGELINE_TEST_TAG", Item(tag))))
    return Supervisor(Deployment((tagged,), service.name, "", "command"), folder)


def assert_sound(log: Path) -> None:
    """It said something, and nothing of it sounds like trouble."""
    assert log.stat().st_size > 0
    assert read_log(log, stores.SHAPES, stores.PARSER) == []


def test_lmcache_serves_and_leaves_nothing(tmp_path: Path) -> None:
    service = at(lmcache_server(LmcacheServer(l1_size_gb=1, max_workers=1)), lmcache_bin())
    service = replace(service, argv=(*service.argv, Item("--no-l1-use-lazy")))
    tag = f"lmcache-{os.getpid()}"
    with alone(service, tmp_path, tag) as running:
        ports = running.running["lmcache"].ports
        assert request(ports["http"], "GET", "/healthcheck")[0] == 200
        assert request(ports["http"], "GET", "/status")[0] == 200
        assert request(ports["http"], "GET", "/health")[0] == 404, "the engine's usual page would have waited for ever"
        assert running.running["lmcache"].ready_s is not None
        assert processes_with(tag)
    assert processes_with(tag) == []
    assert_sound(running.logs["lmcache"])


PUT_AND_GET = """
import sys
from mooncake.store import MooncakeDistributedStore
rpc, metadata, own = sys.argv[1:]
store = MooncakeDistributedStore()
code = store.setup(f"127.0.0.1:{own}", f"http://127.0.0.1:{metadata}/metadata", 64 << 20, 16 << 20, "tcp", "",
                   f"127.0.0.1:{rpc}")
assert code == 0, code
assert store.put("key", b"x" * 65536) == 0
assert store.get("key") == b"x" * 65536
print("stored", flush=True)
import os; os._exit(0)
"""


def test_mooncakes_master_takes_a_client_and_leaves_nothing(tmp_path: Path) -> None:
    folder = mooncake_bin()
    service = at(mooncake_master(MooncakeMaster()), folder, timeout_s=60.0)
    tag = f"mooncake-{os.getpid()}"
    with alone(service, tmp_path, tag) as running:
        ports = running.running["mooncake"].ports
        assert request(ports["metrics"], "GET", "/health")[0] == 200
        status, page = request(ports["metrics"], "GET", "/metrics")
        assert status == 200
        assert "master_" in str(page)
        with PortLeases() as leases:
            words = [str(folder / "python"), "-c", PUT_AND_GET, str(ports["rpc"]), str(ports["metadata"])]
            done = subprocess.run([*words, str(leases.lease())], capture_output=True, text=True, timeout=120)
        assert "stored" in done.stdout, done.stderr[-2000:]
    assert processes_with(tag) == []
    assert_sound(running.logs["mooncake"])
