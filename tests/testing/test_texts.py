"""Texts made up for a schema: of its format and length, and for simple patterns."""

from __future__ import annotations

import datetime
import ipaddress
import re
import uuid
from typing import Any

import pytest
from google.genai import types
from pydantic import UUID4, AnyUrl, TypeAdapter

from flowloom.testing.arguments import SchemaValueError, arguments_for, value_for


def wanting(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


FORMATS: dict[str, Any] = {
    "date": datetime.date,
    "date-time": datetime.datetime,
    "time": datetime.time,
    "duration": datetime.timedelta,
    "uuid": uuid.UUID,
    "uuid4": UUID4,
    "uri": AnyUrl,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "ipv4network": ipaddress.IPv4Network,
    "ipv6network": ipaddress.IPv6Network,
    "regex": re.Pattern[str],
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("count", [1, 12])
def test_a_text_is_of_its_format(form: str, count: int) -> None:
    """As pydantic reads it, however many different ones are needed."""
    schema = {"type": "array", "items": {"type": "string", "format": form}, "minItems": count, "uniqueItems": True}
    made = TypeAdapter(list[FORMATS[form]]).validate_python(value_for(schema))
    assert len(set(made)) == count


def test_a_text_that_is_no_more_of_its_format_is_refused() -> None:
    with pytest.raises(SchemaValueError, match="the format `date` and a length of 0 to 5"):
        value_for({"type": "string", "format": "date", "maxLength": 5})


def test_an_email_is_one() -> None:
    assert value_for({"type": "string", "format": "email"}) == "user@example.com"


def test_a_text_has_its_length() -> None:
    """Said again to be longer, cut to be shorter."""
    assert value_for({"type": "string", "minLength": 8}) == "valueval"
    assert value_for({"type": "string", "maxLength": 3}) == "val"
    assert value_for({"type": "string", "maxLength": 0}) == ""


PATTERNS = [
    r"^[A-Z]{2}\d{3}$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^(red|green|blue)$",
    r"^(?:a|b)+c?$",
    r"^[^a-z]+$",
    r"^[\w.-]+@[\w-]+\.[a-z]{2,}$",
    r"^\+?[1-9]\d{1,14}$",
    r"^#[0-9a-fA-F]{6}$",
    r"^(?P<sku>SKU)-[]x]\x41?\.\S\s.$",
    r"^(?=.*\d)[a-z\d]{3,}$",
    r"^x(?=\d)\d$",
    r"^[a-a]$",
    r"(?i)^yes$",
    r"\bcode\b",
    r"^v\d+(\.\d+){2}$",
    r"^a{,3}b{$",
    "^[^aeiou]*?x\\n$",
    "^$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_matches_its_pattern(pattern: str) -> None:
    """Where the pattern is a simple one."""
    made = value_for({"type": "string", "pattern": pattern})
    assert isinstance(made, str)
    assert re.search(pattern, made)


def test_a_text_matches_its_pattern_and_has_its_length() -> None:
    """Repeated things are repeated more often, until it is long enough."""
    assert value_for({"type": "string", "pattern": "^x+$", "minLength": 5}) == "xxxxx"
    assert value_for({"type": "string", "pattern": "^x{2,}$", "minLength": 5}) == "xxxxx"
    assert value_for({"type": "string", "pattern": "^no: ", "minLength": 8}) == "no: aaaa"
    assert value_for({"type": "string", "pattern": "^(a|bb)$", "minLength": 2}) == "bb"
    with pytest.raises(SchemaValueError, match="length of 0 to 2"):
        value_for({"type": "string", "pattern": "^x{3}$", "maxLength": 2})


@pytest.mark.parametrize("pattern", [r"^(\w)\1$", r"^\p{Lu}+$", r"^(?!a).*(?<=z)$\d", r"^(a)(?(1)b|c)$"])
def test_a_pattern_that_is_not_simple_is_refused_with_its_place_and_a_remedy(pattern: str) -> None:
    """It names the path in the arguments, and says to give them."""
    declaration = types.FunctionDeclaration(
        name="book",
        parameters_json_schema=wanting(who=wanting(codes={"type": "string", "pattern": pattern})),
    )
    with pytest.raises(SchemaValueError, match=r"`book\.who\.codes`.*arguments=") as caught:
        arguments_for(declaration)
    assert caught.value.path == "book.who.codes"


def test_an_example_answers_for_a_pattern_that_is_not_simple() -> None:
    assert value_for({"type": "string", "pattern": r"^(\w)\1$", "example": "aa"}) == "aa"
