"""The spans of runs as google-adk's web UI reads them (server spec §3: 31, 32; §7). Development server only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import Response
from google.genai import types
from pydantic_core import to_jsonable_python

from flowloom.events.response import LlmResponse
from flowloom.models.request import LlmRequest
from flowloom.providers.sdk_request import json_schema_of
from flowloom.server.problems import ProblemError
from flowloom.server.served import admit, development_of, principal_of
from flowloom.server.spans import SeenSpan
from flowloom.server.wire import answer, json_bytes, public_json

_FINISH = {"max_tokens": "length", "other": "error"}
"""What OpenTelemetry calls reasons to finish."""
router = APIRouter(tags=["dev"])

_OF_RUN = ("gen_ai.agent.name", "gen_ai.conversation.id", "gcp.vertex.agent.invocation_id")
"""What the span around a run has of its first one."""
_EVENT_ID = "gcp.vertex.agent.event_id"
_ALWAYS: dict[str, Any] = {
    _EVENT_ID: "",
    "gen_ai.usage.input_tokens": 0,
    "gen_ai.usage.output_tokens": 0,
    "gen_ai.response.finish_reasons": [],
}
"""What the span of a model call has in any case, because its readers refuse all spans without it."""


@router.get("/dev/apps/{app_name}/debug/trace/session/{session_id}")
async def session_trace(request: Request, app_name: str, session_id: str) -> Response:
    """The finished spans of the runs of a session."""
    admit(request, app_name)
    return _listed(request, app_name, session_id)


@router.get("/debug/trace/session/{session_id}", include_in_schema=False)
async def old_session_trace(request: Request, session_id: str) -> Response:
    """The same by an older path, whatever the app."""
    return _listed(request, None, session_id)


@router.get("/dev/apps/{app_name}/debug/trace/{event_id}")
async def event_trace(request: Request, app_name: str, event_id: str) -> Response:
    """The attributes of the span that led to an event."""
    admit(request, app_name)
    return _of_event(request, app_name, event_id)


@router.get("/debug/trace/{event_id}", include_in_schema=False)
async def old_event_trace(request: Request, event_id: str) -> Response:
    """The same by an older path, whatever the app."""
    return _of_event(request, None, event_id)


def _spans(request: Request, app_name: str | None, session_id: str | None = None) -> Iterator[SeenSpan]:
    """The spans that those who ask may see; without those of processors, which google-adk does not know."""
    principal = principal_of(request)
    for span in development_of(request).spans.spans_of(app=app_name, session=session_id):
        if not span.processor and principal.may_use(span.run[0], span.run[1]):
            yield span


def _listed(request: Request, app_name: str | None, session_id: str) -> Response:
    spans = list(_spans(request, app_name, session_id))
    known = {span.span_id for span in spans}
    return answer(public_json(json_bytes([*(_shown(span, known) for span in spans), *_roots(spans)])))


def _roots(spans: Sequence[SeenSpan]) -> Iterator[dict[str, Any]]:
    """A span around each run: google-adk's web UI hides the outermost one, which is that of a request there."""
    runs: dict[int, list[SeenSpan]] = {}
    for span in spans:
        runs.setdefault(span.trace_id, []).append(span)
    for trace_id, run in runs.items():
        yield {
            "name": f"invoke_workflow {run[0].run[0]}",
            "span_id": _root_id(trace_id),
            "trace_id": trace_id,
            "start_time": min(span.start for span in run),
            "end_time": max(span.end or span.start for span in run),
            "attributes": {
                "gen_ai.operation.name": "invoke_workflow",
                **{name: value for name, value in run[0].attributes.items() if name in _OF_RUN},
            },
            "logs": [],
            "parent_span_id": None,
        }


def _root_id(trace_id: int) -> int:
    return trace_id % (1 << 63)


def _of_event(request: Request, app_name: str | None, event_id: str) -> Response:
    found = [span for span in _spans(request, app_name) if span.attributes.get(_EVENT_ID) == event_id]
    if not found:
        raise ProblemError(404, "trace_not_found", "Trace not found")
    span = found[0]
    return answer(public_json(json_bytes({**_attributes(span), "trace_id": span.trace_id, "span_id": span.span_id})))


def _shown(span: SeenSpan, known: set[int]) -> dict[str, Any]:
    return {
        "name": span.name,
        "span_id": span.span_id,
        "trace_id": span.trace_id,
        "start_time": span.start,
        "end_time": span.end,
        "attributes": _attributes(span),
        "logs": [] if span.request is None else [_messages(span.request, span.response)],
        "parent_span_id": span.parent_id if span.parent_id in known else _root_id(span.trace_id),
    }


def _attributes(span: SeenSpan) -> dict[str, Any]:
    return {**_ALWAYS, **span.attributes} if span.kind == "model" else span.attributes


# -- what a model was told and answered ------------------------------------------------------------


def _messages(request: LlmRequest, response: LlmResponse | None) -> dict[str, Any]:
    """The log of a model call: what stands below Input and Output."""
    outputs: list[dict[str, Any]] = []
    if response is not None and response.content is not None:
        reason = "" if response.finish_reason is None else response.finish_reason.value.lower()
        outputs.append(_message(response.content) | {"finish_reason": _FINISH.get(reason, reason)})
    return {
        "body": None,
        "event_name": "gen_ai.client.inference.operation.details",
        "attributes": {
            "gen_ai.system_instructions": _system_parts(request),
            "gen_ai.input.messages": [_message(content) for content in request.contents],
            "gen_ai.output.messages": outputs,
            "gen_ai.tool.definitions": list(_definitions(request)),
        },
    }


def _system_parts(request: LlmRequest) -> list[dict[str, Any]]:
    given: Any = request.config.system_instruction  # pyright: ignore[reportUnknownMemberType] - PIL, if it is there
    held: Any = getattr(given, "parts", given) or []
    pieces: list[Any] = cast(list[Any], held) if isinstance(held, list) else [held]
    return _parts([types.Part(text=each) if isinstance(each, str) else each for each in pieces])


def _message(content: types.Content) -> dict[str, Any]:
    return {"role": "assistant" if content.role == "model" else "user", "parts": _parts(content.parts or ())}


def _parts(parts: Sequence[types.Part]) -> list[dict[str, Any]]:
    return [shown for index, part in enumerate(parts) if (shown := _part(part, index)) is not None]


def _part(part: types.Part, index: int) -> dict[str, Any] | None:
    """A part in one of the five forms that are known; what has none of them is text, or left out."""
    if part.function_call is not None:
        call = part.function_call
        name = call.name or ""
        return {
            "type": "tool_call",
            "id": call.id or f"{name}_{index}",
            "name": name,
            "arguments": _data(call.args or {}),
        }
    if part.function_response is not None:
        result = part.function_response
        named = result.id or f"{result.name or ''}_{index}"
        return {"type": "tool_call_response", "id": named, "response": _data(result.response or {})}
    if part.inline_data is not None:
        blob = part.inline_data
        return {"type": "blob", "mime_type": blob.mime_type or "", "data": _data(blob.data or b"")}
    if part.file_data is not None:
        file = part.file_data
        return {"type": "file_data", "mime_type": file.mime_type or "", "uri": file.file_uri or ""}
    if part.executable_code is not None:
        return {"type": "text", "content": part.executable_code.code or ""}
    if part.code_execution_result is not None:
        return {"type": "text", "content": part.code_execution_result.output or ""}
    return None if part.text is None else {"type": "text", "content": part.text}


def _data(value: Any) -> Any:
    return to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")


def _definitions(request: LlmRequest) -> Iterator[dict[str, Any]]:
    for tool in cast(list[Any], request.config.tools or []):  # pyright: ignore[reportUnknownMemberType]
        for declared in getattr(tool, "function_declarations", None) or ():
            schema = declared.parameters_json_schema or declared.parameters
            yield {
                "type": "function",
                "name": declared.name or "",
                "description": declared.description or "",
                "parameters": None if schema is None else _data(json_schema_of(schema, request.model or "", "tools")),
            }
