"""What holds of every deployment that any recipe writes: ports, order, readiness, flags, origins."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.recipes.cells import deploy
from tests.recipes.test_commands import SPACES

from ridgeline.core.cell import Cell
from ridgeline.core.deployment import Deployment
from ridgeline.core.where import Where
from ridgeline.launch.render import Filling, render_argv, render_env, render_files
from ridgeline.launch.supervisor import start_order

CELLS = [of for cells in SPACES.values() for of in cells]


def ports_of(deployment: Deployment) -> dict[tuple[str, str], int]:
    """Numbers as a launcher would give them: ranges first to last."""
    found, free = {}, 20000
    for service in deployment.services:
        for name in service.ports:
            found[service.name, name] = free
            free += dict(service.spans or ()).get(name, 1)
    return found


@pytest.mark.parametrize("of", CELLS, ids=lambda of: of.name)
def test_every_symbol_has_a_value_and_no_port_is_written_down(of: Cell) -> None:
    deployment = deploy(of)
    ports = ports_of(deployment)
    for service in deployment.services:
        for item in [*service.argv, *(value for _, value in service.env), *(text for _, text in service.files or ())]:
            assert not re.search(r"(?:localhost|127\.0\.0\.1):\d", item.text), f"a fixed port in {item.text}"
        filling = Filling(ports)
        argv = render_argv(service, filling)
        rendered = [*argv, *render_env(service, filling).values(), *render_files(service, filling).values()]
        assert not [text for text in rendered if re.search(r"\{(port|host)\b", text)]
        for flag, value in pairwise(argv):
            if re.fullmatch(r"--?[\w-]*port", flag):
                assert int(value) in ports.values(), f"{flag} {value} is nobody's port"


@pytest.mark.parametrize("of", CELLS, ids=lambda of: of.name)
def test_stores_come_first_and_routers_last(of: Cell) -> None:
    roles = [service.role for service in start_order(deploy(of))]
    ranks = [{"cache": 0, "router": 2}.get(role, 1) for role in roles]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("of", CELLS, ids=lambda of: of.name)
def test_whatever_answers_is_asked_and_takes_time_to_stop(of: Cell) -> None:
    deployment = deploy(of)
    for service in deployment.services:
        lends = service.readiness is None
        text = [item.text for item in service.argv]
        assert lends == ("--headless" in text or ("--node-rank" in text and text[text.index("--node-rank") + 1] != "0"))
        assert service.stop_grace_s >= 10
    entry = deployment.service(deployment.entry).readiness
    assert entry is not None
    assert entry.answers, "requests are proved to come back through the entry"


@pytest.mark.parametrize("of", CELLS, ids=lambda of: of.name)
def test_flags_stand_once_and_say_where_they_come_from(of: Cell) -> None:
    for service in deploy(of).services:
        flags = [item.text for item in service.argv if item.text.startswith("--")]
        repeatable = {"--prefill", "--decode"}
        once = [flag for flag in flags if flag not in repeatable]
        assert len(once) == len(set(once))
        for item in [*service.argv, *(value for _, value in service.env)]:
            assert item.origin is not None
            assert item.origin.file.startswith("recipes/") or item.origin == of.where


@pytest.mark.parametrize("of", CELLS[:2] + CELLS[-2:], ids=lambda of: of.name)
def test_the_digest_does_not_depend_on_where_a_cell_was_written(of: Cell) -> None:
    moved = replace(of, where=Where("elsewhere.yaml", 3, 1))
    assert deploy(of).digest == deploy(moved).digest
    assert deploy(of).digest != deploy(replace(of, concurrency=of.concurrency * 2)).digest


def test_a_choice_of_the_recipe_points_at_its_line() -> None:
    from pathlib import Path

    import ridgeline.recipes as room

    items = deploy(SPACES["seed-2540"][0]).service("engine").argv
    value = next(after for item, after in pairwise(items) if "utilization" in item.text)
    assert value.origin is not None
    lines = (Path(str(room.__file__)).parent / Path(value.origin.file).name).read_text().splitlines()
    assert value.text in lines[value.origin.line - 1]
