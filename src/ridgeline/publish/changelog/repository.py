"""The git edge: revisions become bytes, and nothing a caller passes can become an option of git.

Refs are resolved to object ids once, behind `--end-of-options`; from then on only ids reach git. Blobs are read raw,
without filters or line-end conversion.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.publish.changelog.diffing import Diff, read_diff


@dataclass(frozen=True, slots=True)
class Repository:
    """A git work tree. `root` is its top directory."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> Repository:
        """The work tree around `path`. Raises InputError when there is none."""
        done = _git(path, "rev-parse", "--show-toplevel")
        if done.returncode:
            raise InputError([Problem(f"`{path}` is not inside a git work tree", hint="give one with --repo")])
        return cls(Path(os.fsdecode(done.stdout.rstrip(b"\n"))))

    def git(self, *arguments: str, accept: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[bytes]:
        """Run git at the root. Raises EnvironmentFailed with its last words on any exit code but those accepted."""
        done = _git(self.root, *arguments)
        if done.returncode not in accept:
            words = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            raise EnvironmentFailed(f"`git {arguments[0]}` failed: {words or f'exit code {done.returncode}'}")
        return done

    def commit(self, ref: str) -> str:
        """The object id of the commit behind `ref`. Raises InputError."""
        if not ref or "\0" in ref:
            raise InputError([Problem("a ref must not be empty or hold a NUL byte")])
        done = _git(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if done.returncode:
            raise InputError([Problem(f"`{ref}` is no commit of this repository", hint="fetch it, or check the name")])
        return done.stdout.decode("ascii").strip()

    def inside(self, name: str) -> str:
        """The path of `name` (relative to the root) as git writes it. Raises InputError when it leads outside."""
        path = Path(os.path.normpath(self.root / name))
        if "\0" in name or not path.is_relative_to(self.root) or path == self.root:
            raise InputError([Problem(f"`{name}` is not a file below {self.root}")])
        return path.relative_to(self.root).as_posix()

    def find(self, commit: str, name: str) -> bytes | None:
        """The bytes of file `name` in a commit id; None when it is not there or no file."""
        listed = self.git("--literal-pathspecs", "ls-tree", "-z", commit, "--", self.inside(name)).stdout
        if not listed:
            return None
        mode, kind, blob = listed.split(b"\t", 1)[0].split(b" ")
        if kind != b"blob" or mode == b"120000":  # a link's blob is its target, not the file
            return None
        return self.git("cat-file", "blob", blob.decode("ascii")).stdout

    def has(self, commit: str | None, name: str) -> bool:
        """Whether `name` is a file in a commit id, or in the work tree for None."""
        if commit is None:
            return (self.root / self.inside(name)).is_file()
        return self.find(commit, name) is not None

    def fork_point(self, one: str, other: str) -> str:
        """The best common ancestor of two commit ids. Raises InputError when they have none."""
        found = self.git("merge-base", one, other, accept=(0, 1)).stdout.decode("ascii").split()
        if not found:
            raise InputError(
                [Problem(f"{one[:12]} and {other[:12]} have no common ancestor", hint="fetch full history")]
            )
        return found[0]

    def contains(self, commit: str, other: str) -> bool:
        """Whether commit id `other` is `commit` or one of its ancestors."""
        return not self.git("merge-base", "--is-ancestor", other, commit, accept=(0, 1)).returncode

    def read(self, commit: str | None, name: str) -> bytes:
        """The bytes of `name` in a commit id, or in the work tree for None. Raises InputError when it is missing."""
        if commit is None:
            try:
                return (self.root / self.inside(name)).read_bytes()
            except OSError as error:
                raise InputError([Problem(f"cannot read `{name}`: {error.strerror or error}")]) from error
        data = self.find(commit, name)
        if data is None:
            raise InputError([Problem(f"commit {commit[:12]} has no file `{name}`", hint="name it with --file")])
        return data


def diff(base: bytes, head: bytes) -> Diff:
    """What git's line diff says between two texts, independent of anybody's git configuration."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-diff-") as folder:
        place = Path(folder)
        (place / "base").write_bytes(base)
        (place / "head").write_bytes(head)
        flags = ["--no-color", "--no-ext-diff", "--no-textconv", "--unified=0", "--diff-algorithm=myers"]
        quiet = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": folder}
        done = _git(place, "diff", "--no-index", *flags, "--indent-heuristic", "--", "base", "head", **quiet)
    if done.returncode not in (0, 1):  # 1: they differ
        raise EnvironmentFailed(f"`git diff` failed: {done.stderr.decode('utf-8', 'replace').strip()}")
    return read_diff(done.stdout)


def leave_markers(base: Path, ours: Path, theirs: Path, size: int) -> None:
    """Write git's ordinary conflict of three files into `ours`, for a person to solve."""
    flags = [f"--marker-size={size}", "-L", "ours", "-L", "base", "-L", "theirs"]
    _git(Path(), "merge-file", "--quiet", *flags, "--", *map(os.fspath, (ours, base, theirs)))


def rebasing() -> bool:
    """Whether git is rebasing here: then ours is the branch rebased onto, theirs the commit being moved."""
    states = [_git(Path(), "rev-parse", "--git-path", name).stdout for name in ("rebase-merge", "rebase-apply")]
    return any(Path(os.fsdecode(state.rstrip(b"\n"))).exists() for state in states if state.strip())


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step, keeping its permissions; a reader sees the old or the new bytes."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _git(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    # a stable language: nothing of ours parses messages, but people compare them
    surroundings = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **environment}
    try:
        return subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=surroundings,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise InputError([Problem(f"`{folder}` is not a directory")]) from error
        raise EnvironmentFailed("git is not installed", hint="install git and try again") from error
    except NotADirectoryError as error:
        raise InputError([Problem(f"`{folder}` is not a directory")]) from error
