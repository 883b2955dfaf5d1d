"""The Gemini adapter over a real connection: what is sent, and what comes of a good answer (spec §16b, §23)."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from typing import Any

import pytest
from gemini_kit import adapter, answers, ask, said, vertex
from google.genai import types
from kit import STREAMED, Chat, named_call, result, user
from kit import said as model_said
from models.gemini_wire import answer, frame, streamed, text, whole
from models.wire_server import Reply, WireServer, raw_stream

from flowloom import ConfigurationError, Gemini, LlmAgent, LlmRequest


async def test_an_answer_is_one_complete_response() -> None:
    """Adapter | generate."""
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    with WireServer(whole(text("hello"), usageMetadata=usage)) as server:
        (response,) = await answers(adapter(server))
    assert said(response) == "hello"
    assert response.finish_reason is types.FinishReason.STOP
    assert response.usage_metadata is not None
    assert response.usage_metadata.total_token_count == 5
    assert response.model_version == "gemini-test"
    assert response.turn_complete


async def test_a_stream_is_partial_responses_and_their_aggregate() -> None:
    """Adapter | stream aggregate text equal."""
    chunks = [answer(text("hel")), answer(text("lo ")), answer(text("you"), finish="STOP")]
    with WireServer(streamed(*chunks)) as server:
        *partials, complete = await answers(adapter(server), stream=True)
    assert all(each.partial for each in partials)
    assert "".join(said(each) for each in partials) == said(complete) == "hello you"
    assert not complete.partial


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
async def test_calls_thoughts_and_signatures_are_read(stream: bool) -> None:
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True},
        {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
    ]
    reply = streamed(answer(*parts, finish="STOP")) if stream else whole(*parts)
    with WireServer(reply) as server:
        complete = (await answers(adapter(server), stream=stream))[-1]
    assert complete.content is not None
    thought, call = complete.content.parts or []
    assert thought.thought
    assert call.function_call is not None
    assert call.function_call.args == {"a": 1}
    assert call.thought_signature == b"sig"


@pytest.mark.parametrize("depth", [500, 20_000])
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
async def test_arguments_nested_too_deep_do_not_fail_the_answer(stream: bool, depth: int) -> None:
    """They are read, so that the call can have an error of its own; what is beside them is whole."""
    deep = {"functionCall": {"name": "add", "args": {"a": "DEEP"}}}
    reply = streamed(answer(text("so"), deep, finish="STOP")) if stream else whole(text("so"), deep)
    pieces = [piece.replace(b'"DEEP"', b"[" * depth + b"]" * depth) for piece in reply.pieces]
    reply = dataclasses.replace(reply, pieces=pieces)
    with WireServer(reply) as server:
        root = LlmAgent(name="root", model=adapter(server), tools=[_take])
        server.replies += [streamed(answer(text("done"), finish="STOP")) if stream else whole(text("done"))]
        events = await Chat(root, config=STREAMED if stream else None).say("go")
    [error] = [made.response for each in events for made in each.get_function_responses()]
    assert "nested deeper than 100" in (error or {})["error"]
    assert events[-1].text == "done"


async def test_arguments_written_far_down_a_path_do_not_fail_the_stream() -> None:
    """A streamed path of absurd depth is the error of its call."""
    piece = {"jsonPath": "$" + ".a" * 500, "numberValue": 1}
    call = {"functionCall": {"name": "add", "partialArgs": [piece], "willContinue": False}}
    with WireServer(streamed(answer(call, finish="STOP"))) as server:
        complete = (await answers(adapter(server), stream=True))[-1]
    [made] = complete.get_function_calls()
    assert "levels deep" in (made.args or {})["$"]


def _take(**data: Any) -> str:
    return "never"


_take.__name__ = "add"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "unary"])
async def test_other_candidates_are_not_mixed_in(stream: bool) -> None:
    """They may come in any order, and alone."""
    second = {"index": 1, "content": {"role": "model", "parts": [text("B")]}, "finishReason": "STOP"}
    first = answer(text("A"), finish="STOP")
    first["candidates"][0]["index"] = 0
    both = {**first, "candidates": [second, *first["candidates"]]}
    reply = (
        streamed(answer(text("A")), {"candidates": [second]}, both) if stream else Reply([json.dumps(both).encode()])
    )
    with WireServer(reply) as server:
        *_, complete = await answers(adapter(server), stream=stream)
    assert said(complete) == ("AA" if stream else "A")
    assert complete.finish_reason is types.FinishReason.STOP


async def test_where_a_request_goes_on_the_gemini_api() -> None:
    with WireServer(whole(text("x")), streamed(answer(text("x"), finish="STOP"))) as server:
        await answers(adapter(server))
        await answers(adapter(server), stream=True)
        first, second = server.requests
    assert first.path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert second.path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert first.header("x-goog-api-key") == ["key"]


async def test_where_a_request_goes_on_vertex_ai() -> None:
    """With an API key (express mode); file names and labels are kept there."""
    file = types.Part(file_data=types.FileData(file_uri="gs://b/f", display_name="f.txt", mime_type="text/plain"))
    with WireServer(whole(text("x"))) as server:
        model = vertex(server)
        assert model.backend == "vertex_ai"
        await answers(model, ask(user(file), labels={"team": "a"}))
        (seen,) = server.requests
    assert seen.path.endswith("/publishers/google/models/gemini-2.5-flash:generateContent")
    assert seen.json["labels"] == {"team": "a"}
    assert seen.json["contents"][0]["parts"][0]["fileData"]["displayName"] == "f.txt"


async def test_the_model_of_the_request_goes_before_the_adapters() -> None:
    """Adapter | request model wins."""
    with WireServer(whole(text("x"))) as server:
        await answers(adapter(server), LlmRequest(model="gemini-9", contents=[user("go")]))
        assert "/models/gemini-9:" in server.requests[0].path


async def test_tracking_headers_have_one_value_each() -> None:
    """Adapter | headers single-valued; the caller's own label is kept in it."""
    options = types.HttpOptions(headers={"user-agent": "my-app/1", "x-extra": "1"})
    with WireServer(whole(text("x"))) as server:
        await answers(adapter(server, http_options=options))
        (seen,) = server.requests
    for name in ("user-agent", "x-goog-api-client"):
        (value,) = seen.header(name)
        assert value.count("flowloom/") == 1
    assert "my-app/1" in seen.header("user-agent")[0]
    assert seen.header("x-extra") == ["1"]


async def test_the_request_is_not_changed() -> None:
    """Adapter | no config side effects."""
    request = ask(user("go"), model_said("half"), temperature=0.5, labels={"a": "b"})
    before = request.model_dump()
    with WireServer(whole(text("x"))) as server:
        await answers(adapter(server), request)
        assert server.requests[0].json["generationConfig"]["temperature"] == 0.5
    assert request.model_dump() == before


async def test_decision_04_contents_that_end_on_the_models_turn_get_a_users() -> None:
    with WireServer(whole(text("x"))) as server:
        await answers(adapter(server), ask(user("go"), model_said("half")))
        sent = server.requests[0].json["contents"]
    assert [content["role"] for content in sent] == ["user", "model", "user"]


async def test_a_call_without_an_answer_gets_one_that_says_so() -> None:
    """A history that a crash left behind is one that the provider accepts."""
    log = [
        user("go"),
        model_said(named_call("c1", "add"), named_call("c2", "add")),
        user(result("c2", "add", {"s": 1})),
    ]
    with WireServer(whole(text("x"))) as server:
        await answers(adapter(server), ask(*log))
        sent = server.requests[0].json["contents"][2]["parts"]
    assert [part["functionResponse"]["id"] for part in sent] == ["c1", "c2"]
    assert set(sent[0]["functionResponse"]["response"]) == {"error"}


async def test_decision_16_minted_ids_are_not_sent() -> None:
    log = [user("go"), model_said(named_call("adk-1", "add")), user(result("adk-1", "add", {"s": 1}))]
    with WireServer(whole(text("x"))) as server:
        await answers(adapter(server), ask(*log))
        assert "adk-1" not in server.requests[0].body.decode()


def cuts(data: bytes) -> list[list[bytes]]:
    """The bytes, cut in two at every place, and into single bytes."""
    return [[data[:at], data[at:]] for at in range(1, len(data))] + [[data[i : i + 1] for i in range(len(data))]]


async def test_a_stream_may_be_cut_anywhere() -> None:
    """Split frames, inside of UTF-8 too."""
    whole_stream = frame(answer(text("größe 🙂"))) + frame(answer(text(" ok"), finish="STOP"))
    pieces = cuts(whole_stream)
    with WireServer(*(raw_stream(each) for each in pieces)) as server:
        model = adapter(server)
        for _ in pieces:
            responses = [each async for each in model.generate_content_async(ask(), stream=True)]
            assert said(responses[-1]) == "größe 🙂 ok"
        await model.aclose()


async def test_keep_alive_comments_and_other_fields_are_skipped() -> None:
    chunks = [b": ping\n\n", frame(answer(text("a"))), b"event: x\nid: 7\nretry: 5\n\n: ping\r\n\r\n"]
    with WireServer(raw_stream([*chunks, frame(answer(text("b"), finish="STOP"))])) as server:
        assert said((await answers(adapter(server), stream=True))[-1]) == "ab"


async def test_an_event_may_span_lines_and_lack_its_last_blank_line() -> None:
    first = b'data: {"candidates": [{"finishReason": "STOP",\n'
    body = first + b'data: "content": {"role": "model", "parts": [{"text": "ab"}]}}]}'
    with WireServer(raw_stream([body])) as server:
        assert said((await answers(adapter(server), stream=True))[-1]) == "ab"


BLOCKED = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "not this"}}


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
async def test_a_blocked_prompt_is_a_response_with_an_error_code(stream: bool) -> None:
    reply = streamed(BLOCKED) if stream else Reply([frame(BLOCKED)[6:]])
    with WireServer(reply) as server:
        response = (await answers(adapter(server), stream=stream))[-1]
    assert (response.error_code, response.error_message) == ("SAFETY", "not this")


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
@pytest.mark.parametrize(
    "reason", ["SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "BLOCKLIST", "OTHER", "MAX_TOKENS"]
)
async def test_an_answer_without_content_tells_why(reason: str, stream: bool) -> None:
    with WireServer(streamed(answer(finish=reason)) if stream else whole(finish=reason)) as server:
        response = (await answers(adapter(server), stream=stream))[-1]
    assert response.error_code == reason


async def test_one_adapter_serves_several_event_loops() -> None:
    """Used in one loop, and in another one later, as a synchronous program does."""

    def in_a_loop(model: Gemini) -> str:
        async def once() -> str:
            return said([each async for each in model.generate_content_async(ask())][-1])

        return asyncio.run(once())

    with WireServer(*(whole(text(str(n))) for n in range(3))) as server:
        model = adapter(server)
        assert [await asyncio.to_thread(in_a_loop, model) for _ in range(3)] == ["0", "1", "2"]


@pytest.mark.parametrize("how", ["break", "cancel"])
async def test_leaving_a_stream_closes_its_connection(how: str) -> None:
    with WireServer(streamed(answer(text("a")), ending="hang")) as server:
        model = adapter(server)

        async def listen() -> None:
            stream = model.generate_content_async(ask(), stream=True)
            try:
                async for _ in stream:
                    if how == "break":
                        return
            finally:
                await stream.aclose()

        task = asyncio.ensure_future(listen())
        if how == "cancel":
            while not server.requests:  # noqa: ASYNC110 - in another thread
                await asyncio.sleep(0.005)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await asyncio.to_thread(server.client_left.wait, 60)
        await model.aclose()


async def test_connections_are_used_again() -> None:
    with WireServer(*(whole(text("x")) for _ in range(5))) as server:
        model = adapter(server)
        for _ in range(5):
            assert [each async for each in model.generate_content_async(ask())]
        await model.aclose()
        assert server.connections == 1


async def test_without_credentials_the_first_call_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    model = Gemini(model="gemini-2.5-flash")
    with pytest.raises(ConfigurationError, match="GOOGLE_API_KEY"):
        await answers(model)


async def test_the_environment_names_key_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with WireServer(whole(text("x"))) as server:
        monkeypatch.setenv("GOOGLE_API_KEY", "from-env")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        await answers(Gemini())
        assert server.requests[0].header("x-goog-api-key") == ["from-env"]


async def test_the_environment_chooses_vertex_ai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    assert Gemini().backend == "vertex_ai"


async def test_a_long_stream_takes_time_in_proportion() -> None:
    """Four times the chunks, about four times the time."""

    async def seconds(count: int) -> float:
        chunks = [frame(answer(text("word "))) for _ in range(count)]
        with WireServer(raw_stream([b"".join(chunks), frame(answer(text("."), finish="STOP"))])) as server:
            started = time.process_time()
            await answers(adapter(server), stream=True)
            return time.process_time() - started

    ratios = [await seconds(2000) / await seconds(500) for _ in range(3)]
    assert min(ratios) < 8
