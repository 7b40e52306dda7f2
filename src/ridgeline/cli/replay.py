"""`ridgeline replay`: only the load generator, against any OpenAI-compatible endpoint."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ridgeline.cli.replay_load import Load, LoadOptions, choose_load
from ridgeline.cli.replay_store import EXPORTS, Store, add_cell, command_line, power_of, run_folder, write_exports
from ridgeline.cli.replay_view import choose_view
from ridgeline.cli.typed import run_app
from ridgeline.core.cell import Arm, Benchmark, Cell
from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.point import Source
from ridgeline.core.topology import Topology
from ridgeline.replay.endpoint import Endpoint
from ridgeline.trace.pacing import AgentPacer

if TYPE_CHECKING:
    from ridgeline.core.point import Point
    from ridgeline.core.record import Replay
    from ridgeline.results.metrics import Slo

app = typer.Typer(add_completion=False)

SUMMARY = (
    ("TTFT p50", "ttft.p50", 1e3, "ms"),
    ("TTFT p99", "ttft.p99", 1e3, "ms"),
    ("ITL p50", "itl.p50", 1e3, "ms"),
    ("TPOT p50", "tpot.p50", 1e3, "ms"),
    ("E2E p50", "e2e_latency.p50", 1, "s"),
    ("requests", "request_rate", 1, "/s"),
    ("output", "throughput.output", 1, "tokens/s"),
    ("input", "throughput.input", 1, "tokens/s"),
    ("steady output", "throughput_steady.output", 1, "tokens/s"),
    ("goodput", "goodput", 1, "/s"),
    ("send lag p99", "send_lag.p99", 1e3, "ms"),
)
EMULATOR = "ridgeline"  # owner of the emulated engine's models
UNKNOWN = "unknown"  # of a server that somebody else runs
LOAD, SERVER, RESULT = "Load", "Server", "Result"  # panels of the help


def run(argv: list[str]) -> int:
    """Run the verb."""
    return run_app(app, "replay", argv)


def option(panel: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


@app.command()
def replay(
    url: Annotated[str, option(SERVER, "server, e.g. http://127.0.0.1:8000", show_default=False)],
    trace: Annotated[Path | None, option(LOAD, "recorded sessions: file or folder")] = None,
    isl: Annotated[int | None, option(LOAD, "prompt tokens of every request, instead of a trace")] = None,
    osl: Annotated[int | None, option(LOAD, "tokens every request generates")] = None,
    concurrency: Annotated[int | None, option(LOAD, "lanes: live session trees, or requests in flight")] = None,
    rate: Annotated[
        float | None, option(LOAD, "open loop: requests arrive at so many a second; `inf`: all at once")
    ] = None,
    schedule: Annotated[
        bool, option(LOAD, "open loop: requests arrive at the trace's own moments", "--schedule")
    ] = False,
    requests: Annotated[int | None, option(LOAD, "stop after so many measured requests")] = None,
    duration: Annotated[
        float | None, option(LOAD, "measured window, simulated seconds (3600 on lanes of a trace, else none)")
    ] = None,
    warmup: Annotated[
        int | None, option(LOAD, "warm-up requests a lane (10 for a trace, 0: primers only, as aiperf-0.13; else 1)")
    ] = None,
    grace: Annotated[float, option(LOAD, "patience for requests in flight at the end, seconds")] = 30.0,
    profile: Annotated[str, option(LOAD, "rules of the replay: agentx or aiperf-0.13")] = "agentx",
    seed: Annotated[int, option(LOAD, "of start positions, texts and arrivals")] = 42,
    max_context: Annotated[int | None, option(LOAD, "leave out sessions with longer contexts")] = None,
    sessions: Annotated[int | None, option(LOAD, "use the first N sessions that are left")] = None,
    arrivals: Annotated[str, option(LOAD, "poisson, gamma or constant (with --rate)")] = "poisson",
    burstiness: Annotated[float, option(LOAD, "of gamma arrivals: below 1 burstier than Poisson")] = 1.0,
    max_in_flight: Annotated[int | None, option(LOAD, "cap of an open loop; what waits shows as send lag")] = None,
    range_ratio: Annotated[float, option(LOAD, "lengths between this share of --isl and --osl and the whole")] = 1.0,
    repeated: Annotated[bool, option(LOAD, "one prompt for all, to measure a warm prefix cache", "--repeated")] = False,
    speed: Annotated[float, option(LOAD, "divides recorded delays, idle caps and windows")] = 1.0,
    force: Annotated[bool, option(LOAD, "do what is refused; the point says so", "--force")] = False,
    model: Annotated[str | None, option(SERVER, "served model name; default: the server's first")] = None,
    prompts: Annotated[str, option(SERVER, "bytes, token-ids or tokenizer")] = "bytes",
    tokenizer: Annotated[Path | None, option(SERVER, "tokenizer file for --prompts tokenizer")] = None,
    header: Annotated[list[str] | None, option(SERVER, "`NAME: VALUE` for every request; repeatable")] = None,
    session_header: Annotated[
        str | None,
        option(SERVER, "one more header for the stream's id, e.g. X-SMG-Routing-Key, when a router reads it"),
    ] = None,
    api_key_env: Annotated[str | None, option(SERVER, "environment variable that holds the key")] = None,
    read_timeout: Annotated[float, option(SERVER, "longest silence in an answer, real seconds")] = 900.0,
    metrics_url: Annotated[list[str] | None, option(SERVER, "Prometheus page to scrape; repeatable")] = None,
    workers: Annotated[int, option(SERVER, "processes that send and receive, when one core is not enough")] = 1,
    out: Annotated[Path | None, option(RESULT, "folder for records, the point and the exports")] = None,
    export: Annotated[
        str, option(RESULT, "other tools' forms to write: aiperf,inferencex or none")
    ] = "aiperf,inferencex",
    slo: Annotated[list[str] | None, option(RESULT, "limit of goodput: ttft=S, itl=S or e2e=S; repeatable")] = None,
    gpus: Annotated[int, option(RESULT, "GPUs the server occupies, for throughput per GPU")] = 1,
    hardware: Annotated[str, option(RESULT, "what they are, e.g. h200")] = UNKNOWN,
    framework: Annotated[str, option(RESULT, "what serves, e.g. vllm")] = UNKNOWN,
    precision: Annotated[str, option(RESULT, "of the weights, e.g. fp8")] = UNKNOWN,
    power: Annotated[
        str | None, option(RESULT, "power log: a CSV file, or nvidia-smi or amd-smi to record one")
    ] = None,
    as_json: Annotated[bool, option(RESULT, "progress and result as JSON lines on stdout", "--json")] = False,
) -> int:
    """Send a load and measure. Exit 1 when no request succeeded or the replay was aborted; whether the numbers may be
    trusted stands in the point's validity."""
    from ridgeline.replay.driver import ReplaySettings, run_replay
    from ridgeline.trace.prompts import make_prompts

    limits, exports = _slo(slo or []), _exports(export)
    _check_counts(workers, gpus, metrics_url or [])
    endpoint = _endpoint(url, header or [], session_header, api_key_env, read_timeout, speed)
    load = choose_load(
        LoadOptions(
            trace=trace, isl=isl, osl=osl, concurrency=concurrency, rate=rate, schedule=schedule, requests=requests,
            duration=duration, warmup=warmup, grace=grace, profile=profile, seed=seed, max_context=max_context,
            sessions=sessions, arrivals=arrivals, burstiness=burstiness, max_in_flight=max_in_flight,
            range_ratio=range_ratio, repeated=repeated, force=force,
        )
    )  # fmt: skip
    served = _served(endpoint, model)
    if served.source is Source.MEASURED and speed != 1 and not force:
        hint = "only the emulated engine runs faster than life; --force measures anyway, and the point is invalid"
        raise InputError([Problem(f"{endpoint.url} is a real server", key="--speed", hint=hint)])
    source = make_prompts(load.sessions, prompts, model=served.model, seed=seed, tokenizer=tokenizer)
    told = {
        "trace": load.about,
        "pacing": load.pacing,
        "model": served.model,
        "workers": workers,
        "speed": speed,
        "prompt_mode": source.mode,
        "command": shlex.join(command_line()),
    }
    view = choose_view(as_json=as_json)
    with contextlib.ExitStack() as stack:
        pool = None
        if workers > 1:  # forked before any thread is started
            from ridgeline.replay.workers import WorkerPool

            pool = stack.enter_context(WorkerPool(workers, load.sessions, source, endpoint))
        store = stack.enter_context(Store(out, scrapes=bool(metrics_url)))
        folder = run_folder(out, told) if out is not None else None
        settings = ReplaySettings(
            progress_s=0.5,
            keep_records=out is None,
            scrape_urls=tuple(metrics_url or ()),
            scrape_s=max(0.1, 1.0 / speed),  # as many samples of a window, however fast it passes
            on_sample=store.on_sample,
            stored=told,
        )
        log = _power_log(stack, power, out)
        stack.enter_context(view)
        result = run_replay(
            load.pacer,
            source,
            endpoint,
            speed=speed,
            settings=settings,
            on_rows=store.take,
            on_progress=view.show,
            workers=pool,
        )
        if isinstance(load.pacer, AgentPacer):
            branches = asdict(load.pacer.tally.branches)
            result = replace(result, settings={**result.settings, "branches": branches})
        result = store.finish(result)
    lanes = load.concurrency or _lanes_used(result, store.path)
    cell = _cell(load, lanes, served.model, Topology(tp=gpus), (hardware, framework, precision))
    point = _point(result, store.path, cell, served.source, load, limits)
    energy = power_of(log, result, point, gpus)
    if energy is not None:
        point = replace(point, measures={**point.measures, **energy.measures})
    view.result(SUMMARY, point, result)
    if out is not None:
        written = write_exports(out, result, cell, point, exports, load.about, energy)
        if energy is not None:
            _write_plain(out / "power.json", energy.sidecar)
        sys.stderr.write(f"records: {store.path}\npoint: {written[0]}\n")
        sys.stderr.writelines(f"export: {path}\n" for path in written[1:])
        if folder is not None:
            add_cell(folder, cell, point)
        sys.stderr.write(
            f"next: `ridgeline report {out}`, or `ridgeline results import {out}` to keep and compare it\n"
        )
    if result.aborted:
        sys.stderr.write(f"error: the replay was aborted: {result.aborted}\n")
    return 1 if result.aborted or not store.succeeded else 0


def _check_counts(workers: int, gpus: int, pages: list[str]) -> None:
    """Raises InputError for what only shows when the replay is over."""
    found = [
        Problem(f"must be at least 1, not {count}", key=key)
        for key, count in (("--workers", workers), ("--gpus", gpus))
        if count < 1
    ]
    hint = "write http://HOST:PORT/metrics"
    wrong = [page for page in pages if not page.startswith(("http://", "https://"))]
    found += [Problem(f"`{page}` is no URL", key="--metrics-url", hint=hint) for page in wrong]
    if found:
        raise InputError(found)


def _endpoint(
    url: str, headers: list[str], session: str | None, key_env: str | None, read_timeout: float, speed: float
) -> Endpoint:
    problems = [
        Problem(f"must be above 0 and finite, not {value:g}", key=key)
        for key, value in (("--speed", speed), ("--read-timeout", read_timeout))
        if not 0 < value < math.inf
    ]
    named = {}
    for line in headers:
        name, colon, value = line.partition(":")
        if not colon:
            problems.append(Problem(f"`{line}` is no header", key="--header", hint="write `NAME: VALUE`"))
        named[name.strip()] = value.strip()
    if problems:
        raise InputError(problems)
    return Endpoint(url=url, api_key_env=key_env, headers=named, session_header=session, read_timeout_s=read_timeout)


class Served(NamedTuple):
    """Who answers: the model to ask for, and whether it is a real engine."""

    model: str
    source: Source


def _served(endpoint: Endpoint, model: str | None) -> Served:
    """The model to ask for: the given one, or the first that the server lists. An emulated engine says that it is one.

    Raises EnvironmentFailed when nobody answers there, so that a wrong address is told at once and not by a thousand
    failed requests.
    """
    import os
    import urllib.error
    import urllib.request

    import msgspec

    headers = dict(endpoint.headers)
    if endpoint.api_key_env:
        headers["Authorization"] = f"Bearer {os.environ[endpoint.api_key_env]}"
    address = f"{endpoint.url.rstrip('/').removesuffix('/v1')}/v1/models"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    names: list[str] = []
    owners: set[object] = set()
    listed: object = ""
    try:
        with opener.open(urllib.request.Request(address, headers=headers), timeout=10) as page:
            listed = msgspec.json.decode(page.read())
            entries = listed["data"] if isinstance(listed, dict) else []
            names = [str(entry["id"]) for entry in entries]
            owners = {entry.get("owned_by") for entry in entries}
    except urllib.error.HTTPError as error:
        listed = f"HTTP {error.code}"
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise EnvironmentFailed(
            f"nobody answers at {endpoint.url}: {reason}", hint="start the server, or check --url"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError):
        names, listed = [], "an answer in no known form"
    source = Source.EMULATED if EMULATOR in owners else Source.MEASURED
    if model is None and not names:
        raise InputError([Problem(f"the server lists no model ({address}: {listed})", key="--model", hint="name one")])
    if model is not None and names and model not in names:
        sys.stderr.write(f"note: the server lists {', '.join(names)}, not `{model}`\n")
    return Served(model or names[0], source)


def _slo(limits: list[str]) -> Slo | None:
    """`ttft=0.5` and the like. Raises InputError."""
    from ridgeline.results.metrics import Slo

    found: dict[str, float] = {}
    problems = []
    for text in limits:
        name, _, value = text.partition("=")
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if name not in ("ttft", "itl", "e2e") or not 0 < seconds < math.inf:
            problems.append(Problem(f"`{text}` is no limit", key="--slo", hint="write ttft=0.5, itl=0.02 or e2e=30"))
        else:
            found[f"{name}_s"] = seconds
    if problems:
        raise InputError(problems)
    return Slo(**found) if found else None


def _exports(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip() not in ("", "none"))
    if wrong := [name for name in names if name not in EXPORTS]:
        hint = f"any of {', '.join(EXPORTS)}, or none"
        raise InputError([Problem(f"`{name}` is no form", key="--export", hint=hint) for name in wrong])
    return names


def _power_log(stack: contextlib.ExitStack, power: str | None, out: Path | None) -> Path | None:
    """The log to integrate afterwards: a given file, or one that a vendor's tool writes from now on."""
    from ridgeline.replay.power import TOOLS, PowerLog

    if power is None:
        return None
    if power not in TOOLS:
        if not Path(power).exists():
            hint = f"a CSV file with a time, a device and a power column, or {' or '.join(TOOLS)}"
            raise InputError([Problem(f"no file `{power}`", key="--power", hint=hint)])
        return Path(power)
    if out is None:
        raise InputError([Problem(f"{power} needs a folder to write to", key="--power", hint="add --out")])
    return stack.enter_context(PowerLog(power, out / "power.csv")).path


def _lanes_used(result: Replay, path: Path | None) -> int:
    """Most requests in flight of an open loop: its lanes are dealt lowest first."""
    from ridgeline.results.metrics.columns import Columns

    lanes = Columns.of(path if path is not None else result)["lane"]
    return int(lanes.max()) + 1 if len(lanes) else 1


def _cell(load: Load, lanes: int, model: str, topology: Topology, named: tuple[str, str, str]) -> Cell:
    """The point's cell: what the options tell about a server that was not started here."""
    hardware, framework, precision = named
    benchmark = Benchmark(
        key="replay",
        image=UNKNOWN,
        model=model,
        model_prefix=model.rsplit("/", 1)[-1].lower(),
        precision=precision,
        framework=framework,
        runner=hardware,
    )
    return Cell(benchmark, load.scenario, Arm(topology=topology), lanes)


def _point(result: Replay, path: Path | None, cell: Cell, source: Source, load: Load, slo: Slo | None) -> Point:
    from ridgeline.results.aggregate import aggregate
    from ridgeline.results.identity import run_key

    asked = {name: value for name, value in load.pacing.items() if name not in ("benchmark_id", "run_id")}
    key = run_key(
        cell,
        None,
        image=UNKNOWN,
        model_revision=None,
        trace_digest=load.digest,
        replay_settings=asked | {"run": load.run_id},  # nobody knows that two runs met the same server
        source=source,
    )
    began = result.phases.profiling_start_ns
    return aggregate(
        path if path is not None else result,
        cell=cell,
        source=source,
        run_key=key,
        facts={"endpoint": result.settings["endpoint"]["url"], "trace": dict(load.about)},
        slo=slo,
        samples=result.samples,
        measured_at=None if began is None else _moment(result.settings["origin_unix_ns"] + began),
    )


def _moment(unix_ns: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def _write_plain(path: Path, value: object) -> None:
    from ridgeline.results.formats import encode_plain

    path.write_bytes(encode_plain(value))
