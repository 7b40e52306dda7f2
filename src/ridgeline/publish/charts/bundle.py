"""Style sheet and script of a page as two texts, from the modules under the assets folders of the publish room.

The modules are ordinary ES modules in three folders (shared, the report's, the dashboard's) that share one namespace.
A page wants one script and one sheet: one round trip, one hash in the policy. They import in two forms,
`import { a, b } from './x.js';` and `import A from './a.json' with { type: 'json' };`, and a page's modules share no
top-level name, which makes joining a matter of order.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

_JSON = re.compile(r"^import (\w+) from '\./([\w-]+\.json)' with \{ type: 'json' \};.*\n", re.MULTILINE)
_IMPORT = re.compile(r"^import \{[^}]*\} from '\./([\w-]+\.js)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|function|async function|class|let)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*/\*.*?\*/\n", re.MULTILINE | re.DOTALL)
FOLDERS = ("charts", "report", "web")
STYLES = ("tokens.css", "base.css", "frontier.css")


def asset(name: str) -> str:
    """Text of a file under one of the assets folders. Raises FileNotFoundError."""
    for folder in FOLDERS:
        file = resources.files("ridgeline.publish").joinpath(folder, "assets", name)
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise FileNotFoundError(name)


@cache
def style_sheet(names: tuple[str, ...] = STYLES) -> str:
    """The named sheets as one, in order: tokens, base and what the page adds."""
    return "".join(_COMMENT.sub("", asset(name)) for name in names)


@cache
def script(entry: str = "report.js") -> str:
    """`entry` and everything it imports, each once, imports before importers."""
    return "".join(_joined(asset(name)) for name in modules(entry))


def modules(entry: str) -> list[str]:
    """Names of `entry` and everything it imports, imports before importers. Raises ValueError for a circle."""
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"modules import each other in a circle: {' > '.join([*path, name])}")
        if name not in order:
            for needed in _IMPORT.findall(asset(name)):
                visit(needed, (*path, name))
            order.append(name)

    visit(entry, ())
    return order


@cache
def templates() -> jinja2.Environment:
    """Page templates by file name: everything put into them is escaped, and a name they do not get is an error."""
    import jinja2

    loader = jinja2.FunctionLoader(asset)
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    made.filters |= {"signed": signed, "figure": figure}
    return made


def figure(value: float) -> str:
    """Grouped thousands, up to four significant places, a true minus."""
    size = abs(value)
    places = 0 if size >= 1000 or value == int(value) else 1 if size >= 100 else 2 if size >= 1 else 3
    text = f"{value:,.{places}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def signed(share: float) -> str:
    """A relative change as people read it: `+5.7 %`, `−0.4 %`."""
    return f"{100 * share:+.1f} %".replace("-", "−")


def _joined(text: str) -> str:
    text = _EXPORT.sub("", _IMPORT.sub("", _COMMENT.sub("", text)))
    return _JSON.sub(lambda found: f"const {found[1]} = {json.dumps(json.loads(asset(found[2])))};\n", text)
