"""Structured output: schemas as data, and the tool by which a model delivers it (spec §10)."""

from __future__ import annotations

import json
from typing import Any, cast

from google.genai import types
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from flowloom.context import Context
from flowloom.errors import ConfigurationError, ToolArgumentsError
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.json_schema import validator_of
from flowloom.tools.validation import read_again

SET_MODEL_RESPONSE = "set_model_response"
WRAPPER_KEY = "result"
"""The argument that carries an output that is not an object."""


class OutputSchema:
    """An agent's output schema, given as a pydantic model, any type pydantic knows, a JSON schema, or a `Schema`.

    `json_schema` is the schema as a dict; `validate` checks data and returns it as plain JSON data.
    Raises `ConfigurationError` for what is none of these.
    """

    def __init__(self, schema: Any) -> None:
        self.source = schema
        self._validator: TypeAdapter[Any] | SchemaValidator
        try:
            if isinstance(schema, types.Schema):
                schema = schema.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
            if isinstance(schema, dict):
                self.json_schema = cast(dict[str, Any], schema)
                self._validator = validator_of(self.json_schema)
            else:
                self._validator = TypeAdapter[Any](schema)
                self.json_schema = self._validator.json_schema()
        except Exception as error:
            raise ConfigurationError(
                f"The output schema {schema!r} cannot be described as JSON schema: {error}. Use a pydantic model, "
                f"a type that pydantic knows, a JSON schema dict or a `types.Schema`."
            ) from error

    @property
    def is_object(self) -> bool:
        """Whether the output is a JSON object, and so can be a tool's arguments as it is."""
        return str(self.json_schema.get("type", "")).lower() == "object" or "properties" in self.json_schema

    def validate(self, data: Any) -> Any:
        """`data` as plain JSON data of this schema. Raises `ToolArgumentsError` that says what does not fit."""
        validator = self._validator
        try:
            value = validator.validate_python(data)
        except ValidationError as error:
            value = read_again(validator, data, error, "The output does not fit its schema:")
        if isinstance(validator, SchemaValidator):
            return data
        return validator.dump_python(value, mode="json", exclude_none=True)

    def parse(self, text: str) -> Any:
        """JSON text as data of this schema. Raises `ToolArgumentsError`."""
        try:
            data = json.loads(_unfenced(text))
        except ValueError as error:
            raise ToolArgumentsError(f"The output is not JSON: {error}.") from error
        return self.validate(data)


def _unfenced(text: str) -> str:
    """JSON out of a Markdown code block, as models like to give it."""
    text = text.strip()
    if not text.startswith("```") or not text.endswith("```"):
        return text
    return text[3:-3].removeprefix("json").strip()


class SetModelResponseTool(BaseTool):
    """By calling it the model gives its final answer in the required structure."""

    def __init__(self, schema: OutputSchema) -> None:
        super().__init__(
            name=SET_MODEL_RESPONSE,
            description="Give the final answer in the required structure. Call it once, when everything is known.",
        )
        self.schema = schema

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=arguments_schema(self.schema)
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """The validated answer; one that does not fit is an error that the model can mend (decision 11)."""
        output = validated_arguments(self.schema, args)
        tool_context.actions.set_model_response = output
        return output


def arguments_schema(schema: OutputSchema) -> dict[str, Any]:
    """The schema of a tool whose arguments are the output; what is no object is wrapped."""
    if schema.is_object:
        return schema.json_schema
    inner = dict(schema.json_schema)
    definitions = inner.pop("$defs", None)
    wrapped: dict[str, Any] = {"type": "object", "properties": {WRAPPER_KEY: inner}, "required": [WRAPPER_KEY]}
    return wrapped if definitions is None else {**wrapped, "$defs": definitions}


def validated_arguments(schema: OutputSchema, args: dict[str, Any]) -> Any:
    """The output out of the arguments of such a tool."""
    if schema.is_object:
        return schema.validate(args)
    if set(args) != {WRAPPER_KEY}:
        raise ToolArgumentsError(f"Give the output as the one argument `{WRAPPER_KEY}`.")
    return schema.validate(args[WRAPPER_KEY])
