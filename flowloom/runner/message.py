"""A user's message: a text, a content, or what makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from google.genai import types

from flowloom.errors import InputValidationError
from flowloom.events.parts import content_like, content_of, text_part
from flowloom.sessions.admission import check_message

Piece = types.Part | str | dict[str, Any]
Message = types.Content | Piece | Sequence[Piece]
"""A content, a part, a text, or several parts and texts; contents and parts may be given by their fields, as a dict."""


def content_of_message(message: Message) -> types.Content:
    """A user's message as content. Raises `InputValidationError` for what is none, and as `check_message` does."""
    check_message(content := content_given(message))
    return content


def content_given(message: Message) -> types.Content:
    """What an agent or a user said as content. Raises `InputValidationError` for what is none."""
    try:
        content = message if isinstance(message, types.Content) else _content_of(message)
    except (ValueError, TypeError, AttributeError) as error:  # the last, of google-genai: an enum that is a number
        raise InputValidationError(
            f"{message!r:.80} is no message. Give a text, a `types.Part`, a list of these, a `types.Content`, or a "
            f"dict with `role` and `parts`."
        ) from error
    if not content.parts:
        raise InputValidationError("The message has no parts. Give it a text, a file, or a function response.")
    return content if content.role else content.model_copy(update={"role": "user"})


def _content_of(said: Any) -> types.Content:
    """The content of parts, of one part, or of its own fields."""
    if isinstance(said, list | tuple):
        return content_of("user", [*map(_part_of, cast(Sequence[Any], said))])
    piece = isinstance(said, str | types.Part) or (isinstance(said, Mapping) and not {"parts", "role"} & said.keys())
    return content_of("user", [_part_of(said)]) if piece else content_like(said)


def _part_of(piece: Any) -> types.Part:
    """A text or a part as a part; one of which no field is known is none."""
    if isinstance(piece, str):
        return text_part(piece)
    part = types.Part.model_validate(piece)
    if part == types.Part():
        raise ValueError("It is no part.")
    return part
