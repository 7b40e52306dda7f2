"""Ways round the stubs: whatever a script tries to get at a program, a file or a socket of the machine, none of it is
there. (What holds it is tested where the sandbox is: tests/launch/test_dryrun.py.)"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.launch.dryrun import Limits, dry_run

pytestmark = pytest.mark.integration  # each test starts the sandbox

# Prints HIT if a real interpreter ran it; inside, `python3` and `perl` are stubs or nothing.
PYTHON = "print(chr(72) + chr(73) + chr(84))"
REAL = f"{sys.executable} -c '{PYTHON}'"
STUB = f"python3 -c '{PYTHON}'"
WAYS = {
    "eval": f"eval \"{STUB}\"",
    "exec": f"(exec {STUB})",
    "an absolute path": f"{REAL}; /usr/bin/env {STUB}",
    "a command substitution": f"echo \"$({STUB})\" `{REAL}`",
    "a process substitution": f"cat <({REAL})",
    "a here-document": f"python3 - <<'END'\n{PYTHON}\nEND\nbash <<'END'\n{REAL}\nEND",
    "a here-string": f"bash <<< \"{REAL}\"",
    "traps": f"trap \"{REAL}\" EXIT DEBUG ERR RETURN TERM; kill -TERM $$; false",
    "a coprocess": f"coproc {{ {REAL}; }}; cat <&${{COPROC[0]}}",
    "another PATH": f"PATH=/usr/bin:/bin:/sbin; hash -r; perl -e 'print qq(H),qq(IT)'; {STUB}",
    "an empty environment": f"env -i PATH=/usr/bin /bin/bash --norc --noprofile -c \"{STUB}\"",
    "a function by the stub's name": f"vllm() {{ {REAL}; }}; vllm serve m; unset -f vllm source .",
    "a hashed path": f"hash -p {sys.executable} real; real -c '{PYTHON}'",
    "an alias": f"shopt -s expand_aliases\nalias real={sys.executable}\nreal -c '{PYTHON}'",
    "no prelude": f"unset BASH_ENV; set +T; trap - DEBUG; bash -p -c \"{REAL}\"",
    "a preloaded library": f"LD_PRELOAD=/tmp/x.so LD_LIBRARY_PATH=/tmp cat /dev/null; {REAL}",
    "awk": f"awk 'BEGIN {{ while ((\"{sys.executable} -c \\\"{PYTHON}\\\"\" | getline line) > 0) print line }}'",
    "sed": f"echo x | sed 's|x|{sys.executable} --version|e'; sed -n '1e {sys.executable} -V' /src/launch.sh",
    "find and xargs": f"find /src -name launch.sh -exec {REAL} ';'; echo -c | xargs {sys.executable}",
    "a wrapper": f"timeout 5 nice nohup setsid {REAL}; sudo numactl {REAL}",
    "a builtin": f"builtin command {REAL}; command -p {STUB}; enable -n kill",
    "included text": f"source /dev/stdin <<< \"{REAL}\"; . <(echo \"{REAL}\")",
    "a mailfile of history": f"set -o history; history -s \"{REAL}\"; fc -s 2>/dev/null",
    "a prompt": f"PS4='$({sys.executable} -c \"{PYTHON}\")'; set -x; :",
    "arithmetic": f"a='x[$({sys.executable} -c \"{PYTHON}\")]'; echo $((a))",
}  # fmt: skip


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("canary") / "kept"
    path.write_text("as it was")
    yield path
    assert path.read_text() == "as it was" and list(path.parent.iterdir()) == [path]


def run(script: str) -> str:
    try:
        return dry_run(script.encode(), {"MODEL": "org/m"}, limits=Limits(seconds=4)).output
    except EnvironmentFailed as error:
        if "kernel refuses" in error.message:
            pytest.skip(error.message)
        raise


@pytest.mark.parametrize("way", WAYS)
def test_no_program_of_the_machine_is_reached(way: str, canary: Path) -> None:
    """None runs, and nothing that is tried beside it reaches the machine's files or its network."""
    tries = f"/bin/rm -rf {canary.parent} /src; echo x > {canary}; : > /dev/tcp/127.0.0.1/22 && echo H''IT\n"
    output = run(f"{WAYS[way]}\n{tries}echo LAST\n")
    assert "HIT" not in output and "Python 3" not in output, output
    assert canary.exists()


def test_the_ways_do_print_outside() -> None:
    """Run plainly, the same script text does reach an interpreter: the tries above are real ones."""
    done = subprocess.run(
        ["bash", "-c", WAYS["eval"] + "\n" + WAYS["a here-document"]], capture_output=True, text=True, check=False
    )
    assert done.stdout.count("HIT") >= 2
