"""One engine over simulated time: data-parallel ranks in lock-step, each with its own scheduler and cache.

A driver calls `submit` and `abort` as things happen, `kick` once everything of an instant is in, and `finish` when the
clock reaches `ends_at`. With async scheduling the batch after the one under way is put together when that one starts,
as vLLM's batch queue of two does: a request that arrives in mid-step waits for the step after the next.

With pipeline stages a batch goes through one after the other while others follow behind it, as many as there are
stages; a request is in one batch at a time, but the chunks of a prompt follow each other (vLLM's rules).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ridgeline.core.units import nanoseconds
from ridgeline.engine.kvpool import token_bytes
from ridgeline.engine.memory import Memory, memory_of
from ridgeline.engine.options import EngineOptions
from ridgeline.engine.plans import recurrent
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.contextcost import price_of
from ridgeline.simulate.costparams import CostParameters, parameters_for
from ridgeline.simulate.handover import Handover
from ridgeline.simulate.limits import Limits, limits_of
from ridgeline.simulate.metrics import RankMetrics
from ridgeline.simulate.request import Request
from ridgeline.simulate.scheduler import Scheduler, Token


class Price(Protocol):
    """What a step of all ranks costs, seconds."""

    def seconds(self, batches: Sequence[Batch | None], *, from_idle: bool = False) -> float: ...

    def frontend_s(self, prompt_tokens: int) -> float: ...


class Step(NamedTuple):
    """A step that has ended. Quiet ranks of a lazy engine tell no tokens."""

    start_ns: int
    end_ns: int
    batches: Sequence[Batch | None]
    tokens: list[list[Token]]  # per rank


_SHORTEST_LEAP = 4  # steps: below that pricing them one by one is as fast
_LONGEST_LEAP = 256  # over so many the price of a step still grows in a straight line


class _Flying(NamedTuple):
    """A step of all ranks that has begun."""

    start_ns: int
    end_ns: int
    batches: list[Batch | None]


class Engine:
    """Ranks, the steps under way, and the one planned behind them. `lazy`: steps that only decode are not walked and
    tell no tokens; what a request got follows from `Request.emits` and `stamps`. A rank with nothing but such steps
    before it is *calm*: the others' steps pass it by, and it is told of them when something happens to it. `stages`:
    of a pipeline; a step takes its price in each, and the next one may begin when the first stage is through."""

    def __init__(
        self,
        limits: Limits,
        ranks: int,
        price: Price,
        *,
        async_scheduling: bool = True,
        lazy: bool = False,
        stages: int = 1,
        load_s: float = 0.0,
        lease_s: float = 5.0,
        handover: Handover | None = None,
    ) -> None:
        self.limits = limits
        self.price = price
        lazy = lazy and stages == 1
        self.ranks = [Scheduler(limits, lazy=lazy) for _ in range(ranks)]
        self.metrics = [RankMetrics() for _ in range(ranks)]
        self.ends_at: int | None = None  # simulated ns at which the first step under way ends
        self.steps = 0
        self.stamps: list[int] = []  # end of every step that has ended, in a lazy engine
        self.lazy = lazy
        self._load_ns = nanoseconds(load_s)  # to bring one block from the host tier
        self._link_free = [0] * ranks
        self.handover = handover or Handover(ranks, 0, 1.0)
        self._lease_ns = nanoseconds(lease_s)
        self._loads: list[tuple[int, int, int, Request]] = []  # when, request, rank; lapses of leases likewise
        self._lapses: list[tuple[int, int, int, Request]] = []
        self._async = async_scheduling and stages == 1
        self._stages = stages
        self._free_at = 0  # when the first stage is through with the last step
        self._stuck = False  # nothing could begin although there was room for it; until something happens
        self._flying: deque[_Flying] = deque()
        self._planned: list[Batch | None] = [None] * ranks
        self._calm: list[int | None] = [None] * ranks  # the first step that a calm rank has not been told of

    @property
    def wakes_at(self) -> int | None:
        """When something happens by itself: a step ends or may begin, or blocks arrive at an idle engine."""
        if self.ends_at is None:
            return self._loads[0][0] if self._loads else None
        if len(self._flying) < self._stages and not self._stuck:
            return min(self.ends_at, self._free_at)
        return self.ends_at

    @property
    def load(self) -> int:
        """How busy all ranks are together, for a router of several engines."""
        return sum(rank.load for rank in self.ranks)

    @property
    def unfinished(self) -> int:
        """Requests on all ranks."""
        return sum(rank.unfinished for rank in self.ranks)

    def lose_rank(self) -> None:
        """The last rank is not there. Only before anything was submitted."""
        for per_rank in (self.ranks, self.metrics, self._planned, self._calm, self._link_free):
            per_rank.pop()

    def submit(self, rank: int, request: Request, now_ns: int) -> None:
        """Queue a request on a rank. Raises ValueError when it can never fit there."""
        request.queued_ns = now_ns
        self._tell(rank)
        self.ranks[rank].add(request)
        self._stuck = False

    def abort(self, rank: int, request: Request) -> None:
        """Forget a request; a step that computes it goes on for the others."""
        if not request.done:
            self._tell(rank)
            self.ranks[rank].abort(request)
            self.metrics[rank].count_end("abort")
            self._stuck = False

    def kick(self, now_ns: int) -> None:
        """Start a step when there is work and none is under way, or only in later stages of a pipeline."""
        if not self._flying or (len(self._flying) < self._stages and self._free_at <= now_ns):
            self._begin(now_ns, from_idle=not self._flying)

    def settle(self) -> None:
        """Catch up with quiet steps, so that counters and caches can be read."""
        for rank, scheduler in enumerate(self.ranks):
            self._tell(rank)
            scheduler.settle()

    def finish(self, until_ns: int = 0) -> Step:
        """The step under way has ended: take its results in and start the next one at the same instant. A lazy engine
        may at once go through quiet steps that end by `until_ns`; nothing else may happen before."""
        index = self.steps - len(self._flying)
        start, end, batches = self._flying.popleft()
        self.ends_at = self._flying[0].end_ns if self._flying else None
        self._stuck = False
        if self.lazy:
            self.stamps.append(end)
        tokens: list[list[Token]] = []
        answered = False
        for rank, (batch, calm) in enumerate(zip(batches, self._calm, strict=True)):
            got: list[Token] = []
            if batch is not None and calm is None:
                got = self.ranks[rank].complete(batch, index)
                self.metrics[rank].note_step(batch, got, end, self.stamps)
                answered = answered or any(token.last for token in got)
            tokens.append(got)
        if until_ns > end and self.lazy and self._async and not answered:  # an answer is something that happens
            self._begin(self._leap(end, until_ns), from_idle=False)
        elif self._free_at <= end:
            self._begin(end, from_idle=False)
        return Step(start, end, batches, tokens)

    def _leap(self, now_ns: int, until_ns: int) -> int:
        """Go through as many quiet steps as end by `until_ns`, priced along a straight line; when the last one ends."""
        planned, ahead = self._planned, _LONGEST_LEAP
        for scheduler, since in zip(self.ranks, self._calm, strict=True):
            quiet = scheduler.quiet - (0 if since is None else self.steps - 1 - since)
            if quiet < _SHORTEST_LEAP:
                return now_ns
            ahead = min(ahead, quiet)
        if self._loads or not any(planned):
            return now_ns
        if any((batch is None) != (not s.running) for s, batch in zip(self.ranks, planned, strict=True)):
            return now_ns
        if any(batch is not None and not batch.quiet for batch in planned):
            return now_ns
        for rank in range(len(self.ranks)):
            self._tell(rank)
        first = self.price.seconds(planned)
        count = int(min(ahead, (until_ns - now_ns) / 1e9 / first))
        if count < _SHORTEST_LEAP:
            return now_ns
        last = self.price.seconds(self._after(count - 1))
        count = int(min(count, (until_ns - now_ns) / 1e9 / max(first, last)))
        if count < _SHORTEST_LEAP:
            return now_ns
        grown = (last - first) / max(1, count - 1)
        for step in range(count):
            now_ns += max(1, nanoseconds(first + step * grown))
            self.stamps.append(now_ns)
        for scheduler, metrics, batch in zip(self.ranks, self.metrics, planned, strict=True):
            if batch is not None:
                scheduler.leap(count, self.steps)
                metrics.note_quiet(batch, (first + last) / 2, count)
        self.steps += count
        for scheduler in self.ranks:
            scheduler.turn = self.steps
        self._planned = self._after(0)
        return now_ns

    def _after(self, steps: int) -> list[Batch | None]:
        """The planned quiet batches `steps` steps later; they stay the ones under way."""
        found: list[Batch | None] = []
        for scheduler, batch in zip(self.ranks, self._planned, strict=True):
            if batch is not None:
                later = scheduler.ahead(scheduler.booked - 1 + steps)
                batch.decode_context = later.decode_context if steps == 0 else batch.decode_context
                found.append(batch if steps == 0 else later)
            else:
                found.append(None)
        return found

    def _begin(self, now_ns: int, *, from_idle: bool) -> None:
        while self._loads and self._loads[0][0] <= now_ns:
            while self._lapses and self._lapses[0][0] < self._loads[0][0]:
                self._lapse()
            _, _, rank, request = heapq.heappop(self._loads)
            self._tell(rank)
            self.ranks[rank].loaded(request)
        while self._lapses and self._lapses[0][0] <= now_ns:
            self._lapse()
        batches = [batch or self._schedule(i, now_ns) for i, batch in enumerate(self._planned)]
        self._planned = [None] * len(self.ranks)
        if not any(batches):
            self._stuck = True
            return
        stage = max(1, nanoseconds(self.price.seconds(batches, from_idle=from_idle)))
        last = self._flying[-1].end_ns if self._flying else now_ns  # who is before it in the last stage
        self._free_at = now_ns + stage
        self._flying.append(_Flying(now_ns, max(now_ns + self._stages * stage, last + stage), batches))
        self.ends_at = self._flying[0].end_ns
        self.steps += 1
        if self._async:
            self._planned = [self._plan(i, batch, now_ns) for i, batch in enumerate(batches)]

    def _plan(self, rank: int, before: Batch | None, now_ns: int) -> Batch | None:
        """What a rank does after the step that has just begun, of which `before` is its part."""
        first = self._calm[rank]
        if first is not None and before is not None:
            if self.ranks[rank].pass_by(before, self.steps - 1 - first):
                self._tell(rank)
            return before
        batch = self._schedule(rank, now_ns)
        if self.lazy and batch and before and before.quiet and batch.quiet and self.ranks[rank].quiet > 1:
            self._calm[rank] = self.steps - 1
        return batch

    def _tell(self, rank: int) -> None:
        """What a calm rank went through; from now on it takes part again."""
        first = self._calm[rank]
        if first is None:
            return
        self._calm[rank] = None
        scheduler, metrics = self.ranks[rank], self.metrics[rank]
        batch, _ = scheduler.flying
        passed = self.steps - len(self._flying) - first
        if self._flying:
            self._flying[-1].batches[rank] = batch
        else:  # the last step has ended, and the next one has not begun
            passed -= 1
        scheduler.leap(passed, first)
        metrics.note_calm(batch, self.stamps, first, first + passed)
        if not self._flying:
            metrics.note_step(batch, scheduler.complete(batch, first + passed), self.stamps[-1], self.stamps)

    def _lapse(self) -> None:
        _, _, rank, request = heapq.heappop(self._lapses)
        self.ranks[rank].incoming.lapse(request)

    def _schedule(self, rank: int, now_ns: int) -> Batch | None:
        scheduler = self.ranks[rank]
        scheduler.turn = self.steps
        batch = scheduler.schedule()
        if batch and batch.chunks:
            for entry in batch.entries:
                if entry.request.scheduled_ns is None:
                    entry.request.scheduled_ns = now_ns
        if scheduler.incoming.loads or scheduler.incoming.fetches:
            self._start_loads(rank, now_ns)
        return batch

    def _start_loads(self, rank: int, now_ns: int) -> None:
        """Put what the rank wants to bring on the way: from host memory over its own link, or from another engine."""
        scheduler = self.ranks[rank]
        for request, blocks in scheduler.incoming.loads:
            ready = max(now_ns, self._link_free[rank]) + blocks * self._load_ns
            self._link_free[rank] = ready
            heapq.heappush(self._loads, (ready, request.key, rank, request))
            if ready > now_ns + self._lease_ns:
                heapq.heappush(self._lapses, (now_ns + self._lease_ns, request.key, rank, request))
        scheduler.incoming.loads.clear()
        for request, blocks in scheduler.incoming.fetches:
            heapq.heappush(self._loads, (self.handover.fetch(rank, blocks, now_ns), request.key, rank, request))
        scheduler.incoming.fetches.clear()


def engine_of(
    options: EngineOptions,
    parameters: CostParameters | None = None,
    memory: Memory | None = None,
    *,
    lazy: bool = False,
    kv_bandwidth: float | None = None,
) -> Engine:
    """An engine from options: memory, cost parameters of its GPU and build, one scheduler per data-parallel rank.
    `kv_bandwidth`: bytes/s of one GPU for KV from another engine (default: its scale-out link); every GPU of a rank
    brings its own share.

    Raises InputError when the model does not fit, or for a layout that engines do not start with, by name.
    """
    topology = options.topology
    memory = memory or memory_of(options)
    price = price_of(options, parameters or parameters_for(options.gpu.name, options.engine))
    limits = limits_of(options, memory)
    block_bytes = memory.plan.needed(limits.block_size, 0)
    if recurrent(options.arch):
        block_bytes = math.ceil(token_bytes(options, memory.plan) * limits.block_size)
    return Engine(
        limits,
        options.topology.dp_ranks,
        price,
        async_scheduling=options.async_scheduling,
        lazy=lazy,
        stages=topology.pp,
        lease_s=options.host_lease_s,
        load_s=block_bytes / (options.gpu.host_bandwidth * price.p.link),
        handover=Handover(
            topology.dp_ranks,
            block_bytes * topology.attention_tp,
            (kv_bandwidth or options.gpu.scale_out_bandwidth) * topology.attention_tp,
        ),
    )
