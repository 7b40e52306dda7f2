"""What a link asks for: the part of the address bar that the server answers. The rest (scale, limit, sorting, an open
drawer) is the page's own and is passed over here.

`decode(encode(question)) == question`, and only what differs from the defaults is written. A key that no page knows
is reported, never swallowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import get_args
from urllib.parse import urlencode

from ridgeline.publish.web.data import Channel

CHANNELS: tuple[Channel, ...] = get_args(Channel)
# What the frontier page keeps in the address bar for itself (charts/assets/frontier.js).
OF_THE_PAGE = frozenset({"precision", "source", "log", "limit", "hide", "rows", "box", "sort", "p"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`model`, `on` (workload), `x`, `y`: None means the page's usual one. `run`: one run instead of the latest of
    all. `overlay`: runs laid over, which never enter an official frontier."""

    channel: Channel | None = None
    model: str | None = None
    on: str | None = None
    x: str | None = None
    y: str | None = None
    run: str | None = None
    overlay: tuple[str, ...] = ()


def encode(question: Question) -> str:
    """The query string, without `?`; empty for the default question."""
    pairs: list[tuple[str, str]] = []
    for field in fields(question):
        value = getattr(question, field.name)
        if isinstance(value, tuple):
            pairs += [(field.name, item) for item in value]
        elif value is not None:
            pairs.append((field.name, value))
    return urlencode(pairs)


def decode(pairs: Iterable[tuple[str, str]]) -> tuple[Question, tuple[str, ...]]:
    """The question of query pairs, and a sentence for each thing that was not understood."""
    single: dict[str, str] = {}
    overlay: list[str] = []
    notices: list[str] = []
    known = {field.name for field in fields(Question)}
    for name, value in pairs:
        if name == "overlay":
            overlay.append(value)
        elif name not in known:
            if name not in OF_THE_PAGE:
                notices.append(f"“{name}” is not a setting of this page")
        elif name in single:
            notices.append(f"“{name}” is there twice; the first one counts")
        elif name == "channel" and value not in CHANNELS:
            notices.append(f"“channel” has no value “{value}” here")
        else:
            single[name] = value
    values: Mapping[str, object] = {**single, "overlay": tuple(overlay)}
    return Question(**values), tuple(notices)  # type: ignore[arg-type]
