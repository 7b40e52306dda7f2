"""Makes a branch ready to merge: main merged in, a changelog conflict resolved, links canonical, the contract kept.

Everything is computed from the commits before the work tree is touched, so a refusal leaves it as it was. Running it
again finds nothing to do; running it in the middle of a merge continues that merge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ridgeline.core.errors import AnswerIsNo, EnvironmentFailed, InputError, Problem
from ridgeline.publish.changelog.contract import Change, strict
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.merging import canonicalize, resolve
from ridgeline.publish.changelog.refusal import ChangelogRefused, at
from ridgeline.publish.changelog.repository import Repository, write_atomically

Check = Callable[[Change], None]


class Prepared(NamedTuple):
    """The change against main as it now stands, and what was done to get there, in order."""

    change: Change
    steps: tuple[str, ...]


def prepare(repository: Repository, main_ref: str, links: Links, file: str, check: Check, *, commit: bool) -> Prepared:
    """Prepare the branch that is checked out. `check` judges the change once it lies in the work tree.

    The result is staged; `commit` also concludes the merge, or commits the new links under a `[skip-sweep]` subject.
    Raises ChangelogRefused when the contract is broken or nothing is contributed, AnswerIsNo for conflicts elsewhere,
    InputError when the work tree is not in a state to start from.
    """
    name = repository.inside(file)
    head, main = repository.commit("HEAD"), repository.commit(main_ref)
    steps: list[str] = []
    merging = _merge_head(repository)
    unmerged = _unmerged(repository)
    if merging is None:
        _expect_clean(repository, name, unmerged)
    elif unmerged - {name}:
        raise _conflicts(unmerged - {name}, "resolve them, then run this again")
    upstream = merging or main
    fresh = merging is None and not repository.contains(head, main)
    if fresh or name in unmerged:
        result = _combined(repository, head, upstream, links, name)
    else:
        result = _kept(repository, upstream, links, name)
    change = strict(repository.read(upstream, name), result, links, name)
    if not change.additions and not change.corrections:
        raise ChangelogRefused([at(name, 0, "the branch adds and corrects nothing", hint="add an entry at the end")])
    if fresh:
        _start_merge(repository, upstream, name)
        steps.append(f"merged {main_ref} ({main[:12]})")
    if name in _unmerged(repository):
        steps.append(f"resolved the conflict in {name}")
    if repository.read(None, name) != result:
        write_atomically(repository.root / name, result)
        steps.append(f"wrote {name}")
    repository.git("--literal-pathspecs", "add", "--", name)
    check(change)
    if commit:
        steps += _conclude(repository, name, links)
    return Prepared(change, tuple(steps))


def _combined(repository: Repository, head: str, upstream: str, links: Links, name: str) -> bytes:
    """The branch's contribution on top of main's bytes, from the commits alone."""
    fork = repository.fork_point(head, upstream)
    base, pull, main = (repository.read(commit, name) for commit in (fork, head, upstream))
    return canonicalize(main, pull, links, name) if main == base else resolve(base, pull, main, links, name)


def _kept(repository: Repository, upstream: str, links: Links, name: str) -> bytes:
    """The file as it lies in the work tree, with canonical links."""
    try:
        return canonicalize(repository.read(upstream, name), repository.read(None, name), links, name)
    except ChangelogRefused as refused:
        if _merge_head(repository) is None:
            raise
        hint = f"`git checkout --merge -- {name}` brings the conflict back; then run this again"
        raise ChangelogRefused(
            [*refused.problems, at(name, 0, "the merged file breaks the contract", hint=hint)]
        ) from None


def _start_merge(repository: Repository, upstream: str, name: str) -> None:
    done = repository.git("merge", "--no-commit", "--no-ff", "--no-edit", upstream, accept=tuple(range(256)))
    if _merge_head(repository) is None:
        words = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise EnvironmentFailed(f"`git merge` failed: {words}")
    others = _unmerged(repository) - {name}
    if others:
        repository.git("merge", "--abort")
        raise _conflicts(others, "the merge was taken back; merge main yourself, resolve these, then run this again")


def _conclude(repository: Repository, name: str, links: Links) -> list[str]:
    if _merge_head(repository) is not None:
        repository.git("commit", "--no-edit")
        return ["committed the merge"]
    staged = repository.git("--literal-pathspecs", "diff", "--cached", "--quiet", "--", name, accept=(0, 1))
    if not staged.returncode:
        return []
    subject = f"Link the changelog to pull request {links.pr} [skip-sweep]"
    repository.git("--literal-pathspecs", "commit", "-m", subject, "--", name)
    return ["committed the links"]


def _expect_clean(repository: Repository, name: str, unmerged: set[str]) -> None:
    for state in ("rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD"):
        where = repository.git("rev-parse", "--git-path", state).stdout.decode().rstrip("\n")
        if (repository.root / where).exists():
            raise InputError([Problem(f"another operation is in progress ({state})", hint="finish or abort it first")])
    listed = repository.git("status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames").stdout
    dirty = {entry[3:].decode("utf-8", "replace") for entry in listed.split(b"\0") if entry} - {name} | unmerged
    if dirty:
        files = ", ".join(f"`{path}`" for path in sorted(dirty))
        raise InputError([Problem(f"uncommitted changes in {files}", hint="commit or stash them first")])


def _merge_head(repository: Repository) -> str | None:
    done = repository.git("rev-parse", "--verify", "--quiet", "MERGE_HEAD", accept=(0, 1))
    return None if done.returncode else done.stdout.decode("ascii").strip()


def _unmerged(repository: Repository) -> set[str]:
    listed = repository.git("diff", "--name-only", "--diff-filter=U", "-z").stdout
    return {path.decode("utf-8", "replace") for path in listed.split(b"\0") if path}


def _conflicts(files: set[str], hint: str) -> AnswerIsNo:
    names = ", ".join(f"`{path}`" for path in sorted(files))
    return AnswerIsNo(f"conflicts outside the changelog: {names}", hint=hint)
