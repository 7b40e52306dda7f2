"""Nothing of a service outlives its supervisor, whichever way the supervisor ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ridgeline.launch import cgroups
from ridgeline.launch.contained import Contained

# Double-forks into a session of its own, as a daemon does, and writes down who it is.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "a").write(sys.argv[2] + "\\n")
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""

SUPERVISOR = """
import os, sys, time
from pathlib import Path
from ridgeline.launch.contained import Contained
here = Path(sys.argv[1])
kept = Contained([sys.executable, "-c", Path(here / "daemon.py").read_text(), str(here / "born"), sys.argv[2]],
          env=dict(os.environ), cwd=here, log=here / "log")
time.sleep(60)
"""


def with_argument(text: str) -> list[int]:
    """PIDs, as we see them, of processes whose command line has `text` as its last argument."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")[-1] == text.encode():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def until(condition, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(params=["pid-namespace", "cgroup", "subreaper"])
def containment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The strongest hold that is tried; the next one is taken where the kernel refuses it."""
    monkeypatch.setenv("RIDGELINE_CONTAINMENT", str(request.param))
    return str(request.param)


def writable_group() -> Path:
    group = cgroups.new_group()
    if group is None:
        pytest.skip("this kernel gives us no cgroup v2 to make groups in")
    cgroups.remove_group(group)
    return group.parent


def start(tmp_path: Path, code: str, *arguments: str) -> Contained:
    return Contained([sys.executable, "-c", code, *arguments], env=dict(os.environ), cwd=tmp_path, log=tmp_path / "log")


def test_exit_code_and_output_are_kept(tmp_path: Path, containment: str) -> None:
    process = start(tmp_path, "import sys; print('hello'); sys.exit(7)")
    assert process.wait(10) == 7
    assert (tmp_path / "log").read_text() == "hello\n"
    process.close()


def test_a_signal_that_kills_is_told_from_an_exit_code(tmp_path: Path, containment: str) -> None:
    process = start(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert process.wait(10) == -signal.SIGSEGV
    process.close()


def test_stop_asks_first_and_forces_later(tmp_path: Path, containment: str) -> None:
    polite = start(
        tmp_path,
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(3)); print('up', flush=True); time.sleep(60)",
    )
    assert until(lambda: "up" in (tmp_path / "log").read_text())
    assert polite.stop(5.0) == 3
    stubborn = start(
        tmp_path, "import signal, time; signal.signal(15, signal.SIG_IGN); print('two', flush=True); time.sleep(60)"
    )
    assert until(lambda: "two" in (tmp_path / "log").read_text())
    stubborn.stop(0.1)
    assert stubborn.exit_status in (None, -signal.SIGKILL)


def test_a_missing_program_is_told_in_the_log(tmp_path: Path, containment: str) -> None:
    process = Contained(["no-such-program"], env=dict(os.environ), cwd=tmp_path, log=tmp_path / "log")
    assert process.wait(10) == 127
    assert "cannot start no-such-program" in (tmp_path / "log").read_text()
    process.close()


def test_closing_kills_a_daemon_in_its_own_session(tmp_path: Path, containment: str) -> None:
    tag = f"daemon-{os.getpid()}-{containment}"
    process = start(tmp_path, DAEMON, str(tmp_path / "born"), tag)
    assert until(lambda: (tmp_path / "born").exists())
    assert len(with_argument(tag)) >= 2
    process.close()
    assert with_argument(tag) == []


def test_killing_the_supervisor_kills_a_daemon_in_its_own_session(tmp_path: Path, containment: str) -> None:
    tag = f"orphan-{os.getpid()}-{containment}"
    (tmp_path / "daemon.py").write_text(DAEMON)
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path), tag])
    assert until(lambda: (tmp_path / "born").exists())
    supervisor.kill()
    supervisor.wait()
    assert until(lambda: with_argument(tag) == [], 2.0), "a process outlived its supervisor by 2 s"


def test_killing_the_guardian_kills_the_service_where_the_kernel_helps(tmp_path: Path) -> None:
    tag = f"guard-{os.getpid()}"
    process = start(tmp_path, DAEMON, str(tmp_path / "born"), tag)
    if process.containment != "pid-namespace":
        process.close()
        pytest.skip("this kernel gives us no PID namespace")
    assert until(lambda: (tmp_path / "born").exists())
    process._guardian.kill()
    assert until(lambda: with_argument(tag) == [], 2.0)
    assert process.wait(2) == -signal.SIGKILL
    process.close()


def test_inside_its_namespace_a_program_finds_itself_in_proc(tmp_path: Path) -> None:
    process = start(tmp_path, "import os; print(os.path.basename(os.path.realpath('/proc/self')) == str(os.getpid()))")
    assert process.wait(10) == 0
    assert (tmp_path / "log").read_text() == "True\n"
    process.close()


def test_a_cgroup_is_taken_where_there_is_no_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = writable_group()
    monkeypatch.setenv("RIDGELINE_CONTAINMENT", "cgroup")
    process = start(tmp_path, "import time; print(open('/proc/self/cgroup').read(), flush=True); time.sleep(60)")
    assert process.containment == "cgroup"
    assert until(lambda: f"/{cgroups.PREFIX}{os.getpid()}-" in (tmp_path / "log").read_text())
    process.close()
    assert not list(above.glob(f"{cgroups.PREFIX}{os.getpid()}-*"))


def test_a_namespace_leaves_no_cgroup_behind(tmp_path: Path) -> None:
    above = writable_group()
    process = start(tmp_path, "import time; time.sleep(60)")
    if process.containment == "pid-namespace":
        assert not list(above.glob(f"{cgroups.PREFIX}{os.getpid()}-*"))
    process.close()


def test_what_supervisor_and_guardian_left_when_both_were_killed_is_swept_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writable_group()
    monkeypatch.setenv("RIDGELINE_CONTAINMENT", "cgroup")
    tag = f"swept-{os.getpid()}"
    (tmp_path / "daemon.py").write_text(DAEMON)
    code = SUPERVISOR.replace("time.sleep(60)", "print(kept.guardian_pid, flush=True); time.sleep(60)")
    words = [sys.executable, "-c", code, str(tmp_path), tag]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        guardian = int(supervisor.stdout.readline())
        assert until(lambda: (tmp_path / "born").exists())
        assert cgroups.sweep_groups() == [], "its owner lives"
        os.kill(guardian, signal.SIGKILL)
        supervisor.kill()
    assert with_argument(tag), "nobody is left to kill them"
    (swept,) = cgroups.sweep_groups()
    assert swept.startswith(f"{cgroups.PREFIX}{supervisor.pid}-")
    assert until(lambda: with_argument(tag) == [], 2.0)
    assert cgroups.sweep_groups() == []


def test_a_guardian_that_is_killed_takes_its_cgroup_along_when_the_supervisor_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writable_group()
    monkeypatch.setenv("RIDGELINE_CONTAINMENT", "cgroup")
    tag = f"headless-{os.getpid()}"
    process = start(tmp_path, DAEMON, str(tmp_path / "born"), tag)
    assert until(lambda: (tmp_path / "born").exists())
    process._guardian.kill()
    assert process.wait(2) == -signal.SIGKILL
    process.close()
    assert with_argument(tag) == []


def test_where_cgroups_are_is_read_from_the_kernel(tmp_path: Path) -> None:
    mounts = (
        "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    )
    assert cgroups.own_group(mounts, "9:pids:/x\n0::/a/b\n") == Path("/sys/fs/cgroup/unified/a/b")
    assert cgroups.own_group("30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "0::/\n") is None
    assert cgroups.own_group(mounts, "9:pids:/x\n") is None
    assert cgroups.new_group(tmp_path / "not there") is None


def test_groups_of_others_are_left_alone(tmp_path: Path) -> None:
    names = (
        "other",
        "ridgeline-x",
        f"ridgeline-{os.getpid()}-{cgroups._started(os.getpid())}-0",
        "ridgeline-4194300-1-0",
    )
    for name in names:
        (tmp_path / name).mkdir()
    assert cgroups.sweep_groups(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[:3]), "only the dead one's is removed"


DOCKER = """#!/bin/sh
echo "$@" >> "$DOCKER_CALLS"
[ "$1" = run ] || exit 0
for word; do case $word in --cidfile=*) echo abc123 > "${word#--cidfile=}" ;; esac; done
sleep 60
"""


def test_a_container_is_removed_by_its_cidfile_when_the_supervisor_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(DOCKER)
    (tmp_path / "bin" / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_CALLS", str(tmp_path / "calls"))
    words = ["docker", "run", f"--cidfile={tmp_path / 'cid'}", "image"]
    code = SUPERVISOR.replace("[sys.executable", f"{words!r} or [sys.executable")
    (tmp_path / "daemon.py").write_text("")
    supervisor = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), "x"])
    assert until(lambda: (tmp_path / "cid").exists() and (tmp_path / "cid").read_text() != "")
    supervisor.kill()
    supervisor.wait()
    assert until(lambda: "rm --force abc123" in (tmp_path / "calls").read_text())


def test_docker_is_named_as_what_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_CALLS", str(tmp_path / "calls"))
    words = ["docker", "run", f"--cidfile={tmp_path / 'cid'}", "image"]
    process = Contained(words, env=dict(os.environ), cwd=tmp_path, log=tmp_path / "log")
    assert process.containment.startswith("docker by label, cidfile and reaper; its client by ")
    assert until(lambda: (tmp_path / "cid").exists() and (tmp_path / "cid").read_text() != "")
    process.close()
    assert "rm --force abc123" in (tmp_path / "calls").read_text(), "before another start"
