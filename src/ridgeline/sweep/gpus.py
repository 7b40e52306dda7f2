"""What the GPUs did during a cell: the recordings of its nodes as one table, a summary by device, and energy.

In: raw recordings by node (launch/telemetry.py), the cell and its deployment. Only devices that the cell occupies
count: those its services name, else those visible to them, else the first ones of the node, as engines number them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.point import Point
from ridgeline.core.record import Replay
from ridgeline.launch.telemetry import Sample, read_samples, summary, table
from ridgeline.results.power import Power, energy_of

VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """One cell's. `samples`: of its own devices, called `NODE:GPU` where there are several nodes."""

    samples: tuple[Sample, ...]
    power: Power

    @property
    def table(self) -> str:
        """What is stored beside the records."""
        return table(self.samples)

    @property
    def plain(self) -> dict[str, Any]:
        """Summary by device and the energy's own account, for telemetry.json."""
        return {"devices": [asdict(device) for device in summary(self.samples)], "power": dict(self.power.sidecar)}


def gpu_record(
    recordings: Mapping[str, str], cell: Cell, deployment: Deployment, replay: Replay, point: Point
) -> GpuRecord | None:
    """The record of a cell; None where nothing was recorded. `recordings`: by node, in the order of the nodes."""
    if not any(recordings.values()):
        return None
    samples: list[Sample] = []
    for number, (node, text) in enumerate(recordings.items()):
        found = read_samples(text)
        own = devices(cell, deployment, number, len(recordings))
        for sample in found:
            if own is None or sample.gpu in own:
                samples.append(replace(sample, gpu=f"{node}:{sample.gpu}") if len(recordings) > 1 else sample)
    kept = tuple(samples)
    return GpuRecord(kept, energy_of(table(kept) if kept else "", replay, point, cell.gpus))


def devices(
    cell: Cell, deployment: Deployment, node: int, nodes: int, environ: Mapping[str, str] | None = None
) -> frozenset[str] | None:
    """Numbers of the devices that a cell occupies on one of its nodes; None for all of them."""
    here = [service for service in deployment.services if (service.node or 0) == node]
    named = {str(gpu) for service in here for gpu in service.gpus or ()}
    if named:
        return frozenset(named)
    found = os.environ if environ is None else environ
    own = {name: item.text for service in here for name, item in service.env}
    for name in VISIBLE:
        if (said := own.get(name, found.get(name))) and all(part.strip().isdigit() for part in said.split(",")):
            return frozenset(part.strip() for part in said.split(","))
    return frozenset(map(str, range(cell.gpus))) if nodes == 1 else None
