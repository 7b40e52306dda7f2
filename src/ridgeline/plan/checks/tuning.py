"""T1 to T4: the tuned launch geometry of fused expert-parallel kernels on ROCm."""

from __future__ import annotations

from typing import NamedTuple

from ridgeline.core.finding import Expectation
from ridgeline.engine.launch import Launch
from ridgeline.engine.tuning import INTRANODE_WORLD, Shape, Tuning, geometry, look_up, mega_moe
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject
from ridgeline.spec.facts.model import Experts

RATIO = 4  # a bucket this many times the tokens was tuned for something else
ARCHS = {"MI300X": "gfx942", "MI325X": "gfx942", "MI355X": "gfx950", "MI350X": "gfx950"}


class Fused(NamedTuple):
    """A launch whose experts run in a fused dispatch-compute-combine kernel."""

    launch: Launch
    shape: Shape
    found: Tuning
    arch: str
    model: str


def fused(subject: Subject) -> list[Fused]:
    """Launches on ROCm whose MoE backend is the fused kernel, with what the tables say. The fused kernel dispatches
    in fp8, whatever the experts are stored in; plain FlyDSL dispatches in the experts' own 4-bit type."""
    if subject.gpu.vendor != "amd" or not subject.arch.moe:
        return []
    ffn = next(block.ffn for block in subject.arch.blocks if isinstance(block.ffn, Experts))
    found = []
    for launch in subject.launches:
        name = (launch.moe_backend or "").lower()
        ep = launch.topology.ep
        if not any(word in name for word in ("flydsl", "mega")) or ep == 1 or ffn.count % ep:
            continue
        dtype = "fp8" if "mega" in name else "fp4" if subject.formats.experts == "mxfp4" else subject.formats.experts
        arch, model = ARCHS.get(subject.gpu.name.upper(), ""), subject.gpu.name.lower()
        shape = Shape(dtype, ffn.latent or subject.arch.hidden, ffn.top_k, ffn.count // ep, ep)
        found.append(Fused(launch, shape, look_up(subject.known.tables, shape, arch, model), arch, model))
    return found


def table(subject: Subject) -> Said:
    """T1: there is a table, and it is this GPU's."""
    for item in fused(subject):
        where = item.launch.where("moe-backend", "enable-expert-parallel")
        ep, file = item.shape.ep, item.found.table
        if file is None and not subject.known.tables_given and not subject.known.tables:
            yield unknown(
                f"no tuning tables were given, so the one for EP{ep} cannot be looked up",
                where=where,
                hint="--tables FOLDER (the library's mega_moe_tuning_config)",
            )
        elif ep > INTRANODE_WORLD:
            yield fails(f"the kernel works inside one node of {INTRANODE_WORLD} GPUs, EP{ep} is more", where=where)
        elif file is None:
            yield fails(f"no tuning table for EP{ep}: static defaults, and nothing is logged", where=where)
        elif not item.found.arch_match:
            yield fails(
                f"the only table for EP{ep} is another architecture's ({file.text}), and it is used silently",
                f"this GPU: {item.arch}",
                where=where,
            )
        elif not item.found.model_match:
            yield warns(
                f"the table for EP{ep} is another GPU model's ({file.text}), and it is used silently",
                f"this GPU: {item.model}",
                where=where,
            )
        else:
            yield passes(f"EP{ep} has {file.text}", where=where)


def phases(subject: Subject) -> Said:
    """T2: dispatch and combine both have rows for this shape."""
    for item in fused(subject):
        if item.found.table is None:
            continue
        where, shape = item.launch.where("moe-backend"), item.shape
        counts = {name: len({r.tokens for r in getattr(item.found, name)}) for name in ("dispatch", "combine")}
        sums = (
            f"{shape.dtype} dispatch, hidden {shape.hidden}, top {shape.topk}, {shape.local_experts} experts a rank: "
            + ", ".join(f"{n} {c} rows" for n, c in counts.items())
        )
        empty = [name for name, count in counts.items() if not count]
        if empty:
            loud = "with a warning" if not item.found.built else "without a warning"
            yield fails(f"{' and '.join(empty)} fall back to static geometry {loud}", sums, where=where)
        else:
            for name, count in counts.items():
                yield Expectation(f"tuning_{name}_rules", "==", count)
            yield passes("both phases are tuned for this shape", sums, where)


def buckets(subject: Subject) -> Said:
    """T3: the rows that are hit were tuned near the tokens that come."""
    for item in fused(subject):
        if not item.found.built:
            continue
        where, launch = item.launch.where("moe-backend"), item.launch
        seqs = launch.max_num_seqs or 1
        points = sorted(
            {n * launch.query for n in (1, 2, 4, 8, 16, 32, 64, 128, seqs) if n <= seqs} | {launch.budget or 1}
        )
        far = []
        for phase in ("dispatch", "combine"):
            rules = getattr(item.found, phase)
            for tokens in points if rules else ():
                found = geometry(rules, phase, tokens)
                if found.bucket and (found.bucket > RATIO * tokens or found.overflow):
                    far.append(f"{phase} {tokens} -> {found.bucket}{' (overflow)' if found.overflow else ''}")
        if far:
            yield warns("some token counts use rows tuned far from them", "; ".join(far), where=where)
        else:
            yield passes("rows are near the token counts that come", where=where)


def regime(subject: Subject) -> Said:
    """T4: the fused kernel's regime follows from the token budget, and the large one sends combine in fp8."""
    for item in fused(subject):
        budget = item.launch.budget or 1
        if "mega" not in (item.launch.moe_backend or ""):
            continue
        power = 1 << (budget - 1).bit_length()
        where = item.launch.where("max-num-batched-tokens")
        try:
            found = mega_moe(min(budget, power), power, item.shape.local_experts)
        except ValueError as error:
            yield fails(f"the fused kernel refuses this shape: {error}", where=where)
            continue
        if found.p2p_quant != "none":
            yield warns(
                f"{budget} batched tokens mean the {found.regime} regime: combine is sent in {found.p2p_quant}, "
                "which is lossy",
                where=where,
                hint="evaluate accuracy with the same budget",
            )
        else:
            yield passes(f"{found.regime} regime, nothing is quantised on the way", where=where)


_READ = "AITER at e4048607a5, executed"
RULES = (
    Rule("T1", "A tuning table for this GPU", table, "Without one the kernel runs static geometry; with a foreign "
    "one it runs another GPU's, silently.", _READ,
         "EP4 on MI355X: no file, no log line, 128 blocks and 4 warps."),
    Rule("T2", "Both phases are tuned", phases, "One empty phase is only visible as a zero in an INFO line.", _READ,
         "DeepSeek-V4-Pro at EP8: fp4 dispatch has 6 rows, the fused kernel's fp8 dispatch has none."),
    Rule("T3", "Buckets near the load", buckets, "A look-up takes the next larger bucket, however far.", _READ,
         "257 to 8,192 tokens all use the 8,192 row."),
    Rule("T4", "Lossy combine", regime, "The regime follows from the token budget and changes numerics.", _READ,
         "8,192 batched tokens: large regime, combine in fp8_blockwise_1x32."),
)  # fmt: skip
