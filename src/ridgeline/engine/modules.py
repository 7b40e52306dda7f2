"""Which Python modules a launch needs beyond the engine itself: kernels, collectives and KV transfer, by the names of
the backends that its command line asks for. What an engine carries inside itself is not here."""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.engine.launch import Launch

# (beginning of a backend's name, modules). The first that fits counts.
_MOE = (
    ("aiter_mega_moe", ("aiter", "flydsl")), ("flydsl", ("aiter", "flydsl")), ("aiter", ("aiter",)),
    ("deep_gemm", ("deep_gemm",)), ("deepgemm", ("deep_gemm",)), ("megamoe", ("deep_gemm",)),
    ("flashinfer", ("flashinfer",)), ("triton", ("triton",)),
)  # fmt: skip
_ALL2ALL = (
    ("deepep", ("deep_ep",)), ("mori", ("mori",)), ("pplx", ("pplx_kernels",)), ("flashinfer", ("flashinfer",)),
    ("mooncake", ("mooncake",)), ("nixl", ("nixl",)), ("megamoe", ("deep_gemm",)),
)  # fmt: skip
_ATTENTION = (("flashinfer", ("flashinfer",)), ("rocm_aiter", ("aiter",)), ("aiter", ("aiter",)))
_CONNECTORS = (("lmcache", ("lmcache",)), ("mooncake", ("mooncake",)), ("nixl", ("nixl",)))
# Flags of either engine and what their values need.
_FLAGS = (
    ("moe-backend", _MOE), ("moe-runner-backend", _MOE), ("all2all-backend", _ALL2ALL), ("moe-a2a-backend", _ALL2ALL),
    ("attention-backend", _ATTENTION), ("disaggregation-transfer-backend", _CONNECTORS),
)  # fmt: skip


def modules_of(launch: Launch) -> dict[str, str]:
    """Module -> what asks for it, in the order of the command line's kinds of backends."""
    found: dict[str, str] = {}
    for asked, table in _asked(launch):
        low = asked.lower()
        modules = next((modules for start, modules in table if low.startswith(start)), ())
        for module in modules:
            found.setdefault(module, f"`{asked}`")
    return found


def _asked(launch: Launch) -> Iterator[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]]:
    for name, table in _FLAGS:
        flag = launch.flags.get(name)
        if flag is not None and flag.value:
            yield flag.value, table
    yield str(launch.connector.get("kv_connector") or ""), _CONNECTORS
