"""Runs a typer app as a verb: typer's exits become exit codes, everything else passes through."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer
    from typer.exceptions import TyperException


def run_app(app: typer.Typer, verb: str, argv: list[str]) -> int:
    """Parse `argv` with `app` and run it. Usage errors print themselves and give 2."""
    import typer
    from typer.exceptions import TyperException

    command = typer.main.get_command(app)
    try:
        result = command.main(args=argv, prog_name=f"ridgeline {verb}", standalone_mode=False)
    except TyperException as error:
        message = _said(error, argv)
        if message.startswith("Usage:"):  # called without arguments: the message is the help page
            sys.stderr.write(f"{message}\n")
        else:
            hint = f"`ridgeline {verb} --help` lists what it takes"
            sys.stderr.write(f"error: {message.rstrip('.')}\n\nhint: {hint}\n")
        return 2
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return result if isinstance(result, int) else 0


def _said(error: TyperException, argv: list[str]) -> str:
    """What a usage error says, with the value that was given, which the error itself leaves out."""
    message = error.format_message()
    wanted = getattr(error, "message", "").partition(",")[0].removeprefix("Input ")
    names = getattr(getattr(error, "param", None), "opts", ())
    if not message.startswith("Invalid value") or not wanted.startswith("should "):
        return message
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in names and (equals or at + 1 < len(argv)):
            return f"`{value if equals else argv[at + 1]}` for {name} {wanted}"
    return message
