"""The pages as data: rail, phone bar, routes, titles, keys of the address and tests all follow from this one table."""

from __future__ import annotations

from typing import NamedTuple


class Page(NamedTuple):
    """`icon`: SVG path in a 20 px box. `phone`: has a place in the bar of five. `about`: said beside the title. `keys`:
    what the address of the page may hold beside the channel."""

    key: str
    path: str
    title: str
    about: str
    icon: str
    phone: bool = False
    keys: tuple[str, ...] = ()


PAGES = (
    Page(
        "frontier",
        "/",
        "Frontier",
        "which configuration gives most",
        "M3 3v14h14M5 5.500c2.500 0 3 1.500 4.500 4.500S13 14 17 14",
        True,
    ),
    Page("runs", "/runs", "Runs", "what was run, and what runs now", "M3 5h14M3 10h14M3 15h9", True, ("q", "start")),
    Page(
        "compare",
        "/compare",
        "Compare",
        "two runs against each other",
        "M7 16V4M4 7l3-3 3 3M13 4v12M10 13l3 3 3-3",
        True,
        ("a", "b", "m", "verdict"),
    ),
    Page(
        "points",
        "/points",
        "Points",
        "every point, to search in",
        "M10 7.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5M10 2v4M10 14v4M2 10h4M14 10h4",
        True,
        ("q", "start"),
    ),
    Page(
        "accuracy",
        "/accuracy",
        "Accuracy",
        "what the same configurations score on tasks",
        "M4 17V9M8 17V5M12 17v-6M16 17V3",
        keys=("q",),
    ),
    Page(
        "cost",
        "/cost",
        "Power and cost",
        "dollars and joules at one speed a user sees",
        "M11 2L4 11h5l-1 7 8-10h-5z",
        keys=("model", "on", "at"),
    ),
    Page(
        "traces",
        "/traces",
        "Traces",
        "recorded sessions: lengths, subagents, shared prefixes",
        "M3 5h6M6 10h8M9 15h8",
        keys=("trace", "session", "start"),
    ),
    Page(
        "plan",
        "/plan",
        "Plan and check",
        "the cells of a config, with what would go wrong",
        "M3 10a7 7 0 1 0 14 0a7 7 0 1 0-14 0M7 10l2 2 4-4",
        keys=("config", "verdict"),
    ),
    Page(
        "gates",
        "/gates",
        "Gates",
        "did a change make it worse, and what was changed",
        "M3 17V8l7-5 7 5v9M7 17v-6M13 17v-6",
        True,
    ),
    Page(
        "data",
        "/data",
        "Data",
        "ask the store in SQL; downloads; the interface",
        "M4 5c0-3 12-3 12 0v10c0 3-12 3-12 0zM4 5c0 3 12 3 12 0M4 10c0 3 12 3 12 0",
        keys=("q",),
    ),
)
BY_KEY = {page.key: page for page in PAGES}
