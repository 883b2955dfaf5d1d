"""The JSON of an answer of `generateContent`: what becomes the response, what is kept beside it, and errors."""

from __future__ import annotations

import functools
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from google.genai import types
from kit import Chat, said

from flowloom import BaseLlm, Event, LlmAgent, LlmRequest, LlmResponse
from flowloom.errors import ModelResponseError, UnsupportedFeatureError
from flowloom.interop import response_from_json, response_to_json
from flowloom.interop.generate_content import WireResponse


def answer(**fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": "hi"}], "role": "model"}, "finishReason": "STOP", **fields}]}


# -- answers -----------------------------------------------------------------------------------


def test_an_answer_becomes_the_response_that_create_makes_and_keeps_the_rest() -> None:
    body = answer(index=0, safetyRatings=[{"category": "NEW", "probability": "LOW"}], tokenCount=3)
    body["candidates"].append({"index": 1})
    body |= {"responseId": "r", "modelVersion": "v", "usageMetadata": {"totalTokenCount": 5, "new": 1}}
    response = response_from_json(json.dumps(body))
    assert response == LlmResponse.create(response.received)
    assert (response.text, response.model_version, response.received.response_id) == ("hi", "v", "r")
    assert response_to_json(response) == body


def test_what_was_changed_since_is_written_and_the_rest_stays() -> None:
    body = answer(index=0) | {"responseId": "r"}
    response = response_from_json(body)
    response.content = said("ho")
    response.model_version = "v"
    changed = answer(index=0, content={"parts": [{"text": "ho"}], "role": "model"})
    assert response_to_json(response) == changed | {"responseId": "r", "modelVersion": "v"}
    assert response_to_json(response_from_json(body)) == body


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"candidates": [{"finishReason": "SAFETY", "finishMessage": "no"}]}, "SAFETY", "no"),
        ({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "no"}}, "OTHER", "no"),
        ({"promptFeedback": {"blockReason": "OTHER"}}, "OTHER", "The provider blocked the prompt."),
        ({"error": {"status": "NOT_FOUND", "message": "no", "code": 404, "details": []}}, "NOT_FOUND", "no"),
        ({"error": {"code": 404}}, "404", None),
        ({}, None, None),
        ({"candidates": []}, None, None),
        ({"candidates": [{}]}, None, None),
    ],
)
def test_an_answer_without_content_comes_back_as_it_was(body: Any, code: str | None, message: str | None) -> None:
    response = response_from_json(body)
    assert (response.error_code, response.error_message) == (code, message)
    assert response_to_json(response) == body


@pytest.mark.parametrize(
    ("response", "body"),
    [
        (
            LlmResponse(error_code="SAFETY", error_message="no", finish_reason=types.FinishReason.SAFETY),
            {"candidates": [{"finishReason": "SAFETY", "finishMessage": "no"}]},
        ),
        (
            LlmResponse(error_code="BLOCKLIST", error_message="no"),
            {"promptFeedback": {"blockReason": "BLOCKLIST", "blockReasonMessage": "no"}},
        ),
        (
            LlmResponse(error_code="RESOURCE_EXHAUSTED", error_message="no"),
            {"error": {"status": "RESOURCE_EXHAUSTED", "message": "no"}},
        ),
    ],
)
def test_an_error_is_written_where_such_an_answer_has_it(response: LlmResponse, body: Any) -> None:
    assert response_to_json(response) == body
    assert response_from_json(body) == response


def test_a_reported_error_that_was_changed_keeps_its_details() -> None:
    response = response_from_json({"error": {"status": "A", "code": 1}, "more": 2})
    response.error_code = "B"
    assert response_to_json(response) == {"error": {"status": "B", "code": 1}, "more": 2}


def test_an_error_beside_an_answer_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        response_to_json(LlmResponse(content=said("a"), error_code="BROKEN"))
    assert caught.value.field == "error_code"


def test_a_response_of_the_flow_loses_what_is_the_flows_own() -> None:
    response = LlmResponse(content=said("a"), partial=True, turn_complete=True, custom_metadata={"a": 1})
    assert response_to_json(response) == {"candidates": [{"content": {"parts": [{"text": "a"}], "role": "model"}}]}


def test_responses_that_were_read_are_equal_if_all_that_came_is() -> None:
    one, other = response_from_json(answer(index=0)), response_from_json(answer(index=1))
    plain = LlmResponse(content=said("hi"), finish_reason=types.FinishReason.STOP)
    assert one == response_from_json(answer(index=0))
    assert one != other
    assert (one == plain, plain == other, one == "hi") == (True, True, False)
    assert one != LlmResponse(content=said("ho"))


class Replay(BaseLlm):
    """Gives one recorded answer."""

    recorded: WireResponse

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        yield self.recorded


async def test_a_recorded_answer_can_be_a_models_and_leaves_no_trace_in_the_event() -> None:
    recorded = response_from_json(answer(index=0) | {"responseId": "r"})
    [event] = await Chat(LlmAgent(name="root", model=Replay(model="m", recorded=recorded))).say("hi")
    assert type(event) is Event
    assert event.text == "hi"
    assert "received" not in event.to_wire()
    assert "responseId" not in json.dumps(event.to_wire())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "it cannot be read as JSON"),
        (functools.reduce(lambda inner, _: {"a": inner}, range(5000), {}), "it is nested too deeply"),
        ([], "an object is expected, not an array"),
        ({"candidates": [{"content": {"parts": 1}}]}, r"`candidates\[0\].content.parts`: an array is expected"),
        ({"createTime": "yesterday"}, "`createTime`: a time such as"),
        ({"usageMetadata": {"totalTokenCount": []}}, "`usageMetadata.totalTokenCount`: a whole number is expected"),
        ({"error": "no"}, "`error`: an object is expected"),
        (answer(citationMetadata={"citations": [], "citationSources": []}), "it is there twice"),
    ],
)
def test_what_is_no_answer_is_refused_with_the_place(body: Any, problem: str) -> None:
    with pytest.raises(ModelResponseError, match=problem):
        response_from_json(body)


def test_a_response_that_json_does_not_have_is_refused_with_the_place() -> None:
    called = types.Part(function_call=types.FunctionCall(name="f", args={"a": {1}}))
    with pytest.raises(UnsupportedFeatureError) as caught:
        response_to_json(LlmResponse(content=said(called)))
    assert caught.value.field == "candidates[0].content.parts[0].function_call.args.a"


@pytest.mark.parametrize("name", ["citationSources", "citations"])
def test_citations_keep_the_name_that_their_api_has_for_them(name: str) -> None:
    body = answer(citationMetadata={name: [{"uri": "u"}]})
    response = response_from_json(body)
    assert response.citation_metadata == types.CitationMetadata(citations=[types.Citation(uri="u")])
    assert response_to_json(response) == body


def test_times_are_written_in_utc() -> None:
    body = answer() | {"createTime": "2025-01-31T13:00:00.5+01:00"}
    response = response_from_json(body)
    assert response.received.create_time == datetime(2025, 1, 31, 12, 0, 0, 500000, UTC)
    assert response_to_json(response)["createTime"] == "2025-01-31T12:00:00.500Z"
