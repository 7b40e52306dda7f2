"""G1 to G6: which batches run inside captured graphs, and which settings quietly change that."""

from __future__ import annotations

import json

from ridgeline.core.finding import Change, Expectation
from ridgeline.engine.answers.graphs import described
from ridgeline.engine.graphs import FULL, MODES, NONE, Ladder, ladder
from ridgeline.engine.launch import Launch
from ridgeline.plan.checks.changes import passing
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject

IMBALANCE = 1.25  # the fullest data-parallel rank against the mean, behind a router
PAD_RATIO = 1.10
# Families whose model code turns on breakable graphs and with them turns compilation off.
BREAKABLE = ("deepseek_v4", "deepseek_ref", "minimax_m3", "minimax_m3_vl", "inkling")
LAYERWISE = ("LMCacheConnectorV1", "MooncakeConnector", "NixlPushConnector")
_KNOBS = ("max-cudagraph-capture-size", "cudagraph-capture-sizes", "compilation-config", "max-num-seqs")


def ladder_of(launch: Launch) -> Ladder:
    """The ladder of a vLLM launch. Raises ValueError where the engine refuses to start."""
    return ladder(
        max_num_seqs=launch.max_num_seqs or 1,
        max_num_batched_tokens=launch.budget or 1,
        spec_tokens=launch.query - 1,
        mode=launch.mode,
        sizes=launch.sizes,
        top=launch.top,
        dense=launch.dense,
        v2_runner=launch.v2_runner,
    )


def peak(subject: Subject, launch: Launch) -> int:
    """Requests the fullest rank is expected to decode at once, never more than the scheduler admits."""
    ranks = launch.ranks
    even = subject.workload.in_flight(subject.cell.concurrency, ranks)
    fullest = even if ranks == 1 else -(-even * 5 // 4)  # IMBALANCE
    return min(fullest, launch.max_num_seqs or fullest)


def coverage(subject: Subject) -> Said:
    """G1: the decode batches that come run in a full graph."""
    for launch in subject.launches:
        where = launch.where(*_KNOBS, "cuda-graph-max-bs", "enforce-eager")
        if launch.mode == NONE:
            yield warns("graphs are off: every step is launched kernel by kernel", where=where)
            continue
        if launch.build.kind in ("sglang", "trt"):
            yield from _by_requests(subject, launch)
            continue
        if launch.build.kind != "vllm":
            yield unknown(f"which graphs {launch.build.kind} captures is not known here", where=where)
            continue
        try:
            found = ladder_of(launch)
        except ValueError as error:
            yield fails(f"the engine refuses to start: {error}", where=where, changes=_widen(subject, launch))
            continue
        most, cap, covered = peak(subject, launch), launch.max_num_seqs or 0, found.covered_sequences
        q, top = launch.query, found.sizes[-1]
        sums = (
            f"{q} tokens a sequence; largest captured size {top}: {covered} sequences; peak on one rank {most}, "
            f"scheduler admits {cap}; {len(found.full)} full + {len(found.piecewise)} piecewise graphs"
        )
        if MODES[launch.mode][0] != FULL:
            yield warns(f"decode batches run piecewise ({launch.mode})", sums, where=where)
            continue
        yield Expectation("full_graph_sizes", "==", ",".join(map(str, found.full)), "tokens")
        modes = {n: found.runs_as(n * q, uniform=True) for n in range(1, cap + 1)}
        eager = [n for n in range(1, most + 1) if modes[n] == NONE]
        slow = [n for n in range(1, most + 1) if modes[n] not in (NONE, FULL)]
        changes = _widen(subject, launch) if covered < cap else []
        if eager:
            text = f"{_range(eager)} sequences run without a graph"
            yield fails(text, sums, where=where, changes=changes)
        elif slow:
            text = f"{_range(slow)} sequences run piecewise: padded past {q} x {cap} tokens they have no full graph"
            yield warns(text, sums, where=where, changes=changes)
        elif covered < cap:
            text = f"the scheduler could admit {covered + 1} to {cap} sequences, which run without a full graph"
            yield warns(text, sums, where=where, changes=changes)
        else:
            yield passes("every decode batch has a full graph", sums, where)


def _range(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if numbers[-1] > numbers[0] else str(numbers[0])


def _widen(subject: Subject, launch: Launch) -> list[Change]:
    """A ladder that reaches every admitted sequence, or fewer sequences: whichever passes."""
    name, q, cap = launch.service.name, launch.query, launch.max_num_seqs or 1
    needed = peak(subject, launch)
    if launch.sizes is None:
        changes = [_knob(launch, "max_cudagraph_capture_size", cap * q, f"{cap * q}")]
    else:
        listed = [q * n for n in range(1, cap + 1)]
        changes = [_knob(launch, "cudagraph_capture_sizes", listed, f"{q}, {2 * q}, ... {q * cap}")]
    # A batch padded past q x max_num_seqs has no full graph: numbers that sizes hit exactly are tried too.
    for fewer in sorted({-(-needed // step) * step for step in (1, 4, 8, 16)}):
        if fewer < cap:
            changes.append(Change(name, "max-num-seqs", str(fewer), f"--max-num-seqs {fewer}"))
    return passing(subject, changes, lambda after: _covers(after, name))


def _knob(launch: Launch, name: str, value: int | list[int], text: str) -> Change:
    """A capture setting where it is already written: inside the compilation config, else as a flag of its own."""
    flag = name.replace("_", "-")
    whole = launch.flags.get("compilation-config")
    if whole is not None and whole.value and f'"{name}"' in whole.value and not launch.given(flag):
        new = json.dumps({**json.loads(whole.value), name: value})
        return Change(launch.service.name, "compilation-config", new, f"{name} {text} in --compilation-config")
    words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return Change(launch.service.name, flag, words, f"--{flag} {text}")


def _covers(after: Subject, name: str) -> bool:
    launch = next(item for item in after.launches if item.service.name == name)
    try:
        return ladder_of(launch).covered_sequences >= (launch.max_num_seqs or 0)
    except ValueError:
        return False


# What each engine calls the largest batch that has a graph.
LARGEST = {"sglang": "--cuda-graph-max-bs", "trt": "cuda_graph_config.batch_sizes"}


def _by_requests(subject: Subject, launch: Launch) -> Said:
    """SGLang and TensorRT-LLM capture batch sizes in requests, per rank."""
    where = launch.where("cuda-graph-max-bs", "cuda-graph-bs", "max-running-requests", "max-batch-size")
    knob = LARGEST[launch.build.kind]
    covered = max(launch.sizes) if launch.sizes else launch.top
    most, cap = peak(subject, launch), launch.max_num_seqs
    if covered is None and launch.sizes is not None:
        yield fails(f"{knob} is empty: no batch has a graph", where=where, hint=f"sizes up to {cap or most}")
        return
    if covered is None:
        yield unknown(f"the default of {knob} depends on the GPU and is not known here", where=where)
        return
    sums = f"graphs to {covered} requests a rank; peak on one rank {most}, scheduler admits {cap or 'any number'}"
    if covered < most:
        yield fails(f"{covered + 1} to {most} requests run without a graph", sums, where=where, hint=f"{knob} {most}")
    elif cap and covered < cap:
        yield warns("the scheduler could admit more requests than graphs were captured for", sums, where=where)
    else:
        yield Expectation("cuda_graph_max_bs", "==", covered, "requests")
        yield passes("every expected batch has a graph", sums, where)


def knobs(subject: Subject) -> Said:
    """G2: the list and the maximum agree, and nothing given is dropped."""
    for launch in subject.launches:
        if launch.build.kind != "vllm" or (launch.sizes is None and launch.top is None):
            continue
        where = launch.where(*_KNOBS)
        try:
            found = ladder_of(launch)
        except ValueError as error:
            yield fails(
                f"the capture settings contradict each other: {error}",
                where=where,
                hint="give the list or the maximum, not both",
            )
            continue
        given = sorted(set(launch.sizes or ()))
        lost = [size for size in given if size > (found.sizes[-1] if found.sizes else 0)]
        if lost:
            yield warns(
                f"{len(lost)} of the sizes given are dropped, the largest {lost[-1]}",
                f"sizes left: {len(found.sizes)}, to {found.sizes[-1]}",
                where=where,
                hint=f"multiples of {launch.query} within --max-num-batched-tokens {launch.budget}",
            )
        elif (
            launch.top is not None and launch.sizes is None and found.configured and found.configured[-1] != launch.top
        ):
            yield warns(f"the maximum {launch.top} is truncated to {found.configured[-1]}", where=where)
        else:
            yield passes("capture settings agree", where=where)


def ranks(subject: Subject) -> Said:
    """G3: under data parallelism one prefilling rank takes full graphs from all."""
    for launch in subject.launches:
        dp = launch.ranks
        if launch.build.kind != "vllm" or dp == 1:
            continue
        where = launch.where("compilation-config", "cudagraph-mode", "data-parallel-size")
        if launch.mode != "FULL_DECODE_ONLY":
            yield passes(f"mixed batches run as {MODES[launch.mode][1]} on all {dp} ranks", where=where)
            continue
        share = _prefill_share(subject, dp)
        sums = f"mode of a step = least over {dp} ranks; a rank prefills in {share:.0%} of steps -> some rank in "
        f"{1 - (1 - share) ** dp:.0%}"
        if launch.prefill_interval and launch.prefill_interval > 1:
            bound = 1 / launch.prefill_interval
            yield passes(
                f"prefills start on every {launch.prefill_interval}th step on all ranks together",
                f"{sums}; bounded to about {bound:.0%}",
                where,
            )
        else:
            yield warns(
                "one rank holding any prefill turns a step eager on every rank",
                sums,
                where=where,
                hint="FULL_AND_PIECEWISE, or --prefill-schedule-interval 8",
            )


def _prefill_share(subject: Subject, dp: int) -> float:
    """Share of steps in which one rank holds prefill tokens, if its lanes turn over evenly: requests that start a turn
    against steps a turn lasts (a median answer of 216 tokens)."""
    lanes = subject.workload.in_flight(subject.cell.concurrency, dp)
    return min(0.95, lanes / 216)


def downgrades(subject: Subject) -> Said:
    """G4: the mode that is asked for is the one that runs."""
    for launch in subject.launches:
        if launch.build.kind != "vllm" or launch.mode == NONE:
            continue
        where = launch.where("kv-transfer-config", "compilation-config")
        connector = str(launch.connector.get("kv_connector") or "")
        extra = launch.connector.get("kv_connector_extra_config") or {}
        if MODES[launch.mode][0] == FULL and (extra.get("use_layerwise") or extra.get("layerwise")):
            yield warns(
                f"layerwise {connector or 'KV transfer'} forces PIECEWISE",
                where=where,
                hint="turn layerwise transfer off, or expect piecewise graphs",
            )
        else:
            yield Expectation("cudagraph_mode_downgraded", "==", "absent")
            yield passes(f"nothing known takes {launch.mode} away", where=where)


def padding(subject: Subject) -> Said:
    """G5: how much of a step is padding, over the batches this cell can have."""
    for launch in subject.launches:
        if launch.build.kind != "vllm" or launch.mode == NONE:
            continue
        try:
            found = described(ladder_of(launch))
        except ValueError:
            continue  # G1 has said it
        where = launch.where(*_KNOBS)
        ratio, most = found["mean_pad_ratio"], found["max_pad_tokens"]
        sums = f"mean {ratio:g} padded tokens a real one over 1 to {launch.max_num_seqs} sequences; worst {most} tokens"
        if ratio > PAD_RATIO:
            q = launch.query
            yield warns(
                "batches are padded a lot", sums, where=where, hint=f"capture multiples of {q}: {q}, {2 * q}, ..."
            )
        else:
            yield passes("padding is small", sums, where)


def compilation(subject: Subject) -> Said:
    """G6: a compile mode that is given is not overridden."""
    for launch in subject.launches:
        if launch.build.kind != "vllm" or launch.compile_mode in (None, "0", "NONE"):
            continue
        where = launch.where("compilation-config.mode", "compilation-config")
        opted = launch.env.get("VLLM_USE_BREAKABLE_CUDAGRAPH")
        if subject.arch.family in BREAKABLE and (opted is None or opted.text not in ("0", "false")):
            yield warns(
                f"compile mode {launch.compile_mode} is overridden: {subject.arch.family} turns on breakable graphs "
                "and compilation off",
                where=where,
                hint="leave the mode out, or VLLM_USE_BREAKABLE_CUDAGRAPH=0",
            )
        else:
            yield passes(f"compile mode {launch.compile_mode} stays", where=where)


_RAN = "vLLM 0.19 to 0.26, executed"
RULES = (
    Rule("G1", "Decode batches have graphs", coverage,
         "Above the largest captured size a step runs eagerly: the dispatcher returns NONE in every mode, "
         "FULL_AND_PIECEWISE too.",
         _RAN, "3 drafts verify 4 tokens a sequence. The default ladder ends at 512 tokens = 128 sequences; of 448 "
         "the rest runs eagerly. An explicit 1..448 covers 112; --max-cudagraph-capture-size 1792 covers all."),
    Rule("G2", "Capture settings agree", knobs,
         "A list and a maximum that differ refuse to start; sizes that rounding lifts over the maximum are dropped.",
         _RAN, "max 126 with 4 tokens a sequence becomes 120: 30 sequences of 32."),
    Rule("G3", "Data-parallel ranks keep their graphs", ranks,
         "The mode of a step is the least over all ranks, so one prefill makes FULL_DECODE_ONLY eager everywhere.",
         "vLLM 0.26, read", "8 ranks that prefill in 10 % of steps each: some rank prefills in 57 % of steps."),
    Rule("G4", "The graph mode is not taken away", downgrades,
         "Backends and connectors downgrade the mode with one log line.", "vLLM 0.26, read",
         "A layerwise KV connector forces PIECEWISE."),
    Rule("G5", "Little padding", padding,
         "A batch is padded to the next captured size; padding is computed and thrown away.", _RAN,
         "8 to 9 sequences of 4 tokens: 36 tokens are padded to 40."),
    Rule("G6", "The compile mode stays", compilation,
         "Some models turn compilation off whatever the command line says.", "vLLM 0.26, read",
         "-cc.mode=3 on DeepSeek-V4 is silently NONE, with one warning line."),
)  # fmt: skip
