"""What a dry run recorded becomes a deployment with the lines it came from."""

from __future__ import annotations

from tests.recipes.cells import DEP8, FIXED, POOLS, ROUTER, Arm, Component, cell

from ridgeline.core.dryrun import DryRun, Launch
from ridgeline.core.finding import Verdict
from ridgeline.plan.shell.inputs import environment_of
from ridgeline.plan.shell.recover import Sources, deployment_of, part_of, run_findings

SCRIPT = b"""#!/bin/bash
# --port in a comment does not count
export VLLM_X=1
FLAGS=(--max-num-seqs 8)
mooncake_master -rpc_port=$P &
vllm serve "$MODEL" --port "$PORT" \\
  --kv-cache-dtype fp8 "${FLAGS[@]}" \\
  --max-model-len=4096 &
vllm-router --port 9 &
"""
SOURCES = Sources({"run.sh": SCRIPT}, {"run.sh": "recipes/run.sh"})


def launch(line: int, *argv: str, env: tuple[tuple[str, str], ...] = (), **more: object) -> Launch:
    return Launch("service", argv, env, "run.sh", line, **more)  # type: ignore[arg-type]


ENGINE = launch(
    6, "vllm", "serve", "org/m", "--port", "8888", "--kv-cache-dtype", "fp8", "--max-num-seqs", "8",
    "--max-model-len=4096", "--made-up", "-1", env=(("VLLM_X", "1"), ("OTHER", "2")),
)  # fmt: skip
RUN = DryRun((launch(9, "vllm-router", "--port", "9"), ENGINE, launch(5, "mooncake_master", "-rpc_port=1")), 0, "")


def test_services_are_put_in_the_order_in_which_they_depend() -> None:
    deployment = deployment_of(RUN, SOURCES)
    assert deployment is not None
    assert [(s.name, s.role, s.after) for s in deployment.services] == [
        ("mooncake", "cache", ()),
        ("engine", "engine", ("mooncake",)),
        ("router", "router", ("mooncake", "engine")),
    ]
    assert (deployment.entry, deployment.served_model, deployment.kind) == ("router", "org/m", "vllm")


def test_every_flag_has_its_line_and_its_value_goes_with_it() -> None:
    deployment = deployment_of(RUN, SOURCES)
    assert deployment is not None
    engine = deployment.service("engine")
    places = {item.text: (item.origin.file, item.origin.line) for item in engine.argv if item.origin}
    columns = {item.text: item.origin.column for item in engine.argv if item.origin}
    assert (columns["--kv-cache-dtype"], columns["--port"], columns["--max-num-seqs"]) == (3, 21, 8)
    assert places["org/m"] == ("recipes/run.sh", 6)
    assert places["--port"] == places["8888"] == ("recipes/run.sh", 6)
    assert places["--kv-cache-dtype"] == ("recipes/run.sh", 7)
    assert places["--max-num-seqs"] == ("recipes/run.sh", 4), "an array's own line"
    assert places["--max-model-len=4096"] == ("recipes/run.sh", 8)
    assert places["--made-up"] == places["-1"] == ("recipes/run.sh", 6), "put together somewhere: the launch"
    assert {name: item.origin.line for name, item in engine.env if item.origin} == {"VLLM_X": 3, "OTHER": 6}


def test_engines_of_one_kind_are_numbered() -> None:
    two = DryRun(
        (launch(6, "vllm", "serve", "a"), launch(6, "python3", "-m", "vllm.entrypoints.api", "--model", "b")), 0, ""
    )
    deployment = deployment_of(two, SOURCES)
    assert deployment is not None
    assert [service.name for service in deployment.services] == ["engine", "engine-1"]
    assert (deployment.entry, deployment.served_model) == ("engine", "a")


def test_parts_of_a_stack() -> None:
    for argv, role, kind in (
        ("vllm serve m", "engine", "vllm"),
        ("python3 -m sglang.launch_server --model-path m", "engine", "sglang"),
        ("trtllm-serve m", "engine", "trt"),
        ("python3 -m atom.entrypoints.openai_server", "engine", "atom"),
        ("python3 -m dynamo.sglang", "engine", "sglang"),
        ("python3 -m sglang_router.launch_router", "router", ""),
        ("lmcache server", "cache", ""),
        ("etcd", "cache", ""),
    ):
        part = part_of(argv.split())
        assert part is not None, argv
        assert (part.role, part.kind) == (role, kind)
    assert part_of(["python3", "-m", "http.server"]) is None
    assert part_of(["vllm", "--version"]) is None


def test_without_an_engine_there_is_no_deployment_and_the_reason_is_told() -> None:
    done = DryRun((launch(5, "mooncake_master"),), 1, "line 3: MODEL: unbound variable\n")
    assert deployment_of(done, SOURCES) is None
    (finding,) = run_findings(done, SOURCES, "run.sh")
    assert (finding.rule, finding.verdict) == ("D2", Verdict.UNKNOWN)
    assert "status 1" in finding.message
    assert "unbound variable" in finding.message


def test_survivors_fail_and_a_time_limit_is_no_proof() -> None:
    left = DryRun((launch(6, "vllm", "serve", "m", survived=True),), 0, "")
    (finding,) = run_findings(left, SOURCES, "run.sh")
    assert (finding.rule, finding.verdict) == ("D1", Verdict.FAIL)
    assert str(finding.where) == "recipes/run.sh:6"
    (finding,) = run_findings(DryRun(left.launches, None, ""), SOURCES, "run.sh")
    assert finding.verdict is Verdict.UNKNOWN


def test_what_nothing_stood_in_for_is_named() -> None:
    odd = Launch("unknown", ("wibble", "x"), (), "run.sh", 2)
    (finding,) = run_findings(DryRun((ENGINE, odd, odd), 0, "", ("lib.sh",)), SOURCES, "run.sh")
    assert (finding.rule, finding.verdict) == ("D3", Verdict.WARN)
    assert finding.message.count("wibble") == 1
    assert "the file `lib.sh`" in finding.message


def test_a_cells_variables() -> None:
    given = environment_of(cell(arm=Arm(DEP8, spec_decoding="mtp", router=ROUTER), concurrency=224))
    for name, value in {
        "MODEL": "deepseek-ai/DeepSeek-V4-Pro", "TP": "8", "EP_SIZE": "8", "DP_ATTENTION": "true", "CONC": "224",
        "SPEC_DECODING": "mtp", "KV_OFFLOADING": "none", "ROUTER_NAME": "vllm-router", "DURATION": "3600",
        "EVAL_ONLY": "false",
    }.items():  # fmt: skip
        assert given[name] == value
    assert "ISL" not in given
    fixed = environment_of(cell(scenario=FIXED))
    assert (fixed["ISL"], fixed["MAX_MODEL_LEN"]) == ("1024", "2304")
    offload = Arm(DEP8, kv_offloading="dram", kv_offload_backend=Component("lmcache"), cpu_dram_gb=9)
    assert environment_of(cell(arm=offload))["KV_OFFLOAD_BACKEND"] == "lmcache"
    pools = environment_of(cell(arm=POOLS))
    assert (pools["PREFILL_TP"], pools["DECODE_DP_ATTENTION"], pools["PREFILL_NODES"]) == ("4", "true", "1")
    assert "TP" not in pools


def test_a_flag_that_a_fix_adds_lands_in_the_same_array() -> None:
    """Before the last flag's own word: at the end of its line the array is already closed."""
    from ridgeline.plan.checks.patching import Edit, patched

    text = b'CMD=(vllm serve m\n  --port 1 --max-num-seqs "$N")\n"${CMD[@]}" &\n'
    done = DryRun((launch(3, "vllm", "serve", "m", "--port", "1", "--max-num-seqs", "8"),), 0, "")
    deployment = deployment_of(done, Sources({"run.sh": text}, {}))
    assert deployment is not None
    anchor = deployment.service("engine").argv[-1].origin
    assert anchor is not None
    after, left = patched(text, [Edit(anchor, "", " --gpu-memory-utilization 0.86", "")])
    assert not left
    assert b'--port 1 --gpu-memory-utilization 0.86 --max-num-seqs "$N")\n' in after
