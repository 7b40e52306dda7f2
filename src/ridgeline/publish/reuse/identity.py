"""What may stand once among the results of a run: identities of fixed-sequence rows, agentic points and evaluations.

Rows come from benchmark results (lower-case names) or from environments (upper case, other names for sizes), and values
from either JSON or text; both give the same identity. Sizes that nobody wrote are 1, as in InferenceX's rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Identity = tuple[Any, ...]
Row = Mapping[str, Any]
_SIZES = ("tp", "pp", "dcp_size", "pcp_size", "ep")
_ALSO = {"dcp_size": ("dcp",), "pcp_size": ("pcp",), "ep": ("ep_size",), "dp_attention": ("dp_attn",)}
_HALVES = re.compile(r"prefill=([^,]*),\s*decode=(.*)")


def fixed(row: Row) -> Identity:
    """Of a fixed-sequence result."""
    lengths = (_value(_any(row, "isl")), _value(_any(row, "osl")))
    return (*_about(row), _text(row, "spec_decoding"), _flag(row, "disagg"), *lengths, *_layout(row))


def agentic(row: Row) -> Identity:
    """Of an agentic point: how its cache is offloaded tells points apart."""
    backend = _any(row, "kv_offload_backend")
    name = backend.get("name") if isinstance(backend, Mapping) else backend
    multi = (_text(row, "spec_decoding"), _flag(row, "disagg")) if _flag(row, "is_multinode") else ()
    return (*_about(row), *multi, *_layout(row), _text(row, "kv_offloading"), name)


def evaluation(row: Row, conc: int | None = None) -> Identity:
    """Of an evaluation; lengths default to the evaluated ones. `conc`: of a batch's file, in place of the row's."""
    hardware, model, framework, precision = _about(row)
    lengths = (_value(_any(row, "isl")) or 8192, _value(_any(row, "osl")) or 1024)
    about = (str(hardware or "").lower(), model, str(framework).lower(), str(precision).lower())
    return (*about, _text(row, "spec_decoding"), *lengths, *_layout(row if conc is None else {**row, "conc": conc}))


def _about(row: Row) -> Identity:
    model = _any(row, "infmax_model_prefix", "model_prefix")
    return _any(row, "hw", "runner_type"), model, _any(row, "framework"), _any(row, "precision")


def _layout(row: Row) -> Identity:
    conc = _value(_any(row, "conc"))
    if _flag(row, "is_multinode"):
        return (True, *(one for side in (0, 1) for one in _half(row, side)), conc)
    sizes = (_value(_any(row, name, *_ALSO.get(name, ()))) or 1 for name in _SIZES)
    return (False, *sizes, _value(_any(row, "dp_attention", "dp_attn")) is True, conc)


def _half(row: Row, side: int) -> Identity:
    """One side of a multi-node row: its own fields, else the side's part of a field for both."""
    prefix = ("prefill", "decode")[side]

    def value(name: str) -> Any:
        names = (name, *_ALSO.get(name, ()))
        found = _any(row, *(f"{prefix}_{one}" for one in names))
        if found is None:
            found = _any(row, *names)
            halves = _HALVES.fullmatch(found) if isinstance(found, str) else None
            found = halves[side + 1] if halves else found
        return _value(found)

    sizes = (1 if (found := value(name)) is None else found for name in _SIZES)
    return (*sizes, value("dp_attention") is True, _value(_any(row, f"{prefix}_num_workers")))


def _value(value: Any) -> Any:
    text = str(value).lower() if value is not None else ""
    return {"true": True, "false": False, "": None}.get(text, int(text) if text.isascii() and text.isdigit() else text)


def _flag(row: Row, name: str) -> bool:
    return _value(_any(row, name)) is True


def _text(row: Row, name: str) -> str:
    return str(_any(row, name) or "none").lower()


def _any(row: Row, *names: str) -> Any:
    """The first of the names that is there, in lower or upper case: metadata is written from environments."""
    for name in names:
        for spelled in (name, name.upper()):
            if row.get(spelled) is not None:
                return row[spelled]
    return None
