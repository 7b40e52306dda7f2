"""The gate's policy as data: labels and what they do, who may command, images, languages, sign-off.

In: a YAML file, or nothing for InferenceX's own policy, shipped as the example. Out: a frozen `GatePolicy`, or an
`InputError` with every problem at its line. No decision is made here.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ridgeline.core.errors import Problem
from ridgeline.publish.gate.policy_schema import POLICY
from ridgeline.spec import schema
from ridgeline.spec.schema import Fault
from ridgeline.spec.tree import Document, fail_if, parse, parse_file


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep label starts. `trimmed`: only the lowest concurrency of each recipe."""

    label: str
    trimmed: bool
    canary: bool
    fail_fast: bool
    reusable: bool


@dataclass(frozen=True, slots=True)
class Modifier:
    """A label that changes a sweep and starts none. `effect`: all-evals, evals-only, fast or skip-queue."""

    label: str
    effect: str
    reusable: bool


@dataclass(frozen=True, slots=True)
class Paths:
    """Where things lie in the repository. Scripts, patches and pages are patterns in which `*` crosses folders."""

    changelog: str
    configs: tuple[str, ...]
    runners: str
    scripts: tuple[str, ...]
    patches: tuple[str, ...]
    generator: tuple[str, ...]
    owners: tuple[str, ...]
    waiver: str

    def is_script(self, path: str) -> bool:
        return matches(path, self.scripts)

    def waiver_of(self, number: int) -> str:
        """The file by which pull request `number` asks for a patch to be accepted."""
        return self.waiver.replace("{pr}", str(number))


@dataclass(frozen=True, slots=True)
class SignOff:
    """Who signs and how. `template`: words that each name an item of the template; `eval_bar`: task -> least score.
    Job patterns match names in lower case."""

    phrase: str
    status: str
    template: tuple[str, ...]
    eval_bar: Mapping[str, float]
    upstream_images: Mapping[str, tuple[str, ...]]
    first_engines: tuple[str, ...]
    throughput_jobs: tuple[str, ...]
    eval_jobs: tuple[str, ...]
    aggregators: tuple[str, ...]
    recipe_links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Language:
    """English and a second language. `twins`: English pages need a twin NAME+suffix in the same change."""

    second: str
    title: bool
    body: bool
    exempt_authors: tuple[str, ...]
    pages: tuple[str, ...]
    suffix: str
    exempt_pages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deprecated:
    """A model prefix, and a scenario where only that one is meant, that takes no new work after `since`."""

    model_prefix: str
    scenario: str | None
    since: datetime.date
    reason: str


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """Everything of a policy file. Mappings keep the order of the file and are read only."""

    repository: str
    paths: Paths
    sweeps: Mapping[str, Sweep]
    modifiers: Mapping[str, Modifier]
    priority_labels: tuple[str, ...]
    recommended: str
    actions: tuple[str, ...]
    skip_marker: str
    canary_buckets: tuple[str, ...]
    fast_duration_s: int
    fast_warmup: int
    normal_warmup: int
    reuse_command: str
    stage_command: str
    associations: tuple[str, ...]
    permissions: tuple[str, ...]
    workflow: str
    result_artifacts: tuple[str, ...]
    metadata_artifact: str
    sign_off: SignOff
    language: Language
    private_registries: tuple[str, ...]
    floating_tags: tuple[str, ...]
    deprecated: tuple[Deprecated, ...]

    @property
    def known_labels(self) -> frozenset[str]:
        """Labels that mean something; a change of any other one starts and cancels nothing."""
        return frozenset((*self.sweeps, *self.modifiers, *self.priority_labels))

    def holds_results(self, artifact: str) -> bool:
        """Whether an artifact of this name holds results."""
        return matches(artifact, self.result_artifacts)


def matches(text: str, patterns: tuple[str, ...]) -> bool:
    """Whether any shell pattern matches the whole text, case-sensitive; `*` crosses slashes."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def load_gate_policy(path: str | Path) -> GatePolicy:
    """Load a policy file. Raises `InputError` with all its problems."""
    return from_document(parse_file(path))


def inferencex_policy() -> GatePolicy:
    """The policy of the InferenceX snapshot we follow, shipped as the example and used when no file is given."""
    from importlib.resources import files

    data = (files("ridgeline.publish.gate") / "data" / "inferencex.yaml").read_bytes()
    return from_document(parse(data, "the built-in gate policy"))


def from_document(document: Document) -> GatePolicy:
    """The policy of a parsed file. Raises `InputError` with all its problems."""
    found: list[Problem] = list(document.problems)
    if document.root is not None:
        faults: list[Fault] = []
        schema.check(POLICY, document.value, (), faults)
        faults += [] if faults else list(_consistent(document.value))
        found += schema.problems(faults, document)
    fail_if(found)
    raw = document.value
    labels, paths, commands, runs = raw["labels"], raw["paths"], raw["commands"], raw["runs"]
    return GatePolicy(
        repository=raw["repository"],
        paths=Paths(
            paths["changelog"],
            tuple(paths["configs"]),
            paths["runners"],
            tuple(paths["scripts"]),
            tuple(paths.get("patches") or ()),
            tuple(paths.get("generator") or ()),
            tuple(paths.get("owners") or ()),
            paths["waiver"],
        ),
        sweeps=MappingProxyType(
            {
                name: Sweep(name, one["matrix"] == "trimmed", one["canary"], one["fail-fast"], one["reusable"])
                for name, one in labels["sweeps"].items()
            }
        ),
        modifiers=MappingProxyType(
            {
                name: Modifier(name, one["effect"], one["reusable"])
                for name, one in (labels.get("modifiers") or {}).items()
            }
        ),
        priority_labels=tuple(labels.get("priority") or ()),
        recommended=labels["recommended"],
        actions=tuple(raw["events"]["actions"]),
        skip_marker=raw["events"]["skip-marker"],
        canary_buckets=tuple(raw["canary"]["buckets"]),
        fast_duration_s=raw["fast-mode"]["duration-s"],
        fast_warmup=raw["fast-mode"]["warmup-requests-per-lane"],
        normal_warmup=raw["normal-mode"]["warmup-requests-per-lane"],
        reuse_command=commands["reuse"],
        stage_command=commands["stage"],
        associations=tuple(commands["associations"]),
        permissions=tuple(commands["permissions"]),
        workflow=runs["workflow"],
        result_artifacts=tuple(runs["results"]),
        metadata_artifact=runs["metadata"],
        sign_off=_sign_off(raw["sign-off"]),
        language=_language(raw["language"]),
        private_registries=tuple(raw["images"]["private-registries"]),
        floating_tags=tuple(raw["images"]["floating-tags"]),
        deprecated=tuple(
            Deprecated(
                one["model-prefix"],
                one.get("scenario"),
                datetime.date.fromisoformat(str(getattr(one["since"], "text", one["since"]))),
                one["reason"],
            )
            for one in raw.get("deprecated") or ()
        ),
    )


def _sign_off(raw: Mapping[str, Any]) -> SignOff:
    return SignOff(
        raw["phrase"],
        raw["status"],
        tuple(raw["template"]),
        MappingProxyType({name: float(value) for name, value in (raw.get("eval-bar") or {}).items()}),
        MappingProxyType({name: tuple(images) for name, images in (raw.get("upstream-images") or {}).items()}),
        tuple(raw.get("first-engines") or ()),
        tuple(raw["jobs"]["throughput"]),
        tuple(raw["jobs"]["evals"]),
        tuple(raw["jobs"].get("aggregators") or ()),
        tuple(raw.get("recipe-links") or ()),
    )


def _language(raw: Mapping[str, Any]) -> Language:
    twins = raw.get("twins") or {}
    return Language(
        raw["second"],
        raw["title"],
        raw["body"],
        tuple(raw.get("exempt-authors") or ()),
        tuple(twins.get("pages") or ()),
        twins.get("suffix") or "",
        tuple(twins.get("exempt") or ()),
    )


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
