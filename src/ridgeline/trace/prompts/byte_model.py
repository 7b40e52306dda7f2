"""The byte model: how many tokens a text has when no tokenizer is at hand, and which.

Four bytes of UTF-8 are one token, the last of a text may be short. A chat message costs three tokens before its
content and one after it, and a chat prompt ends with the three that open the answer. The emulated engine counts with
these functions and the byte prompts are built for them, so what a prompt costs there is known exactly beforehand.
Token values are the bytes themselves (little-endian), specials lie where no UTF-8 text can reach.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BYTES_PER_TOKEN = 4
HEADER_TOKENS, END_TOKENS = 3, 1
MESSAGE_TOKENS = HEADER_TOKENS + END_TOKENS
GENERATION_TOKENS = HEADER_TOKENS
ROLES = ("system", "user", "assistant", "tool", "developer")
_SPECIAL = 0xFFFFFF00  # bytes 0xFF do not occur in UTF-8
_END = 0xFFFFFFFF


def text_token_count(content: str | bytes) -> int:
    """Tokens of a plain text: ceil(bytes / 4)."""
    size = len(content.encode()) if isinstance(content, str) else len(content)
    return -(-size // BYTES_PER_TOKEN)


def text_tokens(content: str | bytes) -> NDArray[np.uint32]:
    """Token values of a plain text."""
    data = content.encode() if isinstance(content, str) else content
    padding = -len(data) % BYTES_PER_TOKEN
    return np.frombuffer(data + b"\0" * padding if padding else data, dtype="<u4")


def chat_token_count(messages: Iterable[tuple[str, str | bytes]]) -> int:
    """Tokens of a chat prompt of (role, content): 4 a message and its content, then 3 that open the answer."""
    return sum(MESSAGE_TOKENS + text_token_count(content) for _, content in messages) + GENERATION_TOKENS


def chat_tokens(messages: Iterable[tuple[str, str | bytes]]) -> NDArray[np.uint32]:
    """Token values of a chat prompt. Equal prefixes of two prompts are equal prefixes of these."""
    parts = []
    for role, content in messages:
        parts += [header(role), text_tokens(content), end()]
    return np.concatenate([*parts, header("assistant")])


def header(role: str) -> NDArray[np.uint32]:
    """The three tokens that open a message."""
    number = ROLES.index(role) if role in ROLES else len(ROLES) + zlib.crc32(role.encode()) % 50
    first = _SPECIAL + HEADER_TOKENS * number
    return np.arange(first, first + HEADER_TOKENS, dtype=np.uint32)


def end() -> NDArray[np.uint32]:
    """The token that ends a message."""
    return np.array([_END], dtype=np.uint32)
