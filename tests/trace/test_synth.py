"""Made-up sessions: reproducible, valid, and shaped as stated."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.trace.making import send

from ridgeline.core.errors import InputError
from ridgeline.trace import load
from ridgeline.trace.formats.write import write_jsonl
from ridgeline.trace.prompts import make_prompts
from ridgeline.trace.stats import statistics
from ridgeline.trace.synth import AGENTIC, Quantiles, fixed_sessions, quickstart_trace, synthesise


def test_equal_arguments_give_equal_bytes(tmp_path: Path) -> None:
    for name, seed in (("a.jsonl.gz", 5), ("b.jsonl.gz", 5), ("c.jsonl.gz", 6)):
        write_jsonl(tmp_path / name, synthesise(3, seed=seed, shape="quickstart"))
    same, again, other = ((tmp_path / name).read_bytes() for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl.gz"))
    assert same == again != other


def test_the_shipped_trace_is_what_the_generator_makes() -> None:
    corpus = load(quickstart_trace())
    made = list(synthesise(24, seed=7, shape="quickstart"))
    assert [session.id for session in corpus.sessions] == [record["id"] for record in made]
    recorded = [item for record in made for item in record["requests"] if item["type"] == "n"]
    outside = [t for s in corpus.sessions for c in s.conversations for t in c.turns if t.inner is None]
    assert sum(t.input_tokens for t in outside) == sum(item["in"] for item in recorded)
    assert quickstart_trace().stat().st_size < 300_000


def test_the_shipped_trace_is_small_and_has_everything() -> None:
    corpus = load(quickstart_trace())
    found = statistics(corpus)
    assert corpus.clock == "relative"
    assert found["sessions"] == 24
    assert (found["root_turns"]["min"], found["root_turns"]["max"]) >= (8, 12)
    assert found["root_turns"]["max"] <= 20
    assert found["peak_context_tokens"]["max"] <= 40_000
    assert found["output_tokens"]["min"] >= 50 and found["output_tokens"]["max"] <= 600
    assert found["conversations"]["subagent"] >= 3
    assert 0.8 < found["hit_rate"] < 0.98


def test_the_agentic_shape_is_near_the_published_figures(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "t.jsonl", synthesise(40, seed=3, max_context=250_000))
    found = statistics(load(tmp_path / "t.jsonl"))
    assert found["requests_outside_subagents"]["p50"] == pytest.approx(45, rel=0.35)
    assert found["output_tokens"]["p50"] == pytest.approx(216, rel=0.1)
    assert found["output_tokens"]["p90"] == pytest.approx(898, rel=0.15)
    assert found["gap_s"]["p50"] == pytest.approx(9.7, rel=0.2)
    assert found["server_s"]["p50"] == pytest.approx(6.1, rel=0.1)
    assert found["hit_rate"] > 0.94
    assert found["peak_context_tokens"]["max"] <= 250_000


def test_every_made_up_session_is_accepted_and_within_its_limit(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "t.jsonl", synthesise(15, seed=11, max_context=60_000))
    corpus = load(tmp_path / "t.jsonl", max_context=60_000)
    assert (len(corpus.sessions), corpus.context_dropped) == (15, 0)


def test_quantiles_are_met() -> None:
    shape = Quantiles(((0, 1), (0.5, 10), (1, 1000)))
    assert [shape.at(share) for share in (0, 0.25, 0.5, 1)] == pytest.approx([1, 10**0.5, 10, 1000])
    draws = sorted(shape.draw(random.Random(7)) for _ in range(1))
    assert 1 <= draws[0] <= 1000
    for name in AGENTIC.__slots__:
        value = getattr(AGENTIC, name)
        if isinstance(value, Quantiles):
            shares, values = zip(*value.points, strict=True)
            assert list(shares) == sorted(shares) and list(values) == sorted(values), name
            assert (shares[0], shares[-1]) == (0, 1) and min(values) > 0, name


def test_impossible_requests_are_refused() -> None:
    for wrong in ({"shape": "round"}, {"max_context": 5000}, {"count": 0}):
        with pytest.raises(InputError):
            list(synthesise(**({"count": 1} | wrong)))  # type: ignore[arg-type]
    with pytest.raises(InputError):
        fixed_sessions(0, 5, 1)


def test_fixed_sessions_have_exact_lengths_and_share_nothing() -> None:
    sessions = fixed_sessions(1000, 128, 5, seed=1)
    source = make_prompts(sessions, "token-ids", model="m")
    prompts = [b"".join(source.body(send(session))) for session in sessions]
    assert {session.root.turns[0].input_tokens for session in sessions} == {1000}
    assert {source.layout(send(session)).tokens for session in sessions} == {1000}
    assert {session.root.turns[0].max_tokens for session in sessions} == {128}
    assert len({prompt[:60] for prompt in prompts}) == 5
    assert [s.id for s in fixed_sessions(1000, 128, 2, seed=2)] != [s.id for s in sessions[:2]]


@pytest.mark.parametrize("mode", ["bytes", "token-ids"])
@pytest.mark.parametrize("isl", [1, 7, 300])
def test_two_points_of_one_seed_have_equal_lengths_and_other_texts(mode: str, isl: int) -> None:
    """On a server that stays up the second would else be answered from its prefix cache."""

    def texts(run: str) -> list[tuple[int, bytes]]:
        made = fixed_sessions(isl, 4, 20, seed=1, range_ratio=0.5, run=run)
        source = make_prompts(made, mode, model="m")
        return [(one.root.turns[0].input_tokens, b"".join(source.body(send(one)))) for one in made]

    first, second = texts("a"), texts("b")
    assert [tokens for tokens, _ in first] == [tokens for tokens, _ in second] and first == texts("a")
    common = {text for _, text in first} & {text for _, text in second}
    assert not common or (isl == 1 and mode == "token-ids"), "a single token may repeat by chance"
    assert all(tokens >= 1 for tokens, _ in first), "no prompt is empty"


def test_fixed_sessions_can_vary_or_repeat() -> None:
    varied = [s.root.turns[0] for s in fixed_sessions(1000, 100, 200, range_ratio=0.8)]
    assert {800 <= turn.input_tokens <= 1000 and 80 <= turn.output_tokens <= 100 for turn in varied} == {True}
    assert len({turn.input_tokens for turn in varied}) > 50
    assert varied == [s.root.turns[0] for s in fixed_sessions(1000, 100, 200, range_ratio=0.8)]
    same = fixed_sessions(1000, 10, 3, repeated=True)
    source = make_prompts(same, "bytes", model="m")
    assert len({b"".join(source.body(send(session))) for session in same}) == 1
    assert len({source.layout(send(session)).spans for session in same}) == 1
    assert source.layout(send(same[0])).tokens == 1000 + 7
