"""The scheduler of one rank: vLLM's V1 rules as a pure step function. No clock, no IO, no chance.

`schedule()` puts the next batch together: running requests first and in order, then waiting ones, under one token
budget; prompts are cut into chunks where the budget ends; a request that cannot get a block makes the last running one
start over. `complete(batch)` takes the batch's results in. With async scheduling a driver calls `schedule` again
before it completes the batch under way, so progress is booked at scheduling and void results are told by their epoch.

A *lazy* scheduler does not walk requests that decode: they are a crowd (`crowd.py`), and steps in which nothing else
happens are quiet. Batches, hits and evictions are the same; tests hold one against the other.

Sources: vllm/v1/core/sched/scheduler.py and kv_cache_manager.py (0.24 to 0.26), re-told; `prefill_first` is SGLang's
order (a step prefills or decodes, prefill goes first).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ridgeline.simulate.batch import Batch, Chunk, Entry
from ridgeline.simulate.chunks import chunk_of, kept_at
from ridgeline.simulate.crowd import Crowd
from ridgeline.simulate.incoming import Incoming
from ridgeline.simulate.limits import Limits
from ridgeline.simulate.pool import BlockPool, Match
from ridgeline.simulate.request import Request

_NOTHING = Match(0, 0)
_new = tuple.__new__  # makes a NamedTuple without its constructor's own frame; there are millions of them


class Token(NamedTuple):
    """A request got its next tokens; `last` when these were the last ones. `since`: the step of those before; None: it
    was in a crowd, whose batch tells (`awaited`)."""

    request: Request
    last: bool
    gain: int = 1
    since: int | None = -1


class Scheduler:
    """Waiting and running requests over one block pool."""

    def __init__(self, limits: Limits, *, lazy: bool = False) -> None:
        self.limits = limits
        self.pool = BlockPool(
            limits.blocks,
            marked=limits.checkpoints != "all",
            grid=limits.checkpoint_grid,
            room=limits.room,
            slots=limits.slots,
            own=limits.own_slots,
            merges=limits.merges,
        )
        self.incoming = Incoming(limits)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.turn = 0  # steps of the whole engine, for the prefill interval
        self.queries = 0  # prompt tokens looked up, repeated look-ups of a blocked request included (as vLLM counts)
        self.hits = 0
        self.preemptions = 0
        self._returned = 0  # tokens, those of the crowd apart; drafts verified and accepted likewise
        self._drafts = self._accepted = 0
        self._lazy = lazy
        self._crowd = Crowd(limits)
        self._walked: list[Request] = []  # who runs and is not in the crowd
        self._quiet = 0  # further steps in which the crowd decodes and nothing else happens
        self._booked = 0  # such steps since the quiet began
        self._sums = (0, 0)  # decoding requests and their contexts when it began
        self._blocked: tuple[Request | None, int] | None = None  # who is looked up but cannot be admitted; its hit

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + len(self.running) + len(self.incoming.loading)

    @property
    def load(self) -> int:
        """How busy the rank is, as vLLM's own balancer weighs it: four points per waiting, one per running request."""
        return 4 * (len(self.waiting) + len(self.incoming.loading)) + len(self.running)

    @property
    def generated(self) -> int:
        """Tokens returned."""
        return self._returned + self._crowd.gained

    @property
    def drafts(self) -> int:
        """Verifications of drafts."""
        return self._drafts + self._crowd.verified

    @property
    def accepted_drafts(self) -> int:
        """Draft tokens accepted by them."""
        return self._accepted + self._crowd.gained - self._crowd.verified if self.limits.query > 1 else 0

    @property
    def quiet(self) -> int:
        """Steps ahead that only decode, or anything when there is nothing to do at all."""
        return self._quiet if self.running else (0 if self.waiting else 1 << 40)

    def fits(self, request: Request) -> bool:
        """Whether the request could ever run here."""
        total = request.prompt + request.max_tokens
        room = self.limits.blocks - self.limits.held
        return total <= self.limits.max_model_len and self._blocks(total + self.limits.look_ahead) <= room

    def add(self, request: Request) -> None:
        """Queue a request. Raises ValueError when it can never fit: the caller must refuse it first."""
        if not self.fits(request):
            raise ValueError(f"{request.prompt} + {request.max_tokens} tokens can never fit")
        self.waiting.append(request)
        if self._blocked is None:
            self._quiet = 0

    def abort(self, request: Request) -> None:
        """Forget a request whose client went away; its blocks are free at once."""
        if request.done:
            return
        self.settle()
        if request in self.running:
            self._dissolve()
            self.running.remove(request)
            self._walked.remove(request)
        elif request in self.incoming.loading:
            self.incoming.loading.remove(request)
            self.incoming.lapse(request)
        else:
            self.waiting.remove(request)
        self._free(request)
        request.done = True

    def preempt_last(self) -> None:
        """The last running request gives way now, as when blocks run short. Raises IndexError when none runs."""
        self.settle()
        self._dissolve()
        self._walked.pop()
        self._preempt(self.running.pop())

    def loaded(self, request: Request) -> None:
        """Blocks from the host tier or another engine have come: the request is the next to be admitted."""
        if request.done:
            return
        self.settle()
        self.incoming.arrived(request, self.pool)
        self.waiting.appendleft(request)
        self._blocked = None

    def schedule(self) -> Batch | None:
        """The next batch, or None when there is nothing to compute."""
        if self._quiet:
            return self._one_more()
        if self._crowd.behind:
            self._crowd.catch_up(self.pool)
        if not self.running and not self.waiting:
            return None
        limits, batch = self.limits, Batch()
        admits = limits.prefill_interval <= 1 or self.turn % limits.prefill_interval == 0 or not self.running
        if limits.prefill_first:
            budget = self._schedule_running(batch, limits.max_num_batched_tokens, prefills=True)
            if admits and not batch.preempted:
                self._schedule_waiting(batch, budget)
            if not batch.tokens:
                self._schedule_running(batch, limits.max_num_seqs * limits.query, prefills=False)
        else:
            budget = self._schedule_running(batch, limits.max_num_batched_tokens)
            if admits and not batch.preempted:
                self._schedule_waiting(batch, budget)
        if batch.crowd == len(self.running) and batch.crowd and not batch.chunks and (admits or not self.waiting):
            self._look_ahead()
        return batch if batch.tokens else None

    def complete(self, batch: Batch, step: int = 0) -> list[Token]:
        """Take in the results of a batch, the engine's `step`-th: tokens in the batch's order, of a crowd only last
        ones. Finished requests leave with their blocks."""
        tokens = []
        ended, speculates, after = False, self.limits.query > 1, step + 1
        if batch.crowd:
            for request in self._crowd.complete(batch, step):
                tokens.append(Token(request, True, 0, None))
                self._end(request)
                ended = True
        for request, count, emits, epoch, gain in batch.entries:  # none of a batch of the crowd alone
            if not emits or request.done or request.epoch != epoch:
                continue
            outputs = request.outputs
            if speculates and count > 1 and outputs:
                self._drafts += 1
                self._accepted += gain - 1
            request.in_flight -= gain
            request.outputs = outputs = outputs + gain
            self._returned += gain
            if request.joined >= 0:
                self._crowd.note_late(request, gain)
            last = outputs == request.max_tokens
            tokens.append(_new(Token, (request, last, gain, request.note_emits(step, after))))
            if last:
                self._end(request)
                self._walked.remove(request)
                ended = True
            elif outputs == gain:
                self.incoming.store(request, request.prompt)  # not of what it has begun to decode
        if ended:
            self.running = [request for request in self.running if not request.done]
        return tokens

    def _end(self, request: Request) -> None:
        self._name_full(request)
        if self.limits.track and request.held is not None:
            at = request.computed // self.limits.track * self.limits.track
            if at > request.prompt:
                self.pool.mark(request.held, at // self.limits.block_size)
        self._free(request)
        request.done = True

    # Quiet steps

    def _look_ahead(self) -> None:
        """How many steps will only decode: until somebody ends, blocks may run short, or new ones are admitted."""
        limits, pool, crowd = self.limits, self.pool, self._crowd
        if self.waiting and (self._blocked is None or self._blocked[1]):
            return  # somebody will be admitted, or has a hit that decoding may evict while it is looked up in vain
        count = len(crowd.members)
        if count < len(self.running):
            return
        room = (pool.free / count - 2) * limits.block_size - limits.query - limits.look_ahead
        most = min(crowd.first_end - crowd.booked, int(room / limits.accepted))
        if limits.room:
            most = min(most, crowd.roomy())  # states are kept in the order in which blocks are begun
        if self.waiting and limits.prefill_interval > 1:
            most = min(most, limits.prefill_interval - self.turn % limits.prefill_interval - 1)
        if most >= 2:
            self._quiet, self._booked, self._sums = most, 0, (count, crowd.context)

    def _one_more(self) -> Batch:
        """One more decoding step of everyone, without walking them."""
        self._quiet -= 1
        batch = self.ahead(self._booked)
        self._booked += 1
        self._crowd.book_quiet(batch)
        if self._blocked is not None and self._blocked[0] is not None:  # looked up again in every step, in vain
            self._count_look_up(self._blocked[0], 0)
        return batch

    def ahead(self, steps: int) -> Batch:
        """The batch `steps` steps after the quiet began."""
        count, context = self._sums
        limits, batch = self.limits, Batch()
        batch.quiet = True
        batch.crowd = batch.decodes = batch.emitting = count
        batch.tokens = batch.decode_tokens = count * limits.query
        batch.decode_context = context + steps * count * limits.accepted
        batch.attached = count * limits.accepted / limits.block_size
        return batch

    def pass_by(self, batch: Batch, steps: int) -> bool:
        """Make of a quiet batch the one planned when `steps` further steps have passed by; whether it is the last."""
        count, context = self._sums
        batch.decode_context = context + (self._booked + steps - 1) * count * self.limits.accepted
        return steps == self._quiet

    @property
    def flying(self) -> Sequence[Batch]:
        """Steps of the crowd that are booked, but not completed."""
        return self._crowd.flying

    @property
    def booked(self) -> int:
        """Quiet steps scheduled since the quiet began."""
        return self._booked

    def leap(self, steps: int, first: int) -> None:
        """Let `steps` quiet steps have happened, the engine's from `first` on: as many booked and completed."""
        if self.running:
            self._quiet -= steps
            self._booked += steps
            self._crowd.leap(steps, first)
            if self._blocked is not None and self._blocked[0] is not None:
                self._count_look_up(self._blocked[0], 0, steps)

    def settle(self) -> None:
        """Give out what quiet steps need, so that the pool can be read."""
        self._quiet = 0
        if self._crowd.behind:
            self._crowd.catch_up(self.pool)

    def _dissolve(self) -> None:
        """Walk everybody in the next step."""
        self._crowd.dissolve(self.running, self.pool)
        self._walked = list(self.running)

    def _schedule_crowd(self, batch: Batch, budget: int) -> int:
        """A step of the crowd, if it fits in; the budget that is left."""
        count = len(self._crowd.members) * self.limits.query
        if count <= budget and self._crowd.book(batch, self.pool):
            return budget - count
        self._dissolve()
        return budget

    def _gather(self) -> None:
        """Who decodes joins the crowd, unless somebody before it may leave it without budget or blocks."""
        for request in self._walked:
            emitted = request.outputs + request.in_flight
            if not emitted or request.prompt + emitted - request.computed != 1:
                break
            if emitted < request.max_tokens:
                self._crowd.join(request)
        self._walked = [request for request in self._walked if request.joined < 0]

    # One step, request by request

    def _schedule_running(self, batch: Batch, budget: int, *, prefills: bool | None = None) -> int:
        limits, running = self.limits, self.running
        size, longest, query, look_ahead = limits.block_size, limits.max_model_len, limits.query, limits.look_ahead
        if self._lazy and prefills is not True:
            if self._walked:
                self._gather()
            if self._crowd.members:
                budget = self._schedule_crowd(batch, budget)
        index, pool, walked = 0, self.pool, self._walked
        while index < len(walked) and budget > 0:
            request = walked[index]
            emitted = request.outputs + request.in_flight
            missing = request.prompt + emitted - request.computed
            decodes = missing == 1 and emitted > 0
            if emitted >= request.max_tokens or prefills is decodes or (limits.in_turn and request.in_flight):
                index += 1  # its last token is under way, or it has no part in this kind of step
                continue
            if decodes:
                count = query if query < budget else budget
                slots = request.computed + count + look_ahead
            else:
                count = chunk_of(limits, request, request.computed, missing, budget)
                if not count:
                    index += 1
                    continue
                slots = request.computed + count
            held = request.held
            assert held is not None
            need = -(-(slots if slots < longest else longest) // size) - held.size
            if need > 0:
                while pool.free < need and len(walked) > index:
                    assert running[-1] is walked[-1]  # the crowd stands before everybody who may give way
                    walked.pop()
                    self._preempt(running.pop())
                    batch.preempted += 1
                if len(walked) == index:
                    break  # it was the last one and had to give way itself
                pool.allocate(held, need)
                batch.attached += need
                if decodes and limits.room:
                    pool.cross(held)
            budget -= count
            self._book(batch, request, count, missing, emitted)
            index += 1
        return budget

    def _schedule_waiting(self, batch: Batch, budget: int) -> None:
        limits, pool = self.limits, self.pool
        self._blocked = None
        while self.waiting and budget > 0 and len(self.running) < limits.max_num_seqs:
            request = self.waiting[0]
            loaded = request.held
            found = Match(loaded.named, 0) if loaded else self._found(request)
            hit = found.blocks * limits.block_size
            request.junction = found.reach * limits.block_size if found.reach > found.blocks else 0
            missing = request.tokens - hit
            count = chunk_of(limits, request, hit, missing, budget)
            if not count:
                break
            has = loaded.size if loaded else found.blocks
            need = max(0, self._blocks(hit + count) - has) + limits.held
            whole = need
            if limits.reserve_full_isl:
                answer = min(limits.reserve_answer, request.max_tokens - request.outputs - request.in_flight)
                whole = max(0, self._blocks(request.tokens + answer) - has) + limits.held
            if max(need, whole) + found.free > pool.free - limits.watermark_blocks and (self.running or pool.used):
                self._blocked = (request, hit)
                break
            self.waiting.popleft()
            held = loaded or pool.hold(request.hashes, found.blocks)
            request.held = held
            if not loaded and self.incoming.bring(request, held, pool):
                continue
            pool.allocate_extra(held, limits.held - held.extra)
            pool.allocate(held, need - limits.held)
            request.computed = hit
            if request.cached is None:
                request.cached = hit
            self.running.append(request)
            self._walked.append(request)
            batch.attached += held.size
            budget -= count
            self._book(batch, request, count, missing, request.outputs + request.in_flight)
        if self.waiting and len(self.running) >= limits.max_num_seqs:
            self._blocked = (None, 0)  # nobody is looked up

    def _found(self, request: Request) -> Match:
        """What the cache holds of a waiting request. The last token must be computed for its logits."""
        limits = self.limits
        if not limits.prefix_caching:
            return _NOTHING
        found = self.pool.match(request.hashes, (request.tokens - 1) // limits.block_size, drop=int(limits.drop_last))
        self._count_look_up(request, found.blocks * limits.block_size)
        return found

    def _count_look_up(self, request: Request, hit: int, times: int = 1) -> None:
        if self.limits.prefix_caching and not request.preemptions and request.held is None:
            self.queries += request.tokens * times
            self.hits += hit * times

    def _book(self, batch: Batch, request: Request, count: int, missing: int, emitted: int) -> None:
        """Count progress as made: what is scheduled will be computed, unless the request is preempted or aborted."""
        limits = self.limits
        context = request.computed
        prefills = missing > 1 or not emitted
        if not prefills:
            batch.decodes += 1
            batch.decode_tokens += count
            batch.decode_context += context
            gain = min(request.advance(1, limits.accepted), count, request.max_tokens - emitted)
            computed = context + gain
        else:
            batch.chunks.append(Chunk(count, context))
            gain = 1 if count == missing else 0
            computed = context + count
        request.computed = computed
        batch.tokens += count
        batch.entries.append(_new(Entry, (request, count, gain > 0, request.epoch, gain)))
        held = request.held
        if held is not None and computed >= (held.named + 1) * limits.block_size and (prefills or not limits.merges):
            self._name_full(request)  # SGLang looks for others' blocks when a chunk or the answer ends
        if (
            prefills
            and held is not None
            and (depth := kept_at(limits, request, context, ends_prompt=not emitted and gain > 0))
        ):
            self.pool.mark(held, depth)
        if gain:
            batch.emitting += 1
            request.in_flight += gain

    def _name_full(self, request: Request) -> None:
        """Make full blocks findable: computed tokens only, and only those whose value is known by now."""
        held = request.held
        known = min(request.computed, request.prompt + request.outputs) // self.limits.block_size
        if held is not None and known > held.named and self.limits.prefix_caching:
            self.pool.name(held, known)

    def _preempt(self, request: Request) -> None:
        """Take everything from a request and put it at the head of the queue; it will be computed again."""
        self._free(request)
        request.computed = request.in_flight = 0
        request.epoch += 1
        request.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(request)
        self._blocked = None

    def _free(self, request: Request) -> None:
        if request.held is not None:
            self.incoming.store(request, request.computed)
            self.pool.release(request.held)
            request.held = None
        self._blocked = None
        self._quiet = 0

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)


def check(scheduler: Scheduler, requests: Iterable[Request]) -> None:
    """Raise AssertionError when blocks and requests do not tell the same story: for tests."""
    scheduler.pool.check()
    for request in requests:
        if request.held is not None:
            shown = {id(part[0]) for part in request.held.parts}
            assert len(shown) == len(request.held.parts)
            assert all(run.refs > 0 for run, _ in request.held.parts)
    assert sum(r.held is not None and r.held.size + r.held.extra > 0 for r in requests) <= scheduler.pool.used
