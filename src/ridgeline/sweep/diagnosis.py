"""What is known of a run's cells while it goes on and after, and which layer failed, with its evidence.

In: a run folder. Out: one `CellState` a cell, joined from points, failures and the live state; and for a failure the
layer, the cause as far as signs tell, and the lines that show it. Nothing is guessed: without a sign the cause is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.point import Point
from ridgeline.launch.autopsy import tail
from ridgeline.launch.blame import Sign, blame
from ridgeline.launch.raised import first_raised
from ridgeline.launch.secrets import scrubbed, values_of
from ridgeline.results.runfolder import KEY_DIGITS, Failure, RunFolder
from ridgeline.sweep.evaluation.scored import is_scored
from ridgeline.sweep.live import LIVE, read_state

# In the order a cell passes them.
LAYERS = (
    "check", "scheduler", "node", "image", "weights", "engine start", "ready", "load", "replay", "metrics",
    "evaluation",
)  # fmt: skip
JOB_RUNS = "jobs/*/run"  # run folders of a cluster's jobs, see sweep/slurm.py
TAIL_LINES = 400
SHOWN_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CellState:
    """One cell. `state`: waiting, under way (begin, start, ready, replay), done, failed, or lost: its sweep was killed.
    `step`: the last thing that was noted of it, also where that is not its state any more."""

    name: str
    run_key: str
    state: str
    step: str = ""
    text: str = ""
    since: float | None = None  # Unix time of its last step
    point: Point | None = None
    failure: Failure | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    start: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    containment: Mapping[str, str] = field(default_factory=dict)  # what holds each service, see design/containment.md
    engine: str = ""  # folder of the live state with its engine's logs: that of the first cell on it


class RunState(NamedTuple):
    """A run. `alive`: its process lives on this machine; None where no state was written."""

    cells: tuple[CellState, ...]
    alive: bool | None
    began: float | None
    at: float | None


class Diagnosis(NamedTuple):
    """Why a cell has no clean point."""

    layer: str
    message: str
    blame: str
    advice: str
    lines: tuple[str, ...]  # `file: line` that show it
    files: tuple[Path, ...]


def run_state(folder: RunFolder) -> RunState:
    """Every cell of a run, in the order of its plan; cells of earlier plans come last."""
    live = read_state(folder.path)
    points = {point.run_key: point for point in folder.points()}
    failures = {failure.run_key: failure for failure in folder.failures()}
    alive = bool(live["alive"]) if live else None
    planned = {entry["run_key"]: entry for entry in (live or {}).get("cells", [])}
    planned |= _in_jobs(folder, planned)
    cells = [_cell(entry, points, failures, folder, alive=alive) for entry in planned.values()]
    for key, point in points.items():
        if key not in planned:
            cells.append(CellState(name=point.name, run_key=key, state="done", point=point))
    for key, failure in failures.items():
        if key not in planned:
            cells.append(CellState(name=failure.name, run_key=key, state="failed", failure=failure))
    return RunState(tuple(cells), alive, live["began"] if live else None, live["at"] if live else None)


def _in_jobs(folder: RunFolder, planned: Mapping[str, Any]) -> dict[str, Any]:
    """Cells that jobs of a cluster have under way, as the sweeps inside those jobs tell; the queue's words stay."""
    found: dict[str, Any] = {}
    for place in sorted(folder.path.glob(JOB_RUNS)):
        for entry in (read_state(place) or {}).get("cells", []):
            queued = planned.get(entry["run_key"])
            if (
                queued is not None
                and queued["state"] == "start"
                and entry["state"] not in ("waiting", "done", "failed")
            ):
                text = f"{entry.get('text', '')} ({queued.get('text', '')})"
                found[entry["run_key"]] = {**entry, "name": queued["name"], "text": text}
    return found


def _cell(
    entry: Mapping[str, Any],
    points: Mapping[str, Point],
    failures: Mapping[str, Failure],
    folder: RunFolder,
    *,
    alive: bool | None,
) -> CellState:
    key, state = entry["run_key"], entry["state"]
    steps = entry.get("steps") or []
    point, failure = points.get(key), failures.get(key)
    if point is not None or is_scored(folder.path, key):
        state = "done"
    elif failure is not None and state in ("failed", "waiting"):
        state = "failed"
    elif state not in ("waiting", "failed") and not alive:
        state = "lost"
    return CellState(
        name=entry["name"],
        run_key=key,
        state=state,
        step=entry["state"],
        text=entry.get("text", ""),
        since=steps[-1]["at"] if steps else None,
        point=point,
        failure=failure,
        engine=entry.get("engine", ""),
        progress=entry.get("progress", {}),
        start=entry.get("start", {}),
        containment=entry.get("containment") or (point.provenance.get("containment", {}) if point else {}),
    )


def eta_s(state: RunState, now: float) -> float | None:
    """Seconds until all cells are done, from the mean time of those done in this start. None before the first."""
    done = [cell for cell in state.cells if cell.state in ("done", "failed") and cell.since is not None]
    left = sum(cell.state in ("waiting", "begin", "start", "ready", "replay", "progress") for cell in state.cells)
    if not done or state.began is None or not left or not state.alive:
        return None
    last = max(cell.since or 0.0 for cell in done)
    return max(0.0, (last - state.began) / len(done) * left - (now - last))


def log_files(folder: RunFolder, cell: CellState) -> tuple[Path, ...]:
    """Logs of a cell: of its point, of its last failure, or of the engine that it is under way on."""
    key = cell.run_key[:KEY_DIGITS]
    if folder.finished(cell.run_key):
        places = [folder.cell_folder(cell.run_key) / "logs"]
    else:
        runs = (folder.path, *sorted(folder.path.glob(JOB_RUNS)))
        places = [run / LIVE / (cell.engine or key) for run in runs] if cell.state not in ("waiting", "failed") else []
        tries = sorted((folder.path / "failures" / key).glob("[0-9]*"), key=lambda path: int(path.name))
        places += [tries[-1] / "logs"] if tries else []
    return tuple(file for place in places if place.is_dir() for file in sorted(place.iterdir()) if file.is_file())


def diagnose(folder: RunFolder, cell: CellState) -> Diagnosis | None:
    """Why a cell failed, was lost, or is not valid; None for one that is fine or still waits."""
    files = log_files(folder, cell)
    if cell.failure is not None and cell.point is None:
        sign = blame([cell.failure.message, *("\n".join(tail(file, TAIL_LINES)) for file in files)])
        fault = str(cell.failure.detail.get("blame", "unknown"))
        advice = cell.failure.hint or (sign.advice if sign else "")
        lines = tuple(_evidence(files, sign))
        return Diagnosis(cell.failure.layer, cell.failure.message, fault, advice, lines, files)
    if cell.state == "lost":
        layer = lost_in(cell.step, cell.start)
        message = f"the sweep was killed while this cell was in `{cell.text or layer}`"
        return Diagnosis(layer, message, "unknown", "run the same command again: it goes on here",
                         tuple(_evidence(files, None)), files)  # fmt: skip
    if cell.point is not None and cell.point.reasons:
        codes = {reason.partition(":")[0] for reason in cell.point.reasons}
        advice = next((caution.hint for caution in cell.point.cautions if caution.hint and caution.code in codes), "")
        return Diagnosis("metrics", "; ".join(cell.point.reasons), "unknown", advice, (), files)
    return None


def lost_in(step: str, start: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The layer that a cell was in when its sweep was killed, by its last step and the phases of its services."""
    if step == "start":
        now = [phases[-1]["name"] for phases in start.values() if phases and phases[-1].get("ended") is None]
        return next((name for name in now if name in LAYERS), "engine start")
    return {"begin": "node", "ready": "ready"}.get(step, "replay")


def _evidence(files: Sequence[Path], sign: Sign | None) -> Iterator[str]:
    """The lines that show the sign, or else the first error and the last lines of each log."""
    values = values_of()
    for file in files:
        lines = tail(file, TAIL_LINES)
        first = None if sign else first_raised(lines)
        if first is not None:
            yield scrubbed(f"{file.name}: first error: {first}", values)
        telling = [line for line in lines if sign and sign.pattern.search(line)]
        for line in telling[-3:] if sign else lines[-SHOWN_LINES:]:
            yield scrubbed(f"{file.name}: {line[:400]}", values)
