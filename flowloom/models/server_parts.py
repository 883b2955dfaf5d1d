"""Parts of an answer that tell what the provider ran: a call in `tool_call`, what came of it in `tool_response`.

Gemini has such parts of its own. For other providers they hold what a person may want to see, and in their signature
(see `signatures.py`) what the provider is given back, as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from google.genai import types

from flowloom.events.wire import make

NAME = "server_tool"
"""The key in a part's `part_metadata` under which the tool is named."""
CONTAINER = "container"
"""The key beside it, under which it is noted where the provider ran code: `id`, and until when (`expires_at`)."""
_GEMINI_NAMES = {
    "GOOGLE_SEARCH_WEB": "google_search",
    "GOOGLE_SEARCH_IMAGE": "google_search",
    "URL_CONTEXT": "url_context",
    "GOOGLE_MAPS": "google_maps",
    "FILE_SEARCH": "file_search",
    "MEDIA_PROCESSING": "media_processing",
}


class ServerRun(NamedTuple):
    """What a part tells of a run on the provider's side: its `args`, its `result`, or both."""

    id: str | None
    name: str
    args: dict[str, Any] | None
    result: dict[str, Any] | None


def server_call(call_id: str, name: str, args: dict[str, Any] | None, signature: bytes | None) -> types.Part:
    """A part for a call that the provider makes."""
    call = make(types.ToolCall, id=call_id, args=args)
    return make(types.Part, tool_call=call, part_metadata={NAME: name}, thought_signature=signature)


def server_result(call_id: str, name: str, result: dict[str, Any], signature: bytes | None) -> types.Part:
    """A part for what came of it."""
    response = make(types.ToolResponse, id=call_id, response=result)
    return make(types.Part, tool_response=response, part_metadata={NAME: name}, thought_signature=signature)


def made_file(name: str, tool: str, mime_type: str, data: bytes) -> types.Part:
    """A part for a file that a provider's tool has made."""
    blob = make(types.Blob, data=data, mime_type=mime_type, display_name=name)
    return make(types.Part, inline_data=blob, part_metadata={NAME: tool})


def made_files(parts: Sequence[types.Part]) -> list[types.Part]:
    """The files among the parts of an answer that code or tools on the provider's side have made."""
    files = [part for part in parts if part.inline_data is not None]
    ran = any(part.code_execution_result is not None for part in parts)
    return [part for part in files if ran or is_server_run(part)]


def is_server_run(part: types.Part) -> bool:
    """Whether a part tells of a tool that a provider ran, or is a file that one made."""
    return part.tool_call is not None or part.tool_response is not None or NAME in (part.part_metadata or ())


def server_run(part: types.Part) -> ServerRun | None:
    """What a part tells of a tool that a provider ran; None for any other part."""
    call, response = part.tool_call, part.tool_response
    if call is not None:
        return ServerRun(call.id, _name(part, call.tool_type), call.args, None)
    if response is not None:
        return ServerRun(response.id, _name(part, response.tool_type), None, response.response or {})
    return None


def _name(part: types.Part, kind: types.ToolType | None) -> str:
    named = (part.part_metadata or {}).get(NAME)
    if isinstance(named, str):
        return named
    value = "" if kind is None else str(kind.value)
    return _GEMINI_NAMES.get(value, value.lower()) or "server_tool"


def code_run(code: types.ExecutableCode, result: types.CodeExecutionResult) -> ServerRun:
    """Code that Gemini ran on its side, as a run of the tool `code_execution`."""
    outcome = result.outcome.value if result.outcome is not None else None
    told = {"outcome": outcome, "output": result.output or ""}
    failed = outcome not in (None, "OUTCOME_OK", "OUTCOME_UNSPECIFIED")
    language = code.language.value if code.language is not None else None
    return ServerRun(
        code.id or result.id,
        "code_execution",
        {"code": code.code or "", "language": language},
        {**told, "error": result.output or outcome} if failed else told,
    )


def without_server_runs(parts: Sequence[types.Part], answer: Sequence[types.Part]) -> Sequence[types.Part]:
    """Parts of an answer without those that are between a model and its provider's tools.

    Code is such a part if its result stands in the same answer; what a code executor of ours runs has its result in an
    event of its own.
    """
    ran = any(part.code_execution_result is not None for part in answer) and any(
        part.executable_code is not None for part in answer
    )
    return [
        part
        for part in parts
        if not is_server_run(part)
        and not (ran and (part.executable_code is not None or part.code_execution_result is not None))
    ]
