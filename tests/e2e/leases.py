"""Ports that runs leased under a TMPDIR of their own: whether anybody listens there, or holds the lease."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path


def leased_ports(tmpdir: Path) -> list[int]:
    """Every port that was leased since the folder was made."""
    return sorted(int(file.name) for file in tmpdir.glob(f"ridgeline-ports-{os.getuid()}/*"))


def listening(ports: list[int]) -> list[int]:
    """Those at which somebody takes connections."""
    found = []
    for port in ports:
        with contextlib.closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                found.append(port)
    return found


def held_leases(tmpdir: Path) -> list[int]:
    """Those whose lease somebody holds."""
    found = []
    for file in tmpdir.glob(f"ridgeline-ports-{os.getuid()}/*"):
        with file.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                found.append(int(file.name))
    return sorted(found)
