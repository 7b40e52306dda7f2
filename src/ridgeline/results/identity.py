"""Who a point is: its run key, id, series and facts.

In: what was asked for (cell, deployment, image, model revision, trace, settings, source). Out: text keys. What is
only found after start (versions, drivers, tuning files) is stored beside a point and never part of these keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.core.cell import Cell, canonical, digest
from ridgeline.core.deployment import Deployment
from ridgeline.core.point import Source
from ridgeline.results.formats import POINT


def run_key(
    cell: Cell,
    deployment: Deployment | None,
    *,
    image: str,
    model_revision: str | None,
    trace_digest: str | None,
    replay_settings: Mapping[str, Any],
    source: Source,
) -> str:
    """sha256 (hex) of everything that was asked for; equal keys mean a finished cell need not be run again.

    `deployment` is None where nothing is started (a prediction, a replay against somebody's endpoint). Ports are
    symbolic and origins left out of its digest. A None takes part as None: an unknown revision is not any revision.
    Raises ValueError when the settings hold NaN or infinity.
    """
    return digest(
        {
            "schema": POINT.version,
            "cell": cell.fingerprint,
            "deployment": deployment.digest if deployment else None,
            "image": image,
            "model_revision": model_revision,
            "trace": trace_digest,
            "replay": canonical(replay_settings),
            "source": str(source),
        }
    )


def point_id(key: str, attempt: int = 1) -> str:
    """Run key and attempt: two attempts of one key are two points."""
    return f"{key}.{attempt}"


def hardware(cell: Cell) -> str:
    """The hardware a cell names: its runner label without the `cluster:` prefix."""
    return cell.benchmark.runner.removeprefix("cluster:")


def series(cell: Cell, source: Source) -> str:
    """What gets one colour and one frontier: model/scenario/hardware/engine/precision[/speculation]/source."""
    speculation = [cell.arm.spec_decoding] if cell.arm.spec_decoding != "none" else []
    benchmark = cell.benchmark
    return "/".join(
        [
            benchmark.model_prefix,
            cell.scenario.name,
            hardware(cell),
            benchmark.framework,
            benchmark.precision,
            *speculation,
            str(source),
        ]
    )


def facts(cell: Cell) -> dict[str, Any]:
    """What a reader wants to see of a cell, and filters by: plain JSON data without Nones."""
    benchmark, scenario, arm = cell.benchmark, cell.scenario, cell.arm
    found = {
        "benchmark": benchmark.key,
        "model": benchmark.model,
        "model_prefix": benchmark.model_prefix,
        "precision": benchmark.precision,
        "framework": benchmark.framework,
        "image": benchmark.image,
        "runner": benchmark.runner,
        "hardware": hardware(cell),
        "multinode": benchmark.multinode,
        "disagg": benchmark.disagg,
        "scenario": scenario.kind,
        "scenario_name": scenario.name,
        "isl": scenario.isl,
        "osl": scenario.osl,
        "duration_s": scenario.duration_s,
        "arm": arm.label,
        "topology": canonical(arm.topology) if arm.topology else None,
        "pools": canonical(arm.pools) or None,
        "spec_decoding": arm.spec_decoding,
        "kv_offloading": arm.kv_offloading,
        "kv_offload_backend": canonical(arm.kv_offload_backend) if arm.kv_offload_backend else None,
        "router": canonical(arm.router) if arm.router else None,
        "kv_p2p_transfer": arm.kv_p2p_transfer,
        "cpu_dram_gb": arm.cpu_dram_gb,
        "pinned_caps": arm.pinned_caps,
    }
    return {key: value for key, value in found.items() if value is not None}
