"""A user's message: a text, a content, or what makes one."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.errors import InputValidationError
from flowloom.events.parts import content_of, text_part

Message = types.Content | str | dict[str, Any]


def content_of_message(message: Message) -> types.Content:
    """A message as content. Raises `InputValidationError` for what is none."""
    if isinstance(message, str):
        content = content_of("user", [text_part(message)])
    elif isinstance(message, types.Content):
        content = message
    else:
        try:
            content = types.Content.model_validate(message)
        except ValueError as error:
            raise InputValidationError(
                f"{message!r} is no message. Give a text, a `types.Content`, or a dict with `role` and `parts`. {error}"
            ) from error
    if not content.parts:
        raise InputValidationError("The message has no parts. Give it a text, a file, or a function response.")
    return content if content.role else content.model_copy(update={"role": "user"})
