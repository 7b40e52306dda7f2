"""Master config files become frozen entries, in the order of the files.

In: paths. Out: a `ConfigSet`: every entry with its scenarios and arms, each arm with its place, or an `InputError`
with every problem of every file. Values are what the file says; defaults of expansion are applied by `plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ridgeline.core.errors import Problem
from ridgeline.core.where import Where
from ridgeline.spec import master, schema
from ridgeline.spec.build import Path_
from ridgeline.spec.tree import Document, fail_if, parse, parse_file


class Worker(NamedTuple):
    """The prefill or decode side of a multi-node arm. `written` keeps the keys and their order as in the file."""

    workers: int
    tp: int
    ep: int
    dp_attn: bool
    pp: int
    dcp: int
    pcp: int
    hardware: str | None
    written: Mapping[str, Any]


class Space(NamedTuple):
    """One search-space entry. `conc_range` and `conc_list` are as written; None means not given."""

    where: Where
    tp: int | None
    pp: int
    dcp: int
    pcp: int
    ep: int | None
    dp_attn: bool | None
    spec_decoding: str
    prefill: Worker | None
    decode: Worker | None
    kv_offloading: str | None
    kv_offload_backend: Mapping[str, str] | None
    router: Mapping[str, str] | None
    kv_p2p_transfer: str | None
    conc_range: tuple[int, int] | None
    conc_list: tuple[int, ...] | None


class FixedItem(NamedTuple):
    """One item of `fixed-seq-len`; lengths in tokens."""

    isl: int
    osl: int
    spaces: tuple[Space, ...]


class AgenticItem(NamedTuple):
    """One item of `agentic-coding`. `dram_utilization` is in (0, 1]."""

    dram_utilization: float | None
    spaces: tuple[Space, ...]


class Entry(NamedTuple):
    """One entry of a master config file."""

    key: str
    image: str
    model: str
    model_prefix: str
    precision: str
    framework: str
    runner: str
    multinode: bool
    disagg: bool
    router: Mapping[str, str] | None
    kv_p2p_transfer: str | None
    fixed: tuple[FixedItem, ...]
    agentic: tuple[AgenticItem, ...]
    where: Where
    written: Mapping[str, Any]


class ConfigSet(Mapping[str, Entry]):
    """Entries by key, in the order of the files and of the lines in them. Read only."""

    __slots__ = ("_entries", "files")

    def __init__(self, entries: Iterable[Entry], files: Iterable[str] = ()) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self.files = tuple(files)

    def __getitem__(self, key: str) -> Entry:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def load_configs(paths: Iterable[str | Path]) -> ConfigSet:
    """Load and merge files in the order given. Raises `InputError` with all problems of all files."""
    return from_documents([parse_file(path) for path in paths])


def load_config_text(text: str | bytes, name: str = "<text>") -> ConfigSet:
    """The same from text, e.g. a file as it was at some revision. `name` stands in messages."""
    return from_documents([parse(text.encode() if isinstance(text, str) else text, name)])


def from_documents(documents: Iterable[Document]) -> ConfigSet:
    """Entries of parsed files. Raises `InputError` with all problems of all of them."""
    problems: list[Problem] = []
    entries: list[Entry] = []
    owner: dict[str, str] = {}
    documents = list(documents)
    for document in documents:
        found = list(document.problems)
        if document.root is not None:
            found += _file_problems(document, owner)
        if not found:
            entries += [_entry(document, key, value) for key, value in document.value.items()]
        problems += sorted(found, key=lambda problem: problem.where or Where(document.file))
    fail_if(problems)
    return ConfigSet(entries, [document.file for document in documents])


def _file_problems(document: Document, owner: dict[str, str]) -> list[Problem]:
    if not isinstance(document.value, dict):
        what = schema.describe(document.value)
        return [Problem(f"the file must hold a mapping of entries, not {what}", document.where(()))]
    problems: list[Problem] = []
    for key, value in document.value.items():
        if "*" in key or "?" in key:
            mark = "*" if "*" in key else "?"
            message = f"a key must not contain `{mark}`: it is kept for patterns that select keys"
            problems.append(Problem(message, document.where((key,), at_key=True), key))
        faults = master.entry_faults(key, value)
        if faults:
            problems += schema.problems(faults, document)
    clashes = sorted(key for key in document.value if key in owner)
    if clashes:
        first = document.where((clashes[0],), at_key=True)
        given = ", ".join(f"{key} ({owner[key]})" for key in clashes)
        problems.append(Problem(f"{document.file} repeats keys of an earlier file: {given}", first, clashes[0]))
    owner.update((key, document.file) for key in document.value if key not in owner)
    return problems


def _entry(document: Document, key: str, raw: Mapping[str, Any]) -> Entry:
    scenarios = raw["scenarios"]
    base: Path_ = (key, "scenarios")
    fixed = tuple(
        FixedItem(item["isl"], item["osl"], _spaces(document, (*base, "fixed-seq-len", index), item))
        for index, item in enumerate(scenarios.get("fixed-seq-len") or ())
    )
    agentic = tuple(
        AgenticItem(item.get("dram-utilization"), _spaces(document, (*base, "agentic-coding", index), item))
        for index, item in enumerate(scenarios.get("agentic-coding") or ())
    )
    return Entry(
        key,
        raw["image"],
        raw["model"],
        raw["model-prefix"],
        raw["precision"],
        raw["framework"],
        raw["runner"],
        raw["multinode"],
        raw.get("disagg", False),
        _frozen(raw.get("router")),
        raw.get("kv-p2p-transfer"),
        fixed,
        agentic,
        document.where((key,), at_key=True),
        MappingProxyType(raw),
    )


def _spaces(document: Document, path: Path_, item: Mapping[str, Any]) -> tuple[Space, ...]:
    places = document.places((*path, "search-space"))
    return tuple(_space(place, raw) for place, raw in zip(places, item["search-space"], strict=True))


def _space(where: Where, raw: Mapping[str, Any]) -> Space:
    get = raw.get
    start, end, values = get("conc-start"), get("conc-end"), get("conc-list")
    return Space(
        where,
        get("tp"),
        get("pp", 1),
        get("dcp-size", 1),
        get("pcp-size", 1),
        get("ep"),
        get("dp-attn"),
        get("spec-decoding", "none"),
        _worker(get("prefill")),
        _worker(get("decode")),
        get("kv-offloading"),
        _frozen(get("kv-offload-backend")),
        _frozen(get("router")),
        get("kv-p2p-transfer"),
        None if start is None or end is None else (start, end),
        None if values is None else tuple(values),
    )


def _worker(raw: Mapping[str, Any] | None) -> Worker | None:
    if raw is None:
        return None
    get = raw.get
    return Worker(
        raw["num-worker"],
        raw["tp"],
        raw["ep"],
        raw["dp-attn"],
        get("pp", 1),
        get("dcp-size", 1),
        get("pcp-size", 1),
        get("hardware"),
        MappingProxyType(raw),
    )


def _frozen(raw: Mapping[str, str] | None) -> Mapping[str, str] | None:
    return None if raw is None else MappingProxyType(raw)
