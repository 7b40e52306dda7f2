"""O1 to O3: KV that is moved to host memory, and the services that hold it."""

from __future__ import annotations

from ridgeline.core.finding import Expectation
from ridgeline.engine.hosting import offload_of
from ridgeline.engine.launch import Launch
from ridgeline.engine.sizing import launch_plan
from ridgeline.plan.checks.rule import Rule, Said, fails, passes, unknown, warns
from ridgeline.plan.checks.subject import Subject

# Connectors that need a service of their own, by a part of their name.
SERVED = {"lmcache": "LMCache", "mooncake": "Mooncake"}


def readiness(subject: Subject, launch: Launch) -> Said:
    """O1: the service that holds the cache is there, and answers before the engine starts."""
    name, asked = offload_of(launch), subject.cell.arm.kv_offloading
    if asked != "none" and not name:
        yield fails(f"the cell asks for KV offloading `{asked}`, the command line has none")
    if name and asked == "none" and launch.service.role == "engine":
        yield fails(f"the command line offloads KV (`{name}`), the cell says none")
    kind = next((text for word, text in SERVED.items() if word in name.lower()), None)
    if kind is None or subject.deployment is None:
        return
    stores = [service for service in subject.deployment.services if service.role == "cache"]
    late = ", ".join(store.name for store in stores if store.name not in launch.service.after)
    blind = ", ".join(store.name for store in stores if store.readiness is None)
    if not stores and kind == "Mooncake":
        yield unknown(f"`{name}` may run embedded: no {kind} service is started here")
    elif not stores:
        yield fails(f"`{name}` needs {kind}, and no service of the deployment is one")
    elif late or blind:
        what = f"{late} not waited for" if late else f"{blind} without a readiness probe"
        yield warns(f"the engine may start before {kind} answers: {what}")
    else:
        yield passes(f"{kind} answers before the engine starts")


def used(subject: Subject, launch: Launch) -> Said:
    """O2: offloading can be used, and the run must show that it was."""
    name, seed = offload_of(launch), "PYTHONHASHSEED"
    if not name:
        return
    if launch.hicache_gb is not None and subject.arch.family.startswith("deepseek_v4"):
        text = "SGLang refuses --hicache-size for this model's cache: only a ratio is taken"
        yield fails(text, hint="--hicache-ratio", where=launch.where("hicache-size"))
        return
    if not launch.prefix_caching:
        text = f"`{name}` needs prefix caching, which is off: it disables itself without telling the benchmark"
        yield fails(text, hint="remove --no-enable-prefix-caching")
        return
    if launch.ranks > 1 and name not in ("native", "hicache") and seed not in launch.env:
        text = f"ranks hash blocks differently without a fixed {seed}: nothing is shared"
        yield warns(text, hint=f"{seed}=0")
    else:
        yield passes(f"`{name}` can serve hits")
    yield Expectation("external_hit", ">", 0.0)


def groups(subject: Subject, launch: Launch) -> Said:
    """O3: the connector takes a model with several cache groups."""
    name, dump = offload_of(launch), subject.dump()
    plan, _ = launch_plan(subject.arch, launch)
    if not name or plan is None:
        return
    connector = str(launch.connector.get("kv_connector") or "")
    if len(plan.groups) == 1:
        yield passes("one cache group, which every connector takes")
    elif dump is not None and dump.connectors is not None and connector and connector not in dump.connectors:
        yield fails(f"{dump.name} has no connector `{connector}`", hint=", ".join(sorted(dump.connectors)))
    else:
        text = f"this model has {len(plan.groups)} cache groups; whether `{name}` keeps the hybrid manager on is only "
        yield unknown(f"{text}seen at a start", hint="look for `Hybrid KV cache manager is disabled` in the log")


_AT = ("kv-transfer-config", "kv-offloading-backend", "kv-offloading-size", "enable-hierarchical-cache")
RULES = (
    Rule("O1", "The cache service answers first", readiness, "A store that is merely alive loses the first writes, "
         "or the engine dies.", "InferenceX's recipes and vLLM's connectors, read",
         "Mooncake started with `sleep` and `kill -0`: liveness, not readiness.", at=_AT),
    Rule("O2", "Offloading can be used", used, "Offloading disables itself without prefix caching, and nothing is "
         "shared when ranks hash differently.", "vLLM 0.26, read",
         "A dram arm with no external hit is a `none` arm with more noise.", at=_AT),
    Rule("O3", "Connector and cache groups", groups, "A connector that knows one group turns the hybrid manager off "
         "for the whole model.", "vLLM 0.26, read",
         "DeepSeek-V4 without the hybrid manager needs 465 GiB at a million tokens.", at=_AT, engines=("vllm",)),
)  # fmt: skip
