"""Scripts run where they can do nothing: what they would start is recorded, what they try is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.core.dryrun import DryRun
from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.launch import dryrun
from ridgeline.launch.dryrun import Limits, dry_run

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests

QUICK = Limits(seconds=5)


def run(script: str, environment: dict[str, str] | None = None, *, seconds: float = 5, **more: object) -> DryRun:
    """A dry run; skips where the kernel gives no sandbox, which is the refusal that a test below holds."""
    try:
        return dry_run(script.encode(), environment or {}, limits=Limits(seconds=seconds), **more)  # type: ignore[arg-type]
    except EnvironmentFailed as error:
        if "kernel refuses" in error.message:
            pytest.skip(error.message)
        raise


def argv(done: DryRun) -> list[tuple[str, ...]]:
    return [launch.argv for launch in done.launches]


def test_a_launch_is_recorded_with_words_environment_and_place() -> None:
    done = run(
        'export VLLM_X="a b"\nTP=$((TP))\nexport TP\nCMD=(vllm serve "$MODEL"\n  --max-num-seqs "$((2 * CONC))")\n'
        '"${CMD[@]}" > log 2>&1 &\nPID=$!\nkill $PID\nwait\n',
        {"MODEL": "org/name", "TP": "8", "CONC": "4"},
    )
    (launch,) = done.launches
    assert launch.argv == ("vllm", "serve", "org/name", "--max-num-seqs", "8")
    assert launch.env == (("VLLM_X", "a b"),), "what the cell gave is not what the script added"
    assert (launch.kind, launch.file, launch.line, launch.survived) == ("service", "launch.sh", 6, False)
    assert done.exit_status == 0


def test_words_of_any_kind_come_through_whole() -> None:
    done = run("vllm serve m --x 'a b' '' $'new\\nline' '{\"j\": \"$HOME\"}' 'ü' -- \"*\" & kill $!\n")
    assert done.launches[0].argv[3:] == ("--x", "a b", "", "new\nline", '{"j": "$HOME"}', "ü", "--", "*")


def test_services_stay_until_they_are_stopped_and_survivors_are_told() -> None:
    done = run("mooncake_master -x &\nvllm serve m &\nkill -0 $! && echo alive\nkill $!\nwait $!\n")
    assert "alive" in done.output
    assert {launch.argv[0]: launch.survived for launch in done.services} == {"mooncake_master": True, "vllm": False}


def test_a_handler_that_runs_leaves_nothing() -> None:
    done = run("trap 'kill $P' EXIT\nsglang serve m &\nP=$!\n")
    assert [launch.survived for launch in done.services] == [False]


def test_pollers_end_and_tools_that_only_read_are_real() -> None:
    done = run(
        "python3 -m sglang.launch_server --port 1 &\nuntil curl -fs localhost:1/health; do sleep 30; done\n"
        "[ \"$(curl -s -o /dev/null -w '%{http_code}' u)\" = 200 ] && echo up\n"
        "echo a:b | cut -d: -f2 | tr b c; seq 2 | wc -l; kill %1\n"
    )
    assert done.output.split() == ["up", "c", "2"]


def test_wrappers_become_what_they_wrap() -> None:
    done = run("numactl --membind=0 -N 1 vllm serve m & kill $!\nsudo -E nice timeout 5 vllm --version\n")
    assert ("vllm", "serve", "m") in argv(done)
    assert ("vllm", "--version") in argv(done)


def test_included_files_are_read_and_missing_ones_are_named() -> None:
    lib = b'start() { vllm serve "$1" & }\n'
    script = 'source "$(dirname "$0")/../lib/common.sh"\n. ./gone.sh\nstart m; kill $!\n'
    done = run(script, name="recipes/run.sh", beside={"lib/common.sh": lib})
    assert ("vllm", "serve", "m") in argv(done)
    service = next(launch for launch in done.services)
    assert (service.file, service.line) == ("recipes/../lib/common.sh", 1)
    assert done.missing == ("./gone.sh",)


def test_what_nobody_knows_did_not_run_and_is_named() -> None:
    done = run("wibble --x 1\nset -e\nwobble | cat\necho on\n")
    assert done.unknown == ("wibble", "wobble")
    assert done.launches[0].line == 1
    assert "on" in done.output


def test_a_script_in_the_foreground_is_ended_and_still_tells() -> None:
    done = run("vllm serve m\necho never\n", seconds=0.7)
    assert done.exit_status is None
    assert argv(done) == [("vllm", "serve", "m")]
    assert "never" not in done.output


def test_status_and_last_words() -> None:
    done = run("echo hello\nexit 7\n")
    assert (done.exit_status, done.output) == (7, "hello\n")
    assert run("kill -TERM $$\nsleep 1\n").exit_status == -15


# Hostile scripts.


def all_of(*scripts: str) -> str:
    """Each in a shell of its own, whatever became of the one before."""
    return "".join(f"(\n{script}\n)\n" for script in scripts)


def test_there_is_no_network() -> None:
    done = run(
        all_of(
            "exec 3<>/dev/tcp/127.0.0.1/22 && echo HIT",
            "exec 3<>/dev/tcp/1.1.1.1/53 && echo HIT",
            "exec 3<>/dev/udp/127.0.0.1/53 && echo x >&3 && echo HIT",
        )
    )
    assert "HIT" not in done.output
    assert done.output.count("unreachable") >= 3


def test_no_program_of_the_machine_runs() -> None:
    done = run(
        all_of(
            "/usr/bin/perl -e 'print qq(HIT)'",
            '/usr/bin/python3 -c \'print("H" + "IT")\'',
            f'{sys.executable} -c \'print("H" + "IT")\'',
            'env python3 -c \'print("H" + "IT")\'',
            "awk 'BEGIN { system(\"/usr/bin/perl -e 1 && echo HIT\") }'",
            "find / -name perl -exec {} -e 'print qq(HIT)' ';'",
            "PATH=/usr/bin:/bin:/usr/local/bin perl -e 'print qq(HIT)'",
            "echo | xargs perl -e 'print qq(HIT)'",
            "command -p perl -e 'print qq(HIT)'",
            "enable -f /usr/lib/bash/sleep sleep && echo HIT",
            "echo LAST",
        )
    )
    assert "HIT" not in done.output
    assert "LAST" in done.output
    assert ("python3", "-c", 'print("H" + "IT")') in argv(done), "its stub was called instead"


def test_what_is_written_cannot_be_executed() -> None:
    tries = (
        "cp /tools/bash $D/b && chmod +x $D/b; $D/b -c 'echo HIT'",
        "for l in /lib*/*ld-linux* /lib/*/ld-linux*; do $l $D/b -c 'echo HIT'; done",
        "printf '#!/bin/bash\\necho HIT\\n' > $D/s; chmod +x $D/s; $D/s",
        "printf x > /proc/self/mem && echo HIT",
        "[ -x $D/b ] || echo CLOSED $D",
    )
    done = run(f"for D in /work /tmp /dev/shm /workspace /results /records; do\n{all_of(*tries)}done\n")
    assert "HIT" not in done.output
    assert done.output.count("CLOSED") == 6


def test_the_machine_is_not_to_be_seen_nor_touched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("HIT")
    done = run(
        f"cat {secret} /etc/passwd /etc/hostname /root/.ssh/* /home/*/.ssh/* /proc/1/environ /proc/1/root/etc/passwd\n"
        f"ls /proc/1/fd /proc/1/cwd/ /old\necho x > {secret}\nmkdir -p {tmp_path}/made\n"
        "for f in /src/launch.sh /stubs/vllm /tools/bash /usr/bin/x /etc/x /x; do echo x > $f && echo WROTE; done\n"
        "rm -rf /src /stubs /tools /usr /bin /lib 2>/dev/null; [ -e /src/launch.sh ] && echo whole\n"
    )
    assert "HIT" not in done.output
    assert "root:" not in done.output
    assert "WROTE" not in done.output
    assert "whole" in done.output
    assert (secret.read_text(), sorted(tmp_path.iterdir())) == ("HIT", [secret])


def test_no_privilege_is_left_or_gained() -> None:
    done = run("grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status; mount -t tmpfs x /work; unshare -r true\n")
    values = [line.split()[1] for line in done.output.splitlines() if line.startswith("Cap")]
    assert values == ["0000000000000000"] * 4
    assert "NoNewPrivs:\t1" in done.output


def test_processes_of_the_machine_are_out_of_reach() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        done = run(f"kill -9 {sleeper.pid}; kill -9 1; kill -9 -1; echo on; ls /proc | grep -c '^[0-9]'\n")
        assert sleeper.poll() is None
        assert "on" in done.output
    finally:
        sleeper.kill()
        sleeper.wait()


def test_daemons_end_with_the_run() -> None:
    mark = "ridgeline-test-daemon"
    done = run(f"setsid nohup bash -c 'exec -a {mark} /tools/sleep 60' >/dev/null 2>&1 & disown; sleep 1; echo on\n")
    assert "on" in done.output
    alive = [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _text(path)]
    assert not alive


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


@pytest.mark.integration
@pytest.mark.parametrize(
    "script",
    [
        ":(){ :|:& };:",
        "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done",
        "cat /dev/zero > /work/big; cat /dev/zero > /tmp/big; cat /dev/zero > /dev/shm/big",
        "trap '' TERM INT HUP EXIT; while :; do :; done",
        "x=$(tr '\\0' a </dev/zero | head -c 900000000)",
    ],
    ids=["forks", "words", "disk", "deaf", "memory"],
)
def test_greed_ends_at_a_limit(script: str) -> None:
    done = run(script + "\n", seconds=0.6)
    assert not done.services
    assert len(done.output) <= 16384


def test_forged_records_are_records_of_nothing() -> None:
    """A script may write what a stub writes: it lies about itself only, and odd files stop nothing."""
    done = run(
        "ln -s /dev/zero /records/1; mkdir /records/2; printf 'a\\0b' > /records/3; : > /records/4\n"
        "printf '%s\\0' 1.0 service x nowhere 1 vllm A=b > /records/5\n"
        "rm -f /work/.output; ln -s /dev/zero /work/.output\n"
        "vllm serve m & kill $!\n"
    )
    assert argv(done) == [("vllm", "serve", "m")]


def test_shell_variables_that_hold_a_script_cannot_be_given() -> None:
    with pytest.raises(InputError) as refused:
        dry_run(b"", {"LD_PRELOAD": "x", "PATH": "/", "BASH_ENV": "x", "A=B": "", "GOOD": "1", "9": ""})
    assert [problem.key for problem in refused.value.problems] == ["LD_PRELOAD", "PATH", "BASH_ENV", "A=B", "9"]


@pytest.mark.parametrize("name", ["../x.sh", "/etc/x.sh", "", "a/../.."])
def test_files_beside_must_lie_beside(name: str) -> None:
    with pytest.raises(InputError):
        dry_run(b"", {}, beside={name: b""})


def test_without_the_kernels_help_nothing_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kernel that denies namespaces: the sandbox program says so, and the script is not started."""
    denied = tmp_path / "sandbox.py"
    text = dryrun.SANDBOX.read_text().replace("libc.unshare(NEWUSER)", "libc.unshare(-1)")
    denied.write_text(text)
    monkeypatch.setattr(dryrun, "SANDBOX", denied)
    with pytest.raises(EnvironmentFailed, match=r"kernel refuses the sandbox \(user namespace: Invalid argument\)"):
        dry_run(b"vllm serve m", {}, limits=QUICK)


@pytest.mark.parametrize(
    "protection", ["        _no_network()\n", '_become_harmless(job["limits"])', "REMOUNT | BIND | RDONLY"]
)
def test_the_program_has_each_protection_that_the_tests_above_lean_on(protection: str) -> None:
    assert dryrun.SANDBOX.read_text().count(protection) == 1
