"""The register of engine kinds. Shared code asks it and never compares a kind with a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ridgeline.core.deployment import Deployment, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.engines import ranks, sglang, vllm
from ridgeline.launch.engines.ranks import RankSeries
from ridgeline.launch.engines.shapes import Shape


@dataclass(frozen=True, slots=True)
class EngineKind:
    """One kind of engine. `prefix`: of its metrics' names. `shapes` empty: its log proves nothing.

    `tells`: claims that a sound start of this engine always proves; one that is missing then is unproven by name.
    `ranks`: how many a service's command line asks for; `series`: where its metrics show them; `pin`: the header of a
    request that chooses one.
    """

    kind: str
    about: str
    parser: str = ""
    shapes: tuple[Shape, ...] = ()
    prefix: str = ""
    tells: tuple[str, ...] = ()
    counts_graphs: bool = False  # it prints what its steps ran as without being asked to
    ranks: Callable[[Service], int | None] = lambda service: None
    series: RankSeries | None = None
    pin: str = ""

    @property
    def claims(self) -> frozenset[str]:
        """What its log can prove."""
        return frozenset(shape.claim for shape in self.shapes)


PIN = "X-data-parallel-rank"

ENGINES = {
    engine.kind: engine
    for engine in (
        EngineKind(
            "vllm",
            "vLLM's OpenAI server",
            vllm.PARSER,
            vllm.SHAPES,
            "vllm:",
            tells=("kv_tokens",),
            ranks=ranks.vllm_ranks,
            series=ranks.VLLM,
            pin=PIN,
        ),
        EngineKind(
            "sglang",
            "SGLang's server",
            sglang.PARSER,
            sglang.SHAPES,
            "sglang:",
            tells=("kv_tokens",),
            ranks=ranks.sglang_ranks,
            series=ranks.SGLANG,
        ),
        EngineKind(
            "emulated",
            "the engine model behind HTTP, which logs and counts in vLLM's words",
            vllm.PARSER,
            vllm.SHAPES,
            "vllm:",
            tells=("kv_tokens",),
            counts_graphs=True,
            ranks=ranks.emulated_ranks,
            series=ranks.VLLM,
            pin=PIN,
        ),
        EngineKind("command", "whatever the user starts: any server that speaks the protocol"),
        EngineKind("shell", "an unmodified launch script under supervision"),
    )
}

# Engines whose cells expand, are checked and dry-run, and that nothing here starts.
REFUSED = ("trt", "atom", "dynamo-vllm", "dynamo-sglang", "dynamo-trt")


def spoken(deployment: Deployment) -> EngineKind:
    """The kind whose log lines and metrics a deployment's engines write; the one that starts them where none is
    named."""
    return engine_kind(deployment.dialect or deployment.kind)


def engine_kind(kind: str) -> EngineKind:
    """The kind by name. Raises EnvironmentFailed for one that is not launched, naming it."""
    if kind in ENGINES:
        return ENGINES[kind]
    reason = "is known and not launched yet" if kind in REFUSED else "is not known"
    raise EnvironmentFailed(
        f"engine kind `{kind}` {reason}; launched: {', '.join(ENGINES)}",
        hint="`--engine emulated` runs such cells on the engine model, and their points say so",
    )
