"""Loading: which format a path holds, which of its sessions are wanted, and what the corpus is then called."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from ridgeline.core.errors import InputError, Problem
from ridgeline.core.where import Where
from ridgeline.trace.build import build_session
from ridgeline.trace.corpus import PROFILES, Corpus, peak_context
from ridgeline.trace.formats import columnar, rows, weka
from ridgeline.trace.formats.plain import Row, Style, sessions
from ridgeline.trace.formats.problems import at_byte
from ridgeline.trace.formats.source import Record, chunks, files, records
from ridgeline.trace.formats.tables import azure, burstgpt, concatenated, table_format
from ridgeline.trace.session import Session

Selection = tuple[int | None, int | None]  # longest context, number of sessions
MOST_PROBLEMS = 100


def load(
    path: str | Path,
    *,
    format: str | None = None,
    max_context: int | None = None,
    limit: int | None = None,
    profile: str = "agentx",
) -> Corpus:
    """Sessions of a file or folder, in its order.

    `format` None: told from the content. `max_context` (tokens) drops sessions whose longest request needs more, and
    only then `limit` keeps the first so many. `profile` "aiperf-0.13" repeats that client's reading where it differs.
    Raises InputError with every problem found: unreadable, empty or unknown input, bad records, duplicate ids, or
    nothing left to replay.
    """
    path = Path(path)
    if profile not in PROFILES:
        raise InputError(f"unknown profile {profile!r}", hint=f"one of {', '.join(PROFILES)}")
    for name, value in (("max_context", max_context), ("limit", limit)):
        if value is not None and value < 1:
            raise InputError(f"`{name}` must be at least 1, not {value}")
    if format is not None and format not in READERS:
        raise InputError(f"unknown trace format {format!r}", hint=f"one of {', '.join(READERS)}")
    found = files(path)
    corpus = READERS[format or _detect(found[0])](path, found, (max_context, limit), profile)
    if not corpus.sessions:
        dropped = (
            f"; all {corpus.context_dropped} need more than {max_context} tokens" if corpus.context_dropped else ""
        )
        hint = (
            "allow longer contexts" if dropped else "give recorded sessions, or make some up: `ridgeline trace synth`"
        )
        raise InputError([Problem(f"no sessions in this trace{dropped}", Where(str(path)), hint=hint)])
    return corpus


def _detect(path: Path) -> str:
    """The format of a file, from its first bytes."""
    head = next(chunks(path), b"")
    if head.startswith(columnar.MAGIC):
        return "ridgeline"
    table = table_format(head.partition(b"\n")[0].decode(errors="replace").strip())
    if table:
        return table
    first = next(records(path), None)
    if first is None:
        hint = "give recorded sessions, or make some up: `ridgeline trace synth -o trace.jsonl.gz`"
        raise InputError([Problem("trace file is empty", Where(str(path)), hint=hint)])
    try:
        keys = set(msgspec.json.decode(first.data, type=dict[str, msgspec.Raw]))
        known = f": its first record has {_listed(keys)}"
    except msgspec.ValidationError:
        keys, known = set(), "; its first record is not a JSON object"
    except msgspec.DecodeError as error:
        raise InputError([Problem(f"not JSON: {error}", at_byte(first.data, str(error), first.where))]) from error
    for name, marks in MARKS:
        if keys & marks:
            return name
    raise InputError(
        [Problem(f"format not recognised{known}", first.where, hint=f"--format, one of {', '.join(READERS)}")]
    )


def _listed(keys: set[str]) -> str:
    names = ", ".join(f"`{key}`" for key in sorted(keys)[:5])
    return f"the keys {names}{', …' if len(keys) > 5 else ''}" if keys else "no keys"


def _weka(path: Path, found: list[Path], selection: Selection, profile: str) -> Corpus:
    digest = hashlib.sha256()
    parsed, dropped = _select(found, selection, digest)
    clock = weka.clock_of(item.trace for item in parsed)
    reading = "each" if profile == "aiperf-0.13" else clock
    built: list[Session] = []
    problems: list[Problem] = []
    digest.update(f"weka:{reading}".encode())
    for item in parsed:
        try:
            built.append(build_session(weka.raw_trace(item, reading)))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems[:MOST_PROBLEMS])
    return Corpus(
        sessions=tuple(built),
        source=str(path),
        format="weka",
        digest=digest.hexdigest(),
        clock=clock,
        profile=profile,
        context_dropped=dropped,
    )


def _select(found: list[Path], selection: Selection, digest: hashlib._Hash) -> tuple[list[weka.Parsed], int]:
    """Parse until enough sessions fit; feed the kept text to `digest`. Returns them and how many did not fit."""
    max_context, limit = selection
    kept: list[weka.Parsed] = []
    seen: dict[str, Where] = {}
    problems: list[Problem] = []
    dropped = 0
    for record in _records(found):
        try:
            parsed = weka.parse(record)
        except InputError as error:
            problems += error.problems
            if len(problems) >= MOST_PROBLEMS:
                break
            continue
        name = parsed.trace.id
        if name in seen:
            problems.append(Problem(f"session {name!r} is already at {seen[name]}", record.where, "id"))
            continue
        seen[name] = record.where
        if max_context is not None and parsed.peak > max_context:
            dropped += 1
            continue
        kept.append(parsed)
        digest.update(len(record.data).to_bytes(8, "big"))
        digest.update(record.data)
        if len(kept) == limit:
            break
    if problems:
        raise InputError(problems[:MOST_PROBLEMS])
    return kept, dropped


def _records(found: list[Path]) -> Iterator[Record]:
    for path in found:
        yield from records(path)


def _rows(
    name: str, read: Callable[[list[Path]], tuple[list[Row], Style]]
) -> Callable[[Path, list[Path], Selection, str], Corpus]:
    """A reader of a format of rows."""

    def reader(path: Path, found: list[Path], selection: Selection, profile: str) -> Corpus:
        digest = hashlib.sha256(name.encode())
        for file in found:
            for chunk in chunks(file):
                digest.update(chunk)
        kept, dropped = choose(sessions(*read(found)), *selection)
        for session in kept:
            digest.update(session.id.encode() + b"\0")
        return Corpus(
            sessions=kept,
            source=str(path),
            format=name,
            digest=digest.hexdigest(),
            profile=profile,
            context_dropped=dropped,
        )

    return reader


def _columnar(path: Path, found: list[Path], selection: Selection, profile: str) -> Corpus:
    corpus = columnar.read(found[0])
    kept, dropped = choose(corpus.sessions, *selection)
    digest = corpus.digest
    if len(kept) < len(corpus.sessions):
        digest = hashlib.sha256("\0".join([digest, *(session.id for session in kept)]).encode()).hexdigest()
    return replace(corpus, sessions=kept, digest=digest, context_dropped=dropped, source=str(path), profile=profile)


def choose(found: Iterable[Session], max_context: int | None, limit: int | None) -> tuple[tuple[Session, ...], int]:
    """Sessions that fit, at most `limit`; and how many did not fit before there were enough."""
    kept: list[Session] = []
    dropped = 0
    for session in found:
        if max_context is not None and peak_context(session) > max_context:
            dropped += 1
            continue
        kept.append(session)
        if len(kept) == limit:
            break
    return tuple(kept), dropped


READERS: dict[str, Callable[[Path, list[Path], Selection, str], Corpus]] = {
    "weka": _weka,
    "ridgeline": _columnar,
    "mooncake": _rows("mooncake", lambda found: rows.mooncake(_records(found))),
    "bailian": _rows("bailian", lambda found: rows.bailian(_records(found))),
    "multi-turn": _rows("multi-turn", lambda found: rows.multi_turn(_records(found))),
    "single-turn": _rows("single-turn", lambda found: rows.single_turn(_records(found))),
    "azure": _rows("azure", lambda found: concatenated(found, azure)),
    "burstgpt": _rows("burstgpt", lambda found: concatenated(found, burstgpt)),
}

MARKS = (  # keys that only records of one format have, most telling first
    ("weka", {"requests", "hash_id_scope", "block_size"}),
    ("bailian", {"chat_id", "parent_chat_id"}),
    ("multi-turn", {"turns"}),
    ("mooncake", {"input_length", "text_input", "messages", "payload"}),
    ("single-turn", {"text", "texts"}),
)
