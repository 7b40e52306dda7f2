"""Evidence from what was measured: the point's measures, the servers' samples, and the records.

A value that was not scraped gives no evidence, so what depends on it stays unproven.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ridgeline.core.deployment import Deployment
from ridgeline.core.finding import Evidence
from ridgeline.core.point import Point
from ridgeline.core.record import Outcome, Record, Replay
from ridgeline.core.where import Where
from ridgeline.launch.engines import engine_kind, read_log, router, spoken, stores
from ridgeline.results.metrics.scrapes import Scrapes
from ridgeline.results.metrics.tokens import HANDED_OVER
from ridgeline.sweep.proof.histories import live_histories

PARSER = "metrics/1"
FULL_POOL = 0.9  # peak use above which missing prefixes may have been evicted, which is no defect
# The same of what live sessions hold, which counts as free between their turns: recurrent states, blocks begun and what
# answers add take the rest (a model with states lost half of its hits at 0.8 on an H200, one without none at 0.87).
FULL_OF_HISTORIES = 0.7
RETURNS = 10  # fewer returning turns say nothing about affinity
SMALL_PROMPT = 512  # tokens: below, rounding to blocks hides whether a prefix was found
READERS = {"router": (router.SHAPES, router.PARSER), "cache": (stores.SHAPES, stores.PARSER)}  # by a service's role
_RANK = re.compile(r'(?:^|,)engine="([^"]*)"')
STEPS = "ridgeline:emulator_decode_steps_total"
DRAFTS = "vllm:spec_decode_num_drafts_total"
POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_ROUTER = "vllm_router_"


def observed(point: Point, replay: Replay, kind: str, pool_tokens: float | None = None) -> tuple[Evidence, ...]:
    """Evidence of one run. `kind`: of the engine, whose metric names are looked for; `pool_tokens`: KV tokens of one
    rank by its log."""
    scrapes = Scrapes(tuple(sorted(replay.samples, key=lambda sample: sample.at_ns)))
    prefix = engine_kind(kind).prefix
    ranks = tuple(_ranks(scrapes, prefix)) if prefix else ()
    engines = next((float(piece.value) for piece in ranks if piece.name == "engines"), 1.0)
    pool = pool_tokens * engines if pool_tokens else None
    found = [*_cache(point, replay.records, pool), *_preemptions(point), *_acceptance(point), *ranks]
    if (external := point.value("external_cache_hit")) is not None:
        found.append(Evidence("external_hit", external, parser=PARSER))
    if not _evicting(point, replay.records, pool):  # else turns find nothing on their own rank either
        found += _affinity(replay.records)
    found += _contamination(replay.records)
    found += _graph_misses(scrapes, replay)
    found += _router(scrapes, replay)
    found += _positions(scrapes, replay)
    found += _handed_over(scrapes, replay)
    return tuple(found)


def from_logs(deployment: Deployment, logs: Mapping[str, Path]) -> tuple[Evidence, ...]:
    """What the services' logs prove. `logs`: by file name, `SERVICE.log`; of a script all that it wrote."""
    kind = spoken(deployment)
    found: list[Evidence] = []
    if deployment.kind in ("shell", "command"):  # whoever wrote them, and whatever they started beside the engine
        for name, log in logs.items():
            found += read_log(log, kind.shapes, kind.parser, name=name)
            found += read_log(log, router.SHAPES, router.PARSER, name=name)
        return tuple(found)
    for service in deployment.services:
        path = logs.get(f"{service.name}.log")
        shapes, parser = READERS.get(service.role, (kind.shapes, kind.parser))
        if path is not None:
            found += read_log(path, shapes, parser)
    return tuple(found)


def graph_misses(evidence: Sequence[Evidence], most_sequences: int) -> Iterator[Evidence]:
    """Share of decode-sized steps (at most `most_sequences` tokens) that ran without a graph, from the engine's own
    table. Larger steps hold prompts, which need not run in one."""
    rows = [str(piece.value).split() for piece in evidence if piece.name == "graph_steps"]
    small = [(mode, int(count)) for tokens, mode, count in rows if int(tokens) <= most_sequences]
    total = sum(count for _, count in small)
    if total:
        missed = sum(count for mode, count in small if mode == "NONE")
        where = next(piece.where for piece in evidence if piece.name == "graph_steps")
        yield Evidence("graph_misses", missed / total, where, "graph-table/1")


def _measure(point: Point, name: str) -> float | None:
    return point.value(name)


def _cache(point: Point, records: Sequence[Record], pool: float | None) -> Iterator[Evidence]:
    """Hits by the answers' usage where they tell, which is of exactly the good requests; else by the server's counters,
    whose scrapes around the window take in some of the warm-up."""
    hit, reachable = _measure(point, "usage_cache_hit"), reachable_hit(records)
    if hit is None:
        hit = _measure(point, "server_cache_hit")
    if hit is None:
        return
    yield Evidence("prefix_hit", hit, parser=PARSER)
    if reachable is None:
        return
    evicting = _evicting(point, records, pool)
    note = f"{PARSER} (the pool filled up)" if evicting else PARSER
    yield Evidence("prefix_gap", 0.0 if evicting else max(0.0, reachable - hit), parser=note)


def reachable_hit(records: Sequence[Record]) -> float | None:
    """Share of prompt blocks that this run could have found in an endless cache: those the trace repeats, for requests
    whose own stream, or for a stream's first turn whose tree, was answered before in this run. A lane that begins in
    the middle of a session finds nothing of what was before, whatever the trace says. None without block hashes."""
    streams: set[str] = set()
    trees: set[int] = set()
    hit = total = 0
    for record in sorted(records, key=lambda r: (r.sent_ns or 0, r.request_id)):
        known = record.correlation_id in streams or (record.turn_index == 0 and record.tree in trees)
        if record.outcome is Outcome.OK and record.phase == "profiling" and record.theoretical_total_blocks:
            total += record.theoretical_total_blocks
            hit += (record.theoretical_hit_blocks or 0) if known else 0
        if record.outcome is Outcome.OK:
            streams.add(record.correlation_id)
            trees.add(record.tree)
    return hit / total if total else None


def _preemptions(point: Point) -> Iterator[Evidence]:
    moved = _measure(point, "preemptions")
    good = next((m.n for name, m in point.measures.items() if name.startswith("e2e") and m.n), None)
    if moved is not None:
        yield Evidence("preempted_share", moved / good if good else float(moved > 0), parser=PARSER)


def _acceptance(point: Point) -> Iterator[Evidence]:
    length = _measure(point, "acceptance_length")
    if length is not None:
        yield Evidence("acceptance_length", length, parser=PARSER)


def _ranks(scrapes: Scrapes, prefix: str) -> Iterator[Evidence]:
    """Ranks by the `engine` label, per endpoint; what each had to do by its share of prompt tokens."""
    done: dict[str, float] = {}
    name = next(
        (n for n in (f"{prefix}prompt_tokens_total", f"{prefix}generation_tokens_total") if n in scrapes.names), None
    )
    if name is None:
        return
    for line in scrapes.own(name):
        if (rank := _RANK.search(line.labels)) is not None:
            key = f"{line.endpoint} {rank[1]}"
            done[key] = done.get(key, 0.0) + float(line.values[-1] - line.values[0])
    if not done:
        return
    page = Where(next(iter(done)).split(" ")[0])
    yield Evidence("engines", float(len(done)), page, PARSER)
    mean = sum(done.values()) / len(done)
    if mean > 0:
        yield Evidence("rank_imbalance", max(done.values()) / mean, page, PARSER)


def _evicting(point: Point, records: Sequence[Record], pool: float | None) -> bool:
    """Whether prefixes may have been evicted. `pool`: tokens of all ranks, None where no log told."""
    peak, live = _measure(point, "kv_usage.peak"), live_histories(records)
    full = peak is not None and peak >= FULL_POOL
    return full or bool(pool and live and live >= FULL_OF_HISTORIES * pool)


def _affinity(records: Sequence[Record]) -> Iterator[Evidence]:
    """Share of returning turns whose prompt was mostly cached up to where the turn before it ended: by the usage of
    each answer. Turns of other sessions cannot help, so a turn that meets another rank finds nothing of its own."""
    last: dict[str, Record] = {}
    came = found = 0
    for record in sorted(records, key=lambda r: (r.sent_ns or 0, r.request_id)):
        if record.outcome is not Outcome.OK or not record.correlation_id or record.prompt_tokens is None:
            continue
        before = last.get(record.correlation_id)
        last[record.correlation_id] = record
        if before is None or before.prompt_tokens is None or record.cached_tokens is None:
            continue
        if before.prompt_tokens < SMALL_PROMPT or record.prompt_tokens < before.prompt_tokens:
            continue  # too short to tell, or the context was cut and begins anew
        came += 1
        found += record.cached_tokens >= before.prompt_tokens / 2
    if came >= RETURNS:
        yield Evidence("affinity", found / came, parser=f"usage/1 ({came} returning turns)")


def _contamination(records: Sequence[Record]) -> Iterator[Evidence]:
    """Prompt tokens that were cached before this run had any answer, as a share of all that it measured. What is
    cached then was left by somebody else; later hits may be the run's own, since sessions can share a beginning."""
    answered = [r for r in records if r.outcome is Outcome.OK and r.prompt_tokens and r.sent_ns is not None]
    first_end = min((r.end_ns for r in answered if r.end_ns is not None), default=None)
    measured = sum(r.prompt_tokens or 0 for r in answered if r.phase == "profiling")
    if first_end is None or not measured:
        return
    early = [r for r in answered if (r.sent_ns or 0) < first_end and r.cached_tokens is not None]
    if early:
        cached = sum(r.cached_tokens or 0 for r in early)
        yield Evidence("contamination", cached / measured, parser=f"usage/1 ({len(early)} first requests)")


def _window(replay: Replay) -> tuple[float, float] | None:
    """When the measured requests were at the server."""
    start, end = replay.phases.profiling_start_ns, replay.phases.drained_ns or replay.phases.profiling_end_ns
    return (float(start), float(end)) if start is not None and end is not None else None


def _positions(scrapes: Scrapes, replay: Replay) -> Iterator[Evidence]:
    """How often the draft token at each position was accepted, of all drafts."""
    window = _window(replay)
    drafts = scrapes.increase((DRAFTS,), window) if window else None
    if not drafts or window is None:
        return
    found = {m[1] for line in scrapes.own(POSITIONS) if (m := re.search(r'position="(\d+)"', line.labels))}
    for position in sorted(found, key=int):
        accepted = scrapes.increase((POSITIONS,), window, f'position="{position}"')
        if accepted is not None:
            yield Evidence(f"acceptance_rate_position_{position}", accepted / drafts, parser=PARSER)


def _handed_over(scrapes: Scrapes, replay: Replay) -> Iterator[Evidence]:
    """Bytes of KV that decode workers got from prefill workers while it was measured."""
    window = _window(replay)
    if window is None or not (own := [name for name in HANDED_OVER if name in scrapes.names]):
        return
    moved = scrapes.increase((own[0],), window)
    if moved is not None:
        yield Evidence("kv_handed_over", moved, parser=PARSER)


def _graph_misses(scrapes: Scrapes, replay: Replay) -> Iterator[Evidence]:
    """Share of decoding steps without a graph, where the engine counts them by mode (the emulated one does)."""
    window = _window(replay)
    if STEPS not in scrapes.names or window is None:
        return
    total = scrapes.increase((STEPS,), window)
    missed = scrapes.increase((STEPS,), window, 'mode="NONE"') or 0.0
    if total:
        yield Evidence("graph_misses", missed / total, parser=PARSER)


def _router(scrapes: Scrapes, replay: Replay) -> Iterator[Evidence]:
    """Retries and circuit-breaker transitions of a router over the whole replay; series appear with their first event,
    so none is zero once the router's page was read at all."""
    mine = [name for name in scrapes.names if name.startswith(_ROUTER)]
    if not mine:
        return
    for name, words in (("router_retries", ("retries",)), ("router_breaker", ("cb_state_transitions",))):
        total = 0.0
        for metric in mine:
            if any(metric.removeprefix(_ROUTER).startswith(word) for word in words) and metric.endswith("_total"):
                total += sum(float(line.values[-1]) for line in scrapes.own(metric))
        yield Evidence(name, total, parser=PARSER)
