"""Session trees and an engine model become records.

In: a pacing machine, an engine's facts. Out: a `Replay` in virtual time, or the same scheduler behind HTTP in real
time. The scheduler does no IO and sees no clock.
"""
