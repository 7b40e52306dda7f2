"""Ready means every rank: the metrics show each one, and a one-token request has reached it, through every hop.

A rank that is missing or unreachable halves a result without an error, so a start that has one is not ready. What an
engine does not tell (no series carries a rank) is not demanded.
"""

from __future__ import annotations

import http.client
import itertools
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ridgeline.core.deployment import Deployment, Service
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.engines.kinds import EngineKind
from ridgeline.launch.engines.ranks import shown_ranks
from ridgeline.launch.readiness import SESSION, one_token, request

TRIES_A_RANK = 32  # of the entry: a fair hash misses one of n ranks then with a chance of e^-32
SHOWN_WITHIN_S = 30.0  # counters follow answers, and pages their engines, with some delay
POLL_S = 0.1
ENGINES = ("engine", "prefill", "decode")

Counts = dict[str, float]


@dataclass(slots=True)
class Reach:
    """Asks a deployment whose services are all up. `at`: address and port of each service that has one. `alive` raises
    when a service has ended."""

    deployment: Deployment
    kind: EngineKind
    at: Mapping[str, tuple[str, int]]
    alive: Callable[[], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    within_s: float = SHOWN_WITHIN_S
    _before: dict[str, Counts] = field(default_factory=dict)

    def all_ranks(self) -> dict[str, int]:
        """Ranks that were reached, by service; without those that tell nothing. Raises EnvironmentFailed with what is
        missing."""
        found: dict[str, int] = {}
        for service in self.deployment.services:
            wanted = self._wanted(service)
            if wanted is None or (shown := self._shown(service, wanted)) is None:
                continue
            found[service.name] = len(shown)
            self._before[service.name] = shown
        several = {name: shown for name, shown in self._before.items() if len(shown) > 1}
        if self.kind.series and self.kind.series.done and several:
            self._reach_directly([name for name in several if self.deployment.service(name).role == "engine"])
            if self.deployment.entry not in several:
                self._reach_through_entry(list(several))
        return found

    def _wanted(self, service: Service) -> int | None:
        asked = service.readiness is not None and service.readiness.answers
        return self.kind.ranks(service) if asked and service.role in ENGINES and service.name in self.at else None

    def _shown(self, service: Service, wanted: int) -> Counts | None:
        """What the metrics show once all are there; None where they tell nothing."""
        end = self.clock() + self.within_s
        while True:
            shown = self._counts(service.name)
            if shown is None or len(shown) >= wanted:
                return shown
            if self.clock() >= end:
                raise EnvironmentFailed(
                    f"`{service.name}` was not ready: its metrics show {len(shown)} of {wanted} ranks",
                    hint="a rank did not come up: its log lines carry its number",
                )
            self.alive()
            self.sleep(POLL_S)

    def _reach_directly(self, names: list[str]) -> None:
        """One request pinned to each rank of each engine, where the engine knows a header for it."""
        if not self.kind.pin:
            return
        for name in names:
            before = self._counts(name) or {}
            for rank in before:
                self._ask(name, {self.kind.pin: rank})
            self._await(name, before, f"requests pinned to each rank of `{name}`")

    def _reach_through_entry(self, names: list[str]) -> None:
        """Sessions without end, until each rank has had one. Raises EnvironmentFailed when that takes too many."""
        entry = self.deployment.entry
        before = {name: self._counts(name) or {} for name in names}
        total = sum(map(len, before.values()))
        for tries in itertools.count(total, total):
            for _ in range(total):
                self._ask(entry, {self.deployment.session_header or SESSION: f"ridgeline-ready-{uuid.uuid4()}"})
            if not any(self._still(name, before[name]) for name in names):
                return
            if tries >= TRIES_A_RANK * total:
                for name in names:
                    self._await(name, before[name], f"{tries} requests of different sessions to `{entry}`")
                return
            self.alive()

    def _ask(self, name: str, headers: Mapping[str, str]) -> None:
        endpoint, model = self.deployment.endpoint, self.deployment.served_model
        try:
            address, port = self.at[name]
            status, body = request(port, "POST", endpoint, one_token(endpoint, model), headers, address=address)
        except (OSError, http.client.HTTPException) as error:
            self.alive()  # a dead service says more
            raise EnvironmentFailed(f"`{name}` was not ready: no answer ({type(error).__name__})") from error
        if status != 200:
            about = ", ".join(f"{key}: {value}" for key, value in headers.items())
            raise EnvironmentFailed(f"`{name}` was not ready: a request with {about} answered {status}: {body!s:.200}")

    def _await(self, name: str, before: Counts, what: str) -> None:
        end = self.clock() + self.within_s
        while still := self._still(name, before):
            if self.clock() >= end:
                raise EnvironmentFailed(
                    f"`{name}` was not ready: {what} did not reach rank {', '.join(still)}",
                    hint="compare the router's workers with the engine's ranks",
                )
            self.alive()
            self.sleep(POLL_S)

    def _still(self, name: str, before: Counts) -> list[str]:
        """Ranks whose counter has not moved."""
        now = self._counts(name) or {}
        return [rank for rank, count in before.items() if now.get(rank, 0.0) <= count]

    def _counts(self, name: str) -> Counts | None:
        if self.kind.series is None:
            return None
        try:
            address, port = self.at[name]
            status, page = request(port, "GET", "/metrics", address=address)
        except (OSError, http.client.HTTPException):
            return None
        return shown_ranks(page, self.kind.series) if status == 200 and isinstance(page, str) else None
