"""Every rule finds its example and leaves the repaired twin alone; whole scripts give the findings a reviewer would."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.core.finding import Finding, Verdict
from ridgeline.plan.shell import RULES, lint
from ridgeline.plan.shell.rule import Rule

FIXTURES = Path(__file__).parent / "fixtures"


def found(text: str, rule: str) -> list[Finding]:
    return [finding for finding in lint(text.encode(), "launch.sh") if finding.rule == rule]


def lines(text: str, rule: str) -> list[int]:
    return [finding.where.line for finding in found(text, rule) if finding.where]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_example_breaks_the_rule_and_its_twin_does_not(rule: Rule) -> None:
    (first, *_) = found(rule.bad, rule.id)
    assert first.verdict is rule.verdict
    assert (first.hint, first.arithmetic) == (rule.repair, rule.reason)
    assert first.where is not None
    assert not found(rule.good, rule.id)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_twin_breaks_nothing_worse_than_what_a_fragment_lacks(rule: Rule) -> None:
    """Fragments have no strict mode and record nothing; apart from that a repair is sound."""
    fragment = {"L18", "L20", "L24"}
    assert {finding.rule for finding in lint(rule.good.encode(), "x")} <= fragment


def test_the_ids_are_the_catalogues() -> None:
    assert [rule.id for rule in RULES] == [f"L{n:02d}" for n in range(1, 29) if n not in (9, 23)]


def test_a_launcher_with_every_habit() -> None:
    """One script, 25 places: line and rule as a reviewer would note them."""
    text = (FIXTURES / "defects.sh").read_text()
    said = [(finding.where.line, finding.rule) for finding in lint(text.encode(), "x") if finding.where]
    assert said == [
        (1, "L18"), (1, "L19"), (2, "L21"), (7, "L12"), (8, "L13"), (9, "L14"), (10, "L16"), (11, "L15"), (13, "L27"),
        (20, "L26"), (21, "L10"), (21, "L11"), (22, "L04"), (22, "L05"), (24, "L06"), (24, "L08"), (29, "L22"),
        (30, "L03"), (31, "L17"), (31, "L20"), (31, "L24"), (31, "L26"), (33, "L05"), (34, "L01"), (35, "L25"),
    ]  # fmt: skip


def test_its_mended_twin_is_silent() -> None:
    assert lint((FIXTURES / "sound.sh").read_bytes(), "x") == []


def test_findings_say_where() -> None:
    (finding,) = found("sleep 5\n  sleep 2m\n", "L11")
    assert str(finding.where) == "launch.sh:2:3"
    assert "120 s" in finding.message


# Refinements: what looks like a defect and is none, and what hides one.


def test_handlers_of_different_branches_do_not_replace_each_other() -> None:
    case = 'case "$B" in\n a) trap x EXIT ;;\n b) trap y EXIT ;;\nesac\n'
    assert lines(case, "L01") == []
    assert lines(case + "trap z EXIT\n", "L01") == [5, 5]
    assert lines("if [ $A ]; then trap x EXIT; else trap y EXIT; fi\n", "L01") == []


def test_subshells_and_functions_have_handlers_of_their_own() -> None:
    assert lines("trap x EXIT\n( trap y EXIT; work )\n", "L01") == []
    assert lines("trap x EXIT\nf() { trap y EXIT; }\n", "L01") == []


def test_a_handler_that_runs_the_former_replaces_nothing() -> None:
    assert lines("trap stop_cache EXIT\ntrap 'stop_server; stop_cache' EXIT\n", "L01") == []


def test_a_handler_that_was_reset_is_gone_on_purpose() -> None:
    assert lines("trap x EXIT\ntrap - EXIT\ntrap y EXIT\n", "L01") == []


def test_signals_have_many_names() -> None:
    assert lines("trap x 0\ntrap y SIGEXIT\n", "L01") == [2]
    assert lines("trap x EXIT 2 SIGTERM\n", "L08") == []


@pytest.mark.parametrize(
    "handler",
    [
        "kill $PID_A",
        "stop",
        "kill ${ALL[@]}",
        'kill "${ALL[@]}"',
        "kill $(jobs -p)",
        "kill 0",
    ],
)
def test_a_pid_is_stopped_by_name_by_function_or_by_list(handler: str) -> None:
    text = f"stop() {{ inner; }}\ninner() {{ kill $PID_A; }}\ntrap '{handler}' EXIT\nserve &\nPID_A=$!\nALL+=($PID_A)\n"
    assert lines(text, "L05") == []


def test_a_handler_that_only_takes_a_snapshot_stops_nothing() -> None:
    assert lines("snap() { curl -s $URL; }\ntrap snap EXIT\nserve &\nPID_A=$!\n", "L05") == [4]


def test_a_handler_from_a_library_is_given_the_benefit_of_the_doubt() -> None:
    text = "trap stop_server EXIT\nserve &\nPID_A=$!\n"
    assert lines(text, "L05") == [3]
    assert lines("source lib.sh\n" + text, "L05") == []


def test_functions_that_call_each_other_end() -> None:
    assert lines("a() { b; }\nb() { a; }\ntrap a EXIT\nserve &\nP=$!\n", "L05") == [5]


def test_pids_kept_in_one_way_or_another() -> None:
    assert lines("serve &\nPIDS+=($!)\n", "L03") == []
    assert lines("serve & PID=$!\n", "L03") == []
    assert lines("serve & other & PID=$!\n", "L03") == [1]
    assert lines("serve &\n# why\nPID=$!\n", "L04") == []


def test_readiness_by_a_probe_a_helper_or_a_port() -> None:
    start = "mooncake_master -rpc_port=$P &\nPID=$!\n"
    assert lines(start + "sleep 3; kill -0 $PID\nvllm serve m &\n", "L10") == [3]
    for probe in (
        "wait_for_port $P",
        "until nc -z localhost $P; do sleep 1; done",
        "until (: >/dev/tcp/localhost/$P); do sleep 1; done",
    ):
        assert lines(start + probe + "\nvllm serve m &\n", "L10") == [], probe
    helper = "check() { for i in 1 2; do curl -fs $U && return; sleep 1; done; }\n"
    assert lines(helper + start + "check\nsleep 1\n", "L10") == []


def test_a_probe_of_the_next_service_is_none_of_this_one() -> None:
    text = "mooncake_master &\nA=$!\nsleep 2\nvllm serve m &\nB=$!\ncurl $URL/health\n"
    assert lines(text, "L10") == [3]


def test_what_is_read_in_any_way_is_used() -> None:
    for use in (
        "echo $X",
        'echo "${X}"',
        "((X++))",
        "echo ${!X}",
        "echo '$X' | sh",
        "cat <<E\n$X\nE",
        "[[ -v X ]]",
        "export X",
    ):
        assert lines(f"X=1\n{use}\n", "L12") == [], use
    assert lines("X=1\nY=2 run\n# $X is mentioned in a comment only\n", "L12") in ([], [1])
    assert lines("X=1\n", "L12") == [1]
    assert lines("export X=1\n", "L12") == []
    assert lines("set -a\nX=1\n", "L12") == []


def test_divisions() -> None:
    assert lines("echo $((A / 8))\n", "L13") == []
    assert lines("echo $((A * B / C / 31))\n", "L13") == []
    assert lines("echo $((A / (B - 1)))\n", "L13") == [1]
    assert lines("S=$((8 / TP))\necho $((A / S))\n", "L13") == [2]
    assert lines("echo $((A / 0))\n", "L13") == [1]
    assert lines("echo $((A % (8 / TP)))\n", "L13") == [1]


def test_clones_that_are_pinned_afterwards() -> None:
    clone = "git clone https://e.com/x.git d\n"
    assert lines(clone + "git -C d checkout $COMMIT\n", "L14") == []
    assert lines("SHA=0123abcd\n" + clone + "( cd d && git checkout $SHA )\n", "L14") == []
    assert lines(clone + "git -C d checkout main\n", "L14") == [1]


def test_packages() -> None:
    for good in (
        "pip install x==1",
        "pip install -r req.txt",
        "pip install ./x",
        "pip install https://e.com/x.whl",
        'pip install "x @ git+https://e.com/x"',
        "uv pip install --python $P x==1",
        "apt-get install x",
        "pip install $SPEC",
        "pip install -i $INDEX x==1 > log",
    ):
        assert lines(good + "\n", "L15") == [], good
    for bad in (
        "pip install x",
        "python3 -m pip install -q x",
        "uv pip install x",
        "pip install 'x>=1'",
        "pip3 install -U pip",
    ):
        assert lines(bad + "\n", "L15") == [1], bad
    assert lines("SPEC=datasets\npip install $SPEC\n", "L15") == [2]


def test_folders_changed_in_subshells_and_functions_are_nobodys_business() -> None:
    assert lines("(cd x; y)\nf() { cd x; }\nA=$(cd x && pwd)\n", "L16") == []


def test_strict_mode_by_shebang_or_by_parts() -> None:
    assert lines("#!/bin/bash -eu\nx\n", "L18") == []
    assert lines("set -e\nset -o nounset\nx\n", "L18") == []
    (finding,) = found("set -e\nx\n", "L18")
    assert "`-u`" in finding.message
    assert "`-e`" not in finding.message


def test_a_default_that_settles_a_variable() -> None:
    assert lines('set -u\n: "${X:=1}"\necho $X ${X:-2}\n', "L25") == []
    assert lines('set -u\n[ -n "${X:-}" ] && echo $X\n', "L25") == []
    assert lines('set -u\nif [ "${X:-}" ]; then echo $X; fi\necho $X\n', "L25") == [3]
    assert lines('echo "${X:-}" $X\n', "L25") == []


def test_ports_that_may_be_given_are_not_fixed() -> None:
    assert lines("PORT=${PORT:-8888}\nserve --port $PORT\n", "L26") == []
    assert lines("PORT=8888\n", "L26") == [1]
    assert lines("for i in 1 2; do ZMQ_PORT=$((5555 + i)); done\n", "L26") == [1]
    assert lines("C=(vllm serve m --port 8000)\n", "L26") == [1]
    assert lines("mooncake_master -rpc_port=50051\n", "L26") == [1]


def test_synthetic_acceptance_that_an_evaluation_drops() -> None:
    mark = "'{\"synthetic_acceptance_length\":2.49}'"
    assert lines(f"S={mark}\n", "L22") == [1]
    assert lines(f'S={mark}\nif [ "$EVAL_ONLY" = 1 ]; then S=; fi\n', "L22") == []
    assert lines(f'[ "$EVAL_ONLY" = 1 ] || S={mark}\n', "L22") == []
    assert lines("export SGLANG_SIMULATE_ACC_LEN=2\n[ $RUN_EVAL ] && unset SGLANG_SIMULATE_ACC_LEN\n", "L22") == []
    assert lines("export SGLANG_SIMULATE_ACC_LEN=2\n", "L22") == [1]


def test_verdicts_are_fail_where_a_run_breaks_or_lies() -> None:
    assert {rule.id for rule in RULES if rule.verdict is Verdict.FAIL} == {"L01", "L05", "L13", "L22", "L25"}
