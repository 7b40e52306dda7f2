"""Expectations against evidence: confirmed, contradicted or unproven, and what that means for the point.

Source of the rules: what must hold for a point to be published as clean; each limit is a promise (promises.py) or
comes from the preflight, so that it is stored with the point and can be read beside the value that was found.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ridgeline.core.finding import Evidence, Expectation
from ridgeline.core.point import Caution, Point, Validity
from ridgeline.results.validity import worst

ABSENT = "absent"  # value of an expectation that a line must not appear

# expectation -> (code of the reason, what it means when it does not hold). A name without an entry is its own code.
CODES: dict[str, tuple[str, str]] = {
    "engine_told": ("no-evidence", "what the engine did is not known"),
    "kv_tokens": ("kv-tokens", "the KV pool is smaller than predicted"),
    "kv_gib": ("kv-tokens", "the KV pool is smaller than predicted"),
    "max_total_num_tokens": ("kv-tokens", "the KV pool is smaller than predicted"),
    "weights_gib": ("weights", "the weights take more memory than predicted"),
    "full_graphs": ("graphs", "fewer graphs were captured than promised"),
    "graph_misses": ("graphs", "decode steps ran without a graph"),
    "engines": ("ranks", "not every rank is there"),
    "rank_imbalance": ("rank-balance", "a rank had far more to do than the others"),
    "prefix_hit": ("prefix-cache", "the prefix cache was not hit"),
    "prefix_gap": ("prefix-cache", "far fewer prompt tokens were found in the cache than the sessions repeat"),
    "prefix_caching": ("prefix-cache", "the prefix cache is off"),
    "store_trouble": ("kv-offload", "the outer KV cache lost what it was given"),
    "external_hit": ("kv-offload", "nothing was found in the outer KV cache"),
    "affinity": ("affinity", "turns did not come back to the rank that holds their session"),
    "router_key_source": ("affinity", "the router does not spread by session"),
    "preempted_share": ("preemptions", "requests lost their blocks to others"),
    "acceptance_length": ("acceptance", "speculation accepts another number of tokens than it should"),
    "contamination": ("contamination", "prompts met a cache that another cell had filled"),
    "kv_handed_over": ("kv-handover", "decode workers got no KV from prefill workers"),
    "router_retries": ("router-retries", "the router sent requests twice"),
    "router_breaker": ("router-breaker", "the router shut a worker off"),
    "cuda_graph_max_bs": ("graphs", "graphs cover fewer requests than promised"),
    "cudagraph_mode_downgraded": ("graphs", "the engine changed its graph mode"),
    "auto_fit_reduced": ("max-length", "requests may be shorter than asked for"),
    "hybrid_manager_disabled": ("hybrid-cache", "windows are kept like full history"),
    "moe_backend": ("moe-backend", "another MoE backend runs than expected"),
    "attention_backend": ("attention-backend", "another attention backend runs than expected"),
}

# What "equal" means for a value that is measured: relative.
TOLERANCE = {"acceptance_length": 0.03}
_POSITION = "acceptance_rate_position_"
_POSITION_TOLERANCE = 0.05  # absolute: a rate is a share

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


class Stands(StrEnum):
    """How an expectation stands after the run."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation with the evidence that decided it. `message` is for people."""

    expectation: Expectation
    stands: Stands
    message: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def code(self) -> str:
        name = self.expectation.name
        return CODES[name][0] if name in CODES else name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Proof:
    """Every outcome and all evidence, and what they amount to."""

    outcomes: tuple[Outcome, ...]
    evidence: tuple[Evidence, ...] = ()

    def of(self, stands: Stands) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.stands is stands)

    @property
    def validity(self) -> Validity:
        if self.of(Stands.CONTRADICTED):
            return Validity.DEGRADED
        return Validity.UNPROVEN if self.of(Stands.UNPROVEN) else Validity.VALID

    @property
    def reasons(self) -> tuple[str, ...]:
        """`code: sentence` for what is contradicted, or, when nothing is, for what is unproven."""
        found = self.of(Stands.CONTRADICTED) or self.of(Stands.UNPROVEN)
        return tuple(dict.fromkeys(f"{outcome.code}: {outcome.message}" for outcome in found))

    @property
    def counts(self) -> dict[str, int]:
        return {str(stands): len(self.of(stands)) for stands in Stands}


def prove(expectations: Iterable[Expectation], evidence: Sequence[Evidence], *, readable: bool = True) -> Proof:
    """Judge each expectation by all evidence of its name: every piece must agree, since each rank writes its own line.

    `readable`: the engine's log was understood (something in it was recognised). Only then does the absence of a line
    prove anything. A text is compared without regard to case.
    """
    by_name: dict[str, list[Evidence]] = {}
    for piece in evidence:
        by_name.setdefault(piece.name, []).append(piece)
    outcomes = tuple(_outcome(wanted, by_name.get(wanted.name, []), readable) for wanted in dict.fromkeys(expectations))
    return Proof(outcomes, tuple(evidence))


def _outcome(wanted: Expectation, found: list[Evidence], readable: bool) -> Outcome:
    if wanted.value == ABSENT:
        if found:
            return Outcome(wanted, Stands.CONTRADICTED, f"{_meaning(wanted)}: {_shown(found[0])}", tuple(found))
        stands = Stands.CONFIRMED if readable else Stands.UNPROVEN
        return Outcome(
            wanted, stands, f"{wanted.name} does not appear" if readable else f"{_asked(wanted)}, log not understood"
        )
    if not found:
        return Outcome(wanted, Stands.UNPROVEN, f"nothing shows that {_asked(wanted)}")
    against = [piece for piece in found if not _holds(piece.value, wanted)]
    if against:
        message = f"{_meaning(wanted)}: {_shown(against[0])}, expected {wanted.op} {_text(wanted.value, wanted.unit)}"
        return Outcome(wanted, Stands.CONTRADICTED, message, tuple(against))
    return Outcome(wanted, Stands.CONFIRMED, f"{_asked(wanted)}: {_shown(found[0])}", tuple(found))


def _holds(value: float | str, wanted: Expectation) -> bool:
    compare = _OPERATORS.get(wanted.op)
    if compare is None:
        raise ValueError(f"unknown operator {wanted.op!r} in the expectation {wanted.name}")
    target = wanted.value
    if isinstance(target, str) or isinstance(value, str):
        return compare(str(value).lower(), str(target).lower())
    if wanted.op == "==" and wanted.name.startswith(_POSITION):
        return abs(value - target) <= _POSITION_TOLERANCE
    if wanted.op == "==" and wanted.name in TOLERANCE:
        return abs(value - target) <= TOLERANCE[wanted.name] * abs(target)
    return compare(value, target)


def _meaning(wanted: Expectation) -> str:
    return CODES[wanted.name][1] if wanted.name in CODES else f"{wanted.name} is not as expected"


def _asked(wanted: Expectation) -> str:
    return f"{wanted.name} {wanted.op} {_text(wanted.value, wanted.unit)}"


def _shown(piece: Evidence) -> str:
    place = f" ({piece.where})" if piece.where else f" ({piece.parser})" if piece.parser else ""
    return f"{piece.name} is {_text(piece.value)}{place}"


def _text(value: float | str, unit: str = "") -> str:
    if isinstance(value, str):
        return value
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
    return f"{number} {unit}".strip()


def with_proof(point: Point, proof: Proof) -> Point:
    """The point with what the proof makes of it: the worse validity of the two, all reasons, a caution for each reason
    of the proof, and the counts in its provenance."""
    split = [reason.partition(": ") for reason in proof.reasons]
    cautions = tuple(Caution(code, message, "see evidence.json of the cell") for code, _, message in split)
    return replace(
        point,
        validity=worst(point.validity, proof.validity),
        reasons=(*point.reasons, *proof.reasons),
        cautions=(*point.cautions, *cautions),
        provenance={**point.provenance, "proof": proof.counts},
    )
