"""append-only: only points may be added, and only to a series that was drawn with the same image."""

from __future__ import annotations

import pytest

from ridgeline.publish.changelog.entry import Entry
from ridgeline.publish.changelog.expansion import MasterConfigs
from ridgeline.publish.changelog.refusal import ChangelogRefused
from ridgeline.publish.changelog.rows import Row
from ridgeline.publish.changelog.selection import Modifiers, select

BASE = """\
single:
  image: acme/engine:1
  model: acme/m
  model-prefix: m
  precision: fp8
  framework: vllm
  runner: cluster:h
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 1024
      search-space:
      - { tp: 4, conc-list: [8, 16] }
    agentic-coding:
    - search-space:
      - { tp: 8, kv-offloading: none, conc-list: [4] }
multi:
  image: acme/engine:1
  model: acme/m
  model-prefix: m
  precision: fp8
  framework: vllm
  runner: cluster:h
  multinode: true
  disagg: true
  kv-p2p-transfer: nixl
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - conc-list: [8, 64]
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
        decode: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
    agentic-coding:
    - search-space:
      - conc-list: [4]
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
        decode: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
"""
RUNNERS = ("runners.yaml", b"labels:\n  cluster:h: [h1]\n")


def master(text: str) -> MasterConfigs:
    return MasterConfigs.read([("master.yaml", text.encode())], RUNNERS)


def added(*edits: tuple[str, str], key: str = "single", scenario: str | None = None) -> list[Row]:
    head = BASE
    for old, new in edits:
        assert head.count(old) >= 1, old
        head = head.replace(old, new, 1)
    scenarios = None if scenario is None else (scenario,)
    one = Entry((key,), ("w",), "XXX", append_only=True, scenario_type=scenarios, line=3, key_lines=(4,))
    selection = select([one], master(head), lambda: master(BASE), Modifiers())
    assert not selection.evals
    return list(selection.throughput)


def concurrencies(rows: list[Row]) -> list[object]:
    return [row["conc"] for row in rows]


def test_new_concurrencies_of_a_recipe() -> None:
    assert concurrencies(added(("[8, 16]", "[8, 32, 16, 32, 4]"))) == [32, 4]


def test_a_new_recipe_of_the_same_series() -> None:
    rows = added(("      - { tp: 4,", "      - { tp: 2, conc-list: [1] }\n      - { tp: 4,"))
    assert [(row["tp"], row["conc"]) for row in rows] == [(2, 1)]


WORKERS = """
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
        decode: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
"""


def test_multi_node_rows_keep_only_new_values_once_in_source_order() -> None:
    assert concurrencies(added(("[8, 64]", "[128, 8, 64, 32, 128]"), key="multi")) == [[128, 32]]
    twice = f"[8, 64, 128]{WORKERS}      - conc-list: [128, 96]"
    assert concurrencies(added(("[8, 64]", twice), key="multi")) == [[128], [96]]
    assert concurrencies(added(("[4]\n        prefill", "[4, 2]\n        prefill"), key="multi")) == [[2]]


def refused(*edits: tuple[str, str], says: str, key: str = "single", scenario: str | None = None) -> None:
    with pytest.raises(ChangelogRefused, match=says) as caught:
        added(*edits, key=key, scenario=scenario)
    assert {one.where.line for one in caught.value.problems if one.where} == {3}


def test_another_spec_decoding_is_a_new_series_for_fixed_rows_only() -> None:
    plain = "      - { tp: 8, kv-offloading: none,"
    speculative = f"      - {{ tp: 8, spec-decoding: mtp, kv-offloading: none, conc-list: [4] }}\n{plain}"
    assert [row["spec-decoding"] for row in added((plain, speculative))] == ["mtp"]
    fixed = "      - { tp: 4,"
    refused((fixed, f"      - {{ tp: 4, spec-decoding: mtp, conc-list: [1] }}\n{fixed}"), says="starts a series")


def test_a_new_sequence_length_is_a_new_series() -> None:
    old = "    - isl: 1024\n"
    new = f"    - isl: 2048\n      osl: 1024\n      search-space:\n      - {{ tp: 4, conc-list: [8] }}\n{old}"
    refused((old, new), says="starts a series")


MORE = ("[8, 16]", "[8, 16, 32]")
MORE_AGENTIC = ("[4] }", "[4, 8] }")
IMAGE = ("engine:1", "engine:2")


@pytest.mark.parametrize(
    ("edits", "scenario", "says"),
    [
        ((), None, "no point was added"),
        ((("[8, 16]", "[16, 32]"),), None, "lost concurrency 8"),
        ((MORE, ("{ tp: 4,", "{ tp: 4, ep: 4,")), None, "changed or is gone"),
        ((MORE, IMAGE), None, "changed or is gone"),
        ((MORE, ("nixl", "mori")), None, "config `multi` is not selected but changed"),
        ((MORE, ("multi:\n", "renamed:\n")), None, "config `renamed` is not selected but changed"),
        ((MORE, MORE_AGENTIC), "fixed-seq-len", "`agentic-coding` of `single` is not selected but changed"),
        ((MORE, IMAGE), "fixed-seq-len", "`image` of `single` changed"),
    ],
)
def test_anything_else_is_refused_at_the_entry(
    edits: tuple[tuple[str, str], ...], scenario: str | None, says: str
) -> None:
    refused(*edits, scenario=scenario, says=says)


def test_a_new_config_is_refused() -> None:
    refused(MORE, ("single:", "fresh:"), key="fresh", says="config `fresh` is new")


def test_a_removed_scenario_is_refused() -> None:
    agentic = BASE[BASE.index("    agentic-coding:") : BASE.index("multi:")]
    refused((agentic, ""), MORE, says="has other scenarios than at the base: agentic-coding")


def test_a_series_with_two_images_at_the_base_takes_no_points() -> None:
    other = BASE[: BASE.index("multi:")].replace("single", "twin").replace("engine:1", "engine:2")
    text = BASE + other
    entries = [Entry(("*",), ("w",), "XXX", append_only=True, line=3, key_lines=(4,))]
    head = master(text.replace("[8, 16]", "[8, 16, 32]", 1))
    with pytest.raises(ChangelogRefused, match="a series with 2 images at the base"):
        select(entries, head, lambda: master(text))


def test_only_the_selected_scenario_may_grow() -> None:
    assert concurrencies(added(MORE_AGENTIC, scenario="agentic-coding")) == [8]
    refused(MORE_AGENTIC, scenario="fixed-seq-len", says="not selected but changed")
