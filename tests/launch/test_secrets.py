"""Secrets are known by the names of what holds them, and do not leave in what is printed or stored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.launch.secrets import (
    HIDDEN,
    is_secret,
    masked,
    masked_argv,
    scrub_folder,
    scrubbed,
    secrets_of,
    values_of,
    without_secrets,
)


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "OPENAI_API_KEY", "api-key", "DB_PASSWORD", "aws_secret_access_key", "token"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["MAX_TOKENS", "num-speculative-tokens", "TOKENIZER", "tokenizer-mode", "max-num-batched-tokens", "KEYS", "PORT",
     "TOKEN_COUNT", "joules_per_token", "chunk-token-budget", "MONKEY", "HF_TOKEN_PATH",
     "api-key-file", "API_KEY_ENV"],
)  # fmt: skip
def test_names_that_only_sound_like_it(name: str) -> None:
    assert not is_secret(name)


def test_values_of_variables_are_masked_and_symbols_are_not() -> None:
    assert masked("HF_TOKEN", "hf_abcdef") == HIDDEN
    assert masked("HF_TOKEN", "{env:HF_TOKEN}") == "{env:HF_TOKEN}"
    assert masked("MAX_TOKENS", "8192") == "8192"


def test_command_lines_lose_them_in_every_spelling() -> None:
    words = [
        "serve",
        "--api-key",
        "sk-123456",
        "--api-key=sk-123456",
        "HF_TOKEN=hf_1",
        "--env",
        "HF_TOKEN=x",
        "--port",
        "1",
    ]
    assert masked_argv(words) == [
        *("serve", "--api-key", HIDDEN, f"--api-key={HIDDEN}", f"HF_TOKEN={HIDDEN}", "--env", f"HF_TOKEN={HIDDEN}"),
        *("--port", "1"),
    ]
    assert masked_argv(["--api-key", "--port", "1"]) == ["--api-key", "--port", "1"]
    assert masked_argv(["--env=HF_TOKEN=x", "--env=A=b=c"]) == [f"--env=HF_TOKEN={HIDDEN}", "--env=A=b=c"]
    assert masked_argv(["HF_TOKEN={env:HF_TOKEN}"]) == ["HF_TOKEN={env:HF_TOKEN}"], "a symbol is no secret"
    assert masked_argv(["--api-key-file=/k", "--url=http://h/?q=1"]) == [
        "--api-key-file=/k",
        "--url=http://h/?q=1",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("serve --api-key sk-1234567 --port $PORT", "serve --api-key *** --port $PORT"),
        ("A=1 HF_TOKEN=hf_x serve m", "A=1 HF_TOKEN=*** serve m"),
        ("serve --api-key='sk 12' m && x", "serve --api-key=*** m && x"),
        ("serve --api-key $HF_TOKEN --max-tokens 5", "serve --api-key $HF_TOKEN --max-tokens 5"),
        ("serve --token --port 1", "serve --token --port 1"),
        ("two words", "two words"),
    ],
)
def test_a_command_line_in_one_word_loses_them_too(text: str, shown: str) -> None:
    assert masked_argv(["sh", "-c", text]) == ["sh", "-c", shown]


def test_files_lose_them_whatever_they_hold(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    binary = tmp_path / "in" / "out.bin"
    binary.write_bytes(b"\xff\0hf_secret\0hf_secret_longer" + bytes(5000) + b"hf_secre")
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to(binary)
    (tmp_path / "weights").write_text("hf_secret")
    os.link(tmp_path / "weights", tmp_path / "in" / "weights")
    clean = tmp_path / "in" / "clean.txt"
    clean.write_text("nothing")
    before = clean.stat().st_ino
    scrub_folder(tmp_path / "in", {"hf_secret", "hf_secret_longer"})
    assert binary.read_bytes() == b"\xff\0*********\0" + b"*" * 16 + bytes(5000) + b"hf_secre"
    assert (tmp_path / "in" / "weights").read_text() == "*" * 9
    assert (tmp_path / "weights").read_text() == "hf_secret", "the file elsewhere is not ours to change"
    assert clean.stat().st_ino == before
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["clean.txt", "out.bin", "weights"]
    scrub_folder(tmp_path, ())


def test_texts_lose_values_that_are_around() -> None:
    values = values_of(
        {"HF_TOKEN": "hf_secret", "DEBUG_TOKEN": "1", "PATH": "/usr/bin"}, [("API_KEY", "hf_secret_longer")]
    )
    assert values == {"hf_secret", "hf_secret_longer"}
    assert scrubbed("got hf_secret_longer, then hf_secret", values) == f"got {'*' * 16}, then {'*' * 9}"


def test_a_deployment_is_stored_without_them_and_its_logs_are_scrubbed_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ours1")
    argv = tuple(map(Item, ("vllm", "serve", "m", "--api-key", "sk-theirs", "--port", "{port:http}")))
    env = (("DB_PASSWORD", Item("pass-word")), ("MAX_TOKENS", Item("819200")), ("X_TOKEN", Item("{env:X_TOKEN}")))
    deployment = Deployment((Service("engine", argv, env),), "engine", "m", "vllm")
    assert secrets_of(deployment) == {"hf_ours1", "sk-theirs", "pass-word"}
    text = str(without_secrets(deployment))
    assert not any(value in text for value in ("sk-theirs", "pass-word"))
    shell = Deployment(
        (Service("s", (Item("sh"), Item("-c"), Item("serve --api-key sk-inside1"))),), "s", "m", "command"
    )
    assert secrets_of(shell) == {"hf_ours1", "sk-inside1"}
    assert "sk-inside1" not in str(without_secrets(shell))
    assert "819200" in text
    assert "{env:X_TOKEN}" in text
