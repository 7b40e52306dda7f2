"""What every run promises, beside what the preflight promises for its cell.

Each promise is an expectation with its limit in it. They apply where they can be judged: affinity needs several ranks,
prefix hits need sessions that repeat, graph coverage needs an engine that captures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.finding import Expectation
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions
from ridgeline.launch.engines import spoken
from ridgeline.recipes.placement import ranks_in, ranks_of

KV_SLACK = 0.03  # a pool smaller than predicted by more than this is another configuration
PREEMPTED = 0.001  # of the requests
PREFIX_GAP = 0.10  # hits below what the sessions repeat; judged only where the pool never filled up
AFFINITY = 0.9  # share of returning turns that find most of their session in the cache
GRAPH_MISSES = 0.02  # share of decode steps without a graph
LANES_A_RANK = 4  # with fewer sessions a rank, even a fair hash is uneven
CONTAMINATION = 0.02  # prompt tokens cached before the first answer, of all that was measured
IMBALANCE = 1.5  # the busiest rank against the mean


def promises(
    cell: Cell, deployment: Deployment, preflight: Sequence[Expectation] = (), *, shared: bool = False
) -> tuple[Expectation, ...]:
    """The preflight's expectations and those that hold for any run of such a deployment. `shared`: the engine served
    another cell before, so what that one left in the cache must not have helped."""
    kind = spoken(deployment)
    standing = list(_standing(cell, deployment)) if kind.prefix else []
    if shared and kind.prefix and cell.scenario.kind == "agentic-coding":
        standing.append(Expectation("contamination", "<=", CONTAMINATION, rule="E10"))
    if not kind.prefix:
        standing.append(Expectation("engine_told", "==", "True", rule="E0"))
    unique = {(w.name, w.op, w.value): w for w in (*standing, *map(_as_logged, preflight))}
    return tuple(unique.values())


def of_emulated(options: EngineOptions) -> tuple[Expectation, ...]:
    """What an emulated engine with these options must log: its memory and its graphs are known exactly."""
    tokens = memory_of(options).capacity.tokens
    return (
        Expectation("kv_tokens", ">=", int(tokens * (1 - KV_SLACK)), "tokens", "E9"),
        Expectation("full_graphs", "==", float(len(options.graphs.full)), rule="E9"),
        Expectation("prefix_caching", "==", str(options.enable_prefix_caching), rule="E9"),
    )


def _as_logged(wanted: Expectation) -> Expectation:
    """The same promise in the form a log can prove: an engine tells how many graphs it captured, not which."""
    if wanted.name == "full_graph_sizes":
        sizes = [size for size in str(wanted.value).split(",") if size]
        return Expectation("full_graphs", "==", float(len(sizes)), rule=wanted.rule)
    return wanted


def _standing(cell: Cell, deployment: Deployment) -> Iterator[Expectation]:
    ranks = ranks_of(cell.arm.topology).dp if cell.arm.topology else None
    yield Expectation("engines", "==", ranks_in(cell), rule="E1")
    roles = {service.role for service in deployment.services}
    if {"prefill", "decode"} <= roles:
        yield Expectation("kv_handed_over", ">", 0.0, "bytes", "E11")
    if cell.scenario.kind == "agentic-coding":
        yield Expectation("prefix_hit", ">", 0.0, rule="E2")
        yield Expectation("prefix_gap", "<=", PREFIX_GAP, rule="E2")
        if cell.arm.kv_offloading != "none":
            yield Expectation("external_hit", ">", 0.0, rule="E6")
        if ranks is not None and ranks > 1:
            yield Expectation("affinity", ">=", AFFINITY, rule="E3")
    if ranks is not None and ranks > 1 and cell.concurrency >= LANES_A_RANK * ranks:
        yield Expectation("rank_imbalance", "<=", IMBALANCE, rule="E7")
    words = [item.text for service in deployment.services for item in service.argv]
    if spoken(deployment).counts_graphs or "--cudagraph-metrics" in words:
        yield Expectation("graph_misses", "<=", GRAPH_MISSES, rule="E8")
    if any(service.role == "cache" for service in deployment.services):
        yield Expectation("store_trouble", "==", "absent", rule="E6")
    yield Expectation("preempted_share", "<=", PREEMPTED, rule="E4")
    if any(service.role == "router" for service in deployment.services):
        yield Expectation("router_retries", "==", 0.0, rule="E5")
        yield Expectation("router_breaker", "==", 0.0, rule="E5")
