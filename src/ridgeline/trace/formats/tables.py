"""CSV traces with lengths only: Azure's LLM inference traces and BurstGPT. One session a row, nothing shared."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from io import StringIO
from pathlib import Path

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.trace.formats.plain import Row, Style
from ridgeline.trace.formats.source import chunks

AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURSTGPT = ("Timestamp", "Request tokens", "Response tokens")


def table_format(header: str) -> str | None:
    """Which of the two a first line belongs to."""
    names = {name.strip().strip('"') for name in header.lstrip("\ufeff").split(",")}
    return "azure" if names.issuperset(AZURE) else "burstgpt" if names.issuperset(BURSTGPT) else None


def azure(path: Path) -> tuple[list[Row], Style]:
    """TIMESTAMP (a date and time), ContextTokens, GeneratedTokens. Times count from the first row."""
    return _read(path, AZURE, _date_ms), Style("azure")


def burstgpt(path: Path) -> tuple[list[Row], Style]:
    """Timestamp (seconds), Request tokens, Response tokens; other columns are ignored."""
    return _read(path, BURSTGPT, _seconds_ms), Style("burstgpt")


def _read(path: Path, names: tuple[str, str, str], milliseconds: Callable[[str], float]) -> list[Row]:
    try:
        text = b"".join(chunks(path)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError([Problem(f"not UTF-8 text: {error.reason}", Where(str(path)))]) from error
    reader = csv.DictReader(StringIO(text, newline=""))
    missing = [name for name in names if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError([Problem("column is missing", Where(str(path), 1), name) for name in missing])
    rows: list[Row] = []
    wrong: list[Problem] = []
    fields = list(reader.fieldnames or ())
    lines = re.split(r"\r\n|\r|\n", text)  # as the reader counts them

    def value(row: Mapping[str, str | None], name: str, read: Callable[[str], float]) -> float | None:
        try:
            return read(row.get(name) or "")
        except ValueError:
            number = reader.line_num
            column = _column(lines[number - 1], fields.index(name))
            wrong.append(
                Problem(f"{row.get(name)!r} is not what this column holds", Where(str(path), number, column), name)
            )
            return None

    for row in reader:
        at, size, output = (
            value(row, name, read) for name, read in zip(names, (milliseconds, _tokens, _tokens), strict=True)
        )
        if at is not None and size is not None and output is not None:
            rows.append(Row(None, int(size), int(output), at))
        if len(wrong) >= 100:
            break
    if wrong:
        raise InputError(wrong)
    first = min((row.at_ms for row in rows if row.at_ms is not None), default=0.0)
    return [row._replace(at_ms=round((row.at_ms or 0.0) - first, 6)) for row in rows]


def _column(line: str, field: int) -> int:
    """Where the n-th field of a line begins; where the line ends when it has fewer."""
    quoted, seen = False, 0
    for place, letter in enumerate(line):
        if seen == field:
            return place + 1
        quoted ^= letter == '"'
        seen += letter == "," and not quoted
    return len(line) + 1


def _tokens(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _seconds_ms(text: str) -> float:
    if not math.isfinite(seconds := float(text)):
        raise ValueError(text)
    return seconds * 1000


def _date_ms(text: str) -> float:
    """Azure writes seven decimals; datetime knows six. The zone is not stated and does not matter."""
    whole, _, fraction = text.partition(".")
    if fraction and not (fraction.isascii() and fraction.isdigit()):
        raise ValueError(text)
    moment = datetime.fromisoformat(f"{whole}+00:00")
    return moment.timestamp() * 1000 + (float(f"0.{fraction}") * 1000 if fraction else 0.0)


def concatenated(paths: Iterable[Path], read: Callable[[Path], tuple[list[Row], Style]]) -> tuple[list[Row], Style]:
    """Rows of several files in a row."""
    rows: list[Row] = []
    style = Style("")
    for path in paths:
        more, style = read(path)
        rows += more
    return rows, style
