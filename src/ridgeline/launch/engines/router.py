"""What vllm-router's log says: by which key it spread requests, and over which workers."""

from __future__ import annotations

from ridgeline.launch.engines.shapes import Shape, shape, text

PARSER = "vllm-router/1"

SHAPES: tuple[Shape, ...] = (
    shape(
        "router_key_source",
        r"CONSISTENT_HASH_DEBUG: Extracted hash key: (header:[\w-]+|[\w.-]+)",
        text,
        needle="Extracted hash key",
        seen=True,
    ),
)
