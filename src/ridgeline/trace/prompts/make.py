"""Choosing a prompt source by its mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ridgeline.core.errors import InputError, Problem
from ridgeline.trace.corpus import Corpus
from ridgeline.trace.prompts.api import PromptSource
from ridgeline.trace.session import Session

MODES = ("bytes", "token-ids", "tokenizer")


def make_prompts(
    sessions: Corpus | Iterable[Session],
    mode: str,
    *,
    model: str,
    seed: int = 42,
    tokenizer: Any = None,
    extra_body: Mapping[str, Any] | None = None,
    **options: Any,
) -> PromptSource:
    """A prompt source for these sessions, whose ids must be unique.

    mode "bytes": chat text by the byte model. "token-ids": ids for `/v1/completions` (`vocabulary=`). "tokenizer": chat
    text through `tokenizer`, a path to a local tokenizer file or an object that encodes and decodes (`corpus=`). All
    take `cache_bytes=`. `extra_body` is merged over the request body. Raises InputError: unknown mode, no tokenizer,
    two sessions of one name.
    """
    twice: set[str] = set()
    seen: set[str] = set()
    misfits: list[Problem] = []
    for session in sessions.sessions if isinstance(sessions, Corpus) else sessions:
        (twice if session.id in seen else seen).add(session.id)
        misfits += _misfits(session, mode)
    if misfits:
        raise InputError(misfits[:100])
    if twice:
        raise InputError(f"session ids must be unique: {', '.join(sorted(twice)[:5])}")
    makers: dict[str, Callable[..., PromptSource]] = {"bytes": _bytes, "token-ids": _token_ids, "tokenizer": _tokenizer}
    if mode not in makers:
        raise InputError(f"unknown prompt mode {mode!r}", hint=f"one of {', '.join(MODES)}")
    return makers[mode](tokenizer, model=model, seed=seed, extra_body=extra_body, **options)


def _misfits(session: Session, mode: str) -> list[Problem]:
    """Recorded bodies that the mode's endpoint does not take."""
    wanted, other = ("prompt", "messages") if mode == "token-ids" else ("messages", "prompt")
    found = []
    for conversation in session.conversations:
        for number, turn in enumerate(conversation.turns):
            if (recorded := turn.recorded) is None:
                continue
            place = f"turn {number} of {conversation.id}"
            if recorded.payload is not None and wanted not in msgspec.json.decode(recorded.payload):
                hint = "`--prompts token-ids` sends to /v1/completions, the other modes to /v1/chat/completions"
                found.append(Problem(f"the payload of {place} has `{other}`, not `{wanted}`", key=wanted, hint=hint))
            elif mode == "token-ids" and recorded.messages is not None:
                found.append(Problem(f"{place} has messages that are no plain text", hint="use another prompt mode"))
            elif mode == "token-ids" and recorded.extra and "tools" in msgspec.json.decode(recorded.extra):
                found.append(Problem(f"{place} has tools, which /v1/completions does not take", key="tools"))
    return found


def _bytes(_: Any, **options: Any) -> PromptSource:
    from ridgeline.trace.prompts.byte_prompts import BytePrompts

    return BytePrompts(**options)


def _token_ids(_: Any, **options: Any) -> PromptSource:
    from ridgeline.trace.prompts.token_prompts import TokenPrompts

    return TokenPrompts(**options)


def _tokenizer(tokenizer: Any, **options: Any) -> PromptSource:
    from ridgeline.trace.prompts.tokenizer_prompts import FileTokenizer, TokenizerPrompts

    if tokenizer is None:
        raise InputError("prompt mode `tokenizer` needs a tokenizer file", hint="or use mode `bytes` or `token-ids`")
    return TokenizerPrompts(FileTokenizer(tokenizer) if isinstance(tokenizer, str | Path) else tokenizer, **options)
