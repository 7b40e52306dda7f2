"""What the gate reads of one commit: master configs, runners, changelog, owners."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.core.errors import InputError, Problem
from ridgeline.publish.changelog.expansion import MasterConfigs
from ridgeline.publish.changelog.repository import Repository
from ridgeline.publish.gate.change import files_at
from ridgeline.publish.gate.owners import Owners
from ridgeline.publish.gate.policy import GatePolicy
from ridgeline.publish.gate.rule import Remark, of_problem
from ridgeline.publish.gate.rules import configs
from ridgeline.spec.runners import load_runners_text


@dataclass(frozen=True, slots=True)
class Revision:
    """The master configs of one commit, the bytes of the changelog, and who owns what."""

    configs: configs.Configs
    master: MasterConfigs
    log: bytes
    owners: Owners | None


def commit_of(repository: Repository, sha: str, which: str) -> str:
    """The commit in this checkout. Raises InputError."""
    try:
        return repository.commit(sha)
    except InputError as error:
        hint = "check out the whole history: `fetch-depth: 0`, and the pull request's head"
        raise InputError([Problem(f"the {which} commit {sha} is not in this checkout", hint=hint)]) from error


def revision(repository: Repository, commit: str, policy: GatePolicy, mark: str) -> Revision:
    """Read a commit. `mark` follows the names of files in messages. Raises InputError when its configs do not load."""
    paths = policy.paths
    found = files_at(repository, commit, (*paths.configs, paths.runners, paths.changelog, *paths.owners))
    read = configs.read_configs([(f"{name}{mark}", found[name]) for name in paths.configs if name in found])
    runners = found.get(paths.runners)
    loaded = None if runners is None else load_runners_text(runners, f"{paths.runners}{mark}")
    owners = next((found[name] for name in paths.owners if name in found), None)
    return Revision(
        read,
        MasterConfigs(read.entries, loaded),
        found.get(paths.changelog, b""),
        None if owners is None else Owners.read(owners.decode("utf-8", "replace")),
    )


def head_of(repository: Repository, commit: str, policy: GatePolicy) -> tuple[Revision | None, list[Remark]]:
    """The head, or nothing and a remark for each problem of its configs."""
    try:
        return revision(repository, commit, policy, ""), []
    except InputError as error:
        return None, [of_problem("P07", problem) for problem in error.problems]
