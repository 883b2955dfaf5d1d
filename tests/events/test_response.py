"""Responses that models make: what needs no validation has none, and nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from pydantic import ValidationError, field_validator

from flowloom import LlmResponse
from flowloom.events import response

GIVEN: list[dict[str, Any]] = [
    {"content": types.Content(role="model", parts=[types.Part(text="Hello")]), "partial": True},
    {"content": types.Content(), "turn_complete": False},
    {},
]


@pytest.mark.parametrize("given", GIVEN)
def test_a_response_of_values_that_fit_is_the_one_that_validation_gives(given: dict[str, Any]) -> None:
    made, read = LlmResponse(**given), LlmResponse.model_validate(given)
    assert made == read
    assert (made.model_fields_set, made.model_extra) == (read.model_fields_set, read.model_extra)
    assert made.model_dump(exclude_unset=True) == read.model_dump(exclude_unset=True)


def test_values_that_need_no_validation_are_of_their_fields_type() -> None:
    fields = LlmResponse.model_fields
    assert {name: fields[name].annotation for name in response.FITTING} == {
        name: kind | None for name, kind in response.FITTING.items()
    }


def test_other_values_are_validated() -> None:
    """Data in the place of an object, another spelling, a field that is not known, and what is of no use."""
    read = LlmResponse(content={"parts": [{"text": "Hello"}]}, errorCode="BUSY", newer=1)  # type: ignore[arg-type, call-arg] # pyright: ignore
    assert (read.text, read.error_code, read.model_extra) == ("Hello", "BUSY", {"newer": 1})
    with pytest.raises(ValidationError, match="partial"):
        LlmResponse(partial="perhaps")  # type: ignore[arg-type] # pyright: ignore


def test_a_class_that_derives_from_it_validates_as_it_says() -> None:
    class Loud(LlmResponse):
        @field_validator("error_message")
        @classmethod
        def _shout(cls, value: str) -> str:
            return value.upper()

    assert Loud(error_message="no").error_message == "NO"
