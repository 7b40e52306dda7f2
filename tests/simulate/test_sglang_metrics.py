"""One engine under two vocabularies: whoever reads the pages learns the same."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.results.builders import S, cell, record, replay
from tests.simulate.serving import options

from ridgeline.core.clock import ManualClock
from ridgeline.core.record import ServerSample
from ridgeline.core.topology import Topology
from ridgeline.launch.engines import ranks
from ridgeline.replay.scrape import parse_metrics
from ridgeline.results.aggregate import measures_of, scope_of
from ridgeline.results.export.server_block import server_block
from ridgeline.simulate.costparams import parameters_for
from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.graphlog import CountedSteps
from ridgeline.simulate.request import Request
from ridgeline.simulate.server.page import metrics_page
from ridgeline.simulate.server.pump import Pump

LIMITS = {"topology": Topology(2, dp_attn=True), "kv_tokens": 2000, "num_speculative_tokens": 2}


def both(engine: Engine) -> tuple[str, str]:
    pump = Pump(engine, ManualClock(), lambda at: None, router="session")
    vllm, sglang = (metrics_page(engine, pump, "m", 1.0, names).decode() for names in ("vllm", "sglang"))
    return vllm, sglang


@pytest.fixture(scope="module")
def pages() -> list[tuple[str, str]]:
    """Both pages before, in the middle of and after some work: shared beginnings, drafts, two ranks, a full pool."""
    given = options(**LIMITS)
    engine = engine_of(given)
    engine.price = CountedSteps(given, parameters_for(given.gpu.name, given.engine))
    found = [both(engine)]
    for key in range(8):
        blocks = [hash((key // 4, block)) for block in range(40)] + [hash((key, block)) for block in range(40, 60)]
        engine.submit(key % 2, Request(key, 640, 320, blocks), 0)
    engine.kick(0)
    while engine.ends_at is not None and engine.steps < 30:
        engine.finish()
    found.append(both(engine))
    while engine.ends_at is not None:
        engine.finish()
    return [*found, both(engine)]


def read(pages: list[tuple[str, str]], vocabulary: int):
    samples = tuple(
        ServerSample(at_ns=round(at * S), endpoint="http://e/metrics", values=parse_metrics(page[vocabulary]))
        for at, page in zip((0.0, 30.0, 61.0), pages, strict=True)
    )
    return replay([record()], samples=samples)


@pytest.mark.parametrize(
    "name",
    ["kv_usage.mean", "kv_usage.peak", "queue_depth.mean", "running.mean", "preemptions", "server_ttft.p50",
     "server_queue_time.p50"],
)  # fmt: skip
def test_our_own_scrape_reads_the_same_from_both(pages: list[tuple[str, str]], name: str) -> None:
    told = []
    for vocabulary in (0, 1):
        scope, _ = scope_of(read(pages, vocabulary), gpus=2, cell=cell(1))
        told.append(measures_of(scope, withhold=False)[name].value)
    assert told[0] is not None
    assert told[0] == pytest.approx(told[1])


def test_the_work_was_worth_comparing(pages: list[tuple[str, str]]) -> None:
    last = parse_metrics(pages[-1][1])
    assert sum(value for name, value in last.items() if name.startswith("sglang:num_retracted_requests_total")) > 0
    assert sum(value for name, value in last.items() if name.startswith("sglang:cached_tokens_total")) > 0
    assert last['sglang:num_requests_total{model_name="m"}'] == 8
    assert last['sglang:prompt_tokens_total{model_name="m"}'] == 8 * 640
    assert last['sglang:generation_tokens_total{model_name="m"}'] == 8 * 320


def test_hits_are_cached_over_prompt_tokens(pages: list[tuple[str, str]]) -> None:
    scope, _ = scope_of(read(pages, 1), gpus=2, cell=cell(1))
    last = parse_metrics(pages[-1][1])
    cached = last['sglang:cached_tokens_total{cache_source="device",model_name="m"}']
    assert measures_of(scope, withhold=False)["server_cache_hit"].value == pytest.approx(cached / (8 * 640))
    assert measures_of(scope, withhold=False)["server_cache_hit"].value > 0


def test_exports_find_sglangs_server_block(pages: list[tuple[str, str]]) -> None:
    block = server_block(read(pages, 1))
    assert block["kv_cache"]["gpu_total_tokens"] == 2000
    assert block["tokens"]["requests_completed"] == 8


def test_ranks_are_told_by_their_label(pages: list[tuple[str, str]]) -> None:
    assert set(ranks.shown_ranks(pages[0][1], ranks.SGLANG) or {}) == {"0", "1"}


def test_nothing_of_the_other_vocabulary_is_shown(pages: list[tuple[str, str]]) -> None:
    for vllm, sglang in pages:
        assert "sglang:" not in vllm
        assert "vllm:" not in sglang


def test_the_page_is_prometheus_text_with_help_and_types(pages: list[tuple[str, str]]) -> None:
    families = {family.name: family for family in text_string_to_metric_families(pages[-1][1])}
    assert families["sglang:num_running_reqs"].type == "gauge"
    assert families["sglang:prompt_tokens"].type == "counter"
    assert families["sglang:time_to_first_token_seconds"].type == "histogram"
    modes = {sample.labels["mode"] for sample in families["sglang:cuda_graph_passes"].samples}
    assert modes == {"decode_cuda_graph", "decode_none"}
