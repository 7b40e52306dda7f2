"""Stores to test on: SQLite always, a real PostgreSQL in integration. Each test gets a store of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.results.store import Store

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Address of a PostgreSQL server of our own on a loopback port, without a database name; stopped by its handle."""
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL programs (initdb, postgres) on this machine")
    user = _other_user() if os.getuid() == 0 else None  # PostgreSQL refuses to run as root
    if os.getuid() == 0 and user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user `postgres` or `nobody`")
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-postgres-"))
    server = None
    try:
        if user is not None:
            shutil.chown(folder, user)
        common = {"user": user, "cwd": "/", "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        init = [programs / "initdb", "-D", folder / "db", "-U", "ridgeline", "--auth=trust", "-E", "UTF8", "--no-sync"]
        made = subprocess.run([*map(str, init)], **common, check=False)  # type: ignore[call-overload]
        if made.returncode:
            pytest.skip(f"initdb failed: {made.stderr.decode(errors='replace')[-300:]}")
        port = _free_port()
        arguments = [programs / "postgres", "-D", folder / "db", "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F"]
        common["stderr"] = subprocess.DEVNULL
        server = subprocess.Popen([*map(str, arguments)], **common)  # type: ignore[call-overload]
        address = f"postgresql://ridgeline@127.0.0.1:{port}"
        _wait(f"{address}/postgres", server)
        yield address
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # fast shutdown
            server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


def _other_user() -> str | None:
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(address: str, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    for _ in range(300):
        if server.poll() is not None:
            pytest.fail(f"PostgreSQL ended with {server.returncode}")
        try:
            psycopg.connect(address, connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    pytest.fail("PostgreSQL did not answer within 30 s")


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a fresh store of the database under test lies."""
    if request.param == "sqlite":
        return str(tmp_path / "store")
    import psycopg

    server = request.getfixturevalue("postgres")
    name = f"ridgeline_{next(_numbers)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}/{name}"


@pytest.fixture
def store(address: str, tmp_path: Path) -> Iterator[Store]:
    with Store.open(address, tmp_path / "data") as opened:
        yield opened


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that asks for a store runs on both databases."""
    if "address" in metafunc.fixturenames:
        both = ["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)]
        metafunc.parametrize("address", both, indirect=True)
