"""Runs a launch script in a sandbox of stubs and says what it would have started.

In: a script's bytes, the environment of one cell, files it includes. Out: `core.dryrun.DryRun`. Scripts count as
hostile: sandbox.py says what holds them. Where the kernel does not give all of it, nothing is run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ridgeline.core.dryrun import DryRun, Launch
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.launch.stubs import PRELUDE, RECORDS, TOOLS, names, stub

SANDBOX = Path(__file__).with_name("sandbox.py")
SOURCES = "/src"  # the script and what it includes, read only
WORK = "/work"
SCRATCH = (WORK, "/tmp", "/dev/shm", RECORDS, "/workspace", "/results")
OUTPUT = f"{WORK}/.output"
MIB = 1 << 20
START_S = 20.0  # building the sandbox on a busy machine, beside the script's own time
OWN = (
    "PATH",
    "HOME",
    "TMPDIR",
    "BASH_ENV",
    "RIDGELINE_AT",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "USER",
    "LANG",
    "TERM",
    "SHELL",
)
NAME = re.compile(r"[A-Za-z_]\w*\Z")
_LIBRARY = re.compile(r"(?:=>\s*)?(/\S+)\s+\(0x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a script may use. `seconds` is real time; a script that needs more is ended, and what it started until
    then still counts."""

    seconds: float = 10.0
    processes: int = 256
    address_bytes: int = 512 * MIB
    resident_bytes: int = 1024 * MIB
    file_bytes: int = 8 * MIB
    scratch_bytes: int = 64 * MIB
    launches: int = 512
    output_bytes: int = 32 * MIB


def dry_run(
    script: bytes,
    environment: Mapping[str, str],
    *,
    name: str = "launch.sh",
    beside: Mapping[str, bytes] | None = None,
    arguments: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> DryRun:
    """What `script` would start. `beside`: files it may include, by path relative to it.

    Raises EnvironmentFailed when the sandbox cannot be had in full, InputError for names that lead out of it.
    """
    limits = limits or Limits()
    job = _job(script, environment, name, beside or {}, arguments, limits)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(SANDBOX)],
            input=json.dumps(job).encode(),
            capture_output=True,
            timeout=limits.seconds + START_S,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailed(
            "the sandbox did not come back in time", hint="the machine may be overloaded"
        ) from error
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}"
        raise EnvironmentFailed(
            f"launch scripts are not dry-run here: the kernel refuses the sandbox ({reason})",
            hint="without it a script would run with your rights; `check --shell FILE --lint-only` only reads it",
        )
    return _result(json.loads(done.stdout), job["env"], limits)


def _job(
    script: bytes,
    environment: Mapping[str, str],
    name: str,
    beside: Mapping[str, bytes],
    arguments: tuple[str, ...],
    limits: Limits,
) -> dict[str, object]:
    write = {"/stubs/.prelude": PRELUDE, "/stubs/.stub": stub()}
    for path, data in {name: script, **beside}.items():
        write[_source(path)] = data.decode("utf-8", "surrogateescape")
    write[f"{WORK}/.keep"] = ""
    tools = _tools()
    link = {f"/stubs/{stubbed}": "/stubs/.stub" for stubbed in names()}
    link |= {f"{folder}/{n}": f"/stubs/{n}" for folder in ("/usr/bin", "/usr/local/bin", "/bin") for n in names()}
    link |= {f"/stubs/{tool}": f"/tools/{tool}" for tool in tools if tool != "sleep"}
    link |= {f"/usr/bin/{tool}": f"/tools/{tool}" for tool in tools if tool != "sleep"}
    link |= {f"/bin/{tool}": f"/tools/{tool}" for tool in tools if tool not in ("sleep", "bash")}
    link |= {"/stubs/sh": "/tools/bash", "/bin/sh": "/tools/bash", "/bin/bash": "/tools/bash"}
    return {
        "copy": {**{f"/tools/{tool}": path for tool, path in tools.items()}, **_libraries()},
        "write": write,
        "executable": ["/stubs/.stub"],
        "link": link,
        "scratch": list(SCRATCH),
        "scratch_size": str(limits.scratch_bytes),
        "records": RECORDS,
        "output": OUTPUT,
        "folder": WORK,
        "argv": ["/bin/bash", _source(name), *arguments],
        "env": {**_given(environment), **_base()},
        "limits": {
            "seconds": limits.seconds,
            "processes": limits.processes,
            "address_bytes": limits.address_bytes,
            "resident_bytes": limits.resident_bytes,
            "file_bytes": limits.file_bytes,
            "cpu_seconds": int(limits.seconds) + 5,
            "files": 256,
            "records": limits.launches,
            "record_bytes": MIB,
            "output_bytes": limits.output_bytes,
            "tail_bytes": 16384,
        },
    }


def _base() -> dict[str, str]:
    return {
        "PATH": "/stubs",
        "HOME": WORK,
        "TMPDIR": "/tmp",
        "BASH_ENV": "/stubs/.prelude",
        "USER": "user",
        "LANG": "C",
        "TERM": "dumb",
        "SHELL": "/bin/bash",
    }


def _given(environment: Mapping[str, str]) -> dict[str, str]:
    """The cell's variables. The shell's own are not to be given: they would change what holds the script."""
    wrong = [
        Problem("is not a variable that can be given to a script", key=name)
        for name in environment
        if not NAME.match(name) or name in OWN or name.startswith(("LD_", "BASH", "RIDGELINE_"))
    ]
    if wrong:
        raise InputError(wrong)
    return dict(environment)


def _source(path: str) -> str:
    """Where a file of the script's lies inside. `..` is followed within SOURCES only."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == "..":
            if not parts:
                raise InputError([Problem("leads out of the script's folder", key=path)])
            parts.pop()
        elif part not in (".", "/"):
            parts.append(part)
    if not parts or path.startswith("/"):
        raise InputError([Problem("must be a relative path", key=path)])
    return "/".join((SOURCES, *parts))


@lru_cache(maxsize=1)
def _tools() -> dict[str, str]:
    """Text tools of this machine, by name, with their real paths."""
    found = {tool: shutil.which(tool, path="/usr/bin:/bin") for tool in TOOLS}
    if not found["bash"] or not found["sleep"]:
        raise EnvironmentFailed("launch scripts are not dry-run here: there is no bash in /usr/bin or /bin")
    return {tool: str(Path(path).resolve()) for tool, path in found.items() if path}


@lru_cache(maxsize=1)
def _libraries() -> dict[str, str]:
    """Shared libraries of the tools, at the paths they are looked for."""
    done = subprocess.run(
        ["ldd", *sorted(set(_tools().values()))],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    found = {path: str(Path(path).resolve()) for path in _LIBRARY.findall(done.stdout)}
    if not found:
        raise EnvironmentFailed("launch scripts are not dry-run here: `ldd` does not name the tools' libraries")
    return found


def _result(data: dict[str, object], given: object, limits: Limits) -> DryRun:
    before = dict(given) if isinstance(given, dict) else {}
    alive = set(data["alive"])  # type: ignore[call-overload]
    launches: list[Launch] = []
    missing: tuple[str, ...] = ()
    for name, text in data["records"]:  # type: ignore[attr-defined]
        if name == "missing":
            missing = tuple(dict.fromkeys(part.removeprefix(f"{SOURCES}/") for part in text.split("\0") if part))
            continue
        launch = _launch(text, before, alive)
        if launch is not None:
            launches.append(launch)
    status = data["status"]
    return DryRun(
        tuple(launches[: limits.launches]),
        status if isinstance(status, int) else None,
        str(data["output"]),
        missing,
    )


def _launch(text: str, before: Mapping[str, str], alive: set[int]) -> Launch | None:
    """One record: time, kind, process, place, number of words, words, environment. None for what a script wrote there
    itself and is none."""
    parts = text.split("\0")
    try:
        kind, pid, place, count = parts[1], int(parts[2]), parts[3], int(parts[4])
    except (IndexError, ValueError):
        return None
    words, rest = parts[5 : 5 + count], parts[5 + count :]
    if kind not in ("service", "command", "unknown") or len(words) != count or not words:
        return None
    file, _, line = place.rpartition(":")
    return Launch(
        kind,
        tuple(words),
        tuple(_added(rest, before)),
        file.removeprefix(f"{SOURCES}/") or None,
        int(line) if line.isdecimal() else None,
        pid in alive and kind == "service",
    )


def _added(pairs: list[str], before: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for pair in sorted(pairs):
        name, equals, value = pair.partition("=")
        if equals and NAME.match(name) and name not in OWN and before.get(name) != value:
            yield name, value
