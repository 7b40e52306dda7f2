"""The LMCache server as a service: KV in host memory, reached over ZMQ, asked for its health over HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.core.deployment import Readiness, Service
from ridgeline.core.where import Where
from ridgeline.recipes.argv import environment, flags, items
from ridgeline.recipes.checked import refuse_wrong
from ridgeline.recipes.origin import Option

HERE = Where("recipes/lmcache.py")
START_TIMEOUT_S = 900.0  # it pins all of its memory first
CHUNK = 256  # tokens; a multiple of every engine's hash block


@dataclass(frozen=True, slots=True, kw_only=True)
class LmcacheServer:
    """`lmcache server`, named as its flags are. `l1_size_gb` is the whole server's."""

    host: Option[str] = "127.0.0.1"
    port: Option[str] = "{port:zmq}"
    http_host: Option[str] = "127.0.0.1"
    http_port: Option[str] = "{port:http}"
    l1_size_gb: Option[int]
    max_workers: Option[int] = None
    chunk_size: Option[int] = CHUNK
    eviction_policy: Option[str] = "LRU"

    def __post_init__(self) -> None:
        refuse_wrong(self, positive=("l1_size_gb", "max_workers", "chunk_size"))


def lmcache_server(options: LmcacheServer) -> Service:
    """One server for all ranks of a node."""
    return Service(
        name="lmcache",
        argv=items(("lmcache", "server"), HERE) + flags(options, HERE),
        env=environment(HERE, {"LMCACHE_TRACK_USAGE": "false", "PYTHONHASHSEED": "0"}),
        ports=("http", "zmq"),
        readiness=Readiness(path="/healthcheck", answers=False, timeout_s=START_TIMEOUT_S),
        role="cache",
        stop_grace_s=30.0,
    )
