"""Forms for the arguments of tools: what a page or a terminal asks for, made from the declarations of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, cast

from google.genai import types
from pydantic import JsonValue, ValidationError

from flowloom.errors import ConfigurationError, ToolArgumentsError, UnfitAnswerError
from flowloom.inspection.report import parameters_of
from flowloom.models.request import LlmRequest
from flowloom.providers.sdk_request import calling_mode, json_schema_of
from flowloom.schemas.keywords import keywords_of
from flowloom.schemas.validator import JsonValidator, validator_of
from flowloom.tools.validation import read_again

_PLACE = re.compile(r"^- `([^`]+)`: ", re.MULTILINE)
_WORDS: dict[str, bool] = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_MAX_REFERENCES = 8


@dataclass(frozen=True)
class FormField:
    """An argument of a tool, as it is asked for: its `name`, whether it is `required`, and its `description`, perhaps
    empty.
    """

    name: str
    type: str
    """As one reads it: `string`, `list[number]`, `"red" | "blue"`."""
    required: bool
    description: str
    enum: list[JsonValue]
    """The values to choose from; empty if any will do."""
    default: JsonValue
    """What the tool takes if nothing is given; None if nothing is said about it."""
    schema: Mapping[str, Any] = field(repr=False)
    """Its JSON schema, with the definitions that it refers to."""

    def read(self, text: str) -> JsonValue:
        """The typed `text` as a value: JSON if it fits so, else the text itself, or yes and no for a truth value.

        Raises `UnfitAnswerError` if it fits in no form.
        """
        forms: list[JsonValue] = [text]
        try:
            forms.insert(0, json.loads(text, parse_constant=_refuse_constant))
        except (ValueError, RecursionError):
            pass
        forms += [_WORDS[text.strip().lower()]] if text.strip().lower() in _WORDS else []
        errors: list[UnfitAnswerError] = []
        for value in forms:
            try:
                self.check(value)
            except UnfitAnswerError as error:
                errors.append(error)
            else:
                return value
        raise errors[0]

    def check(self, value: JsonValue) -> None:
        """Raise `UnfitAnswerError` if `value` is none for the field."""
        fit(self._validator, {self.name: value}, f"`{self.name}` cannot be that:")

    @cached_property
    def _validator(self) -> JsonValidator | None:
        held = {"type": "object", "properties": {self.name: self.schema}, "$defs": self.schema.get("$defs", {})}
        return _compiled(held)

    def to_dict(self) -> dict[str, JsonValue]:
        """The same as JSON values, for a page."""
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "description": self.description,
            "enum": self.enum,
            "default": self.default,
            "schema": dict(self.schema),
        }


@dataclass(frozen=True)
class ToolForm:
    """A tool that the answer may call: its `name`, its `description`, and `fields`, one for each argument."""

    name: str
    description: str
    fields: list[FormField]
    schema: Mapping[str, Any] = field(repr=False)
    """The JSON schema of all arguments."""

    def check(self, args: Mapping[str, Any]) -> None:
        """Raise `UnfitAnswerError`, which names the field, if a call may not have the arguments `args`."""
        fit(self._validator, dict(args), f"The arguments do not fit the parameters of `{self.name}`:", tool=self.name)

    @cached_property
    def _validator(self) -> JsonValidator | None:
        return _compiled(self.schema)

    def to_dict(self) -> dict[str, JsonValue]:
        """The same as JSON values, for a page."""
        return {
            "name": self.name,
            "description": self.description,
            "fields": [each.to_dict() for each in self.fields],
            "schema": dict(self.schema),
        }


def forms_of(request: LlmRequest) -> list[ToolForm]:
    """The forms of the functions that the answer may call, in the order of the wire."""
    calling = calling_mode(request)
    if calling is not None and calling.mode == "none":
        return []
    allowed = () if calling is None else calling.names
    groups: list[Any] = cast(Any, request.config).tools or []
    return [
        _form_of(declared, request.model or "")
        for group in groups
        for declared in (group.function_declarations or () if isinstance(group, types.Tool) else ())
        if not allowed or declared.name in allowed
    ]


def _form_of(declared: types.FunctionDeclaration, model: str) -> ToolForm:
    name = declared.name or ""
    given: Any = declared.parameters_json_schema
    if given is None:
        given = declared.parameters
    nothing: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    schema = nothing if given is None else json_schema_of(given, model, f"the parameters of `{name}`")
    definitions: dict[str, Any] = schema.get("$defs") or {}
    properties: dict[str, Any] = schema.get("properties") or {}
    fields: list[FormField] = []
    for parameter in parameters_of({"parameters_json_schema": schema}):
        held: Any = properties[parameter.name]
        known: dict[str, Any] = cast(dict[str, Any], held) if isinstance(held, dict) else {}
        fields.append(
            FormField(
                name=parameter.name,
                type=parameter.type,
                required=parameter.required,
                description=parameter.description,
                enum=_choices(known, definitions),
                default=known.get("default"),
                schema={**known, "$defs": definitions} if definitions else known,
            )
        )
    return ToolForm(name, declared.description or "", fields, schema)


def _choices(schema: Any, definitions: Mapping[str, Any]) -> list[JsonValue]:
    """The values that a schema names, also behind a reference or beside null."""
    said = keywords_of(schema)
    for _ in range(_MAX_REFERENCES):
        several = [each for each in said.get("anyOf", ()) if keywords_of(each).get("type") != "null"]
        if "$ref" in said:
            said = keywords_of(definitions.get(str(said["$ref"]).rpartition("/")[2]))
        elif len(several) == 1:
            said = keywords_of(several[0])
        else:
            break
    return [said["const"]] if "const" in said else said.get("enum", [])


def fit(validator: JsonValidator | None, data: Any, heading: str, *, tool: str | None = None) -> None:
    """Raise `UnfitAnswerError` if data does not fit; without a validator everything does."""
    if validator is None:
        return
    try:
        validator.validate_python(data, strict=True)
    except ValidationError as refusal:
        try:
            read_again(validator, data, refusal, heading)
        except ToolArgumentsError as error:
            raise unfit(error, tool) from error


def unfit(error: ToolArgumentsError, tool: str | None = None) -> UnfitAnswerError:
    """The error for data that was refused, with the place where it was."""
    place = _PLACE.search(str(error))
    return UnfitAnswerError(str(error), tool=tool, field=place[1] if place else None)


def _compiled(schema: Mapping[str, Any]) -> JsonValidator | None:
    """What checks data of a schema; None for one that cannot be checked here, since the tool looks at it again."""
    try:
        return validator_of(schema)
    except ConfigurationError:
        return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
