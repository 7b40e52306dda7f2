"""What a pull request changes, read from commits of a checkout as bytes. Nothing is checked out, filtered or run.

In: a repository and two commit ids. Out: a `Change`: files with their bytes before and after, and the lines each adds.
The review rules look at the change since the branch left its base; the changelog rules compare with the base's tip.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ridgeline.core.errors import EnvironmentFailed
from ridgeline.publish.changelog.diffing import Diff, Line
from ridgeline.publish.changelog.repository import Repository, diff
from ridgeline.publish.gate.policy import matches

MAX_FILES = 3000  # GitHub shows no more files of one pull request
MAX_FILE = 2 * 1024 * 1024
_ZERO = frozenset("0")
_LINK, _MODULE = "120000", "160000"


@dataclass(frozen=True)
class ChangedFile:
    """One file. `before` and `after` are its bytes, None where it does not exist there or is no text we read:
    `unread` says why in the latter case."""

    path: str
    before: bytes | None
    after: bytes | None
    unread: str = ""

    @property
    def added(self) -> bool:
        return self.before is None and self.after is not None

    @cached_property
    def lines(self) -> Diff:
        """The lines that differ, numbered in the revision that holds them."""
        before, after = self.before or b"", self.after or b""
        if not before or not after:
            return Diff(_all(before), _all(after))
        return diff(before, after)

    @cached_property
    def added_lines(self) -> frozenset[int]:
        """Numbers of the lines that are new or changed at the head."""
        return frozenset(line.number for line in self.lines.added)

    @property
    def text(self) -> str:
        """The file at the head, undecodable bytes replaced."""
        return (self.after or b"").decode("utf-8", "replace")


@dataclass(frozen=True)
class Change:
    """`base`: tip of the branch merged into; `fork_point`: where the branch left it; `head`: the branch's tip."""

    base: str
    fork_point: str
    head: str
    files: Mapping[str, ChangedFile]
    incomplete: str = ""  # why not all files are here

    def matching(self, patterns: tuple[str, ...]) -> list[ChangedFile]:
        """Changed files that exist at the head and match a pattern, by name."""
        return [file for path, file in self.files.items() if file.after is not None and matches(path, patterns)]

    def touched(self, path: str, line: int) -> bool:
        """Whether the change adds or alters a line of the head; line 0 is the whole file."""
        file = self.files.get(path)
        return file is not None and (not line or line in file.added_lines)


def read_change(repository: Repository, base: str, head: str) -> Change:
    """The change between two commit ids. Raises InputError when they have no common ancestor."""
    fork_point = repository.fork_point(base, head)
    flags = ("--raw", "-z", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
    listed = repository.git("diff-tree", "-r", *flags, fork_point, head).stdout
    entries = _entries(listed)
    incomplete = ""
    if len(entries) > MAX_FILES:
        incomplete = f"{len(entries)} files changed; only {MAX_FILES} were looked at"
        entries = entries[:MAX_FILES]
    blobs = _blobs(repository, {blob for _, *sides in entries for mode, blob in sides if _is_file(mode)})
    files = {}
    for path, before, after in entries:
        contents, unread = [], ""
        for mode, blob in (before, after):
            data = blobs.get(blob) if _is_file(mode) else None
            contents.append(data)
            if _is_file(mode) and data is None:
                unread = f"larger than {MAX_FILE // 1024 // 1024} MiB"
            elif mode in (_LINK, _MODULE):
                unread = "a link" if mode == _LINK else "a submodule"
        files[path] = ChangedFile(path, contents[0], contents[1], unread)
    return Change(base, fork_point, head, files, incomplete)


def files_at(repository: Repository, commit: str, names: Iterable[str]) -> dict[str, bytes]:
    """The bytes of those files that exist in a commit id, from two git processes. Links are no files here."""
    wanted = {repository.inside(name): name for name in names}
    listed = repository.git("--literal-pathspecs", "ls-tree", "-z", commit, "--", *wanted).stdout
    ids = {}
    for record in filter(None, listed.split(b"\0")):
        about, path = record.split(b"\t", 1)
        mode, kind, blob = about.decode("ascii").split(" ")
        name = wanted.get(path.decode("utf-8", "replace"))
        if kind == "blob" and _is_file(mode) and name is not None:
            ids[name] = blob
    blobs = _blobs(repository, ids.values())
    return {name: blobs[blob] for name, blob in ids.items() if blob in blobs}


def matching_files(repository: Repository, commit: str, patterns: tuple[str, ...], most: int = 400) -> dict[str, bytes]:
    """The files of a commit id whose path matches, at most `most` of them, by path."""
    listed = repository.git("ls-tree", "-r", "-z", "--full-tree", commit).stdout
    ids = {}
    for record in filter(None, listed.split(b"\0")):
        about, path = record.split(b"\t", 1)
        mode, _, blob = about.decode("ascii").split(" ")
        name = path.decode("utf-8", "backslashreplace")
        if _is_file(mode) and matches(name, patterns):
            ids[name] = blob
    chosen = dict(sorted(ids.items())[:most])
    blobs = _blobs(repository, chosen.values())
    return {name: blobs[blob] for name, blob in chosen.items() if blob in blobs}


def head_message(repository: Repository, commit: str) -> str:
    """The whole message of a commit id."""
    return repository.git("log", "-1", "--no-show-signature", "--format=%B", commit).stdout.decode("utf-8", "replace")


_Side = tuple[str, str]


def _entries(raw: bytes) -> list[tuple[str, _Side, _Side]]:
    """`:mode mode blob blob status NUL path NUL` records, by path."""
    parts = raw.split(b"\0")
    found = []
    for about, path in zip(parts[::2], parts[1::2], strict=False):
        mode_before, mode_after, before, after, _ = about.lstrip(b":").decode("ascii").split(" ")
        name = path.decode("utf-8", "backslashreplace")
        found.append((name, (mode_before, before), (mode_after, after)))
    return sorted(found)


def _is_file(mode: str) -> bool:
    return mode.startswith("100")


def _blobs(repository: Repository, ids: Iterable[str]) -> dict[str, bytes]:
    """The bytes of blobs that are not too large, all from one git process. Ids come from git itself."""
    wanted = sorted(blob for blob in ids if not set(blob) <= _ZERO)
    if not wanted:
        return {}
    small = [
        blob
        for blob, kind, size in (
            line.split(" ") for line in _batch(repository, "--batch-check", wanted).decode().splitlines()
        )
        if kind == "blob" and int(size) <= MAX_FILE
    ]
    data, at, found = _batch(repository, "--batch", small), 0, {}
    while at < len(data):
        end = data.index(b"\n", at)
        blob, _, size = data[at:end].decode("ascii").split(" ")
        found[blob] = data[end + 1 : end + 1 + int(size)]
        at = end + 1 + int(size) + 1
    return found


def _batch(repository: Repository, mode: str, ids: list[str]) -> bytes:
    done = subprocess.run(
        ["git", "cat-file", mode],
        cwd=repository.root,
        input="".join(f"{one}\n" for one in ids).encode("ascii"),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise EnvironmentFailed(f"`git cat-file` failed: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def _all(data: bytes) -> tuple[Line, ...]:
    lines = data.split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    return tuple(Line(number, text) for number, text in enumerate(lines, 1))
