"""Secrets are known by the names of what holds them, and do not leave in what is printed or stored."""

from __future__ import annotations

import pytest

from ridgeline.core.deployment import Deployment, Item, Service
from ridgeline.launch.secrets import (
    HIDDEN,
    is_secret,
    masked,
    masked_argv,
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
     "TOKEN_COUNT", "joules_per_token", "chunk-token-budget", "MONKEY"],
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
    assert "819200" in text
    assert "{env:X_TOKEN}" in text
