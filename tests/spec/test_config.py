from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden import golden
from tests.spec.yaml_bytes import MULTI, SINGLE

from ridgeline.core.errors import InputError
from ridgeline.spec.config import load_config_text, load_configs
from ridgeline.spec.printing import print_configs


def test_entries_hold_what_the_file_says() -> None:
    configs = load_config_text(SINGLE + MULTI, "f.yaml")
    assert list(configs) == ["qwen-bf16-h200-vllm", "dsv-fp4-gb200-dynamo-vllm"]
    entry = configs["qwen-bf16-h200-vllm"]
    assert (entry.model_prefix, entry.multinode, entry.disagg, entry.where.line) == ("qwen3", False, False, 1)
    ranged, listed = entry.fixed[0].spaces
    assert (ranged.tp, ranged.ep, ranged.dp_attn, ranged.conc_range, ranged.conc_list) == (1, None, None, (4, 64), None)
    assert (listed.ep, listed.dp_attn, listed.spec_decoding, listed.conc_list) == (8, True, "mtp", (8, 16))
    assert str(listed.where) == "f.yaml:16:9"
    assert entry.agentic[0].dram_utilization == 0.8
    assert dict(entry.agentic[0].spaces[0].kv_offload_backend or {}) == {"name": "lmcache"}
    multi = configs["dsv-fp4-gb200-dynamo-vllm"].fixed[0].spaces[0]
    assert multi.prefill is not None
    assert multi.decode is not None
    assert (multi.decode.workers, multi.decode.tp, multi.decode.pp, multi.kv_p2p_transfer) == (2, 8, 1, "nixl")
    assert list(multi.prefill.written)[-1] == "hardware"


def test_values_are_read_only() -> None:
    entry = load_config_text(SINGLE)["qwen-bf16-h200-vllm"]
    with pytest.raises(AttributeError):
        entry.image = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        entry.router["name"] = "x"  # type: ignore[index]


def test_files_merge_in_the_order_given(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(SINGLE)
    two.write_text(MULTI)
    assert list(load_configs([two, one])) == ["dsv-fp4-gb200-dynamo-vllm", "qwen-bf16-h200-vllm"]


def test_a_key_in_two_files_is_refused_by_name(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(SINGLE + MULTI)
    two.write_text(MULTI + SINGLE)
    with pytest.raises(InputError) as caught:
        load_configs([one, two])
    (problem,) = caught.value.problems
    assert "dsv-fp4-gb200-dynamo-vllm" in problem.message
    assert problem.message.index("dsv-fp4") < problem.message.index("qwen-bf16"), "sorted"
    assert str(one) in problem.message
    assert problem.where is not None
    assert problem.where.file == str(two)


def test_problems_of_all_files_come_together(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(SINGLE.replace("tp: 1,", "tp: x,"))
    with pytest.raises(InputError) as caught:
        load_configs([tmp_path / "absent.yaml", bad])
    assert [p.where.file for p in caught.value.problems if p.where] == [str(tmp_path / "absent.yaml"), str(bad)]


@pytest.mark.parametrize(("key", "mark"), [("a*b", "*"), ("a?b", "?")])
def test_marks_of_patterns_are_refused_in_keys(key: str, mark: str) -> None:
    with pytest.raises(InputError, match="kept for patterns"):
        load_config_text(SINGLE.replace("qwen-bf16-h200-vllm", f"'{key}'"))


@pytest.mark.parametrize("text", ["- a\n", "just text\n", "8\n"])
def test_a_file_must_hold_a_mapping(text: str) -> None:
    with pytest.raises(InputError, match="must hold a mapping of entries"):
        load_config_text(text)


# --- parse(print(x)) == x --------------------------------------------------------------------------------------------

_TEXT = st.text(string.printable + "é\u2028\x85", min_size=1, max_size=12).filter(lambda text: "\r" not in text)
_TRICKY = st.sampled_from(
    ["1e3", "010", "yes", "1:30", "2026-01-01", "~", "", "<<", "0.1", "- a", "a: b", "#x", "*a", "&a"]
)
_WORDS = st.one_of(_TEXT, _TRICKY)
_CONC = st.one_of(
    st.lists(st.integers(1, 9999), min_size=1, max_size=4).map(lambda values: {"conc-list": values}),
    st.tuples(st.integers(1, 50), st.integers(0, 500)).map(lambda t: {"conc-start": t[0], "conc-end": t[0] + t[1]}),
)


def joined(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


_SPACE = joined(
    st.fixed_dictionaries(
        {"tp": st.sampled_from([1, 2, 4, 8])},
        optional={
            "pp": st.integers(1, 4),
            "ep": st.one_of(st.none(), st.integers(0, 8)),
            "dp-attn": st.one_of(st.none(), st.booleans()),
            "spec-decoding": st.sampled_from(["mtp", "draft_model", "none"]),
        },
    ),
    _CONC,
)
_FIXED = st.fixed_dictionaries(
    {
        "isl": st.integers(1, 99999),
        "osl": st.integers(1, 99999),
        "search-space": st.lists(_SPACE, min_size=1, max_size=3),
    }
)
_ENTRY = st.fixed_dictionaries(
    {
        **dict.fromkeys(("image", "model", "model-prefix", "precision", "framework", "runner"), _WORDS),
        "multinode": st.just(False),
        "scenarios": st.lists(_FIXED, min_size=1, max_size=2).map(lambda items: {"fixed-seq-len": items}),
    },
    optional={
        "router": st.fixed_dictionaries({"name": _TEXT, "version": _TEXT.filter(lambda t: not t.startswith("image:"))})
    },
)
_FILE = st.dictionaries(_WORDS.filter(lambda key: not {"*", "?"} & set(key)), _ENTRY, min_size=1, max_size=3)


@given(_FILE)
@settings(max_examples=25, deadline=None)
def test_what_is_printed_reads_back_the_same(entries: dict[str, Any]) -> None:
    import json

    first = load_config_text(json.dumps(entries))  # JSON with escapes is YAML that quotes everything
    text = print_configs(first)
    again = load_config_text(text)
    assert list(again) == list(entries)
    assert {key: dict(entry.written) for key, entry in again.items()} == entries
    assert print_configs(again) == text


@pytest.mark.parametrize("name", ["amd-master.yaml", "nvidia-master.yaml"])
def test_the_real_files_print_and_read_back(name: str) -> None:
    first = load_configs([golden(f"data/inferencex/configs/{name}")])
    again = load_config_text(print_configs(first))
    assert [(key, entry.written) for key, entry in again.items()] == [
        (key, entry.written) for key, entry in first.items()
    ]
