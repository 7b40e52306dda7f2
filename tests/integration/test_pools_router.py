"""Emulated pools behind a real vllm-router: its two-stage protocol moves our KV as it would move vLLM's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import CONFIG
from tests.integration.realstack import RealStack, real_stack

from ridgeline.cli.search import chosen_cells
from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Item
from ridgeline.core.point import Point, Source
from ridgeline.core.record import Outcome
from ridgeline.recipes.router import VllmRouter, vllm_router
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep.deploy import Deploy
from ridgeline.sweep.run import Summary, Sweep
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload
from ridgeline.trace.synth import quickstart_trace

pytestmark = pytest.mark.integration

SETTINGS = SweepSettings(duration_s=40, warmup_per_lane=0, speed=10.0, max_sessions=8)


def behind(stack: RealStack, cell: Cell) -> tuple[Deployment, Source]:
    """The emulated pools, their own router replaced by the real one with the flags that recipes write."""
    deployment, source = Deploy("emulated", RecipeSettings(speed=SETTINGS.speed))(cell)
    urls = {s.name: f"http://{{host:{s.name}}}:{{port:{s.name}.http}}" for s in deployment.services}
    options = VllmRouter(
        host="{host:router}",
        vllm_pd_disaggregation=True,
        prefill=tuple(urls[s.name] for s in deployment.services if s.role == "prefill"),
        decode=tuple(urls[s.name] for s in deployment.services if s.role == "decode"),
    )
    after = deployment.service("router").after
    router = vllm_router(cell, "0.1.14", options, after=after, model=deployment.served_model, timeout_s=60.0)
    router = replace(router, argv=(Item(str(stack.bin / "vllm-router")), *router.argv[1:]))
    services = tuple(router if s.name == "router" else s for s in deployment.services)
    metrics = tuple(name for name in deployment.metrics if name != "router")
    return replace(deployment, services=services, metrics=metrics), source


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunFolder, Point]]:
    stack = real_stack()
    (cell,) = chosen_cells([CONFIG.with_name("pools.yaml")], None, "*/c4")
    folder = tmp_path_factory.mktemp("pools")
    sweep = Sweep([cell], SETTINGS, Workload(SETTINGS, quickstart_trace()), lambda c: behind(stack, c))
    with RunFolder.create_or_open(folder / "run", RunHeader(name="pools", created_at="2026-01-01T00:00:00Z")) as out:
        assert sweep.run(out) == Summary(1, 0, 0, 0), [failure.message for failure in out.failures()]
    found = RunFolder.open(folder / "run")
    yield found, found.points()[0]


def stored(run: RunFolder, point: Point, name: str) -> Any:
    return json.loads((Path(run.cell_folder(point.run_key)) / f"{name}.json").read_text())


def test_the_hand_over_is_proved_and_sessions_stay(run: tuple[RunFolder, Point]) -> None:
    folder, point = run
    outcomes = {o["expectation"]["name"]: o for o in stored(folder, point, "proof")}
    for name in ("engines", "kv_handed_over", "kv_tokens", "prefix_hit", "router_retries", "router_breaker"):
        assert outcomes[name]["stands"] == "confirmed", outcomes[name]["message"]
    evidence = [piece for piece in stored(folder, point, "evidence") if piece["name"] == "router_key_source"]
    assert {piece["value"] for piece in evidence} <= {"header:x-session-id"}
    assert evidence, "the real router says by which key it spreads"


def test_every_answer_is_whole_and_comes_from_a_decode_worker(run: tuple[RunFolder, Point]) -> None:
    folder, point = run
    replay = folder.replay_of(point.run_key)
    answered = [record for record in replay.records if record.outcome is Outcome.OK]
    assert len(answered) > 10
    assert {record.outcome for record in replay.records} <= {Outcome.OK, Outcome.CANCELLED}
    assert all(record.completion_tokens == record.max_tokens for record in answered)
    last: dict[str, float] = {}
    for sample in replay.samples:
        last |= {f"{sample.endpoint} {name}": value for name, value in (sample.values or {}).items()}

    def total(name: str) -> float:
        return sum(value for key, value in last.items() if f" {name}" in key)

    assert 0 < total("ridgeline:kv_transfer_bytes_total") <= total("ridgeline:kv_offered_bytes_total")
    assert total("ridgeline:kv_transfers_total") <= total("ridgeline:kv_offers_total")
