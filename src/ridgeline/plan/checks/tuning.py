"""T1 to T4: the tuned launch geometry of fused expert-parallel kernels on ROCm."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.core.finding import Expectation
from ridgeline.engine.launch import Launch
from ridgeline.engine.tuning import INTRANODE_WORLD, Shape, Tuning, geometry, look_up, mega_moe
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject
from ridgeline.spec.facts.model import Experts

PHASES = ("dispatch", "combine")
RATIO = 4  # a bucket this many times the tokens was tuned for something else
ARCHS = {"MI300X": "gfx942", "MI325X": "gfx942", "MI355X": "gfx950", "MI350X": "gfx950"}


class Fused(NamedTuple):
    """A launch whose experts run in a fused dispatch-compute-combine kernel, and what the tables say about it."""

    shape: Shape
    found: Tuning
    arch: str
    model: str
    mega: bool


def fused(subject: Subject, launch: Launch) -> Fused | None:
    """What the tables say of a launch on ROCm whose MoE backend is the fused kernel. The fused kernel dispatches in
    fp8, whatever the experts are stored in; plain FlyDSL dispatches in the experts' own 4-bit type."""
    name, ep = (launch.moe_backend or "").lower(), launch.topology.ep
    if subject.gpu.vendor != "amd" or not subject.arch.moe or not ("flydsl" in name or "mega" in name):
        return None
    ffn = next(block.ffn for block in subject.arch.blocks if isinstance(block.ffn, Experts))
    if ep == 1 or ffn.count % ep:
        return None
    mega, form = "mega" in name, subject.formats.experts
    dtype = "fp8" if mega else "fp4" if form == "mxfp4" else form
    arch, model = ARCHS.get(subject.gpu.name.upper(), ""), subject.gpu.name.lower()
    shape = Shape(dtype, ffn.latent or subject.arch.hidden, ffn.top_k, ffn.count // ep, ep)
    return Fused(shape, look_up(subject.known.tables, shape, arch, model), arch, model, mega)


def table(subject: Subject, launch: Launch) -> Said:
    """T1: there is a table, and it is this GPU's."""
    item = fused(subject, launch)
    if item is None:
        return
    ep, file = item.shape.ep, item.found.table
    another = f"({file.text}), and it is used silently" if file else ""
    if ep > INTRANODE_WORLD:
        yield fails(f"the kernel works inside one node of {INTRANODE_WORLD} GPUs, EP{ep} is more")
    elif file is None and not subject.known.tables_given and not subject.known.tables:
        hint = "--tables FOLDER (the library's mega_moe_tuning_config)"
        yield unknown(f"no tuning tables were given, so the one for EP{ep} cannot be looked up", hint=hint)
    elif file is None:
        yield fails(f"no tuning table for EP{ep}: static defaults, and nothing is logged")
    elif not item.found.arch_match:
        yield fails(f"the only table for EP{ep} is another architecture's {another}", f"this GPU: {item.arch}")
    elif not item.found.model_match:
        yield warns(f"the table for EP{ep} is another GPU model's {another}", f"this GPU: {item.model}")
    else:
        yield passes(f"EP{ep} has {file.text}")


def phases(subject: Subject, launch: Launch) -> Said:
    """T2: dispatch and combine both have rows for this shape."""
    item = fused(subject, launch)
    if item is None or item.found.table is None:
        return
    shape = item.shape
    counts = {name: len({rule.tokens for rule in getattr(item.found, name)}) for name in PHASES}
    sums = f"{shape.dtype} dispatch, hidden {shape.hidden}, top {shape.topk}, {shape.local_experts} experts a rank: "
    sums += ", ".join(f"{name} {count} rows" for name, count in counts.items())
    empty = " and ".join(name for name, count in counts.items() if not count)
    if empty:
        loud = "without" if item.found.built else "with"
        yield fails(f"{empty} fall back to static geometry {loud} a warning", sums)
        return
    yield from (Expectation(f"tuning_{name}_rules", "==", count) for name, count in counts.items())
    yield passes("both phases are tuned for this shape", sums)


def buckets(subject: Subject, launch: Launch) -> Said:
    """T3: the rows that are hit were tuned near the tokens that come."""
    item = fused(subject, launch)
    if item is None or not item.found.built:
        return
    seqs = launch.max_num_seqs or 1
    points = {n * launch.query for n in (1, 2, 4, 8, 16, 32, 64, 128, seqs) if n <= seqs} | {launch.budget or 1}
    far = []
    for phase in PHASES:
        rules = getattr(item.found, phase)
        for tokens in sorted(points) if rules else ():
            hit = geometry(rules, phase, tokens)
            if hit.bucket and (hit.bucket > RATIO * tokens or hit.overflow):
                far.append(f"{phase} {tokens} -> {hit.bucket}{' (overflow)' if hit.overflow else ''}")
    if far:
        yield warns("some token counts use rows tuned far from them", "; ".join(far))
    else:
        yield passes("rows are near the token counts that come")


def regime(subject: Subject, launch: Launch) -> Said:
    """T4: the fused kernel's regime follows from the token budget, and the large one sends combine in fp8."""
    item, budget = fused(subject, launch), launch.budget or 1
    if item is None or not item.mega:
        return
    power = 1 << (budget - 1).bit_length()
    try:
        found = mega_moe(min(budget, power), power, item.shape.local_experts)
    except ValueError as error:
        yield fails(f"the fused kernel refuses this shape: {error}")
        return
    if found.p2p_quant == "none":
        yield passes(f"{found.regime} regime, nothing is quantised on the way")
    else:
        text = f"{budget} batched tokens mean the {found.regime} regime: combine is sent in {found.p2p_quant}, lossy"
        yield warns(text, hint="evaluate accuracy with the same budget")


_READ = "AITER at e4048607a5, executed"
RULES = (
    Rule("T1", "A tuning table for this GPU", table, "Without one the kernel runs static geometry; with a foreign "
    "one it runs another GPU's, silently.", _READ,
         "EP4 on MI355X: no file, no log line, 128 blocks and 4 warps.", at=("moe-backend",)),
    Rule("T2", "Both phases are tuned", phases, "One empty phase is only visible as a zero in an INFO line.", _READ,
         "DeepSeek-V4-Pro at EP8: fp4 dispatch has 6 rows, the fused kernel's fp8 dispatch has none.",
         at=("moe-backend",)),
    Rule("T3", "Buckets near the load", buckets, "A look-up takes the next larger bucket, however far.", _READ,
         "257 to 8,192 tokens all use the 8,192 row.", at=("moe-backend",)),
    Rule("T4", "Lossy combine", regime, "The regime follows from the token budget and changes numerics.", _READ,
         "8,192 batched tokens: large regime, combine in fp8_blockwise_1x32.", at=("max-num-batched-tokens",)),
)  # fmt: skip
