"""Parts of the client that need a loop: TLS, the pool's age, the connect limit, the alarm, the client's own health."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop
from hand_load import ClosedLoop, Prompts
from scripted_server import ScriptedServer, stream

from ridgeline.core.clock import ScaledClock
from ridgeline.core.errors import EnvironmentFailed
from ridgeline.core.record import FIELDS, Outcome, Record, Replay, Row, to_row
from ridgeline.replay.driver import replay
from ridgeline.replay.endpoint import Endpoint
from ridgeline.replay.health import Health, client_limited, quantile


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", "req", "-x509", *curve, *files, *subject], check=True, capture_output=True)
    return folder


def over_tls(certificate: Path, **more: object) -> Replay:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")

    async def main() -> Replay:
        async with asyncio.timeout(20), ScriptedServer(lambda request: stream(3), tls=context) as server:
            endpoint = replace(Endpoint(url=server.url), **more)  # type: ignore[arg-type]
            return await replay(ClosedLoop(2, 3), Prompts([b"x" * 300_000] * 3), endpoint)

    return uvloop.run(main())


def test_tls_with_a_known_certificate(certificate: Path) -> None:
    result = over_tls(certificate, ca_file=str(certificate / "cert.pem"))
    assert [record.outcome for record in result.records] == [Outcome.OK] * 6
    assert all(record.sent_ns is not None and record.first_byte_ns is not None for record in result.records)
    assert all((record.sent_ns or 0) <= (record.first_byte_ns or 0) for record in result.records)
    assert result.health["connections_made"] == 2


def test_tls_refuses_an_unknown_certificate_unless_told_not_to_look(certificate: Path) -> None:
    refused = over_tls(certificate)
    assert {record.outcome for record in refused.records} == {Outcome.CLIENT_ERROR}
    assert "certificate" in (refused.records[0].error or "").lower()
    assert over_tls(certificate, verify_tls=False).records[0].outcome is Outcome.OK
    with pytest.raises(EnvironmentFailed, match="cannot read the certificates"):
        over_tls(certificate, ca_file=str(certificate / "none.pem"))


def test_a_connection_idle_for_too_long_is_not_reused() -> None:
    async def main(reuse_s: float) -> int:
        async with asyncio.timeout(20), ScriptedServer(lambda request: stream(1)) as server:
            await replay(
                ClosedLoop(1, 3, delay_ns=2_000_000), Prompts(), Endpoint(url=server.url, idle_reuse_s=reuse_s)
            )
            return server.connections

    assert uvloop.run(main(60.0)) == 1
    assert uvloop.run(main(0.001)) == 3


def test_many_streams_have_no_hidden_cap() -> None:
    async def main() -> Replay:
        waiting = asyncio.Event()

        def reply(request: object) -> object:
            if len(server.requests) == 300:
                waiting.set()
            return stream(1, first_s=1.0)

        server = ScriptedServer(reply)  # type: ignore[arg-type]
        async with asyncio.timeout(20), server:
            result = await replay(ClosedLoop(300, 1), Prompts(), Endpoint(url=server.url))
            assert waiting.is_set()
            return result

    result = uvloop.run(main())
    assert [record.outcome for record in result.records] == [Outcome.OK] * 300
    assert result.health["sockets_peak"] >= 200


def test_client_limited_is_a_share_of_the_median() -> None:
    assert not client_limited(0.005, 0.1) and client_limited(0.0051, 0.1)
    assert not client_limited(None, 0.1) and not client_limited(0.1, None)
    assert quantile(array("q", [1, 2, 3, 4]), 0.5) == 2.5 and quantile([], 0.5) is None


S = 10**9  # so large that no lag of this machine counts beside it


def test_health_tells_lags_of_the_measured_window_only() -> None:
    def row(number: int, lag_ns: int, phase: str = "profiling", ttft_ns: int = 1_000 * S) -> Row:
        record = Record(
            request_id=number,
            phase=phase,
            lane=0,
            tree=0,
            session_id="s",
            conversation_id="s",
            turn_index=0,
            scheduled_ns=1_000 * S,
            sent_ns=1_000 * S + lag_ns,
            first_token_ns=1_000 * S + lag_ns + ttft_ns,
        )
        return to_row(record)

    async def main(lag_ns: int) -> dict[str, float]:
        health = Health(asyncio.get_running_loop(), ScaledClock.start())
        health.start()
        health.note([row(0, 900 * S, phase="warmup")])
        health.note([row(number, lag_ns) for number in range(1, 5)])
        await asyncio.sleep(0.12)
        health.stop()
        return health.summary({"sockets_peak": 3.0})

    calm, late = uvloop.run(main(40 * S)), uvloop.run(main(60 * S))
    assert calm["send_lag_max_s"] == pytest.approx(40) and calm["client_limited"] == 0.0
    assert late["client_limited"] == 1.0 and late["sockets_peak"] == 3.0
    assert calm["loop_lag_max_s"] >= calm["loop_lag_p50_s"] >= 0 and calm["cpu_share"] >= 0


def test_a_loop_later_than_a_twentieth_of_the_wait_limits_the_client_too() -> None:
    async def main() -> dict[str, float]:
        health = Health(asyncio.get_running_loop(), ScaledClock.start())
        health.start()
        row = dict.fromkeys(FIELDS) | {"phase": "profiling", "scheduled_ns": 0, "sent_ns": 0, "outcome": Outcome.OK}
        health.note([tuple((row | {"first_token_ns": 1_000 * S}).values())])
        health.stop()
        health.absorb([60 * S] * 5, 0.9)
        return health.summary({})

    found = uvloop.run(main())
    assert found["client_limited"] == 1.0 and found["loop_lag_p99_s"] == 60 and found["cpu_share"] >= 0.9
