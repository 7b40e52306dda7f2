"""A selection in the peer's shape: buckets of rows, each with the key order and defaults of its output schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ridgeline.publish.changelog.rows import Row, bucket, is_agentic, is_multinode
from ridgeline.publish.changelog.selection import Selection

_IDENTITY = ("image", "model", "model-prefix", "precision", "framework")
_SIZES = ("tp", "pp", "dcp-size", "pcp-size", "ep", "dp-attn")
_OFFLOAD = ("kv-offloading", "kv-offload-backend", "router")
_TAIL = ("total-cpu-dram-gb", "duration", "exp-name")

# (multi-node, agentic) -> the keys in order; keys that a row lacks and DEFAULTS does not name are left out.
ORDER: Mapping[tuple[bool, bool], tuple[str, ...]] = {
    (False, False): (
        *(*_IDENTITY, "spec-decoding", "runner", "isl", "osl", *_SIZES, "conc", "max-model-len", "exp-name", "disagg"),
        *("run-eval", "eval-only", "router", "recipe-fingerprint"),
    ),
    (True, False): (
        *(
            *_IDENTITY,
            "spec-decoding",
            "runner",
            "isl",
            "osl",
            "prefill",
            "decode",
            "conc",
            "max-model-len",
            "exp-name",
        ),
        *("disagg", "run-eval", "eval-only", "eval-conc", "eval-all-concs", "router", "kv-p2p-transfer"),
        "recipe-fingerprint",
    ),
    (False, True): (
        *(*_IDENTITY, "runner", *_SIZES, "spec-decoding", "conc", *_OFFLOAD, *_TAIL, "scenario-type"),
        *("run-eval", "eval-only", "recipe-fingerprint"),
    ),
    (True, True): (
        *(*_IDENTITY, "spec-decoding", "runner", "prefill", "decode", "conc", *_OFFLOAD, "kv-p2p-transfer", *_TAIL),
        *("disagg", "scenario-type", "run-eval", "eval-only", "eval-conc", "recipe-fingerprint"),
    ),
}
DEFAULTS: Mapping[tuple[bool, bool], Mapping[str, Any]] = {
    (False, False): {"eval-only": False},
    (True, False): {"eval-only": False, "eval-all-concs": False},
    (False, True): {},
    (True, True): {},
}
_WORKER = ("num-worker", *_SIZES, "hardware", "additional-settings")
_COMPONENT = ("name", "version")
_NESTED: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "prefill": (_WORKER, {"additional-settings": []}),
    "decode": (_WORKER, {"additional-settings": []}),
    "router": (_COMPONENT, {}),
    "kv-offload-backend": (_COMPONENT, {}),
}


def as_object(selection: Selection, base_ref: str, head_ref: str) -> dict[str, Any]:
    """The whole output object, keys in order. Empty buckets are absent; the four evaluation lists always present."""
    evals = [(is_multinode(row), is_agentic(row), written(row)) for row in selection.evals]
    return {
        "single_node": _buckets(row for row in selection.throughput if not is_multinode(row)),
        "multi_node": _buckets(row for row in selection.throughput if is_multinode(row)),
        "evals": [row for multi, agentic, row in evals if not multi and not agentic],
        "agentic_evals": [row for multi, agentic, row in evals if not multi and agentic],
        "multinode_evals": [row for multi, agentic, row in evals if multi and not agentic],
        "multinode_agentic_evals": [row for multi, agentic, row in evals if multi and agentic],
        "changelog_metadata": {
            "base_ref": base_ref,
            "head_ref": head_ref,
            "entries": [entry.as_json() for entry in selection.entries],
        },
    }


def as_text(data: Mapping[str, Any]) -> str:
    """One line of compact ASCII JSON, without the line's end."""
    return json.dumps(data, separators=(",", ":"))


def written(row: Row) -> dict[str, Any]:
    """One row as its output schema writes it."""
    kind = is_multinode(row), is_agentic(row)
    return _ordered(row, ORDER[kind], DEFAULTS[kind])


def _ordered(values: Mapping[str, Any], order: Iterable[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key in order:
        value = values.get(key)
        value = defaults.get(key) if value is None else value
        if value is None:
            continue
        if key in _NESTED and isinstance(value, Mapping):
            value = _ordered(value, *_NESTED[key])
        result[key] = list(value) if isinstance(value, (list, tuple)) else value
    return result


def _buckets(rows: Iterable[Row]) -> dict[str, list[dict[str, Any]]]:
    buckets: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        buckets.setdefault(bucket(row), []).append(written(row))
    return buckets
