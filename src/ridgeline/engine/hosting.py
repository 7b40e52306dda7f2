"""Host memory that a launch sets aside for KV: in its own options, or in the services that it offloads to.

In: a launch and the services beside it. Out: bytes, or None where nothing is offloaded or no size is written. Sizes
come in GiB and in decimal GB, for an engine, for one GPU or for all ranks together; here they are bytes of all ranks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ridgeline.core.deployment import Service
from ridgeline.core.units import GB, GIB
from ridgeline.engine.argv import flags_of, last
from ridgeline.engine.launch import Launch

# Connectors that hand the cache from prefill to decode workers; they hold nothing.
TRANSFER = ("Nixl", "MooncakeConnector", "MoRIIO", "P2p", "DecodeBench", "Example")


def offload_of(launch: Launch) -> str:
    """The connector or backend by which a launch offloads KV, or nothing."""
    if launch.native_offload_gib is not None or launch.given("kv-offloading-backend"):
        return str(launch.flags["kv-offloading-backend"].value if launch.given("kv-offloading-backend") else "native")
    if launch.hicache_ratio is not None or launch.hicache_gb is not None or launch.given("enable-hierarchical-cache"):
        return "hicache"
    name = str(launch.connector.get("kv_connector") or "")
    return "" if name.startswith(TRANSFER) else name


def offloaded_bytes(launch: Launch, services: Sequence[Service] = ()) -> int | None:
    """Host bytes that all ranks of a launch ask for together; None when it offloads nothing, or does not say how much.
    vLLM's own backend sizes each engine, so that data-parallel ranks multiply it. `services`: those of its deployment,
    since LMCache's size is its server's and Mooncake's is in the engine's file."""
    ranks = launch.ranks
    if launch.hicache_gb is not None:  # SGLang: decimal GB a rank
        return round(launch.hicache_gb * GB) * launch.topology.gpus
    if launch.native_offload_gib is not None:
        return round(launch.native_offload_gib * GIB) * ranks
    extra = launch.connector.get("kv_connector_extra_config") or {}
    per_rank = extra.get("cpu_bytes_to_use_per_rank")
    if isinstance(per_rank, (int, float)):
        return round(per_rank) * launch.topology.gpus
    whole = extra.get("cpu_bytes_to_use")
    if isinstance(whole, (int, float)):
        return round(whole) * ranks
    name = offload_of(launch).lower()
    if "lmcache" in name:
        return _served(services)
    return _segments(launch) if "mooncake" in name else None


def _served(services: Sequence[Service]) -> int | None:
    """What LMCache's servers hold together, for all ranks that use them."""
    sizes = [last(flags_of(s.argv)[1]).get("l1-size-gb") for s in services if s.argv and s.argv[0].text == "lmcache"]
    found = [float(flag.value) for flag in sizes if flag and flag.value and flag.value.replace(".", "", 1).isdigit()]
    return round(sum(found) * GIB) if found else None


def _segments(launch: Launch) -> int | None:
    """Mooncake: what each GPU's process adds to the pool, by the file that it is told to read."""
    wanted = launch.env["MOONCAKE_CONFIG_PATH"].text if "MOONCAKE_CONFIG_PATH" in launch.env else None
    item = next((item for name, item in launch.service.files or () if wanted and wanted.endswith(name)), None)
    try:
        size = json.loads(item.text)["global_segment_size"] if item else None
    except (ValueError, KeyError, TypeError):
        return None
    return round(size) * launch.topology.gpus if isinstance(size, (int, float)) else None
