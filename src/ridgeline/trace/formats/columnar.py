"""Our own form of a corpus: one Arrow file, a row a turn, mapped into memory when read.

Block ids are stored once a shared run, in the row that uses the run first; other rows refer to that row. What is not a
turn (sessions, conversations, branches) is small and lies in the file's metadata as JSON. Version 1.
"""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.where import Where
from ridgeline.trace.blocks import BlockIds
from ridgeline.trace.corpus import Corpus
from ridgeline.trace.session import Branch, Conversation, Recorded, Session, Turn, TurnKey

MAGIC = b"ARROW1"
VERSION = 1
_META = b"ridgeline.trace"
_PLAIN = {
    "at_ns": pa.int64(),
    "delay_ns": pa.int64(),
    "api_ns": pa.int64(),
    "input_tokens": pa.int64(),
    "output_tokens": pa.int64(),
    "model": pa.dictionary(pa.int32(), pa.string()),
    "declared_prefix_tokens": pa.int64(),
    "kind": pa.dictionary(pa.int32(), pa.string()),
    "hit_blocks": pa.int64(),
    "outer": pa.int64(),
    "inner": pa.int64(),
    "source_kind": pa.dictionary(pa.int32(), pa.string()),
}


def write(corpus: Corpus, path: Path) -> None:
    """Write a corpus. Raises EnvironmentFailed when the file cannot be written."""
    turns = [turn for session in corpus.sessions for conv in session.conversations for turn in conv.turns]
    columns: dict[str, Any] = {
        name: pa.array([getattr(turn, name) for turn in turns]).cast(kind) for name, kind in _PLAIN.items()
    }
    columns["spawns"] = pa.array([turn.spawns for turn in turns], pa.list_(pa.int32()))
    columns["joins"] = pa.array([turn.joins for turn in turns], pa.list_(pa.int32()))
    flat = [[number for key in turn.predecessors for number in key] for turn in turns]
    columns["predecessors"] = pa.array(flat, pa.list_(pa.int32()))
    messages = [None if turn.messages is None else json.dumps(turn.messages) for turn in turns]
    columns["messages"] = pa.array(messages, pa.string())
    recorded = [None if turn.recorded is None else json.dumps(turn.recorded) for turn in turns]
    if any(recorded):  # a file without is what earlier versions wrote
        columns["recorded"] = pa.array(recorded, pa.string())
    columns |= _runs(turns)
    table = pa.table(columns).replace_schema_metadata({_META: json.dumps(_meta(corpus)).encode()})
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except OSError as error:
        raise EnvironmentFailed(f"cannot write {path}: {error}") from error


def read(path: Path) -> Corpus:
    """Read a corpus; block ids stay in the file. Raises InputError when it is not such a file."""
    where = Where(str(path))
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        meta = json.loads((table.schema.metadata or {})[_META])
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise InputError([Problem("not a trace written by `ridgeline trace convert`", where)]) from error
    if meta["version"] != VERSION:
        hint = "convert the original again"
        raise InputError([Problem(f"trace file of version {meta['version']}, not {VERSION}", where, hint=hint)])
    turns = iter(_turns(table))
    sessions = tuple(_session(entry, turns) for entry in meta.pop("sessions"))
    meta.pop("version")
    return Corpus(sessions=sessions, **(meta | {"notes": tuple(meta["notes"])}))


def _runs(turns: list[Turn]) -> dict[str, Any]:
    """`run_row`: the row that holds a turn's ids; `blocks`: how many of them; `run`: the ids, in that row only."""
    owner: dict[int, int] = {}
    longest: dict[int, int] = {}
    rows, sizes = [], []
    ids = [BlockIds.of(turn.hash_ids) for turn in turns]
    for number, own in enumerate(ids):
        row = owner.setdefault(id(own.base), number)
        longest[row] = max(longest.get(row, 0), len(own))
        rows.append(row)
        sizes.append(len(own))
    wide = any(memoryview(own.base).format == "Q" for own in ids)
    kind = pa.uint64() if wide else pa.int64()
    offsets, parts = [0], []
    for number, own in enumerate(ids):
        if rows[number] == number:
            parts.append(pa.array(BlockIds(own.base, longest[number]).numpy()).cast(kind))
        offsets.append(offsets[-1] + (longest[number] if rows[number] == number else 0))
    values = pa.concat_arrays(parts) if parts else pa.array([], kind)
    run = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
    return {"run": run, "run_row": pa.array(rows, pa.int64()), "blocks": pa.array(sizes, pa.int64())}


def _turns(table: pa.Table) -> list[Turn]:
    columns = {
        name: table.column(name).to_pylist() for name in [*_PLAIN, "spawns", "joins", "predecessors", "messages"]
    }
    bodies: list[Any] = [None] * table.num_rows
    if "recorded" in table.column_names:
        bodies = table.column("recorded").to_pylist()
    ids = _ids(table)
    turns = []
    for row in range(table.num_rows):
        values = {name: columns[name][row] for name in _PLAIN}
        flat, text = columns["predecessors"][row], columns["messages"][row]
        turns.append(
            Turn(
                **values,
                hash_ids=ids[row],
                spawns=tuple(columns["spawns"][row]),
                joins=tuple(columns["joins"][row]),
                predecessors=tuple(TurnKey(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)),
                messages=None if text is None else tuple((role, content) for role, content in json.loads(text)),
                recorded=None if bodies[row] is None else Recorded(*json.loads(bodies[row])),
            )
        )
    return turns


def _ids(table: pa.Table) -> list[BlockIds]:
    found: list[BlockIds] = []
    if not table.num_rows:
        return found
    run = table.column("run").combine_chunks()
    code: Literal["q", "Q"] = "Q" if run.type.value_type == pa.uint64() else "q"
    starts = run.offsets.to_pylist()
    values = memoryview(run.values.buffers()[1] or b"").cast("B").cast(code) if starts[-1] else memoryview(array(code))
    bases = {
        row: values[starts[row] : starts[row + 1]] for row in set(table.column("run_row").to_pylist())
    }  # one object a run, so that equal prefixes are told by identity
    rows, sizes = table.column("run_row").to_pylist(), table.column("blocks").to_pylist()
    return [BlockIds(bases[row], size) for row, size in zip(rows, sizes, strict=True)]


def _meta(corpus: Corpus) -> dict[str, Any]:
    sessions = [
        {
            "id": session.id,
            "block_size": session.block_size,
            "hash_scope": session.hash_scope,
            "conversations": [[c.id, c.scope, c.depth, c.branch, len(c.turns)] for c in session.conversations],
            "branches": [[b.id, b.children, b.spawn_turn, b.join_turn, b.start_ns] for b in session.branches],
        }
        for session in corpus.sessions
    ]
    fields = ("source", "format", "digest", "clock", "profile", "context_dropped", "notes")
    return {"version": VERSION, "sessions": sessions} | {name: getattr(corpus, name) for name in fields}


def _session(entry: dict[str, Any], turns: Any) -> Session:
    return Session(
        id=entry["id"],
        block_size=entry["block_size"],
        hash_scope=entry["hash_scope"],
        conversations=tuple(
            Conversation(
                id=name, scope=scope, depth=depth, branch=branch, turns=tuple(next(turns) for _ in range(count))
            )
            for name, scope, depth, branch, count in entry["conversations"]
        ),
        branches=tuple(
            Branch(id=name, children=tuple(children), spawn_turn=spawn, join_turn=join, start_ns=start)
            for name, children, spawn, join, start in entry["branches"]
        ),
    )
