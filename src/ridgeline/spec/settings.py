"""`ridgeline.yaml`: what is ours and not InferenceX's, in one optional file.

In: a path, or None for the built-in defaults. Out: frozen `Settings` (fleets, models, recipes, arms, waivers,
prices), or an `InputError` with every problem. It looks nothing up in the world: paths are resolved, not opened.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.spec import schema
from ridgeline.spec.scalars import Trap
from ridgeline.spec.schema import AMOUNT, NAME, POSITIVE, Fault, Field, Kind, Rule, Table
from ridgeline.spec.tree import Document, fail_if, parse, parse_file


@dataclass(frozen=True, slots=True)
class Fleet:
    """Machines of one kind in one place. `free_memory_gib` is what an engine found free on a GPU when it started, on
    `observed`; None means nobody looked. `scheduler` holds options for the cluster's scheduler, as written."""

    runner: str
    gpu: str
    gpus_per_node: int
    free_memory_gib: float | None = None
    observed: datetime.date | None = None
    host_memory_gib: float | None = None
    scheduler: Mapping[str, str] = field(default_factory=dict)
    where: Where | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RecipeOverride:
    """Cells whose name matches `cells` use `recipe`: `package.module:function` or `file.py:function`; by `kind` also a
    launch script's path ("shell") or a command line ("command")."""

    cells: str
    recipe: str
    where: Where | None = field(default=None, compare=False)
    kind: str = "recipe"


@dataclass(frozen=True, slots=True)
class ArmShare:
    """Arms whose cells match `cells` give all their concurrencies the caps of the highest one (`pinned-caps`)."""

    cells: str
    share: str
    where: Where | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Waiver:
    """A finding that is accepted for the cells whose name matches, until the end of the day `until`."""

    rule: str
    cells: str
    reason: str
    until: datetime.date
    where: Where | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything of `ridgeline.yaml`. Mappings are read only."""

    fleets: Mapping[str, Fleet]
    models: Mapping[str, Path]
    recipes: tuple[RecipeOverride, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    prices: Mapping[str, float] = field(default_factory=dict)  # US dollars per GPU-hour, by GPU or by runner
    arms: tuple[ArmShare, ...] = ()
    price_sheet: Path | None = None  # a versioned sheet instead: also what tokens sell for
    file: str | None = None

    def fleet(self, runner: str) -> Fleet | None:
        """The fleet of a runner label: from the file, else built in, else what the label itself says; None when its
        GPU is unknown."""
        return self.fleets.get(runner) or _built_in().get(runner) or _from_label(runner)

    def model(self, name: str, prefix: str) -> Path | None:
        """Where the config.json of a model lies: by full name first, then by model prefix."""
        return self.models.get(name) or self.models.get(prefix)

    def recipe(self, cell_name: str) -> RecipeOverride | None:
        """The first override whose pattern matches."""
        return next((item for item in self.recipes if fnmatchcase(cell_name, item.cells)), None)

    def waiver(self, rule: str, cell_name: str, today: datetime.date) -> Waiver | None:
        """A waiver in force for this rule and cell. An expired one waives nothing."""
        return next(
            (w for w in self.waivers if w.rule == rule and today <= w.until and fnmatchcase(cell_name, w.cells)), None
        )

    def price(self, runner: str) -> float | None:
        """US dollars per GPU-hour, by runner first, then by its GPU; None when no price is given."""
        fleet = self.fleet(runner)
        return self.prices.get(runner, self.prices.get(fleet.gpu) if fleet else None)


def _is_date(value: Any) -> bool:
    return _date(value) is not None


def _date(value: Any) -> datetime.date | None:
    text = value.text if isinstance(value, Trap) else value
    try:
        return datetime.date.fromisoformat(text) if isinstance(text, str) and len(text) == 10 else None
    except ValueError:
        return None


DATE = Kind("a date like 2026-12-31", _is_date, basic="date")
TEXTLIKE = Kind("text, a number or true/false", lambda value: value.__class__ in (str, int, float, bool))


STARTS = ("recipe", "shell", "command")


def _one_start(override: dict[str, Any]) -> Iterator[Fault]:
    given = [name for name in STARTS if override.get(name) is not None]
    if len(given) != 1:
        names = ", ".join(f"`{name}`" for name in STARTS)
        message = f"has {' and '.join(given)}" if given else "says nothing to start"
        yield Fault((), message, f"give exactly one of {names}")


SHARES = ("pinned-caps",)
SHARE = Kind(f"one of {', '.join(SHARES)}", lambda value: value in SHARES)


def _observation_has_a_date(fleet: dict[str, Any]) -> Iterator[Fault]:
    if fleet.get("free-memory-gib") is not None and fleet.get("observed") is None:
        yield Fault(("observed",), "is required with free-memory-gib: say when it was seen", "observed: YYYY-MM-DD")


FLEET = Table(
    "a fleet",
    (
        Field("gpu", NAME, "GPU, e.g. h200, mi355x", required=True),
        Field("gpus-per-node", POSITIVE, "GPUs of one node", required=True),
        Field("free-memory-gib", AMOUNT, "memory an engine found free on a GPU when it started, in GiB", nullable=True),
        Field("observed", DATE, "when that was seen", nullable=True),
        Field("host-memory-gib", AMOUNT, "memory of a node that may be used, in GiB", nullable=True),
        Field(
            "scheduler",
            schema.map_of(TEXTLIKE, "a mapping of options"),
            "options for the cluster's scheduler",
            nullable=True,
        ),
    ),
    (Rule(("free-memory-gib", "observed"), "`free-memory-gib` comes with `observed`.", _observation_has_a_date),),
)
RECIPE = Table(
    "a recipe override",
    (
        Field("cells", NAME, "pattern over cell names (`*`, `?`, `[...]`)", required=True),
        Field("recipe", NAME, "`package.module:function` or `file.py:function`", nullable=True),
        Field("shell", NAME, "a launch script, started as it is", nullable=True),
        Field("command", NAME, "a command line that starts a server at `$PORT`", nullable=True),
    ),
    (Rule(STARTS, "Exactly one of `recipe`, `shell` and `command` is given.", _one_start),),
)
ARM = Table(
    "an arm",
    (
        Field("cells", NAME, "pattern over cell names (`*`, `?`, `[...]`)", required=True),
        Field(
            "share",
            SHARE,
            "pinned-caps: its concurrencies share an engine start, with the caps of the highest",
            required=True,
        ),
    ),
)
WAIVER = Table(
    "a waiver",
    (
        Field("rule", NAME, "id of the check", required=True),
        Field("cells", NAME, "pattern over cell names", required=True),
        Field("reason", NAME, "why the finding is accepted", required=True),
        Field("until", DATE, "last day on which it is", required=True),
    ),
)
SETTINGS = Table(
    "the settings",
    (
        Field(
            "fleets",
            schema.map_of(schema.mapping(FLEET), "a mapping of runner labels to fleets"),
            "by runner label",
            nullable=True,
        ),
        Field(
            "models",
            schema.map_of(NAME, "a mapping of names to paths"),
            "model name or prefix -> its config.json",
            nullable=True,
        ),
        Field(
            "recipes", schema.list_of(schema.mapping(RECIPE), "a list of overrides"), "first match wins", nullable=True
        ),
        Field("arms", schema.list_of(schema.mapping(ARM), "a list of arms"), "how arms share engines", nullable=True),
        Field(
            "waivers",
            schema.list_of(schema.mapping(WAIVER), "a list of waivers"),
            "findings that are accepted",
            nullable=True,
        ),
        Field(
            "prices",
            schema.map_of(AMOUNT, "a mapping of names to numbers"),
            "US dollars per GPU-hour, by GPU or runner",
            nullable=True,
        ),
        Field("price-sheet", NAME, "file of a versioned price sheet, read before `prices`", nullable=True),
    ),
)


def load_settings(path: str | Path | None = None) -> Settings:
    """Settings of a file, or the defaults without one. Raises `InputError` with all problems."""
    if path is None:
        return Settings(MappingProxyType({}), MappingProxyType({}))
    return from_document(parse_file(path))


def from_document(document: Document) -> Settings:
    """Settings of a parsed file. Raises `InputError` with all its problems."""
    found: list[Problem] = list(document.problems)
    if document.root is not None:
        faults: list[Fault] = []
        schema.check(SETTINGS, document.value, (), faults)
        found += schema.problems(faults, document)
    fail_if(found)
    raw = document.value
    folder = Path(document.file).parent
    return Settings(
        fleets=MappingProxyType(
            {name: _fleet(document, name, item) for name, item in (raw.get("fleets") or {}).items()}
        ),
        models=MappingProxyType({name: folder / item for name, item in (raw.get("models") or {}).items()}),
        recipes=tuple(
            RecipeOverride(item["cells"], item[kind], where, kind)
            for item, where in zip(raw.get("recipes") or (), document.places(("recipes",)), strict=True)
            for kind in STARTS
            if item.get(kind) is not None
        ),
        arms=tuple(
            ArmShare(item["cells"], item["share"], where)
            for item, where in zip(raw.get("arms") or (), document.places(("arms",)), strict=True)
        ),
        waivers=tuple(
            Waiver(item["rule"], item["cells"], item["reason"], _sure_date(item["until"]), where)
            for item, where in zip(raw.get("waivers") or (), document.places(("waivers",)), strict=True)
        ),
        prices=MappingProxyType({name: float(item) for name, item in (raw.get("prices") or {}).items()}),
        price_sheet=folder / raw["price-sheet"] if raw.get("price-sheet") else None,
        file=document.file,
    )


def _fleet(document: Document, runner: str, raw: Mapping[str, Any]) -> Fleet:
    return Fleet(
        runner,
        raw["gpu"],
        raw["gpus-per-node"],
        _number(raw.get("free-memory-gib")),
        _date(raw.get("observed")),
        _number(raw.get("host-memory-gib")),
        MappingProxyType({name: _option(value) for name, value in (raw.get("scheduler") or {}).items()}),
        document.where(("fleets", runner), at_key=True),
    )


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _option(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _sure_date(value: Any) -> datetime.date:
    date = _date(value)
    assert date is not None, "the schema lets only dates through"
    return date


@cache
def _built_in() -> Mapping[str, Fleet]:
    from importlib.resources import files

    return from_document(parse((files("ridgeline.spec") / "fleets.yaml").read_bytes(), "the built-in fleets")).fleets


@cache
def _from_label(runner: str) -> Fleet | None:
    """What the label says: its GPU, and four GPUs a node for Grace machines, eight for all others (as the runners
    file of InferenceX has it)."""
    from ridgeline.spec.facts.library import find_gpu

    try:
        gpu = find_gpu(runner).name.lower()
    except InputError:
        return None
    return Fleet(runner, gpu, 4 if gpu.startswith("gb") else 8)
