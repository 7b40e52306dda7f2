"""`ridgeline trace`: look into, convert or synthesise trace files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ridgeline.cli.typed import run_app
from ridgeline.core.errors import InputError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Look into, convert or synthesise trace files.")

Trace = Annotated[Path, typer.Argument(help="a trace file (JSON, JSON lines, CSV, converted; gz too) or a folder")]
Format = Annotated[str | None, typer.Option(help="format of the file; told from its content when left out")]
MaxContext = Annotated[int | None, typer.Option(help="leave out sessions that need more tokens than this")]
Limit = Annotated[int | None, typer.Option(help="keep so many sessions, counted after --max-context")]
Profile = Annotated[str, typer.Option(help="agentx, or aiperf-0.13 to read a trace as that client does")]
Json = Annotated[bool, typer.Option("--json", help="JSON to stdout")]


@app.command()
def info(
    path: Annotated[
        Path | None, typer.Argument(help="a trace file or a folder; left out: the sample that comes with Ridgeline")
    ] = None,
    format: Format = None,
    max_context: MaxContext = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Statistics of a trace: sessions, lengths, gaps, subagents, cache hits."""
    from ridgeline.trace import load
    from ridgeline.trace.stats import statistics
    from ridgeline.trace.synth import quickstart_trace

    if path is None:
        path = quickstart_trace()
        sys.stderr.write(f"the sample that comes with Ridgeline: {path}\n")
    found = statistics(load(path, format=format, max_context=max_context, limit=limit))
    if as_json:
        _json(found)
        return
    sys.stdout.write(_table(found))


@app.command()
def show(
    target: Annotated[str, typer.Argument(help="a session's id, or the trace file itself")],
    session: Annotated[str | None, typer.Argument(help="the session's id, when the first argument is a file")] = None,
    trace: Annotated[Path | None, typer.Option(help="the trace file, when the first argument is an id")] = None,
    format: Format = None,
    profile: Profile = "agentx",
    as_json: Json = False,
) -> None:
    """The conversations of a session as they will be replayed."""
    from ridgeline.trace import load
    from ridgeline.trace.show import describe

    path, name = (trace, target) if trace else (Path(target), session)
    corpus = load(path, format=format, profile=profile)
    if name is None and len(corpus.sessions) > 1:
        raise InputError(
            f"{path} holds {len(corpus.sessions)} sessions", hint=f"name one, e.g. `{corpus.sessions[0].id}`"
        )
    try:
        found = describe(corpus.session(name) if name else corpus.sessions[0], profile)
    except KeyError:
        ids = ", ".join(item.id for item in corpus.sessions[:5])
        raise InputError(f"no session {name!r} in {path}", hint=f"there are {ids}, …") from None
    if as_json:
        _json(found)
        return
    sys.stdout.write(_conversations(found))


@app.command()
def convert(
    path: Trace,
    output: Annotated[Path, typer.Option("--output", "-o", help="file to write (.arrow)")],
    format: Format = None,
    max_context: MaxContext = None,
    limit: Limit = None,
    profile: Profile = "agentx",
) -> None:
    """Write a trace as one compact columnar file that is mapped into memory when it is read."""
    from ridgeline.trace import load
    from ridgeline.trace.formats.columnar import write

    corpus = load(path, format=format, max_context=max_context, limit=limit, profile=profile)
    write(corpus, output)
    size = output.stat().st_size / 1e6
    sys.stderr.write(
        f"{len(corpus.sessions)} sessions, {size:.1f} MB in {output}\nnext: ridgeline trace info {output}\n"
    )


@app.command()
def synth(
    output: Annotated[Path, typer.Option("--output", "-o", help="file to write (.jsonl or .jsonl.gz)")],
    sessions: Annotated[int, typer.Option(help="how many")] = 50,
    seed: Annotated[int | None, typer.Option(help="equal seeds give equal files; default: 42, of agentx 22")] = None,
    shape: Annotated[
        str,
        typer.Option(
            help="agentic: like recorded coding sessions; agentx: like the public AgentX set; quickstart: short ones"
        ),
    ] = "agentic",
    max_context: Annotated[int | None, typer.Option(help="longest context in tokens, output included")] = None,
) -> None:
    """Make up sessions in the shape of recorded ones and write them in the weka format."""
    from ridgeline.trace.agentx import SEED, agentx_records
    from ridgeline.trace.formats.write import write_jsonl
    from ridgeline.trace.synth import synthesise

    if shape == "agentx":
        records = agentx_records(sessions, seed=SEED if seed is None else seed, longest=max_context)
    else:
        records = synthesise(sessions, seed=42 if seed is None else seed, shape=shape, max_context=max_context)
    count = write_jsonl(output, records)
    size = output.stat().st_size / 1e6
    sys.stderr.write(f"{count} sessions, {size:.2f} MB in {output}\nnext: ridgeline trace info {output}\n")


def run(argv: list[str]) -> int | None:
    """The verb."""
    return run_app(app, "trace", argv)


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


def _table(found: dict[str, Any]) -> str:
    """Scalars first, then one line a distribution."""
    lines, spread = [], []
    for name, value in found.items():
        if isinstance(value, dict) and "p50" in value:
            spread.append((name, value))
        elif isinstance(value, dict):
            lines.append(f"{name:<28}{', '.join(f'{count} {kind}' for kind, count in value.items())}")
        else:
            lines.append(f"{name:<28}{'-' if value is None else _number(value)}")
    heads = ("mean", "p10", "p50", "p90", "p99", "min", "max")
    lines += ["", f"{'':<28}" + "".join(f"{head:>11}" for head in heads)]
    lines += [f"{name:<28}" + "".join(f"{_number(value[head]):>11}" for head in heads) for name, value in spread]
    return "\n".join(lines) + "\n"


def _number(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _conversations(found: dict[str, Any]) -> str:
    lines = []
    for conversation in found["conversations"]:
        lines.append(f"{conversation['id']}: {len(conversation['turns'])} turns")
        lines += [
            f"  branch {branch['id']}: {', '.join(branch['children'])}{' (background)' if branch['bg'] else ''}"
            for branch in conversation["branches"]
        ]
        for k, turn in enumerate(conversation["turns"]):
            at = "-" if turn["t_ms"] is None else f"{turn['t_ms'] / 1000:.3f} s"
            tokens = sum(int(text.split(":")[0]) for _, text in turn["msgs"])
            notes = [f"{name} {', '.join(turn[name])}" for name in ("spawns", "joins") if turn[name]]
            lines.append(
                f"  {k:>4} {at:>14} {tokens:>8} tokens, {turn['hit']}/{turn['total']} blocks seen, "
                + "; ".join([f"{turn['max_tokens']} to generate", *notes])
            )
    return "\n".join(lines) + "\n"
