"""Runs a typer app as a verb: typer's exits become exit codes, everything else passes through."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def run_app(app: typer.Typer, verb: str, argv: list[str]) -> int:
    """Parse `argv` with `app` and run it. Usage errors print themselves and give 2."""
    import click
    import typer

    command = typer.main.get_command(app)
    try:
        result = command.main(args=argv, prog_name=f"ridgeline {verb}", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    return result if isinstance(result, int) else 0
