"""R1 to R6: the router in front of data-parallel ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ridgeline.core.deployment import Service
from ridgeline.core.where import Where
from ridgeline.engine.argv import Flag, flags_of, last
from ridgeline.engine.routing import DEFAULT_POLICY, router_kind
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject
from ridgeline.recipes.router import SESSION_HEADER

POLICIES = ("random", "round_robin", "cache_aware", "power_of_two", "consistent_hash")
STICKY = ("consistent_hash", "consistent_hashing")  # vLLM's router and SGLang's
DEFAULT_TIMEOUT_S, DEFAULT_STARTUP_S = 1800, 600
LONGEST_TURN_S = 1800
SLOWEST_START_S = 1800  # loading hundreds of GiB takes longer than the router's own patience


class _Router(NamedTuple):
    service: Service
    flags: Mapping[str, Flag]
    kind: str | None  # None: not one whose flags are known

    def where(self, name: str) -> Where | None:
        """The place of a flag, else of the command."""
        own = self.flags[name].where if name in self.flags else None
        return own or next((item.origin for item in self.service.argv if item.origin), None)

    def number(self, name: str, default: float) -> float | None:
        value = self.flags[name].value if name in self.flags else None
        try:
            return default if value is None else float(value)
        except ValueError:
            return None


def _router(subject: Subject) -> _Router | None:
    service = subject.router
    if service is None:
        return None
    kind = router_kind(service)
    return _Router(service, last(flags_of(service.argv)[1]), kind if kind in SESSION_HEADER else None)


def _ranks(subject: Subject) -> int:
    return max((launch.ranks for launch in subject.launches), default=1)


def affinity(subject: Subject) -> Said:
    """R1: sessions come back to the rank that holds their cache."""
    named, found, ranks = subject.cell.arm.router, _router(subject), _ranks(subject)
    if found is None:
        if named is not None and subject.deployment is not None:
            yield fails(f"the search space names router {named.name}, the deployment starts none")
        elif ranks > 1:
            text = f"{ranks} ranks behind the engine's own balancer: sessions do not stick to a rank's cache"
            where = subject.launches[0].where("data-parallel-size")
            yield warns(text, hint="a router with --policy consistent_hash", where=where)
        return
    where, flag = found.where("policy"), found.flags.get("policy")
    if found.kind is None:
        said = " ".join(item.text for item in found.service.argv[:3])
        yield unknown(f"how `{said}` spreads sessions is not known here", where=where)
        return
    policy = DEFAULT_POLICY if flag is None else flag.value or ""
    header = SESSION_HEADER[found.kind]
    sent = subject.deployment.session_header if subject.deployment else None
    if found.kind == "vllm-router" and policy not in POLICIES:
        yield fails(f"`{policy}` is not a policy", ", ".join(POLICIES), where=where)
    elif policy in STICKY and header.lower() in ("x-session-id", (sent or "").lower()):
        yield passes(f"sessions stick to a rank by {header}, which the replay sends", where=where)
    elif policy in STICKY:
        yield fails(f"the router keys sessions on {header}, and nothing sends it", where=where)
    elif policy in ("random", "round_robin", "power_of_two"):
        text = f"`{policy}` spreads a session over all ranks: each builds its own cache"
        yield warns(text, hint=f"--policy {STICKY[found.kind != 'vllm-router']}", where=where)
    else:
        yield passes(f"policy `{policy}`", where=where)


def expansion(subject: Subject) -> Said:
    """R2: the router knows how many ranks there are."""
    found, ranks, name = _router(subject), _ranks(subject), "intra-node-data-parallel-size"
    if found is None or found.kind is None:
        return
    where = found.where(name)
    given = found.number(name, 1)
    if "dp-aware" in found.flags:
        yield passes("the router asks each worker for its ranks", where=where)
    elif given == ranks:
        yield passes(f"{ranks} ranks on both sides", where=where)
    elif found.kind == "vllm-router":
        text = f"the router expands to {given:g} ranks, the engine has {ranks}" if given else f"--{name} is no number"
        yield fails(text, hint=f"--{name} {ranks}", where=where)
    else:
        text = f"the engine spreads requests over its {ranks} ranks itself: sessions do not stick to one"
        yield warns(text, hint="--dp-aware", where=where)


def timeouts(subject: Subject) -> Said:
    """R3: the router waits as long as a turn, and as a start, may take."""
    found = _router(subject)
    if found is None or found.kind is None:
        return
    where = found.where("request-timeout-secs")
    request = found.number("request-timeout-secs", DEFAULT_TIMEOUT_S)
    start = found.number("worker-startup-timeout-secs", DEFAULT_STARTUP_S)
    if request is None or start is None:
        yield fails("a time-out is not a number", where=where)
        return
    sums = f"request {request:g} s (a turn may take {LONGEST_TURN_S}), start {start:g} s"
    if request < LONGEST_TURN_S:
        hint = f"--request-timeout-secs {LONGEST_TURN_S}"
        yield fails("the router gives up before the longest turn ends", sums, hint, where=where)
    elif start < SLOWEST_START_S and not found.service.after:
        hint = f"--worker-startup-timeout-secs {SLOWEST_START_S}, or start it after the engine"
        yield warns("the router may give up while the engine still loads", sums, hint, where=where)
    else:
        yield passes("the router waits long enough", sums, where=where)


def retries(subject: Subject) -> Said:
    """R4: errors stay visible, and load is not doubled."""
    found = _router(subject)
    if found is None or found.kind != "vllm-router":
        return
    where = found.where("disable-retries")
    if "disable-retries" not in found.flags:
        yield warns("up to five retries hide errors and count work twice", hint="--disable-retries", where=where)
    elif not {"disable-circuit-breaker", "cb-failure-threshold"} & found.flags.keys():
        hint = "--disable-circuit-breaker, or set its threshold"
        yield warns("the circuit breaker may eject a saturated rank (10 failures in 60 s)", hint=hint, where=where)
    else:
        yield passes("no retries, and the breaker is decided", where=where)


def ports(subject: Subject) -> Said:
    """R5: nobody wants another's port."""
    if subject.deployment is None or not subject.launches:
        return
    wanted = [
        (int(flag.value), flag.where)
        for service in subject.deployment.services
        for flag in flags_of(service.argv)[1]
        if flag.name.endswith("port") and flag.value and flag.value.isdigit()
    ]
    counts, places = Counter(number for number, _ in wanted), dict(wanted)
    wrong = {number: f"two services want port {number}" for number, count in counts.items() if count > 1}
    wrong |= {number: f"{number} is no port" for number in counts if not 0 < number <= 65535}
    for number, text in wrong.items():
        yield fails(text, where=places[number])
    if wanted and not wrong:
        numbers = f"port{'s' if len(counts) > 1 else ''} {', '.join(map(str, sorted(counts)))}"
        hint = "{port:NAME} is filled in at launch with a free one"
        yield warns(f"fixed {numbers} may be taken on a shared host", hint=hint, where=wanted[0][1])
    elif not wanted:
        yield passes("ports are chosen at launch", where=subject.launches[0].where("port"))


def version(subject: Subject) -> Said:
    """R6: the router that is started is the one that is named."""
    router = subject.cell.arm.router
    if router is not None and router.version is None:
        yield unknown(f"router {router.name} has no version in the search space")


_READ = "vllm-router 0.1.14, its command line"
RULES = (
    Rule("R1", "Sessions stick to a rank", affinity, "Each rank has a cache of its own; a session that moves starts "
         "cold.", _READ,
         "consistent_hash keys on x-session-id; without a session header it hashes the prompt text. SGLang's router "
         "keys on X-SMG-Routing-Key.", whole=True),
    Rule("R2", "The router knows the ranks", expansion, "A router that expands to fewer ranks leaves GPUs idle.", _READ,
         "DP8 behind --intra-node-data-parallel-size 4: four ranks never get a request.", whole=True),
    Rule("R3", "The router waits long enough", timeouts, "Its defaults are 1,800 s a request and 600 s for a start.",
         _READ, "--request-timeout-secs 600 cuts long agentic turns.", whole=True),
    Rule("R4", "No silent retries", retries, "A retried request counts twice and its error is never seen.", _READ,
         "Default: five retries, breaker after 10 failures in 60 s.", whole=True),
    Rule("R5", "Ports are disjoint", ports, "Two services on one port: the second dies or, worse, answers for the "
         "first.", "Deployments", "Router and engine both on 8888.", whole=True),
    Rule("R6", "The router's version is pinned", version, "Hashing and retries change between versions.",
         "InferenceX's config format", "router: {name: vllm-router} without a version is UNKNOWN.", whole=True),
)  # fmt: skip
