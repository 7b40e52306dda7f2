"""Rows as the output schema writes them, and the table for people."""

from __future__ import annotations

from ridgeline.publish.changelog.entry import Entry
from ridgeline.publish.changelog.output import as_object, as_text, written
from ridgeline.publish.changelog.selection import Selection
from ridgeline.publish.changelog.table import as_table, topology

WORKER = {"dp-attn": False, "tp": 8, "num-worker": 2, "ep": 8, "hardware": "h", "pp": 1, "dcp-size": 1, "pcp-size": 1}
NAMES = {"runner": "r", "framework": "f", "precision": "p", "model-prefix": "m", "model": "M", "image": "i"}
FIXED = {
    **NAMES,
    "osl": 1024,
    "isl": 8192,
    "exp-name": "x",
    "max-model-len": 9,
    "spec-decoding": "none",
    "disagg": False,
}
SINGLE = {
    **FIXED,
    "conc": 4,
    "tp": 8,
    "pp": 1,
    "dcp-size": 1,
    "pcp-size": 1,
    "ep": 1,
    "dp-attn": False,
    "run-eval": False,
}
MULTI = {
    **FIXED,
    "conc": [4, 8],
    "prefill": WORKER,
    "decode": {**WORKER, "additional-settings": ["A=1"]},
    "run-eval": False,
}
AGENTIC = {
    "scenario-type": "agentic-coding",
    "kv-offloading": "dram",
    "kv-offload-backend": {"name": "b"},
    "duration": 1,
}


def test_a_single_fixed_row_has_its_order_and_defaults() -> None:
    row = written({**SINGLE, "router": {"version": "1", "name": "n"}, "recipe-fingerprint": "f"})
    assert " ".join(row) == (
        "image model model-prefix precision framework spec-decoding runner isl osl tp pp dcp-size pcp-size ep dp-attn "
        "conc max-model-len exp-name disagg run-eval eval-only router recipe-fingerprint"
    )
    assert (row["eval-only"], list(row["router"])) == (False, ["name", "version"])


def test_a_multi_fixed_row_fills_its_workers() -> None:
    row = written({**MULTI, "kv-p2p-transfer": "nixl", "eval-conc": 8})
    assert " ".join(row) == (
        "image model model-prefix precision framework spec-decoding runner isl osl prefill decode conc max-model-len "
        "exp-name disagg run-eval eval-only eval-conc eval-all-concs kv-p2p-transfer"
    )
    order = "num-worker tp pp dcp-size pcp-size ep dp-attn hardware additional-settings"
    assert " ".join(row["prefill"]) == " ".join(row["decode"]) == order
    assert (row["prefill"]["additional-settings"], row["decode"]["additional-settings"]) == ([], ["A=1"])
    row["prefill"]["additional-settings"].append("x")
    assert written(MULTI)["prefill"]["additional-settings"] == []  # the default is not shared


def test_agentic_rows_have_no_defaults() -> None:
    assert "eval-only" not in written({**SINGLE, **AGENTIC, "run-eval": None})
    row = written({**MULTI, **AGENTIC, "conc": [4], "eval-only": True})
    assert list(row)[-3:] == ["scenario-type", "run-eval", "eval-only"]
    assert list(row)[10:14] == ["kv-offloading", "kv-offload-backend", "duration", "exp-name"]


def test_rows_fall_into_buckets_and_lists() -> None:
    rows = ({**SINGLE, "isl": 512, "osl": 128}, SINGLE, {**SINGLE, **AGENTIC}, MULTI)
    entry = Entry(("k",), ("why",), "XXX", scenario_type=("agentic-coding",), eval_min_prefill_ep=2)
    found = as_object(Selection(rows, (MULTI, {**MULTI, **AGENTIC}, {**SINGLE, **AGENTIC}), (entry,)), "B", "H")
    assert list(found) == [
        *("single_node", "multi_node", "evals", "agentic_evals"),
        *("multinode_evals", "multinode_agentic_evals", "changelog_metadata"),
    ]
    assert (list(found["single_node"]), list(found["multi_node"])) == (["512_128", "8k1k", "agentic"], ["8k1k"])
    lists = [len(found[name]) for name in list(found)[2:6]]
    assert lists == [0, 1, 1, 1]
    assert found["changelog_metadata"]["entries"] == [
        {
            "config-keys": ["k"],
            "description": ["why"],
            "pr-link": "XXX",
            "evals-only": False,
            "all-evals": False,
            "append-only": False,
            "eval-min-prefill-ep": 2,
            "scenario-type": ["agentic-coding"],
        }
    ]
    assert as_text({"a": [1, "ü"]}) == '{"a":[1,"\\u00fc"]}'


def test_topologies_read_well() -> None:
    assert topology(SINGLE) == "TP8"
    assert (
        topology({**SINGLE, "dp-attn": True, "ep": 8, "spec-decoding": "mtp", "kv-offloading": "dram"})
        == "DP8EP8-mtp-dram"
    )
    assert topology(MULTI) == "2xTP8EP8+2xTP8EP8"


def test_a_table_of_nothing_is_one_line() -> None:
    assert as_table(Selection((), (), ())) == "0 entries added, selecting 0 throughput jobs, 0 evaluations\n"
