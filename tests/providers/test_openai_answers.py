"""What the OpenAI adapter makes of answers, whole and streamed, of both APIs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from kit import user
from models.wire_server import Reply, WireServer, raw_stream
from providers.sdk_kit import answers, ask, frame, sent, whole

from flowloom import LlmResponse, OpenAIModel, RetryOptions
from flowloom.errors import ModelResponseError, ModelStreamError, ModelUnavailableError
from flowloom.models.signatures import OPENAI, signed
from flowloom.providers.openai_chat_answers import ChatReader
from flowloom.providers.openai_responses_answers import ResponsesReader

ONCE = RetryOptions(attempts=1)
Chunk = dict[str, Any]


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


def parts(response: LlmResponse) -> list[dict[str, Any]]:
    content = response.content
    return [part.model_dump(exclude_none=True) for part in (content.parts or ())] if content else []


# -- chat completions ------------------------------------------------------------------------------


def delta(finish: str | None = None, /, **fields: Any) -> Chunk:
    return {"id": "x", "model": "m-1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(index: int | None, arguments: str, call_id: str | None = None, name: str | None = None) -> Chunk:
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    made: Chunk = {"function": function}
    if index is not None:
        made["index"] = index
    if call_id is not None:
        made |= {"id": call_id, "type": "function"}
    return delta(tool_calls=[made])


async def streamed(server: WireServer, chunks: Iterable[Chunk], *, done: bool = True) -> list[LlmResponse]:
    server.replies.append(raw_stream([*map(frame, chunks), *([frame(b"[DONE]")] if done else [])]))
    return await answers(OpenAIModel(model="m", base_url=server.url, retry_options=ONCE), stream=True)


async def unstreamed(server: WireServer, finish: str = "stop", /, **message: Any) -> LlmResponse:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    server.replies.append(whole({"model": "m-1", "choices": [choice]}))
    [response] = await answers(OpenAIModel(model="m", base_url=server.url, retry_options=ONCE))
    return response


async def test_thoughts_of_local_servers_stand_apart_from_the_answer(server: WireServer) -> None:
    marked = f"openai-chat:reasoning_content@{server.url.removeprefix('http://')}".encode()
    expected = [{"text": "hmm", "thought": True, "thought_signature": marked}, {"text": "yes"}]
    assert parts(await unstreamed(server, reasoning_content="hmm", content="yes")) == expected
    chunks = [delta(reasoning_content="h"), delta(reasoning_content="mm"), delta(content="yes"), delta("stop")]
    *partials, complete = await streamed(server, chunks)
    assert parts(complete) == expected
    assert [part for each in partials for part in parts(each)] == [
        {"text": "h", "thought": True},
        {"text": "mm", "thought": True},
        {"text": "yes"},
    ]


async def test_streamed_arguments_are_put_together(server: WireServer) -> None:
    chunks = [
        delta(role="assistant", content=None),
        piece(0, "", "c1", "f"),
        piece(0, '{"a": '),
        piece(0, "[1, 2]}"),
        piece(1, "{}", "c2", "g"),
        delta("tool_calls"),
    ]
    *partials, complete = await streamed(server, chunks)
    assert parts(complete) == [
        {"function_call": {"id": "c1", "name": "f", "args": {"a": [1, 2]}}},
        {"function_call": {"id": "c2", "name": "g", "args": {}}},
    ]
    assert [each.get_function_calls()[0].id for each in partials] == ["c1", "c1", "c1", "c2"]
    assert complete.finish_reason == types.FinishReason.STOP


async def test_calls_whose_pieces_come_in_turns_are_kept_apart(server: WireServer) -> None:
    chunks = [
        piece(0, '{"a"', "c1", "f"),
        piece(1, '{"b"', "c2", "g"),
        piece(0, ": 1}"),
        piece(1, ": 2}"),
        delta("tool_calls"),
    ]
    complete = (await streamed(server, chunks))[-1]
    assert [(call.name, call.args) for call in complete.get_function_calls()] == [("f", {"a": 1}), ("g", {"b": 2})]


async def test_calls_without_ids_get_the_same_one_in_all_responses(server: WireServer) -> None:
    *partials, complete = await streamed(server, [piece(0, "{}", name="f"), delta("tool_calls")])
    [call] = complete.get_function_calls()
    assert (call.id or "").startswith("adk-")
    assert {made.id for each in partials for made in each.get_function_calls()} == {call.id}


async def test_calls_without_an_index_are_whole(server: WireServer) -> None:
    """Some servers leave the index out, and send each call at once."""
    chunks = [piece(None, "{}", "c1", "f"), piece(None, "{}", "c2", "f"), delta("tool_calls")]
    assert [call.id for call in (await streamed(server, chunks))[-1].get_function_calls()] == ["c1", "c2"]


@pytest.mark.parametrize(
    "text", ['{"a": ', "[1]", "nonsense", '{"a": ' + "[" * 500 + "]" * 500 + "}", '{"a": 1' + "0" * 4300 + "}"]
)
async def test_arguments_that_are_no_json_object_are_kept_as_text(server: WireServer, text: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}}
    one = await unstreamed(server, "tool_calls", tool_calls=[call])
    other = (await streamed(server, [piece(0, text, "c1", "f"), delta("tool_calls")]))[-1]
    assert [made.args for made in (*one.get_function_calls(), *other.get_function_calls())] == [{"$": text}] * 2


async def test_a_call_whose_name_is_no_text_cannot_be_read(server: WireServer) -> None:
    """In either API, whole as streamed: what a model named is never passed on as something else."""
    unnamed: Chunk = {"id": "c1", "type": "function", "function": {"name": 5, "arguments": "{}"}}
    item = {**CALL, "name": 5}
    with pytest.raises(ModelResponseError, match="`name` is no text"):
        await unstreamed(server, tool_calls=[unnamed])
    with pytest.raises(ModelResponseError, match="`name` is no text"):
        await streamed(server, [delta(tool_calls=[unnamed])])
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    server.replies += [whole({**ANSWER, "output": [item]}), event_stream([added])]
    for stream in (False, True):
        with pytest.raises(ModelResponseError, match="`name` is no text"):
            await answers(reasoner(server), stream=stream)


async def test_a_refusal_is_text_that_ended_for_safety(server: WireServer) -> None:
    one = await unstreamed(server, content=None, refusal="I won't.")
    other = (await streamed(server, [delta(refusal="I "), delta(refusal="won't."), delta("stop")]))[-1]
    for response in (one, other):
        assert (response.text, response.finish_reason) == ("I won't.", types.FinishReason.SAFETY)
        assert response.error_code is None


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("length", "MAX_TOKENS"), ("content_filter", "SAFETY"), ("tool_calls", "STOP"), ("made_up", "OTHER")],
)
async def test_reasons_to_finish(server: WireServer, reason: str, expected: str) -> None:
    one = await unstreamed(server, reason, content="a")
    other = (await streamed(server, [delta(content="a"), delta(reason)]))[-1]
    assert [response.finish_reason for response in (one, other)] == [types.FinishReason(expected)] * 2


async def test_an_answer_that_was_filtered_away_is_an_error(server: WireServer) -> None:
    one = await unstreamed(server, "content_filter", content=None)
    other = (await streamed(server, [delta("content_filter")]))[-1]
    assert [(each.error_code, each.content) for each in (one, other)] == [("SAFETY", None)] * 2


USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 7,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


async def test_tokens_are_counted_in_geminis_terms(server: WireServer) -> None:
    """What was thought is not in the answer's count, and the total is that of all."""
    last = {"model": "m-1", "choices": [], "usage": USAGE}
    complete = (await streamed(server, [delta(content="a"), delta("stop"), last]))[-1]
    assert complete.usage_metadata is not None
    assert complete.usage_metadata.model_dump(exclude_none=True) == {
        "prompt_token_count": 10,
        "candidates_token_count": 2,
        "thoughts_token_count": 5,
        "cached_content_token_count": 4,
        "total_token_count": 17,
    }
    assert complete.model_version == "m-1"


async def test_a_count_of_tokens_may_be_written_as_a_fraction(server: WireServer) -> None:
    last = {"choices": [], "usage": {**USAGE, "total_tokens": 17.0}}
    usage = (await streamed(server, [delta("stop"), last]))[-1].usage_metadata
    assert repr(usage and usage.total_token_count) == "17"


async def test_log_probabilities_are_joined(server: WireServer) -> None:
    def token(text: str, value: float) -> Any:
        return {"token": text, "logprob": value, "top_logprobs": [{"token": text, "logprob": value}]}

    chunks = [delta(content="ab"), delta(content="c"), delta("stop")]
    chunks[0]["choices"][0]["logprobs"] = {"content": [token("a", -1.0), token("b", -2.0)]}
    chunks[1]["choices"][0]["logprobs"] = {"content": [token("c", -3.0)]}
    complete = (await streamed(server, chunks))[-1]
    found = complete.logprobs_result
    assert found is not None
    assert [each.token for each in found.chosen_candidates or ()] == ["a", "b", "c"]
    assert len(found.top_candidates or ()) == 3
    assert complete.avg_logprobs == -2.0


async def test_other_choices_are_not_mixed_in(server: WireServer) -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    assert (await streamed(server, [delta(content="yes"), other, delta("stop")]))[-1].text == "yes"


async def test_a_server_that_does_not_stream_is_understood(server: WireServer) -> None:
    body = {"model": "m-1", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    server.replies.append(whole(body))
    responses = await answers(OpenAIModel(model="m", base_url=server.url), stream=True)
    assert responses[-1].text == "hi"
    assert not responses[-1].partial


async def test_a_stream_without_a_reason_is_whole_only_if_it_says_done(server: WireServer) -> None:
    assert (await streamed(server, [delta(content="hi")]))[-1].text == "hi"
    with pytest.raises(ModelStreamError):
        await streamed(server, [delta(content="hi")], done=False)


@pytest.mark.parametrize("body", [{"choices": []}, {}, {"choices": "no"}, [1], "no"])
async def test_an_answer_without_choices_is_an_error(server: WireServer, body: Any) -> None:
    server.replies.append(Reply([json.dumps(body).encode()]))
    with pytest.raises(ModelResponseError):
        await answers(OpenAIModel(model="m", base_url=server.url, retry_options=ONCE))


# -- Responses -------------------------------------------------------------------------------------

REASONING = {
    "type": "reasoning",
    "id": "r1",
    "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
    "encrypted_content": "secret",
}
SECRET = {"id": "r1", "encrypted_content": "secret"}
MESSAGE = {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "yes", "annotations": []}]}
CALL = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
ANSWER = {
    "id": "resp_1",
    "model": "m-1",
    "status": "completed",
    "output": [REASONING, MESSAGE, CALL],
    "usage": {
        "input_tokens": 10,
        "output_tokens": 7,
        "total_tokens": 17,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 5},
    },
}
EVENTS: list[Chunk] = [
    {"type": "response.created", "response": {"status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**REASONING, "summary": []}},
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "a"},
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "b"},
    {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
    {"type": "response.output_item.added", "output_index": 1, "item": {**MESSAGE, "content": []}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "y"},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "es"},
    {"type": "response.output_item.done", "output_index": 1, "item": MESSAGE},
    {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a"'},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": ":1}"},
    {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": '{"a":1}'},
    {"type": "response.output_item.done", "output_index": 2, "item": CALL},
    {"type": "response.completed", "response": ANSWER},
]


def reasoner(server: WireServer) -> OpenAIModel:
    return OpenAIModel(model="m", base_url=server.url, api="responses", retry_options=ONCE)


def event_stream(events: Iterable[Chunk]) -> Reply:
    return raw_stream([frame(event, event["type"]) for event in events])


async def both(server: WireServer, answer: Chunk, events: Iterable[Chunk]) -> list[LlmResponse]:
    """The complete response of the answer, whole and streamed."""
    server.replies += [whole(answer), event_stream(events)]
    return [(await answers(reasoner(server), stream=stream))[-1] for stream in (False, True)]


async def test_items_become_parts(server: WireServer) -> None:
    for response in await both(server, ANSWER, EVENTS):
        assert parts(response) == [
            {
                "text": "a\n\nb",
                "thought": True,
                "thought_signature": signed(OPENAI, json.dumps({"summary": REASONING["summary"], **SECRET})),
            },
            {"text": "yes"},
            {"function_call": {"id": "c1", "name": "f", "args": {"a": 1}}},
        ]
        assert response.usage_metadata is not None
        assert response.usage_metadata.thoughts_token_count == 5
        assert (response.finish_reason, response.model_version) == (types.FinishReason.STOP, "m-1")


async def test_a_thought_goes_back_as_it_came(server: WireServer) -> None:
    response = (await both(server, ANSWER, EVENTS))[1]
    assert response.content is not None
    server.replies.append(whole(ANSWER))
    body = await sent(reasoner(server), server, ask(user("go"), response.content, user("and?")))
    assert body["input"][1] == REASONING


@pytest.mark.parametrize(
    "kinds",
    [
        ("response.output_text.delta", "response.completed"),
        ("response.output_item.added", "response.output_text.delta", "response.completed"),
        ("response.output_item.added", "response.completed"),
        ("response.output_item.added", "response.function_call_arguments.delta", "response.completed"),
    ],
    ids=" ".join,
)
async def test_items_that_are_done_at_the_end_alone_are_told_once(server: WireServer, kinds: tuple[str, ...]) -> None:
    """Some servers leave out the events between; each item is in the last one."""
    found = await both(
        server,
        {**ANSWER, "output": [MESSAGE, CALL]},
        [
            {**event, "output_index": event["output_index"] - 1}
            if "output_index" in event
            else {**event, "response": {**ANSWER, "output": [MESSAGE, CALL]}}
            for event in EVENTS
            if event["type"] in kinds and event.get("output_index") != 0
        ],
    )
    for response in found:
        assert response.text == "yes"
        assert [(made.id, made.args) for made in response.get_function_calls()] == [("c1", {"a": 1})]


@pytest.mark.parametrize(
    ("details", "expected"), [("max_output_tokens", "MAX_TOKENS"), ("content_filter", "SAFETY"), ("x", "OTHER")]
)
async def test_an_incomplete_answer_says_why(server: WireServer, details: str, expected: str) -> None:
    answer = {**ANSWER, "status": "incomplete", "incomplete_details": {"reason": details}}
    events = [*EVENTS[:-1], {"type": "response.incomplete", "response": answer}]
    reasons = [response.finish_reason for response in await both(server, answer, events)]
    assert reasons == [types.FinishReason(expected)] * 2


async def test_a_failed_answer_is_an_error(server: WireServer) -> None:
    failed = {"status": "failed", "error": {"code": "server_error", "message": "sorry"}, "output": []}
    server.replies += [whole(failed), event_stream([*EVENTS[:3], {"type": "response.failed", "response": failed}])]
    llm = reasoner(server)
    with pytest.raises(ModelUnavailableError, match="sorry") as refused:
        await answers(llm)
    assert refused.value.status == 500
    with pytest.raises(ModelStreamError, match="sorry") as broken:
        await answers(llm, stream=True)
    assert broken.value.retryable
    await llm.aclose()


async def test_a_stream_that_stops_before_its_end_is_an_error(server: WireServer) -> None:
    server.replies.append(event_stream(EVENTS[:-1]))
    with pytest.raises(ModelStreamError, match="broke off"):
        await answers(reasoner(server), stream=True)


async def test_sources_are_citations(server: WireServer) -> None:
    cited = {"type": "url_citation", "url": "https://x.org", "title": "X", "start_index": 0, "end_index": 3}
    message = {**MESSAGE, "content": [{"type": "output_text", "text": "yes", "annotations": [cited]}]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": message}
    answer = {**ANSWER, "output": [message]}
    for response in await both(server, answer, [EVENTS[8], done, {"type": "response.completed", "response": answer}]):
        assert response.citation_metadata is not None
        [citation] = response.citation_metadata.citations or []
        assert (citation.uri, citation.title, citation.end_index) == ("https://x.org", "X", 3)


# -- laws ------------------------------------------------------------------------------------------

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
arguments = st.dictionaries(text, st.integers() | text | st.none() | st.lists(st.booleans()), max_size=3)
calls = st.lists(st.tuples(text.filter(bool), arguments), max_size=3)


def cut(data: st.DataObject, whole: str) -> list[str]:
    """A text in pieces, some of them empty."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(data=st.data(), thought=text, said=text, made=calls)
def test_a_chat_stream_ends_as_the_whole_answer(data: st.DataObject, thought: str, said: str, made: Any) -> None:
    tools = [
        {"id": f"c{n}", "function": {"name": name, "arguments": json.dumps(args)}}
        for n, (name, args) in enumerate(made)
    ]
    message = {"reasoning_content": thought, "content": said, "tool_calls": tools}
    chunks = [delta(reasoning_content=each) for each in cut(data, thought)]
    chunks += [delta(content=each) for each in cut(data, said)]
    for n, tool in enumerate(tools):
        chunks.append(piece(n, "", tool["id"], tool["function"]["name"]))
        chunks += [piece(n, each) for each in cut(data, tool["function"]["arguments"])]
    reader = ChatReader("m")
    for chunk in [*chunks, delta("stop")]:
        reader.feed(chunk)
    one = ChatReader("m").whole({"model": "m-1", "choices": [{"message": message, "finish_reason": "stop"}]})
    other = reader.close()
    assert parts(one) == parts(other)
    assert [call.args for call in one.get_function_calls()] == [args for _, args in made]


@given(data=st.data(), thought=text, said=text.filter(bool), made=calls)
def test_a_responses_stream_ends_as_the_whole_answer(data: st.DataObject, thought: str, said: str, made: Any) -> None:
    items: list[Chunk] = [
        {**REASONING, "summary": [{"text": thought}]},
        {"type": "message", "content": [{"type": "output_text", "text": said}]},
    ]
    items += [
        {"type": "function_call", "call_id": f"c{n}", "name": name, "arguments": json.dumps(args)}
        for n, (name, args) in enumerate(made)
    ]
    streams = [
        ("response.reasoning_summary_text.delta", thought),
        ("response.output_text.delta", said),
        *(("response.function_call_arguments.delta", item["arguments"]) for item in items[2:]),
    ]
    answer = {"model": "m-1", "status": "completed", "output": items}
    reader = ResponsesReader("m")
    for n, (item, (kind, whole_text)) in enumerate(zip(items, streams, strict=True)):
        empty = {"summary": [], "content": [], "arguments": ""}
        reader.feed({"type": "response.output_item.added", "output_index": n, "item": {**item, **empty}})
        for each in cut(data, whole_text):
            reader.feed({"type": kind, "output_index": n, "delta": each})
        reader.feed({"type": "response.output_item.done", "output_index": n, "item": item})
    reader.feed({"type": "response.completed", "response": answer})
    assert parts(ResponsesReader("m").whole(answer)) == parts(reader.close())
