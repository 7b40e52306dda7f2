"""M1 to M7: whether weights and cache fit, from what is exact and what earlier starts showed. (M8: host.py)"""

from __future__ import annotations

from functools import partial

from ridgeline.core.finding import Change, Expectation
from ridgeline.core.units import GIB
from ridgeline.engine.builds import expert_pad
from ridgeline.engine.kv import FULL
from ridgeline.engine.launch import Launch
from ridgeline.engine.memory import SLACK, roomy
from ridgeline.engine.sizing import Sizing, launch_plan, launch_weights
from ridgeline.plan.checks.changes import after_change, hint_of, memory_moves, passing
from ridgeline.plan.checks.rule import Rule, Said, fails, gib, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject

WEIGHTS_SLACK = 1.02  # loaded weights above the prediction by more than this are another checkpoint or layout
KV_SLACK = 0.03
FULL_POOL = 0.9
OF_TOTAL = ("vllm", "atom")  # engines whose memory setting is a share of the total; others take one of what is free
PARTS = ("routed", "attention", "shared", "dense", "gate", "hyper", "embed", "mtp_projection", "norms")


def startup(subject: Subject, launch: Launch) -> Said:
    """M1: requested memory against what the fleet has free."""
    if launch.kv_bytes is not None:
        text = "the cache has a fixed size; no share of memory is asked for"
        yield passes(text, where=launch.where("kv-cache-memory-bytes"))
        return
    total, free, runner = subject.gpu.memory_bytes / GIB, subject.free_gib, subject.cell.benchmark.runner
    asked = total * launch.utilization
    sums = f"{total:g} GiB x {launch.utilization:g} = {asked:.2f} GiB"
    if free is None or subject.fleet is None:
        yield unknown(
            f"nobody recorded how much memory is free on `{runner}` when an engine starts", sums,
            f"observe one start and write it into ridgeline.yaml: fleets: {runner}: free-memory-gib, observed",
        )  # fmt: skip
        return
    seen = subject.fleet.observed
    sums += f"; free {free:g} GiB (fleet `{runner}`, seen {seen}); slack {free - asked:.2f} GiB"
    best = f"{roomy(free, total):.2f}"
    text = f"--gpu-memory-utilization {best}"
    hint = f"{text} is the most that leaves {SLACK:.0%} of the total as slack"
    lower = (Change(launch.service.name, "gpu-memory-utilization", best, text),)
    if asked > free:
        text = "the engine refuses to start: less memory is free than it is told to use"
        yield fails(text, sums, hint, changes=lower)
    elif free - asked < SLACK * total:
        yield warns("hardly any slack between what is asked for and what is free", sums, hint, changes=lower)
    else:
        yield passes("enough memory is free at start", sums)


def load(subject: Subject, launch: Launch) -> Said:
    """M2: weights against the memory the engine may use."""
    sized = subject.sizing(launch)
    parts = zip(PARTS, sized.weights, strict=True)
    shown = " + ".join(f"{name} {gib(value)}" for name, value in parts if value > GIB / 200)
    sums = f"{shown} = {gib(sized.weights.total)}; constructor buffers {gib(sized.buffers)}"
    if sized.extra:
        sums += f"; {gib(sized.extra)} more was seen in alike starts"
    if sized.doubt:
        sums += f"; {gib(sized.doubt)} of it are padding that this build may not have"
    limit = _may_use(sized, launch, subject)
    sums += f"; may use {gib(limit)}"
    yield Expectation("weights_gib", "<=", round(sized.loaded / GIB * WEIGHTS_SLACK, 2), "GiB")
    if sized.loaded - sized.doubt < limit:
        yield passes("the weights fit", sums)
        return
    fit = partial(_holds, lambda after, same, new: new.loaded < _may_use(new, same, after), launch)
    yield fails("the weights alone do not fit", sums, changes=passing(subject, memory_moves(subject, launch), fit))


def _may_use(sized: Sizing, launch: Launch, subject: Subject) -> int:
    return sized.requested if launch.build.kind in OF_TOTAL else subject.gpu.memory_bytes


def longest(subject: Subject, launch: Launch) -> Said:
    """M3: one longest request against the cache that is left."""
    if launch.build.kind == "sglang":
        yield from _sglang_pool(subject, launch)
        return
    if launch.build.kind == "trt":
        yield unknown("TensorRT-LLM's cache is a share of what is free after loading, in a layout not read here")
        return
    sized = subject.sizing(launch)
    if sized.plan is None:
        yield unknown(f"this model's cache pages cannot be laid out by the rules known here: {sized.refusal}")
        return
    sums, length = cache_sums(sized, launch), f"{sized.length:,} tokens"
    if launch.blocks_override is not None:
        text = (
            f"{launch.blocks_override:,} blocks are forced, whatever memory there is: nothing about the cache follows"
        )
        flag = "num-gpu-blocks-override"
        yield fails(text, sums, f"remove --{flag}", where=launch.where(flag))
    elif launch.auto_len:
        return  # M4's matter
    elif sized.needed > sized.high:
        moves = passing(subject, memory_moves(subject, launch), partial(_holds, _fits, launch))
        there = f"{'at most ' if sized.low is None or sized.low < sized.high else ''}{gib(max(0.0, sized.high))}"
        text = f"one request of {length} does not fit: {gib(sized.needed)} needed against {there}"
        yield fails(text, sums, hint_of(moves, partial(_after, subject, launch)), changes=moves)
    elif sized.low is not None and sized.needed <= sized.low:
        blocks = sized.plan.blocks(int(sized.low))
        tokens = int(blocks / sized.plan.blocks_per_request(sized.length, launch.in_flight) * sized.length)
        yield Expectation("kv_tokens", ">=", int(tokens * (1 - KV_SLACK)), "tokens")
        yield Expectation("kv_gib", ">=", round(sized.low / GIB * (1 - KV_SLACK), 2), "GiB")
        yield passes(f"one request of {length} fits; {tokens:,} tokens a rank", sums)
    else:
        yield unknown(
            f"not known: {gib(sized.high - sized.needed)} are left for activations, non-torch and graph memory, which "
            "no start of this image, layout and token budget has shown", sums,
            "record one start as an observation, or lower the need",
        )  # fmt: skip


def _holds(good: object, launch: Launch, after: Subject) -> bool:
    """Whether `good(subject, launch, sizing)` holds of the same service after a change."""
    same = after.launch(launch.service.name)
    assert callable(good)
    return bool(good(after, same, after.sizing(same)))


def _fits(after: Subject, launch: Launch, sized: Sizing) -> bool:
    """Certainly fits, or fits in all that is known where a side is open."""
    if sized.plan is None or sized.requested / GIB > (after.free_gib or 1e9):
        return False
    least = sized.low if sized.low is not None else sized.high if not sized.overhead.seen else None
    return least is not None and sized.needed <= least


def _after(subject: Subject, launch: Launch, change: Change) -> str:
    """What a change leads to: need against cache."""
    after = after_change(subject, change)
    sized = after.sizing(after.launch(launch.service.name))
    return f" ({gib(sized.needed)} needed, {gib(sized.high if sized.low is None else sized.low)} there)"


def cache_sums(sized: Sizing, launch: Launch) -> str:
    """The arithmetic of the cache, for people."""
    plan = sized.plan
    assert plan is not None
    left = f"cache fixed at {gib(launch.kv_bytes or 0)}"
    if launch.kv_bytes is None:
        doubt = f" (of which {gib(sized.doubt)} only in older builds)" if sized.doubt else ""
        left = f"{gib(sized.requested)} asked - {gib(sized.loaded)} weights{doubt} - overhead ({sized.overhead.text})"
        left += f" = {gib(sized.high)}" if sized.low == sized.high else f" <= {gib(max(0.0, sized.high))}"
    pages = plan.pages(sized.length, launch.in_flight)
    held = sum(group.layer.pages(sized.length, launch.in_flight) for group in plan.groups if group.layer.kind != FULL)
    flight = f"{launch.batches} x {launch.budget:,} tokens in flight" if launch.budget else "tokens in flight unknown"
    need = f"need {plan.stride:,} B x {pages:,} pages = {gib(sized.needed)}"
    share = f" ({held / pages:.0%} of them for windows and states: {flight})" if held else ""
    where = "; ".join(sorted({item.source for item in sized.overhead.seen}))
    return f"{left}; {need}{share}" + (f"; overhead from {where}" if where else "")


def _sglang_pool(subject: Subject, launch: Launch) -> Said:
    """SGLang: cache = free after loading - free at start x (1 - fraction); one row a token of every layer."""
    plan, refusal = launch_plan(subject.arch, launch)
    free = subject.free_gib
    if plan is None or len(plan.groups) != 1 or plan.groups[0].layer.kind != FULL:
        why = refusal or "its pools for windows, states and compressed history"
        yield unknown(f"SGLang's layout of this model's cache is not known here: {why}")
    elif launch.utilization and subject.sizing(launch).loaded >= subject.gpu.memory_bytes * launch.utilization:
        loaded, share = subject.sizing(launch).loaded, subject.gpu.memory_bytes * launch.utilization
        sums = f"{gib(loaded)} weights; {subject.gpu.memory_bytes / GIB:g} GiB x {launch.utilization:g} = {gib(share)}"
        yield fails("weights leave no cache within the share that SGLang may use", sums, "--mem-fraction-static")
    elif free is None or not launch.utilization:
        yield unknown("SGLang sizes its cache by what is free, and nobody recorded that for this fleet")
    else:
        loaded = subject.sizing(launch).loaded
        left = free * launch.utilization * GIB - loaded
        per_token = plan.bytes_per_block / plan.groups[0].layer.block
        length, held = launch.max_model_len or subject.arch.max_len, max(0, int(left / per_token))
        sums = f"{free:g} GiB free x {launch.utilization:g} - {gib(loaded)} weights = {gib(left)}; "
        sums += f"{per_token:,.0f} B a token"
        if held < length:
            yield fails(f"the cache holds {held:,} tokens, a request may have {length:,}", sums)
        else:
            yield Expectation("max_total_num_tokens", ">=", int(held * (1 - KV_SLACK)), "tokens")
            yield passes(f"the cache holds {held:,} tokens", sums)


def autofit(subject: Subject, launch: Launch) -> Said:
    """M4: the length must not be reduced behind the benchmark's back."""
    if not launch.auto_len:
        yield passes("the longest request is not fitted to memory")
        return
    sized = subject.sizing(launch)
    sums = cache_sums(sized, launch) if sized.plan else sized.refusal
    if sized.plan is not None and sized.low is not None and sized.needed <= sized.low:
        yield Expectation("auto_fit_reduced", "==", "absent")
        yield passes("auto-fit keeps the model's own length", sums)
    elif sized.plan is None or sized.needed <= sized.high:
        yield unknown("auto-fit may shorten requests: memory left is not known", sums)
    else:
        text = "auto-fit shortens requests: the run would not serve the model's own length"
        yield fails(text, sums, f"--max-model-len {sized.length}, after making it fit (M3)")


_RETENTION = "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"


def hybrid(subject: Subject, launch: Launch) -> Said:
    """M5: windows and states keep their own groups."""
    plan, refusal = launch_plan(subject.arch, launch)
    kept = launch.env.get(_RETENTION)
    if kept is not None and plan is not None:
        windows = any(group.layer.kind != FULL for group in plan.groups)
        if not kept.text.isdigit() or not windows or int(kept.text) % plan.scheduler_block:
            need = f"a multiple of the scheduler block {plan.scheduler_block}" if windows else "windows or states"
            yield fails(f"{_RETENTION}={kept.text} is refused at start: it needs {need}", where=kept.origin)
    if launch.hybrid:
        if plan is None or len(plan.groups) > 1:
            yield Expectation("hybrid_manager_disabled", "==", "absent")
            yield passes("windows and states have cache groups of their own")
        return
    if plan is None:
        yield unknown(refusal)
        return
    sized = subject.sizing(launch)
    sums, hint = cache_sums(sized, launch), "remove --disable-hybrid-kv-cache-manager"
    if sized.needed > sized.high:
        yield fails("without the hybrid manager one longest request does not fit", sums, hint)
    else:
        yield warns("without the hybrid manager windows are kept like full history", sums, hint)


def resident(subject: Subject, launch: Launch) -> Said:
    """M6: how much of the workload a rank can hold."""
    sized, workload = subject.sizing(launch), subject.workload
    if sized.plan is None:
        return
    lanes = -(-subject.cell.concurrency // launch.ranks)
    p50, p95 = min(workload.p50, sized.length), min(workload.p95, sized.length)
    notes = [workload.source, *(["assumed"] if workload.assumed else [])]
    notes += ["no longer than a request may be"] if p95 < workload.p95 else []
    sums = f"{lanes} lane{'s' if lanes > 1 else ''} a rank x p95 context {p95:,} = {lanes * p95:,} tokens "
    sums += f"({', '.join(notes)})"
    known = sized.low is not None and sized.low > 0
    room = sized.low if sized.low is not None and known else sized.high
    tokens, half = (_tokens_at(sized, room, length) for length in (p95, p50))
    if known:
        sums += f"; the cache holds {tokens:,} at that length ({lanes * p95 / max(1, tokens):.0%}), "
        sums += f"{tokens / p95:.1f} requests of p95 and {half / p50:.1f} of p50 ({p50:,})"
    else:
        sums += f"; cache at most {tokens:,}"
    full = lanes * p95 > FULL_POOL * tokens
    if not known and (sized.overhead.seen or not full):
        yield unknown("how much of the workload stays cached is not known before a start has been seen", sums)
    elif full:
        text = "the pool cannot hold every lane's history: prefixes are evicted, requests preempted"
        yield warns(text, sums, "KV offload, data-parallel attention, or fewer lanes")
    else:
        yield passes("every lane's history fits the pool", sums)


def _tokens_at(sized: Sizing, available: float, length: int) -> int:
    """Tokens that fit when requests are `length` long; windows are counted as held, not in flight."""
    assert sized.plan is not None
    if available <= 0:
        return 0
    per_request = sized.plan.blocks_per_request(length, 0)
    return int(sized.plan.blocks(int(available)) / max(1, per_request) * length)


def padding(subject: Subject, launch: Launch) -> Said:
    """M7: what rounding up each rank's expert width costs."""
    if not subject.arch.moe:
        return
    pad, padded, bare = _routed(subject, launch)
    sums = f"routed experts {gib(padded)} with widths rounded up to {pad}, {gib(bare)} without"
    if padded <= 1.05 * bare:
        yield passes("expert shards need no padding to speak of", sums)
        return

    def tight(after: Subject) -> bool:
        _, padded, bare = _routed(after, after.launch(launch.service.name))
        return padded <= 1.05 * bare

    moves = [move for move in memory_moves(subject, launch) if move.flag == "enable-expert-parallel"]
    sure = " if this build pads as those up to 0.26 do" if launch.build.assumed else ""
    yield warns(f"{gib(padded - bare)} a GPU are padding{sure}", sums, changes=passing(subject, moves, tight))


def _routed(subject: Subject, launch: Launch) -> tuple[int, float, float]:
    """(multiple, bytes with padding, bytes without) of the routed experts on one GPU."""
    pad = expert_pad(launch.build, subject.formats, subject.gpu.vendor)
    padded, bare = (launch_weights(subject.arch, launch, subject.formats, step).routed for step in (pad, 1))
    return pad, padded, bare


_SPEC = "vLLM 0.19 to 0.26, read in its source"
_LENGTH = ("max-model-len", "max-num-batched-tokens", "max-seq-len", "mem-fraction-static", "context-length")
_LAYOUT = ("enable-expert-parallel", "tensor-parallel-size", "tp-size", "tp")
RULES = (
    Rule("M1", "Utilisation against free memory", startup,
         "vLLM compares total x utilisation with what is free before it loads anything, on every rank, and refuses "
         "to start.",
         f"{_SPEC}: requested = ceil(total x utilisation), fails if free < requested",
         "288 GiB x 0.90 = 259.20 GiB on a fleet where 256 are free: fails by 3.20. 0.86 asks for 247.68 and leaves "
         "8.32.", at=("gpu-memory-utilization",), engines=OF_TOTAL),
    Rule("M2", "Weights fit", load,
         "Weights that do not fit end in an out-of-memory error after minutes of loading.",
         "Which part is split, copied or padded: vLLM's layers, read; DeepSeek-V4-Pro checked against a public start",
         "DeepSeek-V4-Pro with MTP on DP8/EP8: 97.27 routed + 19.15 attention + 3.81 shared + 3.45 tables + 0.74 = "
         "124.43 GiB.", at=_LAYOUT[1:]),
    Rule("M3", "The longest request fits the cache", longest,
         "vLLM refuses to start when one request of the longest length would not fit. Windowed models keep pages for "
         "every token in flight, so the need falls with the token budget, not only with the length.",
         "vLLM 0.26 kv_cache_utils, executed",
         "DeepSeek-V4-Pro on DP4/EP4 needs 14.88 GiB at 1,048,576 tokens and 8,192 batched tokens; 12.09 are left. "
         "At 4,096 it needs 10.28 and starts.", at=_LENGTH),
    Rule("M4", "Auto-fit does not shorten requests", autofit,
         "--max-model-len auto quietly serves shorter requests than the model can, and the benchmark measures "
         "something else.",
         f"{_SPEC}", "Evidence afterwards: no log line `Auto-fit max_model_len: reduced`.", at=_LENGTH[:1]),
    Rule("M5", "The hybrid cache manager stays on", hybrid,
         "Without it sliding windows are kept like full history.",
         "vLLM 0.26, executed", "DeepSeek-V4-Pro needs 465 GiB instead of 14.88 at a million tokens with "
         "--disable-hybrid-kv-cache-manager.", at=("disable-hybrid-kv-cache-manager", *_LENGTH[:1]), engines=("vllm",)),
    Rule("M6", "Lanes fit the pool", resident,
         "When histories do not fit, prefixes are evicted and requests preempted: the point measures a collapsed "
         "cache.",
         "Capacity at the workload's p95 context, not at the longest length", "28 lanes a rank x 290,000 tokens = "
         "8.1 M against a pool of 7.9 M: evicts.", at=("max-num-seqs",), engines=OF_TOTAL),
    Rule("M7", "Padding of expert shards", padding,
         "MXFP4 kernels round the width of each rank's shard up; expert parallelism keeps experts whole.",
         "vLLM up to 0.26, read: 256 on ROCm, 128 elsewhere; later builds are taken to have native 384-wide shards, as "
         "public recipes say of them without a version",
         "3072 / 8 = 384 columns become 512: 32.4 GiB a GPU more on pure TP8.", at=_LAYOUT, engines=("vllm",)),
)  # fmt: skip
