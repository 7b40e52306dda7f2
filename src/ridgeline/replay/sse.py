"""The event-stream format, as the standard has it: bytes in, events out.

Fed with any split of the bytes it gives the same events; an event is complete with the blank line that ends it, and
belongs to the read that brought that line. It knows nothing of JSON, of tokens and of time.

Line rules (WHATWG HTML, section 9.2.6): lines end with CR, LF or CRLF and with nothing else; a byte order mark may
come first; one space after the colon is dropped; several `data` lines join by LF; a line that starts with a colon is
a comment; an event without data is not dispatched; what is pending at the end of the stream is discarded.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


# (name, data) of one dispatched event; the name is empty unless the stream named the event's type. A plain tuple: one
# is made for every token of every stream.
Event: TypeAlias = tuple[bytes, bytes]


class EventStream(msgspec.Struct, eq=False):
    """One stream. `feed` returns the events these bytes completed, `plain` does for the common read; `pending` is what
    the end would discard."""

    _started: bool = False  # the byte order mark was looked for
    _between: bool = False  # between events: nothing is kept of earlier bytes
    _skip_lf: bool = False  # the last byte was a CR that ended a line: an LF that follows belongs to it
    _line: bytearray = bytearray()  # a line without its end
    _data: list[bytes] = []
    _name: bytes = b""

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes; return the events that are complete now, in order."""
        if not self._started:
            data = self._start(data)
        events: list[Event] = []
        self._lines(data, events)
        self._between = self._started and not (self._line or self._data or self._name or self._skip_lf)
        return events

    def plain(self, data: bytes) -> list[bytes] | None:
        """The data of the events, when these bytes are nothing but whole events of one `data: ` line each: the common
        read. None: they are not, nothing was taken, and `feed` must have them."""
        if data[:6] != b"data: " or data[-2:] != b"\n\n" or b"\r" in data:
            return None
        if not self._between:
            if self._started or self._line:
                return None
            self._started = self._between = True  # no byte order mark
        events = data[6:-2].split(b"\n\ndata: ")
        if data.count(b"\n") != 2 * len(events) or b"" in events:  # a line end inside of one, or one without data
            return None
        return events

    @property
    def between(self) -> bool:
        """Whether the next byte begins an event."""
        return self._between

    @property
    def pending(self) -> bytes | None:
        """Data of an event that has no blank line yet, its unfinished line included. None when nothing is pending."""
        data = [*self._data]
        if self._line:
            field, value = _field(bytes(self._line))
            if field == b"data":
                data.append(value)
            elif not data:
                return bytes(self._line)
        return b"\n".join(data) if data else None

    def _start(self, data: bytes) -> bytes:
        """Drop a byte order mark. Fewer than three bytes that could still become one are kept back."""
        if data[:1] == b"d" and not self._line:  # the usual opening
            self._started = self._between = True
            return data
        head = bytes(self._line) + data if self._line else data
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._line[:] = head
            return b""
        self._line.clear()
        self._started = self._between = True
        return head.removeprefix(_BOM)

    def _lines(self, data: bytes, events: list[Event]) -> None:
        if self._skip_lf:
            self._skip_lf = False
            if data.startswith(b"\n"):
                data = data[1:]
        start = 0
        for end in _LINE_END.finditer(data):
            line = data[start : end.start()]
            if self._line:
                line = bytes(self._line) + line
                self._line.clear()
            self._take(line, events)
            start = end.end()
        if start < len(data):
            self._line += data[start:]
        elif data.endswith(b"\r"):
            self._skip_lf = True

    def _take(self, line: bytes, events: list[Event]) -> None:
        if not line:
            data = b"\n".join(self._data)
            if data:
                events.append((self._name, data))
            self._data.clear()
            self._name = b""
            return
        field, value = _field(line)
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        # id, retry, comments and unknown fields change nothing that a measurement needs.


def _field(line: bytes) -> tuple[bytes, bytes]:
    field, _, value = line.partition(b":")
    return field, value.removeprefix(b" ")
