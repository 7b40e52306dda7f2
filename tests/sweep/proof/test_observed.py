"""Evidence from records and samples: affinity, reachable hits, ranks, routers, steps without a graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.finding import Evidence
from ridgeline.core.point import Measure, Point, Source
from ridgeline.core.record import Outcome, Phases, Record, Replay, ServerSample
from ridgeline.sweep.proof import from_logs, graph_misses, observed, reachable_hit


def record(number: int, stream: str, prompt: int, cached: int | None, *, turn: int = 1, tree: int = 0, hit: int = 0,
           total: int = 0, outcome: Outcome = Outcome.OK) -> Record:  # fmt: skip
    return Record(
        request_id=number,
        phase="profiling",
        lane=0,
        tree=tree,
        session_id="s",
        conversation_id=stream,
        turn_index=turn,
        correlation_id=stream,
        sent_ns=number,
        outcome=outcome,
        prompt_tokens=prompt,
        cached_tokens=cached,
        theoretical_hit_blocks=hit,
        theoretical_total_blocks=total,
    )


def point(**measures: float) -> Point:
    found = {name.replace("__", "."): Measure(value, "", 100) for name, value in measures.items()}
    return Point(
        id="k.1", run_key="k", cell_fingerprint="f", name="n", line="l", series="s", source=Source.EMULATED,
        concurrency=1, gpus=1, facts={}, measures=found,
    )  # fmt: skip


def values(found: tuple[Evidence, ...]) -> dict[str, float | str]:
    return {piece.name: piece.value for piece in found}


def chain(returns: int, cached: int | None) -> list[Record]:
    """One stream whose prompt grows by 100 tokens a turn; every return finds `cached` of it."""
    return [record(n, "a", 1000 + 100 * n, cached if n else 0) for n in range(returns + 1)]


def test_turns_that_come_back_find_their_prefix_or_not() -> None:
    full = Replay(records=tuple(record(n, "a", 1000 + n, 990 if n else 0) for n in range(31)), phases=Phases())
    assert values(observed(point(), full, "vllm"))["affinity"] == 1.0
    half = tuple(record(n, "a", 1000 + n, 990 if n % 2 else 0) for n in range(41))
    assert values(observed(point(), Replay(records=half, phases=Phases()), "vllm"))["affinity"] == 0.5


def test_affinity_stays_unproven_without_usage_few_returns_or_a_full_pool() -> None:
    silent = Replay(records=tuple(chain(30, None)), phases=Phases())
    few = Replay(records=tuple(chain(5, 900)), phases=Phases())
    enough = Replay(records=tuple(chain(30, 2000)), phases=Phases())
    assert "affinity" not in values(observed(point(), silent, "vllm"))
    assert "affinity" not in values(observed(point(), few, "vllm"))
    assert "affinity" not in values(observed(point(kv_usage__peak=0.97), enough, "vllm"))
    assert values(observed(point(kv_usage__peak=0.5), enough, "vllm"))["affinity"] == 1.0
    ended = Replay(records=tuple(replace(r, end_ns=(r.sent_ns or 0) + 1) for r in enough.records), phases=Phases())
    assert "affinity" not in values(observed(point(kv_usage__peak=0.5), ended, "vllm", 1000.0))


def test_a_lane_that_begins_in_mid_session_cannot_hit_what_was_before() -> None:
    began_late = record(0, "a", 1000, 0, turn=7, hit=9, total=10)
    next_turn = record(1, "a", 1100, 900, turn=8, hit=10, total=11)
    assert reachable_hit([began_late, next_turn]) == 10 / 21
    assert reachable_hit([record(0, "a", 9, 0)]) is None


def test_a_first_turn_of_a_subagent_can_hit_what_its_tree_left() -> None:
    root = record(0, "root", 1000, 0, turn=0, hit=0, total=10)
    child = record(1, "child", 1000, 900, turn=0, hit=9, total=10)
    stranger = record(2, "other", 1000, 900, turn=0, tree=5, hit=9, total=10)
    assert reachable_hit([root, child, stranger]) == 9 / 30


def test_what_was_cached_before_the_first_answer_was_left_by_somebody_else() -> None:
    def sent(number: int, cached: int, at: int, end: int) -> Record:
        return replace(record(number, str(number), 1000, cached, tree=number), sent_ns=at, end_ns=end)

    clean = (sent(0, 0, 0, 50), sent(1, 0, 10, 60), sent(2, 900, 55, 80))
    assert values(observed(point(), Replay(records=clean, phases=Phases()), "vllm"))["contamination"] == 0.0
    met = (sent(0, 300, 0, 50), sent(1, 600, 10, 60), sent(2, 900, 55, 80))
    assert values(observed(point(), Replay(records=met, phases=Phases()), "vllm"))["contamination"] == 0.3


def test_hits_that_are_missing_because_the_pool_is_full_are_no_defect() -> None:
    records = (record(0, "a", 10, 0, turn=0, total=10), record(1, "a", 10, 0, hit=10, total=10))
    replay = Replay(records=records, phases=Phases())
    measured = {"server_cache_hit": 0.2, "theoretical_cache_hit": 0.5}
    assert values(observed(point(**measured), replay, "vllm"))["prefix_gap"] == 0.3
    assert values(observed(point(**measured, kv_usage__peak=0.95), replay, "vllm"))["prefix_gap"] == 0.0


def test_hits_that_are_missing_because_live_sessions_fill_the_pool_are_no_defect() -> None:
    """Histories between two turns count as free to the engine, so its peak use does not show that they were evicted."""
    first, second = record(0, "a", 10, 0, turn=0, total=10), record(1, "a", 10, 0, hit=10, total=10)
    replay = Replay(records=(replace(first, end_ns=1), replace(second, end_ns=2)), phases=Phases())
    measured = {"server_cache_hit": 0.2, "kv_usage__peak": 0.5}
    assert values(observed(point(**measured), replay, "vllm", 14.0))["prefix_gap"] == 0.0
    assert values(observed(point(**measured), replay, "vllm", 15.0))["prefix_gap"] == 0.3


def sample(at: int, values: dict[str, float], endpoint: str = "http://e/metrics") -> ServerSample:
    return ServerSample(at_ns=at, endpoint=endpoint, values=values)


def test_ranks_are_counted_by_their_label_and_weighed() -> None:
    name = 'vllm:prompt_tokens_total{{engine="{}",model_name="m"}}'
    samples = (
        sample(0, {name.format(0): 0.0, name.format(1): 0.0}),
        sample(9, {name.format(0): 900.0, name.format(1): 100.0}),
    )
    found = values(observed(point(), Replay(records=(), phases=Phases(), samples=samples), "vllm"))
    assert found["engines"] == 2.0
    assert found["rank_imbalance"] == 1.8
    assert "engines" not in values(observed(point(), Replay(records=(), phases=Phases()), "vllm"))


def test_a_router_without_retries_says_zero_and_one_that_was_not_read_says_nothing() -> None:
    quiet = sample(0, {"vllm_router_active_workers": 2.0}, "http://r/metrics")
    loud = sample(0, {'vllm_router_retries_total{route="x"}': 3.0}, "http://r/metrics")
    found = values(observed(point(), Replay(records=(), phases=Phases(), samples=(quiet,)), "vllm"))
    assert (found["router_retries"], found["router_breaker"]) == (0.0, 0.0)
    found = values(observed(point(), Replay(records=(), phases=Phases(), samples=(loud,)), "vllm"))
    assert found["router_retries"] == 3.0
    assert "router_retries" not in values(observed(point(), Replay(records=(), phases=Phases()), "vllm"))


def test_small_steps_without_a_graph_are_misses_and_prompts_are_not() -> None:
    rows = ("8 FULL 90", "12 NONE 10", "4096 NONE 500")
    (found,) = graph_misses([Evidence("graph_steps", row) for row in rows], 16)
    assert found.value == 0.1
    assert list(graph_misses([], 16)) == []


def test_logs_are_read_by_the_role_of_their_service(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text("GPU KV cache size: 4,096 tokens\n")
    (tmp_path / "router.log").write_text("CONSISTENT_HASH_DEBUG: Extracted hash key: header:x-session-id:k\n")
    (tmp_path / "store.log").write_text("GPU KV cache size: 1 tokens\n")
    services = tuple(
        Service(name=name, argv=(Item("x"),), role=role)
        for name, role in (("engine", "engine"), ("router", "router"), ("store", "cache"))
    )
    deployment = Deployment(services=services, entry="router", served_model="m", kind="vllm")
    found = from_logs(deployment, {path.name: path for path in tmp_path.iterdir()})
    assert values(found) == {"kv_tokens": 4096.0, "router_key_source": "header:x-session-id"}


def test_preemptions_are_a_share_of_requests_and_acceptance_is_as_measured() -> None:
    measured = point(preemptions=3.0, acceptance_length=2.5, e2e__p50=1.0)
    found = values(observed(measured, Replay(records=(), phases=Phases()), "vllm"))
    assert found == {"preempted_share": 0.03, "acceptance_length": 2.5}


def test_acceptance_by_position_is_a_share_of_the_drafts() -> None:
    def page(drafts: float, first: float, second: float) -> dict[str, float]:
        name = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{}"}}'
        return {'vllm:spec_decode_num_drafts_total{engine="0"}': drafts, name.format(0): first, name.format(1): second}

    samples = (sample(0, page(100, 90, 50)), sample(100, page(300, 260, 150)))
    phases = Phases(profiling_start_ns=10, profiling_end_ns=90, drained_ns=95)
    found = values(observed(point(), Replay(records=(), phases=phases, samples=samples), "vllm"))
    assert found["acceptance_rate_position_0"] == 0.85
    assert found["acceptance_rate_position_1"] == 0.5
