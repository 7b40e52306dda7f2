"""Request bodies to what the engine needs, and refusals in vLLM's words. Pure: bytes in, a value or `Refusal` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ridgeline.trace.prompts.byte_model import chat_tokens, text_tokens

_NOTHING: Mapping[str, Any] = MappingProxyType({})
DEFAULT_ANSWER = 256  # tokens of an answer whose length nobody asked for: the model stops by itself


class Refusal(Exception):
    """The request cannot be served: status and message as the client gets them."""

    def __init__(
        self, message: str, status: int = 400, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": status}})


class Ask(NamedTuple):
    """A request: its tokens as bytes (four each) and how it wants to be answered."""

    chat: bool
    tokens: bytes
    max_tokens: int
    stream: bool
    include_usage: bool
    usage_always: bool  # usage in every chunk
    reason: str  # how the answer will end: "length", or "stop" when the model ends it
    transfer: Mapping[str, Any] = _NOTHING  # vLLM's `kv_transfer_params`: the KV is for, or comes from, another engine

    @property
    def prompt_tokens(self) -> int:
        return len(self.tokens) // 4


def parse(body: bytes, *, chat: bool, model: str | None, max_model_len: int) -> Ask:
    """A chat or text completion request, to any model where `model` is None. Raises Refusal."""
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Refusal(
            f"[{{'type': 'json_invalid', 'msg': 'JSON decode error', 'ctx': {{'error': '{error}'}}}}]"
        ) from error
    if not isinstance(data, dict):
        raise Refusal("the body must be a JSON object")
    asked = data.get("model")
    if None not in (asked, model) and asked != model:
        raise Refusal(f"The model `{asked}` does not exist.", 404, "NotFoundError", "model")
    if data.get("n", 1) not in (1, None):
        raise Refusal("only one choice per request is emulated", param="n")
    prompt = _chat(data) if chat else _text(data)
    stream = data.get("stream") is True
    options = data.get("stream_options")
    if options is not None and not stream:
        raise Refusal("Stream options can only be defined when `stream=True`.", param="stream_options")
    options = options if isinstance(options, dict) else {}
    count, reason = _answer_length(data, len(prompt) // 4, max_model_len)
    return Ask(
        chat=chat,
        tokens=prompt,
        max_tokens=count,
        stream=stream,
        include_usage=options.get("include_usage") is True,
        usage_always=options.get("continuous_usage_stats") is True,
        reason=reason,
        transfer=_transfer(data),
    )


def _transfer(data: Mapping[str, Any]) -> Mapping[str, Any]:
    found = data.get("kv_transfer_params")
    return found if isinstance(found, dict) else _NOTHING


def _chat(data: Mapping[str, Any]) -> bytes:
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal("`messages` must be a list of at least one message", param="messages")
    pairs = []
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str):
            raise Refusal(f"messages[{index}] needs a role", param="messages")
        pairs.append((role, _content(message.get("content"), index)))
    return chat_tokens(pairs).tobytes()


def _content(content: Any, index: int) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        if len(texts) == len(content):
            return "\n".join(texts)
    raise Refusal(f"the content of messages[{index}] must be text", param="messages")


def _text(data: Mapping[str, Any]) -> bytes:
    prompt = data.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (list, str)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        tokens = text_tokens(prompt).tobytes()
    elif isinstance(prompt, list):
        tokens = _ids(prompt)
    else:
        raise Refusal("`prompt` must be a text or a list of token ids", param="prompt")
    if not tokens:
        raise Refusal("The prompt must not be empty", param="prompt")
    return tokens


def _ids(prompt: Sequence[Any]) -> bytes:
    try:
        array = np.array(prompt, dtype=np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refusal("token ids must be integers, one prompt per request", param="prompt") from error
    if array.ndim != 1 or (len(array) and (array.min() < 0 or array.max() > 0x7FFFFFFF)):
        raise Refusal("token ids must be integers from 0 on, one prompt per request", param="prompt")
    return array.astype("<u4").tobytes()


def _answer_length(data: Mapping[str, Any], prompt: int, limit: int) -> tuple[int, str]:
    """Tokens to generate and the reason it will end with. The emulated model never ends an answer that has a length."""
    if prompt >= limit:
        raise Refusal(
            f"This model's maximum context length is {limit} tokens. However, your request has {prompt} input tokens. "
            "Please reduce the length of the input messages.",
            param="input_tokens",
        )
    asked = (
        data.get("max_completion_tokens") if data.get("max_completion_tokens") is not None else data.get("max_tokens")
    )
    if asked is None:
        if data.get("ignore_eos") is True:
            return limit - prompt, "length"
        return min(DEFAULT_ANSWER, limit - prompt), "stop"
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
        raise Refusal(f"max_tokens must be at least 1, got {asked}.", param="max_tokens")
    if asked > limit - prompt:
        raise Refusal(
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is "
            f"{limit} tokens and your request has {prompt} input tokens ({asked} > {limit} - {prompt}).",
            param="max_tokens",
        )
    return asked, "length"


def block_hashes(tokens: bytes, size: int) -> list[int]:
    """Chained hashes of the whole blocks of `size` tokens: equal exactly for equal beginnings. Python's own hash is
    enough, since the values never leave the process."""
    width, last = 4 * size, 0
    hashes = []
    for start in range(0, len(tokens) - width + 1, width):
        last = hash((last, tokens[start : start + width]))
        hashes.append(last)
    return hashes
