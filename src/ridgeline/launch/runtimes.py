"""A service's command inside a container image: docker and enroot as words around the argv.

In: a service's argv, environment and working folder, and the image a recipe names. Out: the words that start it.
The runtime's own client is what the guardian holds; a container that a daemon starts (docker) is not its child, so it
carries a label and a cidfile, and `leftovers` finds what a killed sweep left. Nothing here runs a container.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem

LABEL = "ridgeline.sweep"
SHM = "64g"  # engines hand tensors over in shared memory; a container's default of 64 MiB ends in a bus error
ASK_S = 30.0  # for docker to answer a question
# The file is made under a lock and appears whole: cells on other nodes want it too. $0: file; $1: URI; then words.
IMPORT = (
    'file=$0 uri=$1; shift; mkdir -p "${file%/*}"; [ -e "$file" ] || flock "$file.lock" sh -c '
    '\'[ -e "$0" ] || { enroot import --output "$0.part" "$1" && mv "$0.part" "$0"; }\' "$file" "$uri" && exec "$@"'
)
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")

Ask = Callable[[Sequence[str]], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapping:
    """What a wrapped service needs beyond its words. `mounts`: folders that are the same inside (weights, traces)."""

    image: str
    name: str
    folder: Path  # the service's working folder
    sweep: str  # says whose container it is
    mounts: tuple[Path, ...] = ()
    gpus: tuple[int, ...] | None = None  # None: all
    amd: bool = False


def bare(argv: Sequence[str], env: Mapping[str, str], wrapping: Wrapping) -> list[str]:
    """No container: the words as they are."""
    return list(argv)


def docker(argv: Sequence[str], env: Mapping[str, str], wrapping: Wrapping) -> list[str]:
    """`docker run` in the foreground, on the host's network, gone when it ends. Secrets go by name: the value of a
    variable is taken from the client's environment, never put on the command line."""
    w = wrapping
    words = ["docker", "run", "--rm", "--init", "--network=host", "--ipc=host", f"--shm-size={SHM}"]
    words += [f"--name={w.name}", f"--label={LABEL}={w.sweep}", f"--cidfile={w.folder / 'cid'}"]
    words += ["--ulimit=memlock=-1", "--ulimit=stack=67108864"]
    if w.amd:
        words += ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=video", "--security-opt=seccomp=unconfined"]
    else:
        numbers = "all" if w.gpus is None else f'"device={",".join(map(str, w.gpus))}"'
        words += [f"--gpus={numbers}"]
    words += [f"--volume={path}:{path}" for path in (w.folder, *w.mounts)]
    words += [f"--workdir={w.folder}", *(f"--env={name}" for name in sorted(env))]
    return [*words, "--entrypoint=", w.image, *argv]


def enroot(argv: Sequence[str], env: Mapping[str, str], wrapping: Wrapping) -> list[str]:
    """`enroot start` of an image that is imported first where it is not yet. It is an ordinary child: the guardian's
    hold covers everything in it."""
    w = wrapping
    words = ["enroot", "start", "--rw"]
    for path in (w.folder, *w.mounts):
        words += ["--mount", f"{path}:{path}"]
    for name in sorted(env):
        words += ["--env", name]
    file = squash_file(w.image)
    words += [str(file), "sh", "-c", 'cd "$0" && exec "$@"', str(w.folder), *argv]
    return ["sh", "-c", IMPORT, str(file), enroot_uri(w.image), *words]


RUNTIMES: Mapping[str, Callable[[Sequence[str], Mapping[str, str], Wrapping], list[str]]] = {
    "none": bare,
    "docker": docker,
    "enroot": enroot,
}


def runtime_of(name: str, which: Callable[[str], str | None] = shutil.which) -> Callable[..., list[str]]:
    """The wrapper by name. Raises InputError for an unknown one, EnvironmentFailed where it is not installed."""
    if name not in RUNTIMES:
        raise InputError([Problem(f"is `{name}`, must be one of {', '.join(RUNTIMES)}", key="--runtime")])
    if name != "none" and which(name) is None:
        raise EnvironmentFailed(
            f"the container runtime `{name}` is not installed here",
            hint="--runtime none starts what is on this machine",
        )
    return RUNTIMES[name]


def squash_file(image: str, environ: Mapping[str, str] | None = None) -> Path:
    """The file an image is imported to, keyed by its reference: a digest where it names one. It lies in the folder that
    RIDGELINE_IMAGES names, else in the user's cache."""
    found = os.environ if environ is None else environ
    folder = found.get("RIDGELINE_IMAGES") or f"{found.get('HOME', '')}/.cache/ridgeline/images"
    return Path(folder) / (re.sub(r"[^\w.-]+", "+", image) + ".sqsh")


def enroot_uri(image: str) -> str:
    """An image reference as enroot writes it: `docker://REGISTRY#IMAGE:TAG`, Docker's own registry without a name."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return f"docker://{first}#{rest}"
    return f"docker://{image}"


def resolved(image: str, ask: Ask | None = None) -> str | None:
    """The image by digest, as docker knows it; None where it cannot tell (not pulled, no docker)."""
    if _DIGEST.search(image):
        return image
    said = (ask or _ask)(["docker", "image", "inspect", "--format", "{{index .RepoDigests 0}}", image])
    return said.strip() if said and _DIGEST.search(said.strip()) else None


def leftovers(sweep: str | None = None, ask: Ask | None = None) -> list[str]:
    """Ids of containers that carry our label: of one sweep, or of any."""
    label = f"label={LABEL}={sweep}" if sweep else f"label={LABEL}"
    return ((ask or _ask)(["docker", "ps", "--all", "--quiet", "--filter", label]) or "").split()


def reap(sweep: str, ask: Ask | None = None) -> list[str]:
    """Remove what an earlier start of this sweep left running; returns the ids. Killing docker's client with SIGKILL
    does not end its container, so this runs before anything is started."""
    found = leftovers(sweep, ask)
    if found:
        (ask or _ask)(["docker", "rm", "--force", *found])
    return found


def remove_container(cidfile: Path, ask: Ask | None = None) -> None:
    """Remove the container that a client wrote down; the daemon keeps it when the client was killed. One that is gone
    already is no objection."""
    try:
        container = cidfile.read_text().strip()
    except OSError:
        return
    if container:
        (ask or _ask)(["docker", "rm", "--force", container])


def _ask(words: Sequence[str]) -> str | None:
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(list(words), capture_output=True, text=True, timeout=ASK_S, check=False)
    except subprocess.TimeoutExpired:  # a daemon that hangs: the start itself will say so
        return None
    return done.stdout if done.returncode == 0 else None
