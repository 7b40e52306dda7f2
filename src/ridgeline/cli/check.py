"""`ridgeline check`: what is known of every cell before a GPU is rented, with the arithmetic; exit 1 on FAIL."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ridgeline.core.errors import EnvironmentFailed, InputError, Problem
from ridgeline.core.finding import Finding, Verdict
from ridgeline.plan.checks.patching import Edit, NotWritten, difference, edits_of, patched
from ridgeline.plan.checks.report import CellReport, Judged
from ridgeline.plan.checks.subject import Subject
from ridgeline.spec.settings import Waiver


def run(argv: list[str]) -> int:
    """Run the verb."""
    parser = _parser()
    try:
        given = parser.parse_args(argv)
        if given.apply and not given.fix:
            parser.error("--apply needs --fix")
        if not given.configs and not (given.explain or given.probe or given.shell):
            parser.error("give one or more config files, or launch scripts with --shell")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    if given.probe:
        return _probe(given.probe, given.out, given.image)
    if given.explain:
        code = _explain(given.explain)
        if code or not (given.configs or given.shell):
            return code
    return _check(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ridgeline check", description="Prove, before a GPU is rented, what each cell will do. Exit 1 on FAIL."
    )
    parser.add_argument("configs", nargs="*", type=Path, metavar="CONFIG", help="config files in InferenceX's format")
    parser.add_argument(
        "--shell", nargs="+", action="extend", default=[], type=Path, metavar="FILE",
        help="launch scripts: linted, and dry-run in a sandbox for each cell in place of its recipe",
    )  # fmt: skip
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="with --shell: told to it")
    parser.add_argument("--lint-only", action="store_true", help="with --shell: read scripts, run nothing")
    parser.add_argument("--trace", type=Path, help="recorded sessions whose contexts are the workload")
    parser.add_argument("--settings", type=Path, help="ridgeline.yaml: fleets, models, waivers")
    parser.add_argument("--runner-config", type=Path, help="runners file, where host memory must be known")
    parser.add_argument("--cells", default="*", metavar="GLOB", help="only cells whose name matches")
    for name, what in (
        ("--tables", "kernel tuning tables: files or folders"),
        ("--golden", "golden acceptance lengths: files or folders"),
        ("--observations", "earlier starts: JSON lines, files or folders"),
        ("--dumps", "build dumps made by --probe: files or folders"),
    ):
        parser.add_argument(name, action="append", default=[], type=Path, metavar="PATH", help=what)
    parser.add_argument("--allow-shorter", action="store_true", help="a hint may shorten the longest request")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object a cell")
    output.add_argument("--sarif", action="store_true", help="SARIF 2.1.0")
    output.add_argument("--github", action="store_true", help="GitHub annotations")
    parser.add_argument("--verbose", "-v", action="store_true", help="show what passes too")
    parser.add_argument("--explain", metavar="ID", help="print a rule, its source and a worked example")
    parser.add_argument("--fix", action="store_true", help="print a patch with the nearest passing changes")
    parser.add_argument("--apply", action="store_true", help="with --fix: write it")
    parser.add_argument("--probe", type=Path, metavar="PYTHON", help="dump what the engine of this Python accepts")
    parser.add_argument("--image", metavar="REF", help="with --probe: the image that Python is from")
    parser.add_argument("--out", type=Path, metavar="FILE", help="with --probe: where the dump goes (default: stdout)")
    return parser


def _explain(name: str) -> int:
    from ridgeline.cli.check_shell_view import explained as shell_explained
    from ridgeline.cli.check_shell_view import ids as shell_ids
    from ridgeline.cli.check_view import explained
    from ridgeline.plan.checks.catalogue import CATALOGUE, rule_called

    rule = rule_called(name)
    if rule is None and (text := shell_explained(name)) is not None:
        sys.stdout.write(text)
        return 0
    if rule is None:
        known = [rule.id for rule in CATALOGUE]
        sys.stderr.write(f"error: no rule is called `{name}`\n  hint: {', '.join([*known, *shell_ids()])}\n")
        return 2
    sys.stdout.write(explained(rule))
    return 0


def _check(given: argparse.Namespace) -> int:
    from ridgeline.cli.preflight import Subjects, contexts_of, knowledge
    from ridgeline.cli.search import chosen_cells
    from ridgeline.plan.checks.report import check
    from ridgeline.spec.settings import load_settings
    from ridgeline.sweep.pinned import pinned

    settings = load_settings(given.settings)
    cells = pinned(chosen_cells(given.configs, given.runner_config, given.cells), settings) if given.configs else ()
    known = knowledge(
        given.configs, tables=given.tables, golden=given.golden, observations=given.observations, dumps=given.dumps,
        shorter=given.allow_shorter,
    )  # fmt: skip
    contexts = contexts_of(given.trace) if given.trace else ()
    maker = Subjects(settings, known, contexts, str(given.trace or ""))
    subjects, problems = [], []
    for cell in cells:
        try:
            subjects.append(maker.of(cell))
        except InputError as error:
            problems += [Problem(p.message, p.where or cell.where, p.key, p.hint) for p in error.problems]
    if problems:
        raise InputError(dict.fromkeys(problems))
    today = datetime.datetime.now(tz=datetime.UTC).date()
    _tell_idle(settings.waivers, today)
    scripts: dict[str, list[Judged]] = {}
    if given.shell:
        from ridgeline.cli.check_shell import environment_from, judged, run_shell, subjects_of

        found = run_shell(given.shell, cells, environment_from(given.env), run=not given.lint_only)
        scripts = judged(found, settings, today)
        subjects = [] if given.lint_only else subjects_of(found, subjects)
    reports = [check(subject, settings, today=today) for subject in subjects]
    if given.fix:
        return _fix(subjects, reports, given.configs, write=given.apply)
    _show(reports, given, scripts)
    from ridgeline.cli.check_shell_view import verdict

    verdicts = [report.verdict for report in reports] + [verdict(found) for found in scripts.values()]
    return 1 if Verdict.FAIL in verdicts else 0


def _tell_idle(waivers: Sequence[Waiver], today: datetime.date) -> None:
    """Say of every waiver that can waive nothing why not."""
    from ridgeline.cli.check_shell_view import ids
    from ridgeline.plan.checks.catalogue import CATALOGUE

    known = {*(rule.id for rule in CATALOGUE), *ids()}
    for waiver in waivers:
        why = f"expired on {waiver.until}" if today > waiver.until else ""
        why = why if waiver.rule in known else f"no rule is called `{waiver.rule}`"
        if why:
            sys.stderr.write(
                f"{waiver.where}: the waiver of {waiver.rule} for `{waiver.cells}` waives nothing: {why}\n"
            )


def _show(reports: Sequence[CellReport], given: argparse.Namespace, scripts: Mapping[str, Sequence[Judged]]) -> None:
    from ridgeline import __version__
    from ridgeline.cli import check_shell_view, check_view

    if given.json:
        rows = [*check_shell_view.data(scripts), *(check_view.data(report) for report in reports)]
        sys.stdout.write("".join(json.dumps(row) + "\n" for row in rows))
    elif given.sarif:
        sys.stdout.write(check_shell_view.sarif(check_view.sarif(reports, __version__), scripts))
    elif given.github:
        sys.stdout.write(check_shell_view.github(scripts) + check_view.github(reports))
    else:
        sys.stdout.write(check_shell_view.table(scripts) if scripts else "")
        sys.stdout.write(check_view.table(reports, everything=given.verbose) if reports else "")
        worst = [said.finding for report in reports for said in report.judged if said.finding.verdict is Verdict.FAIL]
        if worst and sys.stdout.isatty():
            fix = any(finding.changes for finding in worst)
            more = " --fix` shows a patch" if fix else f" --explain {worst[0].rule}` says why"
            sys.stderr.write(f"next: `ridgeline check {given.configs[0]}{more}\n")


def _fix(subjects: Sequence[Subject], reports: Sequence[CellReport], configs: Sequence[Path], *, write: bool) -> int:
    """The patch of the nearest change of every failing finding. Exit 1 while something that fails is not mended."""

    texts = {str(path): path.read_bytes() for path in configs}
    chosen: dict[str, set[Edit]] = {}
    left: dict[str, None] = {}
    for subject, report in zip(subjects, reports, strict=True):
        for said in report.judged:
            if said.finding.verdict is not Verdict.FAIL or said.waiver:
                continue
            found = _nearest(subject, said.finding, texts | _recipes(subject))
            if isinstance(found, str):
                left[f"{said.finding.rule}: {said.finding.message}: {found}"] = None
            for edit in found if not isinstance(found, str) else ():
                chosen.setdefault(edit.where.file, set()).add(edit)
    for name, edits in chosen.items():
        path = _file(name)
        if path is None:
            left[f"{name}: not a file here; {'; '.join(sorted(edit.text for edit in edits))}"] = None
            continue
        before = path.read_bytes()
        after, failed = patched(before, sorted(edits))
        left |= dict.fromkeys(f"{edit.where}: {why}" for edit, why in failed)
        sys.stdout.write(difference(str(path), before, after))
        if write and after != before:
            path.write_bytes(after)
            sys.stderr.write(f"wrote {path}\n")
    for text in left:
        sys.stderr.write(f"not mended: {text}\n")
    return 1 if left else 0


def _file(name: str) -> Path | None:
    """The file of a place: as written, or one of our own recipes in a working copy of the source."""
    import ridgeline

    own = Path(ridgeline.__file__).parent / name
    if Path(name).is_file():
        return Path(name)
    if not own.is_file() or "site-packages" in own.parts:
        return None
    return own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own


def _recipes(subject: Subject) -> dict[str, bytes]:
    """The texts of the recipes that wrote a deployment, as far as they are files here."""
    services = subject.deployment.services if subject.deployment else ()
    names = {item.origin.file for service in services for item in service.argv if item.origin}
    return {name: path.read_bytes() for name in names if name.endswith(".py") and (path := _file(name))}


def _nearest(subject: Subject, finding: Finding, texts: dict[str, bytes]) -> list[Edit] | str:
    """The edits of the first change that can be written, or why there is none."""
    reason = "no single change was found that passes"
    for change in finding.changes:
        found = edits_of(subject, change, texts)
        if not isinstance(found, NotWritten):
            return found
        reason = f"{change.text}: {found.reason}"
    return reason


def _probe(python: Path, out: Path | None, image: str | None) -> int:
    """Run the dump inside another Python, in a process of its own with a time limit."""
    import subprocess
    from importlib.resources import as_file, files

    from ridgeline.spec.facts.builds import dump_from, text_of

    with as_file(files("ridgeline.plan.checks") / "inside_engine.py") as script:
        try:
            done = subprocess.run([python, script], capture_output=True, text=True, timeout=600, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentFailed(f"{python} could not be asked: {error}") from error
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise EnvironmentFailed(f"{python} has no engine that can be asked:\n{tail}")
    try:
        data = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError as error:
        raise EnvironmentFailed(f"{python} printed no dump: {error}") from error
    data |= {"image": image} if image else {}
    found = dump_from(data, str(python))
    for part, why in (data.get("missing") or {}).items():
        sys.stderr.write(f"not told: {part}: {why}\n")
    if out is None:
        sys.stdout.write(text_of(data))
        return 0
    target = out / f"{found.package}-{found.version.split('+')[0]}.json" if out.is_dir() else out
    target.write_text(text_of(data), encoding="utf-8")
    sys.stderr.write(f"{found.name}: {target}\nnext: ridgeline check CONFIG... --dumps {target}\n")
    return 0
