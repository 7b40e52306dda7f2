"""Services on another machine, through an agent at the end of a pipe: here the agent runs beside us."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.launch.test_supervisor import deployment, get, service

from ridgeline.core.deployment import Item
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.allocation import Place
from ridgeline.launch.blame import Blame, blame
from ridgeline.launch.machines import AgentMachine, ThisMachine
from ridgeline.launch.supervisor import Supervisor

AGENT = (sys.executable, "-m", "ridgeline.launch.agent")


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def far(tmp_path: Path) -> Iterator[AgentMachine]:
    machine = AgentMachine("far", "127.0.0.1", AGENT, tmp_path / "agent.log")
    yield machine
    machine.close()


def test_a_service_there_runs_ends_and_is_stopped(far: AgentMachine, tmp_path: Path) -> None:
    short = far.start([sys.executable, "-c", "import os; print(os.environ['A']); raise SystemExit(7)"], {"A": "told"},
                      tmp_path, tmp_path / "short.log")  # fmt: skip
    assert until(lambda: short.poll() is not None)
    assert short.poll() == 7
    assert (tmp_path / "short.log").read_text() == "told\n"
    long = far.start(["sleep", "60"], {}, tmp_path, tmp_path / "long.log")
    assert long.poll() is None
    assert long.containment.endswith(" on far")
    assert long.effort().log == 0
    assert until(lambda: "sleep 60" in long.autopsy("why it is looked at"))  # once it is what it was started as
    assert long.stop(0.5) is not None
    assert until(lambda: long.poll() is not None)


def test_its_facts_and_ports_are_asked_there(far: AgentMachine, tmp_path: Path) -> None:
    assert far.probe(tmp_path).host == os.uname().nodename
    first, second = far.lease(3), far.lease(1)
    assert not first <= second < first + 3


DOCKER = """#!/bin/sh
echo "$@" >> "$CALLS"
case $1 in ps) echo left-behind ;; esac
"""


def test_containers_that_were_left_there_are_removed_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killing docker's client does not end its container; only its own node's daemon can remove it."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    machine = AgentMachine("far", "127.0.0.1", AGENT, tmp_path / "agent.log")
    monkeypatch.setenv("PATH", "/nowhere")  # what is here does not matter
    try:
        assert machine.reap("run-1") == ["left-behind"]
    finally:
        machine.close()
    asked = (tmp_path / "calls").read_text().splitlines()
    assert asked == ["ps --all --quiet --filter label=ridgeline.sweep=run-1", "rm --force left-behind"]


def test_what_cannot_be_started_there_says_where(far: AgentMachine, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="node far: "):
        far.start(["sleep", "1"], {}, tmp_path / "not there", tmp_path / "log")


def test_an_agent_that_does_not_come_up_is_named_with_its_words(tmp_path: Path) -> None:
    words = (sys.executable, "-c", "raise SystemExit('no such partition')")
    with pytest.raises(EnvironmentFailed, match=r"the agent on node far ended\n  \| no such partition"):
        AgentMachine("far", "127.0.0.1", words, tmp_path / "agent.log")


def test_services_die_with_their_agent_and_the_loss_is_a_death(far: AgentMachine, tmp_path: Path) -> None:
    tag = f"machines-{os.getpid()}"
    process = far.start(["sleep", "60"], {"RIDGELINE_TEST_TAG": tag}, tmp_path, tmp_path / "log")
    assert process.poll() is None
    far._process.kill()
    assert until(lambda: process.poll() is not None)
    assert process.poll() == -9
    assert process.stop(0.1) == -9
    sign = blame([(tmp_path / "log").read_text()])
    assert sign is not None
    assert (sign.blame, sign.layer) == (Blame.INFRASTRUCTURE, "node"), "another node may do better"
    assert until(lambda: not _alive(tag)), "the agent's services outlived it"
    with pytest.raises(EnvironmentFailed, match="the agent on node far ended"):
        far.lease(1)


def test_a_deployment_spans_two_machines(tmp_path: Path) -> None:
    engine = replace(service("engine"), node=1)
    router = service("router", after=("engine",))
    router = replace(router, argv=(*router.argv, Item("{host:engine}"), Item("{port:engine.http}")))
    here = ThisMachine("near")
    there = AgentMachine("far", "127.0.0.1", AGENT, tmp_path / "agent.log")
    try:
        with Supervisor(deployment(router, engine), tmp_path / "run", place=Place((here, there))) as running:
            assert {name: r.machine.name for name, r in running.running.items()} == {"engine": "far", "router": "near"}
            assert running.containment["engine"].endswith(" on far")
            get(running.url("engine"), "/die")
            assert until(lambda: running.dead() is not None, 2.0)
            assert "service `engine` ended with exit code 5" in (running.dead() or "")
    finally:
        there.close()
        here.close()


def _alive(tag: str) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if tag.encode() in (entry / "environ").read_bytes():
                    return True
            except OSError:
                continue
    return False
