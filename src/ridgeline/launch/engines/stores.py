"""What the logs of KV stores (LMCache's server, Mooncake's master) say when they lose what they were given.

Words from LMCache 0.5.6 and Mooncake 0.3.13; logs of sound starts of both have been read, and none of trouble.
"""

from __future__ import annotations

from ridgeline.launch.engines.shapes import Shape, shape, whole

PARSER = "kv-store/1"

SHAPES: tuple[Shape, ...] = (
    shape("store_trouble", r"(?i)\b\w*evict\w*\b.{0,60}\b(?:failed|error)\b.*", whole, needle=""),
    shape("store_trouble", r"(?i)\b(?:read.?)?(?:lock|lease)\w* (?:has |have )?expired\b.*", whole, needle=""),
    shape("store_trouble", r"(?i)out of .{0,30}memory after eviction.*|NO_AVAILABLE_HANDLE.*", whole, needle=""),
)
