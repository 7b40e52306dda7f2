"""Decodes one answer of an OpenAI-compatible server: `feed(data, at_ns)`, then `close()` once, giving an `Answer`.

It is given body bytes with the time of the read that brought them, in any split, and never raises on content. What
stops which clock (design/what-stops-ttft.md): the first body byte, the first generated token of any kind, the first
visible one. Role-only, empty and usage chunks and [DONE] are not tokens. A body that opens with `{` is a whole JSON
object, whatever its content type says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from ridgeline.core.record import Outcome
from ridgeline.replay.chunks import Oddity, error_of, is_overflow, message_of, pieces
from ridgeline.replay.common import Chunk, common_chunk
from ridgeline.replay.repeat import Repeat, learn
from ridgeline.replay.sse import EventStream
from ridgeline.replay.usage import NOTHING, Usage, usages

_decode = msgspec.json.Decoder().decode
_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"
_LESSON_EVERY = 8  # content events at least: learning costs as much as reading four of them
_ERROR_LENGTH = 500  # characters of a server's own words worth keeping


class Ending(Enum):
    """How the transfer ended, as the transport saw it."""

    COMPLETE = "complete"  # the message is whole by HTTP's rules
    CUT = "cut"  # the connection closed in mid-message
    RESET = "reset"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    PROTOCOL = "protocol"  # the bytes were not HTTP
    UNSENT = "unsent"  # no connection, or it broke before an answer began


_COMPLETE, _OK = Ending.COMPLETE, Outcome.OK


class Answer(msgspec.Struct, frozen=True):
    """What an answer said and when. Times are those given to `feed`. Per choice where there may be several."""

    outcome: Outcome
    error: str | None
    flags: tuple[str, ...]
    first_byte_ns: int | None
    first_token_ns: int | None
    first_visible_ns: int | None
    last_token_ns: int | None
    chunk_ns: list[int]  # arrival of every content event
    chunk_tokens: tuple[int | None, ...]  # tokens of each content event, when the server tells; else empty
    usage: Usage
    visible: dict[int, list[str]]  # visible text by choice, as it came
    hidden: dict[int, list[str]]  # reasoning and tool calls by choice
    choice_first_token_ns: dict[int, int]
    finish_reasons: dict[int, str]

    def text(self, choice: int = 0) -> str:
        return "".join(self.visible.get(choice, ()))

    @property
    def first_chunk_tokens(self) -> int | None:
        return self.chunk_tokens[0] if self.chunk_tokens else None


class ResponseDecoder(msgspec.Struct, eq=False):
    """One answer. `status` and `content_type` are those of its head; the type only appears in messages, so a caller may
    set it later, before `close`, when the answer turns out not to be `streaming`."""

    _status: int = 200
    content_type: str = "text/event-stream"
    _body: list[bytes] = []  # bytes not yet known to be an event stream
    _whole: bool = False  # known to be something else
    _no_completion: bool = False  # a success by its status, but its body is an error or something else altogether
    _stream: EventStream | None = None
    _counted_at: int = 0  # content events there were when the server last counted
    _first_byte: int | None = None
    _last_byte: int = 0
    _first_visible: int | None = None
    _chunk_ns: list[int] = []
    _chunk_tokens: list[int | None] | None = None  # a list once the server has told any
    _first: dict[int, int] = {}
    _texts: dict[int, list[str]] = {}
    _hidden: dict[int, list[str]] = {}
    _finish: dict[int, str] = {}
    _usage: Usage = NOTHING
    _repeat: Repeat | None = None  # the shape of the last event, when others may follow that differ in their text
    _lesson_at: int = 2  # content events before the next try to learn it
    _error: str | None = None
    _done: bool = False
    _flags: set[str] = set()

    @property
    def streaming(self) -> bool:
        """Whether the body is known to be an event stream."""
        return self._stream is not None

    def feed(self, data: bytes, at_ns: int) -> None:
        """Take body bytes that arrived in one read at `at_ns`."""
        if not data:
            return
        if self._first_byte is None:
            self._first_byte = at_ns
            self._whole = self._status // 100 != 2
        if self._stream is None:
            self._last_byte = at_ns
            if self._body:
                self._body.append(data)
                if self._whole:
                    return
                data = b"".join(self._body)
            if self._whole or (data[:5] != b"data:" and not self._is_stream(data)):
                self._body = [data]
                return
            if self._body:
                self._body = []
            self._stream = EventStream()
        while data:
            if self._repeat is not None and self._stream.between:
                texts, data = self._repeat.run(data)
                if texts:
                    self._more(texts, (at_ns,) * len(texts))
                    continue
            if (events := self._stream.plain(data)) is None:
                for name, event in self._stream.feed(data):
                    self._event(name, event, at_ns)
                return
            data = self._events(events, at_ns)

    def _events(self, events: list[bytes], at_ns: int) -> bytes:
        """Take events without names. Gives those back that repeat one from which that was learnt, and what follows."""
        for number, event in enumerate(events, 1):
            if self._done:
                self._flags.add("after_done")
            elif event[:1] == b"{" and (chunk := common_chunk(event)) is not None:
                self._common(chunk, at_ns)
                if len(self._chunk_ns) >= self._lesson_at:
                    self._lesson_at = len(self._chunk_ns) + _LESSON_EVERY
                    self._repeat = learn(event)
                    if self._repeat is not None and number < len(events):
                        return b"data: " + b"\n\ndata: ".join(events[number:]) + b"\n\n"
            elif event == _DONE:
                self._done, self._repeat = True, None
            else:
                self._event(b"", event, at_ns)
        return b""

    @property
    def repeats(self) -> bool:
        """Whether more events like the last one are expected: `feed_many` may be worth a try."""
        return self._repeat is not None

    def feed_many(self, data: bytes, ended: list[int], stamps: list[int]) -> bool:
        """Take the body bytes of several reads at once, if they are all events like the last one but for their text and
        every read ended with an event. `ended`: how many events ended in each read, `stamps`: when each came. False:
        they are not so, and nothing was taken."""
        if self._repeat is None or self._stream is None or not self._stream.between:
            return False
        texts, rest = self._repeat.run(data)
        if rest or len(ended) != len(stamps) or sum(ended) != len(texts):
            return False
        if len(texts) != len(stamps):
            stamps = [at for at, count in zip(stamps, ended, strict=True) for _ in range(count)]
        self._more(texts, stamps)
        return True

    def close(self, ending: Ending = Ending.COMPLETE, reason: str | None = None) -> Answer:
        """The answer, once the transfer has ended in the way `ending` says (`reason`: the transport's own words)."""
        if self._stream is None:
            self._read_whole(b"".join(self._body), ending)
        elif not self._done and (pending := self._stream.pending) is not None:
            if pending.strip() == _DONE:
                self._done = True
            else:
                self._flags.add("partial_event")
        fine = self._done and self._finish and self._chunk_ns and self._error is None and not self._no_completion
        if fine and ending is _COMPLETE and self._status // 100 == 2:
            outcome, error = _OK, None
        else:
            outcome, error = self._verdict(ending, reason)
        usage = self._usage
        reasoned, generated = usage.reasoning_tokens, usage.completion_tokens
        if reasoned and generated is not None and reasoned > generated:
            self._flags.add("reasoning_over_completion")
        chunk_ns = self._chunk_ns
        if len(chunk_ns) > 1 and len(set(chunk_ns)) < len(chunk_ns):
            self._flags.add("coalesced")
        return Answer(  # by position: naming fourteen arguments takes as long again
            outcome,
            error,
            tuple(sorted(self._flags)) if self._flags else (),
            self._first_byte,
            chunk_ns[0] if chunk_ns else None,
            self._first_visible,
            chunk_ns[-1] if chunk_ns else None,
            chunk_ns,
            tuple(self._chunk_tokens or ()),
            usage,
            self._texts,
            self._hidden,
            self._first,
            self._finish,
        )

    def _is_stream(self, body: bytes) -> bool:
        """Whether the body is an event stream: told by its first byte that is not blank, a byte order mark aside."""
        if _BOM.startswith(body):
            return False  # undecided
        opening = body.removeprefix(_BOM).lstrip()[:1]
        self._whole = opening in (b"{", b"[", b"<")
        return not self._whole and opening != b""

    def _more(self, texts: list[str], stamps: Sequence[int]) -> None:
        """Take texts of events that repeat the last one."""
        assert self._repeat is not None
        (self._hidden if self._repeat.hidden else self._texts)[0] += texts
        self._chunk_ns += stamps
        if self._chunk_tokens is not None:
            self._chunk_tokens += (None,) * len(texts)

    def _common(self, chunk: Chunk, at_ns: int) -> None:
        """Take an event of the common shape."""
        generated = False
        for choice in chunk.choices:
            visible, hidden, delta = choice.text or "", "", choice.delta
            if delta is not None:
                if delta.content:
                    visible = visible + delta.content if visible else delta.content
                if delta.refusal:
                    visible += delta.refusal
                hidden = delta.reasoning_content or delta.reasoning or ""
            if choice.finish_reason:
                self._finish[choice.index] = choice.finish_reason
            if visible or hidden:
                self._keep(choice.index, visible, hidden, at_ns)
                generated = True
        if chunk.usage is not None:
            usage = chunk.usage.counts()
            self._count(usage, usage.completion_tokens, generated, None, at_ns)
        elif generated:
            self._chunk_ns.append(at_ns)
            if self._chunk_tokens is not None:
                self._chunk_tokens.append(None)

    def _event(self, name: bytes, data: bytes, at_ns: int) -> None:
        """Take any event."""
        if self._done:
            self._flags.add("after_done")
            return
        if len(data) < 16 and data.strip() == _DONE:
            self._done = True
            self._repeat = None
            return
        try:
            chunk = _parse(data)
        except ValueError:
            self._fail(_excerpt(data) if name == b"error" else f"event is not JSON: {_excerpt(data)}")
            return
        if name == b"error":
            self._fail((error_of(chunk) if isinstance(chunk, dict) else None) or message_of(chunk))
        elif isinstance(chunk, dict):
            self._chunk(chunk, at_ns)
        else:
            self._flags.add("odd_event")

    def _chunk(self, chunk: dict[str, Any], at_ns: int) -> None:
        if (error := error_of(chunk)) is not None:
            self._fail(error)
            return
        usage, counted = Usage(), None
        for stated in usages(chunk):
            usage = usage.updated(stated)
            counted = stated.completion_tokens if stated.completion_tokens is not None else counted
        told: int | None = None
        generated = False
        for piece in pieces(chunk):
            if isinstance(piece, Oddity):
                self._flags.add(piece.flag)
                continue
            if piece.finish_reason:
                self._finish[piece.choice] = piece.finish_reason
            if piece.visible or piece.hidden:
                self._keep(piece.choice, piece.visible, piece.hidden, at_ns)
                generated = True
                if piece.tokens is not None:
                    told = (told or 0) + piece.tokens
        self._count(usage, counted, generated, told, at_ns)

    def _count(self, usage: Usage, counted: int | None, generated: bool, told: int | None, at_ns: int) -> None:
        """Take a chunk's counts, and its arrival when it holds generated text."""
        before = self._usage.completion_tokens or 0
        self._usage = self._usage.updated(usage)
        if generated:
            # A step of the server's count is this chunk's tokens only if no content came since the count before.
            stepwise = self._counted_at == len(self._chunk_ns)
            if told is None and counted is not None and stepwise and counted > before:
                told = counted - before
            self._content(at_ns, told)
        if counted is not None:
            self._counted_at = len(self._chunk_ns)

    def _keep(self, choice: int, visible: str, hidden: str, at_ns: int) -> None:
        """Store generated text."""
        if choice not in self._first:
            self._first[choice] = at_ns
            self._texts[choice] = []
            self._hidden[choice] = []
        if hidden:
            self._hidden[choice].append(hidden)
        if visible:
            self._texts[choice].append(visible)
            if self._first_visible is None:
                self._first_visible = at_ns

    def _content(self, at_ns: int, tokens: int | None) -> None:
        if tokens is not None and self._chunk_tokens is None:
            self._chunk_tokens = [None] * len(self._chunk_ns)
        self._chunk_ns.append(at_ns)
        if self._chunk_tokens is not None:
            self._chunk_tokens.append(tokens)

    def _read_whole(self, body: bytes, ending: Ending) -> None:
        """A body that is one JSON object, or not even that."""
        if self._status // 100 != 2:
            self._error = _error_text(body)
            return
        text = body.removeprefix(_BOM).strip()
        if not text or ending is not Ending.COMPLETE:
            return
        try:
            chunk = _parse(text)
        except ValueError:
            chunk = None
        if isinstance(chunk, dict) and "choices" in chunk and error_of(chunk) is None:
            self._chunk(chunk, self._last_byte)
            self._done = True  # a whole object needs no [DONE]
            return
        self._no_completion = True
        error = error_of(chunk) if isinstance(chunk, dict) else None
        self._fail(error or f"the body ({self.content_type or 'of no type'}) is no completion: {_excerpt(body)}")

    def _fail(self, message: str) -> None:
        if self._error is None:
            self._error = message[:_ERROR_LENGTH]

    def _verdict(self, ending: Ending, reason: str | None) -> tuple[Outcome, str | None]:
        """One outcome. What we or the network did comes first, then the server's own word, then what is missing."""
        if ending is Ending.CANCELLED:
            return Outcome.CANCELLED, reason
        if ending is Ending.TIMEOUT:
            return Outcome.TIMEOUT, reason
        if ending is Ending.UNSENT:
            return Outcome.CLIENT_ERROR, reason
        if self._error is not None and is_overflow(self._error):
            return Outcome.OVERFLOW, self._error
        if ending is Ending.PROTOCOL:
            return Outcome.STREAM_ERROR, reason
        if self._status // 100 != 2 or self._no_completion:
            return Outcome.HTTP_ERROR, self._error or f"HTTP {self._status}"
        if self._error is not None:
            return Outcome.STREAM_ERROR, self._error
        if ending is Ending.RESET and not self._done:
            return Outcome.CLIENT_ERROR, reason
        if not self._done:
            if not self._finish and (self._stream is not None or ending is not Ending.COMPLETE):
                return Outcome.TRUNCATED, reason or "the stream ended without finish_reason and without [DONE]"
            if self._finish:
                self._flags.add("missing_done")
        elif not self._finish:
            self._flags.add("missing_finish_reason")
        if not self._chunk_ns:
            if not self._usage.completion_tokens:
                return Outcome.EMPTY, "no generated token"
            self._flags.add("no_text")  # tokens were generated, none of them had text
        return Outcome.OK, None


def _parse(data: bytes) -> Any:
    """JSON as servers write it. Raises ValueError. The slow parser takes what is not JSON but common: NaN, half of a
    surrogate pair (an emoji cut between two chunks)."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _error_text(body: bytes) -> str | None:
    try:
        error = _parse(body)
    except ValueError:
        return _excerpt(body) or None
    text = error_of(error) or message_of(error) if isinstance(error, dict) else str(error)
    raw = body.decode(errors="replace")
    # The phrase that tells an overflow may stand in a field beside the message.
    return (f"{text} ({_excerpt(body)})" if is_overflow(raw) and not is_overflow(text) else text)[:_ERROR_LENGTH]


def _excerpt(data: bytes) -> str:
    return data[:200].decode(errors="replace").strip()
