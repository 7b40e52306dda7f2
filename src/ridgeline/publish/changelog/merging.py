"""New bytes of a changelog: links made canonical, a conflict with main resolved. History is copied, never rewritten."""

from __future__ import annotations

import re

from ridgeline.core.errors import InputError
from ridgeline.publish.changelog.contract import FILE, Change, Correction, strict
from ridgeline.publish.changelog.document import Document, read_document, set_link
from ridgeline.publish.changelog.links import Links
from ridgeline.publish.changelog.refusal import ChangelogRefused, at


def canonicalize(base: bytes, head: bytes, links: Links, file: str = FILE) -> bytes:
    """`head` with the placeholder links of its added entries replaced by this pull request's address.

    Idempotent; everything before the first added entry and every line without a placeholder stays. Raises
    ChangelogRefused when `head` breaks the contract, before or after.
    """
    change = strict(base, head, links, file)
    if links.url is None:
        raise InputError("the number of the pull request is needed to write its link")
    if not change.additions:
        return head
    result = base + _separator(base)
    for index, entry in enumerate(change.additions, len(change.base.entries)):
        block = change.head.block(index)
        result += set_link(block, links.url, file, entry.line) if links.is_placeholder(entry.pr_link) else block
    strict(base, result, links, file)
    return result


def resolve(base: bytes, pull: bytes, main: bytes, links: Links, file: str = FILE) -> bytes:
    """Main's bytes with the pull request's contribution on top: `base` is their common ancestor.

    Added entries whose content already stands on main are dropped; the others follow main's bytes under one empty
    line each, with this pull request's link (kept as written while its number is unknown). Link corrections are
    replayed where main still has the old link. Raises ChangelogRefused when nothing is left to contribute, when
    main and the pull request correct the same link differently, or when a side is malformed.
    """
    change = strict(base, pull, links, file)
    upstream = read_document(main, f"{file} (main)")
    if change.additions:
        result = _append(change, upstream, links)
    elif change.corrections:
        result = _replay(change.corrections, upstream)
    else:
        raise ChangelogRefused([at(file, 0, "this side adds and corrects nothing: there is nothing to carry over")])
    strict(main, result, links, file)
    return result


def _append(change: Change, upstream: Document, links: Links) -> bytes:
    known = {entry.content for entry in upstream.entries}
    blocks = []
    for index, entry in enumerate(change.additions, len(change.base.entries)):
        if entry.content in known:
            continue
        block = _without_trailing_blanks(change.head.block(index))
        blocks.append(block if links.url is None else set_link(block, links.url, change.head.file, entry.line))
    if not blocks:
        line = change.additions[0].line
        raise ChangelogRefused(
            [at(change.head.file, line, "every added entry already stands on main: nothing is left to add")]
        )
    return upstream.data + _separator(upstream.data) + b"\n".join(blocks)


def _replay(corrections: tuple[Correction, ...], upstream: Document) -> bytes:
    lines = upstream.data.splitlines(keepends=True)
    problems, replaced = [], 0
    for position, before, after in corrections:
        there = upstream.entries[position] if position < len(upstream.entries) else None
        if there is None or there.content != before.content:
            problems.append(at(upstream.file, there.line if there else 0, f"entry {position + 1} differs on main"))
        elif there.pr_link == after.pr_link:
            continue
        elif there.pr_link != before.pr_link:
            what = f"main corrected this link to `{there.pr_link}`, this side to `{after.pr_link}`"
            problems.append(at(upstream.file, there.link_line, what, key="pr-link", hint="decide which one is right"))
        else:
            start = there.line - 1
            block = upstream.block(position)
            patched = set_link(block, after.pr_link, upstream.file, there.line).splitlines(keepends=True)
            lines[start : start + len(patched)] = patched
            replaced += 1
    if not problems and not replaced:
        problems.append(at(upstream.file, 0, "every corrected link already stands on main: nothing is left to correct"))
    if problems:
        raise ChangelogRefused(problems)
    return b"".join(lines)


def _separator(data: bytes) -> bytes:
    return b"" if data.endswith(b"\n\n") else b"\n"


def _without_trailing_blanks(block: bytes) -> bytes:
    return re.sub(rb"\n(?: *\n)+\Z", b"\n", block)
