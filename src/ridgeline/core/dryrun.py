"""What a launch script would have started, as a dry run saw it: plain values between the sandbox and its readers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Launch:
    """One program that the script asked for, and that a stub stood in for.

    `kind`: "service" (it would stay), "command" (it would end), "unknown" (nothing is known of it; it did not run).
    `file` and `line`: the command in the script or in a file it includes; None where the shell did not say.
    `survived`: it was still there after the script had ended.
    """

    kind: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]  # what the script added to or changed in the environment it was given
    file: str | None = None
    line: int | None = None
    survived: bool = False


@dataclass(frozen=True, slots=True)
class DryRun:
    """`exit_status`: exit code, or minus the signal's number; None when the time limit ended it. `output`: the end of
    what it printed. `missing`: files it includes that were not given."""

    launches: tuple[Launch, ...]
    exit_status: int | None
    output: str
    missing: tuple[str, ...] = ()

    @property
    def services(self) -> tuple[Launch, ...]:
        return tuple(launch for launch in self.launches if launch.kind == "service")

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of programs that no stub stands in for, each once."""
        return tuple(dict.fromkeys(launch.argv[0] for launch in self.launches if launch.kind == "unknown"))
