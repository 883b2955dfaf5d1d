"""What a person's words answer, where a value of a JSON schema is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from flowloom.errors import ConfigurationError
from flowloom.schemas.validator import validator_of


def value_of_words(words: str, schema: Mapping[str, Any] | None) -> Any:
    """The `words` themselves, or the data that they are as JSON, if no text fits the `schema`."""
    if not schema:
        return words
    try:
        return validator_of(schema).validate_python(words)
    except (ValidationError, ConfigurationError):  # a schema that no one can read asks for no text
        pass
    try:
        return from_json(words, allow_inf_nan=False)
    except ValueError:
        return words
