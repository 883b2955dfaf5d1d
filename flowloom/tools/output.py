"""Structured output: schemas as data, and the tool by which a model delivers it (spec §10)."""

from __future__ import annotations

import re
import reprlib
from typing import Any, cast

import pydantic
from google.genai import types
from pydantic_core import from_json

from flowloom.context import Context
from flowloom.errors import ConfigurationError, ToolArgumentsError
from flowloom.schemas.validator import JsonValidator, validator_of
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.validation import read_again

SET_MODEL_RESPONSE = "set_model_response"
_FENCED = re.compile(r"```(?:json)?(.*)```", re.DOTALL | re.IGNORECASE)
WRAPPER_KEY = "result"
"""The argument that carries an output that is not an object."""


class OutputSchema:
    """An agent's output schema, given as a pydantic model, any type pydantic knows, a JSON schema, or a `Schema`.

    `json_schema` is the schema as a dict; `read` and `read_text` make what the schema describes, an instance of a
    model class, say; `validate` and `parse` give it as plain JSON data. They raise `ToolArgumentsError`, which says in
    which fields the output does not fit. Raises `ConfigurationError` for what is none of these.
    """

    def __init__(self, schema: Any) -> None:
        self.source = schema
        self._validator: pydantic.TypeAdapter[Any] | JsonValidator
        try:
            if isinstance(schema, types.Schema):
                schema = schema.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
            if isinstance(schema, dict):
                self.json_schema = cast(dict[str, Any], schema)
                self._validator = validator_of(self.json_schema)
            else:
                self._validator = pydantic.TypeAdapter[Any](schema)
                self.json_schema = self._validator.json_schema()
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"The output schema {reprlib.repr(self.source)} cannot be described as JSON schema: {error}. Use a "
                f"pydantic model, a type that pydantic knows, a JSON schema dict or a `types.Schema`."
            ) from error

    @property
    def is_object(self) -> bool:
        """Whether the output is a JSON object, and so can be a tool's arguments as it is."""
        return str(self.json_schema.get("type", "")).lower() == "object" or "properties" in self.json_schema

    def read(self, data: Any) -> Any:
        """What the schema makes of JSON data: an instance of a model class, say; the data itself for a JSON schema."""
        try:
            return self._validator.validate_python(data)
        except pydantic.ValidationError as error:
            return read_again(self._validator, data, error, "The output does not fit its schema:")

    def read_text(self, text: str) -> Any:
        """What the schema makes of JSON text, which may stand in a Markdown code block, with nothing beside it."""
        return self.read(_json_of(text))

    def validate(self, data: Any) -> Any:
        """JSON data of this schema as plain JSON data that gives the same when it is read again.

        Defaults are filled in, None is left out; by aliases, with None, or as it was given, if that would not do.
        """
        validator, value = self._validator, self.read(data)
        if isinstance(validator, JsonValidator):
            return data
        for aliases, bare in ((False, True), (True, True), (True, False)):
            try:
                plain = validator.dump_python(value, mode="json", by_alias=aliases, exclude_none=bare)
                if self.read(plain) == value:
                    return plain
            except ValueError:
                continue  # it is not written as it is read
        return data

    def parse(self, text: str) -> Any:
        """JSON text as plain JSON data of this schema (see `read_text` and `validate`)."""
        return self.validate(_json_of(text))


def _json_of(text: str) -> Any:
    """The JSON in a text: all of it, or all of the one Markdown code block that it is, as models like to give it."""
    text = text.strip()
    if not text:
        raise ToolArgumentsError("The output is empty.")
    fenced = _FENCED.fullmatch(text)
    try:
        return from_json(text if fenced is None else fenced[1], allow_inf_nan=False)
    except ValueError as error:
        raise ToolArgumentsError(f"The output is not JSON, or not JSON alone: {error}.") from error


class AnswerTool(BaseTool):
    """A tool that a model calls to give its agent's output, of the form `schema`: it stands in
    `EventActions.set_model_response`."""

    def __init__(self, name: str, description: str, schema: OutputSchema) -> None:
        super().__init__(name=name, description=description)
        self.schema = schema

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=arguments_schema(self.schema)
        )

    def take(self, result: Any, context: Context) -> None:
        """Have what a callback gave in the tool's place be the output, unless it is an error, or a person is asked."""
        given, actions = cast(dict[str, Any], result) if isinstance(result, dict) else {}, context.actions
        asks = actions.requested_tool_confirmations or actions.requested_inputs or actions.requested_auth_configs
        if not asks and "error" not in given:
            actions.set_model_response = result if self.schema.is_object else given.get(WRAPPER_KEY, result)


class SetModelResponseTool(AnswerTool):
    """By calling it the model gives its final answer in the required structure."""

    def __init__(self, schema: OutputSchema) -> None:
        description = "Give the final answer in the required structure. Call it once, when everything is known."
        super().__init__(SET_MODEL_RESPONSE, description, schema)

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
