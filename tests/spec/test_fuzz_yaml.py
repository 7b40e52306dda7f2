"""No bytes make a traceback: every reader answers with values or with `InputError`."""

from __future__ import annotations

import os
import time

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings
from tests.spec import yaml_bytes

from ridgeline.core.errors import InputError
from ridgeline.plan.expand import cells
from ridgeline.plan.rows import full_sweep
from ridgeline.spec import config, policy, runners
from ridgeline.spec import settings as settings_
from ridgeline.spec.config import ConfigSet
from ridgeline.spec.runners import Hardware, Runners
from ridgeline.spec.tree import Document, parse

RUNNERS = Runners({}, {"cluster:h200-a": Hardware(2_000_000, 8)}, "runners.yaml")


def read_everything(data: bytes) -> None:
    document = parse(data, "f.yaml")
    for read in (config_and_cells, runners.from_document, settings_.from_document, policy.from_document):
        try:
            read(document)
        except InputError as error:
            assert error.problems
            assert all(str(problem) and problem.message for problem in error.problems)


def config_and_cells(document: Document) -> None:
    configs = config.from_documents([document])
    assert isinstance(configs, ConfigSet)
    full_sweep(configs, RUNNERS)
    cells(configs, RUNNERS)


@given(yaml_bytes.any_bytes)
@settings(max_examples=150, deadline=None)
def test_no_bytes_make_a_traceback(data: bytes) -> None:
    read_everything(data)


@pytest.mark.fuzz
def test_no_bytes_make_a_traceback_in_ten_minutes() -> None:
    """RIDGELINE_FUZZ_SECONDS changes the length. Every round has its own seed, so that a failure can be repeated."""
    end = time.monotonic() + float(os.environ.get("RIDGELINE_FUZZ_SECONDS", "600"))
    seed = 0
    while time.monotonic() < end:
        seed += 1

        @hypothesis.seed(seed)
        @given(yaml_bytes.any_bytes)
        @settings(max_examples=2000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        def round_(data: bytes) -> None:
            read_everything(data)

        round_()
    assert seed, "no round was run"
