"""A real vllm-router before an emulated engine of two ranks: which request header keeps a session on its rank.

A request id of its own on every request is a hash key of this router too, so its precedence decides whether a client
that sends both keeps its sessions together.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from tests.integration.realstack import RealStack

from ridgeline.core.cell import Arm, Benchmark, Cell, Component, Scenario
from ridgeline.core.deployment import Deployment, Item
from ridgeline.core.topology import Topology
from ridgeline.launch.engines.ranks import VLLM, shown_ranks
from ridgeline.launch.readiness import one_token, request
from ridgeline.launch.supervisor import Supervisor
from ridgeline.recipes.router import VllmRouter, vllm_router
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.sweep.deploy import Deploy

pytestmark = pytest.mark.integration

MODEL = "Qwen/Qwen3-8B"
SESSIONS, TURNS = 10, 4


@pytest.fixture(scope="module")
def running(stack: RealStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    benchmark = Benchmark("router", "img", MODEL, "qwen3", "fp8", "emulated", "cluster:h200-nv")
    arm = Arm(Topology(tp=2, dp_attn=True), router=Component("vllm-router", "0.1.14"))
    cell = Cell(benchmark, Scenario("agentic-coding", duration_s=20), arm, 4)
    emulated, _ = Deploy("emulated", RecipeSettings(speed=50))(cell)
    (engine,) = emulated.services
    asked = VllmRouter(worker_urls=("http://127.0.0.1:{port:engine.http}",), intra_node_data_parallel_size=2)
    router = vllm_router(cell, "0.1.14", asked, after=("engine",), model=MODEL, timeout_s=60.0)
    router = replace(router, argv=(Item(str(stack.bin / "vllm-router")), *router.argv[1:]))
    deployment = Deployment((engine, router), "router", MODEL, "emulated", metrics=("engine",))
    with Supervisor(deployment, tmp_path_factory.mktemp("router")) as supervisor:
        yield supervisor


def rank_of(running: Supervisor, headers: Mapping[str, str]) -> str:
    """Which rank a request with these headers is served by."""
    engine, router = (next(iter(running.running[name].ports.values())) for name in ("engine", "router"))
    before = shown_ranks(request(engine, "GET", "/metrics")[1], VLLM)
    body = one_token("/v1/chat/completions", MODEL)
    body["messages"] = [{"role": "user", "content": f"ready? {uuid.uuid4()}"}]
    assert request(router, "POST", "/v1/chat/completions", body, headers)[0] == 200
    after = shown_ranks(request(engine, "GET", "/metrics")[1], VLLM)
    assert before is not None
    assert after is not None
    (moved,) = [rank for rank in after if after[rank] > before[rank]]
    return moved


def ranks_by_session(running: Supervisor, header: str | None, unique: tuple[str, ...]) -> list[set[str]]:
    """Ranks of each session's turns, when every request carries these unique headers too."""
    found = []
    for session in range(SESSIONS):
        own = {header: f"session-{session}"} if header else {}
        found.append({rank_of(running, {**{n: str(uuid.uuid4()) for n in unique}, **own}) for _ in range(TURNS)})
    return found


def test_the_start_reached_both_ranks_through_the_router(running: Supervisor) -> None:
    assert running.ranks == {"engine": 2}


def test_sessions_stay_although_every_request_has_an_id_of_its_own(running: Supervisor) -> None:
    ranks = ranks_by_session(running, "X-Session-ID", ("X-Request-ID",))
    assert all(len(found) == 1 for found in ranks), "X-Session-ID comes before X-Request-ID"
    assert len(set.union(*ranks)) == 2, "and spreads sessions"


def test_a_request_id_alone_is_a_hash_key_and_breaks_affinity(running: Supervisor) -> None:
    ranks = ranks_by_session(running, None, ("X-Request-ID",))
    assert any(len(found) == 2 for found in ranks)
