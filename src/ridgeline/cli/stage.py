"""`ridgeline stage | promote | withdraw RUN`: a run moves between the store's channels, with a receipt."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.cli.stores import DATA_HELP, STORE_HELP, open_store
from ridgeline.cli.typed import run_app

if TYPE_CHECKING:
    from ridgeline.publish.staging.moves import Receipt
    from ridgeline.results.store import Store

staging = typer.Typer(add_completion=False)
promoting = typer.Typer(add_completion=False)
withdrawing = typer.Typer(add_completion=False)

StoreName = Annotated[str | None, typer.Option("--store", metavar="STORE", help=STORE_HELP)]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help=DATA_HELP)]
Note = Annotated[str, typer.Option(help="Why, for the receipt.")]
Who = Annotated[str, typer.Option(help="Who does it. (default: $GITHUB_ACTOR, else the account)")]
ReceiptFile = Annotated[Path | None, typer.Option("--receipt", metavar="FILE", help="Also write the receipt here.")]
Json = Annotated[bool, typer.Option("--json", help="The receipts as JSON.")]


def run(argv: list[str]) -> int:
    return run_app(staging, "stage", argv)


@staging.command()
def stage(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="A run folder or results, or a run of the store.")],
    note: Note = "",
    who: Who = "",
    receipt: ReceiptFile = None,
    store: StoreName = None,
    data: Data = None,
    as_json: Json = False,
) -> int:
    """Show runs for approval, beside those that are staged already. Folders are imported first."""
    from ridgeline.publish.staging import moves

    with open_store(store, data, make=True) as opened:
        ids = [id for text in runs for id in _imported(opened, text)]
        return _each(
            lambda run: moves.stage(opened, run, who=_who(who), note=note), ids, receipt, as_json, "ridgeline promote"
        )


@promoting.command()
def promote(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="A staged run.")],
    note: Note = "",
    who: Who = "",
    verify: Annotated[bool, typer.Option("--verify", help="Only read back: is it what its receipt says?")] = False,
    receipt: ReceiptFile = None,
    store: StoreName = None,
    data: Data = None,
    as_json: Json = False,
) -> int:
    """Publish staged runs and read them back. Only measured points are published. Exit 1 says why not."""
    from ridgeline.publish.staging import moves

    with open_store(store, data) as opened:
        if verify:
            return _verify(opened, runs)
        return _each(lambda run: moves.promote(opened, run, who=_who(who), note=note), runs, receipt, as_json)


@withdrawing.command()
def withdraw(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="A staged or published run.")],
    note: Annotated[str, typer.Option(help="Why; required.")] = "",
    who: Who = "",
    receipt: ReceiptFile = None,
    store: StoreName = None,
    data: Data = None,
    as_json: Json = False,
) -> int:
    """Take runs out of every channel. They stay in the store, with their receipts."""
    from ridgeline.publish.staging import moves

    with open_store(store, data) as opened:
        return _each(lambda run: moves.withdraw(opened, run, who=_who(who), note=note), runs, receipt, as_json)


def _imported(store: Store, text: str) -> list[str]:
    path = Path(text)
    return list(store.add_path(path).runs) if path.exists() else [text]


def _who(given: str) -> str:
    return given or os.environ.get("GITHUB_ACTOR") or getpass.getuser()


def _each(
    move: Callable[[str], Receipt],
    runs: list[str],
    receipt: Path | None,
    as_json: bool,
    following: str | None = None,
) -> int:
    """Move one after the other. A refusal stops there; what was moved before has its receipts told and written."""
    done: list[Receipt] = []
    try:
        for run in runs:
            done.append(move(run))
    finally:
        if done:
            _answer(done, receipt, as_json, following)
    return 0


def _verify(store: Store, runs: list[str]) -> int:
    from ridgeline.publish.staging import moves

    wrong = 0
    for run in runs:
        same = moves.verify(store, run)
        wrong += not same
        sys.stdout.write(f"{run}: {'as its receipt says' if same else 'differs from its receipt'}\n")
    return 1 if wrong else 0


def _answer(done: list[Receipt], file: Path | None, as_json: bool, following: str | None) -> None:
    text = json.dumps([one.as_json() for one in done], indent=1) + "\n"
    if file is not None:
        file.write_text(text, encoding="utf-8")
    if as_json:
        sys.stdout.write(text)
        return
    for one in done:
        what = f"{one.before} -> {one.channel}" if one.done else f"in {one.channel} already"
        count = "points not counted" if one.points is None else f"{one.points} point{'s' * (one.points != 1)}"
        sys.stdout.write(f"{one.run}  {what}  {count}, {one.at} by {one.who}\n")
    if following and sys.stdout.isatty():
        sys.stderr.write(f"next: {following} {done[0].run}\n")
