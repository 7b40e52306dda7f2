"""P0 to P7: what the command line says, the engine build knows and the search space means."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache

from ridgeline.core.finding import Expectation, Verdict
from ridgeline.engine.launch import Launch
from ridgeline.engine.modules import modules_of
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, said, unknown, warns
from ridgeline.plan.checks.subject import Subject
from ridgeline.recipes.placement import Ranks, ranks_of
from ridgeline.spec.facts.builds import Dump

_PROBE = "ridgeline check --probe PYTHON, with the Python of the image"


@lru_cache(maxsize=256)
def _near(name: str, known: frozenset[str]) -> str | None:
    """What a name may have been meant to be."""
    found = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {found[0]}?" if found else None


def recipe(subject: Subject) -> Said:
    """P0: something writes the command line of this cell."""
    kind = subject.build.kind
    if subject.deployment is None:
        yield unknown(f"no deployment: {subject.why}", hint="rules that read command lines were not asked")
    elif subject.launches:
        for problem in (problem for launch in subject.launches for problem in launch.problems):
            verdict = Verdict.UNKNOWN if "not modelled" in problem.message else Verdict.FAIL
            yield said(verdict, f"{problem.key}: {problem.message}", where=problem.where)
        yield passes(f"written by {subject.deployment.recipe or 'hand'}", where=subject.launches[0].where())
    elif kind == "emulated":
        yield passes("the embedded engine needs no preflight of another engine's flags")
    else:
        yield unknown(f"command lines of {kind} are not read by the checks")


def flags(subject: Subject, launch: Launch) -> Said:
    """P1: every flag exists in the image's parser."""
    dump = subject.dump()
    if dump is None or dump.options is None:
        yield unknown(subject.no_dump("which flags exist"), hint=_PROBE)
        return
    wrong = [flag for flag in launch.flags.values() if not _known(flag.written, flag.name, dump)]
    for flag in wrong:
        hint = _near(f"--{flag.name}", frozenset(dump.options))
        yield fails(f"{dump.name} has no option {flag.written}", hint=hint, where=flag.where)
    if not wrong:
        yield passes(f"all {len(launch.flags)} flags exist in {dump.name}")


def _known(written: str, name: str, dump: Dump) -> bool:
    assert dump.options is not None
    stem = written.partition(".")[0]
    spellings = {written, f"--{name}", f"--no-{name}", stem, f"--{name.partition('.')[0]}", stem.replace("_", "-")}
    if any(text in dump.options for text in spellings):
        return True
    return sum(option.startswith(written) for option in dump.options) == 1  # argparse takes what begins only one name


def values(subject: Subject, launch: Launch) -> Said:
    """P2: a value among choices is one of them."""
    dump = subject.dump()
    if dump is None or dump.options is None:
        yield unknown(subject.no_dump("which values are allowed"), hint=_PROBE)
        return
    choices_of = {**dump.options, "--attention-backend": dump.attention_backends}
    listed = [(flag, choices_of.get(f"--{flag.name}")) for flag in launch.flags.values() if flag.value is not None]
    wrong = [(flag, choices) for flag, choices in listed if choices and flag.value not in choices]
    for flag, choices in wrong:
        text = f"--{flag.name} cannot be `{flag.value}`"
        yield fails(text, f"{dump.name}: {', '.join(choices)}", where=flag.where)
    if not wrong:
        yield passes(f"all values are among {dump.name}'s choices")


def backend(subject: Subject, launch: Launch) -> Said:
    """P3: the MoE backend takes this quantisation. A name on the command line's list may still be refused."""
    name, form, dump = launch.moe_backend, subject.formats.experts, subject.dump()
    if name in (None, "auto") or not subject.arch.moe:
        return
    assert name is not None
    accepted = dump.moe_backends.get(form) if dump else None
    if name.endswith("mega_moe"):
        yield unknown(f"`{name}` is chosen in the model's own code, which only the image can tell", hint=_PROBE)
    elif accepted is None:
        yield unknown(subject.no_dump(f"whether `{name}` takes {form} experts"), hint=_PROBE)
    elif name in accepted:
        yield Expectation("moe_backend", "==", name)
        yield passes(f"`{name}` takes {form} experts")
    else:
        yield fails(f"the engine refuses `{name}` for {form} experts", f"accepted: {', '.join(accepted)}")


def layout(subject: Subject, launch: Launch) -> Said:
    """P4: experts divide over ranks, and the engine's layout is the search space's."""
    topology, ep = launch.topology, launch.topology.ep
    experts = max((getattr(block.ffn, "count", 0) for block in subject.arch.blocks), default=0)
    held = experts + launch.redundant_experts
    if ep > 1 and experts and held % ep and not launch.given("enable-eplb"):
        spare = -experts % ep
        hint = f"{spare} redundant experts, placed by the engine's load balancer (EPLB), make it {experts + spare}"
        yield fails(f"{held} experts cannot be split over {ep} ranks", f"{held} % {ep} = {held % ep}", hint)
        return
    wanted = _wanted(subject, launch)
    if wanted is None:
        yield unknown("which pool of the cell this service belongs to is not said")
        return
    name, ranks = wanted
    tp = launch.rank_tp if topology.dp_attn else topology.tp
    mine = Ranks(tp, launch.ranks, topology.pp, topology.pcp, topology.dcp, ep > 1)
    sums = f"engine: {_spelled(mine)}; search space: {_spelled(ranks)}"
    if launch.build.kind == "sglang" and (ranks.pcp, ranks.dcp) != (1, 1):
        yield unknown("how SGLang splits contexts is not read here", sums)
    elif mine != ranks:
        yield fails(f"the command line runs {launch.label}, the search space says {name}", sums)
    else:
        yield Expectation("engines", "==", launch.ranks)
        yield passes(f"the command line runs {launch.label}, as the search space says", sums)


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
    used = [pool for pool in arm.pools if pool.workers]
    pools = [pool for pool in used if pool.role == role] or (used if launch.service.role == "engine" else [])
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
        yield unknown(subject.no_dump("which metrics exist"), hint=_PROBE, where=where)
        return
    present = {name.removesuffix("_total") for name in dump.metrics}
    absent = [name for name in needed if name.removesuffix("_total") not in present]
    if absent:
        yield fails(f"{dump.name} does not have {', '.join(absent)}", where=where)
    else:
        yield passes(f"{dump.name} has the {len(needed)} metrics that are read", where=where)


def environment(subject: Subject, launch: Launch) -> Said:
    """P6: the engine reads the variables it is given."""
    dump, prefix = subject.dump(), f"{launch.build.kind.upper()}_"
    mine = {name: item for name, item in launch.env.items() if name.startswith(prefix)}
    if not mine:
        return
    first = next(iter(mine.values())).origin
    if dump is None or dump.env is None:
        text = subject.no_dump(f"whether the engine reads {', '.join(sorted(mine))}")
        yield unknown(text, hint=_PROBE, where=first)
        return
    strange = sorted(name for name in mine if name not in dump.env)
    for name in strange:
        text = f"{dump.name} does not know {name}: it does nothing"
        yield warns(text, hint=_near(name, dump.env), where=mine[name].origin)
    if not strange:
        yield passes(f"{dump.name} knows all {len(mine)} variables", where=first)


def importable(subject: Subject, launch: Launch) -> Said:
    """P7: the kernel and transfer libraries that are asked for import in the image. Another image of the same release
    may have others, so that only a dump of this very image tells."""
    dump, needed = subject.dump(), modules_of(launch)
    if not needed:
        return
    asked = ", ".join(f"{module} (for {why})" for module, why in needed.items())
    known = dump.importable if dump is not None and dump.image == subject.cell.benchmark.image else None
    missing = [module for module in needed if known is not None and known.get(module) is False]
    open_ = [module for module in needed if known is None or module not in known]
    for module in missing:
        assert dump is not None
        text = f"{needed[module]} needs the module `{module}`, which does not import in {dump.name}"
        yield fails(text, where=launch.where(*_ASKS))
    if open_ and not missing:
        text = f"whether {', '.join(open_)} can be imported is not known for `{subject.cell.benchmark.image}`"
        yield unknown(text, asked, f"{_PROBE} and --image")
    elif not missing:
        yield passes("what is asked for imports", asked)


_ASKS = ("moe-backend", "all2all-backend", "kv-transfer-config", "attention-backend", "moe-a2a-backend")
_DUMP = "a dump made by the image's own parser"
RULES = (
    Rule("P0", "A recipe writes this cell", recipe,
         "Without a command line most questions cannot be asked.", "Ridgeline's registry of recipes",
         "A framework that no recipe launches is UNKNOWN, not PASS.", whole=True),
    Rule("P1", "Flags exist in the image", flags,
         "A flag the image's parser lacks ends the start with a usage error.", _DUMP,
         "deep_gemm_amxf4_mega_moe is a value of nightlies that release 0.26.0 refuses."),
    Rule("P2", "Values are among the choices", values,
         "As P1, for enumerated values.", _DUMP, "--kv-cache-dtype fp4 is refused where the parser lists fp8 only."),
    Rule("P3", "The MoE backend takes the quantisation", backend,
         "A name the parser allows may still be refused by the oracle of the quantisation, after the weights are "
         "loaded.",
         "vLLM 0.26 (MXFP4), executed; else a dump", "--moe-backend flydsl is refused for MXFP4 experts by 0.26.0.",
         at=("moe-backend",), engines=("vllm",)),
    Rule("P4", "Layout agrees", layout,
         "vLLM ignores the number in `ep` and computes tp x dp itself; a search space that says another is labelled "
         "wrongly.",
         "vLLM 0.26, read", "384 experts over 7 ranks: 384 % 7 = 6, refused.",
         at=("enable-expert-parallel", "ep-size", "tensor-parallel-size", "tp-size", "tp")),
    Rule("P5", "Metrics exist", metrics,
         "A metric that is not there reads as nothing, and nothing looks like zero.", "a dump of the image",
         "sglang:num_requests_running is vLLM's name, not SGLang's.", whole=True),
    Rule("P6", "Variables are read", environment,
         "A variable the engine does not know is silently ignored.", "a dump of the image",
         "VLLM_RPC_TIMEOUT is unknown to 0.26.0: the timeout stays what it was.", engines=("vllm", "sglang")),
    Rule("P7", "Backends import", importable,
         "A tuning table and an accepted name are not enough: a fused kernel needs a module that not every image has.",
         "a dump of the image, in which each module was imported",
         "aiter_mega_moe needs aiter and flydsl; an image without flydsl dies when the first layer is built.",
         at=_ASKS, engines=("vllm", "sglang")),
)  # fmt: skip
