"""The loopback servers refuse what the providers refuse, in their words, and take what they take."""

from __future__ import annotations

import base64
from typing import Any

import anthropic
import openai
import pytest
from models.answer_server import SIGNED
from models.gemini_wire import contents_problem
from providers.anthropic_wire import OWN_SIGNATURE, MessagesServer, messages_problem
from providers.openai_wire import ChatServer, chat_problem
from providers.responses_wire import responses_problem

from flowloom.testing.suites.model_answers import TEXT

Json = dict[str, Any]
FOREIGN = base64.b64encode(b"somebody else's").decode()
OWN = base64.b64encode(SIGNED + b" mine").decode()


def refused(problem: str | None) -> str:
    assert problem is not None, "this is not refused"
    return problem


def user(content: Any = "go") -> Json:
    return {"role": "user", "content": content}


# -- chat completions ------------------------------------------------------------------------------


def function(name: str = "weather") -> Json:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


def calls(*ids: str, name: str = "weather") -> Json:
    made = [{"id": each, "type": "function", "function": {"name": name, "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def tool(call_id: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": "sunny"}


def chat(*messages: Json, **fields: Any) -> Json:
    return {"model": "gpt-5", "messages": list(messages) or [user()], **fields}


STRICT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def schema(schema: Json, name: str = "answer", *, strict: bool = True) -> Json:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": strict}}


@pytest.mark.parametrize(
    "body",
    [
        chat(),
        chat({"role": "system", "content": "s"}, user([{"type": "text", "text": "go"}])),
        chat(user(), calls("a", "b"), tool("b"), tool("a"), user(), tools=[function()], tool_choice="required"),
        chat(user(), user(), {"role": "assistant", "content": ""}, {"role": "assistant", "content": "x"}),
        chat(user(), calls("a"), tool("a"), calls("a"), tool("a")),
        chat(stop=["a"] * 4, n=2, seed=1, logprobs=True, top_logprobs=2, response_format=schema(STRICT)),
        chat(stream=True, stream_options={"include_usage": True}, temperature=1),
        chat(user("as JSON"), response_format={"type": "json_object"}),
    ],
)
def test_chat_completions_takes(body: Json) -> None:
    assert chat_problem(body) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"model": "gpt-5"}, "messages: Field required"),
        (chat(top_k=3), "top_k: Extra inputs"),
        (chat(user([{"type": "text", "text": "go", "cache_control": {}}])), "cache_control"),
        (chat(user([{"type": "picture", "url": "x"}])), "required"),
        (chat(temperature="hot"), "temperature"),
        (chat(user([])), "empty array"),
        (chat(tool("a")), "must be a response to a preceding message"),
        (chat(calls("a"), user()), "did not have response messages: a"),
        (chat(user(), calls("a", "b"), tool("a")), "did not have response messages: b"),
        (chat(user(), calls("a"), tool("b"), user()), "must be a response to a preceding message"),
        (chat(user(), calls("a" * 41), tool("a" * 41)), "maximum length 40"),
        (chat(user(), calls("a", "a"), tool("a"), tool("a")), "Duplicate"),
        (chat(user(), calls("a", name="no name"), tool("a")), "does not match pattern"),
        (chat(user(), {"role": "assistant", "content": None}), "got null"),
        (chat(tools=[function("no name")]), "does not match pattern"),
        (chat(tools=[function(), function()]), "unique"),
        (chat(tools=[]), "empty array"),
        (chat(tool_choice="auto"), "only allowed when 'tools'"),
        (chat(tools=[function()], tool_choice={"type": "function", "function": {"name": "b"}}), "not found"),
        (chat(stop=["a"] * 5), "maximum length 4"),
        (chat(top_logprobs=2), "top_logprobs"),
        (chat(stream_options={"include_usage": True}), "stream"),
        (chat(response_format={"type": "json_object"}), "json"),
        (chat(response_format=schema(STRICT, "no name")), "name"),
        (chat(response_format=schema({**STRICT, "required": []})), "required"),
        (chat(response_format=schema({"type": "object", "properties": {"a": {"type": "object"}}})), "false"),
    ],
)
def test_chat_completions_refuses(body: Json, why: str) -> None:
    assert why in refused(chat_problem(body))


# -- Responses -------------------------------------------------------------------------------------


def item(kind: str, **fields: Any) -> Json:
    return {"type": kind, **fields}


def called(call_id: str, name: str = "weather") -> Json:
    return item("function_call", call_id=call_id, name=name, arguments="{}")


def output(call_id: str) -> Json:
    return item("function_call_output", call_id=call_id, output="sunny")


def reasoning(secret: str | None = OWN, name: str = "rs_1") -> Json:
    return item("reasoning", id=name, summary=[], **({"encrypted_content": secret} if secret else {}))


SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]}
FLAT = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}


def responses(*items: Json, **fields: Any) -> Json:
    return {"model": "gpt-5", "input": list(items) or "go", **fields}


@pytest.mark.parametrize(
    "body",
    [
        responses(),
        responses(user(), SAID, user([{"type": "input_text", "text": "go"}])),
        responses(user(), reasoning(), called("a"), called("b"), output("b"), output("a"), tools=[FLAT]),
        responses(user(), reasoning(), SAID, user(), store=False, include=["reasoning.encrypted_content"]),
        responses(user(), reasoning(None), SAID, user()),
    ],
)
def test_responses_takes(body: Json) -> None:
    assert responses_problem(body) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (responses(messages=[]), "messages: Extra inputs"),
        (responses(user([{"type": "text", "text": "go"}])), "input"),
        (responses(user([])), "empty array"),
        (responses(user(), called("a")), "No tool output found for function call a"),
        (responses(user(), output("a")), "No tool call found"),
        (responses(user(), called("a"), output("a"), output("a")), "No tool call found"),
        (responses(user(), called("a"), called("a"), output("a")), "Duplicate"),
        (responses(user(), called("a" * 65), output("a" * 65)), "maximum length 64"),
        (responses(user(), called("a", "no name"), output("a")), "pattern"),
        (responses(user(), reasoning()), "without its required following item"),
        (responses(user(), reasoning(), user()), "without its required following item"),
        (responses(user(), reasoning(FOREIGN), SAID), "could not be verified"),
        (responses(user(), reasoning(None), SAID, store=False), "not persisted"),
        (responses(user(), reasoning(name="x"), SAID), "begins with 'rs'"),
        (responses(tools=[FLAT, FLAT]), "unique"),
        (responses(user(), text={"format": {"type": "json_object"}}), "json"),
        (responses(text={"format": schema({}, "no name")["json_schema"] | {"type": "json_schema"}}), "name"),
    ],
)
def test_responses_refuses(body: Json, why: str) -> None:
    assert why in refused(responses_problem(body))


# -- Anthropic -------------------------------------------------------------------------------------


def said(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def text(value: str, **fields: Any) -> Json:
    return {"type": "text", "text": value, **fields}


def use(call_id: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "weather", "input": {}}


def done(call_id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "sunny"}


def thinking(signature: str = OWN_SIGNATURE) -> Json:
    return {"type": "thinking", "thinking": "hm", "signature": signature}


TOOL = {"name": "weather", "input_schema": {"type": "object", "properties": {}}}
BUDGET = {"type": "enabled", "budget_tokens": 1024}
MARK = {"cache_control": {"type": "ephemeral"}}


def messages(*given: Json, **fields: Any) -> Json:
    return {"model": "claude-sonnet-5-5", "max_tokens": 2000, "messages": list(given) or [user()], **fields}


@pytest.mark.parametrize(
    "body",
    [
        messages(),
        messages(user(), user([text("a", **MARK)]), said(text("b")), user(), temperature=0.5, top_k=3),
        messages(user(), said(use("a"), use("b")), user([done("b"), done("a"), text("go")]), tools=[TOOL]),
        messages(user(), said(use("a"), use("b")), user([done("b")]), user([done("a")]), tools=[TOOL]),
        messages(user(), said(thinking(), use("a")), user([done("a")]), tools=[TOOL], thinking=BUDGET),
        messages(said(text("How can I help?")), user()),
        messages(user(), said({"type": "redacted_thinking", "data": OWN}, text("a")), user(), thinking=BUDGET),
    ],
)
def test_anthropic_takes(body: Json) -> None:
    assert messages_problem(body) is None


def test_anthropic_asks_for_the_length_of_the_answer() -> None:
    body = messages()
    del body["max_tokens"]
    assert "max_tokens: Field required" in refused(messages_problem(body))


USED = (user(), said(use("a")), user([done("a")]))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (messages(seed=1), "seed: Extra inputs"),
        (messages({"role": "tool", "content": "x"}), "role"),
        (messages(user([{"type": "image_url", "image_url": "x"}])), "required"),
        (messages(user([])), "non-empty content"),
        (messages(user("")), "text content blocks must be non-empty"),
        (messages(user([text(" \n")])), "non-whitespace"),
        (messages(system=[text("")]), "system"),
        (messages(user(), said(text("go on"))), "must end with a user message"),
        (messages(user(), said(use("a")), user(), tools=[TOOL]), "without `tool_result` blocks"),
        (messages(user(), said(use("a")), user([text("go"), done("a")]), tools=[TOOL]), "immediately after"),
        (messages(user([done("a")]), tools=[TOOL]), "unexpected `tool_use_id`"),
        (messages(user(), said(use("a")), user([done("a"), done("a")]), tools=[TOOL]), "single result"),
        (messages(*USED, *USED[1:], tools=[TOOL]), "must be unique"),
        (messages(user(), said(use("a:1")), user([done("a:1")]), tools=[TOOL]), "should match pattern"),
        (messages(*USED), "must define tools"),
        (messages(tool_choice={"type": "auto"}), "while providing tools"),
        (messages(tools=[TOOL, TOOL]), "unique"),
        (messages(tools=[{**TOOL, "name": "no name"}]), "should match pattern"),
        (messages(tools=[{**TOOL, "input_schema": {}}]), "type"),
        (messages(tools=[TOOL], tool_choice={"type": "tool", "name": "b"}), "not found"),
        (messages(user(), said(thinking(FOREIGN), text("a")), user()), "Invalid `signature`"),
        (messages(user([thinking()])), "messages"),
        (messages(user([text("a", **MARK)] * 5)), "maximum of 4"),
        (messages(stop_sequences=["\n"]), "non-whitespace"),
        (messages(temperature=1.5), "range: 0..1"),
        (messages(thinking={**BUDGET, "budget_tokens": 3}), "1024"),
        (messages(thinking={**BUDGET, "budget_tokens": 2000}), "greater than"),
        (messages(thinking=BUDGET, temperature=0.5), "thinking is enabled"),
        (messages(thinking=BUDGET, top_k=5), "thinking is enabled"),
        (messages(*USED, thinking=BUDGET, tools=[TOOL]), "must start with a thinking block"),
        (messages(tools=[TOOL], tool_choice={"type": "any"}, thinking=BUDGET), "forces tool use"),
    ],
)
def test_anthropic_refuses(body: Json, why: str) -> None:
    assert why.lower() in refused(messages_problem(body)).lower()


# -- Gemini ----------------------------------------------------------------------------------------

ASKED = {"role": "user", "parts": [{"text": "go"}]}


def of_model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def of_user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


FUNCTION = {"functionCall": {"name": "weather", "args": {}}}
FUNCTION_RESULT = {"functionResponse": {"name": "weather", "response": {}}}


def test_gemini_takes() -> None:
    assert contents_problem([ASKED, of_model(FUNCTION, FUNCTION), of_user(FUNCTION_RESULT, FUNCTION_RESULT)]) is None


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        ([], "contents is not specified"),
        ([{"role": "user", "parts": []}], "must not be empty"),
        ([{"role": "user", "texts": []}], "Invalid JSON payload"),
        ([ASKED, of_model(FUNCTION)], "function response turn"),
        ([ASKED, of_model(FUNCTION, FUNCTION), of_user(FUNCTION_RESULT)], "number of function response parts"),
        ([of_model({"functionCall": {"name": "a", "willContinue": True}}), of_user(FUNCTION_RESULT)], "willContinue"),
        ([of_model({"text": "a", "thoughtSignature": base64.b64encode(b"openai:x").decode()})], "Corrupted"),
    ],
)
def test_gemini_refuses(contents: list[Json], why: str) -> None:
    assert why in refused(contents_problem(contents))


# -- over the wire ---------------------------------------------------------------------------------


async def test_refusals_are_the_errors_of_the_sdk() -> None:
    with ChatServer([TEXT]) as server, MessagesServer([TEXT]) as other:
        async with openai.AsyncOpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
            with pytest.raises(openai.BadRequestError, match="preceding message") as one:
                await client.chat.completions.create(model="gpt-5", messages=[tool("a")])  # type: ignore[list-item]
        async with anthropic.AsyncAnthropic(api_key="key", base_url=other.url, max_retries=0) as claude:
            with pytest.raises(anthropic.BadRequestError, match="non-empty") as two:
                await claude.messages.create(**messages(user("")))
        assert len(server.answers) == len(other.answers) == 1, "an answer is kept for a request that is taken"
    assert one.value.type == "invalid_request_error"
    assert (two.value.body, two.value.request_id) == (
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "messages: text content blocks must be non-empty"},
            "request_id": "req_1",
        },
        "req_1",
    )


async def test_a_wrong_path_and_no_key_are_refused() -> None:
    with ChatServer([TEXT]) as server:
        async with openai.AsyncOpenAI(api_key="key", base_url=f"{server.url}/v2", max_retries=0) as client:
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(model="gpt-5", messages=[user()])  # type: ignore[list-item]
        async with openai.AsyncOpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.chat.completions.create(
                    model="gpt-5",
                    messages=[user()],  # type: ignore[list-item]
                    extra_headers={"authorization": openai.Omit()},  # type: ignore[dict-item]
                )
