"""Text of others inside our Markdown: shown as it is, and never acting.

GitHub turns `@name`, `#7`, addresses, HTML and Markdown into something that acts. In a code span none of that happens,
so what stands between backticks goes into one that it cannot leave; everything else is escaped.
"""

from __future__ import annotations

import html
import re
import unicodedata

_SPECIAL = re.compile(r"([\\*_\[\]#|~$])")  # what can begin markup inside a line
_RUNS = re.compile(r"`+")
# mentions, references and bare addresses are found in the rendered text, where a backslash is gone
_ACTING = re.compile(r"(@|\\?#|://|\bwww\.|\bGH-)")
_HIDE = "\u200b"


def plain(text: str, most: int = 600, *, table: bool = False) -> str:
    """One line of text with `code` parts, as Markdown that shows it and does nothing. `table`: for a table's cell."""
    parts = shown(text, most).split("`")
    if len(parts) % 2 == 0:  # an odd number of backticks: the last one opens nothing
        parts[-2:] = [f"{parts[-2]}'{parts[-1]}"]
    return "".join(_code(part, table) if index % 2 else _escaped(part) for index, part in enumerate(parts))


def code(text: str, most: int = 200, *, table: bool = False) -> str:
    """Text as a code span. `table`: for a table's cell."""
    return _code(shown(text, most), table)


def markup(text: str, most: int = 200) -> str:
    """Text inside of an HTML block, where Markdown is not read."""
    return _ACTING.sub(lambda found: found[0] + _HIDE, html.escape(shown(text, most)))


def shown(text: str, most: int) -> str:
    """One line without characters that hide or reorder others, cut to `most` characters."""
    line = "".join(_visible(character) for character in text[: most * 4])
    line = " ".join(line.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _visible(character: str) -> str:
    kind = unicodedata.category(character)
    if character in "\t\n\r" or kind in ("Zl", "Zp", "Zs"):
        return " "
    return "\ufffd" if kind in ("Cc", "Cf", "Cs", "Co", "Cn") else character


def _code(text: str, table: bool) -> str:
    if not text:
        return ""
    if table and "|" in text:  # a table is cut at every `|`, also inside of code spans
        return f"<code>{_escaped(text)}</code>"
    fence = "`" * (max((len(run) for run in _RUNS.findall(text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or text.strip() == "" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(r"\\\1", text)
    return _ACTING.sub(lambda found: found[0] + _HIDE, text)
