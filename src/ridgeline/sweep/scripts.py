"""Cells on what a user starts: a launch script as it is (`shell`), or a command of any kind (`command`).

Both are told about their cell by the variables that InferenceX's launch scripts read (plan/shell/inputs.py), and must
answer at PORT under the name MODEL. Their logs and metrics are read in the words of the cell's framework. What they
leave in their working folder is harvested with the point.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.launch import script_host
from ridgeline.launch.engines import ENGINES
from ridgeline.plan.shell.inputs import environment_of
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.recipes.single import timeout

NAME = "script"
PORTS_IN_A_ROW = 8  # scripts count on from PORT for routers and their metrics
STOP_GRACE_S = 60.0
BESIDE = (".sh", ".py", ".yaml", ".yml", ".json", ".jinja")


@dataclass(frozen=True, slots=True)
class Script:
    """What to start: a script's path (`kind` "shell") or a command line for `sh` ("command"). `environment`: told to it
    on top of its cell's variables. A recipe like any other."""

    kind: str
    text: str
    environment: tuple[tuple[str, str], ...] = ()
    where: Where | None = None

    def __post_init__(self) -> None:
        if self.kind == "shell" and not Path(self.text).is_file():
            raise InputError([Problem(f"there is no file `{self.text}`", self.where, key="shell")])
        if not self.text.strip():
            raise InputError([Problem("must not be empty", self.where, key=self.kind)])

    def __call__(self, cell: Cell, facts: Facts | None, settings: RecipeSettings) -> Deployment:
        """The deployment: one service, whatever it starts."""
        if cell.arm.topology is None:
            message = f"`{cell.name}` has pools on several nodes: one script cannot place them"
            raise InputError([Problem(message, cell.where, hint="a recipe of your own can")])
        told = {**environment_of(cell), **OWN_WORDS, **dict(self.environment)}
        words: tuple[str, ...]
        if self.kind == "shell":
            path = Path(self.text).resolve()
            words = ("{python}", "-I", str(script_host.__file__), str(path))
            told["RIDGELINE_SCRIPT"] = digest_of(path)
        else:
            words = ("sh", "-c", self.text)
        framework = cell.benchmark.framework
        service = Service(
            name=NAME,
            argv=tuple(Item(word, self.where) for word in words),
            env=tuple((name, Item(value, self.where or cell.where)) for name, value in sorted(told.items())),
            spans=(("http", PORTS_IN_A_ROW),),
            readiness=Readiness(path="/v1/models", served_model=cell.benchmark.model, timeout_s=timeout(settings)),
            stop_grace_s=STOP_GRACE_S,
        )
        return Deployment(
            services=(service,),
            entry=NAME,
            served_model=cell.benchmark.model,
            kind=self.kind,
            metrics=(NAME,),
            endpoint=settings.endpoint,
            dialect=framework if framework in ENGINES else None,
        )


# The paths and ports of the contract, as the launcher fills them in.
OWN_WORDS: Mapping[str, str] = {
    "PORT": "{port:http}",
    "RESULT_DIR": "{work}/results",
    "RIDGELINE": "1",
}


def logs_in(work: Path) -> dict[str, Path]:
    """Logs that a script wrote, by their path in its folder."""
    return {path.relative_to(work).as_posix(): path for path in sorted(work.rglob("*.log")) if path.is_file()}


def digest_of(script: Path) -> str:
    """Digest of a script and of what lies beside it and may be included: a change makes other points."""
    found = hashlib.sha256()
    for path in sorted({script, *(path for path in script.parent.iterdir() if path.suffix in BESIDE)}):
        if path.is_file():
            found.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return f"sha256:{found.hexdigest()}"
