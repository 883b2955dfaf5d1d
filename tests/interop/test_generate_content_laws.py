"""Requests and responses as the JSON of `generateContent` and back: nothing is lost, whatever the types hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from generate_content_kit import (
    ANSWERS,
    CONTENTS,
    JSON,
    REQUESTS,
    ROOTS,
    along,
    every_path,
    fields_of,
    inner_model,
    request_with,
)
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import examples
from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from flowloom import LlmRequest, LlmResponse
from flowloom.interop import request_from_json, request_to_json, response_from_json, response_to_json
from flowloom.interop.generate_content_codec import Codec, codec_of
from flowloom.interop.generate_content_places import BODY, GENERATION_CONFIG, LEFT_OUT
from flowloom.interop.generate_content_responses import OF_CANDIDATE, OF_RESPONSE

UNKNOWN = ("newField", "another")
# What an object of these holds is the user's own: names in it are none of the API's.
FREE = ("args", "response", "partMetadata", "parametersJsonSchema", "responseJsonSchema", "customConfigs", "labels")
FREE += ("properties", "defs", "headers", "additionalProperties", "default", "example")


def travelled(data: dict[str, Any]) -> dict[str, Any]:
    """The data as it comes out at the other end."""
    return json.loads(json.dumps(data))


def without_tools(request: LlmRequest) -> LlmRequest:
    return request.model_copy(update={"tools_dict": {}})


def strewn(data: Any, more: dict[str, Any], places: Callable[[], bool]) -> Any:
    """The data with more fields in objects of the API, here and there."""
    if isinstance(data, list):
        return [strewn(item, more, places) for item in data]
    if not isinstance(data, dict):
        return data
    inner = {key: item if key in FREE else strewn(item, more, places) for key, item in data.items()}
    return {**inner, **more} if places() else inner


# -- requests ----------------------------------------------------------------------------------


@given(REQUESTS)
def test_a_request_comes_back_from_its_json(request: LlmRequest) -> None:
    back = request_from_json(travelled(request_to_json(request)), model=request.model)
    assert without_tools(back) == request


@given(REQUESTS, st.dictionaries(st.sampled_from(UNKNOWN), JSON), st.data())
def test_json_comes_back_from_its_request_with_all_that_is_unknown(
    request: LlmRequest, more: dict[str, Any], data: st.DataObject
) -> None:
    body = strewn(travelled(request_to_json(request)), more, lambda: data.draw(st.booleans()))
    assert request_to_json(request_from_json(body)) == body


@given(CONTENTS)
def test_contents_are_written_as_pydantic_writes_them(contents: list[types.Content]) -> None:
    """An independent writer of the same form says the same."""
    oracle = TypeAdapter(list[types.Content]).dump_python(contents, mode="json", by_alias=True, exclude_none=True)
    assert request_to_json(LlmRequest(contents=contents)).get("contents", []) == oracle


@given(REQUESTS)
def test_a_body_in_snake_case_with_nulls_is_read_as_the_canonical_one(request: LlmRequest) -> None:
    """pydantic's own dump of the types, which has every field, is a legal spelling."""
    config = request.config.model_dump(mode="json", exclude={"system_instruction", *LEFT_OUT})
    body: dict[str, Any] = {name: config.pop(name) for name in BODY if name in config}
    body["contents"] = [content.model_dump(mode="json") for content in request.contents]
    canonical = request_to_json(request_from_json({**body, "generation_config": config}))
    plain = request.config.model_copy(update={"system_instruction": None})
    assert canonical == {"contents": []} | request_to_json(LlmRequest(contents=request.contents, config=plain))


def test_every_field_alone_comes_back() -> None:
    """Each field of each type that a request or an answer can hold, one at a time."""
    count = 0
    for path in every_path():
        root = along(path)
        request = request_with(root)
        if request is not None:
            body = request_to_json(request)
            back = request_from_json(travelled(body))
            assert without_tools(back) == request, path
            assert body, path
        else:
            answer = response_from_json(travelled(written(root)))
            assert answer.received == root, path
            assert written(root), path
        count += 1
    assert count > 400


# -- responses ---------------------------------------------------------------------------------


def written(answer: types.GenerateContentResponse) -> dict[str, Any]:
    """An answer as the service writes it."""
    response = response_from_json({})
    response.received = answer
    for name, value in vars(LlmResponse.create(answer)).items():
        setattr(response, name, value)
    return response_to_json(response)


@given(ANSWERS)
def test_an_answer_comes_back_from_its_json(answer: types.GenerateContentResponse) -> None:
    body = written(answer)
    back = response_from_json(travelled(body))
    assert back.received == answer
    assert back == LlmResponse.create(answer)


@given(ANSWERS, st.dictionaries(st.sampled_from(UNKNOWN), JSON), st.data())
def test_json_comes_back_from_its_response_with_all_that_is_unknown(
    answer: types.GenerateContentResponse, more: dict[str, Any], data: st.DataObject
) -> None:
    body = strewn(travelled(written(answer)), more, lambda: data.draw(st.booleans()))
    assert response_to_json(response_from_json(body)) == body


@given(ANSWERS.map(LlmResponse.create))
def test_a_response_of_any_model_comes_back_with_what_an_answer_has_a_place_for(response: LlmResponse) -> None:
    """What comes back is written in the same way again."""
    body = response_to_json(response)
    assert response_to_json(response_from_json(travelled(body))) == body


@given(ANSWERS)
@settings(max_examples=examples(50))
def test_an_answer_in_snake_case_with_nulls_is_read_as_the_canonical_one(answer: types.GenerateContentResponse) -> None:
    body = answer.model_dump(mode="json", exclude={"sdk_http_response", "parsed", "automatic_function_calling_history"})
    assert response_to_json(response_from_json(body)) == written(answer)


# -- completeness ------------------------------------------------------------------------------


def test_every_setting_has_a_place() -> None:
    """A setting that a new release of google-genai adds is to be put into the table of places."""
    assert {*BODY, *GENERATION_CONFIG, *LEFT_OUT} == set(types.GenerateContentConfig.model_fields)


def test_every_field_of_a_request_is_written_or_known_to_be_left_out() -> None:
    elsewhere = {
        "live_connect_config",
        "tools_dict",
        "cache_config",
        "cache_metadata",
        "cacheable_contents_token_count",
        "previous_interaction_id",
        "server_tools",
        "dynamic_instructions",
    }
    assert {"model", "contents", "config", "service_tier"} | elsewhere == set(LlmRequest.model_fields)


def test_every_field_of_a_response_is_written_or_known_to_be_left_out() -> None:
    elsewhere = {
        *("partial", "turn_complete", "turn_complete_reason", "interaction_status", "interrupted", "custom_metadata"),
        *("live_session_resumption_update", "live_session_id", "go_away", "voice_activity", "input_transcription"),
        *("output_transcription", "cache_metadata", "interaction_id", "environment_id", "error"),
    }
    assert {*OF_CANDIDATE, *OF_RESPONSE, "error_code", "error_message"} | elsewhere == set(LlmResponse.model_fields)


def test_no_field_is_read_as_any_json_because_its_type_is_not_understood() -> None:
    """A union or another new kind of type needs a codec of its own."""
    for path in every_path():
        model, name = path[-1]
        kind = fields_of(model)[name]
        assert kind is Any or type(codec_of(kind)) is not Codec, path
        assert inner_model(kind) not in ROOTS[:1], path


def test_every_name_on_the_wire_is_the_camel_case_of_the_field() -> None:
    for path in every_path():
        model, name = path[-1]
        assert model.model_fields[name].alias == to_camel(name), path
