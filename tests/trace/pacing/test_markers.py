from ridgeline.trace.pacing.markers import Markers, correlation_id, marker, run_prefix


def test_the_published_vector_of_the_marker() -> None:
    assert marker("bench-1", 0, 3, "trace_0012") == "[rid:5a12f1a67740]\n\n"


def test_children_share_the_marker_of_their_root() -> None:
    assert marker("bench-1", 0, 3, "trace_0012::sa:x:aux:000") == marker("bench-1", 0, 3, "trace_0012")


def test_each_pass_over_a_session_gets_a_new_marker_whatever_the_lane() -> None:
    markers = Markers("b")
    assert markers.mint(0, "t") == marker("b", 0, 0, "t")
    assert markers.mint(5, "t") == marker("b", 1, 5, "t")
    assert markers.mint(5, "u") == marker("b", 0, 5, "u")


def test_no_benchmark_id_means_no_marker() -> None:
    assert Markers("").mint(0, "t") == ""


def test_correlation_ids_look_like_uuids_and_differ_by_run_tree_and_stream() -> None:
    ids = {
        correlation_id(run_prefix(run, seed), tree, conversation)
        for run in ("a", "b")
        for seed in (1, 2)
        for tree in (0, 1, 70000)
        for conversation in (0, 1, 300)
    }
    assert len(ids) == 36
    assert all([len(part) for part in id.split("-")] == [8, 4, 4, 4, 12] for id in ids)
    assert all(id[14] == "8" and id[19] == "a" for id in ids)  # version 8, variant of RFC 9562
