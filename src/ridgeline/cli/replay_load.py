"""Which load `ridgeline replay` makes: the options become sessions, a scenario and a pacing machine.

Recorded sessions (`--trace`) are replayed agentically on lanes; with `--schedule` at their recorded moments; with
`--rate` as arrivals. Without a trace `--isl` and `--osl` make requests of fixed length, in a closed loop or at a rate.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from ridgeline import trace as traces
from ridgeline.core.cell import Scenario
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.units import nanoseconds
from ridgeline.trace.corpus import Corpus
from ridgeline.trace.pacing import (
    AgentPacer,
    ArrivalSettings,
    ClosedLoopPacer,
    LoopSettings,
    OpenLoopPacer,
    Pacer,
    PacingSettings,
    SchedulePacer,
    ScheduleSettings,
)
from ridgeline.trace.session import Session
from ridgeline.trace.synth import fixed_sessions

DURATION_S = 3600.0  # of an agentic window
WARMUP = {"agentx": 10}  # agentic warm-up requests a lane after the primers; AIPerf 0.13 cannot count them
POOL = 20_000  # requests of fixed length to deal from when only the time bounds them
LEAST_PER_LANE = 5  # measured requests a lane: fewer measure the ramp-up


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What the user asked for. Seconds are simulated. None: not given."""

    trace: Path | None
    isl: int | None
    osl: int | None
    concurrency: int | None
    rate: float | None
    schedule: bool
    requests: int | None
    duration: float | None
    warmup: int | None
    grace: float
    profile: str
    seed: int
    max_context: int | None
    sessions: int | None
    arrivals: str
    burstiness: float
    max_in_flight: int | None
    range_ratio: float
    repeated: bool
    force: bool


class Load(NamedTuple):
    """What is sent and how it is described. `concurrency` None: known after the run, from the lanes in use."""

    pacer: Pacer
    sessions: Sequence[Session]
    scenario: Scenario
    concurrency: int | None
    about: Mapping[str, Any]  # of the trace or the lengths
    pacing: Mapping[str, Any]
    digest: str | None
    run_id: str


def choose_load(options: LoadOptions) -> Load:
    """The load. Raises InputError with every contradiction between options, and what the trace itself has wrong."""
    if problems := _contradictions(options):
        raise InputError(problems)
    run_id = uuid.uuid4().hex
    if options.trace is None:
        return _fixed(options, run_id)
    corpus = traces.load(
        options.trace, max_context=options.max_context, limit=options.sessions, profile=options.profile
    )
    if options.schedule:
        return _scheduled(options, corpus, run_id)
    if options.rate is not None:
        settings = _arrivals(options, run_id, len(corpus.sessions))
        return _recorded(corpus, OpenLoopPacer(corpus.sessions, settings), settings, run_id, None, options)
    agentic = PacingSettings(
        concurrency=options.concurrency or 0,
        benchmark_id=run_id,
        seed=options.seed,
        profile=options.profile,
        duration_ns=nanoseconds(DURATION_S if options.duration is None else options.duration),
        grace_ns=nanoseconds(options.grace),
        warmup_requests_per_lane=WARMUP.get(options.profile, 0) if options.warmup is None else options.warmup,
        max_requests=options.requests,
    )
    pacer = AgentPacer(corpus.sessions, agentic)
    return _recorded(corpus, pacer, agentic, run_id, options.concurrency, options)


def _contradictions(options: LoadOptions) -> list[Problem]:
    found = []
    fixed = options.isl is not None or options.osl is not None
    if options.trace is None and not fixed:
        found.append(Problem("nothing to send", key="--trace", hint="give recorded sessions, or --isl and --osl"))
    if options.trace is not None and fixed:
        found.append(Problem("a trace has its own lengths", key="--isl", hint="leave out --trace, or --isl and --osl"))
    if options.trace is None and (options.isl is None) != (options.osl is None):
        key = "--osl" if options.osl is None else "--isl"
        found.append(Problem("both lengths are needed", key=key))
    if options.schedule and (options.trace is None or options.rate is not None):
        found.append(Problem("the schedule is that of a trace", key="--schedule", hint="give --trace and no --rate"))
    if not options.schedule and options.rate is None and options.concurrency is None:
        found.append(Problem("how many lanes?", key="--concurrency", hint="or give --rate, or --schedule"))
    for key, count in (
        ("--concurrency", options.concurrency),
        ("--requests", options.requests),
        ("--isl", options.isl),
        ("--osl", options.osl),
        ("--sessions", options.sessions),
        ("--max-context", options.max_context),
        ("--max-in-flight", options.max_in_flight),
    ):
        if count is not None and count < 1:
            found.append(Problem(f"must be at least 1, not {count}", key=key))
    if options.rate is not None and not options.rate > 0:
        found.append(Problem(f"must be above 0, not {options.rate:g}", key="--rate"))
    if options.rate is not None and options.concurrency is not None:
        hint = "leave out --concurrency; --max-in-flight caps what an open loop has under way"
        found.append(Problem("arrivals at a rate wait for no lane", key="--rate", hint=hint))
    if options.rate is None:
        given = {
            "--arrivals": options.arrivals != "poisson",
            "--burstiness": options.burstiness != 1.0,
            "--max-in-flight": options.max_in_flight is not None,
        }
        hint = "give --rate, or leave it out"
        found += [Problem("is for arrivals at a rate", key=key, hint=hint) for key, yes in given.items() if yes]
    if options.trace is not None:
        given = {"--range-ratio": options.range_ratio != 1.0, "--repeated": options.repeated}
        found += [Problem("is for prompts of fixed length", key=key) for key, yes in given.items() if yes]
    if options.duration is not None and not (0 < options.duration < math.inf):
        found.append(Problem(f"must be above 0 seconds, not {options.duration:g}", key="--duration"))
    if options.grace < 0 or (options.warmup or 0) < 0:
        key = "--grace" if options.grace < 0 else "--warmup"
        found.append(Problem("must not be negative", key=key))
    if options.trace is None and fixed and options.requests is None and options.duration is None:
        found.append(Problem("the run would never end", key="--requests", hint="give --requests or --duration"))
    lanes = options.concurrency or 1
    few = options.requests is not None and 0 < options.requests < LEAST_PER_LANE * lanes
    if few and not options.force and options.rate is None:
        found.append(
            Problem(
                f"{options.requests} requests on {lanes} lanes measure the ramp-up, not the server",
                key="--requests",
                hint=f"ask for {LEAST_PER_LANE * lanes} or more, or add --force",
            )
        )
    return found


def _fixed(options: LoadOptions, run_id: str) -> Load:
    isl, osl = options.isl or 0, options.osl or 0
    count = (options.requests or POOL) + _warmup_requests(options)
    sessions = fixed_sessions(
        isl, osl, count, options.seed, range_ratio=options.range_ratio, repeated=options.repeated, run=run_id
    )
    settings: LoopSettings
    pacer: Pacer
    if options.rate is not None:
        settings = _arrivals(options, run_id, None)
        pacer = OpenLoopPacer(sessions, settings)
    else:
        settings = LoopSettings(**_loop(options, run_id))
        pacer = ClosedLoopPacer(sessions, settings)
    about = {"isl": isl, "osl": osl, "range_ratio": options.range_ratio, "repeated": options.repeated}
    scenario = Scenario("fixed-seq-len", isl=isl, osl=osl, duration_s=_whole(options.duration))
    concurrency = None if options.rate is not None else options.concurrency
    return Load(pacer, sessions, scenario, concurrency, about, plain(settings), None, run_id)


def _scheduled(options: LoadOptions, corpus: Corpus, run_id: str) -> Load:
    settings = ScheduleSettings(
        benchmark_id=run_id,
        duration_ns=None if options.duration is None else nanoseconds(options.duration),
        grace_ns=nanoseconds(options.grace),
        failure_threshold=0.10,
    )
    return _recorded(corpus, SchedulePacer(corpus.sessions, settings), settings, run_id, None, options)


def _recorded(
    corpus: Corpus, pacer: Pacer, settings: Any, run_id: str, concurrency: int | None, options: LoadOptions
) -> Load:
    about = {
        "source": corpus.source,
        "format": corpus.format,
        "digest": corpus.digest,
        "sessions": len(corpus.sessions),
        "context_dropped": corpus.context_dropped,
    }
    agentic = isinstance(pacer, AgentPacer)
    asked = DURATION_S if agentic and options.duration is None else options.duration
    scenario = Scenario("agentic-coding", duration_s=_whole(asked))
    return Load(pacer, corpus.sessions, scenario, concurrency, about, plain(settings), corpus.digest, run_id)


def _arrivals(options: LoadOptions, run_id: str, recorded: int | None) -> ArrivalSettings:
    """`recorded`: requests a trace has, sent once each unless another number or a duration was asked for."""
    loop = _loop(options, run_id)
    if loop["requests"] is None and loop["duration_ns"] is None:
        loop["requests"] = recorded
    return ArrivalSettings(
        **loop,
        requests_per_second=options.rate or 0.0,
        arrivals=cast(Literal["constant", "poisson", "gamma"], options.arrivals),
        burstiness=options.burstiness,
        seed=options.seed,
        max_in_flight=options.max_in_flight,
    )


def _loop(options: LoadOptions, run_id: str) -> dict[str, Any]:
    return {
        "concurrency": options.concurrency or 1,
        "requests": options.requests,
        "duration_ns": None if options.duration is None else nanoseconds(options.duration),
        "grace_ns": nanoseconds(options.grace),
        "warmup_requests": _warmup_requests(options),
        "failure_threshold": 0.10,
        "run_id": run_id,
    }


def _warmup_requests(options: LoadOptions) -> int:
    """Of a loop: one a lane unless asked otherwise."""
    return (1 if options.warmup is None else options.warmup) * (options.concurrency or 1)


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds))


def plain(settings: Any) -> dict[str, Any]:
    """A settings value as plain data; an infinite rate as a word, because JSON has no such number."""
    names = [name for kind in reversed(type(settings).__mro__) for name in getattr(kind, "__slots__", ())]
    values = {name: getattr(settings, name) for name in names}
    return {name: str(value) if value == math.inf else value for name, value in values.items()}
