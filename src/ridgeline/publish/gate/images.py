"""What an image reference says about itself: whether anyone can pull it, and whether it moves. No registry is asked."""

from __future__ import annotations

import re
from typing import NamedTuple

from ridgeline.publish.gate.policy import GatePolicy, matches

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")
_VERSION = re.compile(r"(?:\A|[-_.a-z])v?\d+\.\d+")
_COMMIT = re.compile(r"(?:\A|[-_.])(?:[0-9a-f]{40}|(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,12})(?:\Z|[-_.])")
_DATE = re.compile(r"20\d{6}(?:\d{2,6})?|(?:0[1-9]|1[0-2])[0-3]\d")  # 20260820, 202608201032, 0820
_WORDS = re.compile(r"[-_.]")
_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/#@-]*\Z")


class Image(NamedTuple):
    """`host`: the registry, None for the default one. `tag` None: none is given, which means `latest`."""

    reference: str
    host: str | None
    name: str
    tag: str | None
    digest: str | None


def read_image(reference: str) -> Image:
    """Take a reference apart. `#` after the host is the container runtime's way to write the first slash."""
    text = reference.replace("#", "/", 1)
    digest = _DIGEST.search(text)
    rest = text[: digest.start()] if digest else text
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        name, tag = rest, ""
    first, slash, _ = name.partition("/")
    host = first if slash and ("." in first or ":" in first or first == "localhost") else None
    return Image(reference, host, name, tag or None, digest.group()[1:] if digest else None)


def why_private(image: Image, policy: GatePolicy) -> str | None:
    """Why nobody outside can pull it; None when nothing says so."""
    reference = image.reference
    if not _SHAPE.match(reference) or reference.startswith("file:"):
        return "it is a path, not a reference" if reference.startswith(("/", ".", "~", "file:")) else "not a reference"
    if reference.endswith((".sqsh", ".sif", ".tar")):
        return "it is a container file, not a reference"
    host = (image.host or "").partition(":")[0]
    if host and (matches(host, policy.images.private_registries) or re.fullmatch(r"[0-9.]+", host)):
        return f"`{image.host}` is reached from an inside network only"
    return None


def why_moving(image: Image, policy: GatePolicy) -> tuple[bool, str] | None:
    """(whether it is known to move, why); None for a digest, a release tag, or a build named by its commit."""
    if image.digest:
        return None
    if image.tag is None:
        return True, "it has no tag, which means `latest`"
    tag = image.tag.lower()
    if _VERSION.search(tag) or _COMMIT.search(tag):
        return None
    words = _WORDS.split(tag)
    dated = any(_DATE.fullmatch(word) for word in words)
    if words[0] in policy.images.floating_tags and not dated:
        return True, f"tag `{image.tag}` is pushed again and again"
    named = "is named by a date only" if dated else "names no release, commit or digest"
    return False, f"tag `{image.tag}` {named}"
