"""`simulate` and `plan --budget` predict the engine that the user's own recipe would start, and say which one it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ridgeline.simulate
from ridgeline.cli.main import main

CONFIG = """\
qwen:
  image: vllm/vllm-openai:v0.26.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: bf16
  framework: FRAMEWORK
  runner: cluster:abacus
  multinode: false
  scenarios:
    agentic-coding:
      - search-space:
          - { tp: 1, kv-offloading: none, conc-list: [2, 4] }
"""
SETTINGS = """\
fleets:
  cluster:abacus: { gpu: h200, gpus-per-node: 8, free-memory-gib: 100, observed: 2026-11-30 }
recipes:
  - { cells: "*", recipe: "own.py:small" }
"""
RECIPE = """\
from dataclasses import replace

from ridgeline.engine.argv import with_value
from ridgeline.recipes.generic_vllm import generic_vllm


def small(cell, facts, settings):
    made = generic_vllm(cell, facts, settings)
    engine = made.service("engine")
    return replace(made, services=(replace(engine, argv=with_value(engine.argv, "gpu-memory-utilization", "0.3")),))
"""
PARAMETERS = Path(ridgeline.simulate.__file__).parent / "parameters"
QUICK = ("--duration", "30", "--warmup", "0", "--sessions", "3", "--jobs", "1")


@pytest.fixture
def space(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(RECIPE)
    (tmp_path / "ridgeline.yaml").write_text(SETTINGS)
    (tmp_path / "shipped.yaml").write_text(SETTINGS.partition("recipes:")[0])
    path = tmp_path / "space.yaml"
    path.write_text(CONFIG.replace("FRAMEWORK", "vllm"))
    return path


def predicted(space: Path, settings: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[list[dict], str]:
    assert main(["simulate", str(space), "--settings", str(space.parent / settings), *QUICK, "--json", *more]) == 0
    out, err = capsys.readouterr()
    return [json.loads(line) for line in out.splitlines()], err


def test_a_users_recipe_is_what_is_predicted_and_named(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points, talk = predicted(space, "ridgeline.yaml", capsys)
    assert [point["provenance"]["recipe"] for point in points] == [
        f"own.py:small (override for cells `*` at {space.parent / 'ridgeline.yaml'}:4:5)"
    ] * 2
    assert talk.splitlines()[0] == f"assumed  {points[0]['provenance']['recipe']}: 2 cells"
    assert talk.splitlines()[1].strip() == points[0]["provenance"]["assumes"][0]
    assert talk.splitlines()[1].strip().startswith("cache: overhead of ")


def test_what_the_fleet_has_free_bounds_the_shipped_recipe(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100 of 139.8 GiB are free: the recipe asks for no more, and the prediction has that pool."""
    points, _ = predicted(space, "shipped.yaml", capsys)
    assert points[0]["provenance"]["recipe"] == "vllm (framework vllm)"
    assert main(["simulate", str(space), *QUICK]) == 1, "nobody knows this runner without the settings"
    assert "abacus" in capsys.readouterr().err


def test_a_framework_without_a_recipe_says_so(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space.write_text(CONFIG.replace("FRAMEWORK", "tilert"))
    points, talk = predicted(space, "shipped.yaml", capsys)
    assert points[0]["provenance"]["recipe"].startswith("no recipe writes framework `tilert`")
    assert "the engine's defaults: 2 cells" in talk
    space.write_text(CONFIG.replace("FRAMEWORK", "vlm"))
    assert "`vlm` (did you mean `vllm`?)" in predicted(space, "shipped.yaml", capsys)[1]


def test_a_plan_within_a_budget_says_the_same(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = str(space.parent / "ridgeline.yaml")
    assert main(["plan", str(space), "--budget", "1", "--window", "30", "--settings", settings]) == 0
    out, err = capsys.readouterr()
    assert "qwen/agentic/TP1/c" in out
    assert "assumed  own.py:small (override" in err


def test_parameters_of_the_users_own_are_used_where_they_belong(
    space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file or a folder of files by GPU and engine; one of another GPU changes nothing, a broken one is refused."""
    own = json.loads((PARAMETERS / "h200-vllm.json").read_text())
    own["values"]["device"] = {"value": 3.0, "source": "ours"}

    def rate(parameters: dict | None, name: str = "h200-vllm.json", *, folder: bool = True) -> float:
        more = []
        if parameters is not None:
            (tmp_path / "fit").mkdir(exist_ok=True)
            for file in (tmp_path / "fit").iterdir():
                file.unlink()
            (tmp_path / "fit" / name).write_text(json.dumps(parameters))
            more = ["--parameters", str(tmp_path / "fit" if folder else tmp_path / "fit" / name)]
        points, _ = predicted(space, "shipped.yaml", capsys, *more)
        return points[0]["measures"]["itl.mean"]["value"]

    shipped = rate(None)
    assert rate(own) > 1.5 * shipped
    assert rate(own, "any.json", folder=False) > 1.5 * shipped
    assert rate({**own, "gpu": "h100"}, "other.json", folder=False) == shipped
    assert rate(own, "b200-vllm.json") == shipped
    (tmp_path / "fit" / "b200-vllm.json").write_text("{}")
    assert main(["simulate", str(space), *QUICK, "--parameters", str(tmp_path / "fit")]) == 2


def test_agentic_cells_say_which_sessions_were_replayed(space: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "sessions the shipped quick-start ones" in predicted(space, "shipped.yaml", capsys)[1]
