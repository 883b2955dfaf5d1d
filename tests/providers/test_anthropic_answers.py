"""What the Anthropic adapter makes of answers, whole and streamed, and that they go back as they came."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from kit import user
from models.wire_server import Reply, WireServer, raw_stream
from providers.sdk_kit import answers, ask, frame, result, sent, whole

from flowloom import AnthropicModel, LlmResponse, RetryOptions
from flowloom.errors import ModelResponseError
from flowloom.models.signatures import ANTHROPIC, ANTHROPIC_BLOCK, ANTHROPIC_REDACTED, signed
from flowloom.providers.anthropic_answers import MessagesReader

Json = dict[str, Any]
ONCE = RetryOptions(attempts=1)
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 1}
FINAL = {"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 8}}
TEXT = {"type": "text", "text": "yes, indeed"}
THOUGHT = {"type": "thinking", "thinking": "hm, well", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "eHh4"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1, {"b": "ü"}], "c": None}}
SECOND = {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


def adapter(server: WireServer, **fields: Any) -> AnthropicModel:
    return AnthropicModel(model="m", base_url=server.url, retry_options=ONCE, **fields)


def message(*blocks: Json, stop: str = "end_turn", **fields: Any) -> Json:
    """An answer that comes at once."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-1",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {**USAGE, **FINAL},
        **fields,
    }


def events(*blocks: Json, stop: str = "end_turn", pieces: int = 3, **fields: Any) -> list[Json]:
    """The same answer as a stream, each text in pieces of that many characters."""
    start = {**message(), "stop_reason": None, "usage": USAGE}
    made: list[Json] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        opened, deltas = opened_of(block, pieces)
        made.append({"type": "content_block_start", "index": index, "content_block": opened})
        made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        made.append({"type": "content_block_stop", "index": index})
    made.append({"type": "message_delta", "delta": {"stop_reason": stop, **fields}, "usage": FINAL})
    return [*made, {"type": "message_stop"}]


def opened_of(block: Json, size: int) -> tuple[Json, list[Json]]:
    """How a block begins in a stream, and what comes then."""
    kind = block["type"]
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
        return {"type": kind, "text": ""}, [
            *({"type": "text_delta", "text": piece} for piece in cut(block["text"], size)),
            *cited,
        ]
    if kind == "thinking":
        thought = [{"type": "thinking_delta", "thinking": piece} for piece in cut(block["thinking"], size)]
        return {**block, "thinking": "", "signature": ""}, [
            *thought,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if kind == "tool_use":
        arguments = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": piece} for piece in ("", *cut(arguments, size))
        ]
    return block, []


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def frames(made: Iterable[Json]) -> list[bytes]:
    return [frame(each, each["type"]) for each in made]


async def streamed(server: WireServer, *blocks: Json, **fields: Any) -> list[LlmResponse]:
    server.replies.append(raw_stream(frames(events(*blocks, **fields))))
    return await answers(adapter(server), stream=True)


async def unstreamed(server: WireServer, *blocks: Json, **fields: Any) -> LlmResponse:
    server.replies.append(whole(message(*blocks, **fields)))
    [response] = await answers(adapter(server))
    return response


def parts(response: LlmResponse) -> list[Json]:
    content = response.content
    return [part.model_dump(exclude_none=True) for part in (content.parts or ())] if content else []


ANSWERS: dict[str, tuple[list[Json], list[Json]]] = {
    "text": ([TEXT], [{"text": "yes, indeed"}]),
    "a thought": (
        [THOUGHT, TEXT],
        [
            {"text": "hm, well", "thought": True, "thought_signature": signed(ANTHROPIC, "c2ln")},
            {"text": "yes, indeed"},
        ],
    ),
    "a thought that is not shown": (
        [{**THOUGHT, "thinking": ""}, TEXT],
        [{"text": "", "thought": True, "thought_signature": signed(ANTHROPIC, "c2ln")}, {"text": "yes, indeed"}],
    ),
    "thoughts in a row": (
        [THOUGHT, {**THOUGHT, "thinking": "", "signature": "bmV4dA=="}, HIDDEN],
        [
            {"text": "hm, well", "thought": True, "thought_signature": signed(ANTHROPIC, "c2ln")},
            {"text": "", "thought": True, "thought_signature": signed(ANTHROPIC, "bmV4dA==")},
            {"text": "", "thought": True, "thought_signature": signed(ANTHROPIC_REDACTED, "eHh4")},
        ],
    ),
    "calls": (
        [TEXT, USE, SECOND],
        [
            {"text": "yes, indeed"},
            {"function_call": {"id": "toolu_1", "name": "f", "args": {"a": [1, {"b": "ü"}], "c": None}}},
            {"function_call": {"id": "toolu_2", "name": "f", "args": {}}},
        ],
    ),
    "what a server did": (
        [SEARCH, TEXT],
        [
            {
                "tool_call": {"id": "s", "args": {"query": "q"}},
                "part_metadata": {"server_tool": "web_search"},
                "thought_signature": signed(ANTHROPIC_BLOCK, json.dumps(SEARCH, separators=(",", ":"))),
            },
            {"text": "yes, indeed"},
        ],
    ),
    "nothing": ([], []),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_are_the_same_whole_and_streamed(server: WireServer, name: str) -> None:
    blocks, expected = ANSWERS[name]
    assert parts(await unstreamed(server, *blocks)) == expected
    *partials, complete = await streamed(server, *blocks)
    assert parts(complete) == expected
    assert all(each.partial for each in partials)
    assert not complete.partial


async def test_the_pieces_of_a_stream_are_shown_as_they_come(server: WireServer) -> None:
    *partials, _ = await streamed(server, {**THOUGHT, "thinking": "hmm"}, {**TEXT, "text": "yesno"}, USE)
    shown = [part for each in partials for part in parts(each) if "text" in part]
    assert shown == [{"text": "hmm", "thought": True}, {"text": "yes"}, {"text": "no"}]
    assert {made.id for each in partials for made in each.get_function_calls()} == {"toolu_1"}


async def test_calls_whose_pieces_come_in_turns_are_kept_apart(server: WireServer) -> None:
    made = events(USE, SECOND, pieces=99)
    made = sorted(made[2:-2], key=lambda each: each["type"] == "content_block_stop")
    server.replies.append(raw_stream(frames([*made, *events()[-2:]])))
    complete = (await answers(adapter(server), stream=True))[-1]
    assert [(each.id, each.args) for each in complete.get_function_calls()] == [
        ("toolu_1", USE["input"]),
        ("toolu_2", {}),
    ]


async def test_arguments_that_are_cut_off_stand_as_they_came(server: WireServer) -> None:
    made = events(USE, stop="max_tokens", pieces=4)
    del made[5:-3]
    server.replies.append(raw_stream(frames(made)))
    complete = (await answers(adapter(server), stream=True))[-1]
    assert complete.get_function_calls()[0].args == {"$": '{"a"'}
    assert complete.finish_reason == types.FinishReason.MAX_TOKENS


async def test_a_call_of_the_servers_that_is_cut_off_does_not_fail_the_answer(server: WireServer) -> None:
    """What was said before it has been paid, and shown."""
    made = events(TEXT, {**SEARCH, "input": {}}, stop="max_tokens", pieces=99)
    cut_off = {"type": "input_json_delta", "partial_json": '{"q'}
    made.insert(-3, {"type": "content_block_delta", "index": 1, "delta": cut_off})
    server.replies.append(raw_stream(frames(made)))
    complete = (await answers(adapter(server), stream=True))[-1]
    said, searched = parts(complete)
    assert said == {"text": TEXT["text"]}
    assert searched["tool_call"] == {"id": "s", "args": {"$": '{"q'}}
    assert complete.finish_reason == types.FinishReason.MAX_TOKENS


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
async def test_arguments_nested_too_deep_do_not_fail_the_answer(server: WireServer, stream: bool) -> None:
    """They come as far as they can be read, for the call to have an error of its own."""
    deep = b"[" * 500 + b"]" * 500
    block = {**USE, "input": {"a": "DEEP"}}
    if stream:
        pieces = frames(events(block, pieces=99))
        server.replies.append(raw_stream(each.replace(b'\\"DEEP\\"', deep) for each in pieces))
    else:
        body = json.dumps({"type": "message", "model": "m", "content": [block], "stop_reason": "tool_use"}).encode()
        server.replies.append(Reply([body.replace(b'"DEEP"', deep)]))
    complete = (await answers(adapter(server), stream=stream))[-1]
    [call] = complete.get_function_calls()
    assert call.name == USE["name"]
    assert "[" * 50 in json.dumps(call.args)


async def test_a_call_that_begins_with_its_arguments_is_read(server: WireServer) -> None:
    """Some servers do not stream them."""
    made = events()
    made[2:2] = [
        {"type": "content_block_start", "index": 0, "content_block": USE},
        {"type": "content_block_stop", "index": 0},
    ]
    server.replies.append(raw_stream(frames(made)))
    complete = (await answers(adapter(server), stream=True))[-1]
    assert complete.get_function_calls()[0].args == USE["input"]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "STOP"),
        ("stop_sequence", "STOP"),
        ("tool_use", "STOP"),
        ("max_tokens", "MAX_TOKENS"),
        ("model_context_window_exceeded", "MAX_TOKENS"),
        ("refusal", "SAFETY"),
        ("something_new", "OTHER"),
    ],
)
async def test_reasons_to_stop_are_told(server: WireServer, stop: str, reason: str) -> None:
    one, many = await unstreamed(server, TEXT, stop=stop), (await streamed(server, TEXT, stop=stop))[-1]
    assert one.finish_reason == many.finish_reason == types.FinishReason(reason)


async def test_a_refusal_without_an_answer_is_an_error_with_its_reason(server: WireServer) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "too dangerous"}
    one = await unstreamed(server, stop="refusal", stop_details=details)
    many = (await streamed(server, stop="refusal", stop_details=details))[-1]
    for response in (one, many):
        assert (response.error_code, response.error_message, response.content) == ("SAFETY", "too dangerous", None)


async def test_tokens_are_counted_with_those_of_the_cache(server: WireServer) -> None:
    for response in (await unstreamed(server, TEXT), (await streamed(server, TEXT))[-1]):
        usage = response.usage_metadata
        assert usage is not None
        assert (usage.prompt_token_count, usage.cached_content_token_count) == (18, 5)
        assert (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count) == (12, 8, 38)
        assert response.model_version == "claude-1"


async def test_sources_are_told_with_what_stands_on_them(server: WireServer) -> None:
    web = {"type": "web_search_result_location", "url": "https://x.org", "title": "X", "cited_text": "..."}
    page = {"type": "page_location", "document_title": "A paper", "start_page_number": 1, "end_page_number": 2}
    blocks = [
        {"type": "text", "text": "So: "},
        {"type": "text", "text": "water is wet", "citations": [web, page]},
        TEXT,
    ]
    for response in (await unstreamed(server, *blocks), (await streamed(server, *blocks))[-1]):
        assert response.citation_metadata is not None
        assert [
            (each.uri, each.title, each.start_index, each.end_index)
            for each in response.citation_metadata.citations or ()
        ] == [("https://x.org", "X", 4, 16), (None, "A paper", 4, 16)]


# -- laws ------------------------------------------------------------------------------------------

ROUND = [THOUGHT, {**THOUGHT, "thinking": "", "signature": "bmV4dA=="}, HIDDEN, TEXT, USE, {**SECOND, "name": "g"}]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_goes_back_as_the_blocks_that_came(server: WireServer, stream: bool) -> None:
    complete = (await streamed(server, *ROUND))[-1] if stream else await unstreamed(server, *ROUND)
    assert complete.content is not None
    server.replies.append(whole(message()))
    results = user(result("f", "toolu_1", r=1), result("g", "toolu_2", r=2))
    body = await sent(adapter(server, cache=None), server, ask(user("go"), complete.content, results))
    assert body["messages"][1] == {"role": "assistant", "content": ROUND}


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
blocks_of_any_kind = st.one_of(
    words.map(lambda text: {"type": "text", "text": text}),
    st.tuples(words, st.text("abc=", min_size=1)).map(
        lambda both: {"type": "thinking", "thinking": both[0], "signature": both[1]}
    ),
    st.text("abc=", min_size=1).map(lambda data: {"type": "redacted_thinking", "data": data}),
    st.tuples(st.sampled_from("fg"), st.dictionaries(words, words, max_size=3)).map(
        lambda both: {"type": "tool_use", "name": both[0], "input": both[1]}
    ),
)


@given(st.lists(blocks_of_any_kind, max_size=6), st.integers(1, 9))
def test_any_answer_is_the_same_whole_and_streamed(blocks: list[Json], size: int) -> None:
    blocks = [{**each, "id": f"toolu_{n}"} if each["type"] == "tool_use" else each for n, each in enumerate(blocks)]
    reader = MessagesReader("m")
    for each in events(*blocks, pieces=size):
        reader.feed(each)
    assert reader.finished
    many, one = reader.close(), MessagesReader("m").whole(message(*blocks))
    assert parts(many) == parts(one)
    assert (many.usage_metadata, many.finish_reason) == (one.usage_metadata, one.finish_reason)


@given(st.lists(st.integers(0, 4000), max_size=12))
async def test_a_stream_may_be_cut_anywhere(cuts: list[int]) -> None:
    data = b"".join(frames(events(*ROUND))).replace(b"\n", b"\r\n")
    edges = [0, *sorted(at for at in cuts if at < len(data)), len(data)]
    pieces = [data[left:right] for left, right in itertools.pairwise(edges) if right > left]
    with WireServer(raw_stream(pieces)) as server:
        complete = (await answers(adapter(server), stream=True))[-1]
    assert parts(complete) == parts(MessagesReader("m").whole(message(*ROUND)))


async def test_an_answer_without_content_cannot_be_read(server: WireServer) -> None:
    server.replies.append(whole({"type": "message"}))
    with pytest.raises(ModelResponseError, match="no content"):
        await answers(adapter(server))


async def test_a_call_whose_name_is_no_text_cannot_be_read(server: WireServer) -> None:
    """Whole as streamed: what a model named is never passed on as something else."""
    for answered in (unstreamed, streamed):
        with pytest.raises(ModelResponseError, match="`name` is no text"):
            await answered(server, {**USE, "name": 5})
