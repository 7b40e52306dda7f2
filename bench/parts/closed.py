"""A closed loop of single-turn requests for measurements, as sessions, prompts and a pacing machine."""

from __future__ import annotations

import json

from ridgeline.trace.pacing import ClosedLoopPacer, LoopSettings, Send
from ridgeline.trace.prompts import Layout
from ridgeline.trace.session import Conversation, Session, Turn


class Bodies:
    """Bodies of about `size` bytes in about 10 kB fragments; sixteen distinct texts."""

    mode = "bytes"
    endpoint = "/v1/chat/completions"

    def __init__(self, size: int) -> None:
        head = {"model": "null", "stream": True, "stream_options": {"include_usage": True}}
        self._head = json.dumps(head)[:-1].encode()
        step = min(size, 10_000)
        self._texts = [
            [(b"%02d the quick " % number * (step // 12 + 1))[:step] for _ in range(size // step)]
            for number in range(16)
        ]

    def layout(self, send: Send) -> Layout:
        return Layout(())

    def body(self, send: Send) -> list[bytes]:
        opening = b',"max_completion_tokens":%d,"messages":[{"role":"user","content":"' % send.max_tokens
        return [self._head, opening, *self._texts[send.id % 16], b'"}]}']


def closed_loop(concurrency: int, requests: int, tokens: int) -> ClosedLoopPacer:
    turn = Turn(
        at_ns=None, delay_ns=None, api_ns=None, input_tokens=64, output_tokens=tokens, model="null", hash_ids=()
    )
    session = Session(id="bench", conversations=(Conversation(id="bench", scope="bench", turns=(turn,)),))
    return ClosedLoopPacer([session], LoopSettings(concurrency=concurrency, requests=requests))
