"""A deployment: the services a cell needs, as plain values. Nothing is started here."""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.core.cell import canonical, digest
from ridgeline.core.where import Where


@dataclass(frozen=True, slots=True)
class Item:
    """One argument or environment value with its origin: who wrote it there, and why."""

    text: str
    origin: Where | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Readiness:
    """When a service counts as ready. `answers`: the served model must be listed and a one-token request must come
    back through every hop, since a green health page proves little."""

    path: str = "/health"
    answers: bool = True
    served_model: str | None = None
    timeout_s: float = 600.0
    lists: bool | None = None  # False: known not to list its models, so that proof is left out


@dataclass(frozen=True, slots=True)
class Service:
    """One process tree. Ports are symbolic: `{port:NAME}` in argv, env and files (`{port:SERVICE.NAME}` for another
    service's, `{port:NAME+3}` for the fourth of a range) is filled in at launch, and so is `{host:SERVICE}`, so that
    a deployment's digest depends neither on which ports were free nor on which machines were lent.

    Readiness is asked at the first port. Fields that are None do not apply, and leave the digest as it is."""

    name: str
    argv: tuple[Item, ...]
    env: tuple[tuple[str, Item], ...] = ()
    ports: tuple[str, ...] = ("http",)
    readiness: Readiness | None = field(default_factory=Readiness)
    after: tuple[str, ...] = ()  # names of services that must be ready first; stopping goes the other way
    role: str = "engine"  # "engine" | "router" | "cache" | "prefill" | "decode"
    stop_grace_s: float = 10.0
    spans: tuple[tuple[str, int], ...] | None = None  # ports that are ranges: an engine counts on from them by rank
    files: tuple[tuple[str, Item], ...] | None = None  # written into its working folder before it starts
    pool: str | None = None  # the pool of a disaggregated or multi-node cell it belongs to
    worker: int | None = None  # which worker of the pool, from 0
    node: int | None = None  # which node of the cell's allocation, from 0; None where there is one node only
    gpus: tuple[int, ...] | None = None  # device numbers on that node; None: all of the node's


@dataclass(frozen=True, slots=True)
class Deployment:
    """The services of one cell. `entry` names the service that takes the requests; `metrics` those to scrape."""

    services: tuple[Service, ...]
    entry: str
    served_model: str
    kind: str  # engine kind in the launch registry: "emulated", "vllm", "sglang", ...
    metrics: tuple[str, ...] = ()
    recipe: str = ""  # which recipe wrote this, and why it was chosen
    endpoint: str = "/v1/chat/completions"
    session_header: str | None = None  # the request header by which the router keeps a session on one rank
    dialect: str | None = None  # the kind whose words its log and metrics are in, where `kind` only says who starts it

    def service(self, name: str) -> Service:
        """The service called `name`. Raises KeyError."""
        return next((s for s in self.services if s.name == name), None) or _missing(name)

    @property
    def digest(self) -> str:
        """sha256 (hex) with symbolic ports and without origins."""
        return digest(canonical(self))


def _missing(name: str) -> Service:
    raise KeyError(name)
