"""Arms that pin their caps share one engine start, and are another recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recipes.cells import DSV4, cell

from ridgeline.core.cell import Arm
from ridgeline.core.errors import InputError
from ridgeline.core.topology import Topology
from ridgeline.recipes.settings import RecipeSettings
from ridgeline.results.identity import facts
from ridgeline.spec.settings import load_settings
from ridgeline.sweep.deploy import Deploy
from ridgeline.sweep.groups import grouped
from ridgeline.sweep.pinned import as_capped, named, pinned

ARM = Arm(Topology(8))
CELLS = [cell(DSV4, ARM, n) for n in (4, 16, 8)]


def settings(tmp_path: Path, text: str):
    (tmp_path / "ridgeline.yaml").write_text(text)
    return load_settings(tmp_path / "ridgeline.yaml")


SHARED = "arms:\n  - cells: '*/TP8/*'\n    share: pinned-caps\n"


def test_all_concurrencies_get_the_engine_of_the_highest(tmp_path: Path) -> None:
    found = pinned(CELLS, settings(tmp_path, SHARED))
    assert [c.concurrency for c in found] == [4, 16, 8]
    assert [c.arm.pinned_caps for c in found] == [16, 16, 16]
    assert {as_capped(c).concurrency for c in found} == {16}
    assert found[0].name.endswith("/TP8-caps16/c4")
    assert facts(found[0])["pinned_caps"] == 16
    assert not {c.fingerprint for c in found} & {c.fingerprint for c in CELLS}, "even the highest is another cell"


def test_they_share_a_start_that_is_another_recipe(tmp_path: Path) -> None:
    deploy = Deploy("real", RecipeSettings())
    apart = [deploy(c)[0] for c in CELLS]
    shared = [deploy(c)[0] for c in pinned(CELLS, settings(tmp_path, SHARED))]
    assert len({d.digest for d in apart}) == 3
    assert len({d.digest for d in shared}) == 1
    assert shared[0].digest not in {d.digest for d in apart}
    assert shared[0].services == apart[1].services, "the engine of concurrency 16"
    assert shared[0].recipe.endswith("caps pinned at concurrency 16")

    class Item:
        def __init__(self, deployment):
            self.deployment = deployment

    assert len(grouped(list(enumerate(map(Item, shared), 1)))) == 1


def test_other_arms_and_runs_without_settings_stay_as_they_are(tmp_path: Path) -> None:
    assert pinned(CELLS, load_settings()) == tuple(CELLS)
    assert pinned(CELLS, settings(tmp_path, SHARED.replace("TP8", "TP4"))) == tuple(CELLS)
    assert CELLS[0].arm.label == "TP8"
    assert named(CELLS[0], Deploy("real", RecipeSettings())(CELLS[0])[0]).recipe.count("pinned") == 0


def test_a_share_that_nobody_knows_is_refused_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ridgeline.yaml:3:12: `arms\[0\].share`.*pinned-caps"):
        settings(tmp_path, SHARED.replace("pinned-caps", "everything"))
