"""Which response schemas OpenAI is asked to enforce."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from flowloom.errors import UnsupportedFeatureError
from flowloom.providers.openai_schema import named_schema


class Leaf(BaseModel):
    kind: Literal["leaf"]
    size: int | None


class Tree(BaseModel):
    leaves: list[Leaf]
    first: Leaf


class Loose(BaseModel):
    text: str
    note: str = ""


def named(schema: Any) -> Any:
    return named_schema(schema, "m", openai=True)


@pytest.mark.parametrize("model", [Leaf, Tree], ids=["flat", "nested"])
def test_a_model_that_requires_all_it_has_is_enforced(model: type[BaseModel]) -> None:
    made = named(model.model_json_schema())
    assert made["strict"]
    assert made["schema"]["additionalProperties"] is False
    assert all(each["additionalProperties"] is False for each in made["schema"].get("$defs", {}).values())


def text(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", **more}}, "required": ["a"]}


NOT_ENFORCED = {
    "an optional field": Loose.model_json_schema(),
    "any fields": {"type": "object"},
    "further fields": {**text(), "additionalProperties": {"type": "string"}},
    "a field that is anything": {"type": "object", "properties": {"a": {}}, "required": ["a"]},
    "a default": text(default="x"),
    "alternatives by oneOf": {
        "type": "object",
        "properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}},
        "required": ["a"],
    },
    "a list of anything": {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]},
}


@pytest.mark.parametrize("kind", NOT_ENFORCED)
def test_what_could_not_be_enforced_is_sent_as_it_is(kind: str) -> None:
    made = named(NOT_ENFORCED[kind])
    assert not made["strict"]
    assert made["schema"] == NOT_ENFORCED[kind]


@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "string"}}, {"anyOf": [text(), text()]}])
def test_a_schema_that_is_no_objects_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFeatureError):
        named(schema)
    assert named_schema(schema, "m", openai=False)["schema"] == schema


def test_a_name_has_plain_letters() -> None:
    assert named({**text(), "title": "Antwort für Zoë"})["name"] == "Antwort_f_r_Zo_"
