"""P1 to P6: what the command line says, the engine build knows and the search space means."""

from __future__ import annotations

from difflib import get_close_matches

from ridgeline.core.finding import Expectation, Verdict
from ridgeline.engine.launch import Launch
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, said, unknown, warns
from ridgeline.plan.checks.subject import Subject
from ridgeline.recipes.placement import Ranks, ranks_of
from ridgeline.spec.facts.builds import Dump

# Names that are read by something around the engine, by prefix.
OTHERS = (
    "HF_", "HUGGING", "PYTHON", "PATH", "LD_", "HOME", "CUDA_", "HIP_", "ROCR_", "NCCL_", "RCCL_", "UCX_", "OMP_",
    "TORCH", "AITER_", "MOONCAKE_", "LMCACHE_", "HSA_", "GPU_", "TRITON", "NVIDIA", "TMPDIR", "LANG", "LC_",
)  # fmt: skip
# Accepted by vLLM 0.26's MXFP4 expert oracle (executed); builds with a dump are asked instead.
MXFP4_026 = (
    "deep_gemm", "flashinfer_trtllm", "flashinfer_trtllm_afp8", "flashinfer_cutlass", "flashinfer_cutlass_afp8",
    "triton", "triton_unfused", "humming", "marlin", "aiter", "aiter_mxfp4_fp8", "aiter_mxfp4_mxfp4", "xpu", "cpu",
    "emulation",
)  # fmt: skip
_PROBE = "ridgeline check --probe PYTHON, with the Python of the image"


def _no_dump(subject: Subject, what: str) -> str:
    build = subject.build
    named = "an unnamed build" if build.assumed else build.name
    return f"{what} is not known for {named} (`{subject.cell.benchmark.image}`): no dump of it"


def recipe(subject: Subject) -> Said:
    """P0: something writes the command line of this cell."""
    if subject.deployment is None:
        yield unknown(
            f"no deployment: {subject.why}",
            where=subject.cell.where,
            hint="rules that read command lines were not asked",
        )
        return
    for launch in subject.launches:
        for problem in launch.problems:
            yield (
                fails(f"{problem.key}: {problem.message}", where=problem.where)
                if "not modelled" not in problem.message
                else unknown(problem.message, where=problem.where)
            )
    if not subject.launches:
        kind = subject.build.kind
        verdict = Verdict.PASS if kind == "emulated" else Verdict.UNKNOWN
        yield said(
            verdict,
            f"command lines of {kind} are not read by the checks"
            if kind != "emulated"
            else "the embedded engine needs no preflight of another engine's flags",
            where=subject.cell.where,
        )
        return
    yield passes(f"written by {subject.deployment.recipe or 'hand'}", where=subject.launches[0].where())


def flags(subject: Subject) -> Said:
    """P1: every flag exists in the image's parser."""
    dump = subject.dump()
    for launch in subject.launches:
        if dump is None or dump.options is None:
            yield unknown(_no_dump(subject, "which flags exist"), where=launch.where(), hint=_PROBE)
            continue
        wrong = 0
        for flag in launch.flags.values():
            if _known(flag.written, flag.name, dump):
                continue
            wrong += 1
            near = get_close_matches(f"--{flag.name}", dump.options, n=1)
            yield fails(
                f"{dump.name} has no option {flag.written}",
                where=flag.where,
                hint=f"did you mean {near[0]}?" if near else None,
            )
        if not wrong:
            yield passes(f"all {len(launch.flags)} flags exist in {dump.name}", where=launch.where())


def _known(written: str, name: str, dump: Dump) -> bool:
    assert dump.options is not None
    stem = written.partition(".")[0]
    spellings = {written, f"--{name}", f"--no-{name}", stem, f"--{name.partition('.')[0]}", stem.replace("_", "-")}
    return any(text in dump.options for text in spellings)


def values(subject: Subject) -> Said:
    """P2: a value among choices is one of them."""
    dump = subject.dump()
    for launch in subject.launches:
        if dump is None or dump.options is None:
            yield unknown(_no_dump(subject, "which values are allowed"), where=launch.where(), hint=_PROBE)
            continue
        wrong = 0
        for flag in launch.flags.values():
            choices = dump.options.get(f"--{flag.name}")
            if choices and flag.value is not None and flag.value not in choices:
                wrong += 1
                yield fails(
                    f"--{flag.name} cannot be `{flag.value}`", f"{dump.name}: {', '.join(choices)}", where=flag.where
                )
        if not wrong:
            yield passes(f"all values are among {dump.name}'s choices", where=launch.where())


def backend(subject: Subject) -> Said:
    """P3: the MoE backend takes this quantisation. A name on the command line's list may still be refused."""
    for launch in subject.launches:
        name = launch.moe_backend
        if launch.build.kind != "vllm" or name in (None, "auto") or not subject.arch.moe:
            continue
        where, form = launch.where("moe-backend"), subject.formats.experts
        dump = subject.dump()
        accepted = dump.moe_backends.get(form) if dump else None
        if accepted is None and form == "mxfp4" and not launch.build.assumed and launch.build.version[:2] == (0, 26):
            accepted = MXFP4_026
        assert name is not None
        if name.endswith("mega_moe"):
            yield unknown(
                f"`{name}` is chosen in the model's own code, which only the image can tell", where=where, hint=_PROBE
            )
        elif accepted is None:
            yield unknown(_no_dump(subject, f"whether `{name}` takes {form} experts"), where=where, hint=_PROBE)
        elif name in accepted:
            yield Expectation("moe_backend", "==", name)
            yield passes(f"`{name}` takes {form} experts", where=where)
        else:
            yield fails(
                f"the engine refuses `{name}` for {form} experts", f"accepted: {', '.join(accepted)}", where=where
            )


def layout(subject: Subject) -> Said:
    """P4: experts divide over ranks, and the engine's layout is the search space's."""
    experts = max(
        (b.ffn.count for b in subject.arch.blocks if b.ffn is not None and hasattr(b.ffn, "count")), default=0
    )
    for launch in subject.launches:
        topology = launch.topology
        where = launch.where("enable-expert-parallel", "ep-size", "tensor-parallel-size", "tp-size", "tp")
        eplb = launch.given("enable-eplb") or launch.given("ep-num-redundant-experts")
        if topology.ep > 1 and experts and experts % topology.ep and not eplb:
            text = f"{experts} experts cannot be split over {topology.ep} ranks"
            spare = -experts % topology.ep
            hint = f"{spare} redundant experts, placed by the engine's load balancer (EPLB), make it {experts + spare}"
            yield fails(text, f"{experts} % {topology.ep} = {experts % topology.ep}", where=where, hint=hint)
            continue
        wanted = _wanted(subject, launch)
        if wanted is None:
            yield unknown("which pool of the cell this service belongs to is not said", where=where)
            continue
        name, ranks = wanted
        mine = Ranks(
            launch.rank_tp if topology.dp_attn else topology.tp, launch.ranks, topology.pp, topology.pcp, topology.dcp,
            topology.ep > 1,
        )  # fmt: skip
        sums = f"engine: {_spelled(mine)}; search space: {_spelled(ranks)}"
        if launch.build.kind == "sglang" and (ranks.pcp, ranks.dcp) != (1, 1):
            yield unknown("how SGLang splits contexts is not read here", sums, where=where)
        elif mine != ranks:
            yield fails(f"the command line runs {launch.label}, the search space says {name}", sums, where=where)
        else:
            yield Expectation("engines", "==", launch.ranks)
            yield passes(f"the command line runs {launch.label}, as the search space says", sums, where)


def _spelled(ranks: Ranks) -> str:
    shown = {"tp": ranks.tp, "dp": ranks.dp, "pp": ranks.pp, "pcp": ranks.pcp, "dcp": ranks.dcp}
    sizes = " ".join(f"{name} {size}" for name, size in shown.items() if size > 1 or name in ("tp", "dp"))
    return f"{sizes}, experts {'whole' if ranks.expert_parallel else 'split'}"


def _wanted(subject: Subject, launch: Launch) -> tuple[str, Ranks] | None:
    """The layout that the cell asks of this service: its own, or that of the pool of the service's role."""
    arm = subject.cell.arm
    if arm.topology is not None:
        return arm.topology.label, ranks_of(arm.topology)
    role = launch.service.pool or launch.service.role
    pools = [pool for pool in arm.pools if pool.workers and pool.role == role]
    pools = pools or [pool for pool in arm.pools if pool.workers and launch.service.role == "engine"]
    if not pools:
        return None
    pool = pools[0]
    ranks = ranks_of(pool.topology)
    if ranks.dp == pool.workers > 1 and pool.workers * pool.topology.tp == pool.topology.ep:
        ranks = ranks._replace(tp=pool.topology.tp)  # the workers are the ranks of one engine
    return f"{pool.workers}x{pool.topology.label}", ranks


METRICS = {
    "vllm": (
        "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:num_preemptions",
        "vllm:prefix_cache_queries", "vllm:prefix_cache_hits", "vllm:prompt_tokens", "vllm:generation_tokens",
        "vllm:request_success", "vllm:cache_config_info",
    ),
    "sglang": (
        "sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", "sglang:cache_hit_rate",
        "sglang:num_retracted_requests_total", "sglang:cuda_graph_passes_total",
    ),
}  # fmt: skip


def metrics(subject: Subject) -> Said:
    """P5: the metrics that will be read exist in the image."""
    dump, needed = subject.dump(), METRICS.get(subject.build.kind)
    if not subject.launches or needed is None:
        return
    where = subject.launches[0].where()
    if dump is None or dump.metrics is None:
        yield unknown(_no_dump(subject, "which metrics exist"), where=where, hint=_PROBE)
        return
    present = {name.removesuffix("_total") for name in dump.metrics}
    absent = [name for name in needed if name.removesuffix("_total") not in present]
    if absent:
        yield fails(f"{dump.name} does not have {', '.join(absent)}", where=where)
    else:
        yield passes(f"{dump.name} has the {len(needed)} metrics that are read", where=where)


def environment(subject: Subject) -> Said:
    """P6: the engine reads the variables it is given."""
    dump = subject.dump()
    for launch in subject.launches:
        prefix = {"vllm": "VLLM_", "sglang": "SGLANG_"}.get(launch.build.kind)
        mine = {name: item for name, item in launch.env.items() if prefix and name.startswith(prefix)}
        if not mine:
            continue
        if dump is None or dump.env is None:
            first = next(iter(mine.values()))
            yield unknown(
                _no_dump(subject, f"whether {', '.join(sorted(mine))} are read"), where=first.origin, hint=_PROBE
            )
            continue
        strange = sorted(name for name in mine if name not in dump.env)
        for name in strange:
            near = get_close_matches(name, dump.env, n=1)
            yield warns(
                f"{dump.name} does not know {name}: it does nothing",
                where=mine[name].origin,
                hint=f"did you mean {near[0]}?" if near else None,
            )
        if not strange:
            yield passes(f"{dump.name} knows all {len(mine)} variables", where=next(iter(mine.values())).origin)


RULES = (
    Rule("P0", "A recipe writes this cell", recipe,
         "Without a command line most questions cannot be asked.", "Ridgeline's registry of recipes",
         "A framework that no recipe launches is UNKNOWN, not PASS."),
    Rule("P1", "Flags exist in the image", flags,
         "A flag the image's parser lacks ends the start with a usage error.", "a dump made by the image's own parser",
         "deep_gemm_amxf4_mega_moe is a value of nightlies that release 0.26.0 refuses."),
    Rule("P2", "Values are among the choices", values,
         "As P1, for enumerated values.", "a dump made by the image's own parser", "--kv-cache-dtype fp4 is refused "
         "where the parser lists fp8 only."),
    Rule("P3", "The MoE backend takes the quantisation", backend,
         "A name the parser allows may still be refused by the oracle of the quantisation, after the weights are "
         "loaded.",
         "vLLM 0.26 (MXFP4), executed; else a dump", "--moe-backend flydsl is refused for MXFP4 experts by 0.26.0."),
    Rule("P4", "Layout agrees", layout,
         "vLLM ignores the number in `ep` and computes tp x dp itself; a search space that says another is labelled "
         "wrongly.",
         "vLLM 0.26, read", "384 experts over 7 ranks: 384 % 7 = 6, refused."),
    Rule("P5", "Metrics exist", metrics,
         "A metric that is not there reads as nothing, and nothing looks like zero.", "a dump of the image",
         "sglang:num_requests_running is vLLM's name, not SGLang's."),
    Rule("P6", "Variables are read", environment,
         "A variable the engine does not know is silently ignored.", "a dump of the image",
         "VLLM_RPC_TIMEOUT is unknown to 0.26.0: the timeout stays what it was."),
)  # fmt: skip
