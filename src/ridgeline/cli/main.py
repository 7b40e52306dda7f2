"""The console script: finds the verb, imports only its module, turns errors into messages and exit codes."""

from __future__ import annotations

import importlib
import os
import sys

# verb -> (module, what it does). The order is the order of the help page.
VERBS = {
    "plan": ("plan", "cells of a search space"),
    "check": ("check", "preflight: what every cell will do, with the arithmetic"),
    "calc": ("calc", "one question of the preflight: graphs, kv, weights, tuning, acceptance"),
    "simulate": ("simulate", "predicted points for every cell, in virtual time"),
    "sweep": ("sweep", "the main job: launch, replay, measure, store, report; resumes"),
    "status": ("status", "where a run is, while it goes on and after"),
    "logs": ("logs", "the logs of a run's services"),
    "diagnose": ("diagnose", "which layer failed, whose fault it seems, and the lines that show it"),
    "refit": ("refit", "one start without load on another image: memory facts and flags"),
    "replay": ("replay", "only the load generator, against any OpenAI-compatible endpoint"),
    "emulate": ("emulate", "the emulated engine as a server"),
    "calibrate": ("calibrate", "fit the cost model to measured points; --evaluate prints the error table"),
    "trace": ("trace", "look into, convert or synthesise trace files"),
    "frontier": ("frontier", "the frontier of a run"),
    "results": ("results", "the store: import, list, show, export, rebuild, query"),
    "compare": ("compare", "two runs, point by point: better, same, worse or unclear"),
    "report": ("report", "a self-contained page for a run"),
    "pr": ("pr", "judge a pull request, answer its commands, say why it cannot merge"),
    "reuse": ("reuse", "which cells have a stored point already, and which must run"),
    "stage": ("stage", "show a run for approval"),
    "promote": ("promote", "publish a staged run, with a receipt"),
    "withdraw": ("withdraw", "take a run out of every channel"),
    "serve": ("serve", "the dashboard: results to look at, question and share"),
    "changelog": ("changelog", "judge, write and merge the benchmark changelog; select cells by it"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb. Exit codes: 0 fine, 1 the answer is no, 2 the input is wrong, 3 the environment failed."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0
    if arguments[0] == "--version":
        from ridgeline import __version__

        sys.stdout.write(f"ridgeline {__version__}\n")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        import difflib

        near = difflib.get_close_matches(verb, VERBS, n=1)
        sys.stderr.write(f"error: unknown verb `{verb}`\n\nhint: {_suggest(near)}\n")
        return 2
    return _guarded(verb, rest)


def _guarded(verb: str, rest: list[str]) -> int:
    from ridgeline.core.errors import RidgelineError

    try:
        module = importlib.import_module(f"ridgeline.cli.{VERBS[verb][0]}")
        return int(module.run(rest) or 0)
    except RidgelineError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:  # the reader of our stdout went away: fine, but Python must not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _suggest(near: list[str]) -> str:
    return f"did you mean `{near[0]}`?" if near else "`ridgeline --help` lists the verbs"


def _help() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {text}" for verb, (_, text) in VERBS.items()]
    return "Usage: ridgeline VERB [OPTIONS]\n\nFrom a search space to a frontier people can trust.\n\n" + "\n".join(
        [*lines, "", "`ridgeline VERB --help` explains a verb. Data goes to stdout, talk to stderr.", ""]
    )


if __name__ == "__main__":
    sys.exit(main())
