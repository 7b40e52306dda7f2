"""Routers as services: they stand before engines and keep a session on one rank.

Retries are off, since a retry does the work twice and hides the error; the circuit breaker is off, since a saturated
rank is what a benchmark looks for. Both are said, not left to defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.core.cell import Cell, Component
from ridgeline.core.deployment import Item, Readiness, Service
from ridgeline.core.where import Where
from ridgeline.recipes.argv import flags, items
from ridgeline.recipes.checked import refuse_wrong
from ridgeline.recipes.origin import Option, asked
from ridgeline.recipes.refusal import CannotRender

HERE = Where("recipes/router.py")
STOP_GRACE_S = 10.0
VLLM_POLICIES = ("random", "round_robin", "cache_aware", "power_of_two", "consistent_hash")
SESSION_HEADER = {"vllm-router": "X-Session-ID", "sglang-router": "X-SMG-Routing-Key"}

# The peer's windows are an hour and no agentic turn may be cut off inside one.
REQUEST_TIMEOUT_S = 7200


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmRouter:
    """vllm-router's options, named as its flags are. `intra_node_data_parallel_size` makes each URL that many workers
    and sends `X-data-parallel-rank`; it must equal the engine's data-parallel size."""

    host: Option[str] = "127.0.0.1"
    port: Option[str] = "{port:http}"
    worker_urls: Option[tuple[str, ...]] = None
    vllm_pd_disaggregation: Option[bool] = None
    prefill: Option[tuple[str, ...]] = field(default=None, metadata={"positional": True})  # one flag a URL, see below
    decode: Option[tuple[str, ...]] = field(default=None, metadata={"positional": True})
    policy: Option[str] = "consistent_hash"
    intra_node_data_parallel_size: Option[int] = None
    prometheus_host: Option[str] = "127.0.0.1"
    prometheus_port: Option[str] = "{port:prometheus}"
    worker_startup_timeout_secs: Option[int] = None
    request_timeout_secs: Option[int] = REQUEST_TIMEOUT_S
    max_concurrent_requests: Option[int] = None
    queue_size: Option[int] = None
    disable_retries: Option[bool] = True
    disable_circuit_breaker: Option[bool] = True

    def __post_init__(self) -> None:
        refuse_wrong(self, choices={"policy": VLLM_POLICIES}, positive=("intra_node_data_parallel_size",))


def vllm_router(
    cell: Cell, version: str | None, options: VllmRouter, *, after: tuple[str, ...], model: str, timeout_s: float
) -> Service:
    """`vllm-router`. Up to 0.1.14 it answers 404 at /v1/models when it expands ranks, so that proof is left out."""
    words = items(("vllm-router",), HERE) + flags(options, HERE)
    for flag, urls in (("--prefill", options.prefill), ("--decode", options.decode)):
        words += tuple(word for url in _urls(urls) for word in (Item(flag, cell.where), Item(url, cell.where)))
    mute = options.intra_node_data_parallel_size is not None and _version(version) <= (0, 1, 14)
    return Service(
        name="router",
        argv=words,
        ports=("http", "prometheus"),
        readiness=Readiness(served_model=model, timeout_s=timeout_s, lists=False if mute else None),
        after=after,
        role="router",
        stop_grace_s=STOP_GRACE_S,
        node=0 if cell.arm.pools else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangRouter:
    """sglang_router's options. In prefill/decode mode a prefill URL comes with its bootstrap port."""

    host: Option[str] = "127.0.0.1"
    port: Option[str] = "{port:http}"
    worker_urls: Option[tuple[str, ...]] = None
    pd_disaggregation: Option[bool] = None
    prefill: tuple[tuple[str, str], ...] = field(default=(), metadata={"positional": True})
    decode: tuple[str, ...] = field(default=(), metadata={"positional": True})
    policy: Option[str] = None
    dp_aware: Option[bool] = None
    prometheus_host: Option[str] = "127.0.0.1"
    prometheus_port: Option[str] = "{port:prometheus}"
    worker_startup_timeout_secs: Option[int] = None
    request_timeout_secs: Option[int] = REQUEST_TIMEOUT_S
    disable_retries: Option[bool] = True
    disable_circuit_breaker: Option[bool] = True
    disable_health_check: Option[bool] = None


def sglang_router(
    cell: Cell, options: SglangRouter, *, after: tuple[str, ...], model: str, timeout_s: float
) -> Service:
    """`python3 -m sglang_router.launch_router`."""
    words = items(("python3", "-m", "sglang_router.launch_router"), HERE) + flags(options, HERE)
    for url, bootstrap in options.prefill:
        words += items(("--prefill", url, bootstrap), cell.where)
    for url in options.decode:
        words += items(("--decode", url), cell.where)
    return Service(
        name="router",
        argv=words,
        ports=("http", "prometheus"),
        readiness=Readiness(served_model=model, timeout_s=timeout_s),
        after=after,
        role="router",
        stop_grace_s=STOP_GRACE_S,
        node=0 if cell.arm.pools else None,
    )


def before_engine(cell: Cell, ranks: int, *, model: str, timeout_s: float) -> Service | None:
    """The router a single-node cell asks for, before its one engine; None without one.

    Raises CannotRender for a router whose flags are not known.
    """
    router = cell.arm.router
    if router is None:
        return None
    url = ("http://127.0.0.1:{port:engine.http}",)
    startup = asked(int(timeout_s), cell)
    if router.name == "vllm-router":
        expanded = asked(ranks, cell) if ranks > 1 else None
        options = VllmRouter(
            worker_urls=asked(url, cell),
            intra_node_data_parallel_size=expanded,
            worker_startup_timeout_secs=startup,
            max_concurrent_requests=asked(max(32768, 4 * cell.concurrency), cell),
            queue_size=asked(max(100, 4 * cell.concurrency), cell),
        )
        return vllm_router(cell, router.version, options, after=("engine",), model=model, timeout_s=timeout_s)
    if router.name == "sglang-router":
        aware = SglangRouter(
            worker_urls=asked(url, cell),
            policy="consistent_hashing",
            dp_aware=True if ranks > 1 else None,
            worker_startup_timeout_secs=startup,
            disable_health_check=True,
        )
        return sglang_router(cell, aware, after=("engine",), model=model, timeout_s=timeout_s)
    raise CannotRender(cell, f"router `{_text(router)}`", hint=f"known: {', '.join(SESSION_HEADER)}")


def session_header(cell: Cell) -> str | None:
    """The header by which the cell's router tells sessions apart."""
    return SESSION_HEADER.get(cell.arm.router.name) if cell.arm.router else None


def _text(router: Component) -> str:
    return f"{router.name} {router.version}" if router.version else router.name


def _urls(option: Option[tuple[str, ...]]) -> tuple[str, ...]:
    from ridgeline.recipes.origin import plain

    return plain(option) or ()


def _version(text: str | None) -> tuple[int, ...]:
    """Unknown versions count as new."""
    parts = (text or "").split(".")
    return tuple(int(part) for part in parts[:3]) if all(part.isdecimal() for part in parts[:3]) else (999,)
