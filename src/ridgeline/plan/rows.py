"""Rows: the jobs of an expanded matrix in InferenceX's exchange format, equal as JSON with order and types.

In: configs, runners, filters. Out: a list of dicts in the four shapes of that format (single-node or multi-node,
fixed or agentic), before evals are marked (`plan.evals`). Values come from the file as written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ridgeline.plan import select
from ridgeline.plan.evals import EvalMode, mark
from ridgeline.plan.filters import ALL, SEQUENCE_LENGTHS, Filters
from ridgeline.plan.memory import cpu_dram_gb
from ridgeline.plan.select import Selected
from ridgeline.spec.config import ConfigSet, Entry, Space, Worker
from ridgeline.spec.runners import Runners

Row = dict[str, Any]
AGENTIC_SECONDS = 3600
_HEADROOM = 256  # tokens above isl + osl in max-model-len
_NAMES = {lengths: name for name, lengths in SEQUENCE_LENGTHS.items()}


def full_sweep(
    configs: ConfigSet, runners: Runners | None, filters: Filters = ALL, evals: EvalMode = EvalMode.DEFAULT
) -> list[Row]:
    """Rows of everything the filters let through. Raises `InputError`."""
    return mark(rows_of(select.full_sweep(configs, runners, filters), runners), evals)


def test_config(
    configs: ConfigSet, runners: Runners | None, filters: Filters, evals: EvalMode = EvalMode.DEFAULT
) -> list[Row]:
    """Rows of the configs named by `filters.keys`, in the order of those names. Raises `InputError`."""
    return mark(rows_of(select.test_config(configs, runners, filters), runners), evals)


test_config.__test__ = False  # type: ignore[attr-defined]  # the name is the peer's; pytest must not collect it


def sequence_name(isl: int, osl: int) -> str:
    """`1k1k`, `8k1k`, else `512_128`."""
    return _NAMES.get((isl, osl), f"{isl}_{osl}")


def rows_of(arms: Iterable[Selected], runners: Runners | None) -> list[Row]:
    """Rows of selected arms, in order, before evals are marked. Raises `InputError` for missing hardware facts."""
    return [row for arm in arms for row in _rows(arm, runners)]


def _rows(arm: Selected, runners: Runners | None) -> Iterator[Row]:
    if arm.fixed is not None:
        return _multi_fixed(arm) if arm.entry.multinode else _single_fixed(arm)
    assert arm.agentic is not None
    memory = cpu_dram_gb(arm.entry, arm.space, arm.agentic.dram_utilization, runners)
    return _multi_agentic(arm, memory) if arm.entry.multinode else _single_agentic(arm, memory)


def _single_fixed(arm: Selected) -> Iterator[Row]:
    entry, item, space = arm.entry, arm.fixed, arm.space
    assert item is not None
    for value in arm.values:
        for machine in arm.machines:
            yield {
                **_head(entry, machine),
                "isl": item.isl,
                "osl": item.osl,
                "tp": space.tp,
                "pp": space.pp,
                "dcp-size": space.dcp,
                "pcp-size": space.pcp,
                "conc": value,
                "max-model-len": item.isl + item.osl + _HEADROOM,
                "ep": arm.ep,
                "dp-attn": bool(space.dp_attn),
                "spec-decoding": space.spec_decoding,
                "exp-name": f"{entry.model_prefix}_{sequence_name(item.isl, item.osl)}",
                "disagg": entry.disagg,
                "run-eval": False,
                **_router(entry, space),
            }


def _multi_fixed(arm: Selected) -> Iterator[Row]:
    entry, item, space = arm.entry, arm.fixed, arm.space
    assert item is not None
    for machine in arm.machines:
        yield {
            **_head(entry, machine),
            "isl": item.isl,
            "osl": item.osl,
            "spec-decoding": space.spec_decoding,
            "prefill": worker(space.prefill),
            "decode": worker(space.decode),
            "conc": list(arm.values),
            "max-model-len": item.isl + item.osl + _HEADROOM,
            "exp-name": f"{entry.model_prefix}_{sequence_name(item.isl, item.osl)}",
            "disagg": entry.disagg,
            "run-eval": False,
            **_router(entry, space),
            **_transfer(entry, space),
        }


def _single_agentic(arm: Selected, memory: int) -> Iterator[Row]:
    entry, space = arm.entry, arm.space
    offloading = _offloading(space)
    speculative = f"_spec-{space.spec_decoding}" if space.spec_decoding != "none" else ""
    for value in arm.values:
        for machine in arm.machines:
            yield {
                **_head(entry, machine),
                "tp": space.tp,
                "pp": space.pp,
                "dcp-size": space.dcp,
                "pcp-size": space.pcp,
                "ep": arm.ep,
                "dp-attn": bool(space.dp_attn),
                "spec-decoding": space.spec_decoding,
                "conc": value,
                "kv-offloading": space.kv_offloading,
                "total-cpu-dram-gb": memory,
                "duration": AGENTIC_SECONDS,
                "exp-name": f"{entry.model_prefix}_tp{space.tp}_conc{value}_{offloading}{speculative}",
                "scenario-type": "agentic-coding",
                **_backend(space),
                **_router(entry, space),
            }


def _multi_agentic(arm: Selected, memory: int) -> Iterator[Row]:
    """Nodes are the outer loop here and the inner loop elsewhere: the order of the exchange format."""
    entry, space = arm.entry, arm.space
    mode = space.kv_offloading or "none"
    offloading = f"_{_offloading(space)}" if mode != "none" else ""
    pools = f"{_pool('p', space.prefill)}_{_pool('d', space.decode)}"
    for machine in arm.machines:
        for value in arm.values:
            yield {
                **_head(entry, machine),
                "spec-decoding": space.spec_decoding,
                "prefill": worker(space.prefill),
                "decode": worker(space.decode),
                "conc": [value],
                "kv-offloading": mode,
                "total-cpu-dram-gb": memory,
                "duration": AGENTIC_SECONDS,
                "exp-name": f"{entry.model_prefix}_{pools}_conc{value}{offloading}",
                "disagg": entry.disagg,
                "scenario-type": "agentic-coding",
                **_backend(space),
                **_router(entry, space),
                **_transfer(entry, space),
            }


def _head(entry: Entry, machine: str) -> Row:
    return {
        "image": entry.image,
        "model": entry.model,
        "model-prefix": entry.model_prefix,
        "precision": entry.precision,
        "framework": entry.framework,
        "runner": machine,
    }


def worker(side: Worker | None) -> Row:
    """A worker as written, with the sizes it leaves out appended as 1."""
    assert side is not None, "validation guarantees both workers in multi-node arms"
    row = {key: list(value) if isinstance(value, list) else value for key, value in side.written.items()}
    for name in ("pp", "dcp-size", "pcp-size"):
        row.setdefault(name, 1)
    return row


def _pool(letter: str, side: Worker | None) -> str:
    assert side is not None
    expert = f"ep{side.ep}" if side.ep != 1 else ""
    return f"{letter}{side.workers}x{side.tp}{expert}{'dpa' if side.dp_attn else ''}"


def _offloading(space: Space) -> str:
    mode = space.kv_offloading or "none"
    return "kvnone" if mode == "none" else f"kv{mode}-{(space.kv_offload_backend or {}).get('name')}"


def _backend(space: Space) -> Row:
    return _optional("kv-offload-backend", space.kv_offload_backend)


def _router(entry: Entry, space: Space) -> Row:
    return _optional("router", space.router if space.router is not None else entry.router)


def _transfer(entry: Entry, space: Space) -> Row:
    name = space.kv_p2p_transfer if space.kv_p2p_transfer is not None else entry.kv_p2p_transfer
    return {} if name is None else {"kv-p2p-transfer": name}


def _optional(name: str, value: Mapping[str, str] | None) -> Row:
    return {} if value is None else {name: dict(value)}
