"""What must not be printed or stored: values of variables and options whose names say that they are secrets.

In: names, values, texts. Out: the same without secrets. A recipe names a secret as `{env:NAME}` (render.py), and then
there is nothing to hide; this is for values that were written down all the same, and for logs that repeat them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ridgeline.core.deployment import Deployment, Service

HIDDEN = "***"
LEAST = 6  # characters: a shorter value is a switch, and hiding it would hide half of the text
_SECRET = re.compile(
    r"(?:^|[_-])(?:TOKEN|SECRET|PASSWORD|PASSWD|API[_-]?KEY|ACCESS[_-]?KEY|CREDENTIALS?)(?:$|[_-])", re.I
)
_NO_SECRET = re.compile(r"TOKENS|TOKENI|TOKEN[_-](?:COUNT|IDS?|BUDGET|LIMIT|THRESHOLD|CAPACITY)|PER[_-]TOKEN", re.I)


def is_secret(name: str) -> bool:
    """Whether a variable's or an option's name says that its value is one: `HF_TOKEN`, `--api-key`, no `MAX_TOKENS`."""
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)


def masked(name: str, value: str) -> str:
    """A variable's value as it may be shown. A symbol is no secret."""
    return HIDDEN if is_secret(name) and value and not value.startswith("{env:") else value


def masked_argv(words: Sequence[str]) -> list[str]:
    """A command line as it may be shown: `--api-key X`, `--api-key=X` and `NAME=X` lose their values."""
    shown: list[str] = []
    hide = False
    for word in words:
        name, equals, value = word.partition("=")
        if hide and not word.startswith("-"):
            shown.append(HIDDEN)
            hide = False
            continue
        hide = word.startswith("-") and not equals and is_secret(name.lstrip("-"))
        shown.append(f"{name}={HIDDEN}" if equals and value and is_secret(name.lstrip("-")) else word)
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
    pairs = [(name, item.text) for service in deployment.services for name, item in service.env]
    for service in deployment.services:
        words = [item.text for item in service.argv]
        for word, shown, before in zip(words, masked_argv(words), ["", *words], strict=False):
            if word != shown:
                pairs.append((word.partition("=")[0] if shown != HIDDEN else before, word.partition("=")[2] or word))
    return values_of(more=((name.lstrip("-"), value) for name, value in pairs if not value.startswith("{")))
