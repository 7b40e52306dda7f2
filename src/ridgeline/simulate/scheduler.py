"""The scheduler of one rank: vLLM's V1 rules as a pure step function. No clock, no IO, no chance.

`schedule()` puts the next batch together: running requests first and in order, then waiting ones, under one token
budget; prompts are cut into chunks where the budget ends; a request that cannot get a block makes the last running one
start over. `complete(batch)` takes the batch's results in. With async scheduling a driver calls `schedule` again
before it completes the batch under way, so progress is booked at scheduling and void results are told by their epoch.

Source: vllm/v1/core/sched/scheduler.py and kv_cache_manager.py (0.24 to 0.26), re-told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ridgeline.simulate.batch import Batch, Chunk, Entry
from ridgeline.simulate.pool import BlockPool
from ridgeline.simulate.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The rules of one rank, under vLLM's names."""

    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    block_size: int
    blocks: int
    held: int = 0  # blocks each running request keeps for windows and states
    prefix_caching: bool = True
    long_prefill_token_threshold: int = 0
    watermark_blocks: int = 0
    reserve_full_isl: bool = True


class Token(NamedTuple):
    """A request got its next token; `last` when that was the last one."""

    request: Request
    last: bool


class Scheduler:
    """Waiting and running requests over one block pool."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pool = BlockPool(limits.blocks)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.queries = 0  # prompt tokens looked up, repeated look-ups of a blocked request included (as vLLM counts)
        self.hits = 0
        self.preemptions = 0

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + len(self.running)

    @property
    def load(self) -> int:
        """How busy the rank is, as vLLM's own balancer weighs it: four points per waiting, one per running request."""
        return 4 * len(self.waiting) + len(self.running)

    def fits(self, request: Request) -> bool:
        """Whether the request could ever run here."""
        total = request.prompt + request.max_tokens
        return total <= self.limits.max_model_len and self._blocks(total) + self.limits.held <= self.limits.blocks

    def add(self, request: Request) -> None:
        """Queue a request. Raises ValueError when it can never fit: the caller must refuse it first."""
        if not self.fits(request):
            raise ValueError(f"{request.prompt} + {request.max_tokens} tokens can never fit")
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Forget a request whose client went away; its blocks are free at once."""
        if request.done:
            return
        if request in self.running:
            self.running.remove(request)
            self._free(request)
        else:
            self.waiting.remove(request)
        request.done = True

    def schedule(self) -> Batch | None:
        """The next batch, or None when there is nothing to compute."""
        batch = Batch()
        budget = self._schedule_running(batch, self.limits.max_num_batched_tokens)
        if not batch.preempted:
            self._schedule_waiting(batch, budget)
        return batch if batch.entries else None

    def complete(self, batch: Batch) -> list[Token]:
        """Take in the results of a batch: tokens in the batch's order. Finished requests leave with their blocks."""
        tokens = []
        ended = False
        for request, _, emits, epoch in batch.entries:
            if not emits or request.done or request.epoch != epoch:
                continue
            request.in_flight -= 1
            request.outputs += 1
            last = request.outputs == request.max_tokens
            tokens.append(Token(request, last))
            if last:
                self._name_full(request)
                self._free(request)
                request.done = ended = True
        if ended:
            self.running = [request for request in self.running if not request.done]
        return tokens

    def _schedule_running(self, batch: Batch, budget: int) -> int:
        limits, running, pool = self.limits, self.running, self.pool
        size, index = limits.block_size, 0
        while index < len(running) and budget > 0:
            request = running[index]
            if request.outputs + request.in_flight >= request.max_tokens:
                index += 1  # its last token is under way
                continue
            missing = request.tokens - request.computed
            count = self._chunk(missing, budget)
            need = -(-(request.computed + count) // size) - len(request.blocks)
            if need > 0:
                while pool.free < need and len(running) > index:
                    self._preempt(running.pop())
                    batch.preempted += 1
                if len(running) == index:
                    break  # it was the last one and had to give way itself
                request.blocks += pool.allocate(need)
                batch.attached += need
            budget -= count
            self._book(batch, request, count, missing)
            index += 1
        return budget

    def _schedule_waiting(self, batch: Batch, budget: int) -> None:
        limits, pool = self.limits, self.pool
        while self.waiting and budget > 0 and len(self.running) < limits.max_num_seqs:
            request = self.waiting[0]
            found: list[int] = []
            free = 0
            if limits.prefix_caching:  # the last token must be computed for its logits, hence one token less
                found, free = pool.match(request.hashes, (request.tokens - 1) // limits.block_size)
                if not request.preemptions:
                    self.queries += request.tokens
                    self.hits += len(found) * limits.block_size
            hit = len(found) * limits.block_size
            missing = request.tokens - hit
            count = self._chunk(missing, budget)
            need = self._blocks(hit + count) - len(found) + limits.held
            whole = self._blocks(request.tokens) - len(found) + limits.held if limits.reserve_full_isl else need
            if max(need, whole) + free > pool.free - limits.watermark_blocks and (self.running or pool.used):
                break
            self.waiting.popleft()
            pool.take(found)
            taken = pool.allocate(need)
            request.held, request.blocks = taken[: limits.held], found + taken[limits.held :]
            request.named = len(found)
            request.computed = hit
            if request.cached is None:
                request.cached = hit
            self.running.append(request)
            batch.attached += len(request.blocks)
            budget -= count
            self._book(batch, request, count, missing)

    def _chunk(self, missing: int, budget: int) -> int:
        threshold = self.limits.long_prefill_token_threshold
        return min(missing, budget, threshold) if threshold else min(missing, budget)

    def _book(self, batch: Batch, request: Request, count: int, missing: int) -> None:
        """Count progress as made: what is scheduled will be computed, unless the request is preempted or aborted."""
        context = request.computed
        if count == 1 and request.outputs + request.in_flight > 0:
            batch.decodes += 1
            batch.decode_context += context
        else:
            batch.chunks.append(Chunk(count, context))
        request.computed = context + count
        batch.tokens += count
        emits = count == missing
        batch.entries.append(Entry(request, count, emits, request.epoch))
        if min(request.computed, request.prompt + request.outputs) // self.limits.block_size > request.named:
            self._name_full(request)
        if emits:
            batch.emitting += 1
            request.in_flight += 1

    def _name_full(self, request: Request) -> None:
        """Make full blocks findable: computed tokens only, and only those whose value is known by now."""
        if not self.limits.prefix_caching:
            return
        known = min(request.computed, request.prompt + request.outputs) // self.limits.block_size
        if known > request.named:
            blocks, hashes, name = request.blocks, request.hashes, self.pool.name
            for index in range(request.named, min(known, len(hashes))):
                name(blocks[index], hashes[index])
            request.named = known

    def _preempt(self, request: Request) -> None:
        """Take everything from a request and put it at the head of the queue; it will be computed again."""
        self._free(request)
        request.computed = request.in_flight = request.named = 0
        request.epoch += 1
        request.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(request)

    def _free(self, request: Request) -> None:
        self.pool.release(request.blocks)
        self.pool.release(request.held)
        request.blocks, request.held = [], []

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)


def check(scheduler: Scheduler, requests: Iterable[Request]) -> None:
    """Raise AssertionError when blocks and requests do not tell the same story: for tests."""
    scheduler.pool.check()
    held: dict[int, int] = {}
    for request in requests:
        for block in (*request.blocks, *request.held):
            held[block] = held.get(block, 0) + 1
    assert len(held) == scheduler.pool.used
    assert all(scheduler.pool._refs[block] == count for block, count in held.items())
