from __future__ import annotations

import sys

import pytest

from ridgeline.core.deployment import Item, Service
from ridgeline.core.errors import InputError
from ridgeline.launch.ports import PortLeases
from ridgeline.launch.render import render_argv, render_env

PORTS = {("engine", "http"): 8001, ("engine", "metrics"): 8002, ("router", "http"): 9000}


def test_symbols_become_ports_and_the_interpreter() -> None:
    service = Service(
        name="router",
        argv=(Item("{python}"), Item("--port={port:http}"), Item("--worker=http://127.0.0.1:{port:engine.http}")),
        env=(("METRICS", Item("{port:engine.metrics}")),),
    )
    assert render_argv(service, PORTS) == [sys.executable, "--port=9000", "--worker=http://127.0.0.1:8001"]
    assert render_env(service, PORTS) == {"METRICS": "8002"}


def test_json_braces_in_arguments_stay_as_they_are() -> None:
    service = Service(name="engine", argv=(Item('{"method":"mtp","n":{"a":1}}'),))
    assert render_argv(service, PORTS) == ['{"method":"mtp","n":{"a":1}}']


def test_an_unknown_port_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown port `\{port:cache.http\}`(.|\n)*engine.metrics"):
        render_argv(Service(name="engine", argv=(Item("{port:cache.http}"),)), PORTS)


def test_leases_differ_and_come_back() -> None:
    with PortLeases() as mine, PortLeases() as other:
        ports = [mine.lease() for _ in range(5)] + [other.lease() for _ in range(5)]
        assert len(set(ports)) == 10
        mine.release(ports[0])
