"""Command lines as flags with their origins: the one reader of argv that checks and simulator share.

Both `--name value` and `--name=value` are read, underscores count as dashes, `--no-name` is the flag `name` with the
value "false", and `-O3`, `-cc.mode=3` and dotted `--compilation-config.mode 3` are kept as written. What follows a flag
up to the next one is its value: several words are a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ridgeline.core.deployment import Item
from ridgeline.core.where import Where

_FLAG = re.compile(r"^--?[A-Za-z]")
# Short spellings of vLLM's.
SHORT = {
    "-tp": "tensor-parallel-size", "-dp": "data-parallel-size", "-pp": "pipeline-parallel-size",
    "-dcp": "decode-context-parallel-size", "-pcp": "prefill-context-parallel-size", "-sc": "speculative-config",
    "-cc": "compilation-config", "-O": "optimization-level", "-ep": "enable-expert-parallel", "-ac": "attention-config",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of a command line. `at`: index of its first word in argv; `values`: the words after it."""

    name: str
    values: tuple[str, ...]
    at: int
    inline: bool = False  # written as --name=value
    written: str = ""
    where: Where | None = None

    @property
    def value(self) -> str | None:
        """The only value, the last of several, or None for a bare switch."""
        return self.values[-1] if self.values else None


def flags_of(argv: Sequence[Item]) -> tuple[tuple[str, ...], tuple[Flag, ...]]:
    """(words before the first flag, flags in order). A flag's place is its value's where that has one. `python -m NAME`
    is a program, not a flag."""
    words = [item.text for item in argv]
    module = next((at + 2 for at, word in enumerate(words) if word == "-m" and at and "python" in words[at - 1]), 0)
    starts = [index for index, word in enumerate(words) if index >= module and _FLAG.match(word)]
    before = tuple(words[: starts[0]] if starts else words)
    found = []
    ends = [*starts[1:], len(words)]
    for start, end in zip(starts, ends, strict=False):
        head, equals, inline = words[start].partition("=")
        values = ((inline,) if equals else ()) + tuple(words[start + 1 : end])
        name = _name(head)
        if name.startswith("no-") and not values:
            name, values = name.removeprefix("no-"), ("false",)
        where = argv[start + 1].origin if not equals and end > start + 1 else argv[start].origin
        found.append(Flag(name, values, start, bool(equals), head, where))
    return before, tuple(found)


def _name(head: str) -> str:
    stem, dot, rest = head.partition(".")
    if stem in SHORT:
        return SHORT[stem] + dot + rest
    if re.match(r"^-O\d$", stem):
        return "optimization-level"
    return stem.lstrip("-").replace("_", "-") + dot + rest


def last(flags: Sequence[Flag]) -> Mapping[str, Flag]:
    """The flag of each name that counts: the last one, as argparse has it."""
    return {flag.name: flag for flag in flags}


def with_value(argv: Sequence[Item], name: str, value: str | None) -> tuple[Item, ...]:
    """argv with a flag set to `value` (None: a bare switch). A flag that is there keeps its place and origin; a new one
    is added at the end; a `--no-name` that says the contrary is replaced."""
    _, flags = flags_of(argv)
    known = last(flags).get(name)
    added = [Item(word) for word in _words(value)]
    if known is None:
        return (*argv, Item(f"--{name}"), *added)
    head = argv[known.at]
    rest = argv[known.at + 1 + _words_after(known) :]
    if known.inline and value is not None:
        return (*argv[: known.at], Item(f"{known.written}={value}", head.origin), *rest)
    origin = argv[known.at + 1].origin if _words_after(known) else head.origin
    written = f"--{name}" if known.written.startswith("--no-") or known.inline else known.written
    return (*argv[: known.at], Item(written, head.origin), *(Item(item.text, origin) for item in added), *rest)


def without(argv: Sequence[Item], name: str) -> tuple[Item, ...]:
    """argv without a flag and its values."""
    _, flags = flags_of(argv)
    drop: set[int] = set()
    for flag in flags:
        if flag.name == name:
            drop |= set(range(flag.at, flag.at + 1 + _words_after(flag)))
    return tuple(item for index, item in enumerate(argv) if index not in drop)


def _words(value: str | None) -> list[str]:
    """The words of a value: a list of numbers is one word each, as argparse reads it."""
    if value is None:
        return []
    return value.split() if re.fullmatch(r"\d+( \d+)+", value) else [value]


def _words_after(flag: Flag) -> int:
    """Words of argv that are this flag's values."""
    return 0 if flag.written.startswith("--no-") else len(flag.values) - flag.inline
