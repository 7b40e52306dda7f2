"""The pacing machine: told what happened and when, it answers what to send next and when. Pure: no IO, no clock."""

from ridgeline.trace.pacing.agent import AgentPacer, Tally
from ridgeline.trace.pacing.api import Actions, Pacer, Send
from ridgeline.trace.pacing.loop_settings import ArrivalSettings, LoopSettings
from ridgeline.trace.pacing.loops import ClosedLoopPacer, OpenLoopPacer
from ridgeline.trace.pacing.schedule import SchedulePacer, ScheduleSettings
from ridgeline.trace.pacing.settings import PacingSettings

__all__ = [
    "Actions",
    "AgentPacer",
    "ArrivalSettings",
    "ClosedLoopPacer",
    "LoopSettings",
    "OpenLoopPacer",
    "Pacer",
    "PacingSettings",
    "SchedulePacer",
    "ScheduleSettings",
    "Send",
    "Tally",
]
