"""One engine over simulated time: data-parallel ranks in lock-step, each with its own scheduler and cache.

A driver calls `submit` and `abort` as things happen, `kick` once everything of an instant is in, and `finish` when the
clock reaches `ends_at`. With async scheduling the batch after the one under way is put together when that one starts,
as vLLM's batch queue of two does: a request that arrives in mid-step waits for the step after the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ridgeline.core.errors import InputError
from ridgeline.core.units import nanoseconds
from ridgeline.engine.memory import Memory, memory_of
from ridgeline.engine.options import EngineOptions
from ridgeline.simulate.batch import Batch
from ridgeline.simulate.cost import StepCost
from ridgeline.simulate.costparams import CostParameters, parameters_for
from ridgeline.simulate.metrics import RankMetrics
from ridgeline.simulate.request import Request
from ridgeline.simulate.scheduler import Limits, Scheduler, Token


class Price(Protocol):
    """What a step of all ranks costs, seconds."""

    def seconds(self, batches: Sequence[Batch | None], *, from_idle: bool = False) -> float: ...

    def frontend_s(self, prompt_tokens: int) -> float: ...


class Step(NamedTuple):
    """A step that has ended."""

    start_ns: int
    end_ns: int
    batches: tuple[Batch | None, ...]
    tokens: list[list[Token]]  # per rank


def limits_of(options: EngineOptions, memory: Memory) -> Limits:
    """The scheduler's rules from engine options and the pool that memory left."""
    pool = memory.pool
    room = (pool.blocks - pool.held) * pool.block_size  # an overridden pool may be smaller than the longest request
    return Limits(
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_num_seqs=options.max_num_seqs,
        max_model_len=min(options.max_model_len, room),
        block_size=pool.block_size,
        blocks=pool.blocks,
        held=pool.held,
        prefix_caching=options.enable_prefix_caching,
        long_prefill_token_threshold=options.long_prefill_token_threshold,
        watermark_blocks=int(options.watermark * pool.blocks),
        reserve_full_isl=options.scheduler_reserve_full_isl,
    )


class Engine:
    """Ranks, the step under way, and the one planned behind it."""

    def __init__(self, limits: Limits, ranks: int, price: Price, *, async_scheduling: bool = True) -> None:
        self.limits = limits
        self.price = price
        self.ranks = [Scheduler(limits) for _ in range(ranks)]
        self.metrics = [RankMetrics() for _ in range(ranks)]
        self.ends_at: int | None = None  # simulated ns at which the step under way ends
        self.steps = 0
        self._async = async_scheduling
        self._start = 0
        self._under_way: tuple[Batch | None, ...] = ()
        self._planned: list[Batch | None] = [None] * ranks

    def submit(self, rank: int, request: Request, now_ns: int) -> None:
        """Queue a request on a rank. Raises ValueError when it can never fit there."""
        request.queued_ns = now_ns
        self.ranks[rank].add(request)

    def abort(self, rank: int, request: Request) -> None:
        """Forget a request; a step that computes it goes on for the others."""
        if not request.done:
            self.ranks[rank].abort(request)
            self.metrics[rank].count_end("abort")

    def kick(self, now_ns: int) -> None:
        """Start a step when none is under way and there is work."""
        if self.ends_at is None:
            self._begin(now_ns, from_idle=True)

    def finish(self) -> Step:
        """The step under way has ended: take its results in and start the next one at the same instant."""
        assert self.ends_at is not None
        start, end, batches = self._start, self.ends_at, self._under_way
        tokens = []
        for scheduler, metrics, batch in zip(self.ranks, self.metrics, batches, strict=True):
            got = scheduler.complete(batch) if batch else []
            tokens.append(got)
            if batch:
                metrics.note_step(batch, got, end)
        self.ends_at = None
        self._begin(end, from_idle=False)
        return Step(start, end, batches, tokens)

    def _begin(self, now_ns: int, *, from_idle: bool) -> None:
        batches = tuple(self._planned[i] or self._schedule(i, now_ns) for i in range(len(self.ranks)))
        self._planned = [None] * len(self.ranks)
        if not any(batches):
            return
        self._start, self._under_way = now_ns, batches
        self.ends_at = now_ns + max(1, nanoseconds(self.price.seconds(batches, from_idle=from_idle)))
        self.steps += 1
        if self._async:
            self._planned = [self._schedule(i, now_ns) for i in range(len(self.ranks))]

    def _schedule(self, rank: int, now_ns: int) -> Batch | None:
        batch = self.ranks[rank].schedule()
        if batch:
            for entry in batch.entries:
                if entry.request.scheduled_ns is None:
                    entry.request.scheduled_ns = now_ns
        return batch


def engine_of(options: EngineOptions, parameters: CostParameters | None = None, memory: Memory | None = None) -> Engine:
    """An engine from options: memory, cost parameters of its GPU and build, one scheduler per data-parallel rank.

    Raises InputError when the model does not fit, or for a layout that is not modelled yet, by name.
    """
    topology = options.topology
    sizes = (("pipeline", topology.pp), ("decode-context", topology.dcp), ("prefill-context", topology.pcp))
    if missing := [f"{name} parallelism of {size}" for name, size in sizes if size > 1]:
        raise InputError(f"the engine model does not cover {' and '.join(missing)} yet")
    memory = memory or memory_of(options)
    price = StepCost(options, parameters or parameters_for(options.gpu.name, options.engine))
    return Engine(
        limits_of(options, memory), options.topology.dp_ranks, price, async_scheduling=options.async_scheduling
    )
