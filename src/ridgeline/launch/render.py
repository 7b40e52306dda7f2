"""Symbols in a deployment's arguments become real values: ports, folders, and the interpreter that runs us.

`{port:NAME}` is the service's own port NAME, `{port:SERVICE.NAME}` another service's, `{port:NAME+3}` the fourth of a
range, `{host:SERVICE}` the address of the machine that a service runs on, `{work}` its working folder, `{python}` this
interpreter. Symbols keep a deployment's digest independent of the machines and of which ports were free.

`{env:NAME}`, in environments and files, is a secret: its value is taken from our environment when a service starts, so
that neither a stored deployment nor anything that is printed has it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from ridgeline.core.deployment import Service
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.launch.ports import LOOPBACK

SYMBOL = re.compile(r"\{(port|python|host|work|env)(?::([\w.-]+)(?:\+(\d+))?)?\}")

Ports = Mapping[tuple[str, str], int]  # (service, port name) -> number
Hosts = Mapping[str, str]  # service -> address; those that are not named are on loopback


@dataclass(frozen=True, slots=True)
class Filling:
    """What symbols of one start stand for. `work`: the folder of each service, by name. `environ`: where `{env:NAME}`
    is looked up."""

    ports: Ports
    hosts: Hosts = field(default_factory=dict)
    work: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


def render_argv(service: Service, filling: Filling) -> list[str]:
    """The service's argv with every symbol filled in. Raises InputError naming each unknown port, and for a secret,
    which everybody on the machine could read there."""
    for item in service.argv:
        if "{env:" in item.text:
            hint = "put it into the service's environment or into one of its files"
            raise InputError([Problem(f"`{item.text}` would be readable by everybody", key=service.name, hint=hint)])
    return [_fill(item.text, service, filling) for item in service.argv]


def render_env(service: Service, filling: Filling) -> dict[str, str]:
    """The service's environment additions with every symbol filled in."""
    return {name: _fill(item.text, service, filling) for name, item in service.env}


def render_files(service: Service, filling: Filling) -> dict[str, str]:
    """Files the service finds in its working folder, by name. Raises InputError for a name that leads out of it."""
    for name, _ in service.files or ():
        if "/" in name or name in ("", ".", ".."):
            raise InputError([Problem(f"`{name}` is not a plain file name", key=f"{service.name}.files")])
    return {name: _fill(item.text, service, filling) for name, item in service.files or ()}


def _fill(text: str, service: Service, filling: Filling) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] == "python":
            return sys.executable
        if match[1] == "work":
            return filling.work.get(match[2] or service.name, "")
        if match[1] == "host":
            return filling.hosts.get(match[2] or service.name, LOOPBACK)
        if match[1] == "env":
            return _secret(match[2] or "", filling.environ)
        owner, _, name = (match[2] or "").rpartition(".")
        try:
            return str(filling.ports[owner or service.name, name] + int(match[3] or 0))
        except KeyError:
            known = ", ".join(f"{owner}.{name}" for owner, name in filling.ports)
            problem = Problem(f"unknown port `{match[0]}` in `{text}`", key=service.name, hint=f"known: {known}")
            raise InputError([problem]) from None

    return SYMBOL.sub(value, text)


def _secret(name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise EnvironmentFailed(f"the environment variable `{name}` is not set", hint=f"export {name} and run again")
    return environ[name]
