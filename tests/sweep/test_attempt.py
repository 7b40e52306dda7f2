"""What an attempt makes of a deployment before the first request."""

from __future__ import annotations

import pytest

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.launch import agent
from ridgeline.replay import driver
from ridgeline.sweep.attempt import endpoint_of


@pytest.mark.parametrize("header", [None, "X-Session-ID", "X-SMG-Routing-Key"])
def test_the_client_sends_the_header_that_the_cell_s_router_reads(header: str | None) -> None:
    services = (Service(name="engine", argv=(Item("serve"),)), Service(name="router", argv=(Item("route"),)))
    deployment = Deployment(services, "router", "served", "sglang", session_header=header)
    endpoint = endpoint_of(deployment, "http://127.0.0.1:8000")
    assert (endpoint.url, endpoint.model) == ("http://127.0.0.1:8000", "served")
    assert endpoint.session_header == header


def test_a_dead_engine_is_noticed_within_a_second_wherever_it_runs() -> None:
    """An agent looks at its services and says so unasked; the replay asks the supervisor, which hears the agent."""
    assert agent.LOOK_EVERY_S + driver._ALIVE_S < 1.0
