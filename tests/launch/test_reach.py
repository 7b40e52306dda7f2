"""Every rank is shown by the metrics and has answered, or the start is not ready and says which rank is missing."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.engines import engine_kind
from ridgeline.launch.engines.ranks import VLLM, emulated_ranks, sglang_ranks, shown_ranks, vllm_ranks
from ridgeline.launch.reach import TRIES_A_RANK, Reach


class Engine:
    """Ranks behind one port, spread by session, in vLLM's words. `deaf`: a rank that no session leads to."""

    def __init__(self, ranks: int, *, deaf: int | None = None, label: str = "engine", refuses: bool = False) -> None:
        self.done = dict.fromkeys(range(ranks), 0)
        self.deaf, self.label, self.refuses = deaf, label, refuses
        self.asked = 0

    def page(self) -> str:
        lines = ["# TYPE vllm:num_requests_running gauge"]
        for rank, count in self.done.items():
            lines.append(f'vllm:num_requests_running{{{self.label}="{rank}",model_name="m"}} 0.0')
            lines.append(f'vllm:prompt_tokens_total{{{self.label}="{rank}",model_name="m"}} {count}.0')
        return "\n".join(lines) + "\n"

    def take(self, rank: str | None, session: str) -> int:
        self.asked += 1
        if self.refuses:
            return 500
        if rank is not None:
            self.done[int(rank)] += 3
            return 200
        allowed = [rank for rank in self.done if rank != self.deaf]
        self.done[allowed[zlib.crc32(session.encode()) % len(allowed)]] += 3
        return 200


@contextmanager
def serving(engine: Engine) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            self.answer(200, engine.page())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status = engine.take(self.headers.get("X-data-parallel-rank"), self.headers.get("X-Session-ID", ""))
            self.answer(status, json.dumps({"choices": []}))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def service(*words: str, name: str = "engine", role: str = "engine") -> Service:
    return Service(name=name, argv=tuple(map(Item, words)), role=role, readiness=Readiness(served_model="m"))


def reach(port: int, *words: str, kind: str = "vllm", router: int | None = None) -> dict[str, int]:
    services = [service("vllm", "serve", "m", *words)]
    at = {"engine": ("127.0.0.1", port)}
    if router is not None:
        services.append(service("vllm-router", name="router", role="router"))
        at["router"] = ("127.0.0.1", router)
    deployment = Deployment(tuple(services), services[-1].name, "m", kind)
    return Reach(deployment, engine_kind(kind), at, lambda: None, within_s=0.2).all_ranks()


DP2 = ("--data-parallel-size", "2")


def test_each_rank_is_asked_once_by_its_number() -> None:
    engine = Engine(2)
    with serving(engine) as port:
        assert reach(port, *DP2) == {"engine": 2}
    assert engine.done == {0: 3, 1: 3}


def test_one_rank_needs_no_more_than_to_be_shown() -> None:
    engine = Engine(1)
    with serving(engine) as port:
        assert reach(port) == {"engine": 1}
    assert engine.asked == 0


def test_sessions_through_the_router_reach_each_rank() -> None:
    engine = Engine(3)
    with serving(engine) as port:
        assert reach(port, "--data-parallel-size=3", router=port) == {"engine": 3}
    assert all(engine.done.values())
    assert engine.asked > 3


def test_a_rank_that_the_metrics_do_not_show_is_counted() -> None:
    with serving(Engine(1)) as port, pytest.raises(EnvironmentFailed, match="metrics show 1 of 2 ranks"):
        reach(port, *DP2)


def test_a_rank_that_no_session_leads_to_is_named_after_a_bounded_search() -> None:
    engine = Engine(2, deaf=1)
    with serving(engine) as port, pytest.raises(EnvironmentFailed, match="sessions to `router` did not reach rank 1"):
        reach(port, *DP2, router=port)
    assert engine.asked == 2 + 2 * TRIES_A_RANK


def test_an_engine_that_dies_on_its_first_request_is_not_ready() -> None:
    refused = pytest.raises(EnvironmentFailed, match="X-data-parallel-rank: 0 answered 500")
    with serving(Engine(2, refuses=True)) as port, refused:
        reach(port, *DP2)


def test_metrics_without_ranks_demand_nothing() -> None:
    with serving(Engine(1, label="other")) as port:
        assert reach(port, *DP2) == {}
        assert reach(port, *DP2, kind="command") == {}


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 1),
        (("-dp", "8"), 8),
        (("--data-parallel-size=4",), 4),
        (("--data-parallel-size", "16", "--data-parallel-size-local", "8"), 16),
        (("--data-parallel-size", "16", "--data-parallel-size-local", "8", "--data-parallel-hybrid-lb"), 8),
        (("--data-parallel-size", "16", "--data-parallel-rank", "3"), None),
        (("--data-parallel-size", "16", "--headless"), None),
    ],
)
def test_ranks_of_vllm(words: tuple[str, ...], count: int | None) -> None:
    assert vllm_ranks(service("vllm", "serve", "m", *words)) == count


def test_ranks_of_the_others() -> None:
    assert sglang_ranks(service("python3", "-m", "sglang.launch_server", "--dp", "8", "--tp", "8")) == 8
    assert sglang_ranks(service("python3", "-m", "sglang.launch_server", "--tp", "8")) == 1
    assert sglang_ranks(service("python3", "-m", "sglang.launch_server", "--dp-size", "8", "--nnodes", "2")) is None
    assert emulated_ranks(service("ridgeline", "emulate", "--tp", "4", "--dp-attn")) == 4
    assert emulated_ranks(service("ridgeline", "emulate", "--tp", "4")) == 1


def test_counters_of_a_rank_are_added_up() -> None:
    page = (
        'vllm:num_requests_running{engine="0",model_name="a,b"} 0.0\n'
        'vllm:prompt_tokens_total{engine="0",model_name="a"} 5.0\n'
        'vllm:prompt_tokens_total{engine="0",model_name="b"} 2e1\n'
        'vllm:prompt_tokens_created{engine="7"} 9.0\n'
    )
    assert shown_ranks(page, VLLM) == {"0": 25.0}
    assert shown_ranks("", VLLM) is None
    assert shown_ranks('vllm:num_requests_running{no_engine="3"} 1\n', VLLM) is None


def test_cache_services_and_those_without_a_proof_are_left_out() -> None:
    engine = Engine(2)
    with serving(engine) as port:
        silent = replace(service("vllm", *DP2), readiness=Readiness(answers=False))
        cache = service("lmcache", *DP2, name="lmcache", role="cache")
        deployment = Deployment((silent, cache), "engine", "m", "vllm")
        at = {"engine": ("127.0.0.1", port), "lmcache": ("127.0.0.1", port)}
        assert Reach(deployment, engine_kind("vllm"), at, lambda: None).all_ranks() == {}
