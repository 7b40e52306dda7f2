"""What becomes of cells: shared starts, failures that stay alone, retries of what the machine did, giving up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ridgeline.core.cell import Arm, Benchmark, Cell, Scenario
from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.point import Source
from ridgeline.core.record import Phases, Record, Replay
from ridgeline.core.topology import Topology
from ridgeline.launch.blame import Blame
from ridgeline.results.runfolder import RunFolder, RunHeader
from ridgeline.sweep import run as sweep_run
from ridgeline.sweep.attempt import Attempt, AttemptFailed
from ridgeline.sweep.events import Event
from ridgeline.sweep.groups import grouped
from ridgeline.sweep.live import LIVE, read_state
from ridgeline.sweep.run import Planned, Summary, Sweep
from ridgeline.sweep.settings import SweepSettings
from ridgeline.sweep.workload import Workload

BENCHMARK = Benchmark("k", "img", "Qwen/Qwen3-8B", "qwen3", "fp8", "emulated", "cluster:h200-nv")
FIXED = Scenario("fixed-seq-len", isl=16, osl=4)


def cell(concurrency: int, tp: int = 1) -> Cell:
    return Cell(BENCHMARK, FIXED, Arm(Topology(tp)), concurrency)


def deploy(cell: Cell) -> tuple[Deployment, Source]:
    """Cells of one topology run on equal deployments."""
    service = Service(name="engine", argv=(Item(f"--tp={cell.gpus}"),))
    return Deployment((service,), "engine", "m", "command"), Source.EMULATED


@dataclass
class FakeStart:
    """An engine that does as it is told: `plan` says, per start, what to raise at its start or its n-th replay."""

    deployment: Deployment
    folder: Path
    speed: float
    on_step: Callable[[Any, str], None] = lambda kind, text: None
    on_progress: Callable[[Any], None] = lambda progress: None
    on_start: Callable[[str, Any], None] = lambda service, phases: None
    wrap: Any = None
    machines: Any = None
    owner: str = ""
    start_s: float = 3.0
    logs: dict[str, Path] = field(default_factory=dict)
    telemetry: Any = None
    served: int = 0
    containment: Mapping[str, str] = field(default_factory=lambda: {"engine": "pid-namespace"})
    usable: bool = True
    plan: dict[int, AttemptFailed] = field(default_factory=dict)
    starts: ClassVar[list[FakeStart]] = []
    plans: ClassVar[list[dict[int, AttemptFailed]]] = []

    def __enter__(self) -> FakeStart:
        self.plan = self.plans.pop(0) if self.plans else {}
        self.starts.append(self)
        if 0 in self.plan:
            raise self.plan[0]
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def finish(self) -> None:
        """Nothing is left behind."""

    def answer(self, task: str, ask: Callable[[str], Any]) -> Any:
        self.served += 1
        try:
            return ask("http://127.0.0.1:1")
        except EnvironmentFailed as error:
            raise AttemptFailed("evaluation", error.message, hint=error.hint, logs={}) from error

    def replay(self, cell: Cell, load: object) -> Attempt:
        self.served += 1
        if self.served in self.plan:
            self.usable = False
            raise self.plan[self.served]
        records = tuple(
            Record(request_id=n, phase="profiling", lane=0, tree=n, session_id="s", conversation_id="s", turn_index=0,
                   sent_ns=n, first_byte_ns=n + 1, first_token_ns=n + 1, last_token_ns=n + 2, end_ns=n + 2,
                   prompt_tokens=16, completion_tokens=4)
            for n in range(40)
        )  # fmt: skip
        phases = Phases(profiling_start_ns=0, profiling_end_ns=100, drained_ns=100)
        return Attempt(Replay(records=records, phases=phases), {}, {"served_before": self.served - 1}, {})


def died(layer: str = "replay", blamed: Blame = Blame.UNKNOWN) -> AttemptFailed:
    return AttemptFailed(layer, "it broke\nwith details", hint=None, logs={}, blamed=blamed)


@pytest.fixture
def sweep_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sweep_run, "EngineStart", FakeStart)
    FakeStart.starts.clear()
    FakeStart.plans.clear()

    def run(*cells: Cell, plans: list[dict[int, AttemptFailed]] | None = None, **options: Any):
        FakeStart.plans.extend(plans or [])
        events: list[Event] = []
        settings = SweepSettings(requests_per_lane=1, fixed_warmup_per_lane=0)
        sweep = Sweep(cells, settings, Workload(settings), deploy, listen=events.append, **options)
        with RunFolder.create_or_open(tmp_path / "run", RunHeader(name="r", created_at="2026-01-01T00:00:00Z")) as f:
            summary = sweep.run(f)
        return summary, RunFolder.open(tmp_path / "run"), events

    return run


def test_equal_deployments_share_a_start_and_others_do_not(sweep_of) -> None:
    summary, folder, _ = sweep_of(cell(1), cell(1, tp=2), cell(2), cell(4))
    assert summary == Summary(4, 0, 0, 0)
    assert [start.served for start in FakeStart.starts] == [3, 1]
    assert len(folder.points()) == 4


def test_repeats_are_measurements_of_their_own_and_more_of_them_come_later(sweep_of, tmp_path: Path) -> None:
    from ridgeline.results.importers import find

    summary, folder, _ = sweep_of(cell(1), cell(2), repeats=2)
    assert summary == Summary(4, 0, 0, 0)
    points = sorted(folder.points(), key=lambda point: (point.concurrency, point.provenance["repeat"]))
    assert [(p.concurrency, p.provenance["repeat"], p.attempt) for p in points] == [(1, 1, 1), (1, 2, 1), (2, 1, 1),
                                                                                   (2, 2, 1)]  # fmt: skip
    assert len({point.run_key for point in points}) == 4 and len({point.line for point in points}) == 1
    summary, folder, events = sweep_of(cell(1), cell(2), repeats=3)
    assert summary == Summary(2, 4, 0, 0), "only the further repeats are run"
    assert [event.title for event in events if event.kind == "done"] == [
        f"{cell(c).name}, repeat 3" for c in (1, 2)
    ]  # fmt: skip
    importer, bundle = find(tmp_path / "run")
    repeats = [item.repeat for item in importer.read(bundle, False).runs[0].points]
    assert repeats == [1, 2, 3, 1, 2, 3], "the store's dimension is the sweep's"


def test_repeats_go_round_by_round_and_the_first_has_the_key_of_a_sweep_without_them() -> None:
    settings = SweepSettings()
    once, thrice = (
        Sweep((cell(1), cell(2)), settings, Workload(settings), deploy, repeats=repeats).plan() for repeats in (1, 3)
    )
    assert [(item.cell.concurrency, item.repeat) for item in thrice] == [(c, r) for r in (1, 2, 3) for c in (1, 2)]
    assert [item.run_key for item in thrice[:2]] == [item.run_key for item in once]


def test_groups_keep_the_order_of_first_cells() -> None:
    items = [Planned(c, deploy(c)[0], Source.EMULATED, str(n)) for n, c in enumerate((cell(1, 2), cell(1), cell(2, 2)))]
    groups = grouped(list(enumerate(items, 1)))
    assert [[index for index, _ in group.members] for group in groups] == [[1, 3], [2]]


def test_the_run_so_far_can_be_looked_at_while_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sweep holds its folder's lock meanwhile; who reads needs none."""
    from ridgeline.cli.main import main

    monkeypatch.setattr(sweep_run, "EngineStart", FakeStart)
    monkeypatch.setattr("ridgeline.sweep.live._lives", lambda pid: True)
    seen: list[tuple[str, str]] = []

    def look(event: Event) -> None:
        if event.kind == "done":
            assert main(["frontier", str(tmp_path / "run")]) == 1, "the stand-in's points are not good enough"
            frontier = capsys.readouterr().out.splitlines()[0]
            assert main(["status", str(tmp_path / "run")]) == 0
            seen.append((frontier, capsys.readouterr().err.partition("; services")[0]))

    settings = SweepSettings(requests_per_lane=1, fixed_warmup_per_lane=0)
    sweep = Sweep([cell(1), cell(2)], settings, Workload(settings), deploy, listen=look)
    with RunFolder.create_or_open(tmp_path / "run", RunHeader(name="r", created_at="2026-01-01T00:00:00Z")) as folder:
        sweep.run(folder)
    assert seen == [
        ("1 not plotted (1 invalid)", "1 done, 1 waiting; running"),
        ("2 not plotted (2 invalid)", "2 done; running"),
    ]


def test_a_cell_that_fails_leaves_the_others_a_new_start(sweep_of) -> None:
    summary, folder, _ = sweep_of(cell(1), cell(2), cell(4), plans=[{2: died()}])
    assert summary == Summary(2, 0, 1, 0)
    assert [failure.concurrency for failure in folder.failures()] == [2]
    assert [start.served for start in FakeStart.starts] == [2, 1]


def test_what_the_recipe_did_is_not_tried_for_every_cell(sweep_of) -> None:
    summary, folder, _ = sweep_of(cell(1), cell(2), cell(1, tp=2), plans=[{0: died("engine start", Blame.RECIPE)}])
    assert summary == Summary(1, 0, 2, 0)
    assert len(FakeStart.starts) == 2, "one start that fails, one for the other engine"
    first, second = folder.failures()
    assert first.detail["blame"] == "recipe"
    assert second.message == "the same engine did not start before: it broke"


def test_what_the_machine_did_is_tried_once_more_as_a_new_attempt(sweep_of) -> None:
    broken = {0: died("node", Blame.INFRASTRUCTURE)}
    summary, folder, _ = sweep_of(cell(1), plans=[broken])
    assert summary == Summary(1, 0, 0, 0)
    assert folder.points()[0].attempt == 2
    summary, folder, _ = sweep_of(cell(2), plans=[broken, broken])
    assert summary.failed == 1


def test_a_run_of_failures_on_one_engine_ends_its_group_only(sweep_of) -> None:
    cells = [cell(n) for n in (1, 2, 4, 8, 16)]
    summary, folder, _ = sweep_of(*cells, cell(1, tp=2), plans=[{1: died()}] * 3)
    assert summary == Summary(1, 0, 5, 0)
    assert len(FakeStart.starts) == 4
    assert folder.failures()[-1].message.startswith("3 cells in a row failed on this engine")


def test_fail_fast_leaves_the_rest(sweep_of) -> None:
    summary, _, _ = sweep_of(cell(1), cell(2), cell(1, tp=2), plans=[{1: died()}], fail_fast=True)
    assert summary == Summary(0, 0, 1, 2)


def test_finished_cells_are_skipped_and_not_started(sweep_of) -> None:
    sweep_of(cell(1))
    FakeStart.starts.clear()
    summary, _, events = sweep_of(cell(1), cell(2))
    assert summary == Summary(1, 1, 0, 0)
    assert [event.kind for event in events] == ["skip", "begin", "done"]


def test_the_state_of_every_cell_can_be_read_back(sweep_of) -> None:
    _, folder, _ = sweep_of(cell(1), cell(2), plans=[{2: died()}])
    state = read_state(folder.path)
    assert state is not None
    assert state["over"]
    assert [(c["state"], c["name"]) for c in state["cells"]] == [
        ("done", "k/16_4/TP1/c1"),
        ("failed", "k/16_4/TP1/c2"),
    ]
    assert [step["step"] for step in state["cells"][0]["steps"]] == ["begin", "done"]
    assert not list((folder.path / LIVE).glob("[0-9a-f]*")), "folders of services go"


def test_a_run_without_state_has_none(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None


def test_an_engine_nobody_launches_is_refused_by_name_before_anything_starts(sweep_of) -> None:
    def trt(c: Cell) -> tuple[Deployment, Source]:
        return replace(deploy(c)[0], kind="trt"), Source.MEASURED

    settings = SweepSettings()
    sweep = Sweep([cell(1)], settings, Workload(settings), trt)
    with pytest.raises(EnvironmentFailed, match="engine kind `trt` is known and not launched yet"):
        sweep.run(None)  # type: ignore[arg-type]  # it must not get that far


def test_a_container_runtime_wraps_every_service_in_the_cells_image(sweep_of, monkeypatch: pytest.MonkeyPatch) -> None:
    from ridgeline.launch import runtimes

    monkeypatch.setattr(runtimes.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sweep_run, "runtime_of", lambda name: runtimes.RUNTIMES[name])
    sweep_of(cell(1), runtime="docker", mounts=(Path("/weights"),))
    (start,) = FakeStart.starts
    assert start.owner, "what an earlier start left is removed first"
    words = start.wrap(Service(name="engine", argv=()), ["vllm", "serve"], {"A": "1"}, Path("/work"))
    assert words[:2] == ["docker", "run"]
    assert words[-3:] == ["img", "vllm", "serve"]
    assert "--volume=/weights:/weights" in words


def test_a_runtime_that_is_missing_ends_the_sweep_before_it_starts(sweep_of) -> None:
    with pytest.raises(EnvironmentFailed, match="`enroot` is not installed"):
        sweep_of(cell(1), runtime="enroot")
    assert FakeStart.starts == []
