"""How many tokens of live sessions a cache would have to hold at once."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.core.record import Outcome, Record


def live_histories(records: Sequence[Record]) -> int | None:
    """The most tokens that sessions under way had at one time: of each of their streams the last prompt and answer.
    A session is under way from its first request to the end of its last one; what streams of one tree share counts
    for each. None where no request tells its tokens."""
    told = [r for r in records if r.outcome is Outcome.OK and r.prompt_tokens and r.sent_ns is not None and r.end_ns]
    if not told:
        return None
    ends: dict[int, int] = {}
    for ended in told:
        ends[ended.tree] = max(ends.get(ended.tree, 0), ended.end_ns or 0)
    streams: dict[tuple[int, str], int] = {}
    # A session that ends gives its tokens back before one that begins at the same moment takes its own.
    events: list[tuple[int, int, int, Record | None]] = [(end, 0, tree, None) for tree, end in ends.items()]
    events += [(begun.sent_ns or 0, 1, begun.tree, begun) for begun in told]
    held = most = 0
    for _, _, tree, record in sorted(events, key=lambda event: event[:3]):
        if record is None:
            held -= sum(streams.pop(key) for key in [key for key in streams if key[0] == tree])
            continue
        key = (tree, record.correlation_id)
        tokens = (record.prompt_tokens or 0) + (record.completion_tokens or 0)
        held += tokens - streams.get(key, 0)
        streams[key] = tokens
        most = max(most, held)
    return most
