"""Files of measurements, whatever their form: rows with their places, and values that are checked as they are taken.

Read are CSV (comma, semicolon or tab; with or without a byte-order mark; any line ends), JSON (a list of objects or
one object) and JSON lines. A record keeps its place, so that everything wrong in a file can be said at once: file,
line, column, key, what, what to do.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

_DELIMITERS = ",;\t"
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off", "none", "")
_MOST = 100_000_000  # of anything that is counted
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


class Wrong(Exception):
    """A record cannot be read on; the problem is in its list already."""


class Record:
    """One row or object: values by name. What is taken is checked; what is wrong goes to `problems` with its place, and
    something harmless comes back, so that the rest of the record is checked too."""

    __slots__ = ("commas", "key", "line", "number", "path", "problems", "raw", "values")

    def __init__(
        self,
        values: Mapping[str, Any],
        path: Path,
        problems: list[Problem],
        *,
        line: int = 0,
        key: str = "",
        raw: tuple[str, str] | None = None,
        number: int = 0,
    ) -> None:
        self.values, self.path, self.problems = values, path, problems
        self.line, self.key, self.raw = line, key, raw
        self.number = number or line  # what tells the record from the file's others
        self.commas = raw is not None and raw[1] != ","  # a decimal comma is none that separates

    def inside(self, name: str) -> Record:
        """The object of a name, empty where there is none."""
        return Record(
            named(self.values.get(name)),
            self.path,
            self.problems,
            line=self.line,
            key=self._key(name),
            number=self.number,
        )

    def wrong(self, name: str, message: str, hint: str | None = None) -> Wrong:
        """Note a problem with a value; to be raised or dropped."""
        where = Where(str(self.path), self.line, self._column(name))
        self.problems.append(Problem(message, where, self._key(name), hint))
        return Wrong(message)

    def has(self, *names: str) -> bool:
        """Whether any of the names holds something."""
        return any(self.values.get(name) not in (None, "") for name in names)

    def text(self, *names: str, default: str = "") -> str:
        """The first value given under these names, as text."""
        for name in names:
            value = self.values.get(name)
            if value not in (None, ""):
                return str(value).strip()
        return default

    def positive(self, *names: str, factor: float = 1.0) -> float | None:
        """The first number given under these names, times `factor`; None where none is. Zero, negative and not-a-number
        are problems, not values."""
        for name in names:
            value = self.values.get(name)
            if value in (None, ""):
                continue
            found = self._number(value)
            if found is not None and math.isfinite(found) and found > 0:
                return found * factor
            what = "a number" if found is None else "a number above 0"
            self.wrong(name, f"must be {what}, is {_shown(value)}", "leave it empty where it was not measured")
            return None
        return None

    def share(self, *names: str) -> float | None:
        """The first share of 0 to 1 under these names; None where none is."""
        for name in names:
            value = self.values.get(name)
            if value in (None, ""):
                continue
            found = self._number(value)
            if found is None or not 0 <= found <= 1:
                self.wrong(name, f"must be a share between 0 and 1, is {_shown(value)}", "a percentage / 100")
                return None
            return found
        return None

    def whole(self, *names: str, default: int | None = None, least: int = 1, most: int = _MOST) -> int:
        """The first whole number given under these names, `default` where none is; without one it must be there."""
        for name in names:
            value = self.values.get(name)
            if value in (None, ""):
                continue
            found = self._number(value)
            if found is None or not math.isfinite(found) or found != int(found):
                self.wrong(name, f"must be a whole number, is {_shown(value)}")
                return max(1, least)
            if not least <= found <= most:
                bound = f"at least {least}" if found < least else f"at most {most:,}"
                self.wrong(name, f"must be {bound}, is {_shown(value)}")
                return max(1, least)
            return int(found)
        if default is None:
            self.wrong(names[0], "is missing", f"a whole number of at least {least}")
            return max(1, least)
        return default

    def flag(self, *names: str) -> bool:
        """Whether the first of these names that is given says yes."""
        said = self.text(*names).lower()
        if said not in (*_TRUE, *_FALSE):
            given = next(name for name in names if self.has(name))
            self.wrong(given, f"must be true or false, is {_shown(said)}")
        return said in _TRUE

    def _number(self, value: Any) -> float | None:
        if isinstance(value, bool):
            return None
        try:
            return float(value) if isinstance(value, (int, float)) else self._parsed(value)
        except OverflowError:  # a whole number of hundreds of digits
            return math.inf

    def _parsed(self, value: Any) -> float | None:
        text = str(value).strip()
        if self.commas and _DECIMAL_COMMA.fullmatch(text):
            text = text.replace(",", ".")
        elif _THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        try:
            return float(text)
        except ValueError:
            return None

    def _key(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key and name else self.key or name

    def _column(self, name: str) -> int:
        """Where a cell of a line begins, counted from 1; 0 where that is not known."""
        if self.raw is None or name not in self.values:
            return 0
        line, delimiter = self.raw
        wanted = list(self.values).index(name)
        quoted = False
        if not wanted:
            return 1
        for at, letter in enumerate(line, 1):
            quoted ^= letter == '"'
            if letter == delimiter and not quoted:
                wanted -= 1
                if not wanted:
                    return at + 1
        return 0


class Content(NamedTuple):
    """What a file holds: `columns` of a table (None: JSON), its rows, and for JSON the whole."""

    columns: tuple[str, ...] | None
    records: list[Record]
    whole: Any = None


def content_of(path: Path, problems: list[Problem]) -> Content:
    """The records of a file. Rows that are broken go to `problems`. Raises InputError when there is nothing to read."""
    text = _text(path)
    if not text.strip():
        raise InputError([Problem("is empty", Where(str(path)), hint="a table of measured points, or JSON")])
    if text.lstrip()[0] in "[{":
        return _json(path, text, problems)
    return _table(path, text, problems)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError([Problem(error.strerror or str(error), Where(str(path)))]) from error
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        hint = "save it as UTF-8; a compressed file has to be unpacked first"
        raise InputError(
            [Problem(f"is not text in UTF-8: {error.reason}", Where(str(path), line), hint=hint)]
        ) from error


def _table(path: Path, text: str, problems: list[Problem]) -> Content:
    lines = list(io.StringIO(text, newline=""))
    first = next(index for index, line in enumerate(lines) if line.strip())
    delimiter = max(_DELIMITERS, key=lines[first].count)
    reader = csv.reader(io.StringIO("".join(lines[first:]), newline=""), delimiter=delimiter, strict=True)
    columns: tuple[str, ...] | None = None
    records: list[Record] = []
    before = 0
    try:
        for cells in reader:
            line, before = first + before + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if columns is None:
                columns = tuple(cell.strip() for cell in cells)
                twice = sorted({name for name in columns if name and columns.count(name) > 1})
                for name in twice:
                    hint = "rename or remove one of them"
                    problems.append(Problem("is the name of two columns", Where(str(path), line), name, hint))
                continue
            if len(cells) != len(columns):
                message = f"has {len(cells)} cells where the header has {len(columns)}"
                hint = "cells that hold a comma need quotes" if len(cells) > len(columns) else "the row may be cut off"
                problems.append(Problem(message, Where(str(path), line), hint=hint))
                continue
            values = dict(zip(columns, cells, strict=True))
            records.append(Record(values, path, problems, line=line, raw=(lines[line - 1], delimiter)))
    except csv.Error as error:
        message = f"cannot be read as a table: {error}"
        raise InputError([*problems, Problem(message, Where(str(path), first + reader.line_num))]) from error
    if not records and not problems:
        raise InputError([Problem("has a header and no rows", Where(str(path), first + 1))])
    return Content(columns, records)


def _json(path: Path, text: str, problems: list[Problem]) -> Content:
    try:
        whole = json.loads(text)
    except ValueError as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) > 1 and lines[0][1].strip().endswith("}"):
            return _json_lines(path, lines, problems)
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        message = f"is not JSON: {getattr(error, 'msg', error)}"
        raise InputError([*problems, Problem(message, Where(str(path), line, column))]) from error
    if isinstance(whole, dict):
        return Content(None, [Record(whole, path, problems, number=1)], whole)
    records = []
    for index, item in enumerate(whole):
        if isinstance(item, Mapping):
            records.append(Record(item, path, problems, key=f"[{index}]", number=index + 1))
        else:
            problems.append(Problem(f"must be an object, is {_shown(item)}", Where(str(path)), f"[{index}]"))
    if not records and not problems:
        raise InputError([Problem("holds an empty list", Where(str(path)))])
    return Content(None, records, whole)


def _json_lines(path: Path, lines: Sequence[tuple[int, str]], problems: list[Problem]) -> Content:
    records = []
    for number, line in lines:
        try:
            item = json.loads(line)
        except ValueError as error:
            where = Where(str(path), number, getattr(error, "colno", 0))
            problems.append(Problem(f"is not JSON: {getattr(error, 'msg', error)}", where))
            continue
        if isinstance(item, Mapping):
            records.append(Record(item, path, problems, line=number))
        else:
            problems.append(Problem(f"must be an object, is {_shown(item)}", Where(str(path), number)))
    return Content(None, records)


def listed(value: Any) -> list[Any]:
    """A list, or an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def named(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
