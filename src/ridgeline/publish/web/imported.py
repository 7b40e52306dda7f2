"""Result files of other tools, and our own outside a run folder, as a shelf: read by the importers, kept in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ridgeline.core.point import Point
from ridgeline.publish.web.data import Channel, Files
from ridgeline.publish.web.memory import FixedShelf, Held, held
from ridgeline.results import importers
from ridgeline.results.runfolder import RunHeader


class ImportedShelf(FixedShelf):
    """What the importers read at `paths`. Raises InputError when nothing recognises one of them."""

    def __init__(self, paths: Iterable[Path], channel: Channel = "local") -> None:
        self._beside: dict[tuple[str, str], importers.ImportedPoint] = {}
        found: dict[str, Held] = {}
        for path in paths:
            importer, bundle = importers.find(path)
            read = importer.read(bundle, False)
            for run in read.runs:
                one = self._held(run, read.format, found)
                found[one.run.id] = one
        super().__init__(found.values(), channel)

    def files_of(self, held: Held, point: Point) -> Files:
        item = self._beside.get((held.run.id, held.own[point.id]))
        if item is None:
            return Files()
        return Files(records=item.records, samples=item.samples, documents=item.documents)

    def _held(self, run: importers.ImportedRun, format: str, taken: dict[str, Held]) -> Held:
        id = re.sub(r"[^A-Za-z0-9._-]+", "-", run.name).strip("-.")[:60] or run.id
        id = id if id not in taken else run.id
        header = RunHeader(
            name=run.name,
            created_at=run.started_at or "",
            command=tuple(run.header.get("command", ())),
            ridgeline=str(run.header.get("ridgeline", "")),
        )
        for item in run.points:
            self._beside[(id, item.point.id)] = item
        changelog = [
            {"date": entry.date, "description": entry.description, "config_keys": entry.config_keys, "link": entry.link}
            for entry in run.changelog
        ]
        return held(
            id,
            header,
            [item.point for item in run.points],
            run.failures,
            changelog=changelog,
            evaluations=[_scored(one) for one in run.evaluations],
            url=run.url,
            format=format,
        )


def _scored(one: importers.Evaluation) -> dict[str, Any]:
    keys = ("task", "metric", "score", "stderr", "n", "line", "concurrency", "measured_at")
    return {**{key: getattr(one, key) for key in keys}, "source": str(one.facts.get("source") or "measured")}
