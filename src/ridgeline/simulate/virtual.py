"""The simulator: a pacing machine and an engine model in virtual time. No clock, no chance, no IO: the same sessions,
options and seed give the same replay bit for bit.

    send --frontend--> rank's queue --steps--> tokens --reply--> client

Events outside the engine (sends that are due, requests reaching the engine, answers reaching the client) wait in a
heap. All that happens at one instant is taken in before an engine starts a step. With several engines a router stands
before them; with a prefill pool a request makes two hops:

    send --frontend--> prefill engine --first token, reply, frontend--> decode engine --KV over the link, steps--> ...
"""

from __future__ import annotations

import gc
import heapq
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ridgeline.core.record import Outcome, Record, Replay, ServerSample
from ridgeline.core.units import nanoseconds
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.chain import Chains
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters
from ridgeline.simulate.engine import Engine, engine_of
from ridgeline.simulate.metrics import snapshot
from ridgeline.simulate.request import Request
from ridgeline.simulate.router import Router
from ridgeline.trace.pacing.api import Pacer, Send
from ridgeline.trace.prompts.api import Layout, PromptSource, Span

_ANSWERS = 1 << 62  # span keys of generated text start here, away from those of prompts
_ENDPOINT = "virtual"
_NEVER = 1 << 63


class Pools(NamedTuple):
    """Equal engines behind a router of this policy. `prefill` empty: those of `decode` answer whole requests."""

    prefill: tuple[Engine, ...]
    decode: tuple[Engine, ...]
    policy: str = "session"


class _Worker:
    """One engine: its name among the samples, how it spreads requests over its ranks, when clients see its steps."""

    def __init__(self, engine: Engine, policy: str, endpoint: str) -> None:
        self.engine, self.endpoint = engine, endpoint
        self.router = Router(policy, engine.ranks)
        self.seen: list[int] = []
        price = engine.price
        self.reply_ns = nanoseconds(price.p.reply_s) if isinstance(price, StepCost) else 0

    def chunks(self, request: Request) -> list[int]:
        """When each of a request's chunks reached the client. Requests share steps, and their stamps."""
        stamps, emits, found = self.seen, request.emits, list[int]()
        stamps += [at + self.reply_ns for at in self.engine.stamps[len(stamps) :]]
        for first, last in zip(emits[::2], emits[1::2], strict=True):
            found += stamps[first:last]
        return found


class _Live(NamedTuple):
    """A request on its way: the worker it is with, and what the one before it found cached (None: it is the first)."""

    send: Send
    sent_ns: int
    worker: _Worker | None
    rank: int
    request: Request
    cached: int | None = None


def simulate(
    pacer: Pacer,
    prompts: PromptSource,
    options: EngineOptions,
    *,
    seed: int = 0,
    parameters: CostParameters | None = None,
    engine: Engine | Pools | None = None,
    sample_s: float = 10.0,
    model: str = "",
) -> Replay:
    """Run `pacer` against a model of the engine until it has finished.

    `engine` replaces the one that `options` and `parameters` describe; `options` are then those of an engine that
    decodes. `sample_s`: simulated seconds between samples of the engines' counters; phase boundaries get a full one
    with histograms. Raises InputError when the model does not fit the GPUs.
    """
    engine = engine or engine_of(options, parameters, lazy=True)
    pools = engine if isinstance(engine, Pools) else Pools((), (engine,))
    collects = gc.isenabled()
    gc.disable()  # a replay makes millions of objects and no circles: looking for them takes a sixth of the time
    try:
        return _Simulation(pacer, prompts, options, seed, pools, sample_s, model).run()
    finally:
        if collects:
            gc.enable()


class _Simulation:
    def __init__(
        self,
        pacer: Pacer,
        prompts: PromptSource,
        options: EngineOptions,
        seed: int,
        pools: Pools,
        sample_s: float,
        model: str,
    ) -> None:
        self.pacer, self.prompts, self.options, self.seed = pacer, prompts, options, seed
        self.model = model or options.arch.name
        policy = options.router
        self.prefill = [_Worker(e, policy, f"{_ENDPOINT}/prefill{i}") for i, e in enumerate(pools.prefill)]
        self.decode = [_Worker(e, policy, f"{_ENDPOINT}/decode{i}") for i, e in enumerate(pools.decode)]
        self.workers = [*self.prefill, *self.decode]
        if len(self.workers) == 1:
            self.workers[0].endpoint = _ENDPOINT
        self.engines = [worker.engine for worker in self.workers]
        self.first_router = Router(pools.policy, pools.prefill or pools.decode, "pool ")
        self.second_router = Router(pools.policy, pools.decode, "pool ")
        self.size = self.engines[0].limits.block_size
        self.chains = Chains(self.size)
        self.heap: list[tuple[int, int, str, Any]] = []
        self.serial = 0
        self.live: dict[int, _Live] = {}
        self.arriving: dict[int, tuple[Send, int, Layout, int]] = {}  # sent, not yet at the engine; tokens
        self.records: list[Record] = []
        self.samples: list[ServerSample] = []
        self.sample_ns = nanoseconds(sample_s)
        self.next_sample = 0
        self.phases: Any = None
        self.due = _NEVER  # when the pacing machine next wants something; only telling it something changes that

    def run(self) -> Replay:
        pacer, engines, now = self.pacer, self.engines, 0
        pacer.begin(now)
        self._advance(now)
        while not pacer.finished:
            outside = min(self.heap[0][0] if self.heap else _NEVER, self.due)
            wakes = [engine.wakes_at or _NEVER for engine in engines]
            earliest = min(outside, min(wakes))
            if earliest == _NEVER:
                break
            now = max(now, earliest)
            if self.next_sample <= now:
                self._sample_until(now)
            for index, worker in enumerate(self.workers):
                ends = worker.engine.ends_at
                if ends is not None and ends <= now:
                    others = min((*wakes[:index], *wakes[index + 1 :]), default=_NEVER)
                    self._step(worker, min(outside, self.next_sample, others))
            told = self._events(now)
            if told or self.due <= now:
                self._advance(now)
            for engine in engines:
                engine.kick(now)
        self._cancel_rest(now)
        self._boundary(now)
        self.records.sort(key=lambda record: record.request_id)
        stuck = None if pacer.finished else "nothing left to happen, yet the pacing machine waits"
        return Replay(
            records=tuple(self.records),
            phases=pacer.phases,
            samples=tuple(self.samples),
            settings=self._settings(),
            prompt_mode=self.prompts.mode,
            aborted=pacer.aborted or stuck,
        )

    def _push(self, at_ns: int, kind: str, payload: Any) -> None:
        heapq.heappush(self.heap, (at_ns, self.serial, kind, payload))
        self.serial += 1

    def _events(self, now: int) -> bool:
        """Everything in the heap that is due; whether the pacing machine learnt of something."""
        told = False
        while self.heap and self.heap[0][0] <= now:
            _, _, kind, payload = heapq.heappop(self.heap)
            if kind == "arrive":
                told |= self._arrive(payload, now)
            elif kind == "hop":
                self._hop(payload, now)
            elif payload in self.live:
                self._end(payload, now, Outcome.OK)
                told = True
        return told

    def _advance(self, now: int) -> None:
        """Carry out what the pacing machine wants now, until it wants nothing more at this instant."""
        while True:
            actions = self.pacer.advance(now)
            for send in actions.sends:
                self.pacer.sent(send.id, now)
                layout = self.prompts.layout(send)
                tokens = layout.tokens
                self.arriving[send.id] = (send, now, layout, tokens)
                self._push(now + nanoseconds(self.engines[0].price.frontend_s(tokens)), "arrive", send.id)
            for send_id in actions.cancels:
                self._cancel(send_id, now)
            due = self.pacer.next_at()
            self.due = _NEVER if due is None else due
            if not (actions.sends or actions.cancels) or self.due > now:
                break
        if self.pacer.phases != self.phases:
            self.phases = self.pacer.phases
            self._boundary(now)

    def _arrive(self, send_id: int, now: int) -> bool:
        if send_id not in self.arriving:
            return False
        send, sent, layout, prompt = self.arriving.pop(send_id)
        hashes = self.chains.of(send.correlation_id, layout.spans, Span(answer_key(send.id), send.max_tokens)).hashes
        whole = Request(send.id, prompt, send.max_tokens, hashes)
        first, last = self.workers[0].engine, self.decode[0].engine
        limit = min(first.limits.max_model_len, last.limits.max_model_len)
        if not (first.ranks[0].fits(whole) and last.ranks[0].fits(whole)):
            asked = prompt + send.max_tokens
            error = f"maximum context length is {limit} tokens, {asked} were asked for"
            live = _Live(send, sent, None, 0, whole)
            self.records.append(_record(live, now, Outcome.OVERFLOW, 400, error))
            self.pacer.completed(send.id, now, Outcome.OVERFLOW)
            return True
        if self.prefill:
            whole = Request(send.id, prompt, 1, hashes)  # the answer goes on elsewhere
        self._submit(_Live(send, sent, None, 0, whole), now)
        return False

    def _submit(self, live: _Live, now: int) -> None:
        """To a worker of the pool whose turn it is, and there to a rank."""
        request, key = live.request, live.send.correlation_id or None
        blocks = request.hashes[: request.prompt // self.size]
        first = live.cached is None
        router, pool = (self.first_router, self.workers) if first else (self.second_router, self.decode)
        worker = pool[router.pick(key, blocks)]
        rank = worker.router.pick(key, blocks)
        self.live[live.send.id] = live._replace(worker=worker, rank=rank)
        worker.engine.submit(rank, request, now)

    def _hop(self, send_id: int, now: int) -> None:
        """A prompt is computed and the decode pool has been asked for its answer."""
        live = self.live.get(send_id)
        if live is None:
            return
        before = live.request
        request = Request(send_id, before.prompt, live.send.max_tokens, before.hashes)
        request.remote = before.prompt
        self._submit(live._replace(request=request, cached=before.cached or 0), now)

    def _step(self, worker: _Worker, until: int) -> None:
        engine = worker.engine
        step = engine.finish(until)
        at = step.end_ns + worker.reply_ns
        if not engine.lazy:
            engine.stamps.append(step.end_ns)
        hands_over = worker in self.prefill
        for tokens in filter(None, step.tokens):
            for token in tokens:
                if token.last and hands_over:
                    engine.handover.offer(0, token.request.prompt // self.size)
                    frontend = self.decode[0].engine.price.frontend_s(token.request.prompt)
                    self._push(at + nanoseconds(frontend), "hop", token.request.key)
                elif token.last:
                    self._push(at, "done", token.request.key)

    def _end(self, send_id: int, now: int, outcome: Outcome) -> None:
        live = self.live.pop(send_id)
        hopped = live.cached is not None or not self.prefill
        chunks = live.worker.chunks(live.request) if live.worker is not None and hopped else []
        if outcome is Outcome.CANCELLED:
            del chunks[_seen(chunks, now) :]  # what had not reached the client yet never will
        self.records.append(_record(live, now, outcome, 200 if chunks else None, None, chunks))
        self.pacer.completed(send_id, now, outcome)

    def _cancel(self, send_id: int, now: int) -> None:
        if send_id in self.arriving:
            send, sent, *_ = self.arriving.pop(send_id)
            request = Request(send.id, 0, send.max_tokens, ())
            self.records.append(_record(_Live(send, sent, None, 0, request), now, Outcome.CANCELLED, None, None))
            self.pacer.completed(send_id, now, Outcome.CANCELLED)
        elif send_id in self.live:
            live = self.live[send_id]
            if live.worker is not None:
                live.worker.engine.abort(live.rank, live.request)
            self._end(send_id, now, Outcome.CANCELLED)

    def _cancel_rest(self, now: int) -> None:
        for send_id in (*self.arriving, *self.live):
            self._cancel(send_id, now)

    def _sample_until(self, now: int) -> None:
        """Counters at every sampling instant up to `now`: between events they stand still."""
        while self.next_sample <= now:
            self._sample(self.next_sample, histograms=False)
            self.next_sample += self.sample_ns

    def _boundary(self, now: int) -> None:
        self._sample(now, histograms=True)

    def _sample(self, at_ns: int, *, histograms: bool) -> None:
        for worker in self.workers:
            engine = worker.engine
            engine.settle()
            values = snapshot(engine.ranks, engine.metrics, self.model, histograms=histograms)
            self.samples.append(ServerSample(at_ns=at_ns, endpoint=worker.endpoint, values=values))

    def _settings(self) -> Mapping[str, Any]:
        options, engine = self.options, self.decode[0].engine
        limits = engine.limits
        found = {
            "engine_model": options.engine,
            "gpu": options.gpu.name,
            "model": options.arch.name,
            "precision": options.precision,
            "topology": options.topology.label,
            "kv_tokens_per_rank": limits.blocks * limits.block_size,
            "block_size": limits.block_size,
            "max_num_seqs": limits.max_num_seqs,
            "max_num_batched_tokens": limits.max_num_batched_tokens,
            "router": options.router,
            "num_speculative_tokens": options.num_speculative_tokens,
            "accepted_per_step": limits.accepted,
            "seed": self.seed,
            "steps": sum(each.steps for each in self.engines),
        }
        if len(self.workers) > 1:
            found["pools"] = {"prefill": len(self.prefill), "decode": len(self.decode)}
            found["kv_transfer_bytes"] = sum(sum(each.handover.fetched) for each in self.engines)
            found["kv_transfer_seconds"] = sum(sum(each.handover.seconds) for each in self.engines)
        if isinstance(engine.price, StepCost):
            found["cost_provenance"] = dict(engine.price.p.provenance)
        return found


def answer_key(send_id: int) -> int:
    """The span key of the text generated for a send: a prompt that quotes it shares its blocks."""
    return _ANSWERS + send_id


def _seen(chunk_ns: Sequence[int], now: int) -> int:
    return bisect_right(chunk_ns, now)


def _record(
    live: _Live, now: int, outcome: Outcome, status: int | None, error: str | None, chunks: Sequence[int] = ()
) -> Record:
    send, request = live.send, live.request
    conversation = send.session.conversations[send.key.conversation]
    turn = send.turn
    first = chunks[0] if chunks else None
    answered = outcome is Outcome.OK
    cached = request.cached if live.cached is None else live.cached
    return Record(
        request_id=send.id,
        phase=send.phase,
        lane=send.lane,
        tree=send.tree,
        session_id=send.session.id,
        conversation_id=conversation.id,
        turn_index=send.key.turn,
        depth=conversation.depth,
        correlation_id=send.correlation_id,
        parent_correlation_id=send.parent_correlation_id,
        source_outer=turn.outer,
        source_inner=turn.inner,
        source_kind=turn.source_kind,
        scheduled_ns=send.scheduled_ns,
        sent_ns=live.sent_ns,
        first_byte_ns=first,
        first_token_ns=first,
        first_visible_ns=first,
        last_token_ns=chunks[-1] if chunks else None,
        end_ns=now,
        outcome=outcome,
        status=status,
        error=error,
        asked_prompt_tokens=turn.input_tokens,
        max_tokens=send.max_tokens,
        prompt_tokens=request.prompt if answered else None,
        completion_tokens=request.outputs if answered else None,
        cached_tokens=cached if answered else None,
        chunks=len(chunks),
        first_chunk_tokens=1 if chunks else None,
        chunk_ns=tuple(chunks),
        theoretical_hit_blocks=turn.hit_blocks if turn.total_blocks else None,
        theoretical_total_blocks=turn.total_blocks or None,
    )
