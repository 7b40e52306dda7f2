"""Answers on the wire: every byte of a stream that can be known beforehand is made before the first token.

A token is one word of four bytes, so that the text a client sends back is the same tokens again (byte model). A
stream's chunks differ in that word only; all of them have the same length.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ridgeline.simulate.server.bodies import Ask

_LETTERS = b"abcdefghijklmnop"
# 4,096 words of three letters and a blank: no escaping in JSON, four bytes each.
WORDS = [bytes(letters) + b" " for letters in itertools.product(_LETTERS, repeat=3)]
_STEP = 1_597  # odd, so that an answer runs through all words before one repeats

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_END_OF_BODY = b"0\r\n\r\n"
_DONE = b"e\r\ndata: [DONE]\n\n\r\n"


def answer_words(tokens: bytes, count: int, seed: int) -> list[bytes]:
    """The answer to a prompt: the same prompt and seed give the same words, as greedy decoding would."""
    start = zlib.crc32(tokens, seed & 0xFFFFFFFF)
    return [WORDS[(start + index * _STEP) & 4095] for index in range(count)]


def usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def response(status: int, body: bytes, kind: bytes = b"application/json", *, close: bool = False) -> bytes:
    """A whole response with its length."""
    reason = {200: b"OK", 400: b"Bad Request", 404: b"Not Found", 405: b"Method Not Allowed", 413: b"Payload Too Large"}
    end = b"connection: close\r\n" if close else b""
    return b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n%s\r\n%s" % (
        status, reason.get(status, b"Error"), kind, len(body), end, body,
    )  # fmt: skip


class Stream:
    """The chunks of one streamed answer, ready to be cut together."""

    __slots__ = ("_close", "_created", "_head", "_id", "_kind", "_model", "_open", "_tail", "ask", "opening")

    def __init__(self, ask: Ask, request_id: str, model: str, created: int) -> None:
        self.ask = ask
        self._id, self._model, self._created = request_id, model, created
        self._kind = "chat.completion.chunk" if ask.chat else "text_completion"
        whole = self._event(self._choice("\0\0\0\0", None))
        self._head, self._tail = whole.split(b"\\u0000" * 4, 1)
        size = len(self._head) + 4 + len(self._tail)
        self._head = b"%x\r\n%s" % (size, self._head)
        self._tail += b"\r\n"
        self.opening = STREAM_HEAD
        if ask.chat:  # vLLM opens a chat with the role, together with the first token
            self.opening += _chunk(
                self._event(
                    {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
                )
            )

    def token(self, word: bytes) -> bytes:
        """One token that is not the last."""
        return self._head + word + self._tail

    def counted(self, word: bytes, done: int, cached: int, reason: str | None = None) -> bytes:
        """One token with the usage so far, or the last one with its reason."""
        shown = usage(self.ask.prompt_tokens, done, cached) if self.ask.usage_always else None
        return _chunk(self._event(self._choice(word.decode(), reason), shown))

    def closing(self, word: bytes, cached: int) -> bytes:
        """The last token, the usage if asked for, and the end."""
        count = self.ask.max_tokens
        last = self.counted(word, count, cached, self.ask.reason)
        total = usage(self.ask.prompt_tokens, count, cached)
        return last + (_chunk(self._event(None, total)) if self.ask.include_usage else b"") + _DONE + _END_OF_BODY

    def _choice(self, text: str, reason: str | None) -> dict[str, Any]:
        if self.ask.chat:
            return {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": reason}
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason, "stop_reason": None}

    def _event(self, choice: dict[str, Any] | None, shown: dict[str, Any] | None = None) -> bytes:
        data: dict[str, Any] = {
            "id": self._id,
            "object": self._kind,
            "created": self._created,
            "model": self._model,
            "choices": [choice] if choice else [],
        }
        if shown is not None:
            data["usage"] = shown
        return b"data: " + msgspec.json.encode(data) + b"\n\n"


def whole_answer(
    ask: Ask,
    request_id: str,
    model: str,
    created: int,
    words: list[bytes],
    cached: int,
    transfer: Mapping[str, Any] | None = None,
) -> bytes:
    """The body of an answer that is not streamed. `transfer`: what another engine must know to fetch the KV."""
    text = b"".join(words).decode()
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": ask.reason, "stop_reason": None}
    choice |= {"message": {"role": "assistant", "content": text}} if ask.chat else {"text": text}
    return msgspec.json.encode(
        {
            "id": request_id,
            "object": "chat.completion" if ask.chat else "text_completion",
            "created": created,
            "model": model,
            "choices": [choice],
            "usage": usage(ask.prompt_tokens, ask.max_tokens, cached),
            **({"kv_transfer_params": transfer} if transfer else {}),
        }
    )


def _chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)
