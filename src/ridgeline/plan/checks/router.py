"""R1 to R5: the router in front of data-parallel ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ridgeline.core.deployment import Service
from ridgeline.core.where import Where
from ridgeline.engine.argv import Flag, flags_of, last
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject

POLICIES = ("random", "round_robin", "cache_aware", "power_of_two", "consistent_hash")
DEFAULT_POLICY, DEFAULT_TIMEOUT_S, DEFAULT_STARTUP_S = "cache_aware", 1800, 600
LONGEST_TURN_S = 1800
SLOWEST_START_S = 1800  # loading hundreds of GiB takes longer than the router's own patience


def _router(subject: Subject) -> tuple[Service, Mapping[str, Flag]] | None:
    service = subject.router
    return None if service is None else (service, last(flags_of(service.argv)[1]))


def _is(service: Service, *names: str) -> bool:
    """Whether the command is one of these programs."""
    return any(name in item.text for item in service.argv for name in names)


def _place(service: Service, flags: Mapping[str, Flag], name: str) -> Where | None:
    if name in flags:
        return flags[name].where
    return next((item.origin for item in service.argv if item.origin), None)


def affinity(subject: Subject) -> Said:
    """R1: sessions come back to the rank that holds their cache."""
    arm = subject.cell.arm
    found = _router(subject)
    ranks = max((launch.ranks for launch in subject.launches), default=1)
    if found is None:
        if arm.router is not None and subject.deployment is not None:
            yield fails(
                f"the search space names router {arm.router.name}, the deployment starts none", where=subject.cell.where
            )
        elif ranks > 1:
            yield warns(
                f"{ranks} ranks behind the engine's own balancer: sessions do not stick to a rank's cache",
                where=subject.launches[0].where("data-parallel-size"),
                hint="a router with --policy consistent_hash",
            )
        return
    service, flags = found
    if not _is(service, "vllm-router", "vllm_router", "launch_router", "sglang_router"):
        said = " ".join(item.text for item in service.argv[:3])
        yield unknown(f"how `{said}` spreads sessions is not known here", where=_place(service, flags, "policy"))
        return
    policy = (flags["policy"].value or "") if "policy" in flags else DEFAULT_POLICY
    where = _place(service, flags, "policy")
    if policy not in POLICIES and not _is(service, "launch_router", "sglang_router"):
        yield fails(f"`{policy}` is not a policy", ", ".join(POLICIES), where=where)
    elif policy == "consistent_hash":
        yield passes("sessions stick to a rank by their session header, which the replay sends", where=where)
    elif policy in ("random", "round_robin", "power_of_two"):
        yield warns(
            f"`{policy}` spreads a session over all ranks: each builds its own cache",
            where=where,
            hint="--policy consistent_hash",
        )
    else:
        yield passes(f"policy `{policy}`", where=where)


def expansion(subject: Subject) -> Said:
    """R2: the router knows how many ranks there are."""
    found = _router(subject)
    if found is None or not _is(found[0], "vllm-router", "vllm_router", "launch_router", "sglang_router"):
        return
    service, flags = found
    where = _place(service, flags, "intra-node-data-parallel-size")
    ranks = max((launch.ranks for launch in subject.launches), default=1)
    if "dp-aware" in flags:
        yield passes("the router asks each worker for its ranks", where=where)
        return
    flag = flags.get("intra-node-data-parallel-size")
    given = int(flag.value) if flag and flag.value and flag.value.isdigit() else 1
    if given != ranks and not _is(service, "vllm-router", "vllm_router"):
        text = f"the engine spreads requests over its {ranks} ranks itself: sessions do not stick to one"
        yield warns(text, where=where, hint="--dp-aware")
    elif given != ranks:
        yield fails(
            f"the router expands to {given} ranks, the engine has {ranks}",
            where=where,
            hint=f"--intra-node-data-parallel-size {ranks}",
        )
    else:
        yield passes(f"{ranks} ranks on both sides", where=where)


def _number(flags: Mapping[str, Flag], name: str, default: float) -> float | None:
    value = flags[name].value if name in flags else None
    try:
        return default if value is None else float(value)
    except ValueError:
        return None


def timeouts(subject: Subject) -> Said:
    """R3: the router waits as long as a turn, and as a start, may take."""
    found = _router(subject)
    if found is None or not _is(found[0], "vllm-router", "vllm_router", "launch_router", "sglang_router"):
        return
    service, flags = found
    request, start = (
        _number(flags, "request-timeout-secs", DEFAULT_TIMEOUT_S),
        _number(flags, "worker-startup-timeout-secs", DEFAULT_STARTUP_S),
    )
    where = _place(service, flags, "request-timeout-secs")
    if request is None or start is None:
        yield fails("a time-out is not a number", where=where)
        return
    sums = f"request {request:g} s (a turn may take {LONGEST_TURN_S}), start {start:g} s"
    if request < LONGEST_TURN_S:
        yield fails(
            "the router gives up before the longest turn ends",
            sums,
            where=where,
            hint=f"--request-timeout-secs {LONGEST_TURN_S}",
        )
    elif start < SLOWEST_START_S and not service.after:
        yield warns(
            "the router may give up while the engine still loads",
            sums,
            where=where,
            hint=f"--worker-startup-timeout-secs {SLOWEST_START_S}, or start it after the engine",
        )
    else:
        yield passes("the router waits long enough", sums, where)


def retries(subject: Subject) -> Said:
    """R4: errors stay visible, and load is not doubled."""
    found = _router(subject)
    if found is None or not _is(found[0], "vllm-router", "vllm_router"):
        return
    service, flags = found
    where = _place(service, flags, "disable-retries")
    if "disable-retries" not in flags:
        yield warns("up to five retries hide errors and count work twice", where=where, hint="--disable-retries")
    elif "disable-circuit-breaker" not in flags and "cb-failure-threshold" not in flags:
        yield warns(
            "the circuit breaker may eject a saturated rank (10 failures in 60 s)",
            where=where,
            hint="--disable-circuit-breaker, or set its threshold",
        )
    else:
        yield passes("no retries, and the breaker is decided", where=where)


def ports(subject: Subject) -> Said:
    """R5: nobody wants another's port."""
    if subject.deployment is None or not subject.launches:
        return
    wanted: Counter[int] = Counter()
    places: dict[int, Where | None] = {}
    for service in subject.deployment.services:
        for flag in flags_of(service.argv)[1]:
            if flag.name.endswith("port") and flag.value and flag.value.isdigit():
                number = int(flag.value)
                wanted[number] += 1
                places[number] = flag.where
    clashes = [number for number, count in wanted.items() if count > 1]
    high = [number for number in wanted if not 0 < number <= 65535]
    for number in clashes:
        yield fails(f"two services want port {number}", where=places[number])
    for number in high:
        yield fails(f"{number} is no port", where=places[number])
    if wanted and not clashes and not high:
        yield warns(
            f"fixed port{'s' if len(wanted) > 1 else ''} {', '.join(map(str, sorted(wanted)))} may be taken on a "
            "shared host",
            where=next(iter(places.values())),
            hint="{port:NAME} is filled in at launch with a free one",
        )
    elif not wanted:
        yield passes("ports are chosen at launch", where=subject.launches[0].where("port"))


def version(subject: Subject) -> Said:
    """R2's twin for packages: the router that is started is the one that is named."""
    router = subject.cell.arm.router
    if router is not None and router.version is None:
        yield unknown(f"router {router.name} has no version in the search space", where=subject.cell.where)


_READ = "vllm-router 0.1.14, its command line"
RULES = (
    Rule("R1", "Sessions stick to a rank", affinity, "Each rank has a cache of its own; a session that moves starts "
    "cold.", _READ,
         "consistent_hash keys on x-session-id; without a session header it hashes the prompt text."),
    Rule("R2", "The router knows the ranks", expansion, "A router that expands to fewer ranks leaves GPUs idle.", _READ,
         "DP8 behind --intra-node-data-parallel-size 4: four ranks never get a request."),
    Rule("R3", "The router waits long enough", timeouts, "Its defaults are 1,800 s a request and 600 s for a start.",
         _READ, "--request-timeout-secs 600 cuts long agentic turns."),
    Rule("R4", "No silent retries", retries, "A retried request counts twice and its error is never seen.", _READ,
         "Default: five retries, breaker after 10 failures in 60 s."),
    Rule("R5", "Ports are disjoint", ports, "Two services on one port: the second dies or, worse, answers for the "
    "first.", "Deployments",
         "Router and engine both on 8888."),
    Rule("R6", "The router's version is pinned", version, "Hashing and retries change between versions.",
         "InferenceX's config format", "router: {name: vllm-router} without a version is UNKNOWN."),
)  # fmt: skip
