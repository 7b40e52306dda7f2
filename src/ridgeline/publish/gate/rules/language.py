"""P40 and P41: English and Chinese, by presence and structure. What is well said is not for a machine to judge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from ridgeline.core.where import Where
from ridgeline.publish.gate.change import Change, ChangedFile
from ridgeline.publish.gate.policy import GatePolicy, matches
from ridgeline.publish.gate.rule import Remark, Severity, remark

TITLE, BODY = "title", "description"
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"[A-Za-z]{2,}")
_CODE = re.compile(r"`[^`\n]*`")
_URL = re.compile(r"https?://[^\s<>()\[\]\"'`，。；：）】」]+")
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_LEAST_HAN, _LEAST_WORDS = 2, 2  # of a title: one word of either language already has this much
_BODY_HAN, _BODY_WORDS = 8, 5  # of a description: less is a name or a greeting, not a section


class Half(NamedTuple):
    """What one language has in a text."""

    letters: int
    links: frozenset[str]
    code_blocks: int
    headings: int


def title_lacks(title: str) -> list[str]:
    """The languages a title lacks."""
    plain = _CODE.sub(" ", _URL.sub(" ", title))
    lacks = []
    if len(_WORD.findall(plain)) < _LEAST_WORDS:
        lacks.append("English")
    if len(_HAN.findall(plain)) < _LEAST_HAN:
        lacks.append("Chinese")
    return lacks


def halves(body: str) -> tuple[Half, Half]:
    """(English, Chinese) of a description. A paragraph belongs to Chinese when it holds at least as many Han characters
    as words; code blocks and bare links belong to the language of the paragraph before them."""
    english, chinese = _Gather(), _Gather()
    current, fenced = english, False
    for line in _without_comments(body).split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
            current.code_blocks += fenced
            continue
        if fenced:
            continue
        links = _URL.findall(line)
        plain = _CODE.sub(" ", _URL.sub(" ", line))
        han, words = len(_HAN.findall(plain)), len(_WORD.findall(plain))
        if han or words > 1:
            current = chinese if han >= max(1, words) else english
        current.links |= {link.rstrip(".,;:!?") for link in links}
        current.headings += line.lstrip().startswith("#")
        current.letters += han if current is chinese else words
    return english.half, chinese.half


class _Gather:
    def __init__(self) -> None:
        self.letters = self.code_blocks = self.headings = 0
        self.links: set[str] = set()

    @property
    def half(self) -> Half:
        return Half(self.letters, frozenset(self.links), self.code_blocks, self.headings)


def two_languages(title: str, body: str, author: str, policy: GatePolicy) -> Iterator[Remark]:
    """P40: one remark for all that is missing, another for each unequal structure."""
    language = policy.language
    if matches(author, language.exempt_authors):
        return
    missing = [f"the title lacks its {name} half" for name in (title_lacks(title) if language.title else ())]
    english, chinese = halves(body)
    lacking = []
    if language.body:
        lacking += ["English"] if english.letters < _BODY_WORDS else []
        lacking += ["Chinese"] if chinese.letters < _BODY_HAN else []
    missing += [f"the description lacks its {name} section" for name in lacking]
    if missing:
        place = Where(TITLE if missing[0].startswith("the title") else BODY)
        yield remark("P40", "; ".join(missing), place)
    if language.body and not lacking:
        for what in _unequal(english, chinese):
            yield remark("P40", what, Where(BODY), severity=Severity.WARNING, hint="give evidence in both languages")


def _unequal(english: Half, chinese: Half) -> Iterator[str]:
    """What one half has and the other lacks. A heading more may be the one that begins the second half."""
    if odd := sorted(english.links ^ chinese.links):
        half = "English" if odd[0] in english.links else "Chinese"
        more = f", and {len(odd) - 1} more" if len(odd) > 1 else ""
        yield f"only the {half} part links {odd[0]}{more}"
    if english.code_blocks != chinese.code_blocks:
        yield f"the English part has {english.code_blocks} code blocks, the Chinese one {chinese.code_blocks}"
    if abs(english.headings - chinese.headings) > 1:
        yield f"the English part has {english.headings} headings, the Chinese one {chinese.headings}"


def twins(change: Change, policy: GatePolicy) -> Iterator[Remark]:
    """P41 for pages of the policy's list."""
    rule = policy.language.twins
    if rule is None:
        return
    for file in change.matching(rule.pages):
        path = PurePosixPath(file.path)
        if matches(file.path, rule.exempt) or path.stem.endswith(rule.suffix):
            continue
        name = str(path.with_name(f"{path.stem}{rule.suffix}{path.suffix}"))
        twin = change.files.get(name)
        if twin is None or twin.after is None:
            yield remark("P41", f"changed without `{name}`", Where(file.path))
            continue
        differs = [what for what, one, other in _structures(file, twin) if one != other]
        if differs:
            yield remark("P41", f"differs from `{name}` in {', '.join(differs)}", Where(name))


def _structures(file: ChangedFile, twin: ChangedFile) -> Iterator[tuple[str, object, object]]:
    one, other = (_structure(text) for text in (file.text, twin.text))
    for what in one:
        yield what, one[what], other[what]


def _structure(text: str) -> dict[str, object]:
    headings: list[int] = []
    blocks: list[str] = []
    rows = 0
    inside: list[str] | None = None
    for line in text.split("\n"):
        if _FENCE.match(line):
            if inside is None:
                inside = []
            else:
                blocks.append("\n".join(inside))
                inside = None
        elif inside is not None:
            inside.append(line)
        elif match := re.match(r"(#{1,6})\s", line):
            headings.append(len(match[1]))
        else:
            rows += line.lstrip().startswith("|")
    return {"headings": headings, "code blocks": len(blocks), "links": set(_URL.findall(text)), "table rows": rows}


def _without_comments(text: str) -> str:
    """HTML comments blanked, line by line, without a pattern that a hostile text could make slow."""
    parts = text.split("<!--")
    kept = [parts[0]]
    for part in parts[1:]:
        comment, end, rest = part.partition("-->")
        kept.append("\n" * comment.count("\n") + (rest if end else ""))
    return "".join(kept)
