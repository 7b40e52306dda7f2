"""Every field, default and cross-field rule of master config files (the format of InferenceX), as tables.

In: nothing. Out: `SINGLE` and `MULTI`, the tables for one entry of a file, and `entry_faults`, which picks the table
and adds the rules that span scenarios. The format is InferenceX's; docs/reference/differences.md lists where we
refuse what its tools let through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ridgeline.spec import schema
from ridgeline.spec.build import Path_, key_path
from ridgeline.spec.schema import FLAG, FRACTION, NAME, POSITIVE, TEXT, WHOLE, Fault, Field, Kind, Rule, Table

SPEC_DECODING = ("mtp", "draft_model", "none")
SIZES = ("pp", "dcp-size", "pcp-size")

VERSION = Kind(
    "a release, package version or commit, not an image reference",
    lambda value: value.__class__ is str and value != "" and not value.startswith("image:"),
    basic="text",
)


# --- rules over the fields of one mapping ----------------------------------------------------------------------------


def _concurrency(entry: dict[str, Any]) -> Iterator[Fault]:
    start, end, values = entry.get("conc-start"), entry.get("conc-end"), entry.get("conc-list")
    if values and (start is not None or end is not None):
        name = "conc-start" if start is not None else "conc-end"
        both = start is not None and end is not None
        what = "a list and a range are given" if both else "half a range stands beside a list and would be ignored"
        yield Fault((name,), f"{what}: use conc-list, or conc-start with conc-end, one of them", at_key=True)
    elif values:
        for index, value in enumerate(values):
            if value <= 0:
                yield Fault(("conc-list", index), f"concurrency must be above 0, not {value}")
    elif start is None or end is None:
        yield Fault((), f"no concurrency ({_lacking(start, end, values)}): use conc-list, or conc-start with conc-end")
    else:
        for name, value in (("conc-start", start), ("conc-end", end)):
            if value <= 0:
                yield Fault((name,), f"concurrency must be above 0, not {value}")
        if start > end:
            yield Fault(("conc-start",), f"must not be above conc-end: {start} > {end}")


def _lacking(start: int | None, end: int | None, values: list[int] | None) -> str:
    if start is None and end is None:
        return "nothing is given" if values is None else "conc-list is empty"
    return f"conc-{'start' if start is None else 'end'} is missing"


def _context_parallel(entry: dict[str, Any]) -> Iterator[Fault]:
    tp, dcp = entry.get("tp"), entry.get("dcp-size", 1)
    if tp is not None and tp % dcp:
        yield Fault(("tp",), f"tp ({tp}) must be divisible by dcp-size ({dcp})")


def _hardware(entry: dict[str, Any]) -> Iterator[Fault]:
    prefill, decode = entry.get("prefill"), entry.get("decode")
    if prefill is None or decode is None:
        return
    if (prefill.get("hardware") is None) != (decode.get("hardware") is None):
        side = "prefill" if prefill.get("hardware") is not None else "decode"
        yield Fault((side, "hardware"), "give hardware on prefill and decode, or on neither", at_key=True)


def _offloading(entry: dict[str, Any]) -> Iterator[Fault]:
    mode, backend = entry.get("kv-offloading"), entry.get("kv-offload-backend")
    if mode == "dram" and backend is None:
        yield Fault(("kv-offloading",), "dram needs kv-offload-backend", "kv-offload-backend: {name: ...}")
    if mode != "dram" and backend is not None:
        state = "is none" if mode == "none" else "is absent"
        yield Fault(("kv-offload-backend",), f"not allowed when kv-offloading {state}", at_key=True)


def _agentic_topology(entry: dict[str, Any]) -> Iterator[Fault]:
    tp, prefill, decode = entry.get("tp"), entry.get("prefill"), entry.get("decode")
    if tp is not None and prefill is None and decode is None:
        if entry.get("kv-offloading") is None:
            yield Fault(("kv-offloading",), "is required with tp", "kv-offloading: none or dram")
    elif tp is None and prefill is not None and decode is not None:
        for name in SIZES:
            if name in entry:
                yield Fault((name,), "belongs into prefill and decode, not beside them", at_key=True)
    else:
        yield Fault((), "a topology is tp alone, or prefill and decode together without tp")


def _dram_needs_utilization(item: dict[str, Any]) -> Iterator[Fault]:
    if item.get("dram-utilization") is not None:
        return
    if any(entry.get("kv-offloading") == "dram" for entry in item["search-space"]):
        yield Fault(("dram-utilization",), "is required when an entry offloads to dram", "above 0 and at most 1")


def _search_space(item: dict[str, Any]) -> Iterator[Fault]:
    if not item["search-space"]:
        yield Fault(("search-space",), "is empty: it would give no cells", "add an entry or remove the scenario")


def _some_scenario(scenarios: dict[str, Any]) -> Iterator[Fault]:
    if not scenarios.get("fixed-seq-len") and not scenarios.get("agentic-coding"):
        yield Fault((), "needs at least one scenario: fixed-seq-len or agentic-coding")


CONCURRENCY = Rule(
    ("conc-start", "conc-end", "conc-list"),
    "Either `conc-list` (not empty) or `conc-start` and `conc-end` (start <= end), all above 0.",
    _concurrency,
)
CONTEXT_PARALLEL = Rule(("tp", "dcp-size"), "`tp` is a multiple of `dcp-size`.", _context_parallel)
HARDWARE = Rule(("prefill", "decode"), "`hardware` stands on both workers or on neither.", _hardware)

# --- tables ----------------------------------------------------------------------------------------------------------

COMPONENT = Table(
    "a component",
    (
        Field("name", NAME, "what it is called", required=True),
        Field("version", VERSION, "release, package version or commit; must not start with `image:`", required=True),
    ),
)
BACKEND = Table(
    "a KV offload backend",
    (
        Field("name", NAME, "what it is called", required=True),
        Field("version", VERSION, "release, package version or commit", nullable=True),
    ),
)
_MULTI_ONLY = dict.fromkeys(("kv-p2p-transfer", "prefill", "decode"), "only with multinode: true")
_CONC = (
    Field("conc-start", WHOLE, "first concurrency; each next one is the last times the step", nullable=True),
    Field("conc-end", WHOLE, "last concurrency, always included", nullable=True),
    Field(
        "conc-list",
        schema.list_of(WHOLE, "a list of whole numbers"),
        "concurrencies as they are to be run; order and repeats are kept",
        nullable=True,
    ),
)
_SIZES = (
    Field("pp", POSITIVE, "pipeline-parallel size", default="1"),
    Field("dcp-size", POSITIVE, "decode context-parallel size; divides work over the tp GPUs", default="1"),
    Field("pcp-size", POSITIVE, "prefill context-parallel size", default="1"),
)
_EP = Field("ep", WHOLE, "expert-parallel size", default="1", nullable=True)
_DP_ATTN = Field("dp-attn", FLAG, "data-parallel attention over the tp GPUs", default="false", nullable=True)
_SPEC = Field("spec-decoding", schema.one_of(*SPEC_DECODING), "speculative decoding", default="none")
_ROUTER = Field(
    "router", schema.mapping(COMPONENT), "what routes requests; here or at the top, not both", nullable=True
)
_TRANSFER = Field(
    "kv-p2p-transfer", NAME, "how KV moves from prefill to decode; here or at the top, not both", nullable=True
)

WORKER = Table(
    "a worker",
    (
        Field("num-worker", WHOLE, "how many workers; 0 decode workers mean aggregated serving", required=True),
        Field("tp", WHOLE, "tensor-parallel size", required=True),
        Field("ep", WHOLE, "expert-parallel size", required=True),
        Field("dp-attn", FLAG, "data-parallel attention", required=True),
        *_SIZES,
        Field("hardware", NAME, "GPU of this worker, when the two differ", nullable=True),
        Field(
            "additional-settings",
            schema.list_of(TEXT, "a list of text"),
            "passed on to the recipe as written",
            default="[]",
            nullable=True,
        ),
    ),
    (CONTEXT_PARALLEL,),
)
SINGLE_ENTRY = Table(
    "a single-node search-space entry",
    (Field("tp", WHOLE, "tensor-parallel size", required=True), *_SIZES, _EP, _DP_ATTN, _SPEC, _ROUTER, *_CONC),
    (CONCURRENCY, CONTEXT_PARALLEL),
    _MULTI_ONLY,
)
MULTI_ENTRY = Table(
    "a multi-node search-space entry",
    (
        _SPEC,
        Field("prefill", schema.mapping(WORKER), "the prefill workers", required=True),
        Field("decode", schema.mapping(WORKER), "the decode workers", required=True),
        _ROUTER,
        _TRANSFER,
        *_CONC,
    ),
    (CONCURRENCY, HARDWARE),
)
AGENTIC_ENTRY = Table(
    "an agentic search-space entry",
    (
        Field("tp", WHOLE, "tensor-parallel size (single-node)", nullable=True),
        *_SIZES,
        _EP,
        _DP_ATTN,
        _SPEC,
        Field("prefill", schema.mapping(WORKER), "the prefill workers (multi-node)", nullable=True),
        Field("decode", schema.mapping(WORKER), "the decode workers (multi-node)", nullable=True),
        Field(
            "kv-offloading",
            schema.one_of("none", "dram"),
            "where KV may overflow to; required with `tp`",
            default="none",
            nullable=True,
        ),
        Field("kv-offload-backend", schema.mapping(BACKEND), "required with dram, else forbidden", nullable=True),
        _ROUTER,
        _TRANSFER,
        *_CONC,
    ),
    (
        CONCURRENCY,
        Rule(
            ("kv-offloading", "kv-offload-backend"),
            "`kv-offload-backend` is required with `kv-offloading: dram` and forbidden otherwise.",
            _offloading,
        ),
        Rule(
            ("tp", "prefill", "decode", *SIZES, "kv-offloading"),
            "Either `tp` with `kv-offloading`, or `prefill` and `decode` without `tp`, `pp`, `dcp-size`, `pcp-size`.",
            _agentic_topology,
        ),
        CONTEXT_PARALLEL,
        HARDWARE,
    ),
)
_SPACE_RULE = Rule(("search-space",), "`search-space` is not empty.", _search_space)


def _fixed_item(name: str, entry: Table) -> Table:
    return Table(
        name,
        (
            Field("isl", WHOLE, "input length in tokens", required=True),
            Field("osl", WHOLE, "output length in tokens", required=True),
            Field("search-space", schema.list_of(schema.mapping(entry), "a list of entries"), "arms", required=True),
        ),
        (_SPACE_RULE,),
    )


AGENTIC_ITEM = Table(
    "an agentic-coding item",
    (
        Field(
            "search-space", schema.list_of(schema.mapping(AGENTIC_ENTRY), "a list of entries"), "arms", required=True
        ),
        Field("dram-utilization", FRACTION, "share of the host memory that KV may use", nullable=True),
    ),
    (
        _SPACE_RULE,
        Rule(
            ("search-space", "dram-utilization"),
            "`dram-utilization` is required when an entry has `kv-offloading: dram`.",
            _dram_needs_utilization,
        ),
    ),
    {
        "duration": "every agentic replay runs 3600 s; it is not set here",
        "trace-source": "the trace is given on the command line",
    },
)
SINGLE_FIXED, MULTI_FIXED = (
    _fixed_item("a single-node fixed-seq-len item", SINGLE_ENTRY),
    _fixed_item("a multi-node fixed-seq-len item", MULTI_ENTRY),
)


def _scenarios(name: str, fixed: Table) -> Table:
    return Table(
        name,
        (
            Field(
                "fixed-seq-len",
                schema.list_of(schema.mapping(fixed), "a list of items"),
                "requests of one input and output length",
                nullable=True,
            ),
            Field(
                "agentic-coding",
                schema.list_of(schema.mapping(AGENTIC_ITEM), "a list of items"),
                "replay of recorded agent sessions",
                nullable=True,
            ),
        ),
        (Rule(("fixed-seq-len", "agentic-coding"), "At least one scenario is not empty.", _some_scenario),),
    )


SINGLE_SCENARIOS, MULTI_SCENARIOS = (
    _scenarios("the scenarios of a single-node entry", SINGLE_FIXED),
    _scenarios("the scenarios of a multi-node entry", MULTI_FIXED),
)


def _top(name: str, multinode: bool, scenarios: Table) -> Table:
    transfer = (Field("kv-p2p-transfer", NAME, "how KV moves from prefill to decode", nullable=True),)
    return Table(
        name,
        (
            Field("image", TEXT, "registry reference of the engine's image", required=True),
            Field("model", TEXT, "model name", required=True),
            Field("model-prefix", TEXT, "short model name, used in names of cells and recipes", required=True),
            Field("precision", TEXT, "fp4, fp8, bf16, ...", required=True),
            Field("framework", TEXT, "vllm, sglang, ...; `emulated` is our own engine", required=True),
            Field("runner", TEXT, "label of the machines; `cluster:NAME` for agentic scenarios", required=True),
            Field("multinode", schema.one_of(multinode), "must be written out", required=True),
            Field("disagg", FLAG if multinode else schema.one_of(False), "prefill and decode apart", default="false"),
            Field("router", schema.mapping(COMPONENT), "what routes requests", nullable=True),
            *(transfer if multinode else ()),
            Field("scenarios", schema.mapping(scenarios), "what to run", required=True),
        ),
        elsewhere={} if multinode else _MULTI_ONLY,
    )


SINGLE = _top("a single-node entry (multinode: false)", False, SINGLE_SCENARIOS)
MULTI = _top("a multi-node entry (multinode: true)", True, MULTI_SCENARIOS)

# Rules that span scenarios, for the reference page; `_across` applies them.
ENTRY_RULES = (
    "An agentic scenario needs a `runner` that starts with `cluster:`.",
    "`router` and `kv-p2p-transfer` stand at the top or in search-space entries, never in both places.",
    "`kv-p2p-transfer` in an entry needs `multinode: true`.",
    "`disagg: true` needs `kv-p2p-transfer` at the top, or in every search-space entry of every scenario.",
    "Agentic entries with `tp` belong to `multinode: false`, those with `prefill` and `decode` to `multinode: true`.",
)


def entry_faults(key: str, entry: Any) -> list[Fault]:
    """All faults of one entry of a config file."""
    faults: list[Fault] = []
    multinode = _means_multinode(entry)
    schema.check(MULTI if multinode else SINGLE, entry, (key,), faults)
    if not faults:
        faults.extend(_across(key, entry, multinode))
    elif isinstance(entry, dict):
        told = {fault.path for fault in faults}
        spanning = _across_if_possible(key, entry, multinode, faults)
        faults.extend(fault for fault in spanning if fault.path not in told)
    return faults


def _means_multinode(entry: Any) -> bool:
    """Which table to check with: what is written, or what the rest of the entry looks like when it is not."""
    if not isinstance(entry, dict):
        return False
    written = entry.get("multinode")
    if isinstance(written, bool):
        return written
    return "kv-p2p-transfer" in entry or str(written).lower() in ("true", "1")


def _across_if_possible(key: str, entry: dict[str, Any], multinode: bool, faults: list[Fault]) -> list[Fault]:
    """The spanning rules need sound scenarios; other fields may be faulty."""
    if any(fault.path[1:2] == ("scenarios",) and not fault.at_key for fault in faults) or "scenarios" not in entry:
        return []
    if any(fault.path[1:2] in (("router",), ("kv-p2p-transfer",), ("runner",), ("disagg",)) for fault in faults):
        return []
    return list(_across(key, entry, multinode))


def _across(key: str, entry: dict[str, Any], multinode: bool) -> Iterator[Fault]:
    spaces = list(_entries(entry))
    if entry["scenarios"].get("agentic-coding") and not str(entry.get("runner", "cluster:")).startswith("cluster:"):
        yield Fault((key, "runner"), "an agentic scenario needs an exact fleet: cluster:NAME")
    for name in ("router", "kv-p2p-transfer"):
        clash = next((path for path, space in spaces if space.get(name) is not None), None)
        if entry.get(name) is not None and clash:
            yield Fault(
                (key, *clash, name),
                f"{name} stands at the top already: top level or search-space, not both",
                at_key=True,
            )
    for path, space in spaces:
        if not multinode and space.get("kv-p2p-transfer") is not None:
            yield Fault((key, *path, "kv-p2p-transfer"), "only allowed with multinode: true", at_key=True)
        if path[1] == "agentic-coding":
            yield from _agentic_shape((key, *path), space, multinode)
    if multinode and entry.get("disagg") is True and entry.get("kv-p2p-transfer") is None:
        lacking = [path for path, space in spaces if space.get("kv-p2p-transfer") is None]
        if lacking:
            yield Fault(
                (key, "disagg"),
                "disagg: true needs kv-p2p-transfer, at the top or in every search-space entry",
                f"kv-p2p-transfer: NAME; the first entry without it is {key_path(lacking[0])}",
            )


def _agentic_shape(path: Path_, space: dict[str, Any], multinode: bool) -> Iterator[Fault]:
    if multinode and space.get("tp") is not None:
        yield Fault(
            (*path, "tp"), "a topology with tp is single-node: use prefill and decode, or multinode: false", at_key=True
        )
    if not multinode and space.get("prefill") is not None:
        yield Fault((*path, "prefill"), "prefill and decode are multi-node: use tp, or multinode: true", at_key=True)


def _entries(entry: dict[str, Any]) -> Iterator[tuple[Path_, dict[str, Any]]]:
    for kind in ("fixed-seq-len", "agentic-coding"):
        for index, item in enumerate(entry["scenarios"].get(kind) or ()):
            for number, space in enumerate(item["search-space"]):
                yield ("scenarios", kind, index, "search-space", number), space
