"""Runs a launch script as it is, with Ridgeline in the place of its load generator.

    python script_host.py SCRIPT [ARGUMENTS...]        a program of its own: standard library only

Scripts of this kind start a server in the background, wait for it, run a load generator, gather what it wrote and stop.
Known load generators find a stand-in on the PATH: it writes down how it was called, waits until Ridgeline has measured
(the file RELEASE), and ends with success, so that the script goes on as if it had run. Everything else is untouched;
this process becomes the script.
"""

import os
import shutil
import sys
from pathlib import Path

BASH = "bash"
OWN = ".ridgeline"  # the folder in the script's own that is ours
RELEASE = f"{OWN}/release"  # the file that lets the load generator's stand-in end
# Programs that are load generators, and those that are when an argument says so.
CLIENTS = ("aiperf", "genai-perf", "guidellm", "inference-perf", "evalscope", "sglang-bench", "vllm-bench")
SOMETIMES = {
    "python": ("benchmark_serving", "bench_serving", "bench_one_batch_server", "-m aiperf", "-m genai_perf"),
    "python3": ("benchmark_serving", "bench_serving", "bench_one_batch_server", "-m aiperf", "-m genai_perf"),
    "vllm": ("bench serve",),
}
STAND_IN = """#!/bin/sh
printf '%s\\n' "${0##*/} $*" >> "$RIDGELINE_WORK/clients.txt"
echo "ridgeline stands in for: ${0##*/} $*"
until [ -e "$RIDGELINE_WORK/.ridgeline/release" ]; do sleep 0.1; done
"""
CHOOSE = """#!/bin/sh
case "$* " in
{cases}  *) exec {real} "$@" ;;
esac
exec "$RIDGELINE_WORK/.ridgeline/stand-ins/.client" {name} "$@"
"""


def main() -> int:
    work = Path.cwd()
    stand_ins = work / OWN / "stand-ins"
    stand_ins.mkdir(parents=True, exist_ok=True)
    Path(os.environ.get("RESULT_DIR") or work).mkdir(parents=True, exist_ok=True)
    _program(stand_ins / ".client", STAND_IN.replace("${0##*/} $*", "$*"))
    for name in CLIENTS:
        _program(stand_ins / name, STAND_IN)
    for name, signs in SOMETIMES.items():
        real = shutil.which(name)
        if real is not None:
            cases = "".join(f"  *'{sign}'*) ;;\n" for sign in signs)
            _program(stand_ins / name, CHOOSE.format(cases=cases, real=_quoted(real), name=name))
    os.environ["RIDGELINE_WORK"] = str(work)
    os.environ["PATH"] = f"{stand_ins}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    sys.stdout.flush()
    os.execvp(BASH, [BASH, *sys.argv[1:]])


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    sys.exit(main())
