"""What the page asks for to show how a session came about (server spec §12, helpers). Development server only.

D = `/dev/apps/{a}/users/{u}/sessions/{s}`, S = `/apps/{a}/users/{u}/sessions`. What comes from `Assembly.to_dict` and
`WaitingRequest.to_dict` has their snake_case keys; all else is camelCase. Times are epoch seconds. Problems are
`{"detail", "code"}`.

| request | answer |
|---|---|
| GET `D/events/{e}/request` | the keys of `Assembly.to_dict` (`agent`, `step`, `request`, `sections`: `[{path, by,
  value}]`, `steps`: `[{name, microseconds, changes: [{path, kind, before, after}], events}]`, `halted_by`, …), and
  `event_id`, `invocation_id`, `previous_event_id` (str or null: that of the agent's call before), `difference` from it
  (or null):
  `{differences: [{path, by, kind: added|removed|changed, before, after}], prefix_broken_by: path or null,
  contents_kept, older_contents}`. `null`: this process keeps no model call that led to
  the event |
| POST `D/explain` `{newMessage?, agent?}` | the same keys, `event_id` null, the difference from the last call. Nothing
  is sent or stored. 400 `invalid_message`, 400 `cannot_explain` (what a run would raise before it asks the model) |
| GET `D/trace` | `[{traceId, spanId, parentSpanId (hex; null), name, kind: agent|model|tool|processor|other, startTime,
  endTime, microseconds, invocationId, eventId, agent, error: {type, message} or null, attributes}]` in the order of
  their starts; finished spans only; `[]` if there are none |
| POST `S/{id}/fork` `{throughEventId?, sessionId?}` | the new Session, with its events up to that one (all without it).
  404 `session_not_found`, `event_not_found`; 409 `session_exists` |
| GET `S?limit=&after=&q=` | `[Session]`, the latest first, `events` empty, each with `status` (`running`,
  `paused` for an answer, `failed`, `idle`) and `lastWords` (what was said last, its beginning; absent if nothing was);
  `after`: the id of the last one of the page before; a page shorter than `limit` (1 to 1,000; 50) is the last. `q` is
  looked for in ids, names and texts, by every word of it, without case |
| GET `S/{id}?afterEventId=&limit=` | Session with the first `limit` of the events behind that one, or of all. 404
  `event_not_found` |
| GET `/dev/models/requests` | `[WaitingRequest.to_dict()]` with `app_name`, `user_id`, `session_id` and
  `invocation_id`, the oldest first |
| GET `/dev/models/requests/stream` | SSE: `event: came` with `data:` `WaitingRequest.to_dict()` (those that wait
  first), `event: ended` with `{id, state: answered|cancelled|timed out}` |
| POST `/dev/models/requests/{id}/answer` | `{"parts": [Part]}`, or `{"error": {code?, message, retryable?},
  "parts"?: what was said before it}` → 200 `{id, state: "answered"}`; or `{"parts": [Part], "partial": true}`, a piece
  of text or thoughts of an answer whose rest follows → 200 `{id, state: "waiting"}`. 404 `request_not_found`; 409
  `request_over` with `state`; 422 `unfit_answer` with `tool`, `field` (str or null) and `detail` as text: the request
  goes on waiting |
"""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import Response

from flowloom.context import RunConfig
from flowloom.errors import InputValidationError, error_text
from flowloom.events.event import Event
from flowloom.inspection import Assembly, RequestDiff, diff, explain
from flowloom.server.problems import ProblemError
from flowloom.server.served import development_of, served_of
from flowloom.server.sessions import session_of
from flowloom.server.spans import SeenSpan
from flowloom.server.wire import Body, Content, answer, json_bytes, public_json

router = APIRouter(tags=["dev"])
_D = "/dev/apps/{app_name}/users/{user_id}/sessions/{session_id}"
_EVENT_ID = "gcp.vertex.agent.event_id"


class ExplainRequest(Body):
    """A message that might be sent, and which agent of the app is meant (the one whose turn it is)."""

    new_message: Content | None = None
    agent: str | None = None


@router.get(_D + "/events/{event_id}/request")
async def event_request(request: Request, app_name: str, user_id: str, session_id: str, event_id: str) -> Response:
    """What the model was asked that led to an event, who wrote which part of it, and what is new in it."""
    session = await session_of(request, app_name, user_id, session_id)
    calls = _calls(request, app_name, user_id, session_id)
    at = _index_of(calls, event_id, next((each for each in session.events if each.id == event_id), None))
    if at is None:  # it was made before this server was started, or it is not kept any more
        return answer(b"null")
    call = calls[at]
    before = next((each for each in reversed(calls[:at]) if _agent(each) == _agent(call)), None)
    return _answer(cast(Assembly, call.assembly), before, _event_id(call), call.run[3])


@router.post(_D + "/explain")
async def explain_message(
    request: Request, app_name: str, user_id: str, session_id: str, body: ExplainRequest
) -> Response:
    """What a model would be asked if this message was sent; nothing is sent, and nothing is stored."""
    session = await session_of(request, app_name, user_id, session_id)
    served = served_of(request)
    app = await served.app_of(app_name)
    meant: Any = app
    if body.agent is not None and body.agent != app.root_agent.name:
        meant = app.root_agent.find_agent(body.agent)
        if meant is None:
            raise ProblemError(404, "agent_not_found", f"App `{app_name}` has no agent `{body.agent}`.")
    try:
        assembly = await explain(
            meant,
            body.new_message,
            session=session,
            run_config=RunConfig(),
            plugins=served.plugins,
            artifact_service=served.artifacts,
            memory_service=served.memory,
        )
    except ProblemError:
        raise
    except Exception as error:
        code = "invalid_message" if isinstance(error, InputValidationError) else "cannot_explain"
        raise ProblemError(400, code, error_text(error)) from error
    calls = _calls(request, app_name, user_id, session_id)
    before = next((each for each in reversed(calls) if _agent(each) == assembly.agent), None)
    return _answer(assembly, before, None, None)


@router.get(_D + "/trace")
async def trace(request: Request, app_name: str, user_id: str, session_id: str) -> Response:
    """The finished spans of the session's runs, with those of processors."""
    await session_of(request, app_name, user_id, session_id)
    spans = development_of(request).spans.spans_of(app=app_name, user=user_id, session=session_id)
    listed = sorted(spans, key=lambda span: span.start)
    known = {span.span_id for span in listed}
    return answer(public_json(json_bytes([_shown(span, known) for span in listed])))


def _calls(request: Request, app_name: str, user_id: str, session_id: str) -> list[SeenSpan]:
    """The model calls of a session, in order, of which it is known how they came about."""
    spans = development_of(request).spans.spans_of(app=app_name, user=user_id, session=session_id)
    return sorted((span for span in spans if span.making is not None), key=lambda span: span.start)


def _index_of(calls: list[SeenSpan], event_id: str, event: Event | None) -> int | None:
    """Which call led to an event: the one that it answers, else the last one of its agent before it."""
    for at, call in enumerate(calls):
        if call.attributes.get(_EVENT_ID) == event_id:
            return at
    if event is None or event.author == "user":
        return None
    found = [
        at
        for at, call in enumerate(calls)
        if call.run[3] == event.invocation_id and _agent(call) == event.author and call.start <= event.timestamp * 1e9
    ]
    return found[-1] if found else None


def _agent(call: SeenSpan) -> str:
    return call.attributes.get("gen_ai.agent.name", "")


def _event_id(call: SeenSpan) -> str | None:
    return call.attributes.get(_EVENT_ID)


def _answer(assembly: Assembly, before: SeenSpan | None, event_id: str | None, invocation_id: str | None) -> Response:
    difference = None if before is None or before.assembly is None else _difference(diff(before.assembly, assembly))
    told = {
        **assembly.to_dict(),
        "event_id": event_id,
        "invocation_id": invocation_id,
        "previous_event_id": None if before is None else _event_id(before),
        "difference": difference,
    }
    return answer(public_json(json_bytes(told)))


def _difference(found: RequestDiff) -> dict[str, Any]:
    return {
        "differences": [
            {"path": each.path, "by": each.by, "kind": each.kind, "before": each.before, "after": each.after}
            for each in found.differences
        ],
        "prefix_broken_by": None if found.prefix_broken_by is None else found.prefix_broken_by.path,
        "contents_kept": found.contents_kept,
        "older_contents": found.older_contents,
    }


def _shown(span: SeenSpan, known: set[int]) -> dict[str, Any]:
    assert span.end is not None
    return {
        "traceId": f"{span.trace_id:032x}",
        "spanId": f"{span.span_id:016x}",
        "parentSpanId": f"{span.parent_id:016x}" if span.parent_id in known else None,
        "name": span.name,
        "kind": span.kind,
        "startTime": span.start / 1e9,
        "endTime": span.end / 1e9,
        "microseconds": round((span.end - span.start) / 1000, 1),
        "invocationId": span.run[3],
        "eventId": _event_id(span),
        "agent": span.attributes.get("gen_ai.agent.name"),
        "error": span.error,
        "attributes": span.attributes,
    }
