"""Every rule, in the order of the catalogue."""

from __future__ import annotations

from ridgeline.plan.checks import accepted, graphs, host, memory, offload, policy, router, speculation, tuning
from ridgeline.plan.checks.rule import Rule

FAMILIES = {
    "memory": (*memory.RULES, *host.RULES),
    "graphs": graphs.RULES,
    "speculation": speculation.RULES,
    "acceptance by the build": accepted.RULES,
    "kernel tuning": tuning.RULES,
    "router": router.RULES,
    "offload": offload.RULES,
    "policy": policy.RULES,
}
CATALOGUE: tuple[Rule, ...] = tuple(rule for rules in FAMILIES.values() for rule in rules)


def rule_called(name: str) -> Rule | None:
    """The rule with this id, in any letter case."""
    return next((rule for rule in CATALOGUE if rule.id.lower() == name.lower()), None)
