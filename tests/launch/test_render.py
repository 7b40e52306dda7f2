from __future__ import annotations

import sys

import pytest

from ridgeline.core.deployment import Item, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.launch.ports import PortLeases
from ridgeline.launch.render import Filling, render_argv, render_env

PORTS = {("engine", "http"): 8001, ("engine", "metrics"): 8002, ("router", "http"): 9000}


def test_symbols_become_ports_and_the_interpreter() -> None:
    service = Service(
        name="router",
        argv=(Item("{python}"), Item("--port={port:http}"), Item("--worker=http://127.0.0.1:{port:engine.http}")),
        env=(("METRICS", Item("{port:engine.metrics}")),),
    )
    assert render_argv(service, Filling(PORTS)) == [sys.executable, "--port=9000", "--worker=http://127.0.0.1:8001"]
    assert render_env(service, Filling(PORTS)) == {"METRICS": "8002"}


def test_json_braces_in_arguments_stay_as_they_are() -> None:
    service = Service(name="engine", argv=(Item('{"method":"mtp","n":{"a":1}}'),))
    assert render_argv(service, Filling(PORTS)) == ['{"method":"mtp","n":{"a":1}}']


def test_an_unknown_port_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown port `\{port:cache.http\}`(.|\n)*engine.metrics"):
        render_argv(Service(name="engine", argv=(Item("{port:cache.http}"),)), Filling(PORTS))


def test_secrets_come_from_the_environment_and_never_into_arguments() -> None:
    service = Service(name="engine", argv=(), env=(("HF_TOKEN", Item("{env:MY_TOKEN}")),))
    assert render_env(service, Filling(PORTS, environ={"MY_TOKEN": "hush"})) == {"HF_TOKEN": "hush"}
    with pytest.raises(EnvironmentFailed, match="`MY_TOKEN` is not set"):
        render_env(service, Filling(PORTS, environ={}))
    with pytest.raises(InputError, match="readable by everybody"):
        render_argv(Service(name="engine", argv=(Item("--api-key={env:MY_TOKEN}"),)), Filling(PORTS))


def test_a_service_knows_its_folder() -> None:
    service = Service(name="engine", argv=(Item("{work}/x"), Item("{work:other}")))
    assert render_argv(service, Filling({}, work={"engine": "/e", "other": "/o"})) == ["/e/x", "/o"]


def test_leases_differ_and_come_back() -> None:
    with PortLeases() as mine, PortLeases() as other:
        ports = [mine.lease() for _ in range(5)] + [other.lease() for _ in range(5)]
        assert len(set(ports)) == 10
        mine.release(ports[0])
