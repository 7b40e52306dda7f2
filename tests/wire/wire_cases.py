"""Answers as they were seen on wires, byte by byte, and what a client must make of them.

Every case is fed as its reads came, whole, split in two at every byte, and one byte at a time: only times and the
`coalesced` flag may depend on the split. Reads come 100 ms apart, the first one at 100 ms, unless `at_ms` says
otherwise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ridgeline.core.record import Outcome
from ridgeline.replay.openai_stream import Ending
from ridgeline.replay.usage import Usage


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    reads: tuple[bytes, ...]
    outcome: Outcome = Outcome.OK
    texts: dict[int, str] = field(default_factory=dict)  # choices without text left out
    hidden: dict[int, str] = field(default_factory=dict)
    chunks: int | None = None  # content events; None: as many as reads with content is not what the case is about
    usage: Usage = field(default_factory=Usage)
    finish: dict[int, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()  # all of them but `coalesced`
    coalesced: bool = False
    error: str = ""  # part of the message
    status: int = 200
    content_type: str = "text/event-stream"
    ending: Ending = Ending.COMPLETE
    at_ms: tuple[int, ...] | None = None
    first_byte_ms: int | None = None
    first_ms: int | None = None
    visible_ms: int | None = None
    last_ms: int | None = None
    choice_first_ms: dict[int, int] | None = None
    chunk_tokens: tuple[int | None, ...] = ()


def data(value: Any) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: Any, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice], **more}


def text(content: str, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    return data(chunk({"content": content}, finish, index, **more))


def used(**counts: Any) -> bytes:
    return data({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": counts})


A, B = text("a"), text("b")
STOP = data(chunk({}, "stop"))
END = b"data: [DONE]\n\n"
BOM = b"\xef\xbb\xbf"
NO_FINISH = frozenset({"missing_finish_reason"})
LOOSE = json.dumps(chunk({"content": "x"}), separators=(",", ":")).encode()

FRAMING = [
    Case(
        name="usage chunk with empty choices",
        reads=(A, used(prompt_tokens=3, completion_tokens=1), END),
        texts={0: "a"},
        usage=Usage(3, 1),
        flags=NO_FINISH,
        chunks=1,
        first_byte_ms=100,
        first_ms=100,
        last_ms=100,
    ),
    Case(
        name="choices null",
        reads=(data({"object": "chat.completion.chunk", "choices": None}), A, STOP, END),
        texts={0: "a"},
        finish={0: "stop"},
        flags=frozenset({"null_choices"}),
        first_byte_ms=100,
        first_ms=200,
    ),
    Case(
        name="choices missing",
        reads=(data({"object": "chat.completion.chunk"}), A, STOP, END),
        texts={0: "a"},
        finish={0: "stop"},
        flags=frozenset({"no_choices"}),
    ),
    Case(
        name="choices a list of null",
        reads=(data({"object": "chat.completion.chunk", "choices": [None]}), A, STOP, END),
        texts={0: "a"},
        finish={0: "stop"},
        flags=frozenset({"null_choices"}),
    ),
    Case(
        name="choices of a wrong type",
        reads=(data({"choices": "x"}), data({"choices": [1, "x"]}), A, STOP, END),
        texts={0: "a"},
        finish={0: "stop"},
        flags=frozenset({"odd_choices"}),
    ),
    Case(
        name="events that are no objects",
        reads=(b"data: 1\n\ndata: null\n\ndata: []\n\n", A, STOP, END),
        texts={0: "a"},
        finish={0: "stop"},
        flags=frozenset({"odd_event"}),
        first_ms=200,
    ),
    Case(
        name="cut right after the colon",
        reads=(b"data:", b" " + LOOSE + b"\n\n", STOP + END),
        texts={0: "x"},
        finish={0: "stop"},
        first_byte_ms=100,
        first_ms=200,
        chunks=1,
    ),
    Case(
        name="cut in a string before a blank",
        reads=(b'data: {"choices":[{"index":0,"delta":{"content":"a', b' b"}}]}\n\n', STOP + END),
        texts={0: "a b"},
        finish={0: "stop"},
        first_ms=200,
    ),
    Case(
        name="no blank after the colon",
        reads=(b"data:" + LOOSE + b"\n\n", b"data:[DONE]\n\n"),
        texts={0: "x"},
        flags=NO_FINISH,
    ),
    Case(
        name="two blanks after the colon",
        reads=(b"data:  " + LOOSE + b"\n\n", b"data:  [DONE]\n\n"),
        texts={0: "x"},
        flags=NO_FINISH,
    ),
    Case(
        name="CRLF then LF",
        reads=(A.replace(b"\n", b"\r\n"), B, END),
        texts={0: "ab"},
        chunks=2,
        flags=NO_FINISH,
        first_ms=100,
        last_ms=200,
    ),
    Case(
        name="CR only",
        reads=(A.replace(b"\n", b"\r"), B.replace(b"\n", b"\r"), END.replace(b"\n", b"\r")),
        texts={0: "ab"},
        chunks=2,
        flags=NO_FINISH,
        first_ms=100,  # the second CR ends the event: nobody waits for an LF
        last_ms=200,
    ),
    Case(
        name="CRLF cut between its halves",
        reads=(A[:-2] + b"\r", b"\n\r", b"\n" + B[:-2] + b"\r", b"\n\r", b"\n" + END),
        texts={0: "ab"},
        chunks=2,
        flags=NO_FINISH,
        first_ms=200,
        last_ms=400,
    ),
    Case(
        name="other line ends are not line ends",
        reads=(b'data: {"choices":[{"index":0,"delta":{"content":"a\xc2\x85\xe2\x80\xa8b"}}]}\n\n', STOP, END),
        texts={0: "a\x85\u2028b"},
        finish={0: "stop"},
    ),
    Case(
        name="two events in one read",
        reads=(A + B, END),
        texts={0: "ab"},
        chunks=2,
        flags=NO_FINISH,
        coalesced=True,
        first_ms=100,
        last_ms=100,
    ),
    Case(
        name="ten events in one read",
        reads=(b"".join(text(f"{number}") for number in range(10)), STOP + END),
        texts={0: "0123456789"},
        finish={0: "stop"},
        chunks=10,
        coalesced=True,
        first_ms=100,
        last_ms=100,
    ),
    Case(
        name="data on two lines",
        reads=(b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"z"}}]}\n\n', STOP, END),
        texts={0: "z"},
        finish={0: "stop"},
    ),
    Case(
        name="an empty first data line",
        reads=(b"data:\ndata: " + LOOSE + b"\n\n", STOP, END),
        texts={0: "x"},
        finish={0: "stop"},
    ),
    Case(name="byte order mark", reads=(BOM + A + B, END), texts={0: "ab"}, chunks=2, flags=NO_FINISH, coalesced=True),
    Case(
        name="byte order mark in pieces",
        reads=(BOM[:1], BOM[1:2], BOM[2:] + A, END),
        texts={0: "a"},
        flags=NO_FINISH,
        first_byte_ms=100,
        first_ms=300,
    ),
    Case(
        name="comments, ids, retries and unknown fields",
        reads=(b": ping\n\n", b"id: 7\nretry: 10\nevent\nfoo: bar\n" + A, b":\n\n", STOP, END),
        texts={0: "a"},
        finish={0: "stop"},
        first_byte_ms=100,
        first_ms=200,
    ),
    Case(
        name="named events are read alike",
        reads=(b"event: message\n" + A, b"event: done\n\n", b"event: chunk\n" + B, STOP, END),
        texts={0: "ab"},
        finish={0: "stop"},
    ),
    Case(
        name="keep-alive inside an object",
        reads=(b'data: {"choices":[{"ind', b": ping\n\n", b'ex":0,"delta":{"content":"x"}}]}\n\n', END),
        outcome=Outcome.STREAM_ERROR,
        error="not JSON",
    ),
]

TERMINATION = [
    Case(
        name="error object with status 200",
        reads=(b'{"error":{"message":"model not found"}}',),
        content_type="application/json",
        outcome=Outcome.HTTP_ERROR,
        error="model not found",
    ),
    Case(
        name="error object under the stream's content type",
        reads=(b' {"error":', b'"no model"}\n'),
        outcome=Outcome.HTTP_ERROR,
        error="no model",
        first_byte_ms=100,
    ),
    Case(
        name="a web page with status 200",
        reads=(b"<html>login</html>",),
        content_type="text/html",
        outcome=Outcome.HTTP_ERROR,
        error="text/html",
    ),
    Case(name="a word with status 200", reads=(b'{"status":"ok"}',), outcome=Outcome.HTTP_ERROR, error="no completion"),
    Case(name="empty body", reads=(), outcome=Outcome.EMPTY),
    Case(name="only DONE", reads=(END,), outcome=Outcome.EMPTY, flags=NO_FINISH, first_byte_ms=100),
    Case(
        name="no DONE after a finish reason",
        reads=(A, STOP),
        texts={0: "a"},
        finish={0: "stop"},
        flags=frozenset({"missing_done"}),
    ),
    Case(
        name="neither DONE nor finish reason",
        reads=(A, B),
        texts={0: "ab"},
        outcome=Outcome.TRUNCATED,
        first_ms=100,
        last_ms=200,
    ),
    Case(
        name="only comments",
        reads=(b": wait\n\n", b": wait\n\n"),
        outcome=Outcome.TRUNCATED,
        first_byte_ms=100,
    ),
    Case(
        name="end inside an event",
        reads=(A, b'data: {"choices":[{"in'),
        texts={0: "a"},
        outcome=Outcome.TRUNCATED,
        flags=frozenset({"partial_event"}),
        chunks=1,
        last_ms=100,
    ),
    Case(
        name="end after a whole event without its blank line",
        reads=(A, B[:-1]),
        texts={0: "a"},
        outcome=Outcome.TRUNCATED,
        flags=frozenset({"partial_event"}),
        chunks=1,
    ),
    Case(name="DONE without its blank line", reads=(A, STOP, END[:-1]), texts={0: "a"}, finish={0: "stop"}),
    Case(name="DONE without any line end", reads=(A, STOP, END[:-2]), texts={0: "a"}, finish={0: "stop"}),
    Case(
        name="a second stream after DONE",
        reads=(A, STOP, END, text("x"), END),
        texts={0: "a"},
        finish={0: "stop"},
        flags=frozenset({"after_done"}),
        chunks=1,
        last_ms=100,
    ),
    Case(
        name="too many requests",
        reads=(b'{"error":{"message":"slow down","type":"rate_limit"}}',),
        status=429,
        content_type="application/json",
        outcome=Outcome.HTTP_ERROR,
        error="slow down",
    ),
    Case(name="unavailable, no words", reads=(), status=503, outcome=Outcome.HTTP_ERROR, error="HTTP 503"),
    Case(
        name="validation error of a web framework",
        reads=(b'{"detail":[{"loc":["body"],"msg":"field required"}]}',),
        status=422,
        outcome=Outcome.HTTP_ERROR,
        error="field required",
    ),
    Case(
        name="context overflow",
        reads=(b'{"object":"error","message":"This model\'s maximum context length is 8192 tokens","code":400}',),
        status=400,
        outcome=Outcome.OVERFLOW,
        error="maximum context length",
    ),
    Case(
        name="context overflow told by its code only",
        reads=(b'{"error":{"message":"bad request","code":"context_length_exceeded"}}',),
        status=400,
        outcome=Outcome.OVERFLOW,
        error="context_length_exceeded",
    ),
    Case(
        name="error object in mid-stream",
        reads=(A, data({"error": {"message": "engine died", "code": 500}}), END),
        texts={0: "a"},
        outcome=Outcome.STREAM_ERROR,
        error="engine died",
        last_ms=100,
    ),
    Case(
        name="error event in mid-stream",
        reads=(A, b"event: error\ndata: overloaded\n\n"),
        texts={0: "a"},
        outcome=Outcome.STREAM_ERROR,
        error="overloaded",
    ),
    Case(
        name="error event with an object",
        reads=(b'event: error\ndata: {"message":"overloaded"}\n\n',),
        outcome=Outcome.STREAM_ERROR,
        error="overloaded",
    ),
    Case(
        name="null error is no error",
        reads=(text("a", error=None), data(chunk({}, "stop", error=None)), END),
        texts={0: "a"},
        finish={0: "stop"},
    ),
    Case(
        name="overflow in mid-stream",
        reads=(data({"error": {"message": "Prompt is too long"}}), END),
        outcome=Outcome.OVERFLOW,
        error="too long",
    ),
    Case(
        name="connection closed in mid-stream",
        reads=(A,),
        texts={0: "a"},
        ending=Ending.CUT,
        outcome=Outcome.TRUNCATED,
    ),
    Case(
        name="connection closed after DONE",
        reads=(A, STOP, END),
        texts={0: "a"},
        finish={0: "stop"},
        ending=Ending.RESET,
    ),
    Case(name="reset in mid-stream", reads=(A,), texts={0: "a"}, ending=Ending.RESET, outcome=Outcome.CLIENT_ERROR),
    Case(name="object cut", reads=(b'{"choices":[{"mess',), ending=Ending.CUT, outcome=Outcome.TRUNCATED),
]

ROLE = data(chunk({"role": "assistant", "content": ""}))

CONTENT = [
    Case(
        name="role only, then text late",
        reads=(ROLE, text("hi"), END),
        at_ms=(50, 1150, 1151),
        texts={0: "hi"},
        flags=NO_FINISH,
        chunks=1,
        first_byte_ms=50,
        first_ms=1150,
        visible_ms=1150,
        last_ms=1150,
    ),
    Case(
        name="odd deltas",
        reads=(
            data({"object": "chat.completion.chunk", "choices": [{"index": 0}]}),
            data(chunk(None)),
            data(chunk({"role": "assistant"})),
            data(chunk({"content": [{"type": "text", "text": "p"}, {"type": "text", "text": "q"}]})),
            data(chunk({"refusal": "no"})),
            data({"choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": "stop"}]}),
            END,
        ),
        texts={0: "pqno!"},
        finish={0: "stop"},
        chunks=3,
        first_ms=400,
        visible_ms=400,
        last_ms=600,
    ),
    Case(
        name="two choices, interleaved",
        reads=(
            text("A"), text("B", index=1), text("A2"), data(chunk({}, "stop")), data(chunk({}, "length", 1)),
            used(prompt_tokens=5, completion_tokens=3), END,
        ),
        texts={0: "AA2", 1: "B"},
        finish={0: "stop", 1: "length"},
        usage=Usage(5, 3),
        chunks=3,
        choice_first_ms={0: 100, 1: 200},
        last_ms=300,
    ),
    Case(
        name="no token at all",
        reads=(ROLE, data(chunk({"content": None}, "stop")), used(prompt_tokens=3, completion_tokens=0), END),
        outcome=Outcome.EMPTY,
        finish={0: "stop"},
        usage=Usage(3, 0),
        chunks=0,
    ),
    Case(
        name="one token",
        reads=(ROLE, text("a", "length"), used(prompt_tokens=3, completion_tokens=1), END),
        texts={0: "a"},
        finish={0: "length"},
        usage=Usage(3, 1),
        chunks=1,
        first_ms=200,
        last_ms=200,
    ),
    Case(
        name="a token without text",
        reads=(ROLE, text("", "length"), used(prompt_tokens=3, completion_tokens=1), END),
        finish={0: "length"},
        usage=Usage(3, 1),
        flags=frozenset({"no_text"}),
        chunks=0,
    ),
    Case(
        name="more reasoning than output",
        reads=(A, STOP, used(completion_tokens=23870, completion_tokens_details={"reasoning_tokens": 23871}), END),
        texts={0: "a"},
        finish={0: "stop"},
        usage=Usage(None, 23870, 23871),
        flags=frozenset({"reasoning_over_completion"}),
    ),
    Case(
        name="reasoning first",
        reads=(
            ROLE, data(chunk({"reasoning_content": "hm"})), data(chunk({"reasoning_content": " so"})),
            data(chunk({"reasoning": "."})), text("yes"), STOP, END,
        ),
        texts={0: "yes"},
        hidden={0: "hm so."},
        finish={0: "stop"},
        chunks=4,
        first_ms=200,
        visible_ms=500,
        last_ms=500,
    ),
    Case(
        name="reasoning under both of its names counts once",
        reads=(data(chunk({"reasoning_content": "hm", "reasoning": "hm"})), text("a"), STOP, END),
        texts={0: "a"},
        hidden={0: "hm"},
        finish={0: "stop"},
        chunks=2,
    ),
    Case(
        name="tool calls",
        reads=(
            ROLE,
            data(chunk({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f", "arguments": ""}}]})),
            data(chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]})),
            data(chunk({"function_call": {"arguments": "x"}})),
            data(chunk({}, "tool_calls")),
            END,
        ),
        hidden={0: 'f{"a":1}x'},
        finish={0: "tool_calls"},
        chunks=3,
        first_ms=200,
        last_ms=400,
    ),
    Case(
        name="text completions",
        reads=(
            data({"object": "text_completion", "choices": [{"index": 0, "text": "a", "finish_reason": None}]}),
            data({"object": "text_completion", "choices": [{"index": 0, "text": "b", "finish_reason": "length"}]}),
            END,
        ),
        texts={0: "ab"},
        finish={0: "length"},
        chunks=2,
        first_ms=100,
        visible_ms=100,
        last_ms=200,
    ),
    Case(
        name="a whole answer instead of a stream",
        reads=(
            b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",',
            b'"content":"hello","reasoning_content":"r"},"finish_reason":"stop"}],',
            b'"usage":{"prompt_tokens":4,"completion_tokens":2}}',
        ),
        content_type="application/json",
        texts={0: "hello"},
        hidden={0: "r"},
        finish={0: "stop"},
        usage=Usage(4, 2),
        chunks=1,
        first_byte_ms=100,
        first_ms=300,
        chunk_tokens=(2,),
    ),
    Case(
        name="usage in every chunk, several tokens each",
        reads=(
            text("a b", usage={"prompt_tokens": 3, "completion_tokens": 2}),
            text("c d e", usage={"prompt_tokens": 3, "completion_tokens": 5}),
            text("f", "stop", usage={"prompt_tokens": 3, "completion_tokens": 6}),
            END,
        ),
        texts={0: "a bc d ef"},
        finish={0: "stop"},
        usage=Usage(3, 6),
        chunks=3,
        chunk_tokens=(2, 3, 1),
    ),
    Case(
        name="usage in some chunks: a step over several of them is nobody's",
        reads=(
            text("a"), text("b", usage={"completion_tokens": 2}), text("c", usage={"completion_tokens": 5}), text("d"),
            STOP, used(prompt_tokens=1, completion_tokens=6), END,
        ),
        texts={0: "abcd"},
        finish={0: "stop"},
        usage=Usage(1, 6),
        chunk_tokens=(None, None, 3, None),
    ),
    Case(
        name="tokens told by their ids",
        reads=(
            data({"choices": [{"index": 0, "delta": {"content": "ab"}, "token_ids": [1, 2], "finish_reason": None}]}),
            data({"choices": [{"index": 0, "delta": {"content": "c"}, "token_ids": [3], "finish_reason": "stop"}]}),
            END,
        ),
        texts={0: "abc"},
        finish={0: "stop"},
        chunk_tokens=(2, 1),
    ),
    Case(
        name="tokens told by their log probabilities",
        reads=(
            data({"choices": [{"index": 0, "delta": {"content": "ab"}, "logprobs": {"content": [{}, {}]}}]}),
            STOP, END,
        ),
        texts={0: "ab"},
        finish={0: "stop"},
        chunk_tokens=(2,),
    ),
    Case(
        name="usage in a choice",
        reads=(data({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop",
                                  "usage": {"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 8}}]}), END),
        texts={0: "a"},
        finish={0: "stop"},
        usage=Usage(9, 1, None, 8),
        chunk_tokens=(1,),
    ),
    Case(
        name="usage under a vendor's key",
        reads=(A, data(chunk({}, "stop", x_groq={"usage": {"prompt_tokens": 2, "completion_tokens": 1}})), END),
        texts={0: "a"},
        finish={0: "stop"},
        usage=Usage(2, 1),
    ),
    Case(
        name="timings instead of usage",
        reads=(A, data(chunk({}, "stop", timings={"prompt_n": 6, "predicted_n": 1, "cache_n": 4})), END),
        texts={0: "a"},
        finish={0: "stop"},
        usage=Usage(6, 1, None, 4),
    ),
    Case(
        name="input tokens without the cached ones",
        reads=(A, STOP, used(input_tokens=5, output_tokens=1, cache_read_input_tokens=995), END),
        texts={0: "a"},
        finish={0: "stop"},
        usage=Usage(1000, 1, None, 995),
    ),
    Case(
        name="cached tokens in the details; later chunks leave them out",
        reads=(
            A, STOP, used(prompt_tokens=9, completion_tokens=1, prompt_tokens_details={"cached_tokens": 0}),
            used(prompt_tokens=9, completion_tokens=1), END,
        ),
        texts={0: "a"},
        finish={0: "stop"},
        usage=Usage(9, 1, None, 0),
    ),
    Case(
        name="counts that are no counts",
        reads=(A, STOP, used(prompt_tokens="3", completion_tokens=1.5, total_tokens=True), used(prompt_tokens=-1), END),
        texts={0: "a"},
        finish={0: "stop"},
    ),
    Case(
        name="NaN and half an emoji",
        reads=(
            b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"},"logprobs":{"x":NaN}}]}\n\n',
            STOP, END,
        ),
        texts={0: "\ud83d"},
        finish={0: "stop"},
        chunks=1,
    ),
    Case(
        name="bytes that are no UTF-8",
        reads=(b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n', END),
        outcome=Outcome.STREAM_ERROR,
        error="not JSON",
    ),
    Case(
        name="text that looks like structure",
        reads=(
            A, text('"}}]}\n\ndata: [DONE]\n\n'), text('{"error":{"message":"x"}}'), text('"content":"'),
            text("\\"), text("é"), text("data: "), STOP, END,
        ),
        texts={0: 'a"}}]}\n\ndata: [DONE]\n\n{"error":{"message":"x"}}"content":"\\édata: '},
        finish={0: "stop"},
        chunks=7,
    ),
    Case(
        name="a changing shape",
        reads=(
            text("a"), text("b"), text("c"), data(chunk({"content": "d", "tool_calls": None})), text("e"),
            text("f", "stop"), used(prompt_tokens=1, completion_tokens=6), END,
        ),
        texts={0: "abcdef"},
        finish={0: "stop"},
        usage=Usage(1, 6),
        chunks=6,
    ),
]  # fmt: skip

CASES = [*FRAMING, *TERMINATION, *CONTENT]
