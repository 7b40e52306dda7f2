"""Request bodies: keys, order, escaping, the marker's place, what the user adds, bounded caches."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.making import send, session, turn

from ridgeline.core.errors import EnvironmentFailed, InputError
from ridgeline.trace.prompts import byte_model, make_prompts
from ridgeline.trace.prompts import source as plans
from ridgeline.trace.prompts.byte_prompts import ByteText
from ridgeline.trace.prompts.corpus_text import corpus_text
from ridgeline.trace.prompts.fragments import Fragments
from ridgeline.trace.prompts.tokenizer_prompts import FileTokenizer
from ridgeline.trace.session import Recorded

MARKER = "[rid:0123456789ab]\n\n"


class Words:
    """A tokenizer of lines, with a token for every character that needs escaping."""

    def encode(self, text: str) -> Sequence[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join('"' if token % 7 == 0 else chr(token) for token in ids)


def made() -> object:
    return session(
        [turn(range(4), declared_prefix_tokens=64), turn(range(9), tokens=600, output_tokens=30)],
        [turn([0, 1, 2])],
    )


def test_the_keys_are_in_the_order_of_the_wire() -> None:
    body = b"".join(make_prompts([], "bytes", model="served").body(send(made(), max_tokens=3)))
    data = json.loads(body)
    assert list(data) == ["messages", "model", "stream", "max_completion_tokens", "ignore_eos", "stream_options"]
    assert (data["model"], data["stream"], data["max_completion_tokens"]) == ("served", True, 3)
    assert (data["ignore_eos"], data["stream_options"]) == (True, {"include_usage": True})
    ids = json.loads(b"".join(make_prompts([], "token-ids", model="m").body(send(made()))))
    assert list(ids) == ["prompt", "model", "stream", "max_tokens", "ignore_eos", "stream_options"]
    assert len(ids["prompt"]) == 256 and all(isinstance(token, int) for token in ids["prompt"])


def body(mode: str, tree: object, **more: object) -> dict[str, object]:
    source = make_prompts([tree], mode, model="served", tokenizer=Words(), **more.pop("options", {}))  # type: ignore[list-item, arg-type]
    return json.loads(b"".join(source.body(send(tree, **more))))  # type: ignore[arg-type, no-any-return]


@pytest.mark.parametrize("mode", ["bytes", "tokenizer"])
def test_a_recorded_body_is_sent_as_it_stands_but_for_what_measuring_needs(mode: str) -> None:
    payload = {
        "model": "theirs",
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 9,
        "stream": False,
        "n": 1,
    }
    tree = session([turn([], 1, output_tokens=9, recorded=Recorded(payload=json.dumps(payload)))])
    sent = body(mode, tree, max_tokens=9, marker=MARKER)
    assert list(sent) == [*payload, "stream_options"], "no marker, no ignore_eos"
    assert sent == payload | {"model": "served", "stream": True, "stream_options": {"include_usage": True}}
    assert body(mode, tree, max_tokens=1)["max_tokens"] == 1, "a warm-up asks for one token"
    assert body(mode, tree, max_tokens=9, options={"extra_body": {"n": 2}})["n"] == 2
    free = session([turn([], 1, recorded=Recorded(payload=json.dumps({"messages": payload["messages"]})))])
    assert "max_completion_tokens" not in body(mode, free, max_tokens=10)
    assert body(mode, free, max_tokens=1)["max_completion_tokens"] == 1


@pytest.mark.parametrize("mode", ["bytes", "tokenizer"])
def test_recorded_messages_take_the_marker_and_keep_what_else_they_hold(mode: str) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "u"}}]
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": parts}, {"role": "user", "name": "b"}]
    known = Recorded(messages=json.dumps(messages), extra='{"tools":[{}],"ignore_eos":false}')
    tree = session([turn([], 3, messages=(("system", "s"), ("user", ""), ("user", "")), recorded=known)])
    sent = body(mode, tree, max_tokens=10, marker=MARKER)
    assert sent["messages"] == [
        messages[0],
        {"role": "user", "content": [{"type": "text", "text": MARKER}, *parts]},
        messages[2],
    ]
    assert (sent["tools"], sent["ignore_eos"], sent["max_completion_tokens"]) == ([{}], False, 10)
    assert list(sent)[:2] == ["messages", "model"] and body(mode, tree)["messages"] == messages


@pytest.mark.parametrize("mode", ["bytes", "token-ids", "tokenizer"])
def test_keys_of_a_row_s_own_go_over_the_body(mode: str) -> None:
    tree = session([turn(range(3), recorded=Recorded(extra='{"temperature":0.5}'))])
    plain = session([turn(range(3))])
    assert body(mode, tree) == body(mode, plain) | {"temperature": 0.5}
    text = session([turn([], 1, messages=(("user", "a"),), recorded=Recorded(extra='{"temperature":0.5}'))])
    assert body(mode, text)["temperature"] == 0.5


def test_a_text_completion_of_its_own_needs_its_endpoint() -> None:
    tree = session([turn([], 3, output_tokens=2, recorded=Recorded(payload='{"prompt":[1,2,3],"max_tokens":2}'))])
    assert body("token-ids", tree, max_tokens=2)["prompt"] == [1, 2, 3]
    with pytest.raises(InputError, match="has `prompt`, not `messages`"):
        make_prompts([tree], "bytes", model="m")
    chat = session(
        [turn([], 3, recorded=Recorded(messages="[]")), turn([], 3, recorded=Recorded(extra='{"tools":[]}'))]
    )
    with pytest.raises(InputError) as refused:
        make_prompts([chat], "token-ids", model="m")
    assert len(refused.value.problems) == 2


def test_what_the_user_adds_wins() -> None:
    extra = {"temperature": 0, "ignore_eos": False, "max_completion_tokens": 9, "stream_options": {"x": 1}}
    data = json.loads(b"".join(make_prompts([], "bytes", model="m", extra_body=extra).body(send(made()))))
    assert {name: data[name] for name in extra} == extra
    assert list(data)[-1] == "stream_options"
    with pytest.raises(InputError, match="messages"):
        make_prompts([], "bytes", model="m", extra_body={"messages": []})


@pytest.mark.parametrize("mode", ["bytes", "tokenizer"])
def test_the_marker_opens_the_first_user_message(mode: str) -> None:
    tree = made()
    source = make_prompts([], mode, model="m", tokenizer=Words())
    for conversation, k in ((0, 0), (0, 1), (1, 0)):
        plain = json.loads(b"".join(source.body(send(tree, conversation, k))))["messages"]
        marked = json.loads(b"".join(source.body(send(tree, conversation, k, marker=MARKER))))["messages"]
        first = next(i for i, message in enumerate(plain) if message["role"] == "user")
        assert marked[first]["content"] == MARKER + plain[first]["content"]
        assert [m for i, m in enumerate(marked) if i != first] == [m for i, m in enumerate(plain) if i != first]
    assert [m["role"] for m in json.loads(b"".join(source.body(send(tree, 0, 1))))["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_byte_text_needs_no_escaping_and_never_repeats() -> None:
    tree = session([turn(range(2000), tokens=128_033)])
    (content,) = [
        m["content"] for m in json.loads(b"".join(make_prompts([], "bytes", model="m").body(send(tree))))["messages"]
    ]
    assert json.dumps(content) == f'"{content}"'
    assert content.isascii() and len(content) == 4 * 128_033
    blocks = {content[at : at + 256] for at in range(0, 2000 * 256, 256)}
    assert len(blocks) == 2000
    assert len({block[:8] for block in blocks}) == 2000


def test_block_heads_are_one_to_one_over_ids() -> None:
    import numpy as np

    text = ByteText(3).run("s", np.arange(50_000), 2)
    assert len({text[at : at + 8] for at in range(0, len(text), 8)}) == 50_000
    assert ByteText(3).run("s", np.array([7]), 64) != ByteText(3).run("t", np.array([7]), 64)
    assert ByteText(3).run("s", np.array([7]), 64) != ByteText(4).run("s", np.array([7]), 64)


def test_the_byte_model_counts_four_bytes_a_token_and_four_tokens_a_message() -> None:
    assert byte_model.chat_token_count([("user", "abcde"), ("assistant", "")]) == 4 + 2 + 4 + 3
    assert byte_model.text_token_count("é") == 1
    assert byte_model.text_token_count(MARKER) == 5
    messages = [("system", "abcd"), ("user", "é" * 9), ("strange", "x")]
    assert len(byte_model.chat_tokens(messages)) == byte_model.chat_token_count(messages)
    values = byte_model.chat_tokens([("user", "abcd")]).tolist()
    assert values != byte_model.chat_tokens([("assistant", "abcd")]).tolist()
    assert byte_model.text_tokens("abc").tolist() != byte_model.text_tokens("abcd").tolist()


def test_what_is_asked_is_what_is_counted() -> None:
    tree = made()
    source = make_prompts([], "bytes", model="m")
    one = send(tree, 0, 1, marker=MARKER)
    messages = json.loads(b"".join(source.body(one)))["messages"]
    counted = byte_model.chat_token_count((message["role"], message["content"]) for message in messages)
    assert counted == source.layout(one).tokens == 600 + 5 + 4 * len(messages) + 3


def test_later_bodies_reuse_the_fragments_of_earlier_ones() -> None:
    tree = session([turn(range(3 * k + 3), output_tokens=64) for k in range(5)])
    source = make_prompts([], "bytes", model="m")
    earlier, later = source.body(send(tree, 0, 3)), source.body(send(tree, 0, 4))
    assert all(a is b for a, b in zip(earlier[:-1], later[: len(earlier) - 1], strict=True))


def test_caches_stay_within_their_bytes() -> None:
    kept = Fragments(limit_bytes=100)
    for number in range(20):
        assert kept.keep(("s", 0, number), bytes([number]) * 30) == bytes([number]) * 30
        kept.find(("s", 0, 0))  # used again and again, so it stays
    assert kept.bytes <= 100
    found = [kept.find(("s", 0, number)) for number in (0, 19, 1)]
    assert found == [b"\0" * 30, b"\x13" * 30, None]
    kept.keep(("s", 0, 0), b"shorter")
    assert kept.bytes <= 77
    tree = session([turn(range(500))], name="a"), session([turn(range(500))], name="b")
    source = make_prompts(tree, "bytes", model="m", cache_bytes=1000)
    first = b"".join(source.body(send(tree[0])))
    source.body(send(tree[1]))
    assert b"".join(source.body(send(tree[0]))) == first


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 3), st.integers(1, 9)), max_size=60)
)
@settings(max_examples=30, deadline=None)
def test_texts_are_kept_for_sessions_that_a_lane_is_on(steps: list[tuple[int, str, int, int]]) -> None:
    kept, on = Fragments(limit_bytes=40), {}
    for lane, name, part, size in steps:
        before = set(on.values())
        on[lane] = name
        left = before - set(on.values())
        assert kept.hold(lane, name) == (left.pop() if left else None)
        kept.keep((name, 0, part), bytes([part]) * size)
        if size > 6:
            kept.settle(name, 0, [(name, 0, part)])
        found = {(s, p): kept.find((s, 0, p)) for s in "abc" for p in range(4)}
        present = {key: text for key, text in found.items() if text is not None}
        assert {s for s, _ in present} <= set(on.values()) and present[name, part] == bytes([part]) * size
        assert kept.bytes == sum(map(len, present.values())) <= 40
        alone = list(on.values()).count(name) == 1
        assert not (size > 6 and alone) or {p for s, p in present if s == name} == {part}


@pytest.mark.parametrize("mode", ["bytes", "token-ids", "tokenizer"])
def test_rewritten_history_is_forgotten_unless_another_lane_may_need_it(mode: str) -> None:
    """Every turn keeps two blocks of the one before and rewrites the rest."""
    tree = session([turn([1, 2, *range(100 * k, 100 * k + 20)]) for k in range(30)])
    source = make_prompts([], mode, model="m", tokenizer=Words())
    sizes = []
    for k in range(30):
        source.body(send(tree, 0, k))
        sizes.append(source._fragments.bytes)
    assert max(sizes[2:]) < 1.5 * sizes[1] and sizes[-1] == 0, "and the last prompt of a conversation leaves nothing"
    again = make_prompts([], mode, model="m", tokenizer=Words())
    for k in range(30):
        for lane in (0, 1):
            again.body(send(tree, 0, k, lane=lane))
    assert again._fragments.bytes > 5 * sizes[1]


@pytest.mark.parametrize("mode", ["bytes", "token-ids", "tokenizer"])
def test_memory_follows_the_lanes_and_not_the_length_of_the_run(mode: str) -> None:
    trees = [session([turn(range(k, k + 40)), turn(range(k, k + 50))], name=f"s{k}") for k in range(20)]
    alone = [session([turn(range(k, k + 40))], name=f"one{k}") for k in range(20)]
    source = make_prompts([], mode, model="m", tokenizer=Words())
    sizes = []
    for tree in (*trees, *alone, *trees):
        bodies = []
        for k in range(len(tree.root.turns)):
            bodies.append(b"".join(source.body(send(tree, 0, k))))
            sizes.append(source._fragments.bytes)
        again = make_prompts([], mode, model="m", tokenizer=Words()) if tree in trees[::10] else None
        assert again is None or bodies == [b"".join(again.body(send(tree, 0, k))) for k in range(2)]
    assert 0 < max(sizes) < 2 * max(sizes[:2]), "one lane holds one session"
    assert len(source._scripts._scripts) <= len(trees) + 1, "single requests leave nothing behind"


@pytest.mark.parametrize("mode", ["bytes", "token-ids", "tokenizer"])
def test_plans_of_sessions_that_no_lane_is_on_are_kept_for_a_few(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "KEPT", kept := 8)
    trees = [session([turn([k]), turn([k, k + 1])], name=f"s{k}") for k in range(kept + 10)]
    source = make_prompts([], mode, model="m", tokenizer=Words())
    for tree in trees:
        source.body(send(tree, 0, 0))
    first, *_, last = trees
    assert len(source._scripts._scripts) == kept + 1, "and the one that the lane is on"
    assert first.id not in source._scripts._scripts and last.id in source._scripts._scripts
    back = trees[-5]
    source.body(send(back, 0, 1))
    for tree in trees[:kept]:
        source.body(send(tree, 0, 1, lane=1))
    assert back.id in source._scripts._scripts, "a lane came back to it"


def test_wrong_choices_are_refused() -> None:
    for mode, more in (("letters", {}), ("tokenizer", {}), ("token-ids", {"vocabulary": 10})):
        with pytest.raises(InputError):
            make_prompts([], mode, model="m", **more)
    with pytest.raises(InputError, match="unique"):
        make_prompts([session([turn([1])]), session([turn([1])])], "bytes", model="m")
    with pytest.raises(InputError, match="no such tokenizer file"):
        make_prompts([], "tokenizer", model="m", tokenizer="/nonexistent/tokenizer.json")


def test_a_tokenizer_file_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(EnvironmentFailed, match=r"ridgeline\[tokenizer\]"):
        FileTokenizer(tmp_path)


def test_text_through_a_real_tokenizer_file(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the optional extra `tokenizer` is not installed")
    made_of = tokenizers.Tokenizer(tokenizers.models.BPE())
    made_of.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made_of.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    made_of.train_from_iterator(corpus_text()[:20_000].splitlines(), trainer)
    made_of.save(str(tmp_path / "tokenizer.json"))
    source = make_prompts([], "tokenizer", model="m", tokenizer=tmp_path, corpus=corpus_text()[:20_000])
    tree = session([turn(range(5), tokens=330)])
    (content,) = [m["content"] for m in json.loads(b"".join(source.body(send(tree))))["messages"]]
    assert len(made_of.encode(content).ids) == pytest.approx(330, abs=6)  # tokens may merge where blocks meet
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="not a tokenizer file"):
        FileTokenizer(tmp_path)


def test_the_corpus_is_ours_long_enough_and_always_the_same() -> None:
    text = corpus_text()
    assert text is corpus_text()
    assert len(text) > 4 * 200_000 and text.isascii()
    assert not set('"\\\t\r') & set(text)
    assert len(set(text.splitlines())) > 15_000
