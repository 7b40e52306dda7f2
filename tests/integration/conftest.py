"""One start of the real engine, the dearest thing here, for every test that looks at a sweep on it."""

from __future__ import annotations

import pytest
from tests.integration.lmeval import eval_program
from tests.integration.real_sweep import RealRun, swept
from tests.integration.realstack import RealStack, real_stack

from ridgeline.results.runfolder import RunFolder


@pytest.fixture(scope="session")
def stack() -> RealStack:
    """The real engine and router, installed."""
    return real_stack()


@pytest.fixture(scope="session")
def real_run(stack: RealStack, tmp_path_factory: pytest.TempPathFactory) -> RealRun:
    """Two concurrencies timed, and a task scored at the higher one, in one start."""
    folder, program, unscored = tmp_path_factory.mktemp("real"), None, ""
    try:
        program = eval_program()
    except pytest.skip.Exception as skipped:
        unscored = str(skipped)
    summary = swept(stack, folder, program)
    return RealRun(RunFolder.open(folder / "run"), summary, unscored)
