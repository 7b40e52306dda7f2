"""Rules about images and scripts, one file at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.publish.changelog.repo import CONFIG
from tests.publish.gate.kit import SCRIPT

from ridgeline.publish.gate.change import Change, ChangedFile
from ridgeline.publish.gate.policy import inferencex_policy
from ridgeline.publish.gate.rule import Remark
from ridgeline.publish.gate.rules import configs, language, scripts


def judged(after: bytes, before: bytes | None = None) -> list[Remark]:
    """What the script rules say about one changed script."""
    change = Change("b", "b", "h", {SCRIPT: ChangedFile(SCRIPT, before, after)})
    policy = inferencex_policy()
    found = scripts.scripts(change, policy)
    said = [one for script in found for one in scripts.all_rules(script)]
    return [*said, *scripts.patches(change, policy, found, 77, "")]


@pytest.mark.parametrize(
    ("image", "rule"),
    [
        ("/images/engine.sqsh", "P10"),
        ("registry.internal:5000/team/engine:1.2", "P10"),
        ("10.0.0.7/engine:1.2", "P10"),
        ("vllm/vllm-openai", "P11"),
        ("vllm/vllm-openai:latest", "P11"),
        ("vllm/vllm-openai:nightly", "P11"),
        ("vllm/vllm-openai:kimi-k3", "P12"),
        ("rocm/atom-dev:nightly_202607231538", "P12"),
        ("vllm/vllm-openai:v0.25.1", None),
        ("vllm/vllm-openai:nightly-3ee2df30337a301164c46ae444b76ee67e71c106", None),
        ("nvcr.io#nvidia/tensorrt-llm/release:1.3.0rc24", None),
        ("acme/x:latest@sha256:" + "a" * 64, None),
    ],
)
def test_images(image: str, rule: str | None) -> None:
    text = CONFIG.format(key="new").replace("acme/engine:1", f'"{image}"').encode()
    found = list(configs.images(["new"], {}, configs.read_configs([("m.yaml", text)]), inferencex_policy()))
    assert [(one.rule, str(one.where)) for one in found] == ([(rule, "m.yaml:2:10")] if rule else [])


SERVER = "vllm serve acme/new \\\n  --tensor-parallel-size 4 \\\n  --port 8000 &\n"


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("vllm serve m --a 1 --b 2 --c 3 --d 4 --e 5 &\n", "P23", 1),
        (SERVER + "run_benchmark_serving --speculative-config x\n", "P20", 4),
        ("vllm serve m \\\n  --enable-expert-parallel\n", "P22", 2),
        ("cd /\npatch -p1 < fix.diff\n", "P21", 2),
        ("sed -i s/a/b/ /usr/lib/python3/dist-packages/vllm/x.py\n", "P21", 1),
        ("srun --container-image=/images/x.sqsh run\n", "P24", 1),
        ("cd /\ndocker run --rm \\\n  -v /workspace:/w img true\n", "P26", 2),
        ('podman run -v "$GITHUB_WORKSPACE":/w img true\n', "P26", 1),
        ("sudo docker run -v $PWD:/w img\n", "P26", 1),
        ("sudo tee /workspace/x < y\n", "P26", 1),
        ("mkdir -p /workspace/mine\n", "P25", 1),
    ],
)
def test_scripts(text: str, rule: str, line: int) -> None:
    assert [(one.rule, one.where and one.where.line) for one in judged(text.encode())] == [(rule, line)]


@pytest.mark.parametrize(
    "text",
    [
        SERVER + "run_benchmark_serving --use-chat-template --speculative-config x\n",
        '[[ "$EP_SIZE" -gt 1 ]] && ARGS+=(--enable-expert-parallel)\n',
        'if [ "$EP_SIZE" -gt 1 ]; then\n  ARGS="--enable-expert-parallel"\nfi\n',
        "python3 -m sglang.launch_server \\\n  --ep-size 8\n",
        "# patch -p1 < fix.diff\n",
        "enroot import docker://acme/x\nsrun --container-image=/images/x.sqsh run\n",
        "mkdir -p /tmp/mine\n",
    ],
)
def test_scripts_that_are_in_order(text: str) -> None:
    assert judged(text.encode()) == []


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_judged(data: bytes) -> None:
    for one in judged(data):
        assert one.where is not None and 1 <= one.where.line <= data.count(b"\n") + 1


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_two_halves(text: str) -> None:
    english, chinese = language.halves(text)
    assert english.letters >= 0 and chinese.letters >= 0
    assert set(language.title_lacks(text)) <= {"English", "Chinese"}


def test_deep_nesting_and_long_lines_end_soon() -> None:
    judged(b"if " * 3_000)
    judged(b"sed " + b"x " * 20_000 + b"-i vllm site-packages/\n")
    judged(b"(" * 5_000)
    language.halves("<!--" * 5_000 + "https://" * 5_000)
