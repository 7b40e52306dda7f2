"""What a rule is asked about: one cell with everything that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Service
from ridgeline.engine.builds import Build, build_of
from ridgeline.engine.formats import Formats, formats_run
from ridgeline.engine.launch import Launch
from ridgeline.engine.launched import kind_of, launches_of
from ridgeline.engine.sizing import Sizing, size
from ridgeline.plan.checks.workload import Workload
from ridgeline.spec.facts.acceptance import Curve
from ridgeline.spec.facts.builds import Dump
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.model import ModelArch
from ridgeline.spec.facts.observations import Observation
from ridgeline.spec.facts.tuning import TuningTable
from ridgeline.spec.settings import Fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What checks know beyond the cell. `shorter`: requests may be capped below the model's own length."""

    observations: Sequence[Observation] = ()
    dumps: Sequence[Dump] = ()
    tables: Sequence[TuningTable] = ()
    tables_given: bool = False  # somebody said where tables lie, so that none for a shape means none
    curves: Sequence[Curve] = ()
    shorter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One cell. `deployment` None: no recipe writes it, `why` says so."""

    cell: Cell
    arch: ModelArch
    gpu: Gpu
    formats: Formats
    fleet: Fleet | None
    workload: Workload
    known: Knowledge = field(default_factory=Knowledge)
    deployment: Deployment | None = None
    launches: tuple[Launch, ...] = ()
    why: str = ""

    @property
    def build(self) -> Build:
        """The engine build that the cell's image names."""
        benchmark = self.cell.benchmark
        return build_of(benchmark.image, kind_of(benchmark.framework))

    @property
    def free_gib(self) -> float | None:
        """Memory an engine found free on this fleet's GPUs."""
        return self.fleet.free_memory_gib if self.fleet else None

    @property
    def router(self) -> Service | None:
        services = self.deployment.services if self.deployment else ()
        return next((service for service in services if service.role == "router"), None)

    def sizing(self, launch: Launch) -> Sizing:
        """Memory of one launch."""
        image = self.cell.benchmark.image
        return size(launch, self.arch, self.gpu, self.formats, self.known.observations, image)

    def launch(self, name: str) -> Launch:
        """The launch of the service with this name."""
        return next(item for item in self.launches if item.service.name == name)

    def dump(self) -> Dump | None:
        """The dump of exactly this image, else of this released version; None when none was made."""
        build, image = self.build, self.cell.benchmark.image
        version = ".".join(map(str, build.version))
        mine = [d for d in self.known.dumps if d.image == image]
        same = [d for d in self.known.dumps if (d.kind, d.version.split("+")[0]) == (build.kind, version)]
        return next(iter([*mine, *([] if build.assumed else same)]), None)

    def no_dump(self, what: str) -> str:
        """The sentence that `what` is not known, as no dump of this build was made."""
        named = "an unnamed build" if self.build.assumed else self.build.name
        return f"{what} is not known for {named} (`{self.cell.benchmark.image}`): no dump of it"

    def with_service(self, service: Service) -> Subject:
        """The same cell with one service replaced, read anew."""
        assert self.deployment is not None
        services = tuple(service if s.name == service.name else s for s in self.deployment.services)
        return bind(self, replace(self.deployment, services=services))


def bind(subject: Subject, deployment: Deployment) -> Subject:
    """The subject with a deployment and the launches it holds."""
    launches = launches_of(deployment, subject.build, subject.gpu, subject.arch.family)
    return replace(subject, deployment=deployment, launches=launches, why="")


def formats_for(cell: Cell, arch: ModelArch, gpu: Gpu) -> Formats:
    """The weight formats a cell runs with."""
    return formats_run(arch, cell.benchmark.precision, gpu)
