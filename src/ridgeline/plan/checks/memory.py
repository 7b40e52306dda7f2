"""M1 to M8: whether weights and cache fit, from what is exact and what earlier starts showed."""

from __future__ import annotations

from functools import partial

from ridgeline.core.finding import Change, Expectation
from ridgeline.core.units import GB, GIB
from ridgeline.engine.builds import expert_pad
from ridgeline.engine.kv import FULL
from ridgeline.engine.launch import Launch
from ridgeline.engine.sizing import Sizing, launch_plan, launch_weights
from ridgeline.engine.vllm_flags import offloaded_bytes
from ridgeline.plan.checks.changes import apply, hint_of, memory_moves, passing
from ridgeline.plan.checks.rule import Rule, Said, fails, gib, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject

SLACK = 0.01  # of the total: less than this between what is asked and what is free is a warning
WEIGHTS_SLACK = 1.02  # loaded weights above the prediction by more than this are another checkpoint or layout
KV_SLACK = 0.03
FULL_POOL = 0.9
OF_FREE = ("sglang", "trt")  # engines whose memory setting is a share of what is free


def startup(subject: Subject) -> Said:
    """M1: requested memory against what the fleet has free."""
    for launch in subject.launches:
        if launch.build.kind in OF_FREE:
            continue  # a share of what is free, not of the total, can always be had
        if launch.kv_bytes is not None:
            yield passes(
                "the cache has a fixed size; no share of memory is asked for",
                where=launch.where("kv-cache-memory-bytes"),
            )
            continue
        total = subject.gpu.memory_bytes / GIB
        asked = total * launch.utilization
        where, free = launch.where("gpu-memory-utilization"), subject.free_gib
        sums = f"{total:g} GiB x {launch.utilization:g} = {asked:.2f} GiB"
        if free is None:
            runner = subject.cell.benchmark.runner
            yield unknown(
                f"nobody recorded how much memory is free on `{runner}` when an engine starts", sums, where=where,
                hint=f"observe one start and write it into ridgeline.yaml: fleets: {runner}: free-memory-gib, observed",
            )  # fmt: skip
            continue
        seen = subject.fleet.observed if subject.fleet else None
        sums += (
            f"; free {free:g} GiB (fleet `{subject.cell.benchmark.runner}`, seen {seen}); slack {free - asked:.2f} GiB"
        )
        best = int((free / total - SLACK) * 100) / 100
        text = f"--gpu-memory-utilization {best:.2f}"
        hint = f"{text} is the most that leaves {SLACK:.0%} of the total as slack"
        lower = (Change(launch.service.name, "gpu-memory-utilization", f"{best:.2f}", text),)
        if asked > free:
            yield fails(
                "the engine refuses to start: less memory is free than it is told to use",
                sums,
                where=where,
                hint=hint,
                changes=lower,
            )
        elif free - asked < SLACK * total:
            yield warns(
                "hardly any slack between what is asked for and what is free",
                sums,
                where=where,
                hint=hint,
                changes=lower,
            )
        else:
            yield passes("enough memory is free at start", sums, where)


def load(subject: Subject) -> Said:
    """M2: weights against the memory the engine may use."""
    for launch in subject.launches:
        sized = subject.sizing(launch)
        parts = sized.weights
        named = ("routed", "attention", "shared", "dense", "gate", "hyper", "embed", "mtp_projection", "norms")
        shown = " + ".join(
            f"{name} {gib(value)}" for name, value in zip(named, parts, strict=True) if value > GIB / 200
        )
        sums = f"{shown} = {gib(parts.total)}; constructor buffers {gib(sized.buffers)}"
        if sized.extra:
            sums += f"; {gib(sized.extra)} more was seen in alike starts"
        limit = sized.requested if launch.build.kind not in OF_FREE else subject.gpu.memory_bytes
        where = launch.where("tensor-parallel-size", "tp-size", "tp")
        yield Expectation("weights_gib", "<=", round(sized.loaded / GIB * WEIGHTS_SLACK, 2), "GiB")
        if sized.doubt:
            sums += f"; {gib(sized.doubt)} of it are padding that this build may not have"
        if sized.loaded - sized.doubt >= limit:
            moves = passing(subject, memory_moves(subject, launch), partial(_weights_fit, launch=launch))
            yield fails("the weights alone do not fit", f"{sums}; may use {gib(limit)}", where=where, changes=moves)
        else:
            yield passes("the weights fit", f"{sums}; may use {gib(limit)}", where)


def _weights_fit(after: Subject, launch: Launch) -> bool:
    same = _same(after, launch)
    return after.sizing(same).loaded < after.sizing(same).requested


def _same(after: Subject, launch: Launch) -> Launch:
    """The launch of the same service in a changed subject."""
    return next(item for item in after.launches if item.service.name == launch.service.name)


def longest(subject: Subject) -> Said:
    """M3: one longest request against the cache that is left."""
    for launch in subject.launches:
        if launch.build.kind == "sglang":
            yield from _sglang_pool(subject, launch)
            continue
        where = launch.where("max-model-len", "max-num-batched-tokens", "max-seq-len")
        if launch.build.kind == "trt":
            yield unknown(
                "TensorRT-LLM's cache is a share of what is free after loading, in a layout not read here", where=where
            )
            continue
        sized = subject.sizing(launch)
        if sized.plan is None:
            yield unknown(
                f"this model's cache pages cannot be laid out by the rules known here: {sized.refusal}", where=where
            )
            continue
        sums = cache_sums(sized, launch)
        if launch.blocks_override is not None:
            override = launch.where("num-gpu-blocks-override")
            text = f"{launch.blocks_override:,} blocks are forced, whatever memory there is: nothing about the cache "
            "follows"
            yield fails(text, sums, where=override, hint="remove --num-gpu-blocks-override")
            continue
        if launch.auto_len:
            continue  # M4's matter
        if sized.needed > sized.high:
            moves = passing(subject, memory_moves(subject, launch), partial(_fits, launch=launch))
            yield fails(
                f"one request of {sized.length:,} tokens does not fit: {gib(sized.needed)} needed against "
                f"{'at most ' if sized.low is None or sized.low < sized.high else ''}{gib(max(0.0, sized.high))}",
                sums, where=where, hint=hint_of(moves, partial(_after, subject, launch)), changes=moves,
            )  # fmt: skip
        elif sized.low is not None and sized.needed <= sized.low:
            blocks = sized.plan.blocks(int(sized.low))
            tokens = int(blocks / sized.plan.blocks_per_request(sized.length, launch.in_flight) * sized.length)
            yield Expectation("kv_tokens", ">=", int(tokens * (1 - KV_SLACK)), "tokens")
            yield Expectation("kv_gib", ">=", round(sized.low / GIB * (1 - KV_SLACK), 2), "GiB")
            yield passes(f"one request of {sized.length:,} tokens fits; {tokens:,} tokens a rank", sums, where)
        else:
            spare = gib(sized.high - sized.needed)
            yield unknown(
                f"not known: {spare} are left for activations, non-torch and graph memory, which no start of this "
                "image, "
                "layout and token budget has shown", sums, where=where,
                hint="record one start as an observation, or lower the need",
            )  # fmt: skip


def _fits(after: Subject, launch: Launch) -> bool:
    """Certainly fits, or fits in all that is known where a side is open."""
    same = _same(after, launch)
    sized = after.sizing(same)
    if sized.plan is None or sized.requested / GIB > (after.free_gib or 1e9):
        return False
    least = sized.low if sized.low is not None else sized.high if not sized.overhead.seen else None
    return least is not None and sized.needed <= least


def _after(subject: Subject, launch: Launch, change: Change) -> str:
    """What a change leads to: need against cache."""
    after = apply(subject, change)
    sized = after.sizing(_same(after, launch))
    there = sized.high if sized.low is None else sized.low
    return f" ({gib(sized.needed)} needed, {gib(there)} there)"


def cache_sums(sized: Sizing, launch: Launch) -> str:
    """The arithmetic of the cache, for people."""
    if launch.kv_bytes is not None:
        left = f"cache fixed at {gib(launch.kv_bytes)}"
    else:
        doubt = f" (of which {gib(sized.doubt)} only in older builds)" if sized.doubt else ""
        left = f"{gib(sized.requested)} asked - {gib(sized.loaded)} weights{doubt} - overhead ({sized.overhead.text})"
        left += f" = {gib(sized.high)}" if sized.low == sized.high else f" <= {gib(max(0.0, sized.high))}"
    plan = sized.plan
    assert plan is not None
    pages = sum(group.layer.pages(sized.length, launch.in_flight) for group in plan.groups)
    held = sum(group.layer.pages(sized.length, launch.in_flight) for group in plan.groups if group.layer.kind != FULL)
    flight = f"{launch.batches} x {launch.budget:,} tokens in flight" if launch.budget else "tokens in flight unknown"
    need = f"need {plan.stride:,} B x {pages:,} pages = {gib(sized.needed)}"
    share = f" ({held / pages:.0%} of them for windows and states: {flight})" if held else ""
    where = "; ".join(sorted({item.source for item in sized.overhead.seen}))
    return f"{left}; {need}{share}" + (f"; overhead from {where}" if where else "")


def _sglang_pool(subject: Subject, launch: Launch) -> Said:
    """SGLang: cache = free after loading - free at start x (1 - fraction); one row a token of every layer."""
    plan, refusal = launch_plan(subject.arch, launch)
    where = launch.where("mem-fraction-static", "context-length")
    if plan is None or len(plan.groups) != 1 or plan.groups[0].layer.kind != FULL:
        why = refusal or "its pools for windows, states and compressed history"
        yield unknown(f"SGLang's layout of this model's cache is not known here: {why}", where=where)
        return
    free = subject.free_gib
    if free is None or not launch.utilization:
        yield unknown("SGLang sizes its cache by what is free, and nobody recorded that for this fleet", where=where)
        return
    sized = subject.sizing(launch)
    left = free * launch.utilization * GIB - sized.loaded
    per_token = plan.bytes_per_block / plan.groups[0].layer.block
    length = launch.max_model_len or subject.arch.max_len
    sums = f"{free:g} GiB free x {launch.utilization:g} - {gib(sized.loaded)} weights = {gib(left)}; "
    f"{per_token:,.0f} B a token"
    if left <= 0 or left / per_token < length:
        yield fails(
            f"the cache holds {max(0, int(left / per_token)):,} tokens, a request may have {length:,}",
            sums,
            where=where,
        )
    else:
        yield Expectation("max_total_num_tokens", ">=", int(left / per_token * (1 - KV_SLACK)), "tokens")
        yield passes(f"the cache holds {int(left / per_token):,} tokens", sums, where)


def autofit(subject: Subject) -> Said:
    """M4: the length must not be reduced behind the benchmark's back."""
    for launch in subject.launches:
        where = launch.where("max-model-len")
        if not launch.auto_len:
            yield passes("the longest request is not fitted to memory", where=where)
            continue
        sized = subject.sizing(launch)
        sums = cache_sums(sized, launch) if sized.plan else sized.refusal
        if sized.plan is not None and sized.low is not None and sized.needed <= sized.low:
            yield Expectation("auto_fit_reduced", "==", "absent")
            yield passes("auto-fit keeps the model's own length", sums, where)
        elif sized.plan is None or sized.needed <= sized.high:
            yield unknown("auto-fit may shorten requests: memory left is not known", sums, where=where)
        else:
            yield fails(
                "auto-fit shortens requests: the run would not serve the model's own length",
                sums,
                where=where,
                hint=f"--max-model-len {sized.length}, after making it fit (M3)",
            )


_RETENTION = "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"


def hybrid(subject: Subject) -> Said:
    """M5: windows and states keep their own groups."""
    for launch in subject.launches:
        plan, _ = launch_plan(subject.arch, launch)
        kept = launch.env.get(_RETENTION)
        if kept is not None and plan is not None and launch.build.kind == "vllm":
            step = plan.scheduler_block
            windows = any(group.layer.kind != FULL for group in plan.groups)
            if not kept.text.isdigit() or not windows or int(kept.text) % step:
                need = f"a multiple of the scheduler block {step}" if windows else "a model with windows or states"
                yield fails(f"{_RETENTION}={kept.text} is refused at start: it needs {need}", where=kept.origin)
        if launch.build.kind != "vllm" or (plan is not None and len(plan.groups) == 1 and launch.hybrid):
            continue
        if launch.hybrid:
            yield Expectation("hybrid_manager_disabled", "==", "absent")
            yield passes("windows and states have cache groups of their own", where=launch.where("max-model-len"))
            continue
        sized = subject.sizing(launch)
        where = launch.where("disable-hybrid-kv-cache-manager")
        if sized.plan is None:
            yield unknown(sized.refusal, where=where)
        elif sized.needed > sized.high:
            yield fails(
                "without the hybrid manager one longest request does not fit",
                cache_sums(sized, launch),
                where=where,
                hint="remove --disable-hybrid-kv-cache-manager",
            )
        else:
            yield warns(
                "without the hybrid manager windows are kept like full history",
                cache_sums(sized, launch),
                where=where,
                hint="remove --disable-hybrid-kv-cache-manager",
            )


def resident(subject: Subject) -> Said:
    """M6: how much of the workload a rank can hold."""
    load_, cell = subject.workload, subject.cell
    for launch in subject.launches:
        sized = subject.sizing(launch)
        where = launch.where("max-num-seqs", "max-running-requests")
        if launch.build.kind in OF_FREE or sized.plan is None:
            continue
        lanes = -(-cell.concurrency // launch.ranks)
        assumed = ", assumed" if load_.assumed else ""
        asked = (
            f"{lanes} lanes a rank x p95 context {load_.p95:,} = {lanes * load_.p95:,} tokens ({load_.source}{assumed})"
        )
        if sized.low is None or sized.low <= 0:
            most = _tokens_at(sized, launch, sized.high, load_.p95)
            if sized.overhead.seen or lanes * load_.p95 <= FULL_POOL * most:
                yield unknown(
                    "how much of the workload stays cached is not known before a start has been seen",
                    f"{asked}; cache at most {most:,}",
                    where=where,
                )
            else:
                yield warns(
                    "the pool cannot hold every lane's history: prefixes are evicted",
                    f"{asked}; cache at most {most:,}",
                    where=where,
                )
            continue
        tokens = _tokens_at(sized, launch, sized.low, load_.p95)
        half = _tokens_at(sized, launch, sized.low, load_.p50)
        share = f"{lanes * load_.p95 / max(1, tokens):.0%}"
        sums = (
            f"{asked}; the cache holds {tokens:,} at that length ({share}), {tokens / load_.p95:.1f} requests of p95 "
            f"and {half / load_.p50:.1f} of p50 ({load_.p50:,})"
        )
        if lanes * load_.p95 > FULL_POOL * tokens:
            yield warns(
                "the pool cannot hold every lane's history: prefixes are evicted, requests preempted",
                sums,
                where=where,
                hint="KV offload, data-parallel attention, or fewer lanes",
            )
        else:
            yield passes("every lane's history fits the pool", sums, where)


def _tokens_at(sized: Sizing, launch: Launch, available: float, length: int) -> int:
    """Tokens that fit when requests are `length` long; windows are counted as held, not in flight."""
    assert sized.plan is not None
    if available <= 0:
        return 0
    per_request = sized.plan.blocks_per_request(length, 0)
    return int(sized.plan.blocks(int(available)) / max(1, per_request) * length)


def padding(subject: Subject) -> Said:
    """M7: what rounding up each rank's expert width costs."""
    for launch in subject.launches:
        pad = expert_pad(launch.build, subject.formats, subject.gpu.vendor)
        if not subject.arch.moe:
            continue
        parts = launch_weights(subject.arch, launch, subject.formats, pad)
        bare = launch_weights(subject.arch, launch, subject.formats, 1)
        lost = parts.routed - bare.routed
        sums = f"routed experts {gib(parts.routed)} with widths rounded up to {pad}, {gib(bare.routed)} without"
        where = launch.where("enable-expert-parallel", "tensor-parallel-size")
        if lost > 0.05 * bare.routed:
            moves = [m for m in memory_moves(subject, launch) if m.flag == "enable-expert-parallel"]
            saved = passing(subject, moves, partial(_tight, launch=launch))
            sure = " if this build pads as those up to 0.26 do" if launch.build.assumed else ""
            yield warns(f"{gib(lost)} a GPU are padding{sure}", sums, where=where, changes=saved)
        else:
            yield passes("expert shards need no padding to speak of", sums, where)


def _tight(after: Subject, launch: Launch) -> bool:
    """Padding is not worth a word any more."""
    same = _same(after, launch)
    pad = expert_pad(same.build, after.formats, after.gpu.vendor)
    padded = launch_weights(after.arch, same, after.formats, pad).routed
    return padded <= 1.05 * launch_weights(after.arch, same, after.formats, 1).routed


def host(subject: Subject) -> Said:
    """M8: host memory of all ranks together."""
    arm, fleet = subject.cell.arm, subject.fleet
    for launch in subject.launches:
        asked = offloaded_bytes(launch)
        if asked is None:
            continue
        where = launch.where("kv-offloading-size", "kv-transfer-config")
        ranks = launch.ranks
        sums = f"{gib(asked)} over {ranks} engine{'s' if ranks > 1 else ''} ({asked / GB:.0f} GB)"
        nodes = -(-launch.topology.gpus // fleet.gpus_per_node) if fleet else 1
        times = f" on {nodes} nodes" if nodes > 1 else ""
        budgets = []
        if arm.cpu_dram_gb:
            budgets.append((arm.cpu_dram_gb * GB * nodes, f"the cell's budget of {arm.cpu_dram_gb} GB{times}"))
        if fleet and fleet.host_memory_gib:
            own = f"the fleet's {fleet.host_memory_gib:g} GiB a node{times}"
            budgets.append((round(fleet.host_memory_gib * GIB) * nodes, own))
        over = [(limit, text) for limit, text in budgets if asked > limit]
        if over:
            limit, text = min(over)
            each = limit // ranks
            said = (
                f"--kv-offloading-size is GiB per engine: at most {each / GIB:.0f} for {ranks}"
                if launch.native_offload_gib
                else f"at most {each / GIB:.0f} GiB an engine"
            )
            yield fails(
                f"more host memory is asked for than {text}", f"{sums} > {limit / GB:.0f} GB", where=where, hint=said
            )
        elif not budgets:
            yield unknown(
                "the host memory of this fleet is not recorded",
                sums,
                where=where,
                hint="fleets: host-memory-gib in ridgeline.yaml, or a runner file with hardware",
            )
        else:
            yield passes("host memory for offloading is within its budget", f"{sums}; {min(budgets)[1]}", where)


_SPEC = "vLLM 0.19 to 0.26, read in its source"
RULES = (
    Rule("M1", "Utilisation against free memory", startup,
         "vLLM compares total x utilisation with what is free before it loads anything, on every rank, and refuses "
         "to start.",
         f"{_SPEC}: requested = ceil(total x utilisation), fails if free < requested",
         "288 GiB x 0.90 = 259.20 GiB on a fleet where 256 are free: fails by 3.20. 0.86 asks for 247.68 and leaves "
         "8.32."),
    Rule("M2", "Weights fit", load,
         "Weights that do not fit end in an out-of-memory error after minutes of loading.",
         "Which part is split, copied or padded: vLLM's layers, read; DeepSeek-V4-Pro checked against a public start",
         "DeepSeek-V4-Pro with MTP on DP8/EP8: 97.27 routed + 19.15 attention + 3.81 shared + 3.45 tables + 0.74 = "
         "124.43 GiB."),
    Rule("M3", "The longest request fits the cache", longest,
         "vLLM refuses to start when one request of the longest length would not fit. Windowed models keep pages for "
         "every token in flight, so the need falls with the token budget, not only with the length.",
         "vLLM 0.26 kv_cache_utils, executed",
         "DeepSeek-V4-Pro on DP4/EP4 needs 14.88 GiB at 1,048,576 tokens and 8,192 batched tokens; 12.09 are left. "
         "At 4,096 it needs 10.28 and starts."),
    Rule("M4", "Auto-fit does not shorten requests", autofit,
         "--max-model-len auto quietly serves shorter requests than the model can, and the benchmark measures "
         "something else.",
         f"{_SPEC}", "Evidence afterwards: no log line `Auto-fit max_model_len: reduced`."),
    Rule("M5", "The hybrid cache manager stays on", hybrid,
         "Without it sliding windows are kept like full history.",
         "vLLM 0.26, executed", "DeepSeek-V4-Pro needs 465 GiB instead of 14.88 at a million tokens with "
         "--disable-hybrid-kv-cache-manager."),
    Rule("M6", "Lanes fit the pool", resident,
         "When histories do not fit, prefixes are evicted and requests preempted: the point measures a collapsed "
         "cache.",
         "Capacity at the workload's p95 context, not at the longest length", "28 lanes a rank x 290,000 tokens = "
         "8.1 M against a pool of 7.9 M: evicts."),
    Rule("M7", "Padding of expert shards", padding,
         "MXFP4 kernels round the width of each rank's shard up; expert parallelism keeps experts whole.",
         "vLLM up to 0.26: 256 on ROCm, 128 elsewhere; later builds have native 384-wide shards",
         "3072 / 8 = 384 columns become 512: 32.4 GiB a GPU more on pure TP8."),
    Rule("M8", "Host memory of all ranks", host,
         "vLLM sizes its offload per engine and in GiB; budgets are per node and in decimal GB.",
         "vLLM, read", "--kv-offloading-size 1000 on eight data-parallel ranks pins 8,000 GiB."),
)  # fmt: skip
