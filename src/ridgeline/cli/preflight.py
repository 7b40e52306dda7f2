"""What `ridgeline check` needs read: facts, settings, traces and deployments of the cells, as subjects of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.plan.checks.subject import Knowledge, Subject, bind, formats_for
from ridgeline.plan.checks.workload import workload_of
from ridgeline.recipes.registry import Recipe, deployment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.gpu import Gpu
from ridgeline.spec.facts.library import find_gpu, find_model, load_model
from ridgeline.spec.facts.model import ModelArch
from ridgeline.spec.settings import Settings
from ridgeline.sweep.overrides import recipes_with
from ridgeline.sweep.pinned import as_capped, named


@dataclass(slots=True)
class Subjects:
    """Makes subjects, reading each model, GPU and trace once."""

    settings: Settings
    known: Knowledge
    contexts: tuple[int, ...] = ()
    trace: str = ""
    recipes: tuple[Recipe, ...] = field(init=False)
    _models: dict[tuple[str, str], ModelArch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recipes = recipes_with(self.settings)

    def of(self, cell: Cell) -> Subject:
        """The subject of a cell, with its deployment where a recipe writes one. Raises InputError for a model or GPU
        of which no facts are known."""
        arch, gpu = self._facts(cell)
        subject = Subject(
            cell=cell,
            arch=arch,
            gpu=gpu,
            formats=formats_for(cell, arch, gpu),
            fleet=self.settings.fleet(cell.benchmark.runner),
            workload=workload_of(cell, self.contexts, self.trace),
            known=self.known,
        )
        try:
            facts = Facts(arch, gpu, subject.fleet)
            told = RecipeSettings(curves=tuple(self.known.curves))
            deployment = named(cell, deployment_of(as_capped(cell), facts, told, self.recipes))
        except (EnvironmentFailed, InputError) as error:
            return _without(subject, error.message.splitlines()[0])
        if deployment.kind in ("shell", "command"):
            return _without(
                subject, "the settings start it by a script or command of their own: its flags are not known"
            )
        return bind(subject, deployment)

    def _facts(self, cell: Cell) -> tuple[ModelArch, Gpu]:
        benchmark = cell.benchmark
        key = (benchmark.model, benchmark.model_prefix)
        if key not in self._models:
            path = self.settings.model(*key)
            self._models[key] = load_model(path) if path else find_model(benchmark.model)
        fleet = self.settings.fleet(benchmark.runner)
        return self._models[key], find_gpu(fleet.gpu if fleet else benchmark.runner)


def _without(subject: Subject, why: str) -> Subject:
    return replace(subject, why=why)


def contexts_of(path: Path) -> tuple[int, ...]:
    """Context of every request of a trace: input and output tokens. Raises InputError."""
    from ridgeline.trace import load

    corpus = load(path)
    return tuple(
        turn.input_tokens + turn.max_tokens for s in corpus.sessions for c in s.conversations for turn in c.turns
    )


def knowledge(
    configs: Sequence[Path],
    *,
    tables: Sequence[Path] = (),
    golden: Sequence[Path] = (),
    observations: Sequence[Path] = (),
    dumps: Sequence[Path] = (),
    shorter: bool = False,
) -> Knowledge:
    """Everything that is found by path. Golden lengths are also looked for beside the configs and above them; where
    there are none, the shipped ones count. Raises InputError."""
    from ridgeline.spec.facts.acceptance import find_folder, load_curves
    from ridgeline.spec.facts.builds import load_dumps
    from ridgeline.spec.facts.golden import shipped_curves
    from ridgeline.spec.facts.observations import load_observations
    from ridgeline.spec.facts.tuning import load_tables

    near = find_folder(*configs)
    return Knowledge(
        observations=load_observations(observations),
        dumps=load_dumps(dumps),
        tables=load_tables(tables),
        tables_given=bool(tables),
        curves=load_curves([*golden, *([near] if near and not golden else [])]) or shipped_curves(),
        shorter=shorter,
    )
