"""Requests and responses as messages of protobuf and back."""

from __future__ import annotations

import base64
import subprocess
import sys
from typing import Any

import pytest
from generate_content_kit import SAMPLES, along, every_path, request_with
from google.ai import generativelanguage
from google.genai import types
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor as Kind
from hypothesis import given
from hypothesis import strategies as st
from kit import result, said, text, user

from flowloom import InputValidationError, LlmRequest, LlmResponse
from flowloom.errors import ModelResponseError, UnsupportedFeatureError
from flowloom.interop import (
    request_from_proto,
    request_to_json,
    request_to_proto,
    response_from_json,
    response_from_proto,
    response_to_json,
    response_to_proto,
)
from flowloom.testing import call
from flowloom.tools.placeholder import PlaceholderTool

REQUEST = generativelanguage.GenerateContentRequest
RESPONSE = generativelanguage.GenerateContentResponse

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
FREE = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    Kind.CPPTYPE_STRING: TEXTS,
    Kind.CPPTYPE_BOOL: st.booleans(),
    Kind.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    Kind.CPPTYPE_FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Kind.CPPTYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
}
MESSAGES: dict[str, st.SearchStrategy[Any]] = {
    "google.protobuf.Struct": st.dictionaries(TEXTS, FREE, max_size=2),
    "google.protobuf.Value": FREE.filter(lambda value: value is not None),
    "google.protobuf.Duration": st.integers(-(10**12), 10**12).map(lambda nanos: f"{nanos / 10**6:.6f}s"),
    "google.protobuf.Timestamp": st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds") + "Z"),
}


def one_of(field: Any, depth: int) -> st.SearchStrategy[Any] | None:
    """JSON for one value of a field; None for messages that deep."""
    if field.message_type is not None:
        known = MESSAGES.get(field.message_type.full_name)
        return message(field.message_type, depth - 1) if known is None and depth else known
    if field.enum_type is not None:
        return st.sampled_from([value.name for value in field.enum_type.values] + [1000, 1001])
    if field.type == Kind.TYPE_BYTES:
        return st.binary(max_size=4).map(lambda data: base64.b64encode(data).decode())
    return SCALARS[field.cpp_type]


def value_of(field: Any, depth: int) -> st.SearchStrategy[Any] | None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = one_of(field.message_type.fields_by_name["value"], depth)
        return None if inner is None else st.dictionaries(TEXTS, inner, max_size=2)
    one = one_of(field, depth)
    return st.lists(one, max_size=2) if one is not None and field.is_repeated else one


def message(kind: Any, depth: int = 5) -> st.SearchStrategy[dict[str, Any]]:
    """JSON for messages of a kind, with a few of the fields that it has."""
    possible = {field.json_name: value_of(field, depth) for field in kind.fields}
    values = {name: strategy for name, strategy in possible.items() if strategy is not None}
    if not values:
        return st.just({})
    groups = {field.json_name: field.containing_oneof for field in kind.fields}

    def key(name: str) -> str:
        group = groups[name]
        return name if group is None else group.name

    names = st.lists(st.sampled_from(sorted(values)), max_size=3, unique_by=key)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: values[name] for name in chosen}))


def messages(kind: Any) -> st.SearchStrategy[Any]:
    """Messages of a kind."""
    fields = st.deferred(lambda: message(kind.pb(kind()).DESCRIPTOR))
    return fields.map(lambda data: kind.wrap(json_format.ParseDict(data, kind.pb(kind()))))


# -- laws --------------------------------------------------------------------------------------


@given(messages(REQUEST))
def test_a_message_comes_back_from_its_request(given_message: Any) -> None:
    assert request_to_proto(request_from_proto(given_message)) == given_message


@given(messages(RESPONSE))
def test_a_message_comes_back_from_its_response(given_message: Any) -> None:
    assert response_to_proto(response_from_proto(given_message)) == given_message


def test_every_field_alone_comes_back_or_is_refused_by_name() -> None:
    """What the message has a place for is not lost, and what it has none for is not left out in silence."""
    back = 0
    refused: list[tuple[str, Any]] = []
    for path in every_path():
        root = along(path, SAMPLES | {bool: True, int: 7})
        request = request_with(root)
        try:
            if request is not None:
                made = request_to_proto(request)
                assert request_to_json(request_from_proto(made)) == request_to_json(request), path
            else:
                response = response_from_json({}).model_copy(update={"received": root})
                vars(response).update(vars(LlmResponse.create(root)))
                made = response_to_proto(response)
                assert response_from_proto(made).received == root, path
            back += 1
        except UnsupportedFeatureError as error:
            refused.append((error.field, path))
    assert back > 100
    assert len(refused) > 100
    assert [field for field, path in refused if not any(step in field for _, step in path)] == []


# -- requests ----------------------------------------------------------------------------------

HISTORY = [
    user("hi", types.Part(inline_data=types.Blob(data=b"\xfb\xff", mime_type="a/b"))),
    said(call("f", a=1, b=[2.5, None, {"c": 3}]), text("hm", thought=True, thought_signature=b"\xfe\xff")),
    user(result("c1", "f", {"ok": True, "n": 4})),
    user(types.Part(text="v", video_metadata=types.VideoMetadata(start_offset="1.50s", end_offset="3s", fps=2))),
]


def test_a_request_becomes_googles_message() -> None:
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0.7,
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="f")])],
    )
    made = request_to_proto(LlmRequest(model="gemini-x", contents=HISTORY, config=config))
    assert isinstance(made, REQUEST)
    assert made.model == "models/gemini-x"
    assert made.system_instruction.parts[0].text == "Be brief."
    assert made.contents[0].parts[1].inline_data.data == b"\xfb\xff"
    assert made.generation_config.temperature == pytest.approx(0.7)


@pytest.mark.parametrize("form", [lambda made: made, REQUEST.pb])
def test_a_message_is_read_as_proto_plus_and_as_plain_protobuf(form: Any) -> None:
    request = LlmRequest(model="gemini-x", contents=HISTORY, config=types.GenerateContentConfig(temperature=0.7))
    back = request_from_proto(form(request_to_proto(request)))
    assert back.model == "models/gemini-x"
    assert back.contents[:3] == HISTORY[:3]
    assert back.config == request.config
    args = back.contents[1].parts[0].function_call.args  # type: ignore[index, union-attr]
    assert repr(args) in ("{'a': 1, 'b': [2.5, None, {'c': 3}]}", "{'b': [2.5, None, {'c': 3}], 'a': 1}")


def test_an_offset_comes_back_in_its_shortest_form() -> None:
    back = request_from_proto(request_to_proto(LlmRequest(contents=HISTORY)))
    video = back.contents[3].parts[0].video_metadata  # type: ignore[index]
    assert video == types.VideoMetadata(start_offset="1.5s", end_offset="3s", fps=2)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gemini-x", "models/gemini-x"),
        ("tunedModels/t", "tunedModels/t"),
        ("projects/p/locations/l/publishers/google/models/m", "projects/p/locations/l/publishers/google/models/m"),
        (None, ""),
    ],
)
def test_the_models_name_is_part_of_the_message(name: str | None, path: str) -> None:
    """As a resource name; that is what comes back."""
    made = request_to_proto(LlmRequest(model=name))
    assert made.model == path
    assert request_from_proto(made).model == (path or None)


def test_a_model_in_another_form_comes_back_in_it() -> None:
    made = REQUEST(model="gemini-x")
    assert request_from_proto(made).model == "gemini-x"
    assert request_to_proto(request_from_proto(made)) == made


def test_declared_functions_have_placeholders_or_the_tools_that_are_given() -> None:
    declared = types.Tool(function_declarations=[types.FunctionDeclaration(name="f", description="d")])
    made = request_to_proto(LlmRequest(config=types.GenerateContentConfig(tools=[declared])))
    [placeholder] = request_from_proto(made).tools_dict.values()
    assert isinstance(placeholder, PlaceholderTool)

    def f() -> None: ...

    [real] = request_from_proto(made, tools=[f]).tools_dict.values()
    assert real.name == "f"
    assert not isinstance(real, PlaceholderTool)


NO_PLACE: list[tuple[dict[str, Any], str]] = [
    ({"labels": {"a": "b"}}, "config.labels"),
    ({"safety_settings": [types.SafetySetting(method="SEVERITY")]}, "config.safety_settings[0].method"),
    ({"service_tier": "flex"}, "config.service_tier"),
    ({"model_selection_config": {}}, "config.model_selection_config"),
    ({"routing_config": {}}, "config.routing_config"),
    ({"response_modalities": ["TEXT", "SMELL"]}, "config.response_modalities[1]"),
    ({"temperature": 1e60}, "config.temperature"),
    ({"top_k": 2.5}, "config.top_k"),
    ({"seed": 2**31}, "config.seed"),
    ({"tools": [{"retrieval": {}}]}, "config.tools[0].retrieval"),
]


@pytest.mark.parametrize(("settings", "field"), NO_PLACE, ids=[field for _, field in NO_PLACE])
def test_a_setting_without_a_place_is_refused_by_name(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        request_to_proto(LlmRequest(config=types.GenerateContentConfig(**settings)))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (types.Part(tool_call=types.ToolCall()), "tool_call"),
        (types.Part(text="a", file_data=types.FileData()), "text"),
        (types.Part(function_call=types.FunctionCall(args={"Aa": [2**60 + 1]})), "function_call.args.Aa[0]"),
        (types.Part(function_call=types.FunctionCall(args={"a": 10**400})), "function_call.args.a"),
        (types.Part(function_call=types.FunctionCall(will_continue=True)), "function_call.will_continue"),
        (types.Part(video_metadata=types.VideoMetadata(start_offset="soon")), "video_metadata.start_offset"),
    ],
)
def test_a_part_without_a_place_is_refused_by_name(part: types.Part, field: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        request_to_proto(LlmRequest(contents=[user(part)]))
    assert caught.value.field == f"contents[0].parts[0].{field}"


# -- responses ---------------------------------------------------------------------------------


def test_an_answer_is_read_with_numbers_of_enums_that_have_no_name() -> None:
    made = RESPONSE(candidates=[{"content": {"parts": [{"text": "a"}]}, "finish_reason": 77, "token_count": 3}])
    response = response_from_proto(made)
    assert response.text == "a"
    assert response.finish_reason is not None
    assert response.finish_reason.value == "77"
    assert response_to_json(response)["candidates"][0]["finishReason"] == 77
    assert response_to_proto(response) == made


def test_citations_have_the_name_that_the_message_has_for_them() -> None:
    cited = types.CitationMetadata(citations=[types.Citation(uri="u")])
    made = response_to_proto(LlmResponse(content=said("a"), citation_metadata=cited))
    assert made.candidates[0].citation_metadata.citation_sources[0].uri == "u"
    assert response_from_proto(made).citation_metadata == cited


def test_fields_that_google_genai_does_not_have_come_back() -> None:
    made = RESPONSE(candidates=[{"grounding_attributions": [{"source_id": {"grounding_passage": {"part_index": 2}}}]}])
    assert response_to_proto(response_from_proto(made)) == made


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"createTime": "2025-01-31T12:00:00Z"}, "create_time"),
        ({"candidates": [{"finishReason": "NEW"}]}, "candidates[0].finish_reason"),
        ({"candidates": [{"mood": 1}]}, "candidates[0].mood"),
        ({"error": {"status": "NOT_FOUND"}}, "error_code"),
    ],
)
def test_an_answer_without_a_place_is_refused_by_name(body: Any, field: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        response_to_proto(response_from_json(body))
    assert caught.value.field == field


def test_a_message_without_a_json_form_is_refused() -> None:
    """Protobuf holds numbers that JSON does not have."""
    part = {"function_call": {"name": "f", "args": {"a": float("inf")}}}
    with pytest.raises(InputValidationError, match="no JSON form"):
        request_from_proto(REQUEST(contents=[{"parts": [part]}]))
    with pytest.raises(ModelResponseError, match="no JSON form"):
        response_from_proto(RESPONSE(candidates=[{"content": {"parts": [part]}}]))


def test_without_the_extra_the_first_use_says_what_to_install() -> None:
    """A message cannot be made; the function can be imported."""
    script = """
import sys
sys.modules["google.ai"] = sys.modules["google.ai.generativelanguage"] = None
import flowloom, flowloom.errors, flowloom.interop
convert = flowloom.interop.request_to_proto
try:
    convert(flowloom.LlmRequest())
except flowloom.errors.MissingExtraError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 'pip install "flowloom[protobuf]"' in ran.stdout


def test_json_needs_no_protobuf() -> None:
    script = "import sys, flowloom.interop; flowloom.interop.request_to_json; print('google.protobuf' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
