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

PAD_RATIO = 1.10
# Families whose model code turns on breakable graphs and with them turns compilation off.
BREAKABLE = ("deepseek_v4", "deepseek_ref", "minimax_m3", "minimax_m3_vl", "inkling")
# What each engine that counts in requests calls the largest batch that has a graph.
LARGEST = {"sglang": "--cuda-graph-max-bs", "trt": "cuda_graph_config.batch_sizes"}


def ladder_of(launch: Launch) -> Ladder:
    """The ladder of a vLLM launch. Raises ValueError where the engine refuses to start."""
    return ladder(
        max_num_seqs=launch.max_num_seqs or 1, max_num_batched_tokens=launch.budget or 1,
        spec_tokens=launch.query - 1, mode=launch.mode, sizes=launch.sizes, top=launch.top, dense=launch.dense,
        v2_runner=launch.v2_runner,
    )  # fmt: skip


def peak(subject: Subject, launch: Launch) -> int:
    """Requests the fullest rank is expected to decode at once (behind a router a quarter above the mean), never more
    than the scheduler admits."""
    even = subject.workload.in_flight(subject.cell.concurrency, launch.ranks)
    fullest = even if launch.ranks == 1 else -(-even * 5 // 4)
    return min(fullest, launch.max_num_seqs or fullest)


_MANY = 64  # captured sizes in one list


def coverage(subject: Subject, launch: Launch) -> Said:
    """G1: the decode batches that come run in a full graph."""
    if launch.mode == NONE:
        yield warns("graphs are off: every step is launched kernel by kernel")
        return
    if launch.build.kind in LARGEST:
        yield from _by_requests(subject, launch, LARGEST[launch.build.kind])
        return
    if launch.build.kind != "vllm":
        yield unknown(f"which graphs {launch.build.kind} captures is not known here")
        return
    try:
        found = ladder_of(launch)
    except ValueError as error:
        yield fails(f"the engine refuses to start: {error}", changes=_widen(subject, launch))
        return
    most, cap, covered, q = peak(subject, launch), launch.max_num_seqs or 0, found.covered_sequences, launch.query
    sums = (
        f"{q} token{'s' if q > 1 else ''} a sequence; largest captured size {found.sizes[-1]}: {covered} sequences; "
        f"peak on one rank {most}, scheduler admits {cap}; {len(found.full)} full + {len(found.piecewise)} piecewise "
        "graphs"
    )
    if MODES[launch.mode][0] != FULL:
        yield warns(f"decode batches run piecewise ({launch.mode})", sums)
        return
    yield Expectation("full_graph_sizes", "==", ",".join(map(str, found.full)), "tokens")
    modes = {n: found.runs_as(n * q, uniform=True) for n in range(1, most + 1)}
    eager = [n for n, mode in modes.items() if mode == NONE]
    slow = [n for n, mode in modes.items() if mode not in (NONE, FULL)]
    changes = _widen(subject, launch) if covered < cap else []
    if eager:
        yield fails(f"{_range(eager)} sequences run without a graph", sums, changes=changes)
    elif slow:
        text = f"{_range(slow)} sequences run piecewise: padded past {q} x {cap} tokens they have no full graph"
        yield warns(text, sums, changes=changes)
    elif covered < cap:
        text = f"the scheduler could admit {covered + 1} to {cap} sequences, which run without a full graph"
        yield warns(text, sums, changes=changes)
    else:
        yield passes("every decode batch has a full graph", sums)


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
        if cap > _MANY:  # a graph of every size takes minutes and memory: the engine's own ladder first
            changes = _ladder_instead(launch, cap * q) + changes
    # A batch padded past q x max_num_seqs has no full graph: numbers that sizes hit exactly are tried too.
    for fewer in sorted({-(-needed // step) * step for step in (1, 4, 8, 16)}):
        if fewer < cap:
            changes.append(Change(name, "max-num-seqs", str(fewer), f"--max-num-seqs {fewer}"))
    return passing(subject, changes, lambda after: _covers(after.launch(name)))


def _knob(launch: Launch, name: str, value: int | list[int], text: str) -> Change:
    """A capture setting where it is already written: inside the compilation config, else as a flag of its own."""
    flag = name.replace("_", "-")
    whole = launch.flags.get("compilation-config")
    if whole is not None and whole.value and f'"{name}"' in whole.value and not launch.given(flag):
        new = json.dumps({**json.loads(whole.value), name: value})
        return Change(launch.service.name, "compilation-config", new, f"{name} {text} in --compilation-config")
    words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return Change(launch.service.name, flag, words, f"--{flag} {text}")


def _ladder_instead(launch: Launch, top: int) -> list[Change]:
    """The engine's ladder to `top` in place of a list, where the list stands in the compilation config."""
    whole = launch.flags.get("compilation-config")
    try:
        config = json.loads(whole.value) if whole is not None and whole.value else {}
    except ValueError:
        return []
    if not isinstance(config, dict) or config.pop("cudagraph_capture_sizes", None) is None:
        return []
    new = json.dumps(config | {"max_cudagraph_capture_size": top})
    text = f"max_cudagraph_capture_size {top} in place of the list in --compilation-config"
    return [Change(launch.service.name, "compilation-config", new, text)]


def _covers(launch: Launch) -> bool:
    try:
        return ladder_of(launch).covered_sequences >= (launch.max_num_seqs or 0)
    except ValueError:
        return False


def _by_requests(subject: Subject, launch: Launch, knob: str) -> Said:
    """SGLang and TensorRT-LLM capture batch sizes in requests, per rank."""
    covered = max(launch.sizes) if launch.sizes else launch.top
    most, cap = peak(subject, launch), launch.max_num_seqs
    if covered is None and launch.sizes is not None:
        yield fails(f"{knob} is empty: no batch has a graph", hint=f"sizes up to {cap or most}")
        return
    if covered is None:
        yield unknown(f"the default of {knob} depends on the GPU and is not known here")
        return
    sums = f"graphs to {covered} requests a rank; peak on one rank {most}, scheduler admits {cap or 'any number'}"
    if covered < most:
        yield fails(f"{covered + 1} to {most} requests run without a graph", sums, f"{knob} {most}")
    elif cap and covered < cap:
        yield warns("the scheduler could admit more requests than graphs were captured for", sums)
    else:
        yield Expectation("cuda_graph_max_bs", "==", covered, "requests")
        yield passes("every expected batch has a graph", sums)


def knobs(subject: Subject, launch: Launch) -> Said:
    """G2: the list and the maximum agree, and nothing given is dropped."""
    if launch.sizes is None and launch.top is None:
        return
    try:
        found = ladder_of(launch)
    except ValueError as error:
        yield fails(f"the capture settings contradict each other: {error}", hint="give the list or the maximum")
        return
    top = found.sizes[-1] if found.sizes else 0
    lost = sorted(size for size in {*(launch.sizes or ())} if size > top)
    if lost:
        hint = f"multiples of {launch.query} within --max-num-batched-tokens {launch.budget}"
        text = f"{len(lost)} of the sizes given are dropped, the largest {lost[-1]}"
        yield warns(text, f"sizes left: {len(found.sizes)}, to {top}", hint)
    elif launch.sizes is None and found.configured and found.configured[-1] != launch.top:
        yield warns(f"the maximum {launch.top} is truncated to {found.configured[-1]}")
    else:
        yield passes("capture settings agree")


def ranks(subject: Subject, launch: Launch) -> Said:
    """G3: under data parallelism one prefilling rank takes full graphs from all."""
    dp = launch.ranks
    if dp == 1:
        return
    if launch.mode != "FULL_DECODE_ONLY":
        yield passes(f"mixed batches run as {MODES[launch.mode][1]} on all {dp} ranks")
        return
    # A rank prefills when a turn starts, its lanes turning over evenly; a turn lasts a median answer of 216 tokens.
    share = min(0.95, subject.workload.in_flight(subject.cell.concurrency, dp) / 216)
    some = 1 - (1 - share) ** dp
    sums = f"mode of a step = least over {dp} ranks; a rank prefills in {share:.0%} of steps -> some rank in {some:.0%}"
    every = launch.prefill_interval or 1
    if every > 1:
        text = f"prefills start on every {every}th step on all ranks together"
        yield passes(text, f"{sums}; bounded to about {1 / every:.0%}")
    else:
        text = "one rank holding any prefill turns a step eager on every rank"
        yield warns(text, sums, "FULL_AND_PIECEWISE, or --prefill-schedule-interval 8")


def downgrades(subject: Subject, launch: Launch) -> Said:
    """G4: the mode that is asked for is the one that runs."""
    if launch.mode == NONE:
        return
    connector = str(launch.connector.get("kv_connector") or "KV transfer")
    extra = launch.connector.get("kv_connector_extra_config") or {}
    if MODES[launch.mode][0] == FULL and (extra.get("use_layerwise") or extra.get("layerwise")):
        hint = "turn layerwise transfer off, or expect piecewise graphs"
        yield warns(f"layerwise {connector} forces PIECEWISE", hint=hint)
    else:
        yield Expectation("cudagraph_mode_downgraded", "==", "absent")
        yield passes(f"nothing known takes {launch.mode} away")


def exhaustive(subject: Subject, launch: Launch) -> Said:
    """G5: the sizes serve this concurrency: a list is not empty and reaches its peak, and batches are padded little."""
    most, unit = peak(subject, launch), launch.query if launch.build.kind == "vllm" else 1
    if launch.sizes is not None and max(launch.sizes, default=0) < most * unit:
        end = f"ends at {max(launch.sizes)}" if launch.sizes else "is empty"
        text = f"the capture list {end} at concurrency {subject.cell.concurrency}"
        # What G1 would change mends this too: a fix must not say that it does not.
        changes = _widen(subject, launch) if launch.build.kind == "vllm" and launch.mode != NONE else []
        sums = f"{most} sequences on one rank x {unit} = {most * unit}"
        yield fails(text, sums, "one list for every concurrency", changes=changes)
        return
    try:
        found = described(ladder_of(launch)) if launch.mode != NONE and launch.build.kind == "vllm" else None
    except ValueError:
        found = None  # G1 has said it
    if found is None:
        return
    ratio, q = found["mean_pad_ratio"], launch.query
    sums = f"mean {ratio:g} padded tokens a real one over 1 to {launch.max_num_seqs} sequences; worst "
    sums += f"{found['max_pad_tokens']} tokens"
    if ratio > PAD_RATIO:
        yield warns("batches are padded a lot", sums, f"capture multiples of {q}: {q}, {2 * q}, ...")
    else:
        yield passes("the sizes serve this concurrency with little padding", sums)


def compilation(subject: Subject, launch: Launch) -> Said:
    """G6: a compile mode that is given is not overridden."""
    mode, opted = launch.compile_mode, launch.env.get("VLLM_USE_BREAKABLE_CUDAGRAPH")
    if mode in (None, "0", "NONE"):
        return
    if subject.arch.family in BREAKABLE and (opted is None or opted.text not in ("0", "false")):
        why = f"{subject.arch.family} turns on breakable graphs and compilation off"
        hint = "leave the mode out, or VLLM_USE_BREAKABLE_CUDAGRAPH=0"
        yield warns(f"compile mode {mode} is overridden: {why}", hint=hint)
    else:
        yield passes(f"compile mode {mode} stays")


_RAN, _READ, _VLLM = "vLLM 0.19 to 0.26, executed", "vLLM 0.26, read", ("vllm",)
_KNOBS = ("max-cudagraph-capture-size", "cudagraph-capture-sizes", "compilation-config", "max-num-seqs")
_MODE = ("compilation-config", "cudagraph-mode")
RULES = (
    Rule("G1", "Decode batches have graphs", coverage,
         "Above the largest captured size a step runs eagerly: the dispatcher returns NONE in every mode, "
         "FULL_AND_PIECEWISE too.",
         _RAN, "3 drafts verify 4 tokens a sequence. The default ladder ends at 512 tokens = 128 sequences; of 448 "
         "the rest runs eagerly. An explicit 1..448 covers 112; --max-cudagraph-capture-size 1792 covers all.",
         at=(*_KNOBS, "cuda-graph-max-bs", "cuda-graph-bs", "enforce-eager", "max-running-requests", "max-batch-size")),
    Rule("G2", "Capture settings agree", knobs,
         "A list and a maximum that differ refuse to start; sizes that rounding lifts over the maximum are dropped.",
         _RAN, "max 126 with 4 tokens a sequence becomes 120: 30 sequences of 32.", at=_KNOBS, engines=_VLLM),
    Rule("G3", "Data-parallel ranks keep their graphs", ranks,
         "The mode of a step is the least over all ranks, so one prefill makes FULL_DECODE_ONLY eager everywhere.",
         _READ, "8 ranks that prefill in 10 % of steps each: some rank prefills in 57 % of steps.",
         at=(*_MODE, "data-parallel-size"), engines=_VLLM),
    Rule("G4", "The graph mode is not taken away", downgrades,
         "Backends and connectors downgrade the mode with one log line.", _READ,
         "A layerwise KV connector forces PIECEWISE.", at=("kv-transfer-config", *_MODE), engines=_VLLM),
    Rule("G5", "The sizes serve every concurrency", exhaustive,
         "A list chosen by an if-chain on the concurrency is empty, or too short, for values nobody thought of; coarse "
         "sizes compute padding that is thrown away.", f"InferenceX's recipes, read; padding: {_RAN}",
         "A TensorRT-LLM chain that knows 1 to 20, 25, 30, ... leaves no graph at 33. 9 sequences of 4 tokens are "
         "padded from 36 to 40.", at=(*_KNOBS, "cuda-graph-bs"), engines=("vllm", "sglang", "trt")),
    Rule("G6", "The compile mode stays", compilation,
         "Some models turn compilation off whatever the command line says.", _READ,
         "-cc.mode=3 on DeepSeek-V4 is silently NONE, with one warning line.",
         at=("compilation-config.mode", *_MODE), engines=_VLLM),
)  # fmt: skip
