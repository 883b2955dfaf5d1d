"""How many tokens a content has, by its looks, and how far that is from what the provider counts."""

from __future__ import annotations

import json
from typing import Any

from google.genai import types

from flowloom.events.event import Event
from flowloom.events.parts import parts_of

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_CONTENT = 4
"""What role and brackets of a content cost."""
TOKENS_PER_IMAGE = 258
TOKENS_PER_FILE = 1000
"""A file that is given by its address; its length is not known here."""
BYTES_PER_TOKEN = 500
"""Of sound, video and documents that are given as bytes: about 32 tokens for each second of speech."""

_encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode


def content_tokens(content: types.Content) -> int:
    """The tokens of a content, estimated: a token for four characters of texts, calls and results, and so many for
    each file. Other alphabets than the Latin have fewer characters in a token, and are counted by their bytes.
    """
    characters, tokens = 0, TOKENS_PER_CONTENT
    for part in parts_of(content):
        if part.text is not None:
            characters += _length(part.text)
        elif part.function_call is not None:
            characters += _length(part.function_call.name or "") + json_length(part.function_call.args)
        elif part.function_response is not None:
            answer = part.function_response
            characters += _length(answer.name or "") + json_length(answer.response)
            for piece in answer.parts or ():
                tokens += _file_tokens(piece.inline_data, piece.file_data)
        elif part.inline_data is not None or part.file_data is not None:
            tokens += _file_tokens(part.inline_data, part.file_data)
        elif part.executable_code is not None:
            characters += _length(part.executable_code.code or "")
        elif part.code_execution_result is not None:
            characters += _length(part.code_execution_result.output or "")
    return tokens + -(-characters // CHARACTERS_PER_TOKEN)


def json_length(value: Any) -> int:
    """The bytes that a value has as JSON; what JSON cannot hold counts as its `repr`."""
    return 0 if value is None else _length(_encode(value))


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _file_tokens(inline: types.Blob | types.FunctionResponseBlob | None, by_address: object) -> int:
    if inline is None:
        return TOKENS_PER_FILE if by_address is not None else 0
    kind, size = inline.mime_type or "", len(inline.data or b"")
    if kind.startswith("image/"):
        return TOKENS_PER_IMAGE
    if kind.startswith("text/"):
        return size // CHARACTERS_PER_TOKEN
    return max(TOKENS_PER_IMAGE, size // BYTES_PER_TOKEN)


class Calibration:
    """How many tokens of the provider one estimated token is, for the requests of one agent.

    From one answer to the next, the prompt grows by what the log has in between. What stands in every request, such
    as instructions and tools, is in both counts and makes no difference. A step that does not look like growth (a
    window was cut, a file was large) is not counted.
    """

    _ENOUGH = 500  # estimated tokens, before a ratio says something
    _STEP = 50
    _LIKELY = (0.2, 6.0)

    def __init__(self) -> None:
        self._measured = 0
        self._estimated = 0
        self._since = 0
        self._prompt: int | None = None

    @property
    def ratio(self) -> float:
        """Tokens of the provider for one that was estimated; 1 as long as too little is known."""
        if self._estimated < self._ENOUGH:
            return 1.0
        return min(max(self._measured / self._estimated, 0.5), 4.0)

    def see(self, event: Event, own: bool) -> None:
        """Take the next event of the log into account; `own` for answers of the agent whose requests are meant."""
        usage = event.usage_metadata
        if own and usage is not None and usage.prompt_token_count:
            if self._prompt is not None and self._since >= self._STEP:
                grown = usage.prompt_token_count - self._prompt
                if self._LIKELY[0] <= grown / self._since <= self._LIKELY[1]:
                    self._measured += grown
                    self._estimated += self._since
            self._prompt, self._since = usage.prompt_token_count, 0
        if event.content is not None:
            self._since += content_tokens(event.content)
