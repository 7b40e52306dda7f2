"""Ridgeline's own run folders.

In: a run folder, finished or still growing. Out: its run with every stored point, the last failure of each cell
without one, what the sweep stored beside a point (evidence, expectations, ...), records and samples. `derive` works
every measure and gate out again from the records; what the sweep added (contradicted expectations) stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeline.core.cell import digest
from ridgeline.core.deployment import Deployment
from ridgeline.core.point import Point
from ridgeline.results import formats, validity
from ridgeline.results.importers.api import Bundle, Evaluation, Imported, ImportedPoint, ImportedRun, Importer, Notes
from ridgeline.results.runfolder import EVALUATION, Failure, RunHeader, StoredCell, with_evaluation

ORIGIN = "ridgeline"
_FILES = ("run.json", "evals/eval_*/evaluation.json", "cells/*/*.json", "cells/*/*.parquet", "failures/*/failure.json")
_NAMED = ("cell.json", "point.json", "deployment.json")
_SLO = ("ttft_s", "itl_s", "e2e_s")


def take(path: Path) -> Bundle | None:
    """A folder with a run.json of ours. Logs stay where they are."""
    if not path.is_dir() or not (path / "run.json").is_file():
        return None
    bundle = Bundle.of_folder(path, _FILES)
    unfinished = [name for name in bundle.files if "/.unfinished-" in f"/{name}"]
    return Bundle(bundle.title, {name: file for name, file in bundle.files.items() if name not in unfinished})


def read(bundle: Bundle, derive: bool = False) -> Imported:
    """The run. Its key follows from the header without later resumptions, so that a folder that grew is the same."""
    notes = Notes()
    header = formats.RUN.decode(bundle.files["run.json"].read_bytes(), RunHeader, str(bundle.files["run.json"]))
    folders: dict[str, list[str]] = defaultdict(list)
    for name in bundle.files:
        if name.startswith("cells/"):
            folders[name.rpartition("/")[0]].append(name.rpartition("/")[2])
    points = [
        _point(bundle, folder, names, derive) for folder, names in sorted(folders.items()) if "point.json" in names
    ]
    for folder, names in folders.items():
        if "point.json" not in names:
            notes.add("cell without point", "the sweep did not finish it", folder)
    done = {item.point.run_key for item in points}
    run = ImportedRun(
        origin=ORIGIN,
        key=digest([header.name, header.created_at, list(header.command), formats_plain(header.host)]),
        name=header.name,
        started_at=header.created_at,
        header={
            "command": list(header.command),
            "settings": formats_plain(header.settings),
            "host": formats_plain(header.host),
            "ridgeline": header.ridgeline,
        },
        points=_repeats(points),
        failures=_failures(bundle, done),
        evaluations=_evaluations(bundle),
    )
    return Imported(format=IMPORTER.name, version=IMPORTER.version, runs=(run,), unmapped=notes.all())


def _evaluations(bundle: Bundle) -> tuple[Evaluation, ...]:
    """Accuracy evaluations of the run, one a cell and task."""
    found = []
    for name in bundle.matching("evals/eval_*/evaluation.json"):
        told = bundle.data(name)
        line, task = str(told["name"]).rpartition("/")[0], str(told["task"])
        found.append(
            Evaluation(
                key=f"{line}/{task}/c{told['concurrency']}",
                task=task,
                metric=told.get("metric") or "none",
                score=told.get("score"),
                stderr=told.get("stderr"),
                n=told.get("samples"),
                line=line,
                concurrency=told["concurrency"],
                measured_at=None,
                facts={"status": told["status"], "bar": told.get("bar"), "source": told["source"]},
            )
        )
    return tuple(found)


def formats_plain(value: Any) -> Any:
    """Plain JSON data of anything a run folder holds."""
    import json

    return json.loads(formats.encode_plain(value))


def _repeats(points: list[ImportedPoint]) -> tuple[ImportedPoint, ...]:
    """Stored attempts of one run key are repeats: a sweep measures a finished cell again only when asked to. A point
    that names its repeat keeps it, and then a later attempt of that repeat supersedes an earlier one."""
    counted: dict[str, int] = defaultdict(int)
    found = []
    for item in sorted(points, key=lambda item: (item.point.run_key, item.point.attempt)):
        counted[item.point.run_key] += 1
        named = item.point.provenance.get("repeat", item.point.facts.get("repeat"))
        found.append(replace(item, repeat=named if isinstance(named, int) else counted[item.point.run_key]))
    return tuple(sorted(found, key=lambda item: (item.point.line, item.point.concurrency, item.repeat, item.point.id)))


def _point(bundle: Bundle, folder: str, names: list[str], derive: bool) -> ImportedPoint:
    def path(name: str) -> Path:
        return bundle.files[f"{folder}/{name}"]

    point = formats.POINT.decode(path("point.json").read_bytes(), Point, str(path("point.json")))
    stored = formats.CELL.decode(path("cell.json").read_bytes(), StoredCell, str(path("cell.json")))
    records = path("records.parquet") if "records.parquet" in names else None
    samples = path("samples.parquet") if "samples.parquet" in names else None
    deployment = None
    if "deployment.json" in names:
        file = path("deployment.json")
        deployment = formats.DEPLOYMENT.decode(file.read_bytes(), Deployment, str(file))
    if derive and records is not None:
        point = derived(point, stored, records, samples)
    if EVALUATION in names:
        point = with_evaluation(point, path(EVALUATION))
    documents = {
        name.removesuffix(".json"): bundle.data(f"{folder}/{name}")
        for name in sorted(names)
        if name.endswith(".json") and name not in _NAMED
    }
    documents["cell"] = stored.cell
    if deployment is not None:
        documents["deployment"] = formats_plain(deployment)
    return ImportedPoint(
        point=point,
        asked=_asked(point, stored, deployment),
        found=_found(point, documents.get("found")),
        documents=documents,
        records=records,
        samples=samples,
    )


def derived(point: Point, stored: StoredCell, records: Path, samples: Path | None) -> Point:
    """The point worked out again from its records by this version's formulas and gates.

    Identity, facts and provenance stay. Reasons and cautions that no gate of ours gives (expectations that the
    evidence contradicted) stay as well, and the validity is the worse of what they meant and what is found now.
    """
    from ridgeline.results.aggregate import aggregate
    from ridgeline.results.metrics import Slo
    from ridgeline.results.samples import read_samples

    limits = point.facts.get("slo")
    slo = Slo(**{name: limits.get(name) for name in _SLO}) if isinstance(limits, Mapping) else None
    fresh = aggregate(
        records,
        cell=stored.cell,
        source=point.source,
        run_key=point.run_key,
        attempt=point.attempt,
        gpus=point.gpus,
        slo=slo,
        samples=read_samples(samples) if samples else None,
        measured_at=point.measured_at,
        provenance=point.provenance,
    )
    kept = tuple(reason for reason in point.reasons if reason.partition(":")[0] not in validity.CODES)
    cautions = tuple(caution for caution in point.cautions if caution.code not in validity.CODES)
    judged = fresh.validity if not kept else validity.worst(fresh.validity, point.validity)
    return replace(
        point,
        measures={**{k: v for k, v in point.measures.items() if k not in fresh.measures}, **fresh.measures},
        validity=judged,
        reasons=(*fresh.reasons, *kept),
        cautions=(*fresh.cautions, *cautions),
    )


def _asked(point: Point, stored: StoredCell, deployment: Deployment | None) -> dict[str, Any]:
    """What was decided before the start: the parts of the run key."""
    provenance = point.provenance
    found = {
        "cell": point.cell_fingerprint,
        "deployment": deployment.digest if deployment else None,
        "recipe": deployment.recipe if deployment else provenance.get("recipe"),
        "image": stored.cell.benchmark.image,
        "model_revision": provenance.get("model_revision"),
        "trace": provenance.get("trace_digest", provenance.get("trace")),
        "settings": provenance.get("settings"),
    }
    if deployment:
        for service in deployment.services:
            found[f"argv.{service.name}"] = " ".join(str(item) for item in service.argv)
            found |= {f"env.{service.name}.{name}": str(item) for name, item in service.env}
    return {name: value for name, value in found.items() if value not in (None, "")}


_NOT_FOUND_THEN = ("recipe", "trace", "trace_digest", "settings", "repeat", "model_revision")


def _found(point: Point, document: Any) -> dict[str, Any]:
    """What only the start told: the rest of the provenance, and the sweep's `found` document."""
    told = {name: value for name, value in point.provenance.items() if name not in _NOT_FOUND_THEN}
    return {**told, **(document if isinstance(document, Mapping) else {})}


def _failures(bundle: Bundle, done: set[str]) -> tuple[Failure, ...]:
    last: dict[str, Failure] = {}
    for name in bundle.matching("failures/*/failure.json"):
        file = bundle.files[name]
        failure = formats.FAILURE.decode(file.read_bytes(), Failure, str(file))
        before = last.get(failure.run_key)
        if failure.run_key not in done and (before is None or failure.attempt > before.attempt):
            last[failure.run_key] = failure
    return tuple(last[key] for key in sorted(last))


IMPORTER = Importer("ridgeline", 1, "Ridgeline's own run folders", take, read)
