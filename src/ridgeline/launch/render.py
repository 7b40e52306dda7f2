"""Symbols in a deployment's arguments become real values: ports, and the interpreter that runs us.

`{port:NAME}` is the service's own port NAME, `{port:SERVICE.NAME}` another service's, `{port:NAME+3}` the fourth of a
range, `{host:SERVICE}` the address of the machine that a service runs on, `{python}` this interpreter. Symbols keep a
deployment's digest independent of the machines and of which ports were free.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from ridgeline.core.deployment import Service
from ridgeline.core.errors import InputError, Problem
from ridgeline.launch.ports import LOOPBACK

SYMBOL = re.compile(r"\{(port|python|host)(?::([\w.-]+)(?:\+(\d+))?)?\}")

Ports = Mapping[tuple[str, str], int]  # (service, port name) -> number
Hosts = Mapping[str, str]  # service -> address; those that are not named are on loopback


def render_argv(service: Service, ports: Ports, hosts: Hosts = {}) -> list[str]:  # noqa: B006  # read only
    """The service's argv with every symbol filled in. Raises InputError naming each unknown port."""
    return [_fill(item.text, service, ports, hosts) for item in service.argv]


def render_env(service: Service, ports: Ports, hosts: Hosts = {}) -> dict[str, str]:  # noqa: B006  # read only
    """The service's environment additions with every symbol filled in."""
    return {name: _fill(item.text, service, ports, hosts) for name, item in service.env}


def render_files(service: Service, ports: Ports, hosts: Hosts = {}) -> dict[str, str]:  # noqa: B006  # read only
    """Files the service finds in its working folder, by name. Raises InputError for a name that leads out of it."""
    for name, _ in service.files or ():
        if "/" in name or name in ("", ".", ".."):
            raise InputError([Problem(f"`{name}` is not a plain file name", key=f"{service.name}.files")])
    return {name: _fill(item.text, service, ports, hosts) for name, item in service.files or ()}


def _fill(text: str, service: Service, ports: Ports, hosts: Hosts) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] == "python":
            return sys.executable
        if match[1] == "host":
            return hosts.get(match[2] or service.name, LOOPBACK)
        owner, _, name = (match[2] or "").rpartition(".")
        try:
            return str(ports[owner or service.name, name] + int(match[3] or 0))
        except KeyError:
            known = ", ".join(f"{owner}.{name}" for owner, name in ports)
            problem = Problem(f"unknown port `{match[0]}` in `{text}`", key=service.name, hint=f"known: {known}")
            raise InputError([problem]) from None

    return SYMBOL.sub(value, text)
