"""The JSON schema of files that describe agents, and what a file says that it does not allow (protocols spec §6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel

from flowloom.config.documents import Document
from flowloom.config.forms import DOTTED, FORMS, BaseAgentConfig, CustomAgentConfig
from flowloom.config.problems import KeyPath, closest
from flowloom.config.variables import is_secret
from flowloom.errors import quoted_list
from flowloom.extras import absent, missing_extra, require

try:
    import jsonschema
except ImportError as error:
    jsonschema = absent(missing_extra("Agents from files need jsonschema", "config", error))

Schema = dict[str, Any]
OF_THE_AGENT = ("system_instruction", "tools", "response_schema", "response_json_schema")
"""Fields of a generation config that an agent has fields of its own for."""
_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def agent_config_schema() -> Schema:
    """The JSON schema (2020-12) that a file which describes an agent has to fit; `flowloom schema` prints it.

    Keys that it does not name are refused. What it cannot say is found when the file is loaded: names that must be
    imported, files that must be there.
    """
    schema: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An agent of flowloom",
        "type": "object",
    }
    rest: Schema = {"$ref": f"#/$defs/{CustomAgentConfig.__name__}"}
    for form in reversed(list(dict.fromkeys(FORMS.values()))):
        chosen = {"properties": {"agent_class": {"pattern": _classes_of(form)}}}
        rest = {"if": chosen, "then": {"$ref": f"#/$defs/{form.__name__}"}, "else": rest}
    return schema | rest | {"$defs": _definitions()}


def form_of(agent_class: object) -> type[BaseAgentConfig]:
    """The form of the agents of a class, by its name in a file; an agent without one is an `LlmAgent`."""
    if not isinstance(agent_class, str):
        return FORMS["LlmAgent"]
    return next((form for form in FORMS.values() if re.search(_classes_of(form), agent_class)), CustomAgentConfig)


def _classes_of(form: type[BaseAgentConfig]) -> str:
    """The pattern of the names of a form's classes: flowloom's, and the full ones of google-adk."""
    names = "|".join(name for name, each in FORMS.items() if each is form)
    return rf"^(google\.adk\.agents\.([a-z0-9_]+\.)?)?({names})$"


@cache
def _definitions() -> Schema:
    definitions: Schema = {}
    settings = _of(types.GenerateContentConfig, definitions, "genai_{model}")
    settings["properties"] = {name: of for name, of in settings["properties"].items() if name not in OF_THE_AGENT}
    definitions["GenerateContentConfig"] = settings
    definitions["Content"] = _of(types.Content, definitions, "genai_{model}")
    fields = {
        "generate_content_config": "#/$defs/GenerateContentConfig",
        "static_instruction": "#/$defs/Content",
    }
    for form in (*dict.fromkeys(FORMS.values()), CustomAgentConfig):
        made = _of(form, definitions, "{model}")
        for field, of_google in fields.items():
            for kind in made["properties"].get(field, {}).get("anyOf", ()):
                if kind.get("type") == "object":
                    kind.clear()
                    kind["$ref"] = of_google
        if form is CustomAgentConfig:
            made["patternProperties"] = {"_callbacks$": made["properties"]["before_agent_callbacks"]}
        definitions[form.__name__] = made
    return definitions


def _of(model: type[BaseModel], definitions: Schema, names: str) -> Schema:
    """The schema of a model, whose own definitions come to the others, under these `names`."""
    schema = model.model_json_schema(by_alias=issubclass(model, BaseAgentConfig), ref_template=f"#/$defs/{names}")
    for name, definition in schema.pop("$defs", {}).items():
        definitions[names.format(model=name)] = definition
    return schema


@cache
def _validator(form: type[BaseAgentConfig]) -> Any:
    require(jsonschema)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{form.__name__}", "$defs": _definitions()})


def check(document: Document) -> type[BaseAgentConfig]:
    """The form of a document's agent. What does not fit it becomes a problem of the document."""
    data = document.data
    if not isinstance(data, dict):
        document.note((), f"An agent is described by a mapping of keys, not by {_given((), data)}.")
        document.readable = False
        return FORMS["LlmAgent"]
    given = {key: value for key, value in cast(dict[Any, Any], data).items() if isinstance(key, str)}
    document.data = given  # other keys are problems of the document already
    form = form_of(given.get("agent_class"))
    _note_all(document, _validator(form).iter_errors(given))
    return form


def _note_all(document: Document, errors: Iterable[Any]) -> None:
    for error in errors:
        path: KeyPath = tuple(error.absolute_path)
        if error.validator in ("anyOf", "oneOf") and error.context:
            _note_branch(document, error, path)
        else:
            for below, message in _told(document, error, path):
                document.note(path + below, message)


def _note_branch(document: Document, error: Any, path: KeyPath) -> None:
    """Of several forms of a value, what is wrong with the one that was meant."""
    forms: list[Schema] = [_resolved(branch) for branch in error.validator_value]
    if all(form.keys() == {"required"} for form in forms):
        names = [name for form in forms for name in form["required"]]
        document.note(path, f"Give one of {quoted_list(names)}.")
        return
    branches: dict[int, list[Any]] = {number: [] for number in range(len(forms))}
    for each in error.context:
        branches[each.relative_schema_path[0]].append(each)
    meant = [number for number, errors in branches.items() if not any(map(_is_of_another_kind, errors))]
    instance: Any = error.instance
    if _is_mapping(instance):
        given = instance.keys()
        known = [form.get("properties", {}).keys() & given for form in forms]
        meant = sorted(meant, key=lambda number: (-len(known[number]), len(branches[number])))[:1]
    if len(meant) == 1:
        _note_all(document, branches[meant[0]])
    else:
        kinds = dict.fromkeys(_expected(form) for form in forms if form != {"type": "null"})
        hint = "".join(dict.fromkeys(_hint(document, path, instance, form) for form in forms))
        document.note(path, f"This is {_given(path, instance)}; it has to be {' or '.join(kinds)}.{hint}")


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _is_of_another_kind(error: Any) -> bool:
    return error.validator == "type" and not error.relative_path


def _resolved(branch: Schema) -> Schema:
    name = branch.get("$ref", "").removeprefix("#/$defs/")
    return _definitions()[name] if name else branch


def _told(document: Document, error: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """What an error of the schema is in words, and where below `path` it is."""
    rule, value, given = error.validator, error.validator_value, _given(path, error.instance)
    hint = _hint(document, path, error.instance, error.schema)
    if rule == "additionalProperties":
        known = error.schema.get("properties", {})
        for key in error.instance.keys() - known.keys():
            yield (key,), f"There is no such key. {closest(str(key), known)}"
    elif rule == "required":
        missing = [name for name in value if name not in error.instance]
        yield (), f"{quoted_list(missing)} {'is' if len(missing) == 1 else 'are'} missing."
    elif rule in ("enum", "const"):
        near = closest(str(error.instance), map(str, value if rule == "enum" else [value]))
        yield (), f"This is {given}, which is none of its values.{hint or f' {near}'}"
    elif rule == "not":
        names = value.get("required", [])
        yield (), f"Give only one of {quoted_list(names)}." if names else f"It cannot be {given}."
    elif rule == "pattern" and value == DOTTED:
        yield (), f"This is {given}; it has to be a full name, as `my_package.module.thing`."
    else:
        yield (), f"This is {given}; it has to be {_expected(error.schema)}.{hint}"


def _expected(schema: Schema) -> str:
    """What a schema wants, in words."""
    if "enum" in schema:
        return f"one of {quoted_list(map(str, schema['enum']))}"
    if "const" in schema:
        return f"`{schema['const']}`"
    kinds = schema.get("type", "object")
    wanted = " or ".join(_KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    bounds = (("minLength", "not empty"), ("minimum", "{} or more"), ("exclusiveMinimum", "more than {}"))
    wanted += "".join(f", {words.format(schema[word])}" for word, words in bounds if word in schema)
    return wanted + (f" of the pattern `{schema['pattern']}`" if "pattern" in schema else "")


def _hint(document: Document, path: KeyPath, value: object, wanted: Schema) -> str:
    """What to do where text was written that YAML reads as something else."""
    word = document.words.get(path)
    if word is None or is_secret(path) or isinstance(value, str) or wanted.get("type") != "string":
        return ""
    return f" Put quotes around `{word}` to have it as text."


def _given(path: KeyPath, value: object) -> str:
    """A value in words; secrets are not shown."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if is_secret(path):
        return "a value"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = str(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
