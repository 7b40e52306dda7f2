"""The error a log begins to end with: what the first traceback in it raised.

Engines of several processes end one after the other, and the last lines are those of the process that only noticed.
Lines may begin with a process (`(EngineCore pid=116)`) and a logger's level, time and place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PROCESS = r"(?:\([^()]*?(?:pid|rank)[= ]?\d+[^()]*\)|\[[^\[\]]*(?:rank|TP|DP|EP)\d+[^\[\]]*\])"
_LOGGER = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\b(?:\s+[\d:.,-]+)*(?:\s+\[[^\]]*\])?:?"
_LINE = re.compile(rf"^(?P<process>(?:{_PROCESS}\s*)*)(?:{_LOGGER})?(?P<rest>.*)$")
_BEGIN = "Traceback (most recent call last):"
_HARMLESS = ("DEBUG", "INFO", "WARNING")
_LONGEST = 300


def first_raised(lines: Iterable[str]) -> str | None:
    """The exception (`Type: message`) at the end of the first traceback that is not logged as a warning or less; of
    chained ones the first, which Python prints first. None without one, or when it is cut off."""
    inside: dict[str, str] = {}  # by process: they write between each other's lines
    for line in lines:
        match = _LINE.match(line)
        assert match is not None  # every part may be empty
        process, level, rest = match["process"].strip(), match["level"], match["rest"]
        text = rest.strip()
        if text.endswith(_BEGIN):
            if level in _HARMLESS:
                inside.pop(process, None)
            else:
                # Text under a logger's prefix stands one space further right; frames are indented by two at least.
                inside[process] = " " if level else ""
                if not level:  # SGLang's prefix stands before the first line only
                    inside[""] = ""
        elif process in inside and text:
            body = rest.removeprefix(inside[process])
            if not body.startswith(" ") and text.partition(":")[0].replace(".", "").replace("_", "").isalnum():
                return text[:_LONGEST]
    return None
