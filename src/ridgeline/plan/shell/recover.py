"""What a dry run recorded becomes a deployment, so that every check of a recipe applies to a script unchanged.

Each argument gets the line of the script that holds its flag; what is put together from parts, or comes from a file
that was not given, gets the line of the launch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.core.dryrun import DryRun, Launch
from ridgeline.core.finding import Finding, Verdict
from ridgeline.core.where import Where
from ridgeline.plan.shell.facts import Facts
from ridgeline.plan.shell.script import parse
from ridgeline.recipes.router import SESSION_HEADER

ORDER = ("cache", "engine", "router")  # the order in which services depend on each other
MODEL_FLAGS = ("--served-model-name", "--model", "--model-path")


class Part(NamedTuple):
    """What a program is in a stack: its name among the services, its role, and the engine's kind."""

    name: str
    role: str
    kind: str = ""


PROGRAMS: tuple[tuple[re.Pattern[str], Part], ...] = (
    (re.compile(r"^vllm serve\b|-m vllm\.entrypoints"), Part("engine", "engine", "vllm")),
    (re.compile(r"-m sglang\.launch_server|^sglang (serve|launch_server)\b"), Part("engine", "engine", "sglang")),
    (re.compile(r"^trtllm-serve\b"), Part("engine", "engine", "trt")),
    (re.compile(r"-m atom\.entrypoints|^atom serve\b"), Part("engine", "engine", "atom")),
    (re.compile(r"-m dynamo\.vllm\b"), Part("engine", "engine", "vllm")),
    (re.compile(r"-m dynamo\.sglang\b"), Part("engine", "engine", "sglang")),
    (re.compile(r"-m dynamo\.trtllm\b"), Part("engine", "engine", "trt")),
    (re.compile(r"^vllm-router\b|^sglang[-_]router\b|-m sglang_router|-m dynamo\.frontend"), Part("router", "router")),
    (re.compile(r"^lmcache\b|-m lmcache"), Part("lmcache", "cache")),
    (re.compile(r"^mooncake_|-m mooncake"), Part("mooncake", "cache")),
    (re.compile(r"^etcd\b"), Part("etcd", "cache")),
    (re.compile(r"^nats-server\b"), Part("nats", "cache")),
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Texts by the names the sandbox knew them by, and how the user knows them."""

    texts: Mapping[str, bytes]
    shown: Mapping[str, str]

    def where(self, name: str | None, line: int | None) -> Where | None:
        return Where(self.shown.get(name, name), line or 0) if name else None


def deployment_of(run: DryRun, sources: Sources) -> Deployment | None:
    """The services of a run, None when it started no engine. Ports are as the script wrote them."""
    found: list[tuple[Part, Launch]] = []
    for launch in run.services:
        part = part_of(launch.argv)
        if part is not None:
            found.append((part, launch))
    found.sort(key=lambda item: ORDER.index(item[0].role))  # stable: by time within a role
    engines = [part for part, _ in found if part.role == "engine"]
    if not engines:
        return None
    services: list[Service] = []
    for part, launch in found:
        same = sum(service.name.split("-")[0] == part.name for service in services)
        before = ORDER[: ORDER.index(part.role)]
        services.append(
            Service(
                name=f"{part.name}-{same}" if same else part.name,
                argv=_argv(launch, sources),
                env=_env(launch, sources),
                ports=(),
                readiness=None,
                after=tuple(service.name for service in services if service.role in before),
                role=part.role,
            )
        )
    routers = [service.name for service in services if service.role == "router"]
    fronts = [service for service in services if service.role == "engine"]
    return Deployment(
        services=tuple(services),
        entry=(routers or [fronts[0].name])[0],
        served_model=_model([item.text for item in fronts[0].argv]),
        kind=engines[0].kind,
        metrics=tuple(service.name for service in fronts),
        recipe="shell script, dry-run",
        session_header=SESSION_HEADER["sglang-router"] if any(_is_sglangs(s) for s in services) else None,
    )


def _is_sglangs(service: Service) -> bool:
    """Whether a service is SGLang's router, which tells sessions apart by a header of its own."""
    return service.role == "router" and any("sglang" in item.text for item in service.argv[:4])


def part_of(argv: Sequence[str]) -> Part | None:
    """What a command line is in a serving stack, None for anything else."""
    text = " ".join(argv)
    return next((part for pattern, part in PROGRAMS if pattern.search(text)), None)


def run_findings(run: DryRun, sources: Sources, script: str) -> list[Finding]:
    """What the run itself showed: services it left behind (D1), an end before any engine (D2), programs that nothing
    stood in for (D3)."""
    found = []
    for launch in run.launches:
        if launch.survived:
            found.append(
                Finding(
                    "D1",
                    Verdict.FAIL if run.exit_status is not None else Verdict.UNKNOWN,
                    f"`{_words(launch)}` was still running after the script had ended"
                    if run.exit_status is not None
                    else f"`{_words(launch)}` was running when the time limit ended the script",
                    where=sources.where(launch.file, launch.line),
                    hint="stop it in an EXIT handler",
                )
            )
    if not any((part := part_of(launch.argv)) and part.role == "engine" for launch in run.services):
        ended = f"ended with status {run.exit_status}" if run.exit_status is not None else "did not end in time"
        last = run.output.strip().splitlines()[-1:] or ["it printed nothing"]
        found.append(
            Finding(
                "D2",
                Verdict.UNKNOWN,
                f"no engine was started: the script {ended}; its last line: {last[0][:200]}",
                where=sources.where(script, 0),
                hint="give what it needs as `--env NAME=VALUE`, and the files it includes beside it",
            )
        )
    if run.unknown or run.missing:
        names = [f"`{name}`" for name in run.unknown[:8]]
        names += [f"the file `{name}`" for name in run.missing[:4]]
        found.append(
            Finding(
                "D3",
                Verdict.WARN,
                f"nothing stands in for {', '.join(names)}: taken as done, without output",
                where=sources.where(script, 0),
            )
        )
    return found


def _argv(launch: Launch, sources: Sources) -> tuple[Item, ...]:
    places = _Places(launch, sources)
    origin = launched = sources.where(launch.file, launch.line)
    items = []
    for word in launch.argv:
        if word.startswith("-") and not re.fullmatch(r"-?\d+(\.\d+)?", word):
            origin = places.flag(word.partition("=")[0]) or launched
        items.append(Item(word, origin))
    return tuple(items)


def _env(launch: Launch, sources: Sources) -> tuple[tuple[str, Item], ...]:
    places = _Places(launch, sources)
    launched = sources.where(launch.file, launch.line)
    return tuple((name, Item(value, places.variable(name) or launched)) for name, value in launch.env)


class _Places:
    """Where the flags and variables of a launch stand in the script that has it."""

    def __init__(self, launch: Launch, sources: Sources) -> None:
        self.sources = sources
        self.name = launch.file if launch.file in sources.texts else next(iter(sources.texts), None)
        text = sources.texts[self.name] if self.name else b""
        self.facts = Facts(parse(text, self.name or ""))
        self.last = self._last_line(launch.line if launch.file == self.name else None)

    def _last_line(self, line: int | None) -> int:
        """The line where the launching command ends: a command may span many."""
        text = self.facts.script.source
        if line is None:
            return text.count(b"\n") + 1
        ends = [
            node.line + node.text.count("\n")
            for node in self.facts.script.of("command", "redirected_statement")
            if node.line <= line <= node.line + node.text.count("\n")
        ]
        return min(ends, default=line)

    def flag(self, flag: str) -> Where | None:
        """The last place at or above the launch that has the flag as a word of code."""
        pattern = re.compile(rf"(?<![\w-]){re.escape(flag)}(?![\w-])")
        places = []
        for node in self.facts.script.of("word", "string_content", "raw_string", "concatenation", "heredoc_body"):
            for match in pattern.finditer(node.text):
                before = node.text[: match.start()].encode()
                last = before.rpartition(b"\n")[2]
                column = len(last) + 1 if b"\n" in before else node.column + len(before)
                places.append((node.line + before.count(b"\n"), column))
        return self._at(places)

    def variable(self, name: str) -> Where | None:
        """The last assignment at or above the launch."""
        nodes = [node for node in self.facts.script.of("variable_assignment") if node.text.startswith(f"{name}=")]
        return self._at([(node.line, node.column) for node in nodes])

    def _at(self, places: list[tuple[int, int]]) -> Where | None:
        if not places or self.name is None:
            return None
        above = [place for place in places if place[0] <= self.last]
        line, column = max(above) if above else min(places)
        return Where(self.sources.shown.get(self.name, self.name), line, column)


def _model(words: Sequence[str]) -> str:
    for flag in MODEL_FLAGS:
        for word, following in zip(words, (*words[1:], ""), strict=True):
            if word == flag:
                return following
            if word.startswith(f"{flag}="):
                return word.partition("=")[2]
    plain = [word for word in words[1:] if not word.startswith("-")]
    named = [word for word in plain if word not in ("serve", "launch_server")]
    return named[0] if named else ""


def _words(launch: Launch) -> str:
    text = " ".join(launch.argv)
    return text if len(text) <= 60 else text[:57] + "..."
