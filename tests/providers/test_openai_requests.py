"""What the OpenAI adapter sends: contents as messages or items, settings, tools; and what it refuses."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from google.genai import types
from kit import said as model
from kit import user
from models.wire_server import WireServer
from providers.sdk_kit import answers, ask, at, call, inline, result, sent, whole
from pydantic import BaseModel

from flowloom import LlmRequest, OpenAIModel
from flowloom.errors import UnsupportedFeatureError
from flowloom.models.signatures import ANTHROPIC, OPENAI, signed

CHAT = whole({"model": "m", "choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]})
RESPONSES = whole({"model": "m", "status": "completed", "output": []})
DATA = base64.b64encode(b"data").decode()


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


async def chat(server: WireServer, *contents: types.Content, **config: Any) -> Any:
    """The body for a request to chat completions."""
    server.replies.append(CHAT)
    return await sent(OpenAIModel(model="m", base_url=server.url), server, ask(*contents, **config))


async def responses(server: WireServer, *contents: types.Content, **config: Any) -> Any:
    """The body for a request to the Responses API."""
    server.replies.append(RESPONSES)
    return await sent(OpenAIModel(model="m", base_url=server.url, api="responses"), server, ask(*contents, **config))


# -- contents --------------------------------------------------------------------------------------

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
MESSAGES: dict[str, tuple[list[types.Content], list[dict[str, Any]]]] = {
    "text": ([user("hi")], [{"role": "user", "content": "hi"}]),
    "several texts": (
        [user("a", "b")],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    ),
    "an image": (
        [user("see", inline("image/png"))],
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
                ],
            }
        ],
    ),
    "an image on the web": (
        [user(at("image/png", "https://x.org/a.png"))],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}]}],
    ),
    "audio": (
        [user(inline("audio/mpeg"))],
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}}]}],
    ),
    "a PDF": (
        [user(inline("application/pdf", name="a.pdf"))],
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"},
                    }
                ],
            }
        ],
    ),
    "an uploaded file": (
        [user(at("application/pdf", "file-1"))],
        [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}],
    ),
    "a text file": ([user(inline("text/csv", b"a,b"))], [{"role": "user", "content": "a,b"}]),
    "a call and its result": (
        [user("hi"), model("wait", call("f", "c1", a=1)), user(result("f", "c1", r=2))],
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "wait", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": '{"r":2}'},
        ],
    ),
    "results before what is said beside them": (
        [model(call("f", "c1", a=1)), user("and?", result("f", "c1", r=2))],
        [
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": '{"r":2}'},
            {"role": "user", "content": "and?"},
        ],
    ),
    "a result that nothing asked for": (
        [user(result("f", "c9", r=2))],
        [{"role": "user", "content": 'Result of `f`: {"r":2}'}],
    ),
    "the model's turn at the end": (
        [user("hi"), model("yes")],
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "Please continue from where you stopped."},
        ],
    ),
    "arguments that could not be read": (
        [model(call("f", "c1", **{"$": '{"a": '})), user(result("f", "c1", r=2))],
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": '{"r":2}'},
        ],
    ),
    "code that Gemini ran": (
        [
            model(
                types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON)),
                types.Part(
                    code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="2")
                ),
            ),
            user("so?"),
        ],
        [
            {"role": "assistant", "content": "```python\n1+1\n```\n```output\n2\n```\n"},
            {"role": "user", "content": "so?"},
        ],
    ),
}


@pytest.mark.parametrize("kind", MESSAGES)
async def test_contents_become_chat_messages(server: WireServer, kind: str) -> None:
    contents, messages = MESSAGES[kind]
    assert (await chat(server, *contents))["messages"] == messages


ITEM = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
THOUGHT = types.Part(text="hm", thought=True, thought_signature=signed(OPENAI, '{"id":"r1","encrypted_content":"x"}'))
ITEMS: dict[str, tuple[list[types.Content], list[dict[str, Any]]]] = {
    "text": (
        [user("hi"), model("yes"), user("so?")],
        [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "so?"}]},
        ],
    ),
    "files": (
        [user(inline("image/png"), inline("application/pdf"), at("application/pdf", "https://x.org/a.pdf"))],
        [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}", "detail": "auto"},
                    {
                        "type": "input_file",
                        "filename": "file.pdf",
                        "file_data": f"data:application/pdf;base64,{DATA}",
                    },
                    {"type": "input_file", "file_url": "https://x.org/a.pdf"},
                ],
            }
        ],
    ),
    "a thought, its call, and the result": (
        [model(THOUGHT, call("f", "c1", a=1)), user(result("f", "c1", r=2))],
        [
            {
                "type": "reasoning",
                "id": "r1",
                "encrypted_content": "x",
                "summary": [{"type": "summary_text", "text": "hm"}],
            },
            ITEM,
            {"type": "function_call_output", "call_id": "c1", "output": '{"r":2}'},
        ],
    ),
    "a result with an image": (
        [
            model(call("f", "c1", a=1)),
            user(
                types.Part(
                    function_response=types.FunctionResponse(
                        id="c1",
                        name="f",
                        response={"r": 2},
                        parts=[
                            types.FunctionResponsePart(
                                inline_data=types.FunctionResponseBlob(mime_type="image/png", data=b"data")
                            )
                        ],
                    )
                )
            ),
        ],
        [
            ITEM,
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [
                    {"type": "input_text", "text": '{"r":2}'},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}", "detail": "auto"},
                ],
            },
        ],
    ),
}


@pytest.mark.parametrize("kind", ITEMS)
async def test_contents_become_items_of_responses(server: WireServer, kind: str) -> None:
    contents, items = ITEMS[kind]
    assert (await responses(server, *contents))["input"] == items


async def test_an_open_call_gets_a_result(server: WireServer) -> None:
    """A provider refuses a call that nothing answers."""
    messages = (await chat(server, model(call("f", "c1"), call("g", "c2")), user(result("g", "c2", r=1))))["messages"]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert answered == ["c1", "c2"]
    assert "interrupted" in messages[1]["content"]


@pytest.mark.parametrize("given", [None, "x" * 41, "a\nb"])
async def test_calls_get_ids_that_the_api_takes(server: WireServer, given: str | None) -> None:
    contents = [model(call("f", given), call("f", given)), user(result("f", given, r=1), result("f", given, r=2))]
    messages = (await chat(server, *contents))["messages"]
    ids = [made["id"] for made in messages[0]["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(len(each) <= 40 and each.isprintable() for each in ids)
    results = [(each["tool_call_id"], each["content"]) for each in messages[1:]]
    assert results == [(ids[0], '{"r":1}'), (ids[1], '{"r":2}')]


async def test_an_id_that_an_earlier_call_had_is_replaced(server: WireServer) -> None:
    turn = [model(call("f", "c1")), user(result("f", "c1", r=1))]
    messages = (await chat(server, *turn, *turn))["messages"]
    first, again = (messages[n]["tool_calls"][0]["id"] for n in (0, 2))
    assert first == "c1" != again
    assert [messages[n]["tool_call_id"] for n in (1, 3)] == [first, again]


async def test_a_thought_that_another_provider_signed_is_left_out(
    server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    thought = types.Part(text="hm", thought=True, thought_signature=signed(ANTHROPIC, "x"))
    with caplog.at_level(logging.WARNING, "flowloom.models"):
        body = await responses(server, model(thought, "yes"), user("so?"))
    assert [item["role"] for item in body["input"]] == ["assistant", "user"]
    assert "left out" in caplog.text


REFUSED: dict[str, tuple[types.Content, str]] = {
    "a video": (user(inline("video/mp4")), "contents[0].parts[0].inline_data"),
    "a file of Google's": (user(at("image/png", "gs://b/a.png")), "contents[0].parts[0].file_data"),
    "a picture by the model": (model(inline("image/png")), "contents[0].parts[0].inline_data"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_what_the_api_has_no_words_for_is_refused_by_name(server: WireServer, kind: str, api: Any) -> None:
    content, field = REFUSED[kind]
    with pytest.raises(UnsupportedFeatureError) as raised:
        await answers(OpenAIModel(model="m", base_url=server.url, api=api), ask(content, user("so?")))
    assert raised.value.field == field
    assert field in str(raised.value)
    assert server.requests == []


# -- settings --------------------------------------------------------------------------------------


class Answer(BaseModel):
    text: str


SCHEMA: dict[str, Any] = {
    "properties": {"text": {"title": "Text", "type": "string"}},
    "required": ["text"],
    "title": "Answer",
}
SCHEMA |= {"type": "object", "additionalProperties": False}
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
LEVEL = types.ThinkingLevel.LOW
SETTINGS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]] = [
    ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    ({"max_output_tokens": 9}, {"max_tokens": 9}, {"max_output_tokens": 9}),
    ({"stop_sequences": ["."]}, {"stop": ["."]}, None),
    ({"candidate_count": 2}, {"n": 2}, None),
    ({"seed": 7}, {"seed": 7}, {}),
    ({"presence_penalty": 0.1, "frequency_penalty": 0.2}, {"presence_penalty": 0.1, "frequency_penalty": 0.2}, {}),
    (
        {"response_logprobs": True, "logprobs": 2},
        {"logprobs": True, "top_logprobs": 2},
        {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
    ),
    (
        {"response_mime_type": "application/json"},
        {"response_format": {"type": "json_object"}},
        {"text": {"format": {"type": "json_object"}}},
    ),
    (
        {"response_schema": Answer, "response_mime_type": "application/json"},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "Answer", "schema": SCHEMA, "strict": True},
            }
        },
        {"text": {"format": {"type": "json_schema", "name": "Answer", "schema": SCHEMA, "strict": True}}},
    ),
    (
        {"response_json_schema": CLOSED},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": CLOSED, "strict": True},
            }
        },
        {"text": {"format": {"type": "json_schema", "name": "answer", "schema": CLOSED, "strict": True}}},
    ),
    (
        {"thinking_config": types.ThinkingConfig(thinking_level=LEVEL, include_thoughts=True)},
        {"reasoning_effort": "low"},
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    (
        {"thinking_config": types.ThinkingConfig(thinking_budget=0)},
        {"reasoning_effort": "none"},
        {"reasoning": {"effort": "none"}},
    ),
    ({"service_tier": "standard"}, {"service_tier": "default"}, {"service_tier": "default"}),
    ({"labels": {"a": "b"}}, {}, {"metadata": {"a": "b"}}),
    ({"top_k": 5}, {}, {}),
    ({"system_instruction": types.Content(parts=[types.Part(text="be brief")])}, {}, {"instructions": "be brief"}),
]


@pytest.mark.parametrize(("config", "expected", "_"), SETTINGS, ids=lambda value: "+".join(value or ()))
async def test_settings_of_chat_completions(
    server: WireServer, config: dict[str, Any], expected: dict[str, Any], _: Any
) -> None:
    body = await chat(server, **config)
    body.pop("messages")
    assert body == {"model": "m", **expected}


@pytest.mark.parametrize(
    ("config", "_", "expected"), [each for each in SETTINGS if each[2] is not None], ids=lambda v: "+".join(v or ())
)
async def test_settings_of_responses(
    server: WireServer, config: dict[str, Any], _: Any, expected: dict[str, Any]
) -> None:
    body = await responses(server, **config)
    body.pop("input")
    assert body == {"model": "m", "store": False, **expected}


TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="f",
            description="does f",
            parameters=types.Schema(
                type=types.Type.OBJECT, properties={"a": types.Schema(type=types.Type.STRING, nullable=True)}
            ),
        ),
        types.FunctionDeclaration(name="g"),
    ]
)
F = {
    "name": "f",
    "description": "does f",
    "parameters": {"type": "object", "properties": {"a": {"type": ["null", "string"]}}},
}


def calling(mode: str, *names: str) -> types.ToolConfig:
    config = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode(mode))
    config.allowed_function_names = list(names) or None
    return types.ToolConfig(function_calling_config=config)


async def test_tools_are_declared(server: WireServer) -> None:
    assert (await chat(server, tools=[TOOL]))["tools"] == [
        {"type": "function", "function": F},
        {"type": "function", "function": {"name": "g"}},
    ]
    assert (await responses(server, tools=[TOOL]))["tools"] == [
        {"type": "function", **F, "strict": False},
        {"type": "function", "name": "g", "parameters": {"type": "object", "properties": {}}, "strict": False},
    ]


class TestToolChoice:
    NAMED: ClassVar[Any] = {"type": "function", "function": {"name": "f"}}
    CASES: ClassVar[dict[str, tuple[types.ToolConfig, Any, Any]]] = {
        "auto": (calling("AUTO"), "auto", "auto"),
        "validated": (calling("VALIDATED"), "auto", "auto"),
        "any": (calling("ANY"), "required", "required"),
        "none": (calling("NONE"), "none", "none"),
        "one": (calling("ANY", "f"), NAMED, {"type": "function", "name": "f"}),
    }

    @pytest.mark.parametrize("kind", CASES)
    async def test_the_calling_mode_becomes_the_tool_choice(self, server: WireServer, kind: str) -> None:
        config, in_chat, in_responses = self.CASES[kind]
        assert (await chat(server, tools=[TOOL], tool_config=config))["tool_choice"] == in_chat
        assert (await responses(server, tools=[TOOL], tool_config=config))["tool_choice"] == in_responses

    async def test_of_several_allowed_functions_other_servers_see_no_more(self, server: WireServer) -> None:
        """Only OpenAI itself knows lists of allowed tools."""
        extra = types.Tool(function_declarations=[types.FunctionDeclaration(name="h")])
        body = await chat(server, tools=[TOOL, extra], tool_config=calling("ANY", "f", "h"))
        assert [tool["function"]["name"] for tool in body["tools"]] == ["f", "h"]
        assert body["tool_choice"] == "required"


async def test_tools_that_google_runs_are_refused(server: WireServer) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        await chat(server, tools=[TOOL, types.Tool(google_search=types.GoogleSearch())])
    assert raised.value.field == "config.tools[1].google_search"


SAMPLES: dict[str, Any] = {
    "cached_content": "cachedContents/1",
    "response_modalities": ["AUDIO"],
    "response_mime_type": "text/x.enum",
    "speech_config": types.SpeechConfig(),
    "image_config": types.ImageConfig(),
}


@pytest.mark.parametrize("name", SAMPLES)
async def test_settings_that_change_what_comes_back_are_refused(server: WireServer, name: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        await chat(server, **{name: SAMPLES[name]})
    assert raised.value.field == f"config.{name}"


async def test_what_is_left_out_is_said_once(server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    llm = OpenAIModel(model="m", base_url=server.url)
    server.replies += [CHAT, CHAT]
    with caplog.at_level(logging.WARNING, "flowloom.models"):
        for _ in range(2):
            await answers(llm, ask(top_k=5))
    assert [record.getMessage() for record in caplog.records] == [
        "`config.top_k` is left out of requests to `m`: its API has no such thing."
    ]


async def test_headers_and_body_of_one_request(server: WireServer) -> None:
    server.replies.append(CHAT)
    options = types.HttpOptions(headers={"X-One": "1"}, extra_body={"top_k": 3})
    llm = OpenAIModel(model="m", base_url=server.url, headers={"X-All": "2"}, extra_body={"user": "ann", "top_k": 1})
    body = await sent(llm, server, ask(http_options=options))
    assert (body["user"], body["top_k"]) == ("ann", 3)
    seen = server.requests[0]
    assert [seen.header(name) for name in ("x-one", "x-all")] == [["1"], ["2"]]


async def test_the_request_names_the_model(server: WireServer) -> None:
    server.replies.append(CHAT)
    request: LlmRequest = ask()
    request.model = "other"
    assert (await sent(OpenAIModel(model="m", base_url=server.url), server, request))["model"] == "other"
