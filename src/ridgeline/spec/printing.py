"""Configs back to YAML, so that reading what was printed gives the same values.

In: a `ConfigSet`. Out: text. Comments and layout of the source are not kept; order, keys and values are. Text that any
YAML reader could take for something else is quoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from ridgeline.spec.config import ConfigSet
from ridgeline.spec.scalars import read


class _Dumper(yaml.CSafeDumper):
    """Quotes what `scalars.read` would not return unchanged; never writes aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.Node:
    # libyaml writes other control characters and line breaks escaped inside double quotes by itself
    plain = read(value) == value and value.isprintable() and value != "<<"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def print_configs(configs: ConfigSet) -> str:
    """YAML text of all entries, in order."""
    entries = {key: _plain(entry.written) for key, entry in configs.items()}
    return yaml.dump(entries, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120) if entries else "{}\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
