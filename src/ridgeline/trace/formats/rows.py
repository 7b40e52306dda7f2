"""JSON-lines formats: mooncake, Bailian, single-turn and multi-turn. Unknown keys are refused.

Texts are measured by the byte model. Where a conversation has text, its history is replayed with canned answers of the
asked-for length, since a prompt must be known before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec

from ridgeline.core.errors import InputError, Problem
from ridgeline.trace.formats.bodies import OURS, Message, Payload, payload_of, recorded, texts_of
from ridgeline.trace.formats.plain import Row, Style
from ridgeline.trace.formats.problems import at_key, problems
from ridgeline.trace.formats.source import Record
from ridgeline.trace.prompts.byte_model import BYTES_PER_TOKEN, text_token_count
from ridgeline.trace.prompts.corpus_text import corpus_text
from ridgeline.trace.session import Recorded

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
MOONCAKE_BLOCK, BAILIAN_BLOCK = 512, 16
DEFAULT_OUTPUT = 128  # tokens to ask for where a row does not say
_T = TypeVar("_T", bound=msgspec.Struct)


class Mooncake(msgspec.Struct, forbid_unknown_fields=True):
    """One request: a length with block ids, a text, messages, or a whole body."""

    late_types: ClassVar[dict[str, Any]] = {"messages": list[Message], "payload": Payload}
    input_length: Positive | None = None
    text_input: str | None = None
    messages: list[dict[str, Any]] | None = None
    payload: dict[str, Any] | None = None
    output_length: Count | None = None
    hash_ids: list[int] | None = None
    timestamp: float | None = None
    delay: float | None = None
    session_id: str | None = None
    tools: list[Any] | None = None
    extra: dict[str, Any] | None = None


class Bailian(msgspec.Struct, forbid_unknown_fields=True):
    """One request of a chat; a follow-up names its parent."""

    chat_id: int
    parent_chat_id: int
    timestamp: float
    input_length: Positive
    output_length: Count
    turn: int = 1
    type: str = ""
    hash_ids: list[int] = []


class Single(msgspec.Struct, forbid_unknown_fields=True):
    """One text to send."""

    text: str | None = None
    texts: list[str] | None = None
    timestamp: float | None = None
    delay: float | None = None
    role: str = "user"
    session_id: str | None = None
    output_length: Positive | None = None
    extra: dict[str, Any] | None = None


class Multi(msgspec.Struct, forbid_unknown_fields=True):
    """A conversation of texts."""

    turns: Annotated[list[Single], msgspec.Meta(min_length=1)]
    session_id: str | None = None


def mooncake(records: Iterable[Record], block_size: int = MOONCAKE_BLOCK) -> tuple[list[Row], Style]:
    """Rows of a mooncake trace; ids are global. Rows of one session_id form a conversation in file order."""
    sizes: dict[int, int] = {}  # last blocks may be partial, but an id has one size everywhere

    def convert(item: Mooncake, _: int) -> Iterator[Row]:
        ids = item.hash_ids or []
        given = [n for n in ("input_length", "text_input", "messages", "payload") if getattr(item, n) is not None]
        if len(given) != 1:
            raise _Wrong(f"needs exactly one of input_length, text_input, messages and payload, has {len(given)}")
        if ids and item.input_length is None:
            raise _Wrong("goes with input_length only", "hash_ids")
        if item.tools and item.messages is None:
            raise _Wrong("goes with messages only", "tools")
        body, output = _mooncake_body(item), item.output_length
        if item.payload is not None:
            asked = msgspec.convert(item.payload, Payload)
            messages, tokens = _measured(asked)
            output = asked.limit if asked.limit is not None else output
        else:
            messages = None if item.text_input is None else (("user", item.text_input),)
            if item.messages is not None:
                messages = texts_of(msgspec.convert(item.messages, list[Message]))
            tokens = item.input_length or _size(messages)
        _check_sizes(ids, tokens, block_size, sizes)
        output = DEFAULT_OUTPUT if output is None else output
        yield Row(item.session_id, tokens, output, item.timestamp, item.delay, ids, messages, body)

    return _rows(records, Mooncake, convert), Style("mooncake", block_size=block_size, hash_scope="global")


def bailian(records: Iterable[Record]) -> tuple[list[Row], Style]:
    """Rows of a Bailian trace. A chat belongs to the session of its root parent; turns are sorted by `turn`."""
    parents: dict[int, int] = {}
    items: list[Bailian] = []

    def keep(item: Bailian, _: int) -> Iterator[Row]:
        parents[item.chat_id] = item.parent_chat_id
        items.append(item)
        return iter(())

    def root(chat: int) -> int:
        seen = {chat}
        while parents.get(chat, -1) in parents and parents[chat] not in seen:
            chat = parents[chat]
            seen.add(chat)
        return chat

    _rows(records, Bailian, keep)
    found = [
        Row(
            f"chat_{root(item.chat_id)}",
            item.input_length,
            item.output_length,
            item.timestamp * 1000,
            None,
            item.hash_ids,
            order=(item.turn,),
        )
        for item in items
    ]
    return found, Style("bailian", block_size=BAILIAN_BLOCK, hash_scope="global")


def single_turn(records: Iterable[Record]) -> tuple[list[Row], Style]:
    """Rows of texts, each a session of its own."""

    def convert(item: Single, _: int) -> Iterator[Row]:
        text = _text(item, "")
        output = item.output_length or DEFAULT_OUTPUT
        messages = ((item.role, text),)
        body = recorded(None, None, _extra(item.extra))
        yield Row(None, _size(messages), output, item.timestamp, item.delay, (), messages, body)

    return _rows(records, Single, convert), Style("single_turn")


def multi_turn(records: Iterable[Record]) -> tuple[list[Row], Style]:
    """Rows of conversations; a turn's prompt holds what came before, answers canned."""

    def convert(item: Multi, number: int) -> Iterator[Row]:
        name = item.session_id or f"multi_turn_{number:06d}"
        history: tuple[tuple[str, str], ...] = ()
        for k, turn in enumerate(item.turns):
            history += ((turn.role, _text(turn, f"turns[{k}].")),)
            output = turn.output_length or DEFAULT_OUTPUT
            body = recorded(None, None, _extra(turn.extra, f"turns[{k}]."))
            yield Row(name, _size(history), output, turn.timestamp, turn.delay, (), history, body)
            history += (("assistant", _canned(name, k, output)),)

    return _rows(records, Multi, convert), Style("multi_turn")


class _Wrong(Exception):
    """What is wrong with a row beyond its schema."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.message, self.key = message, key


def _rows(records: Iterable[Record], kind: type[_T], convert: Callable[[_T, int], Iterator[Row]]) -> list[Row]:
    decoder = msgspec.json.Decoder(kind)
    found: list[Iterator[Row]] = []
    wrong: list[Problem] = []
    for number, record in enumerate(records):
        try:
            found.append(iter(list(convert(decoder.decode(record.data), number))))
        except msgspec.DecodeError as error:
            wrong += problems(record.data, kind, record.where) or [Problem(str(error), record.where)]
        except _Wrong as error:
            wrong.append(Problem(error.message, at_key(record.data, error.key, record.where), error.key))
        if len(wrong) > 100:
            break
    if wrong:
        raise InputError(wrong[:100])
    return list(chain.from_iterable(found))


def _mooncake_body(item: Mooncake) -> Recorded | None:
    """What of the row's own goes into the body."""
    if item.payload is None:
        if item.messages is not None and not item.messages:
            raise _Wrong("must not be empty", "messages")
        return recorded(item.messages, item.tools, _extra(item.extra))
    asked = msgspec.convert(item.payload, Payload)
    if (asked.messages is None) == (asked.prompt is None):
        raise _Wrong("needs exactly one of messages and prompt", "payload")
    if asked.messages == [] or asked.prompt in ("", []):
        raise _Wrong("must not be empty", "payload.messages" if asked.prompt is None else "payload.prompt")
    if asked.limit is not None and asked.limit < 1:
        raise _Wrong(f"asks for {asked.limit} tokens", "payload")
    return payload_of(item.payload, _extra(item.extra))


def _extra(extra: dict[str, Any] | None, path: str = "") -> dict[str, Any] | None:
    """Keys over those of a body. Raises for those that the replay itself decides."""
    if wrong := [key for key in OURS if key in (extra or {})]:
        raise _Wrong("is decided by the replay", f"{path}extra.{wrong[0]}")
    return extra


def _measured(asked: Payload) -> tuple[tuple[tuple[str, str], ...] | None, int]:
    """Texts and tokens of a whole body's prompt."""
    if asked.messages is not None:
        messages = texts_of(asked.messages)
        return messages, _size(messages)
    if isinstance(asked.prompt, str):
        return (("user", asked.prompt),), text_token_count(asked.prompt)
    ids = asked.prompt or []
    return (("user", " ".join(map(str, ids))),), len(ids)


def _check_sizes(ids: list[int], tokens: int, block_size: int, sizes: dict[int, int]) -> None:
    if not ids:
        return
    last = tokens - (len(ids) - 1) * block_size
    if last <= 0:
        raise _Wrong(f"{len(ids)} blocks of {block_size} are more than {tokens} tokens need", "hash_ids")
    for place, block in enumerate(ids):
        size = min(last, block_size) if place == len(ids) - 1 else block_size
        if sizes.setdefault(block, size) != size:
            raise _Wrong(f"block {block} has {size} tokens here and {sizes[block]} elsewhere", "hash_ids")


def _text(item: Single, path: str) -> str:
    if (item.text is None) == (item.texts is None):
        raise _Wrong("needs exactly one of text and texts", f"{path}text")
    return item.text if item.text is not None else " ".join(item.texts or [])


def _size(messages: Iterable[tuple[str, str]] | None) -> int:
    return sum(text_token_count(text) for _, text in messages or ())


def _canned(name: str, turn: int, tokens: int) -> str:
    """An answer of so many tokens by the byte model."""
    text = corpus_text()
    size = tokens * BYTES_PER_TOKEN
    start = sum(f"{name}:{turn}".encode()) * 997 % max(1, len(text) - size)
    return text[start : start + size]
