"""Forms for the arguments of tools."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from google.genai import types

from flowloom import FunctionTool, LlmRequest
from flowloom.human import FormField, ToolForm, UnfitAnswerError
from human.person import add, waiting_for


def declared(parameters: Any = None, **fields: Any) -> LlmRequest:
    """A request with one function, described in a schema of either kind."""
    given = {"parameters" if isinstance(parameters, types.Schema) else "parameters_json_schema": parameters}
    function = types.FunctionDeclaration(name="book", description="Book a room.", **given)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[function])], **fields)
    return LlmRequest(config=config)


async def form_of(parameters: Any) -> ToolForm:
    [form] = (await waiting_for(declared(parameters))).tools
    return form


async def field_of(schema: Any) -> FormField:
    [field] = (await form_of({"type": "object", "properties": {"value": schema}})).fields
    return field


async def test_a_form_has_a_field_for_each_parameter() -> None:
    request = LlmRequest()
    request.append_tools([FunctionTool(add)])
    [form] = (await waiting_for(request)).tools
    assert (form.name, form.description) == ("add", "Add two numbers.")
    a, b = form.fields
    assert (a.name, a.type, a.required, a.description, a.enum, a.default) == (
        "a",
        "integer",
        True,
        "The first one.",
        [],
        None,
    )
    assert (b.name, b.required, b.default) == ("b", False, 1)


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [True, {"type": "null"}]},
        {"anyOf": None},
        {"anyOf": {"type": "string"}},
        {"enum": 5},
        {"enum": "abc"},
        {"type": 5},
        {"type": [5, None]},
        {"$ref": "#/$defs/Any"},
        {"$ref": "#/$defs/Missing"},
        {"$ref": 5},
        True,
        None,
    ],
    ids=str,
)
async def test_a_schema_of_any_form_makes_a_field_that_takes_text(schema: Any) -> None:
    """A boolean is a schema, too; one that is none cannot be checked here, and the tool looks at it again."""
    [form] = (await waiting_for(declared({"properties": {"value": schema}, "$defs": {"Any": True}}))).tools
    assert form.fields[0].enum == []
    assert form.fields[0].read("hello") == "hello"
    form.check({"value": "hello"})


async def test_a_text_that_is_nested_too_deeply_for_json_is_a_text() -> None:
    text = "[" * 100_000
    assert (await field_of({"type": "string"})).read(text) == text
    with pytest.raises(UnfitAnswerError, match="`value` cannot be that"):
        (await field_of({"type": "integer"})).read(text)


async def test_a_schema_of_geminis_kind_makes_the_same_form() -> None:
    gemini = types.Schema(
        type=types.Type.OBJECT,
        properties={
            "room": types.Schema(type=types.Type.STRING, enum=["sea", "yard"], default="sea", description="Where to."),
            "nights": types.Schema(type=types.Type.INTEGER, nullable=True),
        },
        required=["room"],
    )
    room, nights = (await form_of(gemini)).fields
    assert (room.type, room.required, room.description) == ('"sea" | "yard"', True, "Where to.")
    assert (room.enum, room.default) == (["sea", "yard"], "sea")
    assert nights.read("2") == 2
    assert nights.read("null") is None


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["a", "b"]},
        {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
        {"$ref": "#/$defs/Letter"},
        {"anyOf": [{"$ref": "#/$defs/Letter"}, {"type": "null"}]},
    ],
)
async def test_the_values_to_choose_from_are_found_behind_references_and_null(schema: Any) -> None:
    definitions = {"Letter": {"type": "string", "enum": ["a", "b"]}}
    [field] = (await form_of({"type": "object", "properties": {"x": schema}, "$defs": definitions})).fields
    assert field.enum == ["a", "b"]
    assert field.read("b") == "b"
    with pytest.raises(UnfitAnswerError):
        field.read("c")


async def test_a_function_without_parameters_has_no_fields_and_takes_no_arguments() -> None:
    form = await form_of(None)
    assert form.fields == []
    form.check({})
    with pytest.raises(UnfitAnswerError, match="not allowed"):
        form.check({"x": 1})


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "Rome", "Rome"),
        ({"type": "string"}, "5", "5"),
        ({"type": "string"}, '"a\\nb"', "a\nb"),
        ({"type": "string"}, '"no end', '"no end'),
        ({"type": "integer"}, "5", 5),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "array", "items": {"type": "string"}}, '["a", "b"]', ["a", "b"]),
        ({"type": "object", "properties": {"x": {"type": "integer"}}}, '{"x": 1}', {"x": 1}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "5", 5),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"enum": [1, 2]}, "2", 2),
        ({}, "Rome", "Rome"),
        ({}, "[1]", [1]),
        (True, "[1]", [1]),
    ],
)
async def test_typed_text_becomes_a_value_of_the_type(schema: Any, text: str, value: Any) -> None:
    read = (await field_of(schema)).read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "text", "field"),
    [
        ({"type": "integer"}, "five", "value"),
        ({"type": "integer"}, "1.5", "value"),
        ({"type": "number"}, "NaN", "value"),
        ({"type": "integer"}, '"5"', "value"),
        ({"type": "boolean"}, "maybe", "value"),
        ({"type": "string", "maxLength": 2}, "Rome", "value"),
        ({"type": "array", "items": {"type": "integer"}}, '[1, "a"]', "value[1]"),
        ({"type": "object", "properties": {"x": {"type": "integer"}}}, '{"x": "a"}', "value.x"),
    ],
)
async def test_text_that_does_not_fit_is_refused_with_its_place(schema: Any, text: str, field: str) -> None:
    with pytest.raises(UnfitAnswerError) as caught:
        (await field_of(schema)).read(text)
    assert caught.value.field == field


async def test_a_schema_that_cannot_be_checked_lets_everything_pass() -> None:
    """The tool looks at its arguments again."""
    form = await form_of({"type": "object", "properties": {"x": {"type": "colour"}}})
    form.check({"x": "red"})
    assert form.fields[0].read("red") == "red"


async def test_only_tools_that_may_be_called_have_forms() -> None:
    def config(mode: Literal["ANY", "NONE"], *names: str) -> types.ToolConfig:
        calling = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode(mode))
        calling.allowed_function_names = list(names) or None
        return types.ToolConfig(function_calling_config=calling)

    async def names(tool_config: types.ToolConfig) -> list[str]:
        return [form.name for form in (await waiting_for(declared(tool_config=tool_config))).tools]

    assert await names(config("NONE")) == []
    assert await names(config("ANY")) == ["book"]
    assert await names(config("ANY", "other")) == []


async def test_a_form_is_data_for_a_page() -> None:
    form = await form_of({"type": "object", "properties": {"room": {"type": "string", "default": "sea"}}})
    data = json.loads(json.dumps(form.to_dict()))
    assert (data["name"], data["description"]) == ("book", "Book a room.")
    assert data["fields"] == [
        {
            "name": "room",
            "type": "string",
            "required": False,
            "description": "",
            "enum": [],
            "default": "sea",
            "schema": {"type": "string", "default": "sea"},
        }
    ]


async def test_a_declaration_that_refers_back_to_itself_gives_a_form() -> None:
    """What cannot be followed has no choices, and is not checked: the tool looks at it again."""
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}},
    }
    form = await form_of(schema)
    assert form.fields[0].enum == []
    form.check({"x": "anything"})
