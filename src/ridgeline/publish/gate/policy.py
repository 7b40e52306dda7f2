"""The gate's policy: what labels do, who may command, where things lie, and what is asked of a change.

In: one YAML file. Out: a frozen `GatePolicy` that mirrors it, or an `InputError` with every problem at its line.
InferenceX's own policy is shipped as data; nothing of it is in code.
"""

# ruff: noqa: RUF009 (`key` makes a field of a dataclass)
from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ridgeline.core.errors import Problem
from ridgeline.publish.gate.declared import Shape, build, key, labelled, many, named, nested, table, texts
from ridgeline.spec.schema import AMOUNT, FLAG, NAME, POSITIVE, Fault, check, one_of, problems
from ridgeline.spec.settings import DATE
from ridgeline.spec.tree import Document, fail_if, parse, parse_file

_NAMES, _PATTERNS = texts("a list of names"), texts("a list of patterns")
_DAY = Shape(DATE, lambda raw: datetime.date.fromisoformat(str(getattr(raw, "text", raw))))
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a sweep label starts."""

    label: str
    matrix: str = key(one_of("full", "trimmed"), "all points, or the lowest concurrency")
    canary: bool = key(FLAG, "one job goes first")
    fail_fast: bool = key(FLAG, "a failure cancels its family")
    reusable: bool = key(FLAG, "results may be reused at merge")

    @property
    def trimmed(self) -> bool:
        """Whether only the lowest concurrency of each recipe runs."""
        return self.matrix == "trimmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Modifier:
    """A label that changes a sweep and starts none."""

    label: str
    effect: str = key(one_of("all-evals", "evals-only", "fast", "skip-queue"), "what it changes")
    reusable: bool = key(FLAG, "results stay reusable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    sweeps: Mapping[str, Sweep] = key(labelled(Sweep, "a sweep label"), "start a sweep")
    modifiers: Mapping[str, Modifier] = key(labelled(Modifier, "a modifier label"), "change one", _NONE)
    priority: tuple[str, ...] = key(_NAMES, "only change the order of work", ())
    recommended: str = key(NAME, "the sweep label to suggest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Where things lie in the repository. In patterns `*` crosses folders."""

    changelog: str = key(NAME, "the benchmark changelog")
    configs: tuple[str, ...] = key(_NAMES, "master configs, in merge order")
    runners: str = key(NAME, "the runners file")
    scripts: tuple[str, ...] = key(_PATTERNS, "launch scripts; `*` crosses folders")
    recipes: tuple[str, ...] = key(_PATTERNS, "recipe files that name a container", ())
    patches: tuple[str, ...] = key(_PATTERNS, "files that patch an engine", ())
    generator: tuple[str, ...] = key(_NAMES, "files whose length is reported", ())
    owners: tuple[str, ...] = key(_NAMES, "where a CODEOWNERS file may lie, first one wins", ())
    waiver: str = key(NAME, "a waiver's file, with {pr} for the number")

    def waiver_of(self, number: int) -> str:
        """The file by which pull request `number` asks for a patch to be accepted."""
        return self.waiver.replace("{pr}", str(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    actions: tuple[str, ...] = key(_NAMES, "pull-request actions that are looked at")
    skip_marker: str = key(NAME, "text in a commit message that starts no sweep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    buckets: tuple[str, ...] = key(_NAMES, "searched in this order")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fast:
    duration_s: int = key(POSITIVE, "seconds of the measured window")
    warmup_requests_per_lane: int = key(POSITIVE, "requests before it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    warmup_requests_per_lane: int = key(POSITIVE, "requests before the window")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    reuse: str = key(NAME, "asks to reuse a sweep at merge")
    stage: str = key(NAME, "asks to stage results")
    associations: tuple[str, ...] = key(_NAMES, "author associations that may ask for reuse")
    permissions: tuple[str, ...] = key(_NAMES, "permissions that may stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    workflow: str = key(NAME, "path of the sweep's workflow")
    results: tuple[str, ...] = key(_PATTERNS, "artifacts that hold results")
    metadata: str = key(NAME, "artifact that holds the selection")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNames:
    """Patterns over names of jobs in lower case."""

    throughput: tuple[str, ...] = key(_PATTERNS, "names of jobs that measure, in lower case")
    evals: tuple[str, ...] = key(_PATTERNS, "names of jobs that evaluate")
    aggregators: tuple[str, ...] = key(_PATTERNS, "names of jobs that only gather", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalBar:
    """Least score of a task: by model prefix, else by task, else the default."""

    default: float = key(AMOUNT, "of a task that is not named")
    tasks: Mapping[str, float] = key(named(AMOUNT, "a mapping of tasks to scores"), "of a task", _NONE)
    models: Mapping[str, Mapping[str, float]] = key(
        named(named(AMOUNT, "a mapping of tasks to scores"), "a mapping of model prefixes"), "of a model's task", _NONE
    )

    def of(self, model: str | None, task: str) -> float:
        """The bar for a task of a model."""
        of_model = self.models.get(model or "", {})
        return of_model.get(task, self.tasks.get(task, self.default))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOff:
    """Who signs and how."""

    phrase: str = key(NAME, "what a signer writes")
    status: str = key(NAME, "commit status")
    template: tuple[str, ...] = key(_NAMES, "a word of each item to be ticked")
    eval_bar: EvalBar = key(nested(EvalBar, "the evaluations' bar"), "least accuracy")
    upstream_images: Mapping[str, tuple[str, ...]] = key(
        named(_NAMES, "a mapping of engines to repositories"), "images of an engine's own project", _NONE
    )
    first_engines: tuple[str, ...] = key(_NAMES, "engines that must exist before others", ())
    jobs: JobNames = key(nested(JobNames, "the jobs"), "what counts as really executed")
    recipe_links: tuple[str, ...] = key(_PATTERNS, "addresses where recipes are published", ())
    teams: Mapping[str, tuple[str, ...]] = key(
        named(_NAMES, "a mapping of teams to accounts"), "members, where GitHub is not asked: ORG/TEAM", _NONE
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """English pages need a twin NAME+suffix in the same change."""

    pages: tuple[str, ...] = key(_PATTERNS, "pages that need a twin")
    suffix: str = key(NAME, "before the file's extension")
    exempt: tuple[str, ...] = key(_PATTERNS, "pages that need none", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    second: str = key(one_of("zh-Hans"), "beside English")
    title: bool = key(FLAG, "asked of titles")
    body: bool = key(FLAG, "asked of descriptions")
    exempt_authors: tuple[str, ...] = key(_PATTERNS, "authors that are not asked", ())
    twins: Twins | None = key(nested(Twins, "the twins"), "pages in both languages", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """What is said once to a change of these files, in every language the repository keeps."""

    actions: tuple[str, ...] = key(_NAMES, "pull-request actions that bring it up")
    paths: tuple[str, ...] = key(_PATTERNS, "changed files that it is about")
    text: str = key(NAME, "the comment, as Markdown; {label} is the recommended label")


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    private_registries: tuple[str, ...] = key(_PATTERNS, "hosts nobody outside can pull from")
    floating_tags: tuple[str, ...] = key(_NAMES, "tags that move")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecated:
    """A model prefix, and a scenario where only that one is meant, that takes no new work after `since`."""

    model_prefix: str = key(NAME, "exact")
    scenario: str | None = key(one_of("fixed-seq-len", "agentic-coding"), "left out: both", None)
    since: datetime.date = key(_DAY, "no new work from this day")
    reason: str = key(NAME, "for people")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """Everything of a policy file. Mappings keep the order of the file and are read only."""

    version: int = key(one_of(1), "format of this file")
    repository: str = key(NAME, "ORGANISATION/NAME")
    paths: Paths = key(nested(Paths, "the paths"), "where things lie")
    labels: Labels = key(nested(Labels, "the labels"), "what labels do")
    events: Events = key(nested(Events, "the events"), "what is looked at")
    canary: Canary = key(nested(Canary, "the canary"), "the job that goes first")
    fast_mode: Fast = key(nested(Fast, "the fast mode"), "the short profile")
    normal_mode: Normal = key(nested(Normal, "the normal mode"), "the normal profile")
    commands: Commands = key(nested(Commands, "the commands"), "comments that command")
    runs: Runs = key(nested(Runs, "the runs"), "workflow runs and artifacts")
    sign_off: SignOff = key(nested(SignOff, "the sign-off"), "the reviewer's sign-off")
    language: Language = key(nested(Language, "the languages"), "two languages")
    images: Images = key(nested(Images, "the images"), "images")
    reminder: Reminder | None = key(nested(Reminder, "the reminder"), "what contributors are told once", None)
    deprecated: tuple[Deprecated, ...] = key(
        many(nested(Deprecated, "a deprecation"), "a list of deprecations"), "what takes no new work", ()
    )

    @property
    def known_labels(self) -> frozenset[str]:
        """Labels that mean something; a change of any other one starts and cancels nothing."""
        return frozenset((*self.labels.sweeps, *self.labels.modifiers, *self.labels.priority))

    @property
    def full_sweeps(self) -> tuple[str, ...]:
        """Labels whose results may be reused or staged."""
        return tuple(name for name, one in self.labels.sweeps.items() if one.reusable)


POLICY = table(GatePolicy, "a gate policy")


def matches(text: str, patterns: tuple[str, ...]) -> bool:
    """Whether any shell pattern matches the whole text, case-sensitive; `*` crosses slashes."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def load_gate_policy(path: str | Path) -> GatePolicy:
    """Load a policy file. Raises `InputError` with all its problems."""
    return from_document(parse_file(path))


def example() -> bytes:
    """The text of the shipped policy."""
    from importlib.resources import files

    return (files("ridgeline.publish.gate") / "data" / "inferencex.yaml").read_bytes()


def inferencex_policy() -> GatePolicy:
    """The policy of the InferenceX snapshot we follow, shipped as the example and used when no file is given."""
    return from_document(parse(example(), "the built-in gate policy"))


def from_document(document: Document) -> GatePolicy:
    """The policy of a parsed file. Raises `InputError` with all its problems."""
    found: list[Problem] = list(document.problems)
    if document.root is not None:
        faults: list[Fault] = []
        check(POLICY, document.value, (), faults)
        faults += [] if faults else list(_consistent(document.value))
        found += problems(faults, document)
    fail_if(found)
    return build(GatePolicy, document.value)


def _consistent(raw: Mapping[str, Any]) -> Iterator[Fault]:
    labels = raw["labels"]
    seen: dict[str, str] = {}
    for kind in ("sweeps", "modifiers", "priority"):
        for name in labels.get(kind) or ():
            if name in seen:
                yield Fault(("labels", kind), f"label `{name}` also stands under {seen[name]}", "keep it in one place")
            seen[name] = kind
    if labels["recommended"] not in labels["sweeps"]:
        hint = f"one of {', '.join(labels['sweeps'])}"
        yield Fault(("labels", "recommended"), "must be one of the sweep labels", hint)
    if "{pr}" not in raw["paths"]["waiver"]:
        yield Fault(("paths", "waiver"), "must hold `{pr}`, where the number goes")
