"""The pacing machine: told what happened and when, it answers what to send next and when. Pure: no IO, no clock."""

from ridgeline.trace.pacing.api import Actions, Pacer, Send

__all__ = ["Actions", "Pacer", "Send"]
