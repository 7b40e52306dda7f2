"""Reuse by run key: what stands for a planned cell, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.publish.staging.runs import points, run
from tests.results.builders import cell

from ridgeline.cli.main import main
from ridgeline.core.point import Validity
from ridgeline.publish.reuse.points import Stored, Wanted, answers
from ridgeline.results.runfolder import RunFolder, RunHeader

(POINT,) = points(4)
WANTED = [Wanted("a/c4", POINT.run_key)]


def answer(*stored: Stored, now: dict[str, str] | None = None) -> Any:
    (found,) = answers(WANTED, stored, now or {})
    return found


def test_the_same_run_key_stands_for_the_cell() -> None:
    found = answer(Stored(POINT, "r1"))
    assert found.point is POINT and found.run == "r1" and "same run key" in found.why


def test_another_key_does_not() -> None:
    found = answer(Stored(replace(POINT, run_key="f" * 64), "r1"))
    assert found.point is None and "nothing stored" in found.why


@pytest.mark.parametrize("validity", [Validity.DEGRADED, Validity.UNPROVEN, Validity.INVALID])
def test_only_valid_points_stand_for_cells(validity: Validity) -> None:
    found = answer(Stored(replace(POINT, validity=validity, reasons=("W1: why",)), "r1"))
    assert found.point is None and validity in found.why and "W1" in found.why


def test_the_newest_fit_point_wins() -> None:
    old = replace(POINT, measured_at="2026-01-01T00:00:00+00:00")
    new = replace(POINT, measured_at="2026-02-01T00:00:00+00:00")
    bad = replace(POINT, measured_at="2026-03-01T00:00:00+00:00", validity=Validity.INVALID)
    assert answer(Stored(old, "r1"), Stored(bad, "r3"), Stored(new, "r2")).run == "r2"


@pytest.mark.parametrize(
    ("found", "now", "words"),
    [
        ({"image_digest": "sha256:1"}, {"image_digest": "sha256:1"}, None),
        ({"image_digest": "sha256:1"}, {"image_digest": "sha256:2"}, "changed: sha256:1 then, sha256:2 now"),
        ({}, {"image_digest": "sha256:2"}, "is not known"),
        ({"node": "n1"}, {}, None),
        ({"gpus": 8}, {"gpus": "8"}, None),
    ],
)
def test_found_facts_must_be_what_they_were(found: dict[str, Any], now: dict[str, str], words: str | None) -> None:
    said = answer(Stored(POINT, "r1", found), now=now)
    assert (said.point is not None) is (words is None) and (words or "") in said.why


CONFIG = """\
tiny:
  image: ridgeline/emulated:1
  model: Qwen/Qwen3-0.6B
  model-prefix: qwen
  runner: h200
  precision: bf16
  framework: emulated
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 64
      osl: 8
      search-space:
      - { tp: 1, conc-list: [1, 2] }
"""


def test_a_sweep_that_was_run_is_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The keys are those of the sweep itself, whose plan is asked; points are put under them by hand."""
    config = tmp_path / "tiny.yaml"
    config.write_text(CONFIG)
    empty = run(tmp_path / "empty", points(9))
    assert main(["reuse", str(config), "--from", str(empty), "--json"]) == 1
    asked = json.loads(capsys.readouterr().out)
    assert (asked["reused"], asked["to_run"]) == (0, 2)

    folder = tmp_path / "done"
    with RunFolder.create_or_open(folder, RunHeader(name="done", created_at="2026-08-20T10:00:00+00:00")) as opened:
        for one in asked["cells"][:1]:
            made = replace(POINT, run_key=one["run_key"], id=f"{one['run_key']}.1", name=one["cell"])
            opened.write_cell(cell(1), made, None, None)
    assert main(["reuse", str(config), "--from", str(folder)]) == 1
    assert "1 of 2 cells are there already" in capsys.readouterr().out
    assert main(["reuse", str(config), "--from", str(folder), "--cells", "*/c1"]) == 0
    assert main(["reuse", str(config), "--from", str(folder), "--cells", "*/c1", "--seed", "7"]) == 1
    capsys.readouterr()

    store = ["--store", str(tmp_path / "store")]
    assert main(["stage", str(folder), *store]) == 0
    capsys.readouterr()
    assert main(["reuse", str(config), *store, "--cells", "*/c1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["run"]
    assert main(["reuse", str(config), *store, "--cells", "*/c1", "--found", "image_digest=sha256:1"]) == 1
    assert "is not known" in capsys.readouterr().out
    assert main(["reuse", str(config), *store, "--engine", "other"]) == 2


RECIPE = """\
from dataclasses import replace
from ridgeline.core.deployment import Item
from ridgeline.recipes.emulated import emulated

def write(cell, facts, settings):
    made = emulated(cell, facts, settings)
    engine = made.services[0]
    services = (replace(engine, argv=(*engine.argv, Item("--seed"), Item("3"))), *made.services[1:])
    return replace(made, services=services, recipe="ours")
"""


def test_what_starts_a_cell_is_part_of_its_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recipe of the settings, a script or a command starts another deployment, and so gives other results."""
    config, settings, script = tmp_path / "tiny.yaml", tmp_path / "ridgeline.yaml", tmp_path / "serve.sh"
    config.write_text(CONFIG)
    (tmp_path / "ours.py").write_text(RECIPE)
    settings.write_text("recipes:\n- { cells: '*/c2', recipe: 'ours.py:write' }\n")
    script.write_text("exec vllm serve m --port $PORT\n")
    empty = run(tmp_path / "empty", points(9))

    def keys(*more: str) -> dict[str, str]:
        assert main(["reuse", str(config), "--from", str(empty), "--json", *more]) == 1
        return {one["cell"].rsplit("/", 1)[1]: one["run_key"] for one in json.loads(capsys.readouterr().out)["cells"]}

    plain = keys()
    ours = keys("--settings", str(settings))
    assert ours["c1"] == plain["c1"] and ours["c2"] != plain["c2"]
    scripted = keys("--shell", str(script))
    assert len({*plain.values(), *scripted.values(), *keys("--command", "vllm serve m").values()}) == 6
    again = keys("--repeats", "2")
    assert again.items() >= plain.items() and len(set(again.values())) == 4
    settings.write_text("arms:\n- { cells: '*', share: pinned-caps }\n")
    pinned = keys("--settings", str(settings))
    assert pinned["c1"] != plain["c1"]  # its engine is that of c2, as in a sweep with these settings
