"""What every route knows: the results, who may see them, answers made before, and what the server was started with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request

from ridgeline.publish.web.answers import Memory
from ridgeline.publish.web.data import Channel, Library
from ridgeline.publish.web.safety import Access

if TYPE_CHECKING:
    from ridgeline.plan.checks.report import CellReport
    from ridgeline.results.cost import PriceSheet


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the server was started with beside results. `prices`: US dollars per GPU-hour of a runner; `configs`: name
    to file of search spaces; `check`: config files to a report for each cell; `traces`: name to file or folder;
    `changelogs`, `gates`: name to file."""

    prices: PriceSheet | None = None
    configs: Mapping[str, Path] = field(default_factory=dict)
    check: Callable[[Sequence[Path]], Sequence[CellReport]] | None = None
    traces: Mapping[str, Path] = field(default_factory=dict)
    changelogs: Mapping[str, Path] = field(default_factory=dict)
    gates: Mapping[str, Path] = field(default_factory=dict)


@dataclass
class Context:
    """What every route knows."""

    library: Library
    access: Access = field(default_factory=Access)
    memory: Memory = field(default_factory=Memory)
    given: Given = field(default_factory=Given)


def context_of(request: Request) -> Context:
    """What the application was made with."""
    context: Context = request.app.state.context
    return context


def channel_of(request: Request) -> Channel:
    """The channel a link names, else the most trusted one that holds points."""
    library = context_of(request).library
    wanted = request.query_params.get("channel")
    return next((channel for channel in library.channels() if channel == wanted), library.usual())
