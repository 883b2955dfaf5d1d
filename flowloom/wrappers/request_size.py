"""How many tokens a request may have, by its looks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel

from flowloom.events.wire import fields_of
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_FILE = 258
"""What Gemini counts for a small image or a page of a PDF."""
_EMPTY = 2  # the brackets of a list or an object, the quotes of a text


def estimated_tokens(request: LlmRequest) -> int:
    """The tokens of a request: one for four characters of its texts, calls, results, instructions and declarations,
    258 for each file. The answer is not in it.

    About 0.5 µs for each entry of the history: its texts are measured and not copied.
    """
    contents = request.contents
    plain = contents.plain() if isinstance(contents, SharedContents) else contents
    files, characters = 0, 0
    for content in plain:
        for part in content.parts or ():
            if part.text is not None:
                characters += len(part.text)
            elif part.inline_data is not None or part.file_data is not None:
                files += 1
            else:
                characters += _size(part)
    config = request.config
    if config.system_instruction is not None:
        characters += _size(config.system_instruction)
    for group in cast("Iterable[Any]", fields_of(config)["tools"] or ()):
        declarations = group.function_declarations if isinstance(group, types.Tool) else None
        for declared in declarations or ():
            characters += _declared_size(declared)
    return files * TOKENS_PER_FILE + -(-characters // CHARACTERS_PER_TOKEN)


def _declared_size(declared: types.FunctionDeclaration) -> int:
    """The characters of a declaration: its texts, and those of its parameters, what is inside of these left out."""
    size = len(declared.name or "") + len(declared.description or "")
    if declared.parameters is not None:
        for name, schema in (declared.parameters.properties or {}).items():
            size += len(name) + len(schema.description or "") + 2 * len(schema.type or "")
        return size
    return size + _size(declared.parameters_json_schema)


def _size(value: Any) -> int:
    """About the number of characters that a value has in JSON."""
    if isinstance(value, str):
        return len(value) + _EMPTY
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return _EMPTY + sum([len(str(key)) + _EMPTY + _size(item) for key, item in items])
    if isinstance(value, list | tuple):
        return _EMPTY + sum([_size(item) for item in cast("list[Any]", value)])
    if isinstance(value, BaseModel):
        return sum([_size(item) for item in fields_of(value).values() if item is not None])
    return _EMPTY  # numbers; and bytes, which are signatures here
