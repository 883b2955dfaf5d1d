"""What the Anthropic adapter sends: contents as messages, settings, tools, marks for the cache."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import types
from kit import said as model
from kit import user
from models.wire_server import WireServer
from providers.sdk_kit import ask, at, call, inline, result, sent, whole
from pydantic import BaseModel

from flowloom import AnthropicModel, LlmRequest
from flowloom.errors import ModelRequestError, UnsupportedFeatureError
from flowloom.models.signatures import ANTHROPIC, ANTHROPIC_REDACTED, OPENAI, signed

ANSWER = whole({"type": "message", "model": "m", "content": [], "stop_reason": "end_turn"})
DATA = base64.b64encode(b"data").decode()


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


async def body(server: WireServer, *contents: types.Content, of: str = "m", **config: Any) -> Any:
    """The body for a request, without marks for the cache."""
    return await body_of(server, ask(*contents, **config), model=of, cache=None)


async def body_of(server: WireServer, request: LlmRequest, **fields: Any) -> Any:
    server.replies.append(ANSWER)
    return await sent(AnthropicModel(**{"model": "m", "base_url": server.url, **fields}), server, request)


@pytest.mark.parametrize("contents", [[], [user(" ")]], ids=["none", "blank"])
async def test_a_system_instruction_alone_gets_a_user_turn(server: WireServer, contents: list[types.Content]) -> None:
    """Messages there must be (decision 4)."""
    request = ask(system_instruction="Begin.")
    request.contents = contents
    [message] = (await body_of(server, request, cache=None))["messages"]
    assert message["role"] == "user"
    assert message["content"][0]["text"]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def thought(value: str, signature: bytes | None) -> types.Part:
    return types.Part(text=value, thought=True, thought_signature=signature)


def function(name: str, **properties: Any) -> types.FunctionDeclaration:
    schema = {"type": "object", "properties": properties} if properties else None
    return types.FunctionDeclaration(name=name, description=f"does {name}", parameters_json_schema=schema)


TOOLS = [types.Tool(function_declarations=[function("f", a={"type": "integer"}), function("g"), function("h")])]


def mode(name: str, *names: str) -> types.ToolConfig:
    return types.ToolConfig(
        function_calling_config=types.FunctionCallingConfig(
            mode=types.FunctionCallingConfigMode(name), allowed_function_names=list(names) or None
        )
    )


# -- contents --------------------------------------------------------------------------------------

USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": '{"r":2}'}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
MESSAGES: dict[str, tuple[list[types.Content], list[dict[str, Any]]]] = {
    "texts, blank ones left out": ([user("a", " \n", "b")], [said("user", text("a"), text("b"))]),
    "an image": ([user(inline("image/png"))], [said("user", IMAGE)]),
    "an image under its other name": (
        [user(inline("image/jpg"))],
        [said("user", {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": DATA}})],
    ),
    "an image on the web": (
        [user(at("image/png", "https://x.org/a.png"))],
        [said("user", {"type": "image", "source": {"type": "url", "url": "https://x.org/a.png"}})],
    ),
    "an uploaded image": (
        [user(at("image/png", "file_1"))],
        [said("user", {"type": "image", "source": {"type": "file", "file_id": "file_1"}})],
    ),
    "a PDF": (
        [user(inline("application/pdf", name="a.pdf"))],
        [
            said(
                "user",
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
                    "title": "a.pdf",
                },
            )
        ],
    ),
    "a PDF on the web": (
        [user(at("application/pdf", "https://x.org/a.pdf"))],
        [said("user", {"type": "document", "source": {"type": "url", "url": "https://x.org/a.pdf"}})],
    ),
    "a text file": (
        [user(inline("text/csv", b"a,b"))],
        [said("user", {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}})],
    ),
    "a call and its result": (
        [user("hi"), model("wait", call("f", "c1", a=1)), user(result("f", "c1", r=2))],
        [said("user", text("hi")), said("assistant", text("wait"), USE), said("user", RESULT)],
    ),
    "results before all else, in one message": (
        [
            model(call("f", "c1", a=1), call("f", "c2", a=1)),
            user("and?", result("f", "c2", r=2)),
            user(result("f", "c1", r=2)),
            user("so"),
        ],
        [
            said("assistant", USE, {**USE, "id": "c2"}),
            said("user", {**RESULT, "tool_use_id": "c2"}, RESULT, text("and?"), text("so")),
        ],
    ),
    "a result that is an error": (
        [model(call("f", "c1", a=1)), user(result("f", "c1", error="no"))],
        [said("assistant", USE), said("user", {**RESULT, "content": '{"error":"no"}', "is_error": True})],
    ),
    "a result that nothing asked for": (
        [user(result("f", "c9", r=2))],
        [said("user", text('Result of `f`: {"r":2}'))],
    ),
    "arguments that could not be read": (
        [model(call("f", "c1", **{"$": '{"a": '})), user(result("f", "c1", r=2))],
        [said("assistant", {**USE, "input": {"$": '{"a": '}}), said("user", RESULT)],
    ),
    "thoughts of this provider": (
        [
            model(thought("hm", signed(ANTHROPIC, "s1")), thought("", signed(ANTHROPIC_REDACTED, "x")), "yes"),
            user("ok"),
        ],
        [
            said(
                "assistant",
                {"type": "thinking", "thinking": "hm", "signature": "s1"},
                {"type": "redacted_thinking", "data": "x"},
                text("yes"),
            ),
            said("user", text("ok")),
        ],
    ),
    "thoughts of others": (
        [user("a"), model(thought("hm", signed(OPENAI, "s1")), thought("hm", None)), user("b")],
        [said("user", text("a"), text("b"))],
    ),
    "the model's turn at the end": (
        [user("hi"), model("yes")],
        [
            said("user", text("hi")),
            said("assistant", text("yes")),
            said("user", text("Please continue from where you stopped.")),
        ],
    ),
    "a blank last word": (
        [user("hi"), model("yes"), user(" ")],
        [
            said("user", text("hi")),
            said("assistant", text("yes")),
            said("user", text("Please continue from where you stopped.")),
        ],
    ),
    "code that Gemini ran": (
        [
            model(types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON))),
            user("so?"),
        ],
        [said("assistant", text("```python\n1+1\n```\n")), said("user", text("so?"))],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
async def test_contents_are_messages(server: WireServer, name: str) -> None:
    contents, expected = MESSAGES[name]
    messages = (await body(server, *contents))["messages"]
    assert messages == expected


async def test_ids_are_made_to_fit(server: WireServer) -> None:
    """The API takes letters, digits, `_` and `-` only."""
    contents = [model(call("f", "a.b", a=1), call("f", a=1)), user(result("f", "a.b", r=2), result("f", r=2))]
    messages = (await body(server, *contents))["messages"]
    used = [block["id"] for block in messages[0]["content"]]
    assert used == [block["tool_use_id"] for block in messages[1]["content"]]
    assert len(set(used)) == 2
    assert "a.b" not in used


async def test_files_in_a_result_stand_behind_its_text(server: WireServer) -> None:
    image = types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=b"data"))
    answer = types.FunctionResponse(id="c1", name="f", response={"r": 2}, parts=[image])
    contents = [model(call("f", "c1", a=1)), user(types.Part(function_response=answer))]
    block = (await body(server, *contents))["messages"][1]["content"][0]
    assert block["content"] == [text('{"r":2}'), IMAGE]


async def test_foreign_thoughts_are_left_out_with_one_warning(
    server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "flowloom"):
        await body(server, user("a"), model(thought("1", None), thought("2", b"gemini"), "x"), user("b"))
    assert len(caplog.records) == 1
    assert "thoughts" in caplog.text


async def test_a_request_of_nothing_but_blanks_is_refused(server: WireServer) -> None:
    with pytest.raises(ModelRequestError, match="blank"):
        await body(server, user(" "))


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (inline("audio/mpeg"), "contents[0].parts[0].inline_data"),
        (inline("image/tiff"), "contents[0].parts[0].inline_data"),
        (at("text/plain", "https://x.org/a"), "contents[0].parts[0].file_data"),
        (at("application/pdf", "gs://bucket/a"), "contents[0].parts[0].file_data"),
    ],
)
async def test_what_has_no_words_is_refused(server: WireServer, part: types.Part, field: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        await body(server, user(part))
    assert raised.value.field == field
    assert not server.requests


# -- settings --------------------------------------------------------------------------------------


async def test_settings_are_sent_under_their_names_here(server: WireServer) -> None:
    found = await body(
        server,
        system_instruction=["be", " ", "brief"],
        temperature=0.5,
        top_p=0.9,
        top_k=3.0,
        max_output_tokens=7,
        stop_sequences=["x"],
        service_tier="priority",
    )
    assert found == {
        "model": "m",
        "max_tokens": 7,
        "messages": [said("user", text("go"))],
        "system": [text("be"), text("brief")],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "stop_sequences": ["x"],
        "service_tier": "auto",
    }


async def test_a_request_without_a_limit_gets_the_one_of_the_adapter(server: WireServer) -> None:
    assert (await body_of(server, ask(), max_tokens=99))["max_tokens"] == 99


async def test_streams_are_asked_for(server: WireServer) -> None:
    server.replies.append(ANSWER)
    llm = AnthropicModel(model="m", base_url=server.url, retry_options={"attempts": 1})
    with pytest.raises(Exception, match="stream"):
        await sent(llm, server, ask(), stream=True)
    assert server.requests[0].json["stream"] is True
    assert server.requests[0].path == "/v1/messages"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"candidate_count": 2}, "config.candidate_count"),
        ({"response_logprobs": True}, "config.response_logprobs"),
        ({"response_modalities": ["AUDIO"]}, "config.response_modalities"),
        ({"response_mime_type": "application/json"}, "config.response_mime_type"),
        ({"response_mime_type": "text/x.enum"}, "config.response_mime_type"),
        ({"cached_content": "c"}, "config.cached_content"),
        ({"temperature": 1.5}, "config.temperature"),
        ({"tools": [types.Tool(google_maps=types.GoogleMaps())]}, "config.tools[0].google_maps"),
        ({"response_json_schema": {"minimum": 1}}, "config.response_schema"),
    ],
)
async def test_settings_that_the_api_does_not_have_are_refused(
    server: WireServer, config: dict[str, Any], field: str
) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        await body(server, **config)
    assert raised.value.field == field


async def test_settings_that_do_no_harm_are_left_out(server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "flowloom"):
        found = await body(server, seed=1, presence_penalty=0.1, labels={"a": "b"}, service_tier="flex")
    assert found.keys() == {"model", "max_tokens", "messages"}
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [
        "config.presence_penalty",
        "config.seed",
        "config.labels",
        "config.service_tier",
    ]


class Answer(BaseModel):
    n: int


async def test_a_schema_is_enforced(server: WireServer) -> None:
    found = await body(server, response_schema=Answer, response_mime_type="application/json")
    assert found["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "title": "Answer",
            "type": "object",
            "properties": {"n": {"title": "N", "type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        },
    }


# -- tools -----------------------------------------------------------------------------------------


async def test_functions_are_tools(server: WireServer) -> None:
    tools = (await body(server, tools=TOOLS))["tools"]
    assert tools[0] == {
        "name": "f",
        "description": "does f",
        "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
    }
    assert tools[1]["input_schema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("config", "choice", "names"),
    [
        (None, None, "fgh"),
        (mode("AUTO"), {"type": "auto"}, "fgh"),
        (mode("ANY"), {"type": "any"}, "fgh"),
        (mode("ANY", "f"), {"type": "tool", "name": "f"}, "fgh"),
        (mode("ANY", "f", "h"), {"type": "any"}, "fh"),
        (mode("NONE"), {"type": "none"}, "fgh"),
    ],
)
async def test_which_function_is_called_may_be_chosen(
    server: WireServer, config: types.ToolConfig | None, choice: Any, names: str
) -> None:
    found = await body(server, tools=TOOLS, tool_config=config)
    assert found.get("tool_choice") == choice
    assert "".join(tool["name"] for tool in found["tools"]) == names


async def test_functions_that_were_called_stay_declared(server: WireServer) -> None:
    found = await body(server, model(call("f", "c1"), call("f", "c2")), user(result("f", "c1"), result("f", "c2")))
    assert [tool["name"] for tool in found["tools"]] == ["f"]
    assert found["tool_choice"] == {"type": "none"}


async def test_models_that_cannot_be_made_to_call_say_so(server: WireServer) -> None:
    for name in ("claude-sonnet-5-5", "claude-fable-5"):
        with pytest.raises(UnsupportedFeatureError) as raised:
            await body(server, of=name, tools=TOOLS, tool_config=mode("ANY"))
        assert raised.value.field == "config.tool_config"


# -- the cache -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kept", "mark"), [("5m", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})])
async def test_the_beginning_of_a_conversation_is_marked_for_the_cache(
    server: WireServer, kept: str, mark: dict[str, Any]
) -> None:
    contents = [user("a"), model("b"), user("c"), model(call("f", "c1")), user(result("f", "c1"), "d")]
    found = await body_of(server, ask(*contents, system_instruction=["s", "t"], tools=TOOLS), cache=kept)
    blocks = [*found["tools"], *found["system"], *(block for each in found["messages"] for block in each["content"])]
    marked = [block for block in blocks if "cache_control" in block]
    assert [block.get("text") or block["name"] for block in marked] == ["h", "t", "c", "d"]
    assert all(block["cache_control"] == mark for block in marked)


async def test_the_end_of_one_request_is_marked_in_the_next(server: WireServer) -> None:
    """Where the server put the conversation into its cache is where it is looked for."""
    first = await body_of(server, ask(user("a"), model("b"), user("c")))
    second = await body_of(server, ask(user("a"), model("b"), user("c"), model("d"), user("e")))
    assert first["messages"][2] == second["messages"][2]
    assert "cache_control" in second["messages"][2]["content"][-1]
