"""From recorded requests to a session tree: chains, workers, spawn and join, delays, happens-before edges."""

from ridgeline.trace.build.assemble import build_session
from ridgeline.trace.build.raw import RawTrace, Request, Subagent

__all__ = ["RawTrace", "Request", "Subagent", "build_session"]
