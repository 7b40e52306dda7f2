"""Style sheet and script of a page as two texts, from the modules under assets/.

The modules are ordinary ES modules, so a server can hand them out one by one; a single file needs them joined. They
import in two forms, `import { a, b } from './x.js';` and `import A from './a.json' with { type: 'json' };`, and share
no top-level name, which makes joining a matter of order.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

_JSON = re.compile(r"^import (\w+) from '\./([\w-]+\.json)' with \{ type: 'json' \};.*\n", re.MULTILINE)
_IMPORT = re.compile(r"^import \{[^}]*\} from '\./([\w-]+\.js)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|function|async function|class|let)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*/\*.*?\*/\n", re.MULTILINE | re.DOTALL)
STYLES = ("tokens.css", "base.css", "report.css")


def asset(name: str) -> str:
    """Text of a file under assets/."""
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def style_sheet() -> str:
    """Tokens, base and page in one sheet."""
    return "".join(_COMMENT.sub("", asset(name)) for name in STYLES)


@cache
def script(entry: str = "report.js") -> str:
    """`entry` and everything it imports, each once, imports before importers."""
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"modules import each other in a circle: {' > '.join([*path, name])}")
        if name not in order:
            for needed in _IMPORT.findall(asset(name)):
                visit(needed, (*path, name))
            order.append(name)

    visit(entry, ())
    return "".join(_joined(asset(name)) for name in order)


def _joined(text: str) -> str:
    text = _EXPORT.sub("", _IMPORT.sub("", _COMMENT.sub("", text)))
    return _JSON.sub(lambda found: f"const {found[1]} = {json.dumps(json.loads(asset(found[2])))};\n", text)
