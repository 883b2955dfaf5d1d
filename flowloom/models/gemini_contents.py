"""From a request's contents to the JSON that Gemini accepts. The contents themselves are only read.

google-genai converts and validates every part of the history again in each call, at about 0.3 ms a content; this
is some 4 µs. What it adds to the contents themselves (shorthands such as plain strings) a request does not have.
"""

from __future__ import annotations

from typing import Any, cast

from google.genai import types
from pydantic import ConfigDict, TypeAdapter

from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.models.signatures import FOREIGN_TO_GEMINI

_CONTENTS = TypeAdapter(list[types.Content], config=ConfigDict(defer_build=True))
# Fields that only streamed calls have; the Gemini API refuses them in a history.
_STREAMED_ONLY = ("partialArgs", "willContinue")


def contents_to_json(contents: list[types.Content]) -> list[dict[str, Any]]:
    """The contents as plain JSON data, without the call ids that were minted here (decision 16).

    Thoughts that another provider signed are left out, and what it ran: Gemini refuses signatures that are not its own.
    """
    data = cast(
        "list[dict[str, Any]]",
        _CONTENTS.dump_python(contents, mode="json", by_alias=True, exclude_none=True, fallback=repr, warnings=False),
    )
    for content in data:
        foreign = False
        for part in content.get("parts", ()):
            if len(part) == 1 and "text" in part:
                continue
            signature: str | None = part.get("thoughtSignature")
            foreign = foreign or (signature is not None and signature.startswith(FOREIGN_TO_GEMINI))
            call: dict[str, Any] | None = part.get("functionCall")
            if call is not None:
                for name in _STREAMED_ONLY:
                    call.pop(name, None)
            call_or_answer = call if call is not None else part.get("functionResponse")
            if call_or_answer is not None and call_or_answer.get("id", "").startswith(CLIENT_CALL_PREFIX):
                del call_or_answer["id"]
        if foreign:
            content["parts"] = [part for part in map(_without_foreign_signature, content["parts"]) if part]
    return data


def _without_foreign_signature(part: dict[str, Any]) -> dict[str, Any]:
    signature: str = part.get("thoughtSignature", "")
    if not signature.startswith(FOREIGN_TO_GEMINI):
        return part
    if part.get("thought") or "toolCall" in part or "toolResponse" in part:
        return {}
    return {name: value for name, value in part.items() if name != "thoughtSignature"}
