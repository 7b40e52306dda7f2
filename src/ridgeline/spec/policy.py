"""The CI priority policy: which jobs go first, as numbers in a file.

In: a path, or nothing for the policy of the InferenceX snapshot we follow. Out: a frozen `Policy`, or an `InputError`
with every problem. Scores are decimals: the text of the file decides, not its binary approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ridgeline.core.errors import Problem
from ridgeline.spec import schema
from ridgeline.spec.schema import NAME, Fault, Field, Kind, Table
from ridgeline.spec.tree import Document, fail_if, parse, parse_file


class Policy(NamedTuple):
    """Adjustments are added to `base`; `framework` is ordered, the first entry that matches counts."""

    base: Decimal
    event: Mapping[str, Decimal]
    multi_node: Decimal
    agentic: Decimal
    eval_only: Decimal
    precision: Mapping[str, Decimal]
    spec_decoding: Mapping[str, Decimal]
    framework: Mapping[str, Decimal]
    model: Mapping[str, Decimal]
    skip_queue: str
    checklist_labels: tuple[str, ...]
    checklist: Decimal
    patchwork_labels: tuple[str, ...]
    patchwork_score: Decimal
    patchwork_waivers: tuple[str, ...]


_SCORE = Kind("a number", lambda value: value.__class__ in (int, float) and abs(value) < 1e9, basic="number")
_SCORES = schema.map_of(_SCORE, "a mapping of names to numbers")
_NAMES = schema.list_of(NAME, "a list of label names")

ADJUSTMENTS = Table(
    "the adjustments",
    (
        Field("event", _SCORES, "by event name, e.g. push", required=True),
        Field("multi-node", _SCORE, "rows with prefill and decode", required=True),
        Field("agentic", _SCORE, "rows of agentic-coding", required=True),
        Field("eval-only", _SCORE, "rows that only evaluate", required=True),
        Field("precision", _SCORES, "by precision", required=True),
        Field("spec-decoding", _SCORES, "by speculative decoding", required=True),
        Field("framework-prefix", _SCORES, "NAME and NAME-...; the first entry that matches counts", required=True),
        Field("model-prefix", _SCORES, "by model prefix, exact", required=True),
    ),
)
LABELS = Table(
    "the labels",
    (
        Field(
            "skip-queue",
            schema.mapping(Table("skip-queue", (Field("name", NAME, "label that jumps the queue", required=True),))),
            "jumping the queue",
            required=True,
        ),
        Field(
            "checklist-complete",
            schema.mapping(
                Table(
                    "checklist-complete",
                    (
                        Field("names", _NAMES, "labels", required=True),
                        Field("adjustment", _SCORE, "what they add", required=True),
                    ),
                )
            ),
            "a finished checklist",
            required=True,
        ),
        Field(
            "patchwork",
            schema.mapping(
                Table(
                    "patchwork",
                    (
                        Field("names", _NAMES, "labels", required=True),
                        Field("score", _SCORE, "the whole score of such work", required=True),
                        Field("waived-by", _NAMES, "labels that lift it", required=True),
                    ),
                )
            ),
            "work that patches an engine",
            required=True,
        ),
    ),
)
POLICY = Table(
    "a priority policy",
    (
        Field("version", schema.one_of(1), "format of this file", required=True),
        Field("base-score", _SCORE, "where every row starts", required=True),
        Field("adjustments", schema.mapping(ADJUSTMENTS), "what is added", required=True),
        Field("labels", schema.mapping(LABELS), "what labels of a pull request do", required=True),
    ),
)


def load_policy(path: str | Path) -> Policy:
    """Load a policy file. Raises `InputError` with all its problems."""
    return from_document(parse_file(path))


def default_policy() -> Policy:
    """The policy of InferenceX at the snapshot we follow (August 2026), shipped with Ridgeline."""
    from importlib.resources import files

    return from_document(
        parse((files("ridgeline.spec") / "priority.yaml").read_bytes(), "the built-in priority policy")
    )


def from_document(document: Document) -> Policy:
    """The policy of a parsed file. Raises `InputError` with all its problems."""
    found: list[Problem] = list(document.problems)
    if document.root is not None:
        faults: list[Fault] = []
        schema.check(POLICY, document.value, (), faults)
        found += schema.problems(faults, document)
    fail_if(found)
    raw, plus, labels = document.value, document.value["adjustments"], document.value["labels"]
    return Policy(
        base=_decimal(raw["base-score"]),
        event=_decimals(plus["event"]),
        multi_node=_decimal(plus["multi-node"]),
        agentic=_decimal(plus["agentic"]),
        eval_only=_decimal(plus["eval-only"]),
        precision=_decimals(plus["precision"]),
        spec_decoding=_decimals(plus["spec-decoding"]),
        framework=_decimals(plus["framework-prefix"]),
        model=_decimals(plus["model-prefix"]),
        skip_queue=labels["skip-queue"]["name"],
        checklist_labels=tuple(labels["checklist-complete"]["names"]),
        checklist=_decimal(labels["checklist-complete"]["adjustment"]),
        patchwork_labels=tuple(labels["patchwork"]["names"]),
        patchwork_score=_decimal(labels["patchwork"]["score"]),
        patchwork_waivers=tuple(labels["patchwork"]["waived-by"]),
    )


def _decimal(value: float) -> Decimal:
    return Decimal(str(value))


def _decimals(values: Mapping[str, Any]) -> Mapping[str, Decimal]:
    return MappingProxyType({name: _decimal(value) for name, value in values.items()})
