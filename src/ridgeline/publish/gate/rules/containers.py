"""P13: what really starts is the image that the config names, so that a new image reaches recipes and scripts as well.

In: configs of both revisions, recipe files and launch scripts of the head. Recipes are found by the `CONFIG_FILE=` of a
pool's settings; a container written as an alias of a cluster is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ridgeline.core.errors import RidgelineError
from ridgeline.core.where import Where
from ridgeline.publish.gate.rule import Remark, Severity, remark
from ridgeline.publish.gate.rules import shell
from ridgeline.spec.config import ConfigSet, Entry
from ridgeline.spec.tree import Document, parse

_FILE = re.compile(r"CONFIG_FILE=[\"']?([^\s\"':]{1,300}\.ya?ml)")
_PLACES = (("model", "container"), ("container",), ("image",))


def containers(
    before: ConfigSet, after: ConfigSet, changed: Collection[str], recipes: Mapping[str, bytes]
) -> Iterator[Remark]:
    """Containers of recipe files that differ from the image of an entry that uses them, for entries whose image is new
    and for changed recipes. `changed`: paths of the change; `recipes`: files of the head."""
    seen: set[tuple[str, str]] = set()
    for key, entry in after.items():
        old = before.get(key)
        bumped = old is None or old.image != entry.image
        for path in _recipes_of(entry, recipes):
            if (not bumped and path not in changed) or (path, entry.image) in seen:
                continue
            seen.add((path, entry.image))
            found = _container(path, recipes[path])
            if found is not None and _plain(found[0]) != _plain(entry.image):
                yield remark("P13", f"the recipe starts `{found[0]}`; `{key}` names `{entry.image}`", found[1])


def left_behind(before: ConfigSet, after: ConfigSet, scripts: Mapping[str, bytes]) -> Iterator[Remark]:
    """Lines of launch scripts that still name an image which a changed entry left and no entry uses any more."""
    used = {_plain(entry.image) for entry in after.values()}
    gone = {
        old.image: after[key].image
        for key, old in before.items()
        if key in after and after[key].image != old.image and _plain(old.image) not in used
    }
    for path, data in scripts.items() if gone else ():
        _, code = shell.parse(data)
        for number, line in enumerate(code.split("\n"), 1):
            for image, new in gone.items():
                if re.search(rf"{re.escape(_plain(image))}(?![\w.-])", line[:8000].replace("#", "/")):
                    what = f"still names `{image}`; the config has `{new}`"
                    yield remark("P13", what, Where(path, number), severity=Severity.WARNING)


def _recipes_of(entry: Entry, recipes: Mapping[str, bytes]) -> Iterator[str]:
    """Recipe files of the repository that the pools of an entry name, by the end of their path."""
    named = {match for item in _settings(entry.written) for match in _FILE.findall(item)}
    for name in sorted(named):
        yield from (path for path in recipes if path == name or path.endswith(f"/{name}"))


def _settings(written: Any) -> Iterator[str]:
    """Every text below `additional-settings`, wherever it stands in an entry."""
    stack = [written]
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            yield from (one for one in value.get("additional-settings") or () if isinstance(one, str))
            stack += value.values()
        elif isinstance(value, (list, tuple)):
            stack += value


def _container(path: str, data: bytes) -> tuple[str, Where] | None:
    """The image that a recipe starts, and its place; None for an alias, or where none can be read."""
    try:
        document: Document = parse(data, path)
    except RidgelineError:
        return None
    for place in _PLACES:
        value = document.value if document.root is not None else None
        for name in place:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, str):
            return (value, document.where(place)) if ":" in value or "/" in value else None
    return None


def _plain(image: str) -> str:
    """One spelling: no scheme, no default host, `/` for the `#` of container runtimes."""
    text = image.removeprefix("docker://").replace("#", "/", 1)
    return text.removeprefix("docker.io/").removeprefix("library/")
