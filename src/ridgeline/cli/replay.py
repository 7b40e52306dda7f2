"""`ridgeline replay`: only the load generator, against any OpenAI-compatible endpoint."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.replay_view import choose_view
from ridgeline.cli.typed import run_app
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.record import FIELDS
from ridgeline.core.units import nanoseconds
from ridgeline.replay.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from ridgeline.core.record import Replay, Row
    from ridgeline.trace import Corpus

app = typer.Typer(add_completion=False)

OUTCOME = FIELDS.index("outcome")
SUMMARY = (
    ("TTFT p50", "ttft.p50", 1e3, "ms"),
    ("TTFT p99", "ttft.p99", 1e3, "ms"),
    ("ITL p50", "itl.p50", 1e3, "ms"),
    ("TPOT p50", "tpot.p50", 1e3, "ms"),
    ("E2E p50", "e2e.p50", 1, "s"),
    ("requests", "request_rate", 1, "/s"),
    ("output", "throughput.output", 1, "tokens/s"),
    ("input", "throughput.input", 1, "tokens/s"),
    ("send lag p99", "send_lag.p99", 1e3, "ms"),
)


def run(argv: list[str]) -> int:
    """Run the verb."""
    return run_app(app, "replay", argv)


@app.command()
def replay(
    url: Annotated[str, typer.Option(help="server, e.g. http://127.0.0.1:8000", show_default=False)],
    trace: Annotated[Path, typer.Option(help="recorded sessions: file or folder", show_default=False)],
    concurrency: Annotated[int, typer.Option(help="lanes; each holds one live session tree", show_default=False)],
    duration: Annotated[float, typer.Option(help="measured window, simulated seconds")] = 3600.0,
    speed: Annotated[float, typer.Option(help="divides recorded delays, idle caps and windows")] = 1.0,
    model: Annotated[str | None, typer.Option(help="served model name; default: the server's first")] = None,
    prompts: Annotated[str, typer.Option(help="bytes, token-ids or tokenizer")] = "bytes",
    tokenizer: Annotated[Path | None, typer.Option(help="tokenizer file for --prompts tokenizer")] = None,
    out: Annotated[Path | None, typer.Option(help="folder for records.parquet and samples.parquet")] = None,
    warmup: Annotated[int, typer.Option(help="warm-up requests a lane; 0: primers only")] = 10,
    grace: Annotated[float, typer.Option(help="patience for requests in flight at the end, seconds")] = 30.0,
    profile: Annotated[str, typer.Option(help="rules of the replay: agentx or aiperf-0.13")] = "agentx",
    seed: Annotated[int, typer.Option(help="of start positions and texts")] = 42,
    max_context: Annotated[int | None, typer.Option(help="leave out sessions with longer contexts")] = None,
    sessions: Annotated[int | None, typer.Option(help="use the first N sessions that are left")] = None,
    metrics_url: Annotated[list[str] | None, typer.Option(help="Prometheus page to scrape; repeatable")] = None,
    header: Annotated[list[str] | None, typer.Option(help="`NAME: VALUE` for every request; repeatable")] = None,
    api_key_env: Annotated[str | None, typer.Option(help="environment variable that holds the key")] = None,
    read_timeout: Annotated[float, typer.Option(help="longest silence in an answer, real seconds")] = 900.0,
    as_json: Annotated[bool, typer.Option("--json", help="progress and result as JSON lines on stdout")] = False,
) -> int:
    """Replay recorded sessions. Exit 1 when no request succeeded or the replay was aborted."""
    from ridgeline import trace as traces
    from ridgeline.replay.driver import ReplaySettings, run_replay
    from ridgeline.trace.pacing import AgentPacer, PacingSettings
    from ridgeline.trace.prompts import make_prompts

    endpoint = _endpoint(url, header or [], api_key_env, read_timeout, speed)
    pacing = PacingSettings(
        concurrency=concurrency,
        benchmark_id=uuid.uuid4().hex,
        seed=seed,
        profile=profile,
        duration_ns=nanoseconds(duration),
        grace_ns=nanoseconds(grace),
        warmup_requests_per_lane=warmup,
    )
    corpus = traces.load(trace, max_context=max_context, limit=sessions, profile=profile)
    served = _served_model(endpoint, model)
    source = make_prompts(corpus, prompts, model=served, seed=seed, tokenizer=tokenizer)
    stored = {"trace": _about(corpus), "pacing": {name: getattr(pacing, name) for name in pacing.__slots__}}
    settings = ReplaySettings(
        progress_s=0.5,
        keep_records=out is None,
        scrape_urls=tuple(metrics_url or ()),
        stored=stored | {"model": served},
    )
    view = choose_view(as_json=as_json)
    with view, _Store(out) as store:
        result = run_replay(
            AgentPacer(corpus.sessions, pacing),
            source,
            endpoint,
            speed=speed,
            settings=settings,
            on_rows=store.take,
            on_progress=view.show,
        )
        store.finish(result)
    measures = _measures(result, store.path, concurrency)
    view.result(SUMMARY, measures, result)
    if out is not None:
        sys.stderr.write(f"records: {store.path}\n")
    if result.aborted:
        sys.stderr.write(f"error: the replay was aborted: {result.aborted}\n")
    return 1 if result.aborted or not store.succeeded else 0


class _Store:
    """Records to the disk as they come, so that a killed replay keeps what it had; without a folder it only counts."""

    def __init__(self, folder: Path | None) -> None:
        from ridgeline.replay.sink import BackgroundSink
        from ridgeline.results.records import RecordWriter

        self.path = folder / "records.parquet" if folder else None
        self.succeeded = 0
        self._writer: RecordWriter | None = None
        self._sink: BackgroundSink | None = None
        if folder is None or self.path is None:
            return
        if self.path.exists():
            raise InputError(
                [Problem(f"`{self.path}` exists", key="--out", hint="records are never overwritten: name another")]
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = RecordWriter(self.path)
        except OSError as error:
            raise EnvironmentFailed(f"cannot write to `{folder}`: {error}") from error
        self._sink = BackgroundSink(self._writer.write_rows)

    def take(self, rows: Sequence[Row]) -> None:
        self.succeeded += sum(row[OUTCOME] == "ok" for row in rows)
        if self._sink is not None:
            self._sink.take(rows)

    def finish(self, result: Replay) -> None:
        """The replay has ended: the stream becomes the Parquet file."""
        from ridgeline.results.records import replay_metadata
        from ridgeline.results.samples import write_samples

        if self._sink is not None and self._writer is not None and self.path is not None:
            sink, self._sink = self._sink, None
            sink.__exit__(None, None, None)
            self._writer.finish(replay_metadata(result))
            if result.samples:
                write_samples(self.path.with_name("samples.parquet"), result.samples)

    def __enter__(self) -> _Store:
        if self._sink is not None:
            self._sink.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is None:
            return
        failed = None
        try:
            if self._sink is not None:
                self._sink.__exit__(kind, error, trace)
                failed = self._sink.error
            self._writer.close()
        except OSError as raised:
            failed = raised
        if self._writer.part.exists():
            sys.stderr.write(f"the replay did not end: its records so far are in {self._writer.part}\n")
        if isinstance(failed, OSError):
            raise EnvironmentFailed(f"cannot write records: {failed}", hint="make room, or give another --out")


def _endpoint(url: str, headers: list[str], key_env: str | None, read_timeout: float, speed: float) -> Endpoint:
    problems = [Problem(f"must be above 0, not {speed:g}", key="--speed")] if not speed > 0 else []
    named = {}
    for line in headers:
        name, colon, value = line.partition(":")
        if not colon:
            problems.append(Problem(f"`{line}` is no header", key="--header", hint="write `NAME: VALUE`"))
        named[name.strip()] = value.strip()
    if problems:
        raise InputError(problems)
    return Endpoint(url=url, api_key_env=key_env, headers=named, read_timeout_s=read_timeout)


def _served_model(endpoint: Endpoint, model: str | None) -> str:
    """The model to ask for: the given one, or the first that the server lists. Raises EnvironmentFailed when nobody
    answers there, so that a wrong address is told at once and not by a thousand failed requests."""
    import os
    import urllib.error
    import urllib.request

    import msgspec

    headers = dict(endpoint.headers)
    if endpoint.api_key_env:
        headers["Authorization"] = f"Bearer {os.environ[endpoint.api_key_env]}"
    address = f"{endpoint.url.rstrip('/').removesuffix('/v1')}/v1/models"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(address, headers=headers), timeout=10) as page:
            listed = msgspec.json.decode(page.read())
            names = [entry["id"] for entry in listed["data"]]
    except urllib.error.HTTPError as error:
        names, listed = [], f"HTTP {error.code}"
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise EnvironmentFailed(
            f"nobody answers at {endpoint.url}: {reason}", hint="start the server, or check --url"
        ) from error
    except (ValueError, KeyError, TypeError):
        names, listed = [], "an answer in no known form"
    if model is not None:
        if names and model not in names:
            sys.stderr.write(f"note: the server lists {', '.join(map(str, names))}, not `{model}`\n")
        return model
    if not names:
        raise InputError([Problem(f"the server lists no model ({address}: {listed})", key="--model", hint="name one")])
    return str(names[0])


def _about(corpus: Corpus) -> dict[str, object]:
    return {
        "source": corpus.source,
        "format": corpus.format,
        "digest": corpus.digest,
        "sessions": len(corpus.sessions),
        "context_dropped": corpus.context_dropped,
    }


def _measures(result: Replay, path: Path | None, concurrency: int) -> dict[str, object]:
    from ridgeline.results.aggregate import measures_of
    from ridgeline.results.metrics import Scope
    from ridgeline.results.metrics.columns import Columns
    from ridgeline.results.metrics.scrapes import Scrapes

    scope = Scope(
        columns=Columns.of(path if path is not None else result),
        phases=result.phases,
        gpus=1,
        concurrency=concurrency,
        scrapes=Scrapes(tuple(sorted(result.samples, key=lambda sample: sample.at_ns))),
        health=result.health,
    )
    return dict(measures_of(scope))
