"""The Mooncake master as a service, and the file by which an engine's store finds it."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.core.deployment import Readiness, Service
from ridgeline.core.where import Where
from ridgeline.recipes.argv import items
from ridgeline.recipes.origin import Option, plain

HERE = Where("recipes/mooncake.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class MooncakeMaster:
    """`mooncake_master`'s flags. It is asked for its health at the metrics port: a live process proves nothing."""

    rpc_address: Option[str] = "127.0.0.1"
    rpc_port: Option[str] = "{port:rpc}"
    metrics_host: Option[str] = "127.0.0.1"
    metrics_port: Option[str] = "{port:metrics}"
    enable_http_metadata_server: Option[str] = "true"
    http_metadata_server_host: Option[str] = "127.0.0.1"
    http_metadata_server_port: Option[str] = "{port:metadata}"


def mooncake_master(options: MooncakeMaster) -> Service:
    """The master. Its flags are single-dashed `-name=value` words."""
    words = [f"-{name}={plain(getattr(options, name))}" for name in MooncakeMaster.__dataclass_fields__]
    return Service(
        name="mooncake",
        argv=items(("mooncake_master", *words, "-logtostderr"), HERE),
        ports=("metrics", "rpc", "metadata"),
        readiness=Readiness(path="/health", answers=False, timeout_s=120.0),
        role="cache",
        stop_grace_s=30.0,
    )


def store_file(*, segment: int, buffer: int, protocol: str = "rdma", devices: str = "") -> dict[str, object]:
    """What an engine's embedded store reads: `segment` bytes of this rank join the pool, `buffer` bytes come on top."""
    return {
        "metadata_server": "http://{host:mooncake}:{port:mooncake.metadata}/metadata",
        "master_server_address": "{host:mooncake}:{port:mooncake.rpc}",
        "global_segment_size": segment,
        "local_buffer_size": buffer,
        "protocol": protocol,
        "device_name": devices,
    }
