"""Staging, promoting and withdrawing: what moves, what does not, and what a receipt proves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.publish.staging.runs import points, run

from ridgeline.cli.main import main
from ridgeline.core.errors import AnswerIsNo, InputError
from ridgeline.core.point import Source, Validity
from ridgeline.publish.staging import moves
from ridgeline.results.store import Store

pytestmark = pytest.mark.integration  # starts processes or repositories for most of its tests


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def add(store: Store, folder: Path, *concurrencies: int, **changes: object) -> str:
    (id,) = store.add_path(run(folder, points(*concurrencies, **changes))).runs  # type: ignore[arg-type]
    return id


def test_from_local_to_published_with_receipts(store: Store, tmp_path: Path) -> None:
    id = add(store, tmp_path / "a", 1, 2)
    staged = moves.stage(store, id, who="ann", note="looks fine")
    assert (staged.before, staged.channel, staged.points, staged.done) == ("local", "staging", 2, True)
    published = moves.promote(store, id, who="bob")
    assert (published.before, published.channel, published.who) == ("staging", "published", "bob")
    assert published.digest == staged.digest and len(published.digest or "") == 64
    assert [one.id for one in store.points(channel="published")] and moves.verify(store, id)
    kept = moves.receipts(store, id)
    assert [(one.channel, one.who, one.note) for one in kept[-2:]] == [
        ("staging", "ann", "looks fine"),
        ("published", "bob", ""),
    ]
    assert kept[-1].before == "staging"


def test_doing_it_twice_does_nothing(store: Store, tmp_path: Path) -> None:
    id = add(store, tmp_path / "a", 1)
    first = moves.stage(store, id, who="ann")
    again = moves.stage(store, id, who="bob")
    assert not again.done and (again.at, again.who) == (first.at, "ann")
    moves.promote(store, id, who="ann")
    assert not moves.promote(store, id, who="bob").done
    moves.withdraw(store, id, who="ann", note="x")
    assert not moves.withdraw(store, id, who="bob", note="x").done
    assert len(store.receipts(id)) == 4  # the import's own one, and three moves


def test_earlier_staged_runs_stay(store: Store, tmp_path: Path) -> None:
    ids = [add(store, tmp_path / name, number) for number, name in enumerate("ab", 1)]
    for id in ids:
        moves.stage(store, id, who="ann")
    assert {row["id"] for row in store.runs("staging")} == set(ids)
    moves.promote(store, ids[0], who="ann")
    assert [row["id"] for row in store.runs("staging")] == [ids[1]]


@pytest.mark.parametrize("source", [Source.EMULATED, Source.PREDICTED])
def test_only_measured_points_are_published(store: Store, tmp_path: Path, source: Source) -> None:
    id = add(store, tmp_path / "a", 1, source=source)
    moves.stage(store, id, who="ann")
    with pytest.raises(AnswerIsNo, match=f"holds {source} points"):
        moves.promote(store, id, who="ann")
    assert [row["id"] for row in store.runs("staging")] == [id]


def test_what_was_not_staged_is_not_published(store: Store, tmp_path: Path) -> None:
    id = add(store, tmp_path / "a", 1)
    with pytest.raises(AnswerIsNo, match="is in `local`"):
        moves.promote(store, id, who="ann")
    moves.stage(store, id, who="ann")
    moves.withdraw(store, id, who="ann", note="wrong image")
    with pytest.raises(AnswerIsNo, match="was withdrawn"):
        moves.promote(store, id, who="ann")
    assert moves.stage(store, id, who="ann").before == "withdrawn"


def test_a_run_without_valid_points_is_not_published(store: Store, tmp_path: Path) -> None:
    id = add(store, tmp_path / "a", 1, validity=Validity.INVALID, reasons=("W1: broken",))
    moves.stage(store, id, who="ann")
    with pytest.raises(AnswerIsNo, match="no point that may be shown"):
        moves.promote(store, id, who="ann")


def test_what_changed_since_it_was_staged_is_not_published(store: Store, tmp_path: Path) -> None:
    id = add(store, tmp_path / "a", 1)
    moves.stage(store, id, who="ann")
    assert add(store, tmp_path / "a", 2) == id  # the same run grew
    assert not moves.verify(store, id)
    with pytest.raises(AnswerIsNo, match="other points than when it was staged"):
        moves.promote(store, id, who="ann")
    assert moves.stage(store, id, who="bob").points == 2  # staged anew, with a receipt for what it is now
    assert moves.promote(store, id, who="ann").done


def test_a_withdrawal_has_a_reason_and_keeps_the_run(store: Store, tmp_path: Path) -> None:
    id = add(store, tmp_path / "a", 1)
    with pytest.raises(AnswerIsNo, match="needs a reason"):
        moves.withdraw(store, id, who="ann", note=" ")
    with pytest.raises(AnswerIsNo, match="nobody is shown it"):
        moves.withdraw(store, id, who="ann", note="x")
    moves.stage(store, id, who="ann")
    moves.promote(store, id, who="ann")
    with pytest.raises(AnswerIsNo, match="is published"):
        moves.stage(store, id, who="ann")
    receipt = moves.withdraw(store, id, who="ann", note="wrong image")
    assert (receipt.before, receipt.note) == ("published", "wrong image")
    assert store.points(channel="published") == () and len(store.points(run=id)) == 1


def test_as_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTOR", "ann")
    folder, at = run(tmp_path / "a", points(1, 2)), ["--store", str(tmp_path / "store")]
    assert main(["stage", str(folder), *at, "--json", "--receipt", str(tmp_path / "receipt.json")]) == 0
    (receipt,) = json.loads(capsys.readouterr().out)
    assert receipt == json.loads((tmp_path / "receipt.json").read_text())[0] and receipt["who"] == "ann"
    assert main(["stage", str(folder), *at]) == 0
    assert "in staging already" in capsys.readouterr().out
    assert main(["promote", "a", *at]) == 0
    assert "staging -> published  2 points" in capsys.readouterr().out
    assert main(["promote", "a", *at, "--verify"]) == 0
    assert main(["withdraw", "a", *at]) == 1
    assert main(["withdraw", "a", *at, "--note", "wrong"]) == 0
    assert main(["promote", "a", *at]) == 1
    assert main(["promote", "nothing", *at]) == 2
    emulated = run(tmp_path / "b", points(1, source=Source.EMULATED))
    assert main(["stage", str(emulated), *at]) == 0
    assert main(["promote", "b", *at]) == 1
    assert "only measured" in capsys.readouterr().err


def test_an_unknown_run(store: Store) -> None:
    with pytest.raises(InputError):
        moves.stage(store, "nothing", who="ann")


def test_a_refusal_leaves_the_receipts_of_what_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, receipt = ["--store", str(tmp_path / "store")], tmp_path / "receipt.json"
    good, emulated = run(tmp_path / "good", points(1)), run(tmp_path / "made", points(1, source=Source.EMULATED))
    assert main(["stage", str(good), str(emulated), *store]) == 0
    capsys.readouterr()
    assert main(["promote", "good", "made", *store, "--receipt", str(receipt)]) == 1
    said = capsys.readouterr()
    assert "staging -> published  1 point," in said.out and "only measured ones are published" in said.err
    assert [(one["name"], one["channel"]) for one in json.loads(receipt.read_text())] == [("good", "published")]
