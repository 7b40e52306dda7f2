"""Commands as they go into containers. No container engine runs here: the words are what is tested."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.launch.runtimes import (
    IMPORT,
    Wrapping,
    docker,
    enroot,
    enroot_uri,
    leftovers,
    reap,
    resolved,
    runtime_of,
    squash_file,
)

ARGV = ("vllm", "serve", "/weights/m", "--port", "8001")
ENV = {"HF_TOKEN": "secret", "VLLM_USE_V1": "1"}
DIGEST = "vllm/vllm-openai@sha256:" + "a" * 64
W = Wrapping(
    image="vllm/vllm-openai:v0.26.0", name="rl-1-engine", folder=Path("/runs/r/work"), sweep="r1",
    mounts=(Path("/weights"),),
)  # fmt: skip


def test_docker() -> None:
    assert docker(ARGV, ENV, W) == [
        *("docker", "run", "--rm", "--init", "--network=host", "--ipc=host", "--shm-size=64g", "--name=rl-1-engine"),
        *("--label=ridgeline.sweep=r1", "--cidfile=/runs/r/work/cid", "--ulimit=memlock=-1", "--ulimit=stack=67108864"),
        *("--gpus=all", "--volume=/runs/r/work:/runs/r/work", "--volume=/weights:/weights", "--workdir=/runs/r/work"),
        *("--env=HF_TOKEN", "--env=VLLM_USE_V1", "--entrypoint=", "vllm/vllm-openai:v0.26.0", *ARGV),
    ]


def test_gpus_are_named_and_amd_has_devices_instead() -> None:
    from dataclasses import replace

    assert '--gpus="device=0,1"' in docker(ARGV, ENV, replace(W, gpus=(0, 1)))
    amd = docker(ARGV, ENV, replace(W, amd=True))
    assert "--device=/dev/kfd" in amd
    assert not any(word.startswith("--gpus") for word in amd)


def test_enroot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIDGELINE_IMAGES", "/shared/images")
    file = "/shared/images/vllm+vllm-openai+v0.26.0.sqsh"
    assert enroot(ARGV, ENV, W) == [
        *("sh", "-c", IMPORT, file, "docker://vllm/vllm-openai:v0.26.0"),
        *("enroot", "start", "--rw", "--mount", "/runs/r/work:/runs/r/work", "--mount", "/weights:/weights"),
        *("--env", "HF_TOKEN", "--env", "VLLM_USE_V1", file),
        *("sh", "-c", 'cd "$0" && exec "$@"', "/runs/r/work", *ARGV),
    ]


@pytest.mark.parametrize("wrap", [docker, enroot])
def test_secrets_are_never_on_the_command_line(wrap) -> None:
    assert "secret" not in " ".join(wrap(ARGV, ENV, W))


def test_a_runtime_that_is_not_there_is_told_by_name() -> None:
    with pytest.raises(EnvironmentFailed, match="`enroot` is not installed"):
        runtime_of("enroot", lambda name: None)
    with pytest.raises(InputError, match="podman"):
        runtime_of("podman")
    assert runtime_of("docker", lambda name: "/usr/bin/docker") is docker
    assert runtime_of("none")(ARGV, ENV, W) == list(ARGV)


def test_images_are_known_by_digest_where_docker_tells() -> None:
    assert resolved(DIGEST) == DIGEST
    assert resolved("x:1", lambda words: f"{DIGEST}\n") == DIGEST
    assert resolved("x:1", lambda words: None) is None
    assert squash_file(DIGEST, {"HOME": "/home/u"}).parent == Path("/home/u/.cache/ridgeline/images")
    assert squash_file(DIGEST).name == "vllm+vllm-openai+sha256+" + "a" * 64 + ".sqsh"


def test_leftovers_are_found_by_label() -> None:
    asked: list[list[str]] = []

    def ask(words) -> str:
        asked.append(list(words))
        return "abc\ndef\n"

    assert leftovers("r1", ask) == ["abc", "def"]
    assert asked[0][-1] == "label=ridgeline.sweep=r1"
    assert leftovers(None, lambda words: None) == []


def test_what_an_earlier_start_left_is_removed() -> None:
    asked: list[list[str]] = []

    def ask(words) -> str:
        asked.append(list(words))
        return "abc\n" if "ps" in words else ""

    assert reap("r1", ask) == ["abc"]
    assert asked[-1] == ["docker", "rm", "--force", "abc"]
    assert reap("r1", lambda words: "") == []


@pytest.mark.parametrize(
    ("image", "uri"),
    [
        ("vllm/vllm-openai:v1", "docker://vllm/vllm-openai:v1"),
        ("ubuntu", "docker://ubuntu"),
        ("nvcr.io/nvidia/vllm:25.09", "docker://nvcr.io#nvidia/vllm:25.09"),
        ("localhost:5000/x:1", "docker://localhost:5000#x:1"),
    ],
)
def test_images_in_enroots_words(image: str, uri: str) -> None:
    assert enroot_uri(image) == uri


ENROOT = """#!/bin/sh
echo "$@" >> "$CALLS"
case $1 in import) echo image > "$3" ;; start) while [ "$1" != /runs/r/work ]; do shift; done; shift; exec "$@" ;; esac
"""


def test_an_image_is_imported_once_and_then_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "enroot").write_text(ENROOT)
    (tmp_path / "enroot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("RIDGELINE_IMAGES", str(tmp_path / "images"))
    for _ in range(2):
        done = subprocess.run(enroot(("echo", "inside"), {}, W), capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr
    calls = [line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == ["import", "start", "start"]
    assert [path.name for path in (tmp_path / "images").glob("*.sqsh*")].count("vllm+vllm-openai+v0.26.0.sqsh") == 1
