"""Nothing of a service outlives its supervisor, whichever way the supervisor ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


@pytest.fixture(params=["pid-namespace", "subreaper"])
def containment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "subreaper":
        monkeypatch.setenv("RIDGELINE_CONTAINMENT", "subreaper")
    return str(request.param)


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
