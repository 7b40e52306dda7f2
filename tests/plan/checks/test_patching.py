import ast
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plan.checks.making import make

from ridgeline.core.finding import Change
from ridgeline.core.topology import Topology
from ridgeline.core.where import Where
from ridgeline.plan.checks.patching import Edit, NotWritten, difference, edits_of, patched

CONFIG = b"""# kept as it is\r
key:\r
  search-space:\r
  - { tp: 8, ep: 1, conc-list: [1, 8] }   # padded\r
  - tp: 4\r
    ep: 1\r
"""


def edit(line: int, old: str, new: str, column: int = 0) -> Edit:
    return Edit(Where("f", line, column), old, new, "")


def test_only_the_word_changes() -> None:
    data = b"run \\\n  --max-num-batched-tokens 8192 \\\n  --port 18192\n"
    after, left = patched(data, [edit(2, "8192", "4096")])
    assert after == data.replace(b"tokens 8192", b"tokens 4096")
    assert not left


def test_a_new_flag_goes_before_the_continuation_mark() -> None:
    after, _ = patched(b"serve x \\\r\n  --a 1\r\n", [edit(1, "", " --b 2"), edit(2, "", " --c")])
    assert after == b"serve x --b 2 \\\r\n  --a 1 --c\r\n"


def test_what_is_not_there_exactly_once_is_left() -> None:
    data = b"8 8\n"
    after, left = patched(data, [edit(1, "8", "9"), edit(7, "8", "9")])
    assert after == data
    assert {why for _, why in left} == {"line 1 does not hold `8` exactly once", "there is no line 7"}
    assert patched(data, [edit(1, "8", "9", column=3)])[0] == b"8 9\n"


@pytest.mark.parametrize(
    ("where", "after"),
    [(Where("space.yaml", 4, 5), b"{ tp: 8, ep: 8,"), (Where("space.yaml", 5, 5), b"    ep: 8\r\n")],
)
def test_the_search_space_entry_is_edited_in_place(where: Where, after: bytes) -> None:
    subject = make(Topology(8))
    subject = replace(subject, cell=replace(subject.cell, where=where))
    change = Change("engine", "gpu-memory-utilization", "0.80", "", arm=("ep", 8))
    found = edits_of(subject, change, {"space.yaml": CONFIG})
    assert isinstance(found, list)
    own = [item for item in found if item.where.file == "space.yaml"]
    data, left = patched(CONFIG, own)
    assert after in data and not left
    assert len(data) == len(CONFIG)


@pytest.mark.parametrize(
    ("config", "where", "after"),
    [
        (b"a:\n- { tp: 8, x: 1 }  # kept\n", Where("space.yaml", 2, 3), b"- { ep: 8, tp: 8, x: 1 }  # kept"),
        (b"a:\r\n- tp: 8  # kept\r\n  x: 1\r\n", Where("space.yaml", 2, 3), b"- ep: 8\r\n  tp: 8  # kept\r\n"),
    ],
)  # fmt: skip
def test_a_key_the_entry_does_not_write_is_added_before_its_first(config: bytes, where: Where, after: bytes) -> None:
    subject = make(Topology(8))
    written = tuple(replace(item, origin=Where("recipes/x.py")) for item in subject.deployment.services[0].argv)
    subject = subject.with_service(replace(subject.deployment.services[0], argv=written))
    subject = replace(subject, cell=replace(subject.cell, where=where))
    found = edits_of(
        subject, Change("engine", "enable-expert-parallel", None, "x", arm=("ep", 8)), {"space.yaml": config}
    )
    assert isinstance(found, list) and len(found) == 1  # the recipe derives the flag from the search space
    data, left = patched(config, found)
    assert after in data and not left
    yaml.safe_load(data)


RECIPE = b"""def recipe(cell):
    return Vllm(
        model=asked(cell.model),
        gpu_memory_utilization=here(0.9),  # as much as fits
        async_scheduling=here(True),
        max_num_seqs=asked(64, cell),
    )
"""


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (Change("engine", "gpu-memory-utilization", "0.86", ""), b"utilization=here(0.86),  # as much as fits"),
        (Change("engine", "no-async-scheduling", None, ""), b"async_scheduling=here(False),"),
        (Change("engine", "max-num-batched-tokens", "4096", ""), b"        max_num_batched_tokens=here(4096),\n"),
        (Change("engine", "enable-expert-parallel", None, ""), None),  # no option of its own
        (Change("engine", "max-num-seqs", "32", ""), None),  # derived from a line of the config, which holds a 64 too
    ],
)  # fmt: skip
def test_a_recipe_is_edited_where_the_option_stands_or_would_stand(change: Change, line: bytes | None) -> None:
    """Values at `here(...)` are edited, new options are added beside one; the result is still Python."""
    flags = {
        "gpu-memory-utilization": 0.9,
        "async-scheduling": True,
        "max-num-batched-tokens": None,
        "max-num-seqs": 64,
    }
    subject = make(Topology(8), flags=flags)
    lines = {"gpu-memory-utilization": 4, "async-scheduling": 5}
    items, own = [], None
    for item in subject.deployment.services[0].argv:
        own = item.text.removeprefix("--") if item.text.startswith("--") else own
        place = Where("recipes/x.py", lines[own]) if own in lines else Where("space.yaml", 1, 1)
        items.append(replace(item, origin=place))
    subject = subject.with_service(replace(subject.deployment.services[0], argv=tuple(items)))
    found = edits_of(subject, change, {"recipes/x.py": RECIPE, "space.yaml": b"conc: 64\n"})
    if line is None:
        assert isinstance(found, NotWritten)
        return
    assert isinstance(found, list)
    data, left = patched(RECIPE, found)
    assert line in data and not left
    ast.parse(data)
    assert len(data.splitlines()) - len(RECIPE.splitlines()) == (change.flag == "max-num-batched-tokens")


def test_code_is_not_written_into() -> None:
    subject = make(Topology(8))
    change = Change("engine", "enable-expert-parallel", None, "x")
    found = edits_of(subject, change, {})  # the hand-written command line says it is a script
    assert isinstance(found, list) and found[0].new == " --enable-expert-parallel"
    missing = edits_of(subject, Change("engine", "max-num-seqs", "8", "x", arm=("dcp", 2)), {"space.yaml": CONFIG})
    assert isinstance(missing, NotWritten)


def test_a_patch_that_others_can_apply() -> None:
    text = difference("run.sh", b"a\nb\n", b"a\nc\n")
    assert text.splitlines()[:2] == ["--- a/run.sh", "+++ b/run.sh"]
    assert "-b\n+c\n" in text
    assert difference("f", b"x", b"x") == ""
    assert Path("run.sh").suffix == ".sh"


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(1, 6))
def test_any_bytes_stay_as_they_are_but_for_the_edit(data: bytes, line: int) -> None:
    after, left = patched(data, [edit(line, "@@@", "###")])
    assert after == (data if left else data.replace(b"@@@", b"###", 1)) or b"@@@" in data
