"""Decoding requests of one rank, all together: nobody walks them.

Every step takes each of them on by its acceptance length, so what one holds, has computed and has got after n steps
follows from n (`Request.level_at`). A step costs one sum over the crowd, a *quiet* one (whose context is taken to grow
in a straight line) nothing. Only what differs is done one by one: joining, needing a block, the last token.

Steps of the crowd are numbered as they are booked; `at` tells which step of the engine each one was. A step is booked
before the one under way has completed when scheduling is asynchronous.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence

from ridgeline.simulate.batch import Batch, Entry
from ridgeline.simulate.limits import Limits
from ridgeline.simulate.pool import BlockPool
from ridgeline.simulate.request import Request

_NEVER = 1 << 60


class Crowd:
    """`members` stand in the order in which they run. `leaving`: their last token is booked, but not completed."""

    __slots__ = (
        "_fresh",
        "_gained",
        "_limits",
        "_short",
        "_verified",
        "at",
        "behind",
        "booked",
        "completed",
        "context",
        "first_end",
        "flying",
        "known",
        "leaving",
        "members",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.members: list[Request] = []
        self.leaving: list[Request] = []
        self.booked = self.completed = 0  # steps
        self.known = 0  # of these, completed when the last one was booked
        self.at = array("q")  # the engine's step that each completed one was
        self.flying: deque[Batch] = deque()  # booked, not completed
        self.context = 0  # tokens that the members have computed, in all
        self.first_end = _NEVER  # the step that books somebody's last token
        self.behind = False  # quiet steps were booked: blocks, `context` and `_short` are those before them
        self._short: list[Request] = []  # members that need a block in the next step
        self._fresh: list[Request] = []  # members whose first step is the next one
        self._verified = 0  # drafts verified in completed steps
        self._gained = 0  # tokens of those who have left

    @property
    def verified(self) -> int:
        """Verifications of drafts in completed steps."""
        return self._verified

    @property
    def gained(self) -> int:
        """Tokens got in completed steps, by those who have left and those who are here."""
        here = (*self.members, *self.leaving)
        return self._gained + sum(self._tokens(request, max(request.joined, self.completed)) for request in here)

    def join(self, request: Request) -> None:
        """From the next step on a request decodes with the others."""
        per_step = self._limits.accepted
        if per_step == 1.0:
            request.phase = 0.0
        request.joined = self.booked
        request.origin = request.steps - self.booked
        request.offset = request.computed - request.level
        left = request.max_tokens - request.outputs - request.in_flight
        request.ends = self.booked + request.steps_before(left, per_step)
        self.first_end = min(self.first_end, request.ends)
        self.members.append(request)
        self._fresh.append(request)
        self.context += request.computed
        self._measure(request)
        if request.computed > request.room:
            self._short.append(request)

    def _measure(self, request: Request) -> None:
        """How many tokens it may have computed before it needs another block."""
        limits, held = self._limits, request.held
        assert held is not None
        slots = held.size * limits.block_size
        request.room = slots - limits.query - limits.look_ahead if slots < limits.max_model_len else _NEVER

    def _attach(self, request: Request, computed: int, pool: BlockPool) -> int:
        """Blocks for the step that begins with so many tokens computed."""
        held = request.held
        assert held is not None
        need = self._needed(computed) - held.size
        pool.allocate(held, need)
        if self._limits.room:
            pool.cross(held)
        self._measure(request)
        return need

    def roomy(self) -> int:
        """Steps in which certainly nobody begins another block. Nobody may be behind."""
        per_step, booked = self._limits.accepted, self.booked
        left = (r.room - r.offset - r.level_at(booked + r.origin, per_step) for r in self.members)
        return max(0, int((min(left) - 1) / per_step))

    def _needed(self, computed: int) -> int:
        limits = self._limits
        slots = min(computed + limits.query + limits.look_ahead, limits.max_model_len)
        return -(-slots // limits.block_size)

    def book(self, batch: Batch, pool: BlockPool) -> bool:
        """A step of everybody goes into a batch; False, and nothing is done, when blocks run short."""
        if self.behind:
            self.catch_up(pool)
        per_step, query, booked = self._limits.accepted, self._limits.query, self.booked
        if self._short:
            wanted = [(r, r.offset + r.level_at(booked + r.origin, per_step)) for r in self._short]
            if sum(self._needed(computed) - r.held.size for r, computed in wanted if r.held) > pool.free:
                return False
            batch.attached += sum(self._attach(request, computed, pool) for request, computed in wanted)
        count = len(self.members)
        batch.decodes = batch.emitting = batch.crowd = count
        batch.tokens = batch.decode_tokens = count * query
        batch.decode_context = self.context
        batch.fresh, self._fresh = self._fresh, []
        self._fly(batch)
        booked += 1
        if self.first_end < booked:
            batch.ends = [request for request in self.members if request.ends < booked]
            self.members = [request for request in self.members if request.ends >= booked]
            self.leaving += batch.ends
            for request in batch.ends:
                request.known = self.known
            self.first_end = min((request.ends for request in self.members), default=_NEVER)
        self._sum_up()
        return True

    def _fly(self, batch: Batch) -> None:
        batch.index = self.booked
        self.booked += 1
        self.known = self.completed
        self.flying.append(batch)

    def _sum_up(self) -> None:
        """What everybody has computed after the booked steps, and who will need a block."""
        booked, per_step, context, short = self.booked, self._limits.accepted, 0, []
        for request in self.members:
            computed = request.offset + int(request.phase + (booked + request.origin) * per_step)
            context += computed
            if computed > request.room:
                short.append(request)
        self.context, self._short = context, short

    def book_quiet(self, batch: Batch) -> None:
        """The same for a step in which nobody ends and blocks do not run short; the batch has its sums."""
        self._fly(batch)
        self.behind = True

    def leap(self, steps: int, first: int) -> None:
        """Let so many quiet steps have happened, the engine's from `first` on; the one booked last stays under way."""
        self.booked += steps
        self.completed += steps
        self.at.extend(range(first, first + steps))
        self.known = self.completed
        self.behind = True
        if self._limits.query > 1:
            self._verified += steps * len(self.members)
        for batch in self.flying:
            batch.index += steps

    def catch_up(self, pool: BlockPool) -> None:
        """Give out the blocks of quiet steps."""
        self.behind = False
        per_step, last = self._limits.accepted, self.booked - 1
        for request in self.members:
            computed = request.offset + int(request.phase + (last + request.origin) * per_step)
            if computed > request.room:
                self._attach(request, computed, pool)
        self._sum_up()

    def complete(self, batch: Batch, step: int) -> Sequence[Request]:
        """A booked step has ended, the engine's `step`-th: who has got the last token with it. Notes in the batch since
        when its tokens were awaited."""
        self.flying.popleft()
        self.completed += 1
        if self._limits.query > 1:
            self._verified += batch.crowd
        veterans = batch.crowd - len(batch.fresh)
        if veterans:
            batch.awaited.append((self.at[-1], veterans))
        for request in batch.fresh:
            batch.awaited.append((request.emits[-1] - 1, 1))
        self.at.append(step)
        for request in batch.ends:
            self._leave(request, request.ends + 1)
            request.outputs = request.max_tokens
            self.leaving.remove(request)
        return batch.ends

    def note_late(self, request: Request, gain: int) -> None:
        """An entry of a member's own, from before it joined, has completed."""
        request.late = (self.booked, gain)

    def dissolve(self, running: Iterable[Request], pool: BlockPool) -> None:
        """From the next step on everybody is walked. `running`: in order; steps under way get entries."""
        if self.behind:
            self.catch_up(pool)
        limits = self._limits
        entries: dict[int, list[Entry]] = {batch.index: [] for batch in self.flying}
        for request in running:
            if request.joined < 0:
                continue
            joined, end = request.joined, min(request.ends + 1, self.booked)
            done = max(joined, min(end, self.completed))
            known = max(joined, self.known if request.known is None else request.known)
            known = request.prompt + request.outputs + self._tokens(request, known)
            if request.late[0] >= end:
                known -= request.late[1]
            got = [self._tokens(request, steps) for steps in range(done, end + 1)]
            for index, before, after in zip(range(done, end), got, got[1:], strict=False):
                entries[index].append(Entry(request, limits.query, True, request.epoch, after - before))
            self._leave(request, done)
            request.outputs += got[0]
            request.in_flight += got[-1] - got[0]
            named = min(request.computed, known) // limits.block_size
            names = limits.prefix_caching and not limits.merges
            if end > joined and names and request.held and named > request.held.named:
                pool.name(request.held, named)  # as its last step would have
        for batch in self.flying:
            batch.entries[:0] = entries[batch.index]
            batch.quiet, batch.crowd, batch.ends, batch.fresh = False, 0, [], []
        self.flying.clear()
        self.members, self.leaving, self._short, self._fresh = [], [], [], []
        self.completed = self.booked
        self.at.extend([-1] * (self.booked - len(self.at)))
        self.context, self.first_end = 0, _NEVER

    def _tokens(self, request: Request, steps: int) -> int:
        """What a member's steps before the `steps`-th yield."""
        level = request.level_at(request.origin + steps, self._limits.accepted)
        return min(level - request.level, request.max_tokens - request.outputs - request.in_flight)

    def _leave(self, request: Request, done: int) -> None:
        """Write down what follows from the steps booked, and in which of those before the `done`-th it got tokens."""
        joined, end = request.joined, min(request.ends + 1, self.booked)
        self._gained += self._tokens(request, done)
        request.computed = request.offset + request.level + self._tokens(request, end)
        request.steps = request.origin + end
        request.level = request.level_at(request.steps, self._limits.accepted)
        if done > joined:
            first, last = self.at[joined], self.at[done - 1]
            if last - first == done - 1 - joined:
                request.note_emits(first, last + 1)
            else:
                for step in self.at[joined:done]:
                    request.note_emits(step, step + 1)
        request.joined, request.known, request.late = -1, None, (-1, 0)
