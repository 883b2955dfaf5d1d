"""The JSON of `generateContent`: short forms, spellings, what is unknown, and errors that say where."""

from __future__ import annotations

import functools
from enum import Enum
from typing import Any

import pytest
from google.genai import types
from kit import agent, said, text, user
from pydantic import BaseModel

from flowloom import FunctionTool, InputValidationError, LlmRequest, LlmResponse, explain
from flowloom.errors import DuplicateToolError, UnsupportedFeatureError
from flowloom.interop import request_from_json, request_to_json, response_to_json
from flowloom.models.contents import SharedContents


def body_of(*contents: types.Content, **settings: Any) -> dict[str, Any]:
    return request_to_json(LlmRequest(contents=list(contents), config=types.GenerateContentConfig(**settings)))


def instruction_of(given: Any) -> Any:
    """What comes back for a system instruction."""
    return request_from_json(body_of(system_instruction=given)).config.system_instruction


def part(**fields: Any) -> types.Part:
    """A part as it is read."""
    return request_from_json({"contents": [{"parts": [fields]}]}).contents[0].parts[0]  # type: ignore[index]


# -- the model's name --------------------------------------------------------------------------


def test_the_models_name_is_not_in_the_body_because_it_is_in_the_url() -> None:
    assert "model" not in request_to_json(LlmRequest(model="gemini-x"))
    assert request_from_json({}, model="gemini-x").model == "gemini-x"


def test_a_model_in_the_body_is_read_and_written_back() -> None:
    """Bodies of batches and of token counts have it."""
    body = {"model": "models/gemini-x", "contents": [{"parts": [{"text": "a"}]}]}
    request = request_from_json(body)
    assert request.model == "models/gemini-x"
    assert request_to_json(request) == body


@pytest.mark.parametrize("name", ["gemini-x", "models/gemini-x"])
def test_a_models_name_is_kept_as_it_was_written(name: str) -> None:
    """In the body or beside it, with `models/` in front or without."""
    assert request_from_json({}, model=name).model == name
    assert request_from_json({"model": name}).model == name
    assert request_to_json(request_from_json({"model": name}, model="models/gemini-x"))["model"] == name


def test_a_model_that_was_changed_is_written_as_it_is_now() -> None:
    request = request_from_json({"model": "models/a"}, model="b")
    assert request.model == "b"
    assert request_to_json(request)["model"] == "models/b"


# -- system instructions -----------------------------------------------------------------------


@pytest.mark.parametrize("given", ["Be brief.", "", types.Part(text="Be brief."), ["Be brief."], user("Be brief.")])
def test_one_plain_text_of_the_users_role_is_a_string(given: Any) -> None:
    assert instruction_of(given) == ("Be brief." if given else "")


@pytest.mark.parametrize(
    ("given", "content"),
    [
        (["a", types.Part(text="b")], user("a", "b")),
        (types.Part(text="a", thought=True), user(text("a", thought=True))),
        (types.Part(function_call={"name": "f"}), said(types.Part(function_call={"name": "f"}))),  # type: ignore[arg-type]
        (types.Content(parts=[types.Part(text="a")]), types.Content(parts=[types.Part(text="a")])),
        (types.Content(role="system", parts=[]), types.Content(role="system", parts=[])),
        (types.File(uri="u"), user(types.Part(file_data=types.FileData(file_uri="u")))),
    ],
)
def test_any_other_system_instruction_is_a_content(given: Any, content: types.Content) -> None:
    assert instruction_of(given) == content


@pytest.mark.parametrize("holder", ["content", "part"])
def test_a_system_instruction_with_an_unknown_field_keeps_it(holder: str) -> None:
    content: Any = {"role": "user", "parts": [{"text": "a"}]}
    (content if holder == "content" else content["parts"][0])["new"] = 1
    assert request_to_json(request_from_json({"systemInstruction": content})) == {"systemInstruction": content}


def test_something_else_in_a_system_instruction_is_refused() -> None:
    config = types.GenerateContentConfig()
    config.system_instruction = ["a", 3]  # type: ignore[list-item]
    with pytest.raises(UnsupportedFeatureError, match="a number cannot be part") as caught:
        request_to_json(LlmRequest(config=config))
    assert caught.value.field == "config.system_instruction[1]"


# -- schemas, tools, settings ------------------------------------------------------------------


class City(BaseModel):
    name: str
    size: int | None = None


class Node(BaseModel):
    inner: Node | None = None


def schema_of(given: Any) -> Any:
    config = types.GenerateContentConfig()
    config.response_schema = given
    return request_to_json(LlmRequest(config=config))["generationConfig"]["responseSchema"]


def test_a_class_as_schema_comes_back_as_the_schema_that_describes_it() -> None:
    back = request_from_json({"generationConfig": {"responseSchema": schema_of(City)}}).config.response_schema
    assert isinstance(back, types.Schema)
    assert back.properties is not None
    assert back.properties["size"] == types.Schema(type=types.Type.INTEGER, nullable=True, title="Size")
    assert back.property_ordering == ["name", "size"]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (list[int], {"type": "ARRAY", "items": {"type": "INTEGER"}}),
        (int | None, {"type": "INTEGER", "nullable": True}),
        (Enum("Size", {"S": 1, "L": 2}), {"type": "STRING", "title": "Size", "enum": ["1", "2"]}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"type": "string", "uniqueItems": True}, {"type": "STRING", "uniqueItems": True}),
        (types.Schema(type=types.Type.STRING), {"type": "STRING"}),
    ],
)
def test_a_type_or_a_json_schema_is_written_in_geminis_dialect(given: Any, written: Any) -> None:
    assert schema_of(given) == written


def test_a_class_within_itself_ends_in_a_schema_that_allows_anything() -> None:
    assert schema_of(Node)["properties"]["inner"] == {"nullable": True}


def test_definitions_stand_in_their_places() -> None:
    city = schema_of(City)
    assert schema_of(list[City]) == {"type": "ARRAY", "items": city}
    assert schema_of(City | int) == {"anyOf": [city, {"type": "INTEGER"}]}
    values = request_from_json({"generationConfig": {"responseSchema": city}}).config.response_schema
    assert isinstance(values, types.Schema)
    assert schema_of(dict[str, City])["additionalProperties"]["propertyOrdering"] == values.property_ordering


@pytest.mark.parametrize("given", [object(), {"$ref": "#/$defs/No"}])
def test_a_schema_that_cannot_be_described_is_refused(given: Any) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        schema_of(given)
    assert caught.value.field == "config.response_schema"


def test_a_function_among_the_tools_is_refused_by_its_place() -> None:
    def search(query: str) -> str:
        return query

    with pytest.raises(UnsupportedFeatureError, match="`search` is no declaration") as caught:
        body_of(tools=[types.Tool(google_search=types.GoogleSearch()), search])
    assert caught.value.field == "config.tools[1]"


def test_a_declaration_among_the_tools_is_a_tool_of_its_own() -> None:
    config = types.GenerateContentConfig()
    config.tools = [types.FunctionDeclaration(name="f")]  # type: ignore[list-item]
    assert request_to_json(LlmRequest(config=config))["tools"] == [{"functionDeclarations": [{"name": "f"}]}]


def test_settings_that_are_the_clients_own_are_left_out() -> None:
    options = types.HttpOptions(headers={"secret": "1"}, extra_body={"a": 1})
    calling = types.AutomaticFunctionCallingConfig(disable=True)
    settings = {"http_options": options, "automatic_function_calling": calling, "automatic_continuation": True}
    assert body_of(should_return_http_response=True, **settings) == {}


def test_the_requests_own_service_tier_is_written_if_the_config_has_none() -> None:
    request = LlmRequest(service_tier="FLEX")
    assert request_to_json(request) == {"serviceTier": "flex"}
    request.config.service_tier = types.ServiceTier.STANDARD
    assert request_to_json(request) == {"serviceTier": "standard"}


def test_settings_given_as_data_are_written_like_the_types() -> None:
    config = types.GenerateContentConfig()
    config.tool_config = {"function_calling_config": {"mode": "any"}}  # type: ignore[assignment]
    assert request_to_json(LlmRequest(config=config)) == {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}


def test_a_history_that_is_shared_is_only_read() -> None:
    """A flow's contents belong to the session, and looking at them would copy them."""
    request = LlmRequest()
    request.contents = SharedContents([user("hi")])
    assert request_to_json(request) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    assert not request.contents.touched


async def test_the_request_of_an_agent_comes_back() -> None:
    assembly = await explain(agent(instruction="Be brief.", tools=[f]), "hi")
    body = request_to_json(assembly.request)
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert request_to_json(request_from_json(body)) == body


# -- spellings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["-_-_", "+/+/", "-_8", "+/8=", "-_8="])
def test_bytes_are_read_in_either_alphabet_with_and_without_padding(data: str) -> None:
    found = part(inlineData={"data": data, "mimeType": "a/b"}).inline_data
    assert found is not None
    assert found.data == (b"\xfb\xff\xbf" if len(data.strip("=")) == 4 else b"\xfb\xff")


def test_requests_are_written_in_the_url_safe_alphabet_and_responses_in_the_standard_one() -> None:
    """As google-genai sends them, and as the service does."""
    content = said(text("a", thought_signature=b"\xfb\xff"))
    assert body_of(content)["contents"][0]["parts"][0]["thoughtSignature"] == "-_8="
    written = response_to_json(LlmResponse(content=content))
    assert written["candidates"][0]["content"]["parts"][0]["thoughtSignature"] == "+/8="


@pytest.mark.parametrize("value", ["LANGUAGE_UNSPECIFIED", "language_unspecified"])
def test_enums_are_read_in_any_case(value: str) -> None:
    found = part(executableCode={"language": value}).executable_code
    assert found is not None
    assert found.language is types.Language.LANGUAGE_UNSPECIFIED


@pytest.mark.parametrize("value", ["COBOL", 99])
def test_an_enum_value_that_nobody_knows_is_kept(value: Any) -> None:
    body = {"contents": [{"parts": [{"executableCode": {"language": value}}]}]}
    assert request_to_json(request_from_json(body)) == body


def test_numbers_are_read_from_text() -> None:
    """64-bit integers travel as text, and so does what is no finite number."""
    body = {"generationConfig": {"maxOutputTokens": "12", "temperature": "NaN", "topP": "-Infinity", "topK": 3}}
    config = request_from_json(body).config
    assert (config.max_output_tokens, config.top_k) == (12, 3.0)
    assert request_to_json(request_from_json(body))["generationConfig"] == body["generationConfig"] | {
        "maxOutputTokens": 12
    }


def test_a_null_argument_of_protobufs_json_is_a_null_argument() -> None:
    call = part(functionCall={"partialArgs": [{"jsonPath": "$.a", "nullValue": None}, {"boolValue": True}]})
    assert call.function_call is not None
    first, second = call.function_call.partial_args or []
    assert (first.null_value, second.null_value) == ("NULL_VALUE", None)


def test_the_form_of_a_picture_moves_to_where_the_json_has_it() -> None:
    config = types.ImageConfig(
        output_mime_type="image/png",
        output_compression_quality=3,
        image_output_options=types.ImageConfigImageOutputOptions(compression_quality=5),
    )
    options = {"mimeType": "image/png", "compressionQuality": 5}
    assert body_of(image_config=config)["generationConfig"]["imageConfig"] == {"imageOutputOptions": options}


# -- what is unknown ---------------------------------------------------------------------------


def test_unknown_fields_are_found_on_their_objects_and_go_where_these_go() -> None:
    body = {
        "contents": [{"parts": [{"text": "a", "mood": {"x": None}}], "weight": 2}],
        "tools": [{"newTool": {}}],
        "generationConfig": {"newKnob": 1},
        "trace": "t",
    }
    request = request_from_json(body)
    assert request.model_extra == {"trace": "t"}
    assert request.config.model_extra == {"newKnob": 1}
    assert request.contents[0].parts[0].model_extra == {"mood": {"x": None}}  # type: ignore[index]
    request.contents.insert(0, user("before"))
    moved = request_to_json(request.model_copy(deep=True))
    assert moved == body | {"contents": [{"parts": [{"text": "before"}], "role": "user"}, *body["contents"]]}  # type: ignore[misc]


def test_the_json_that_was_read_is_not_shared() -> None:
    body = {"contents": [{"parts": [{"functionCall": {"args": {"a": [1]}}}]}], "more": {"b": [1]}}
    request = request_from_json(body)
    request.contents[0].parts[0].function_call.args["a"].append(2)  # type: ignore[index, union-attr]
    assert request.model_extra is not None
    request.model_extra["more"]["b"].append(2)
    assert body == {"contents": [{"parts": [{"functionCall": {"args": {"a": [1]}}}]}], "more": {"b": [1]}}


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("{", "it cannot be read as JSON"),
        (b"\xff", "it cannot be read as JSON"),
        ("[" * 100_000, "it cannot be read as JSON"),
        ("[]", "an object is expected, not an array"),
        (functools.reduce(lambda inner, _: {"a": inner}, range(5000), {}), "it is nested too deeply"),
        ({"contents": {}}, "`contents`: an array is expected, not an object"),
        ({"contents": [{"parts": [{"text": 3}]}]}, r"`contents\[0\].parts\[0\].text`: a string is expected, not a num"),
        ({"contents": [{"parts": [{"thought": "x"}]}]}, r"`contents\[0\].parts\[0\].thought`: true or false"),
        ({"contents": [{"parts": ["hi"]}]}, r"`contents\[0\].parts\[0\]`: an object is expected, not a string"),
        ({"contents": [], "contents_": 1, "systemInstruction": 4}, "`systemInstruction`: an object is expected"),
        ({"generationConfig": 3}, "`generationConfig`: an object is expected"),
        ({"generationConfig": {"topK": "a"}}, "`generationConfig.topK`: a number is expected"),
        ({"generationConfig": {"seed": 1.5}}, "`generationConfig.seed`: a whole number is expected"),
        ({"generationConfig": {"seed": True}}, "`generationConfig.seed`: a whole number is expected, not a boolean"),
        ({"generation_config": {}, "generationConfig": {}}, "`generationConfig`: it is there twice"),
        ({"toolConfig": {}, "tool_config": {}}, "`tool_config`: it is there twice, in two spellings"),
        ({"continuationToken": "%"}, "`continuationToken`: this is no base64"),
        ({"continuationToken": "aaaaa"}, "`continuationToken`: this is no base64"),
        ({"labels": {"a": 1}}, "`labels.a`: a string is expected"),
        (
            {"safetySettings": [{"category": {}}]},
            r"`safetySettings\[0\].category`: a string is expected, not an object",
        ),
        ({"tools": {}}, "`tools`: an array is expected"),
    ],
)
def test_what_is_no_body_is_refused_with_the_place(body: Any, problem: str) -> None:
    with pytest.raises(InputValidationError, match=problem):
        request_from_json(body)


@pytest.mark.parametrize(
    ("args", "place"),
    [({"a": [{1, 2}]}, "a[0]"), ({"a": float("inf")}, "a"), ({"a": {1: 2}}, "a"), ({"a": object()}, "a")],
)
def test_what_json_does_not_have_is_refused_with_the_place(args: Any, place: str) -> None:
    called = types.Part(function_call=types.FunctionCall(name="f", args=args))
    with pytest.raises(UnsupportedFeatureError) as caught:
        body_of(user("a"), said("b", called))
    assert caught.value.field == f"contents[1].parts[1].function_call.args.{place}"


def test_a_request_that_holds_itself_is_refused() -> None:
    args: dict[str, Any] = {}
    args["a"] = args
    with pytest.raises(UnsupportedFeatureError, match="it is nested too deeply"):
        body_of(said(types.Part(function_call=types.FunctionCall.model_construct(args=args))))


# -- tools -------------------------------------------------------------------------------------

DECLARED = {"tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}, {"googleSearch": {}}]}


def f() -> str:
    """Real."""
    return "f"


def test_real_tools_are_used_for_the_functions_that_are_declared() -> None:
    request = request_from_json(DECLARED, tools=[f, FunctionTool(f, name="unused")])
    assert sorted(request.tools_dict) == ["f", "g"]
    assert isinstance(request.tools_dict["f"], FunctionTool)
    assert request_to_json(request) == DECLARED


def test_two_real_tools_of_one_name_are_refused() -> None:
    with pytest.raises(DuplicateToolError):
        request_from_json(DECLARED, tools=[f, f])
