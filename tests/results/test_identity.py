"""Run keys change with everything that was asked for, and with nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.results.builders import cell, deployment

from ridgeline.core.deployment import Item
from ridgeline.core.point import Source
from ridgeline.core.where import Where
from ridgeline.results.identity import facts, point_id, run_key, series

ASKED: dict[str, Any] = {
    "cell": cell(),
    "deployment": deployment(),
    "image": "acme/engine:1",
    "model_revision": "abc",
    "trace_digest": "d1",
    "replay_settings": {"seed": 1, "speed": 1.0},
    "source": Source.MEASURED,
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cell", cell(8)),
        ("deployment", dataclasses.replace(deployment(), endpoint="/v1/completions")),
        ("deployment", None),
        ("image", "acme/engine:2"),
        ("model_revision", None),
        ("trace_digest", "d2"),
        ("replay_settings", {"seed": 2, "speed": 1.0}),
        ("source", Source.EMULATED),
    ],
)
def test_everything_asked_for_takes_part(name: str, value: object) -> None:
    assert run_key(**(ASKED | {name: value})) != run_key(**ASKED)


def test_origins_order_of_keys_and_container_kinds_do_not() -> None:
    before = deployment()
    moved = dataclasses.replace(before.services[0].argv[0], origin=Where("recipe.py", 3))
    service = dataclasses.replace(before.services[0], argv=(moved, *before.services[0].argv[1:]))
    same = ASKED | {
        "deployment": dataclasses.replace(before, services=(service,)),
        "replay_settings": {"speed": 1.0, "seed": 1},
        "cell": dataclasses.replace(cell(), where=Where("config.yaml", 9)),
    }
    assert run_key(**same) == run_key(**ASKED)
    assert len(run_key(**ASKED)) == 64
    changed = dataclasses.replace(service, argv=(Item("serve2"), *service.argv[1:]))
    assert run_key(**(same | {"deployment": dataclasses.replace(before, services=(changed,))})) != run_key(**ASKED)


def test_nan_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        run_key(**(ASKED | {"replay_settings": {"rate": float("nan")}}))


def test_series_and_facts_name_what_a_reader_compares() -> None:
    assert series(cell(), Source.EMULATED) == "tiny/agentic/h200/vllm/fp8/emulated"
    assert series(cell(spec_decoding="mtp"), Source.MEASURED) == "tiny/agentic/h200/vllm/fp8/mtp/measured"
    known = facts(cell(kind="fixed-seq-len"))
    assert (known["isl"], known["hardware"], known["arm"]) == (1024, "h200", "TP2")
    assert None not in known.values() and "duration_s" not in known
    assert point_id("k", 2) == "k.2"
