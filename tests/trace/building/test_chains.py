"""Chains: extension, forks, seams, the preamble, and that no request is ever lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.making import request

from ridgeline.trace.build.chains import Chains, find_chains
from ridgeline.trace.build.workers import label_workers


def outers(chains: Chains) -> tuple[list[int], list[list[int]]]:
    return [r.outer for r in chains.main], [[r.outer for r in worker.requests] for worker in chains.workers]


def test_a_prompt_that_extends_the_last_one_continues_it() -> None:
    found = find_chains([request(0, 0, [1, 2]), request(1, 5, [1, 2, 3]), request(2, 9, [1, 2, 3])])
    assert outers(found) == ([0, 1, 2], [])


def test_a_prompt_sent_before_the_last_answer_is_a_worker() -> None:
    found = find_chains(
        [request(0, 0, [1, 2], api_time=10), request(1, 5, [1, 2, 3], api_time=10), request(2, 12, [1, 2, 9])]
    )
    assert outers(found) == ([0, 2], [[1]])  # both fork from 0; the one after its end is the seam


def test_another_model_does_not_continue() -> None:
    found = find_chains([request(0, 0, [1, 2]), request(1, 5, [1, 2, 3], model="other"), request(2, 9, [1, 2, 4])])
    assert outers(found) == ([0, 2], [[1]])


def test_a_compacted_prompt_is_spliced_on_by_its_deepest_fork() -> None:
    body = [
        request(0, 0, [1, 2, 3, 4]),
        request(1, 5, [1, 2, 3, 9]),  # keeps 3 blocks
        request(2, 7, [1, 2, 8]),  # keeps 2
        request(3, 9, [1, 2, 8, 5]),
    ]
    assert outers(find_chains(body)) == ([0, 1, 2, 3], [])  # the left fork is tried at the new end, where it fits again


def test_a_late_fork_that_keeps_little_is_a_new_conversation() -> None:
    early = [request(0, 0, [1, 2, 3, 4]), request(1, 3000, [1, 8, 9])]
    late = [request(0, 0, [1, 2, 3, 4]), request(1, 4000, [1, 8, 9])]
    much = [request(0, 0, [1, 2, 3, 4]), request(1, 4000, [1, 2, 9])]
    assert outers(find_chains(early)) == ([0, 1], [])
    assert outers(find_chains(late)) == ([0], [[1]])
    assert outers(find_chains(much)) == ([0, 1], [])


def test_an_isolated_short_first_request_is_set_aside() -> None:
    body = [request(1, 2, [1, 2]), request(2, 5, [1, 2, 3])]
    short = [request(0, 0, [7], output=64), *body]
    long = [request(0, 0, [7, 2], output=65), *body]
    assert outers(find_chains(short)) == ([0, 1, 2], [])
    assert find_chains(short).preamble == 1
    assert outers(find_chains(long)) == ([0], [[1, 2]])  # block 2 occurs elsewhere: no preamble


def test_requests_without_blocks_go_to_the_first_chain() -> None:
    assert outers(find_chains([request(0, 0, []), request(1, 5, [1]), request(2, 6, [])])) == ([0, 1, 2], [])


def test_workers_are_named_for_what_they_look_like() -> None:
    base = list(range(1000))
    main = [
        request(0, 0, [*base, 4999]),
        request(8, 25, [*base, 4999, 5000], api_time=60),  # still running when the group starts
        request(9, 500, [*base, 4999, 5000, 5001]),
    ]
    title = request(1, 10, [9001], input=64)
    summary = request(2, 20, [*range(500, 900)], output=100)
    group = [request(3 + k, 30 + k, [*base, 2000 + k], api_time=50, output=4000) for k in range(3)]
    chains = find_chains([*main, title, summary, *group])
    labels = label_workers(chains)
    assert dict(zip([r[0] for r in outers(chains)[1]], labels, strict=True)) == {
        1: "aux:000",
        2: "aux:001",
        3: "wg:000_000",
        4: "wg:000_001",
        5: "wg:000_002",
    }


@st.composite
def recordings(draw: st.DrawFn) -> list[tuple[float, list[int], float | None, str]]:
    prompts = draw(st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=9))
    times = st.floats(0, 9000, allow_nan=False)
    durations = st.one_of(st.none(), st.floats(-1, 4000), st.just(float("inf")))
    return [(draw(times), ids, draw(durations), draw(st.sampled_from("mn"))) for ids in prompts]


@settings(max_examples=30)
@given(recordings())
def test_every_request_is_in_exactly_one_chain(rows: list[tuple[float, list[int], float | None, str]]) -> None:
    requests = [request(outer, t, ids, api_time=api, model=model) for outer, (t, ids, api, model) in enumerate(rows)]
    found = find_chains(requests)
    main, workers = outers(found)
    assert sorted([*main, *(outer for worker in workers for outer in worker)]) == list(range(len(rows)))
    earliest = min(requests, key=lambda r: r.order).outer
    assert main[0] == earliest
    for chain in (found.main, *(worker.requests for worker in found.workers)):
        assert [r.order for r in chain] == sorted(r.order for r in chain)
    assert len(label_workers(found)) == len(workers)
