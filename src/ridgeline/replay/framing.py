"""HTTP/1.1's framing of the answers on one connection: the bytes of reads in, heads and body bytes out.

httptools parses. It is spared what is regular, because a callback for every part of every chunk costs more than all
else that happens to an event: a read that consists of whole chunks, and a head that is byte for byte the last one it
parsed. Whatever else comes goes to httptools, which then stands where it would have stood, since between two chunks
nothing is remembered of those before.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import httptools

_HEX = re.compile(rb"[0-9a-fA-F]{1,7}")


class Head(NamedTuple):
    """The start of an answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    chunked: bool
    keep_alive: bool  # once the body has ended
    bounded: bool  # the end of the body is told by a length or by chunks, not by the connection's close


class KnownHead:
    """The last head of a chunked answer that httptools has parsed, shared by the connections of one endpoint. A server
    that dates its answers makes a new one every second."""

    __slots__ = ("head", "raw")

    def __init__(self) -> None:
        self.raw = b"\0"  # no answer starts so
        self.head: Head | None = None


class _Sizes(dict[bytes, int]):
    """Chunk size lines read so far; -1 for one that is not plain hexadecimal."""

    def __missing__(self, line: bytes) -> int:
        if _HEX.fullmatch(line) is None:
            return -1
        size = int(line, 16)
        if len(self) < 4096:
            self[line] = size
        return size


_size_of = _Sizes().__getitem__


def _whole_chunks(data: bytes) -> list[bytes] | None:
    """What the chunks hold, when the bytes are nothing but whole chunks without CRLF in them and without extensions;
    the last of them may be the empty one that ends a body. Else None."""
    parts = data.split(b"\r\n")
    if parts.pop() or len(parts) & 1:
        return None
    bodies = parts[1::2]
    if len(bodies) == 1:
        return bodies if _size_of(parts[0]) == len(bodies[0]) else None
    sizes = list(map(len, bodies))
    if sizes != list(map(_size_of, parts[::2])) or 0 in sizes[:-1]:
        return None
    return bodies


class Framing:
    """One connection. `take` each read, look at `head`, `complete` and `error`, and call `next` before the next answer.

    `surplus`: bytes came that belong to no answer asked for. `error`: why the bytes are not an answer in HTTP; nothing
    follows it.
    """

    __slots__ = (
        "_at_chunk", "_between", "_body", "_fresh", "_head_bytes", "_headers", "_known", "_mute", "_owed", "_parser",
        "complete", "error", "head", "surplus",
    )  # fmt: skip

    def __init__(self, known: KnownHead) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._known = known
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._mute = False  # httptools is told what is known already
        self._between = False  # httptools stands between two chunks, or between head and first chunk
        self.surplus = False
        self.error: str | None = None
        self.next()

    def next(self) -> None:
        """An answer is expected, from its first byte."""
        self.head: Head | None = None
        self.complete = False
        self._fresh = True
        self._at_chunk = False  # the last read ended with the head or with a whole chunk
        self._owed = b""  # the head, when httptools has not been told
        self._head_bytes = b""

    def take(self, data: bytes) -> bytes:
        """The body bytes of one read."""
        if self._fresh:
            self._fresh = False
            known = self._known
            if data.startswith(known.raw):
                self.head, self._owed, self._at_chunk = known.head, known.raw, True
                data = data[len(known.raw) :]
                if not data:
                    return data
            elif (end := data.find(b"\r\n\r\n")) >= 0:
                self._head_bytes = data[: end + 4]
        if self._at_chunk and (bodies := _whole_chunks(data)) is not None:
            if not bodies[-1]:
                self._end()
            return bodies[0] if len(bodies) == 1 else b"".join(bodies)
        return self._parse(data)

    def middle(self, data: bytes) -> bytes | None:
        """The body bytes of several reads, joined, when they are whole chunks of which none ends the body. None:
        they are not, nothing was taken, and each read must be."""
        if self._at_chunk and (bodies := _whole_chunks(data)) is not None and bodies[-1]:
            return b"".join(bodies)
        return None

    def _end(self) -> None:
        """The last chunk came, and was no more than that."""
        self.complete = True
        if not self._owed:
            self._mute = True
            self._parser.feed_data(b"0\r\n\r\n")
            self._mute = False

    def _parse(self, data: bytes) -> bytes:
        """Any bytes."""
        if self._owed:
            self._mute = True
            self._parser.feed_data(self._owed)
            self._mute, self._owed = False, b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.error = "the server switched protocols"
        except httptools.HttpParserError as error:
            if self.complete:
                self.surplus = True
            else:
                self.error = f"not HTTP: {error}"
        head = self.head
        # A line's end alone could still be inside a chunk, the parser's place alone before a part of a size line.
        self._at_chunk = self._between and head is not None and head.chunked and data[-2:] == b"\r\n"
        body, self._body = self._body, []
        return body[0] if len(body) == 1 else b"".join(body)

    # -- what httptools calls ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            self.surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._mute and self.head is None:  # later ones are trailers
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._between = True
        if self._mute or self.complete:
            return
        status, headers = self._parser.get_status_code(), tuple(self._headers)
        self._headers = []
        if status < 200:  # 100 Continue, 103 Early Hints: not the answer
            self._head_bytes = b""
            return
        values = {name.lower(): value.strip().lower() for name, value in headers}
        chunked = values.get(b"transfer-encoding") == b"chunked" and status not in (204, 304)
        bounded = b"content-length" in values or b"transfer-encoding" in values
        self.head = Head(status, headers, chunked, self._parser.should_keep_alive(), bounded)
        raw, self._head_bytes = self._head_bytes, b""
        if chunked and raw and raw.count(b"\n") == raw.count(b"\r\n"):
            self._known.raw, self._known.head = raw, self.head

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self._body.append(body)

    def on_chunk_header(self) -> None:
        self._between = False

    def on_chunk_complete(self) -> None:
        self._between = True

    def on_message_complete(self) -> None:
        if not self._mute and self.head is not None:
            self.complete = True
