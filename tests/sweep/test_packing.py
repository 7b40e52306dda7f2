"""Cells packed into walltimes: split, joined, refused by name; and walltimes as people write them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.deployment import Deployment
from ridgeline.core.errors import InputError
from ridgeline.sweep.groups import Group, grouped
from ridgeline.sweep.packing import RESERVE, packed, walltime_s
from ridgeline.sweep.times import Times


class Item(NamedTuple):
    """A cell that takes `cell_s` on an engine called `engine`, whose start takes `start_s`."""

    engine: str
    cell_s: float
    start_s: float = 100.0

    @property
    def deployment(self) -> Deployment:
        return Deployment((), self.engine, "m", "command")


def expect(item: Item) -> Times:
    return Times(item.start_s, 0.0, item.cell_s, 0.0, "as told")


def groups(*items: Item) -> list[Group[Item]]:
    return grouped(list(enumerate(items, 1)))


def places(found: object) -> list[list[int]]:
    return [[at for at, _ in bundle.members] for bundle in found.bundles]  # type: ignore[attr-defined]


def test_without_a_walltime_a_group_is_a_bundle() -> None:
    found = packed(groups(Item("a", 50), Item("b", 50), Item("a", 1e9)), expect, None)
    assert places(found) == [[1, 3], [2]]
    assert found.bundles[0].seconds == 100 + 50 + 1e9


def test_a_group_that_is_too_long_is_split_and_each_part_pays_its_start() -> None:
    walltime = 400 / (1 - RESERVE)
    found = packed(groups(*[Item("a", 100)] * 7), expect, walltime)
    assert places(found) == [[1, 2, 3], [4, 5, 6], [7]]
    assert [bundle.seconds for bundle in found.bundles] == pytest.approx([400, 400, 200])


def test_a_cell_that_fits_no_job_is_refused_with_its_arithmetic() -> None:
    found = packed(groups(Item("a", 100), Item("a", 500), Item("a", 100)), expect, 400.0)
    assert places(found) == [[1, 3]]
    (long,) = found.refused
    assert long.at == 2
    assert "start 100 s + warm-up 0 s + window 500 s + drain 0 s = 600 s (as told), and 380 s are there" in long.why


def test_engine_starts_share_a_job_only_when_asked_and_alike() -> None:
    items = (Item("a", 100), Item("b", 100), Item("other", 100), Item("c", 300))
    apart = packed(groups(*items), expect, 1000.0)
    assert places(apart) == [[1], [2], [3], [4]]
    joined = packed(groups(*items), expect, 700.0, together=lambda item: item.engine == "other")
    assert places(joined) == [[4, 1], [2], [3]] or places(joined) == [[2], [3], [4, 1]]
    assert all(bundle.seconds <= 700 * (1 - RESERVE) for bundle in joined.bundles)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 900)), max_size=25), st.floats(100, 2000), st.booleans())
def test_every_cell_is_in_one_bundle_or_refused_and_no_bundle_is_too_long(
    cells: list[tuple[str, float]], walltime: float, together: bool
) -> None:
    items = [Item(engine, seconds) for engine, seconds in cells]
    found = packed(groups(*items), expect, walltime, together=(lambda item: 0) if together else None)
    placed = [at for bundle in found.bundles for at, _ in bundle.members]
    assert sorted([*placed, *(long.at for long in found.refused)]) == list(range(1, len(items) + 1))
    limit = walltime * (1 - RESERVE)
    for bundle in found.bundles:
        spent = sum(
            expect(part.members[0][1]).start_s + sum(i.cell_s for _, i in part.members) for part in bundle.parts
        )
        assert spent == pytest.approx(bundle.seconds)
        assert spent <= limit + 1e-6
        assert all(len({item.engine for _, item in part.members}) == 1 for part in bundle.parts)
    assert all(expect(long.item).start_s + long.item.cell_s > limit for long in found.refused)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("4:30", 270), ("4:00:00", 14400), ("1-12", 129600), ("1-12:30", 131400), ("1-0:0:5", 86405),
     ("90s", 90), ("30m", 1800), ("1.5h", 5400), ("2d", 172800)],
)  # fmt: skip
def test_walltimes(text: str, seconds: float) -> None:
    assert walltime_s(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0", "1:2:3:4", "infh", "h", "1-2:3:4:5"])
def test_what_is_no_walltime_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a walltime"):
        walltime_s(text)
