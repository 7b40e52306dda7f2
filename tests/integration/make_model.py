"""Writes a tiny Qwen3-shaped model folder without weights: `make_model.py FOLDER`.

For engines that make their weights up (`--load-format dummy`): two layers, 256 wide, and a tokenizer that maps every
byte to one token, so that lengths in bytes and in tokens are the same. The JSON of the tokenizer is written by hand
from its published format; nothing is downloaded and no library is needed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VOCABULARY = 32_000  # as many ids as prompts of token ids use
BEGIN, END = 256, 257
CONTEXT = 32768


def byte_symbols() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE: printable Latin-1 for itself, the rest
    from U+0100 on in order."""
    own = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    symbols, spare = [], 0x100
    for byte in range(256):
        symbols.append(chr(byte if byte in own else spare))
        spare += byte not in own
    return symbols


def tokenizer() -> dict[str, Any]:
    """tokenizer.json: 256 byte tokens, a beginning and an end, and fillers up to the vocabulary's size."""
    vocabulary = {symbol: index for index, symbol in enumerate(byte_symbols())}
    vocabulary |= {"<|begin|>": BEGIN, "<|end|>": END}
    vocabulary |= {f"<filler{index}>": index for index in range(END + 1, VOCABULARY)}
    special = [
        {
            "id": index,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, text in ((BEGIN, "<|begin|>"), (END, "<|end|>"))
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }


def files() -> dict[str, dict[str, Any]]:
    """Every file of the model folder."""
    ends = {"bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": END}
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        **ends,
    }
    template = "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}[assistant]"
    return {
        "config.json": config,
        "generation_config.json": ends,
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|begin|>",
            "eos_token": "<|end|>",
            "pad_token": "<|end|>",
            "model_max_length": CONTEXT,
            "chat_template": template,
        },
    }


def make_model(folder: Path) -> Path:
    """Write the model into `folder` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (folder / name).write_text(json.dumps(content))
    return folder


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))
