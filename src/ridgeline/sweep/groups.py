"""Cells that run on equal deployments share one start of the engine.

Equal means equal digests: argv, environment, ports by name, readiness. Every cell keeps its own markers, so prompts of
two cells share nothing; what a cell finds in the cache all the same is measured (see proof/observed.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from ridgeline.core.deployment import Deployment


class HasDeployment(Protocol):
    @property
    def deployment(self) -> Deployment: ...


T = TypeVar("T", bound=HasDeployment)


class Group(NamedTuple, Generic[T]):
    """Cells of one engine start, with their places in the sweep (from 1)."""

    deployment: Deployment
    members: list[tuple[int, T]]


def grouped(planned: Iterable[tuple[int, T]]) -> list[Group[T]]:
    """Groups in the order of their first cells; cells keep their order inside."""
    found: dict[str, Group[T]] = {}
    for index, item in planned:
        key = item.deployment.digest
        if key not in found:
            found[key] = Group(item.deployment, [])
        found[key].members.append((index, item))
    return list(found.values())
