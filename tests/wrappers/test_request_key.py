"""What makes two requests the same to a cache, and what different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from kit import named_call, result, said, text, user
from pydantic import BaseModel
from wrapper_kit import ask

from flowloom import FunctionTool, LlmRequest
from flowloom.inspection import RequestView
from flowloom.models.contents import SharedContents
from flowloom.wrappers.request_key import request_key


def key(request: LlmRequest) -> str:
    found = request_key(request, "m")
    assert found is not None
    return found


def add(a: int) -> int:
    """Add."""
    return a


def sub(a: int) -> int:
    """Add."""
    return a


class Answer(BaseModel):
    name: str


class Shapeless:
    """Has no JSON schema."""


def other_answer() -> type[BaseModel]:
    class Answer(BaseModel):
        name: int

    return Answer


def image(data: bytes, mime_type: str = "image/png") -> types.Content:
    return user(types.Part.from_bytes(data=data, mime_type=mime_type))


def of(*contents: types.Content, **config: Any) -> LlmRequest:
    return LlmRequest(contents=list(contents) or [user("Hi")], config=types.GenerateContentConfig(**config))


def with_tools(*functions: Callable[..., Any]) -> LlmRequest:
    request = of()
    request.append_tools([FunctionTool(each) for each in functions])
    return request


def schema(**properties: Any) -> LlmRequest:
    return of(response_schema={"type": "OBJECT", "properties": properties})


def header(value: str) -> LlmRequest:
    return of(http_options=types.HttpOptions(headers={"X-Tenant": value}))


STRING, NUMBER = {"type": "STRING"}, {"type": "NUMBER"}
DIFFERENT = {
    "texts": (of(user("a")), of(user("b"))),
    "characters that look the same": (of(user("\u00e9")), of(user("e\u0301"))),
    "halves of characters": (of(user("\ud800")), of(user("\ud801"))),
    "roles": (of(user("a")), of(said("a"))),
    "thoughts": (of(said(text("a"))), of(said(text("a", thought=True)))),
    "how a text is cut": (of(user("a", "b")), of(user("ab"))),
    "order": (of(user("a"), user("b")), of(user("b"), user("a"))),
    "ids in a text": (
        of(user("What of adk-11111111-1111-4111-8111-111111111111?")),
        of(user("What of adk-22222222-2222-4222-8222-222222222222?")),
    ),
    "ids of the user's": (
        of(said(named_call("c1", "find", id="order-1"))),
        of(said(named_call("c1", "find", id="order-2"))),
    ),
    "bytes": (of(image(b"a")), of(image(b"b"))),
    "kinds of files": (of(image(b"a")), of(image(b"a", "image/jpeg"))),
    "signatures": (of(said(text("a", thought_signature=b"a"))), of(said(text("a", thought_signature=b"b")))),
    "files elsewhere": (
        of(user(types.Part.from_uri(file_uri="gs://a", mime_type="image/png"))),
        of(user(types.Part.from_uri(file_uri="gs://b", mime_type="image/png"))),
    ),
    "arguments": (of(said(named_call("c", "f", a=1))), of(said(named_call("c", "f", a=2)))),
    "true and 1": (of(said(named_call("c", "f", a=True))), of(said(named_call("c", "f", a=1)))),
    "results": (of(user(result("c", "f", {"a": 1}))), of(user(result("c", "f", {"a": "1"})))),
    "which call a result is of": (
        of(said(named_call("x", "f"), named_call("y", "f")), user(result("x", "f", {}))),
        of(said(named_call("x", "f"), named_call("y", "f")), user(result("y", "f", {}))),
    ),
    "temperature": (of(temperature=0.1), of(temperature=0.2)),
    "temperature or none": (of(temperature=0), of()),
    "seed": (of(seed=1), of(seed=2)),
    "system instruction": (of(system_instruction="Be brief."), of(system_instruction="Be kind.")),
    "tools": (with_tools(add), with_tools()),
    "names of tools": (with_tools(add), with_tools(sub)),
    "order of tools": (with_tools(add, sub), with_tools(sub, add)),
    "built-in tools": (of(tools=[types.Tool(google_search=types.GoogleSearch())]), of()),
    "schema": (schema(a=STRING), schema(a=NUMBER)),
    "order in a schema": (schema(a=STRING, b=STRING), schema(b=STRING, a=STRING)),
    "schema classes of one name": (of(response_schema=Answer), of(response_schema=other_answer())),
    "lists of a schema": (of(response_schema=Answer), of(response_schema=list[Answer])),
    "JSON schema": (of(response_json_schema={"type": "string"}), of(response_json_schema={"type": "number"})),
    "stop sequences": (of(stop_sequences=["a"]), of(stop_sequences=["a", "b"])),
    "thinking": (of(thinking_config=types.ThinkingConfig(thinking_budget=0)), of()),
    "safety": (
        of(safety_settings=[types.SafetySetting(category="HARM_CATEGORY_HARASSMENT", threshold="BLOCK_NONE")]),  # type: ignore[arg-type]
        of(safety_settings=[types.SafetySetting(category="HARM_CATEGORY_HARASSMENT", threshold="OFF")]),  # type: ignore[arg-type]
    ),
    "cached content": (of(cached_content="a"), of(cached_content="b")),
    "headers": (header("ann"), header("bob")),
    "more of the body": (of(http_options=types.HttpOptions(extra_body={"top_k": 1})), of()),
    "tier": (LlmRequest(service_tier="flex"), LlmRequest()),
    "earlier interaction": (LlmRequest(previous_interaction_id="a"), LlmRequest(previous_interaction_id="b")),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_a_model_would_be_told_differently_is_different(one: LlmRequest, other: LlmRequest) -> None:
    assert key(one) != key(other)


def test_the_texts_that_go_with_it_are_different() -> None:
    names = [("a",), ("b",), ("a", None), ("a", ""), ("a", "b"), ("ab",), (None, "a")]
    assert len({request_key(ask(), *each) for each in names}) == len(names)


def conversation(call_id: str | None) -> LlmRequest:
    return of(user("Hi"), said(named_call(call_id or "", "f", a=1)), user(result(call_id, "f", {"r": 1})))


SAME = {
    "two that are equal": (of(image(b"a"), temperature=1), of(image(b"a"), temperature=1.0)),
    "other ids of calls": (conversation("adk-1"), conversation("call_9")),
    "the request's model, which the key is given": (LlmRequest(model="a"), LlmRequest(model="b")),
    "tools that are not declared": (of(), LlmRequest(contents=[user("Hi")], tools_dict={"f": object()})),
    "a view of the history": (
        of(user("Hi")),
        LlmRequest.model_construct(contents=SharedContents([user("Hi")]), config=types.GenerateContentConfig()),
    ),
    "equal schema classes": (of(response_schema=Answer), of(response_schema=Answer)),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_a_model_is_told_alike_is_the_same(one: LlmRequest, other: LlmRequest) -> None:
    assert key(one) == key(other)


def test_contents_that_are_shared_are_not_copied() -> None:
    shared = SharedContents([user("Hi")])
    key(LlmRequest.model_construct(contents=shared, config=types.GenerateContentConfig()))
    assert not shared.touched


def shaped(schema: object) -> LlmRequest:
    request = of()
    request.set_output_schema(schema)
    return request


@pytest.mark.parametrize(
    "told",
    [
        of(tools=[add]),
        LlmRequest().model_copy(update={"previous_interaction_id": object()}),
        shaped(Shapeless),
        shaped(Shapeless()),
    ],
    ids=["function", "object", "class", "schema"],
)
def test_what_cannot_be_told_apart_has_no_key(told: LlmRequest) -> None:
    assert request_key(told, "m") is None


def test_a_key_is_a_name_for_a_file_that_tells_nothing() -> None:
    found = key(header("a secret"))
    assert len(found) == 64
    assert set(found) <= set("0123456789abcdef")


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_the_view_of_a_request_tells_apart_the_key_does(one: LlmRequest, other: LlmRequest) -> None:
    """The key is never coarser than `RequestView`."""
    if RequestView(one) != RequestView(other):
        assert key(one) != key(other)
