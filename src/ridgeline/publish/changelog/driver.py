"""Tells git to resolve conflicts of the changelog with our rule: one line of `.gitattributes`, two of its config.

The attribute travels with the repository; the config is local to a clone, since git runs nothing that a repository
brings along. Installing again changes nothing. The change to the file is written in one step.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.publish.changelog.links import DEFAULT_REPOSITORY
from ridgeline.publish.changelog.repository import Repository, write_atomically

NAME = "ridgeline-changelog"
ATTRIBUTES = ".gitattributes"


class Installed(NamedTuple):
    """What had to be written; both empty when everything was in place."""

    attributes: str | None
    config: tuple[str, ...]


def install(
    repository: Repository, file: str, interpreter: str, links_repository: str = DEFAULT_REPOSITORY
) -> Installed:
    """Install the merge driver for `file`. `interpreter` is the Python that holds Ridgeline.

    Raises InputError when the file already has another merge driver, or its name cannot stand in `.gitattributes`.
    """
    name = repository.inside(file)
    if re.fullmatch(r"[A-Za-z0-9._/+-]+", name) is None:
        raise InputError([Problem(f"`{name}` cannot be named in {ATTRIBUTES}: letters, digits and `._/+-` only")])
    attributes = _add_attribute(repository, name)
    wanted = {
        f"merge.{NAME}.name": "the changelog's entries, appended and never merged line by line",
        f"merge.{NAME}.driver": command(interpreter, links_repository),
    }
    changed = []
    for key, value in wanted.items():
        there = repository.git("config", "--local", "--get-all", key, accept=(0, 1)).stdout
        if there != value.encode() + b"\n":
            repository.git("config", "--local", "--replace-all", key, value)
            changed.append(key)
    return Installed(attributes, tuple(changed))


def command(interpreter: str, links_repository: str = DEFAULT_REPOSITORY) -> str:
    """The driver's command line; git replaces %O %A %B by files, %L by the marker size, %P by the quoted path."""
    where = "" if links_repository == DEFAULT_REPOSITORY else f" --repository {shlex.quote(links_repository)}"
    call = f"{shlex.quote(interpreter)} -m ridgeline.cli.main changelog resolve --driver --marker-size %L --file %P"
    return f"{call}{where} -- %O %A %B"


def _add_attribute(repository: Repository, name: str) -> str | None:
    there = _merge_attribute(repository, name)
    if there == NAME:
        return None
    path = repository.root / ATTRIBUTES
    if there != "unspecified":
        what = f"`{name}` already has `merge={there}`"
        raise InputError([Problem(what, Where(ATTRIBUTES), hint="take that line out first, if it is not needed")])
    if path.is_symlink():
        raise InputError([Problem("is a link, which git does not follow here", Where(ATTRIBUTES))])
    old = path.read_bytes() if path.exists() else b""
    line = f"/{name} merge={NAME}"
    write_atomically(path, old + (b"" if not old or old.endswith(b"\n") else b"\n") + line.encode() + b"\n")
    return line


def _merge_attribute(repository: Repository, name: str) -> str:
    fields = repository.git("check-attr", "-z", "merge", "--", name).stdout.split(b"\0")
    return fields[2].decode("utf-8", "replace")
