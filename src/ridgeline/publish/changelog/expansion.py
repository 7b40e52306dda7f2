"""How a selection asks for rows, and the answer from our own expansion of the master configs of one revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ridgeline.plan.evals import EvalMode
from ridgeline.plan.filters import Filters
from ridgeline.plan.rows import test_config
from ridgeline.publish.changelog.rows import Row
from ridgeline.spec.config import ConfigSet, from_documents
from ridgeline.spec.runners import Runners, load_runners_text
from ridgeline.spec.tree import parse


class Run(NamedTuple):
    """One expansion: configs of which the same scenarios are wanted."""

    keys: tuple[str, ...]
    scenarios: tuple[str, ...]


class Master(Protocol):
    """The master configs of one revision."""

    @property
    def written(self) -> Mapping[str, Mapping[str, Any]]:
        """Config key → the entry as written, in file order."""

    def rows(self, keys: Sequence[str], scenarios: Sequence[str], evals: EvalMode) -> list[Row]:
        """The rows of these configs, in this order. Raises InputError when one cannot be expanded."""


def expand(master: Master, runs: Iterable[Run], evals: EvalMode = EvalMode.NONE) -> list[Row]:
    """The rows of all runs, one after the other."""
    return [row for run in runs for row in master.rows(run.keys, run.scenarios, evals)]


@dataclass(frozen=True, slots=True)
class MasterConfigs:
    """A `Master` over loaded config files."""

    configs: ConfigSet
    runners: Runners | None

    @classmethod
    def read(cls, configs: Iterable[tuple[str, bytes]], runners: tuple[str, bytes] | None) -> MasterConfigs:
        """From (name, bytes) of each file, in merge order. Raises InputError with all problems of all files."""
        loaded = from_documents([parse(data, name) for name, data in configs])
        return cls(loaded, None if runners is None else load_runners_text(runners[1], runners[0]))

    @property
    def written(self) -> Mapping[str, Mapping[str, Any]]:
        return {key: entry.written for key, entry in self.configs.items()}

    def rows(self, keys: Sequence[str], scenarios: Sequence[str], evals: EvalMode) -> list[Row]:
        filters = Filters(keys=tuple(keys), scenario_type=tuple(scenarios))
        return test_config(self.configs, self.runners, filters, evals)
