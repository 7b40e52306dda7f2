"""How answers of `ridgeline calc` are shown to people: named in words, with units, longest lists shortened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Answer's name -> words. Names that are not here are shown with spaces for their underscores.
WORDS = {
    "after_config": "sizes configured", "max_after_config": "largest configured", "final_sizes": "sizes captured",
    "final_max": "largest captured", "full_graphs": "full graphs", "piecewise_graphs": "piecewise graphs",
    "graphs": "graphs in all", "uniform_decode_mode_by_num_seqs": "decode runs as",
    "max_seqs_full_graph": "most sequences in a full graph", "first_uncovered_seqs": "first sequences without a graph",
    "first_seqs_without_full_graph": "first sequences without a full graph",
    "decode_fully_covered": "every decode batch has a graph", "decode_all_full": "every decode batch has a full graph",
    "max_pad_tokens": "most padding", "mean_pad_ratio": "padded tokens a real one",
    "max_tokens_mixed_graph": "largest mixed batch in a graph", "bytes_per_block": "bytes of a block",
    "needed_bytes": "bytes needed", "needed_gib": "needed", "pages_per_request": "pages of a longest request",
    "num_blocks": "blocks", "kv_tokens": "tokens", "max_concurrency": "longest requests that fit",
    "est_max_len": "longest request that would fit", "scheduler_block_size": "tokens a scheduler block",
    "hash_block_size": "tokens a block hash", "expert_padding": "expert widths are multiples of",
    "hc": "hyper-connections", "embed_lmhead": "embedding and head", "mtp_proj": "draft projections",
    "mtp_embed_head": "draft embedding and head", "buffers_gib": "constructor buffers, GiB",
    "parameters_total": "parameters", "parameters_active": "parameters of a token", "tuning_file": "table",
    "arch_match": "of this architecture", "model_match": "of this GPU", "table_built": "has rows for the shape",
    "matched_bucket": "row", "overflow": "more tokens than any row", "block_num": "blocks",
    "warp_num_per_block": "warps a block", "bucket_ratio": "row's tokens a token",
    "per_position": "accepted by position", "conditional": "given the one before", "num_spec_tokens": "draft tokens",
    "mtpr_class": "class of most tokens a rank", "p2p_quant": "combine is sent as",
}  # fmt: skip
GIB = {
    "needed_gib", "routed", "attention", "shared", "dense", "gate", "hc", "embed_lmhead", "mtp_proj", "mtp_embed_head",
    "norms", "total",
}  # fmt: skip
TOKENS = {"final_max", "max_after_config", "max_pad_tokens", "max_tokens_mixed_graph", "est_max_len", "matched_bucket"}
COLUMNS = {
    "n_layers": "layers", "kind": "kind", "block_size": "block", "pages_sizes": "page bytes", "max_pages": "pages",
    "is_eagle": "drafts", "acceptance_length": "length", "variant": "curve", "source": "source",
}  # fmt: skip


def shown(found: Mapping[str, Any]) -> str:
    """One answer: an error first, then a line a value, tables below."""
    lines = [f"error: {found['error']}"] if found.get("error") else []
    plain = {key: value for key, value in found.items() if key != "error" and not _nested(value)}
    names = {key: WORDS.get(key, key.replace("_", " ")) for key in found}
    width = max((len(names[key]) for key in plain), default=0) + 2
    for key, value in plain.items():
        if value not in (None, [], {}):
            lines.append(f"{names[key]:<{width}}{_value(key, value)}")
    for key, value in found.items():
        if _nested(value) and value:
            lines += ["", names[key], *_table(value)]
    return "\n".join(lines) + "\n"


def _nested(value: Any) -> bool:
    rows = isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    return rows or isinstance(value, Mapping)


def _table(value: Any) -> list[str]:
    """Rows of equal keys as columns, the pairs of one mapping as lines."""
    if isinstance(value, Mapping):
        width = max(len(key) for key in value) + 2
        return [f"  {key.replace('_', ' '):<{width}}{_value('', item)}" for key, item in value.items()]
    heads = list(value[0])
    rows = [[COLUMNS.get(key, key) for key in heads]]
    rows += [[_value("", row.get(key)) for key in heads] for row in value]
    widths = [max(len(row[index]) for row in rows) for index in range(len(heads))]
    return ["  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "uniform_decode_mode_by_num_seqs":
        return "; ".join(f"{mode} for {_span(first, last)}" for first, last, mode in value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _list(value)
    text = f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{value:.3f} GiB" if key in GIB else f"{text} tokens" if key in TOKENS else text


def _span(first: int, last: int) -> str:
    return f"{first} to {last} sequences" if last > first else f"{first} sequence{'s' if first > 1 else ''}"


def _list(items: Sequence[Any]) -> str:
    texts = [_value("", item) for item in items]
    if len(texts) <= 16:
        return ", ".join(texts)
    return f"{', '.join(texts[:6])}, …, {', '.join(texts[-3:])} ({len(texts)} values)"
