"""Symbols in a deployment's arguments become real values: ports, and the interpreter that runs us.

`{port:NAME}` is the service's own port NAME, `{port:SERVICE.NAME}` another service's, `{python}` this interpreter.
Symbols keep a deployment's digest independent of the machine and of which ports were free.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from ridgeline.core.deployment import Service
from ridgeline.core.errors import InputError, Problem

SYMBOL = re.compile(r"\{(port|python)(?::([\w.-]+))?\}")

Ports = Mapping[tuple[str, str], int]  # (service, port name) -> number


def render_argv(service: Service, ports: Ports) -> list[str]:
    """The service's argv with every symbol filled in. Raises InputError naming each unknown port."""
    return [_fill(item.text, service, ports) for item in service.argv]


def render_env(service: Service, ports: Ports) -> dict[str, str]:
    """The service's environment additions with every symbol filled in."""
    return {name: _fill(item.text, service, ports) for name, item in service.env}


def _fill(text: str, service: Service, ports: Ports) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] == "python":
            return sys.executable
        owner, _, name = (match[2] or "").rpartition(".")
        try:
            return str(ports[owner or service.name, name])
        except KeyError:
            known = ", ".join(f"{owner}.{name}" for owner, name in ports)
            problem = Problem(f"unknown port `{match[0]}` in `{text}`", key=service.name, hint=f"known: {known}")
            raise InputError([problem]) from None

    return SYMBOL.sub(value, text)
