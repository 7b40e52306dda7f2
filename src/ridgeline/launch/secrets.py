"""What must not be printed or stored: values of variables and options whose names say that they are secrets.

In: names, values, texts. Out: the same without secrets. A recipe names a secret as `{env:NAME}` (render.py), and then
there is nothing to hide; this is for values that were written down all the same, and for logs that repeat them.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ridgeline.core.deployment import Deployment, Service

HIDDEN = "***"
LEAST = 6  # characters: a shorter value is a switch, and hiding it would hide half of the text
_SECRET = re.compile(
    r"(?:^|[_-])(?:TOKEN|SECRET|PASSWORD|PASSWD|API[_-]?KEY|ACCESS[_-]?KEY|CREDENTIALS?)(?:$|[_-])", re.I
)
_NO_SECRET = re.compile(
    r"TOKENS|TOKENI|TOKEN[_-](?:COUNT|IDS?|BUDGET|LIMIT|THRESHOLD|CAPACITY)|PER[_-]TOKEN|[_-](?:FILE|PATH|DIR|NAME|ENV)$",
    re.I,
)


# `--api-key VALUE`, `--api-key=VALUE` and `NAME=VALUE` inside a command line that is one word
_INSIDE = re.compile(
    r"""(?P<before>(?:^|(?<=[\s;&|("']))(?:--?(?P<option>[A-Za-z][\w-]*)(?:=|\s+)|(?P<name>[A-Za-z_]\w*)=))"""
    r"""(?P<value>'[^']*'|"[^"]*"|[^\s'";|&]+)"""
)


def is_secret(name: str) -> bool:
    """Whether a variable's or an option's name says that its value is one: `HF_TOKEN`, `--api-key`, no `MAX_TOKENS`."""
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)


def masked(name: str, value: str) -> str:
    """A variable's value as it may be shown. A symbol is no secret."""
    return HIDDEN if is_secret(name) and value and not value.startswith("{env:") else value


def masked_argv(words: Sequence[str]) -> list[str]:
    """A command line as it may be shown: `--api-key X`, `--api-key=X`, `NAME=X` and `--env=NAME=X` lose their values,
    also inside a word that is a command line itself."""
    return _masked(words, [])


def _masked(words: Sequence[str], hidden: list[str]) -> list[str]:
    """The words without secret values, which are added to `hidden`."""

    def hide(name: str, value: str) -> str:
        shown = masked(name.lstrip("-"), value)
        if shown != value:
            hidden.append(value)
        return shown

    def inside(match: re.Match[str]) -> str:
        value = match["value"].strip("'\"")
        named = (match["option"] or match["name"]) if not value.startswith(("$", "-")) else ""
        shown = hide(named, value)
        return match[0] if shown == value else match["before"] + shown

    def word_of(word: str) -> str:
        if len(word.split()) > 1:
            return _INSIDE.sub(inside, word)
        name, equals, value = word.partition("=")
        if name.startswith("-") and "=" in value:
            return f"{name}={word_of(value)}"
        return f"{name}={hide(name, value)}" if equals and value else word

    shown: list[str] = []
    option = ""  # that the next word belongs to
    for word in words:
        shown.append(hide(option, word) if option and not word.startswith("-") else word_of(word))
        option = word if word.startswith("-") and "=" not in word and is_secret(word.lstrip("-")) else ""
    return shown


def values_of(environ: Mapping[str, str] | None = None, more: Iterable[tuple[str, str]] = ()) -> frozenset[str]:
    """Secret values that are around: of our environment and of `more` variables."""
    pairs = (*(os.environ if environ is None else environ).items(), *more)
    return frozenset(value for name, value in pairs if len(value) >= LEAST and is_secret(name))


def scrubbed(text: str, values: Iterable[str]) -> str:
    """A text without these values, as long as before: what points into it stays right."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "*" * len(value))
    return text


def scrub_file(path: Path, values: Iterable[str]) -> None:
    """Overwrite these values in a file, whatever its format, in a copy that takes its place."""
    looked = [value.encode() for value in values]
    if path.is_symlink() or not path.is_file() or not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        found = [value for value in looked if text.find(value) >= 0]
    if not found:
        return
    part = path.with_name(f".{path.name}.part")
    shutil.copyfile(path, part)  # other names of the file keep what they have
    with part.open("r+b") as copy, mmap.mmap(copy.fileno(), 0) as text:
        for value in sorted(found, key=len, reverse=True):
            at = text.find(value)
            while at >= 0:
                text[at : at + len(value)] = b"*" * len(value)
                at = text.find(value, at)
    part.replace(path)


def scrub_folder(folder: Path, values: Iterable[str]) -> None:
    """Overwrite these values in every file below a folder."""
    known = tuple(values)
    for path in folder.rglob("*") if known else ():
        scrub_file(path, known)


def without_secrets(deployment: Deployment) -> Deployment:
    """A deployment as it may be stored."""
    return replace(deployment, services=tuple(map(_shown, deployment.services)))


def _shown(service: Service) -> Service:
    words = masked_argv([item.text for item in service.argv])
    return replace(
        service,
        argv=tuple(replace(item, text=word) for item, word in zip(service.argv, words, strict=True)),
        env=tuple((name, replace(item, text=masked(name, item.text))) for name, item in service.env),
    )


def secrets_of(deployment: Deployment) -> frozenset[str]:
    """Secret values that services of a deployment are given, and those of our environment, which they inherit."""
    hidden: list[str] = []
    for service in deployment.services:
        _masked([item.text for item in service.argv], hidden)
    told = ((name, item.text) for service in deployment.services for name, item in service.env)
    around = values_of(more=((name, value) for name, value in told if not value.startswith("{")))
    return around | {value for value in hidden if len(value) >= LEAST}
