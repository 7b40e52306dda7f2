"""How requests spread over engines and their data-parallel ranks, read from the router's command line and the engine's.

In: a router service or None, and a launch. Out: policies of the engine model (`options.ROUTERS`), over engines and over
the ranks of one. A router that does not know the ranks, or none, leaves them to the engine's own balancer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ridgeline.core.deployment import Service
from ridgeline.engine.argv import Flag, flags_of, last
from ridgeline.engine.launch import Launch

# A router's name -> words of its command line.
KINDS = {
    "vllm-router": ("vllm-router", "vllm_router"),
    "sglang-router": ("launch_router", "sglang_router"),
    "dynamo-router": ("dynamo.frontend",),
}
DEFAULT_POLICY = "cache_aware"  # of vLLM's router and SGLang's
# Policies of routers as the engine model has them. Chance is taken as turns, two choices as all: both a little better.
POLICIES = {
    "consistent_hash": "session", "consistent_hashing": "session", "manual": "session", "cache_aware": "cache-aware",
    "round_robin": "round-robin", "random": "round-robin", "power_of_two": "least-loaded",
    "kv": "cache-aware", "round-robin": "round-robin", "least-loaded": "least-loaded", "direct": "session",
}  # fmt: skip
APPROXIMATED = ("random", "power_of_two")


class Spread(NamedTuple):
    """Policies of the engine model; `note`: what is taken for something else, or nothing."""

    engines: str
    ranks: str
    note: str = ""


def router_kind(service: Service) -> str | None:
    """Which router a service is; None: one whose flags are not known here."""
    text = " ".join(item.text for item in service.argv)
    return next((kind for kind, names in KINDS.items() if any(name in text for name in names)), None)


def spread(router: Service | None, launch: Launch) -> Spread:
    """How requests of sessions, which every request names, reach a rank of `launch`."""
    own = _own(launch)
    if router is None:
        return Spread(own, own)
    kind, flags = router_kind(router), last(flags_of(router.argv)[1])
    if kind is None:
        said = " ".join(item.text for item in router.argv[:3])
        return Spread("session", own, f"how `{said}` spreads sessions is not known: taken to keep them together")
    policy = _value(flags, "router-mode", "round-robin") if kind == "dynamo-router" else _value(
        flags, "policy", DEFAULT_POLICY
    )  # fmt: skip
    found = POLICIES.get(policy)
    note = f"`{policy}` is taken as {found}" if policy in APPROXIMATED else ""
    if found is None:
        found, note = "cache-aware", f"router policy `{policy}` is not modelled: taken as {DEFAULT_POLICY}"
    knows = {
        "vllm-router": _value(flags, "intra-node-data-parallel-size", "1") != "1",
        "sglang-router": "dp-aware" in flags,
        "dynamo-router": policy == "kv",
    }[kind]
    return Spread(found, found if knows or launch.ranks == 1 else own, note)


def _own(launch: Launch) -> str:
    """The engine's own balancer: SGLang takes turns unless told otherwise, vLLM looks at the load."""
    if launch.ranks == 1:
        return "session"
    method = _value(launch.flags, "load-balance-method", "round_robin")
    turns = launch.build.kind == "sglang" and method in ("round_robin", "auto")
    return "round-robin" if turns else "least-loaded"


def _value(flags: Mapping[str, Flag], name: str, default: str) -> str:
    flag = flags.get(name)
    return default if flag is None or flag.value is None else flag.value
