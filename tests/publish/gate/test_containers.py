"""P13: recipes and scripts follow a config's image."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.publish.gate.rules.configs import read_configs
from ridgeline.publish.gate.rules.containers import containers, left_behind
from ridgeline.spec.config import ConfigSet

RECIPE = "benchmarks/multi_node/recipes/vllm/a.yaml"
POOL = "num-worker: 1, tp: 8, ep: 1, dp-attn: false"
CONFIG = f"""\
{{key}}:
  image: {{image}}
  model: acme/new
  model-prefix: new
  runner: h1
  precision: fp8
  framework: dynamo-vllm
  multinode: true
  disagg: true
  kv-p2p-transfer: nixl
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - prefill: {{{{ {POOL}, additional-settings: ["CONFIG_FILE=recipes/vllm/a.yaml:one", "X=1"] }}}}
        decode: {{{{ {POOL} }}}}
        conc-list: [8]
"""


def entries(image: str, key: str = "new") -> ConfigSet:
    return read_configs([("m.yaml", CONFIG.format(key=key, image=image).encode())]).entries


def said(before: str, after: str, recipe: str, changed: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    found = containers(
        entries(before), entries(after), changed, {RECIPE: recipe.encode(), "x/a.yaml": b"container: z:1"}
    )
    return [(one.where.file, one.where.line) for one in found if one.where and one.rule == "P13"]


@pytest.mark.parametrize(
    ("recipe", "differs"),
    [
        ("model:\n  container: acme/engine:1\n", True),
        ("model:\n  container: acme/engine:2\n", False),
        ("model:\n  container: docker://docker.io/acme/engine:2\n", False),
        ("container: acme#engine:1\n", True),
        ("model:\n  container: engine-of-the-cluster\n", False),  # an alias says nothing
        ("model: [1\n", False),
        ("model:\n  path: x\n", False),
        ("", False),
    ],
)
def test_a_new_image_reaches_its_recipe(recipe: str, differs: bool) -> None:
    line = 1 + (recipe.startswith("model:") and differs)
    assert said("acme/engine:1", "acme/engine:2", recipe) == ([(RECIPE, line)] if differs else [])


def test_an_old_difference_blocks_only_whoever_touches_it() -> None:
    recipe = "model: { container: acme/other:3 }\n"
    assert said("acme/engine:1", "acme/engine:1", recipe) == []
    assert said("acme/engine:1", "acme/engine:1", recipe, (RECIPE,)) == [(RECIPE, 1)]
    assert len(list(containers(ConfigSet(()), entries("a/b:1"), (), {RECIPE: recipe.encode()}))) == 1  # a new entry


def test_scripts_that_still_name_the_image_left() -> None:
    script = b"#!/bin/sh\n# acme/engine:1\nrun acme/engine:1\nrun acme/engine:12\nrun acme#engine:1 x\n"
    found = list(left_behind(entries("acme/engine:1"), entries("acme/engine:2"), {"a.sh": script}))
    assert [one.where and one.where.line for one in found] == [3, 5]
    assert {one.severity.value for one in found} == {"warning"}
    shared = ConfigSet((*entries("acme/engine:2").values(), *entries("acme/engine:1", "other").values()))
    assert list(left_behind(entries("acme/engine:1"), shared, {"a.sh": script})) == []  # others use it still


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=120))
def test_any_recipe_is_read(data: bytes) -> None:
    list(containers(ConfigSet(()), entries("a/b:1"), (), {RECIPE: data}))
    list(left_behind(entries("a/b:1"), entries("a/b:2"), {"x.sh": data}))
