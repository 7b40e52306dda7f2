"""The scheduler and cache of the engine model against a real vLLM with two data-parallel ranks: growing conversations
that do not all fit, each on a rank of its own choice; what every request finds cached, and what every rank counts."""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.integration.real_sweep import cell, deployment
from tests.integration.realstack import RealStack
from tests.simulate.test_engine import PerToken

from ridgeline.core.deployment import Deployment, Item
from ridgeline.launch.supervisor import Supervisor
from ridgeline.replay.scrape import parse_metrics
from ridgeline.simulate.engine import Engine
from ridgeline.simulate.limits import Limits
from ridgeline.simulate.request import Request

pytestmark = pytest.mark.integration

CONTEXT, BUDGET, KV_TOKENS = 2048, 512, 6144
RANKS, CONVERSATIONS, TURNS = 2, 16, 6


class Ask(NamedTuple):
    """A prompt of token ids for one rank."""

    rank: int
    tokens: tuple[int, ...]
    answer: int


def asks() -> list[Ask]:
    """Conversations take turns in random order, most of the time a recent one; some rewrite their end."""
    chance = random.Random(11)
    system = [chance.randrange(300, 32_000) for _ in range(300)]
    texts = [list(system) for _ in range(CONVERSATIONS)]
    found: list[Ask] = []
    for _ in range(CONVERSATIONS * TURNS):
        number = chance.randrange(CONVERSATIONS)
        text = texts[number]
        if len(text) > 700 and chance.random() < 0.2:
            del text[chance.randrange(400, len(text)) :]
        text += [chance.randrange(300, 32_000) for _ in range(chance.randrange(60, 330))]
        if len(text) > CONTEXT - 40:
            del text[350:]
        found.append(Ask(number % RANKS, tuple(text), chance.randrange(1, 9)))
    return found


def small(stack: RealStack) -> Deployment:
    """The engine alone, with a pool that does not hold all conversations."""
    whole = deployment(stack, cell(2))
    engine = whole.service("engine")
    words = [item.text for item in engine.argv]
    changed = {
        "--max-model-len": CONTEXT, "--kv-cache-memory-bytes": KV_TOKENS << 10, "--max-num-batched-tokens": BUDGET,
    }  # fmt: skip
    for flag, value in changed.items():
        if flag in words:
            words[words.index(flag) + 1] = str(value)
        else:
            words += [flag, str(value)]
    if "--enable-prompt-tokens-details" not in words:
        words.append("--enable-prompt-tokens-details")
    engine = replace(engine, argv=tuple(Item(word) for word in words))
    return replace(whole, services=(engine,), entry="engine", session_header=None)


def call(url: str, body: object = None, **headers: str) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=120) as reply:
        answer: bytes = reply.read()
    return answer


def counted(url: str) -> dict[str, list[float]]:
    """Hit and queried tokens by rank, and the size of their pools."""
    page = parse_metrics(call(f"{url}/metrics").decode())
    found = {}
    for name in ("prefix_cache_hits", "prefix_cache_queries"):
        rows = {key: value for key, value in page.items() if key.startswith(f"vllm:{name}_total{{")}
        found[name] = [next(v for k, v in rows.items() if f'engine="{rank}"' in k) for rank in range(RANKS)]
    for fact in ("num_gpu_blocks", "block_size"):
        labels = next(key for key in page if key.startswith("vllm:cache_config_info{"))
        found[fact] = [float(labels.split(f'{fact}="')[1].split('"')[0])]
    return found


def real(url: str, load: Sequence[Ask]) -> list[int]:
    """Cached tokens of every request, one after the other."""
    found = []
    for ask in load:
        body = {"model": "tiny", "prompt": list(ask.tokens), "max_tokens": ask.answer, "ignore_eos": True}
        usage = json.loads(call(f"{url}/v1/completions", body, **{"X-data-parallel-rank": str(ask.rank)}))["usage"]
        assert usage["prompt_tokens"] == len(ask.tokens)
        found.append((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
    return found


def modelled(load: Sequence[Ask], blocks: int, size: int, *, lazy: bool) -> tuple[list[int], Engine]:
    """The same in the engine model. One block of vLLM's pool is never given to anybody."""
    limits = Limits(
        max_num_batched_tokens=BUDGET, max_num_seqs=16, max_model_len=CONTEXT, block_size=size, blocks=blocks - 1
    )
    engine = Engine(limits, RANKS, PerToken(), lazy=lazy)
    found, now = [], 0
    for key, ask in enumerate(load):
        whole = (*ask.tokens, *(-key - 1 for _ in range(ask.answer)))
        hashes = [hash(whole[:end]) for end in range(size, len(whole) + 1, size)]
        request = Request(key, len(ask.tokens), ask.answer, hashes)
        engine.submit(ask.rank, request, now)
        engine.kick(now)
        while engine.ends_at is not None:
            now = engine.finish().end_ns
        found.append(request.cached or 0)
    engine.settle()
    return found, engine


def test_hits_of_every_request_and_rank(stack: RealStack, tmp_path: Path) -> None:
    load = asks()
    with Supervisor(small(stack), tmp_path) as supervisor:
        url = supervisor.url("engine")
        call(f"{url}/reset_prefix_cache", {})
        before = counted(url)
        cached = real(url, load)
        after = counted(url)
    size = int(after["block_size"][0])
    blocks = KV_TOKENS // size
    assert after["num_gpu_blocks"] == [RANKS * blocks], "the page counts the blocks of all ranks together"
    for lazy in (False, True):
        expected, engine = modelled(load, blocks, size, lazy=lazy)
        assert cached == expected
        for rank, scheduler in enumerate(engine.ranks):
            for name, count in (("prefix_cache_hits", scheduler.hits), ("prefix_cache_queries", scheduler.queries)):
                assert after[name][rank] - before[name][rank] == count, (name, rank)
    roomy, _ = modelled(load, 100_000, size, lazy=True)
    assert 0 < sum(cached) < sum(roomy), "some was found, and some had been evicted"
    assert all(sum(c for c, ask in zip(cached, load, strict=True) if ask.rank == rank) for rank in range(RANKS))
