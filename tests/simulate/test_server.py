import asyncio
import json

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.simulate.serving import Reply, Served, against, options

from ridgeline.core.topology import Topology
from ridgeline.simulate.server.answers import WORDS
from ridgeline.trace.prompts.byte_model import chat_token_count

LABEL = '{engine="0",model_name="m"}'


def test_a_streamed_chat() -> None:
    async def scenario(server: Served) -> Reply:
        client = await server.client()
        return await client.chat("hello, who is there?", 5, stream=True, stream_options={"include_usage": True})

    reply = against(scenario)
    *chunks, usage, done = reply.events
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert done == "[DONE]"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    words = [chunk["choices"][0]["delta"]["content"] for chunk in chunks[1:]]
    assert len(words) == 5
    assert all(word.encode() in WORDS for word in words)
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 5 + ["length"]
    assert usage["choices"] == []
    prompt = chat_token_count([("user", "hello, who is there?")])
    assert usage["usage"] == {
        "prompt_tokens": prompt,
        "total_tokens": prompt + 5,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert {chunk["id"] for chunk in chunks} == {usage["id"]}
    assert chunks[0]["object"] == "chat.completion.chunk"


def test_a_stream_without_usage_and_one_with_usage_in_every_chunk() -> None:
    async def scenario(server: Served) -> tuple[Reply, Reply]:
        client = await server.client()
        plain = await client.complete("some text", 3, stream=True)
        always = {"include_usage": True, "continuous_usage_stats": True}
        return plain, await client.complete("some text", 3, stream=True, stream_options=always)

    plain, counted = against(scenario)
    assert [event["choices"][0]["text"] != "" for event in plain.events[:-1]] == [True] * 3
    assert all("usage" not in event for event in plain.events[:-1])
    assert [event["usage"]["completion_tokens"] for event in counted.events[:-1]] == [1, 2, 3, 3]


def test_whole_answers_of_both_endpoints() -> None:
    async def scenario(server: Served) -> tuple[Reply, Reply]:
        client = await server.client()
        return await client.chat("hi", 3), await client.complete([5, 6, 7, 8, 9], 2)

    chat, text = against(scenario)
    assert chat.json["object"] == "chat.completion"
    assert len(chat.json["choices"][0]["message"]["content"]) == 3 * 4
    assert text.json["object"] == "text_completion"
    assert text.json["usage"]["prompt_tokens"] == 5
    assert len(text.json["choices"][0]["text"]) == 2 * 4
    assert text.headers["content-type"] == "application/json"


def test_a_repeated_prompt_is_cached_and_an_answer_sent_back_too() -> None:
    async def scenario(server: Served) -> list[int]:
        client = await server.client()
        text, cached = "x" * 400, []
        first = await client.complete(text, 30)
        again = await client.complete(text, 30)
        assert first.json["choices"][0]["text"] == again.json["choices"][0]["text"]
        longer = await client.complete(text + first.json["choices"][0]["text"] + "and more" * 20, 1)
        for reply in (first, again, longer):
            cached.append(reply.json["usage"]["prompt_tokens_details"]["cached_tokens"])
        return cached

    assert against(scenario) == [0, 96, (100 + 30 - 1) // 16 * 16]


def test_one_byte_at_the_front_changes_everything_behind_it() -> None:
    async def scenario(server: Served) -> int:
        client = await server.client()
        await client.complete("a" + "x" * 399)
        reply = await client.complete("b" + "x" * 399)
        return int(reply.json["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert against(scenario) == 0


def test_an_answer_without_a_length_ends_by_itself_unless_told_not_to() -> None:
    async def scenario(server: Served) -> tuple[Reply, Reply]:
        client = await server.client()
        body = {"messages": [{"role": "user", "content": "hi"}]}
        free = await client.call("POST", "/v1/chat/completions", body)
        return free, await client.call("POST", "/v1/chat/completions", body | {"ignore_eos": True})

    free, forced = against(scenario, options(max_model_len=600), speed=2000)
    assert free.json["choices"][0]["finish_reason"] == "stop"
    assert forced.json["choices"][0]["finish_reason"] == "length"
    assert forced.json["usage"]["total_tokens"] == 600


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("completions", b"{nonsense", 400, "JSON decode error"),
        ("completions", b"[1]", 400, "JSON object"),
        ("completions", {"prompt": "x", "model": "other"}, 404, "The model `other` does not exist."),
        ("completions", {"prompt": "x", "max_tokens": 0}, 400, "at least 1"),
        ("completions", {"prompt": "x", "max_tokens": "many"}, 400, "at least 1"),
        ("completions", {"prompt": ""}, 400, "must not be empty"),
        ("completions", {"prompt": [1, -2]}, 400, "token ids"),
        ("completions", {"prompt": [1, "a"]}, 400, "token ids"),
        ("completions", {"prompt": [[1], [2]]}, 400, "one prompt per request"),
        ("completions", {"prompt": 5}, 400, "`prompt` must be"),
        ("completions", {"prompt": "x", "n": 2}, 400, "one choice"),
        ("completions", {"prompt": "x", "stream_options": {}}, 400, "only be defined when `stream=True`"),
        ("completions", {"prompt": list(range(5000))}, 400, "maximum context length is 4096 tokens. However, your "
         "request has 5000 input tokens"),
        ("completions", {"prompt": [1] * 96, "max_tokens": 4001}, 400, "is too large: 4001. This model's maximum "
         "context length is 4096 tokens and your request has 96 input tokens (4001 > 4096 - 96)."),
        ("chat/completions", {"messages": []}, 400, "at least one message"),
        ("chat/completions", {"messages": [{"content": "x"}]}, 400, "messages[0] needs a role"),
        ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "must be text"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused_in_words(path: str, body: object, status: int, message: str) -> None:
    async def scenario(server: Served) -> tuple[Reply, Reply]:
        client = await server.client()
        return await client.call("POST", f"/v1/{path}", body), await client.complete("still alive", 1)

    reply, after = against(scenario)
    assert reply.status == reply.json["error"]["code"] == status
    assert message in reply.error
    assert after.status == 200


def test_other_routes() -> None:
    async def scenario(server: Served) -> list[Reply]:
        client = await server.client()
        paths = (
            ("GET", "/health"),
            ("GET", "/v1/models"),
            ("GET", "/version"),
            ("GET", "/nowhere"),
            ("POST", "/health"),
        )
        return [await client.call(method, path) for method, path in paths]

    health, models, version, nowhere, wrong = against(scenario)
    assert (health.status, health.body) == (200, b"")
    assert (models.json["data"][0]["id"], models.json["data"][0]["max_model_len"]) == ("m", 4096)
    assert version.json["version"]
    assert (nowhere.status, wrong.status) == (404, 405)


def test_head_is_answered_with_the_headers_of_get_alone() -> None:
    async def scenario(server: Served) -> None:
        for path in ("/metrics", "/v1/models", "/health", "/nowhere", "/v1/completions"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(
                f"HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\nGET /health HTTP/1.1\r\nconnection: close\r\n\r\n".encode()
            )
            head, following = (await reader.read()).split(b"HTTP/1.1 ")[1:]
            writer.close()
            expected = {"/nowhere": b"404", "/v1/completions": b"405"}.get(path, b"200")
            assert head.startswith(expected), path
            assert head.endswith(b"\r\n\r\n"), "no body"
            assert (b"content-length: 0\r\n" in head) == (path == "/health"), "the length is that of GET's body"
            assert following.startswith(b"200"), "the next answer on the connection is whole"

    against(scenario)


def test_metrics_are_prometheus_text_and_agree_with_what_was_served() -> None:
    async def scenario(server: Served) -> tuple[Reply, dict[str, float]]:
        client = await server.client()
        for _ in range(2):
            await client.complete([1] * 64, 5)
        return await client.call("GET", "/metrics"), await client.metrics()

    page, values = against(scenario)
    families = {family.name: family for family in text_string_to_metric_families(page.body.decode())}
    assert families["vllm:prompt_tokens"].type == "counter"
    assert families["vllm:time_to_first_token_seconds"].type == "histogram"
    assert values[f"vllm:prompt_tokens_total{LABEL}"] == 128
    assert values[f"vllm:generation_tokens_total{LABEL}"] == 10
    assert values[f"vllm:prefix_cache_hits_total{LABEL}"] == 48
    assert values[f"vllm:num_requests_running{LABEL}"] == 0
    assert values["ridgeline:emulator_speed"] == 200
    assert values["ridgeline:emulator_steps_total"] >= 10
    assert values["ridgeline:emulator_lag_seconds_max"] >= values["ridgeline:emulator_lag_seconds"] >= 0


def test_ranks_by_header_by_session_and_out_of_range() -> None:
    async def scenario(server: Served) -> tuple[dict[str, float], Reply, list[int]]:
        client = await server.client()
        for _ in range(3):
            await client.chat("to the second", headers={"x_data_parallel_rank": "1"})
        values = await client.metrics()
        refused = await client.chat("hi", headers={"x_data_parallel_rank": "7"})
        cached = []
        for name in ("x_session_id", "x_correlation_id"):
            for _ in range(2):
                reply = await client.chat(name * 40, headers={name: "session-3"})
                cached.append(reply.json["usage"]["prompt_tokens_details"]["cached_tokens"])
        return values, refused, cached

    values, refused, cached = against(scenario, options(topology=Topology(2, dp_attn=True)))
    assert values['vllm:generation_tokens_total{engine="1",model_name="m"}'] == 12
    assert values['vllm:generation_tokens_total{engine="0",model_name="m"}'] == 0
    assert refused.status == 400
    assert "7 is out of range [0, 2)" in refused.error
    assert [bool(count) for count in cached] == [False, True, False, True]


def test_a_client_that_goes_away_aborts_its_request() -> None:
    async def scenario(server: Served) -> dict[str, float]:
        gone, other = await server.client(), await server.client()
        body = {"prompt": "x" * 50, "max_tokens": 4000, "stream": True}
        await gone.send("POST", "/v1/completions", json.dumps(body).encode())
        await gone.reader.readuntil(b"\r\n\r\n")
        gone.writer.close()
        while True:
            values = await other.metrics()
            if not values[f"vllm:num_requests_running{LABEL}"]:
                return values

    values = against(scenario, speed=1.0)
    assert values['vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"}'] == 1
    assert values[f"vllm:kv_cache_usage_perc{LABEL}"] == 0


def test_going_away_before_the_engine_knew_leaves_nothing_behind() -> None:
    async def scenario(server: Served) -> tuple[int, dict[str, float]]:
        gone, other = await server.client(), await server.client()
        await gone.send("POST", "/v1/completions", b'{"prompt": "x", "max_tokens": 4}')
        while not server.app.pump._arrivals:
            await asyncio.sleep(0)
        gone.writer.close()
        while server.app.pump._arrivals:
            await asyncio.sleep(0)
        return len(server.app.pump._listeners), await other.metrics()

    left, values = against(scenario, speed=0.01)  # a hundredth of real time: the front end takes a second
    assert left == 0
    assert values[f"vllm:prompt_tokens_total{LABEL}"] == 0


def test_many_streams_share_the_engine_and_all_end() -> None:
    async def scenario(server: Served) -> list[Reply]:
        clients = [await server.client() for _ in range(40)]
        return await asyncio.gather(*(c.chat(f"number {i}", 25, stream=True) for i, c in enumerate(clients)))

    replies = against(scenario, options(max_num_seqs=16))
    assert all(len(reply.events) == 27 for reply in replies)
    assert len({reply.body for reply in replies}) == 40


def test_requests_sent_ahead_on_one_connection_are_answered_in_order() -> None:
    async def scenario(server: Served) -> list[Reply]:
        client = await server.client()
        for count in (9, 1, 3):
            await client.send("POST", "/v1/completions", json.dumps({"prompt": "p", "max_tokens": count}).encode())
        return [await client.receive() for _ in range(3)]

    assert [reply.json["usage"]["completion_tokens"] for reply in against(scenario)] == [9, 1, 3]


def test_a_connection_is_closed_when_the_client_says_so_and_on_garbage() -> None:
    async def scenario(server: Served) -> tuple[bytes, bytes]:
        client, odd = await server.client(), await server.client()
        await client.send(
            "POST", "/v1/completions", b'{"prompt": "x", "max_tokens": 2, "stream": true}', connection="close"
        )
        odd.writer.write(b"\x00\x01 garbage\r\n\r\n")
        return await client.reader.read(), await odd.reader.read()

    stream, refused = against(scenario)
    assert stream.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 400 ")


def test_times_follow_the_speed() -> None:
    """What the engine's own clock saw does not depend on how fast it is played."""

    async def scenario(server: Served) -> dict[str, float]:
        client = await server.client()
        await client.complete([1] * 2000, 40)
        return await client.metrics()

    slow, fast = (against(scenario, speed=speed) for speed in (10.0, 500.0))
    for name in (
        "time_to_first_token_seconds_sum",
        "inter_token_latency_seconds_sum",
        "e2e_request_latency_seconds_sum",
    ):
        assert slow[f"vllm:{name}{LABEL}"] == pytest.approx(fast[f"vllm:{name}{LABEL}"])


def test_a_pipeline_serves_requests_in_its_stages() -> None:
    """Prompts of several clients are in the stages at once, and everybody gets all of an answer."""

    async def scenario(server: Served) -> list[Reply]:
        clients = [await server.client() for _ in range(4)]
        return list(await asyncio.gather(*(client.chat("word " * 2000, tokens=20) for client in clients)))

    for reply in against(scenario, options(topology=Topology(1, pp=2))):
        assert reply.status == 200
        assert reply.json["usage"]["completion_tokens"] == 20
