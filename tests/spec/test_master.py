"""Every rule of master configs has a case: what is changed in a valid file, where the problem stands, what it says."""

from __future__ import annotations

import pytest
from tests.spec.yaml_bytes import MULTI, SINGLE

from ridgeline.core.errors import InputError, Problem
from ridgeline.spec.config import load_config_text

FIXED = "scenarios.fixed-seq-len[0].search-space"
AGENTIC = "scenarios.agentic-coding[0].search-space[0]"
Q, D = "qwen-bf16-h200-vllm", "dsv-fp4-gb200-dynamo-vllm"
ITEM = f"{Q}.scenarios.agentic-coding[0]"
WORKER = "{num-worker: 1, tp: 8, ep: 1, dp-attn: no}"
WORKERS = f"      - prefill: {WORKER}\n        decode: {WORKER}\n"


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        load_config_text(text, "f.yaml")
    return caught.value.problems


@pytest.mark.parametrize("text", [SINGLE, MULTI, SINGLE + MULTI])
def test_the_valid_files_are_valid(text: str) -> None:
    assert load_config_text(text)


SINGLE_CASES = [
    # unknown, missing, misspelt
    ("  image: vllm/vllm-openai:v0.20.0\n", "", f"{Q}.image", "is required and missing"),
    ("  multinode: false\n", "", f"{Q}.multinode", "is required and missing"),
    ("  image:", "  imge:", f"{Q}.imge", "did you mean `image`?"),
    ("  model-prefix:", "  model_prefix:", f"{Q}.model_prefix", "did you mean `model-prefix`?"),
    ("dp-attn: true", "dp-atn: true", f"{Q}.{FIXED}[1].dp-atn", "did you mean `dp-attn`?"),
    ("tp: 1,", "tp: 1, batch-size: 3,", f"{Q}.{FIXED}[0].batch-size", "is not a known field"),
    ("  router:", "  kv-p2p-transfer: nixl\n  router:", f"{Q}.kv-p2p-transfer", "only with multinode: true"),
    ("tp: 1,", "tp: 1, kv-p2p-transfer: x,", f"{Q}.{FIXED}[0].kv-p2p-transfer", "only with multinode: true"),
    ("    - dram", "    - duration: 60\n      dram", f"{ITEM}.duration", "3600 s"),
    ("    - dram", "    - trace-source: x\n      dram", f"{ITEM}.trace-source", "on the command line"),
    # types
    ("multinode: false", "multinode: 'false'", f"{Q}.multinode", "remove the quotes: false"),
    ("multinode: false", "multinode: false\n  disagg: true", f"{Q}.disagg", "must be false, nothing else"),
    ("precision: bf16", "precision: no", f"{Q}.precision", "must be text, not false (also written no, off)"),
    ("precision: bf16", "precision: 2026-01-01", f"{Q}.precision", "is a date in YAML 1.1"),
    ("precision: bf16", "precision: 1e3", f"{Q}.precision", "write '1e3' in quotes"),
    ("precision: bf16", "precision:", f"{Q}.precision", "must be text, not nothing (null)"),
    ("isl: 1024", "isl: 1e3", f"{Q}.scenarios.fixed-seq-len[0].isl", "must be a whole number"),
    ("isl: 1024", "isl: 17:04", f"{Q}.scenarios.fixed-seq-len[0].isl", "base-60 number in YAML 1.1 (1024)"),
    ("isl: 1024", "isl: 02000", f"{Q}.scenarios.fixed-seq-len[0].isl", "looks octal (1024 for one reader"),
    ("tp: 1,", "tp: '8',", f"{Q}.{FIXED}[0].tp", "remove the quotes: 8"),
    ("tp: 1,", "tp: 8.0,", f"{Q}.{FIXED}[0].tp", "must be a whole number, not the number 8.0"),
    ("tp: 1,", "tp: true,", f"{Q}.{FIXED}[0].tp", "must be a whole number, not true"),
    ("tp: 1,", "tp: 1, pp: 0,", f"{Q}.{FIXED}[0].pp", "must be a whole number above 0"),
    ("tp: 1,", "tp: 1, pcp-size: '2',", f"{Q}.{FIXED}[0].pcp-size", "must be a whole number above 0"),
    ("spec-decoding: mtp", "spec-decoding: eagle", f"{Q}.{FIXED}[1].spec-decoding", "mtp, draft_model or none"),
    ("dp-attn: true", "dp-attn: 1", f"{Q}.{FIXED}[1].dp-attn", "must be true or false, not 1"),
    ("conc-start: 4", "conc-start: .inf", f"{Q}.{FIXED}[0].conc-start", "must be a whole number, not the number inf"),
    ("conc-list: [8, 16]", "conc-list: [8, 4.5]", f"{Q}.{FIXED}[1].conc-list[1]", "must be a whole number"),
    ("conc-list: [8, 16]", "conc-list: 8", f"{Q}.{FIXED}[1].conc-list", "must be a list of whole numbers"),
    ("0.8", "1.1", f"{ITEM}.dram-utilization", "above 0 and at most 1"),
    ("0.8", "0", f"{ITEM}.dram-utilization", "above 0 and at most 1"),
    ("0.8", ".nan", f"{ITEM}.dram-utilization", "above 0 and at most 1"),
    ("kv-offloading: dram", "kv-offloading: ssd", f"{Q}.{AGENTIC}.kv-offloading", "none or dram"),
    ('"0.1.14"', "image:x", f"{Q}.router.version", "not an image reference"),
    ('"0.1.14"', "0.1", f"{Q}.router.version", "quote the value"),
    ("name: vllm-router", "name: ''", f"{Q}.router.name", "not empty"),
    ("{name: lmcache}", "{name: lmcache, url: x}", f"{Q}.{AGENTIC}.kv-offload-backend.url", "is not a known field"),
    # concurrency
    ("conc-end: 64", "conc-end: 64, conc-list: [1]", f"{Q}.{FIXED}[0].conc-start", "a list and a range"),
    (", conc-end: 64", "", f"{Q}.{FIXED}[0]", "conc-end is missing"),
    ("conc-start: 4, conc-end: 64", "ep: 1", f"{Q}.{FIXED}[0]", "nothing is given"),
    ("[8, 16]", "[]", f"{Q}.{FIXED}[1]", "conc-list is empty"),
    ("[8, 16]", "[8, 0]", f"{Q}.{FIXED}[1].conc-list[1]", "must be above 0, not 0"),
    ("conc-start: 4", "conc-start: 0", f"{Q}.{FIXED}[0].conc-start", "must be above 0, not 0"),
    ("conc-start: 4", "conc-start: 65", f"{Q}.{FIXED}[0].conc-start", "65 > 64"),
    ("conc-list: [8, 16]", "conc-list: [8], conc-end: 9", f"{Q}.{FIXED}[1].conc-end", "half a range"),
    # cross rules
    ("tp: 1,", "tp: 6, dcp-size: 4,", f"{Q}.{FIXED}[0].tp", "tp (6) must be divisible by dcp-size (4)"),
    ("runner: cluster:h200-a", "runner: h200", f"{Q}.runner", "cluster:NAME"),
    ("tp: 1,", "tp: 1, router: {name: a, version: b},", f"{Q}.{FIXED}[0].router", "not both"),
    ("        kv-offload-backend: {name: lmcache}\n", "", f"{Q}.{AGENTIC}.kv-offloading", "needs kv-offload-backend"),
    ("kv-offloading: dram", "kv-offloading: none", f"{Q}.{AGENTIC}.kv-offload-backend", "kv-offloading is none"),
    ("        kv-offloading: dram\n", "", f"{Q}.{AGENTIC}.kv-offload-backend", "kv-offloading is absent"),
    ("        kv-offloading: dram\n", "", f"{Q}.{AGENTIC}.kv-offloading", "is required with tp"),
    ("    - dram-utilization: 0.8\n      s", "    - s", f"{ITEM}.dram-utilization", "is required"),
    ("      - tp: 8\n        kv", "      - kv", f"{Q}.{AGENTIC}", "tp alone, or prefill and decode"),
    ("      - tp: 8\n", f"      - tp: 8\n        prefill: {WORKER}\n", f"{Q}.{AGENTIC}", "tp alone"),
]  # fmt: skip
MULTI_CASES = [
    ("  disagg: true\n", "  disagg: yes please\n", f"{D}.disagg", "must be true or false"),
    ("      - kv-p2p-transfer: nixl\n        prefill", "      - prefill", f"{D}.disagg", "at the top or in every"),
    ("  disagg: true", "  disagg: true\n  kv-p2p-transfer: x", f"{D}.{FIXED}[0].kv-p2p-transfer", "not both"),
    ("kv-p2p-transfer: nixl", "kv-p2p-transfer: ''", f"{D}.{FIXED}[0].kv-p2p-transfer", "not empty"),
    (', hardware: gb200}\n        decode', '}\n        decode', f"{D}.{FIXED}[0].decode.hardware", "or on neither"),
    ("num-worker: 2, ", "", f"{D}.{FIXED}[0].decode.num-worker", "is required and missing"),
    ("tp: 4, ep: 4", "tp: 4, ep: 4, dcp-size: 3", f"{D}.{FIXED}[0].prefill.tp", "tp (4) must be divisible"),
    ('["A=1"]', "[1]", f"{D}.{FIXED}[0].prefill.additional-settings[0]", "must be text, not 1"),
    ("        conc-list", "        tp: 8\n        conc-list", f"{D}.{FIXED}[0].tp", "is not a known field"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "key", "says"), SINGLE_CASES)
def test_single_node_rules(old: str, new: str, key: str, says: str) -> None:
    check(SINGLE, old, new, key, says)


@pytest.mark.parametrize(("old", "new", "key", "says"), MULTI_CASES)
def test_multi_node_rules(old: str, new: str, key: str, says: str) -> None:
    check(MULTI, old, new, key, says)


def check(text: str, old: str, new: str, key: str, says: str) -> None:
    assert old in text
    found = problems(text.replace(old, new, 1))
    hits = [problem for problem in found if problem.key == key]
    assert hits, [str(problem) for problem in found]
    assert any(says in str(problem) for problem in hits), [str(problem) for problem in found]
    for problem in found:
        assert problem.where is not None
        assert problem.where.file == "f.yaml"
        assert problem.where.line > 0
        assert problem.where.column > 0


def test_problems_point_at_the_offending_token() -> None:
    (found,) = problems(SINGLE.replace("tp: 1,", "tp: one,", 1))
    assert str(found.where) == "f.yaml:15:14"


def test_all_problems_of_a_file_come_at_once_in_its_order() -> None:
    text = SINGLE.replace("bf16\n", "yes\n").replace("tp: 1,", "tp: x, ep: y,").replace("osl: 1024", "osl: 01")
    text += MULTI.replace("num-worker: 1", "num-worker: z")
    found = problems(text)
    assert [problem.key.rsplit(".", 1)[1] for problem in found if problem.key] == [
        "precision",
        "osl",
        "tp",
        "ep",
        "num-worker",
    ]
    assert [problem.where for problem in found] == sorted(problem.where for problem in found if problem.where)


def test_rules_still_run_beside_unrelated_faults() -> None:
    keys = {
        problem.key for problem in problems(SINGLE.replace("precision: bf16", "precision: 8").replace("cluster:", ""))
    }
    assert keys == {f"{Q}.precision", f"{Q}.runner"}


@pytest.mark.parametrize(
    ("multinode", "entry", "key", "says"),
    [
        ("true", "      - {tp: 8, kv-offloading: none, conc-list: [1]}\n", "tp", "multinode: false"),
        ("false", WORKERS + "        conc-list: [1]\n", "prefill", "multinode: true"),
    ],
)
def test_agentic_topology_of_the_other_kind(multinode: str, entry: str, key: str, says: str) -> None:
    head = SINGLE[: SINGLE.index("  scenarios")].replace("multinode: false", f"multinode: {multinode}")
    (found,) = problems(f"{head}  scenarios:\n    agentic-coding:\n    - search-space:\n{entry}")
    assert found.key == f"{Q}.{AGENTIC}.{key}"
    assert says in found.message


@pytest.mark.parametrize("size", ["pp", "dcp-size", "pcp-size"])
def test_sizes_beside_workers_are_refused_even_as_one(size: str) -> None:
    head = SINGLE[: SINGLE.index("  scenarios")].replace("multinode: false", "multinode: true")
    entry = f"{WORKERS}        {size}: 1\n        conc-list: [1]\n"
    text = f"{head}  scenarios:\n    agentic-coding:\n    - search-space:\n{entry}"
    (found,) = problems(text)
    assert found.key == f"{Q}.{AGENTIC}.{size}"
    assert "prefill and decode" in found.message


@pytest.mark.parametrize(
    ("scenarios", "says"),
    [
        ("{}", "at least one scenario"),
        ("{fixed-seq-len: [], agentic-coding: []}", "at least one scenario"),
        ("{fixed-seq-len: [{isl: 1, osl: 1, search-space: []}]}", "it would give no cells"),
        ("[]", "must be a mapping"),
    ],
)
def test_scenarios_that_hold_nothing(scenarios: str, says: str) -> None:
    head = SINGLE[: SINGLE.index("  scenarios")]
    assert says in str(problems(f"{head}  scenarios: {scenarios}\n")[0])


@pytest.mark.parametrize(
    "change",
    [
        ("tp: 1,", "tp: 0,"),
        ("dp-attn: true", "dp-attn: yes"),
        ("dp-attn: true", "dp-attn: ~"),
        ("ep: 8", "ep: null"),
        ("tp: 1,", "tp: 0x8,"),
        ("conc-start: 4, conc-end: 64", "conc-start: 4, conc-end: 64, conc-list: []"),
        ("[8, 16]", "[16, 8, 8]"),
        ("  router: {name: vllm-router, version: \"0.1.14\"}\n", "  router: null\n"),
        ("framework: vllm", "framework: emulated"),
        ("0.8", "1"),
    ],
)  # fmt: skip
def test_what_is_unusual_and_allowed(change: tuple[str, str]) -> None:
    assert change[0] in SINGLE
    assert len(load_config_text(SINGLE.replace(*change, 1))) == 1
