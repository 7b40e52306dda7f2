"""A deployment's services start in order, prove that they answer, and stop in reverse."""

from __future__ import annotations

import http.client
import time
from pathlib import Path

import pytest

from ridgeline.core.deployment import Deployment, Item, Readiness, Service
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.launch.supervisor import Supervisor, start_order

SCRIPT = str(Path(__file__).with_name("service.py"))


def service(name: str, behaviour: str = "good", *, after: tuple[str, ...] = (), timeout: float = 20.0) -> Service:
    argv = tuple(Item(text) for text in ("{python}", SCRIPT, "{port:http}", behaviour))
    readiness = Readiness(served_model="m", timeout_s=timeout)
    return Service(name=name, argv=argv, after=after, readiness=readiness, stop_grace_s=0.5)


def deployment(*services: Service) -> Deployment:
    return Deployment(services=services, entry=services[0].name, served_model="m", kind="scripted")


def get(url: str, path: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    try:
        connection.request("GET", path)
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass
    finally:
        connection.close()


def test_start_order_follows_after_then_writing() -> None:
    order = start_order(deployment(service("router", after=("b", "a")), service("a"), service("b")))
    assert [s.name for s in order] == ["a", "b", "router"]


def test_unknown_and_circular_dependencies_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="waits for `ghost`"):
        start_order(deployment(service("a", after=("ghost",))))
    with pytest.raises(InputError, match="in a circle"):
        start_order(deployment(service("a", after=("b",)), service("b", after=("a",))))


def test_services_come_up_in_order_and_go_in_reverse(tmp_path: Path) -> None:
    phases: list[tuple[str, str]] = []
    d = deployment(service("router", after=("engine",)), service("engine"))
    with Supervisor(d, tmp_path, on_phase=lambda *phase: phases.append(phase)) as running:
        assert running.url() != running.url("engine")
        assert running.dead() is None
        assert set(running.containment.values()) <= {"pid-namespace", "subreaper"}
    assert phases == [
        *(("engine", "start"), ("engine", "ready"), ("router", "start"), ("router", "ready")),
        *(("router", "stop"), ("engine", "stop")),
    ]
    assert "good service on" in (tmp_path / "engine.log").read_text()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("sick", "one-token request answered 500"),
        ("nameless", "does not list `m`"),
        ("raises", r"exit code 0; first error: LookupError: no such kernel; its last lines:\n  \| shutting down"),
        ("dies", r"ended with exit code 9; its last lines:\n(.|\n)*out of memory"),
    ],
)
def test_a_service_that_is_not_really_ready_is_refused_with_the_reason(
    tmp_path: Path, behaviour: str, message: str
) -> None:
    with (
        pytest.raises(EnvironmentFailed, match=message),
        Supervisor(deployment(service("engine", behaviour, timeout=1.0)), tmp_path),
    ):
        pytest.fail("must not become ready")


def test_a_death_in_mid_run_is_noticed_with_its_last_words(tmp_path: Path) -> None:
    with Supervisor(deployment(service("engine")), tmp_path) as running:
        get(running.url(), "/die")
        end = time.monotonic() + 5
        while not running.dead() and time.monotonic() < end:
            time.sleep(0.01)
        assert "exit code 5" in (running.dead() or "")
        assert "asked to die" in (running.dead() or "")


def test_a_failed_start_stops_what_had_started(tmp_path: Path) -> None:
    d = deployment(service("router", "dies", after=("engine",)), service("engine"))
    supervisor = Supervisor(d, tmp_path)
    with pytest.raises(EnvironmentFailed), supervisor:
        pass
    assert supervisor.running["engine"].process.poll() is not None


def test_a_stubborn_service_is_forced(tmp_path: Path) -> None:
    with Supervisor(deployment(service("engine", "stubborn")), tmp_path) as running:
        engine = running.running["engine"]
    assert engine.process._guardian.poll() is not None
