"""Which row of a kernel tuning table a shape hits, as AITER's FlyDSL operators look it up; and the static selector of
its fused mega-MoE kernel. Rules read in AITER at e4048607a5 and checked against its own answers
(golden/moe_tuning.json)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ridgeline.spec.facts.tuning import TuningRule, TuningTable

# (blocks, warps) where no row applies
DEFAULTS = {"dispatch": (128, 4), "combine": (128, 8)}
KERNEL = "IntraNode"
INTRANODE_WORLD = 8
# The operator's own type -> the name rows use. Types that are not here never get a table.
DTYPES = {
    "fp4": "fp4", "float4_e2m1fn_x2": "fp4", "fp8": "fp8_ocp", "fp8_ocp": "fp8_ocp", "fp8_fnuz": "fp8_ocp",
    "float8_e4m3fn": "fp8_ocp", "float8_e4m3fnuz": "fp8_ocp", "bf16": "bf16", "bfloat16": "bf16", "fp32": "fp32",
    "float32": "fp32",
}  # fmt: skip
_FOLDER = "aiter/ops/flydsl/kernels/mega_moe_tuning_config/"


class Shape(NamedTuple):
    """What the operator is built for: per-rank experts, dispatch type, and whether combine copies nothing."""

    dtype: str
    hidden: int
    topk: int
    local_experts: int
    ep: int
    zero_copy: bool = True


class Tuning(NamedTuple):
    """What a look-up found. `table` None: no file for this expert-parallel size, silently."""

    table: TuningTable | None
    arch_match: bool
    model_match: bool
    built: bool  # at least one phase has rows
    dispatch: tuple[TuningRule, ...]
    combine: tuple[TuningRule, ...]
    log: tuple[str, ...]


class Geometry(NamedTuple):
    """Launch geometry of one phase for a number of tokens. `bucket` None: the static defaults."""

    blocks: int
    warps: int
    bucket: int | None
    overflow: bool  # more tokens than the largest bucket

    @property
    def source(self) -> str:
        return "default" if self.bucket is None else "config"


def choose_table(tables: Sequence[TuningTable], ep: int, arch: str, model: str) -> TuningTable | None:
    """The file that is taken: exact on kernel type and expert-parallel size; arch and GPU model only break ties, so a
    file of another GPU is taken when there is no better one. `model`: e.g. `mi355x`; empty texts match everything."""
    fitting = [table for table in tables if table.kernel == KERNEL and table.ep == ep]
    return max(fitting, key=lambda t: (arch in t.text, model in t.text, t.text), default=None)


def look_up(tables: Sequence[TuningTable], shape: Shape, arch: str, model: str) -> Tuning:
    """The rows of both phases for a shape, with what the library logs about it."""
    table = choose_table(tables, shape.ep, arch, model)
    arch_match, model_match = (bool(table and text in table.text) for text in (arch, model))
    name = DTYPES.get(shape.dtype)
    if table is None or name is None:
        return Tuning(table, arch_match, model_match, False, (), (), ())
    dispatch = tuple(rule for rule in table.dispatch if _fits(rule, name, shape))
    combine = tuple(rule for rule in table.combine if _fits(rule, "bf16", shape) and rule.zero_copy == shape.zero_copy)
    file = _FOLDER + table.text
    if dispatch or combine:
        log = (
            f"INFO: Loaded FlyDSL launch-geometry tuning from {file} "
            f"(dispatch={len({r.tokens for r in dispatch})} rules, combine={len({r.tokens for r in combine})} rules)"
        )
    else:
        log = (
            f"WARNING: Tuning file {file} has no rule matching shape (dtype={name}, hidden={shape.hidden}, "
            f"topk={shape.topk}, local_experts={shape.local_experts}, zero_copy={shape.zero_copy}); "
            "using static geometry defaults."
        )
    return Tuning(table, arch_match, model_match, bool(dispatch or combine), dispatch, combine, (log,))


def _fits(rule: TuningRule, dtype: str, shape: Shape) -> bool:
    return (
        rule.dtype == dtype
        and rule.hidden == shape.hidden
        and rule.topk in (None, shape.topk)
        and rule.local_experts in (None, shape.local_experts)
    )


def geometry(rules: Sequence[TuningRule], phase: str, tokens: int) -> Geometry:
    """Exact bucket, else the smallest one that is not below `tokens`, else the largest (overflow). Of rows with one
    bucket the last wins."""
    buckets = {rule.tokens: rule for rule in rules}
    if not buckets:
        return Geometry(*DEFAULTS[phase], None, False)
    bucket = min((size for size in buckets if size >= tokens), default=max(buckets))
    return Geometry(buckets[bucket].blocks, buckets[bucket].warps, bucket, tokens > bucket)


class Selection(NamedTuple):
    """What the fused kernel's static selector decides."""

    bucket: int
    mtpr_class: int
    regime: str  # "fixed" | "bounded" | "large"
    p2p_quant: str  # "none", or the lossy format that combine sends in


_BUCKETS = (1, *(4 << power for power in range(14)))  # 1, 4, 8, ..., 32768
_FIXED_TOKENS, _FIXED_EXPERTS = 128, 64


def mega_moe(tokens: int, mtpr: int, experts_per_rank: int) -> Selection:
    """The static selector. `mtpr`: the most tokens a rank may have, a power of two. Raises ValueError as it does."""
    if mtpr < 1 or mtpr & (mtpr - 1):
        raise ValueError(f"max tokens per rank must be a power of two, is {mtpr}")
    if tokens > mtpr:
        raise ValueError(f"tokens ({tokens}) exceed max tokens per rank ({mtpr})")
    bucket = token_bucket(tokens)
    if mtpr <= 255:
        if bucket > _FIXED_TOKENS:
            raise ValueError(f"fixed-slot supports at most {_FIXED_TOKENS} tokens")
        if -(-experts_per_rank // 64) * 64 > _FIXED_EXPERTS:
            raise ValueError(f"fixed-slot supports at most {_FIXED_EXPERTS} experts per rank")
        return Selection(bucket, mtpr, "fixed", "none")
    if mtpr <= 1024:
        return Selection(bucket, mtpr, "bounded", "none")
    return Selection(bucket, 32768, "large", "fp8_blockwise_1x32")


def token_bucket(tokens: int) -> int:
    """The nearest bucket, the larger one on a tie."""
    return min(_BUCKETS, key=lambda size: (abs(size - tokens), -size))
