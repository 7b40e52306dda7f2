"""KV beyond the GPU for vLLM: one function a backend, from the arm's host-memory budget to services and options.

The budget (`cpu_dram_gb`) is decimal GB for the whole replica. Engines take GiB, and each data-parallel rank is an
engine of its own that allocates what it is told: so the budget is converted, and divided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Item, Service
from ridgeline.core.units import GIB
from ridgeline.core.where import Where
from ridgeline.recipes.argv import Env, compact
from ridgeline.recipes.lmcache import LmcacheServer, lmcache_server
from ridgeline.recipes.mooncake import MooncakeMaster, mooncake_master, store_file
from ridgeline.recipes.origin import asked
from ridgeline.recipes.refusal import CannotRender
from ridgeline.recipes.vllm import KvStore

HERE = Where("recipes/offload.py")
GB = 10**9
MOONCAKE_BUFFER = 4 * GIB  # per rank, beside its segment
HASH_SEED: Env = MappingProxyType({"PYTHONHASHSEED": "0"})  # block hashes must agree between processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """What a backend adds: services that must be ready before the engine, options, environment and files of it."""

    services: tuple[Service, ...] = ()
    store: KvStore = field(default_factory=KvStore)
    env: Env = field(default_factory=dict)
    files: tuple[tuple[str, Item], ...] | None = None

    @property
    def after(self) -> tuple[str, ...]:
        return tuple(service.name for service in self.services)


def offload(cell: Cell, ranks: int) -> Offload:
    """What the cell's arm asks for. Raises CannotRender for an unknown backend or a missing budget."""
    arm = cell.arm
    if arm.kv_offloading == "none":
        return Offload()
    name = arm.kv_offload_backend.name if arm.kv_offload_backend else "native"
    backend = BACKENDS.get(name)
    if backend is None:
        raise CannotRender(cell, f"KV offload backend `{name}`", hint=f"known to vLLM recipes: {', '.join(BACKENDS)}")
    if arm.cpu_dram_gb <= 0:
        hint = "give --runner-config, which says how much host memory the runner has"
        raise CannotRender(cell, "KV offloading without a host-memory budget", hint=hint)
    return backend(cell, ranks)


def _native(cell: Cell, ranks: int) -> Offload:
    store = KvStore(kv_offloading_backend=asked("native", cell), kv_offloading_size=asked(_gib(cell, ranks), cell))
    return Offload(store=store, env=HASH_SEED)


def _simple(cell: Cell, ranks: int) -> Offload:
    config = {
        "kv_connector": "SimpleCPUOffloadConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": cell.arm.cpu_dram_gb * GB // ranks},
    }
    return Offload(store=KvStore(kv_transfer_config=asked(config, cell)), env=HASH_SEED)


def _lmcache(cell: Cell, ranks: int) -> Offload:
    options = LmcacheServer(l1_size_gb=asked(_gib(cell, 1), cell), max_workers=asked(max(1, ranks), cell))
    config = {
        "kv_connector": "LMCacheMPConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "lmcache.mp.host": "tcp://127.0.0.1",  # the scheme belongs on the connector's side only
            "lmcache.mp.port": "{port:lmcache.zmq}",
        },
    }
    store = KvStore(kv_transfer_config=asked(config, cell))
    return Offload(services=(lmcache_server(options),), store=store, env=HASH_SEED)


def _mooncake(cell: Cell, ranks: int) -> Offload:
    segment = cell.arm.cpu_dram_gb * GB // cell.gpus - MOONCAKE_BUFFER
    if segment <= 0:
        raise CannotRender(cell, f"Mooncake with {cell.arm.cpu_dram_gb} GB for {cell.gpus} ranks")
    file = compact(store_file(segment=segment, buffer=MOONCAKE_BUFFER))
    config = {"kv_connector": "MooncakeStoreConnector", "kv_role": "kv_both"}
    return Offload(
        services=(mooncake_master(MooncakeMaster()),),
        store=KvStore(kv_transfer_config=asked(config, cell)),
        env={**HASH_SEED, "MOONCAKE_CONFIG_PATH": "mooncake.json"},
        files=(("mooncake.json", Item(file, HERE)),),
    )


BACKENDS: dict[str, Callable[[Cell, int], Offload]] = {
    "native": _native,
    "vllm-native": _native,
    "vllm-simple": _simple,
    "lmcache": _lmcache,
    "mooncake": _mooncake,
}


def _gib(cell: Cell, engines: int) -> int:
    """Whole GiB that each of `engines` may take of the budget."""
    gib = cell.arm.cpu_dram_gb * GB // engines // GIB
    if gib < 1:
        raise CannotRender(cell, f"KV offloading of {cell.arm.cpu_dram_gb} GB shared by {engines} engines")
    return gib
