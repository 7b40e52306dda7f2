"""What `ridgeline check` proves of a cell's start is what its prediction runs on: weights, cache, refusals; over every
shipped config and the public search spaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden import ROOT, golden

from ridgeline.cli.preflight import Subjects
from ridgeline.cli.search import chosen_cells
from ridgeline.core.cell import Cell
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.core.finding import Expectation, Verdict
from ridgeline.core.units import GIB
from ridgeline.engine.launch import Launch
from ridgeline.engine.launched import GRAIN, SHRINKING
from ridgeline.engine.memory import memory_of
from ridgeline.engine.options import EngineOptions
from ridgeline.engine.sizing import key_of
from ridgeline.plan.checks.memory import KV_SLACK, longest
from ridgeline.plan.checks.subject import Knowledge, Subject
from ridgeline.recipes.assumed import assumed
from ridgeline.recipes.emulated import Assumed
from ridgeline.recipes.settings import Facts, RecipeSettings
from ridgeline.spec.facts.golden import shipped_curves
from ridgeline.spec.facts.library import find_gpu
from ridgeline.spec.facts.observations import Observation, load_observations
from ridgeline.spec.settings import Fleet, Settings, load_settings

BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.yaml"))
OVERHEAD_GIB = 5.5


def start_of(subject: Subject, launch: Launch) -> Observation:
    """A start of this very launch, in which neither weights nor cache took OVERHEAD_GIB."""
    key = key_of(launch, subject.arch, subject.gpu, subject.cell.benchmark.image)
    return Observation(
        image=key.image, model=key.model, gpu=key.gpu, topology=key.topology, batched_tokens=key.batched_tokens,
        drafts=key.drafts, total_gib=100.0, utilization=0.5, weights_gib=1.0, kv_gib=49.0 - OVERHEAD_GIB, source="ours",
    )  # fmt: skip


def said_by_check(subject: Subject, launch: Launch) -> tuple[Verdict, float | None]:
    """M3's verdict and the tokens it promises, if any."""
    said = list(longest(subject, launch))
    promised = [item.value for item in said if isinstance(item, Expectation) and item.unit == "tokens"]
    verdict = next(item.verdict for item in said if not isinstance(item, Expectation))
    return verdict, float(promised[0]) if promised else None


def tokens_of(options: EngineOptions, launch: Launch) -> float:
    """The cache of one rank, in the tokens that the engine's own log counts."""
    memory = memory_of(options)
    tokens = memory.pool.blocks * memory.pool.block_size if launch.build.kind == "sglang" else memory.capacity.tokens
    return int(tokens * (1 - KV_SLACK))


def pairs(subject: Subject, found: Assumed) -> Iterator[tuple[Launch, EngineOptions]]:
    """Every engine of a cell as the check has it, and as the prediction does."""
    launches = {launch.service.name: launch for launch in subject.launches}
    for engine in {engine.options: engine for engine in found.engines}.values():
        if engine.name in launches:
            yield launches[engine.name], engine.options


def compared(cells: Iterable[Cell], settings: Settings, *, seen: bool) -> dict[str, int]:
    """Compare check and prediction for every cell; how many engines were held against a proof, an interval or a
    refusal."""
    counts = {"proved": 0, "within": 0, "refused": 0}
    shipped = load_observations()
    maker = Subjects(settings, Knowledge(observations=shipped, curves=shipped_curves()))
    for cell in cells:
        subject = maker.of(cell)
        starts = shipped
        if seen:
            starts = tuple(start_of(subject, launch) for launch in subject.launches)
            subject = replace(subject, known=replace(subject.known, observations=starts))
        facts = Facts(subject.arch, subject.gpu, subject.fleet)
        try:
            found = assumed(cell, facts, RecipeSettings(), observations=starts)
        except EnvironmentFailed:
            continue  # not modelled, by name
        except InputError:  # nothing is left for a cache
            promises = [said_by_check(subject, launch)[1] for launch in subject.launches]
            assert None in promises, (cell.name, "check proves what the prediction refuses")
            counts["refused"] += 1
            continue
        for launch, options in pairs(subject, found):
            verdict, promised = said_by_check(subject, launch)
            try:
                got = tokens_of(options, launch)
            except InputError:
                assert promised is None, (cell.name, "check proves what the prediction refuses")
                counts["refused"] += 1
                continue
            sized = subject.sizing(launch)
            assert memory_of(options).weights.total == pytest.approx(sized.weights.total, abs=1), cell.name
            if promised is not None:
                slack = GRAIN if launch.build.kind == "sglang" else 0
                assert got == pytest.approx(promised, abs=slack), cell.name
                counts["proved"] += 1
            elif launch.build.kind not in SHRINKING:
                assert verdict is not Verdict.FAIL, (cell.name, "the prediction runs what cannot start")
                assert (options.kv_cache_memory_bytes or 0) <= sized.high, cell.name
                counts["within"] += 1
    return counts


def known_fleets(cells: Iterable[Cell]) -> Settings:
    """Settings in which every fleet has told how much memory is free."""
    user = load_settings()
    fleets = {}
    for runner in {cell.benchmark.runner for cell in cells}:
        fleet = user.fleet(runner)
        assert fleet is not None
        free = 0.985 * find_gpu(fleet.gpu).memory_bytes / GIB
        fleets[runner] = Fleet(runner, fleet.gpu, fleet.gpus_per_node, free_memory_gib=free)
    return replace(user, fleets=fleets)


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.name)
@pytest.mark.parametrize("seen", [False, True], ids=["as shipped", "with a start seen"])
def test_shipped_configs(path: Path, seen: bool) -> None:
    cells = chosen_cells([path], None, "*")
    counts = compared(cells, load_settings(), seen=seen)
    real = [cell for cell in cells if cell.benchmark.framework != "emulated"]
    assert sum(counts.values()) == len(real)
    if seen:
        assert counts["proved"] == len(real)


def test_the_one_start_that_is_shipped_is_what_its_config_is_predicted_with() -> None:
    counts = compared(chosen_cells([ROOT / "benchmarks/llama8b-h200.yaml"], None, "*"), load_settings(), seen=False)
    assert counts["proved"] > 0


@pytest.fixture(scope="module")
def public() -> list[Cell]:
    """One cell of every line of the public search spaces."""
    folder = golden("data/inferencex")
    files = [folder / "configs" / f"{vendor}-master.yaml" for vendor in ("amd", "nvidia")]
    cells = chosen_cells(files, folder / "configs/runners.yaml", "*")
    return list({cell.line: cell for cell in cells}.values())


@pytest.mark.parametrize(
    ("seen", "every"),
    [
        pytest.param(False, 5, id="some as shipped"),
        pytest.param(True, 4, id="some with a start seen"),
        pytest.param(False, 1, id="all as shipped", marks=pytest.mark.integration),
        pytest.param(True, 1, id="all with a start seen", marks=pytest.mark.integration),
    ],
)
def test_public_search_spaces(public: list[Cell], seen: bool, every: int) -> None:
    cells = public[::every]
    counts = compared(cells, known_fleets(cells) if seen else load_settings(), seen=seen)
    assert counts["proved" if seen else "within"] > 0.15 * len(cells)
    assert counts["refused"] < 0.1 * sum(counts.values())
