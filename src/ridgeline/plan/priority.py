"""The order of work: a score for each job, and the marks that a queue reads.

In: rows (or cells), a policy, what is known of the event and the pull request. Out: scores, annotated copies, or a
stable order. Higher scores run first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from ridgeline.core.cell import Cell
from ridgeline.core.errors import InputError, Problem
from ridgeline.spec.policy import Policy

Row = dict[str, Any]
_PLACES = Decimal("0.001")


class Context(NamedTuple):
    """What is known of the event. `criteria` are the attributes a classifier of the change returned: None when no
    classifier ran (every attribute counts), empty when it found that none matters."""

    event_name: str | None = None
    labels: tuple[str, ...] = ()
    criteria: tuple[str, ...] | None = None
    pr_number: int | None = None


NO_CONTEXT = Context()


def score(row: Mapping[str, Any], policy: Policy, context: Context = NO_CONTEXT) -> Decimal:
    """Base plus all adjustments, three places, half up. Work that patches an engine gets the policy's flat score.

    Raises `InputError` for a criterion the policy does not know.
    """
    check_criteria(policy, context)
    if _patchwork(policy, context):
        return policy.patchwork_score.quantize(_PLACES, ROUND_HALF_UP)
    total = policy.base + policy.event.get(context.event_name or "", Decimal(0))
    if "checklist-complete" in (context.criteria or ()) or not set(policy.checklist_labels).isdisjoint(context.labels):
        total += policy.checklist
    for name, adjustment in _attributes(row, policy):
        if context.criteria is None or name in context.criteria:
            total += adjustment
    return total.quantize(_PLACES, ROUND_HALF_UP)


def check_criteria(policy: Policy, context: Context) -> None:
    """Raise `InputError` naming every criterion that no rule of the policy uses."""
    named = (policy.precision, policy.spec_decoding, policy.framework, policy.model)
    known = {"patchwork", "checklist-complete", "multi-node", "agentic", "eval-only"}.union(*named)
    unknown = [name for name in context.criteria or () if name not in known]
    if unknown:
        hint = f"known: {', '.join(sorted(known))}"
        raise InputError(
            [Problem("is not a criterion of the priority policy", key=name, hint=hint) for name in unknown]
        )


def annotate(data: Any, policy: Policy, context: Context = NO_CONTEXT, namespace: str = "1:1") -> Any:
    """A copy of JSON data in which every object with `runner` and `framework` has `priority` and `queue-token`, and
    `skip-queue-pr` where the label asks for it. `namespace` is the run and its attempt; tokens differ between runs."""
    return _annotate(data, policy, context, namespace, ())


def _annotate(data: Any, policy: Policy, context: Context, namespace: str, path: tuple[str, ...]) -> Any:
    if isinstance(data, list):
        return [_annotate(item, policy, context, namespace, (*path, str(i))) for i, item in enumerate(data)]
    if not isinstance(data, dict):
        return data
    result = {key: _annotate(item, policy, context, namespace, (*path, key)) for key, item in data.items()}
    if "runner" in data and "framework" in data:
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        token = hashlib.sha256(f"{namespace}:{'.'.join(path)}:{text}".encode()).hexdigest()[:32]
        result |= {"priority": str(score(data, policy, context)), "queue-token": token}
        if context.pr_number is not None and policy.skip_queue in context.labels:
            result["skip-queue-pr"] = context.pr_number
    return result


def order_rows(rows: Iterable[Row], policy: Policy, context: Context = NO_CONTEXT) -> list[Row]:
    """Highest score first; equal scores keep their order."""
    return sorted(rows, key=lambda row: -score(row, policy, context))


def cell_score(cell: Cell, policy: Policy, context: Context = NO_CONTEXT) -> Decimal:
    """The score of the row that stands for the cell."""
    return score(_as_row(cell), policy, context)


def _as_row(cell: Cell) -> Row:
    row: Row = {
        "runner": cell.benchmark.runner,
        "framework": cell.benchmark.framework,
        "precision": cell.benchmark.precision,
        "spec-decoding": cell.arm.spec_decoding,
        "model-prefix": cell.benchmark.model_prefix,
    }
    if cell.arm.pools:
        row["prefill"] = {}
    if cell.scenario.kind == "agentic-coding":
        row["scenario-type"] = cell.scenario.kind
    return row


def _patchwork(policy: Policy, context: Context) -> bool:
    claimed = "patchwork" in (context.criteria or ()) or not set(policy.patchwork_labels).isdisjoint(context.labels)
    return claimed and set(policy.patchwork_waivers).isdisjoint(context.labels)


def _attributes(row: Mapping[str, Any], policy: Policy) -> Iterable[tuple[str, Decimal]]:
    """What the row is, as (criterion, adjustment)."""
    if "prefill" in row:
        yield "multi-node", policy.multi_node
    if row.get("scenario-type") == "agentic-coding":
        yield "agentic", policy.agentic
    if row.get("eval-only") is True:
        yield "eval-only", policy.eval_only
    for field, table in (("precision", policy.precision), ("spec-decoding", policy.spec_decoding)):
        if row.get(field) in table:
            yield row[field], table[row[field]]
    framework = str(row.get("framework"))
    for name, adjustment in policy.framework.items():
        if framework == name or framework.startswith(f"{name}-"):
            yield name, adjustment
            break
    if row.get("model-prefix") in policy.model:
        yield row["model-prefix"], policy.model[row["model-prefix"]]
