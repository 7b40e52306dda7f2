"""Bytes of trace files: folders, gzip, and records one at a time, so that memory stays with the largest record."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where

CHUNK = 1 << 20


class Record(NamedTuple):
    """One JSON value of a file with the line it starts on."""

    where: Where
    data: bytes


def files(path: Path) -> list[Path]:
    """The files a path stands for: itself, or a folder's *.json (and *.json.gz) by name. Raises InputError."""
    if path.is_dir():
        found = sorted(child for child in path.iterdir() if child.name.endswith((".json", ".json.gz")))
        if not found:
            raise InputError([Problem("folder holds no *.json file", Where(str(path)))])
        return found
    if not path.exists():
        raise InputError([Problem("no such trace file", Where(str(path)), hint="give a JSON(L) file or a folder")])
    return [path]


def chunks(path: Path) -> Iterator[bytes]:
    """The file's bytes, decompressed when it is gzip (told by its first bytes, not its name)."""
    try:
        with path.open("rb") as stream:
            data = stream.read(CHUNK)
            if data[:2] != b"\x1f\x8b":
                while data:
                    yield data
                    data = stream.read(CHUNK)
                return
            # zlib's own object: the gzip module reads the same bytes four times slower
            member = zlib.decompressobj(31)
            while data:
                yield member.decompress(data)
                data = member.unused_data
                if member.eof:
                    data = data or stream.read(CHUNK)
                    if not data.strip(b"\0"):  # padding after the last member
                        return
                    member = zlib.decompressobj(31)
                else:
                    data = stream.read(CHUNK)
            raise InputError([Problem("gzip file ends too early", Where(str(path)), hint="copy it again")])
    except zlib.error as error:
        raise InputError([Problem(f"damaged gzip file: {error}", Where(str(path)))]) from error
    except OSError as error:
        raise InputError([Problem(f"cannot be read: {error.strerror}", Where(str(path)))]) from error


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without their ends."""
    number, pending = 1, []
    for chunk in chunks(path):
        *full, rest = chunk.split(b"\n")
        for part in full:
            pending.append(part)
            yield number, b"".join(pending)
            pending, number = [], number + 1
        pending.append(rest)
    last = b"".join(pending)
    if last:
        yield number, last


def records(path: Path) -> Iterator[Record]:
    """JSON values: one a line, or one that fills the file. Text that is neither comes as one record, to be refused."""
    name = str(path)
    stream = lines(path)
    for number, line in stream:
        if not line.strip():
            continue
        if _complete(line):
            yield Record(Where(name, number), line)
            yield from (Record(Where(name, n), text) for n, text in stream if text.strip())
        else:
            yield Record(Where(name, number), b"\n".join([line, *(text for _, text in stream)]))
        return


def _complete(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except msgspec.DecodeError:
        return not line.lstrip().startswith((b"{", b"[")) or line.rstrip().endswith(b"}")
    return True
