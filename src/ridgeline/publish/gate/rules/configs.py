"""Rules about master configs: changed entries, their images, keys and deprecations."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ridgeline.core.where import Where
from ridgeline.publish.gate.change import Change
from ridgeline.publish.gate.images import read_image, why_moving, why_private
from ridgeline.publish.gate.policy import GatePolicy
from ridgeline.publish.gate.rule import Remark, Severity, remark
from ridgeline.spec.config import ConfigSet, Entry, from_documents
from ridgeline.spec.tree import Document, parse


class Configs(NamedTuple):
    """The master configs of one revision with their documents, which know the places of keys."""

    entries: ConfigSet
    documents: tuple[Document, ...]

    def where(self, key: str, *path: str) -> Where:
        """Place of a field of an entry, or of its key."""
        for document in self.documents:
            if isinstance(document.value, dict) and key in document.value:
                return document.where((key, *path), at_key=not path)
        return Where(self.documents[0].file if self.documents else "")


def read_configs(files: Sequence[tuple[str, bytes]]) -> Configs:
    """Load (name, bytes) in merge order. Raises InputError with all problems."""
    documents = tuple(parse(data, name) for name, data in files)
    return Configs(from_documents(documents), documents)


def changed_keys(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> tuple[str, ...]:
    """Keys of entries that are new, gone or different, in the order of the head."""
    keys = dict.fromkeys((*after, *before))
    return tuple(key for key in keys if _written(before.get(key)) != _written(after.get(key)))


def _written(entry: Entry | None) -> object:
    return None if entry is None else entry.written


def without_changelog(changed: Sequence[str], head: Configs, base: Configs, policy: GatePolicy) -> Iterator[Remark]:
    """P01, for a change that adds no entry at all."""
    if not changed:
        return
    first = changed[0]
    where = head.where(first) if first in head.entries else base.where(first)
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    yield remark("P01", f"`{first}`{more} changed, and {policy.paths.changelog} has no new entry", where)


def unselected(changed: Sequence[str], selected: Collection[str], head: Configs) -> Iterator[Remark]:
    """P01 as a warning, for changed entries that no added changelog entry selects."""
    for key in changed:
        if key in head.entries and key not in selected:
            what = f"`{key}` changed, and no new changelog entry selects it: it is not measured"
            yield remark("P01", what, head.where(key), severity=Severity.WARNING)


def images(changed: Sequence[str], before: Mapping[str, Entry], head: Configs, policy: GatePolicy) -> Iterator[Remark]:
    """P10, P11, P12 for entries whose image is new."""
    for key in changed:
        entry, old = head.entries.get(key), before.get(key)
        if entry is None or (old is not None and old.image == entry.image):
            continue
        image, where = read_image(entry.image), head.where(key, "image")
        private = why_private(image, policy)
        if private:
            yield remark("P10", f"image `{entry.image}` of `{key}` cannot be pulled by others: {private}", where)
            continue
        moving = why_moving(image, policy)
        if moving:
            known, why = moving
            yield remark("P11" if known else "P12", f"image `{entry.image}` of `{key}`: {why}", where)


def keys(changed: Sequence[str], before: Mapping[str, Entry], head: Configs) -> Iterator[Remark]:
    """P30 for new entries. A framework such as `dynamo-vllm` may be shortened to one of its parts."""
    for key in changed:
        entry = head.entries.get(key)
        if entry is None or key in before:
            continue
        lacks = []
        if not key.startswith(f"{entry.model_prefix}-"):
            lacks.append(f"does not begin with its model prefix `{entry.model_prefix}`")
        parts = key.split("-")
        if entry.precision not in parts:
            lacks.append(f"lacks its precision `{entry.precision}`")
        if not any(part.startswith(name) for part in parts for name in entry.framework.split("-")):
            lacks.append(f"lacks its framework `{entry.framework}`")
        if lacks:
            yield remark("P30", f"key `{key}` {', '.join(lacks)}", head.where(key))


def deprecated(changed: Sequence[str], head: Configs, policy: GatePolicy, today: datetime.date) -> Iterator[Remark]:
    """P31: blocking from the day on, announced before."""
    for key in changed:
        entry = head.entries.get(key)
        for rule in policy.deprecated if entry is not None else ():
            assert entry is not None
            if rule.model_prefix != entry.model_prefix or not _uses(entry, rule.scenario):
                continue
            scope = f" with {rule.scenario}" if rule.scenario else ""
            what = f"`{rule.model_prefix}`{scope} takes no new work from {rule.since}: {rule.reason}"
            severity = Severity.BLOCKING if today >= rule.since else Severity.WARNING
            yield remark("P31", what, head.where(key, "model-prefix"), severity=severity)


def _uses(entry: Entry, scenario: str | None) -> bool:
    return scenario is None or bool(entry.fixed if scenario == "fixed-seq-len" else entry.agentic)


def generator(change: Change, policy: GatePolicy) -> Iterator[Remark]:
    """P90."""
    for path in policy.paths.generator:
        file = change.files.get(path)
        if file is not None:
            was, now = ((data or b"").count(b"\n") for data in (file.before, file.after))
            yield remark("P90", f"{now} lines, {was} at the base ({now - was:+d})", Where(path))
