"""Runs: begun, followed, listed and cancelled (server spec §4, §5, §9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from google.genai import types
from pydantic import Field
from pydantic_core import from_json
from starlette.types import ASGIApp, Receive, Scope, Send

from flowloom.asgi.protocol import path_of
from flowloom.context import RunConfig, StreamingMode
from flowloom.events.wire import copier
from flowloom.runner.pending import PendingCall, pending_calls
from flowloom.runner.runner import RunArguments
from flowloom.server.bodies import body_of, with_body
from flowloom.server.event_streams import EventStream, RunList
from flowloom.server.failures import shutting_down
from flowloom.server.frames import Frame, Place, frames_of, is_said_by_run, read_place
from flowloom.server.places import Places
from flowloom.server.problems import ProblemError, session_not_found
from flowloom.server.served import Served, admit, served_of
from flowloom.server.served_run import Key, ServedRun, StoredFrames, answered_calls
from flowloom.server.sessions import NO_EVENTS, make_session, session_of
from flowloom.server.wire import INTERNAL, Body, Content, answer, json_bytes, public_data
from flowloom.sessions import Session

_S = "/apps/{app_name}/users/{user_id}/sessions/{session_id}"
_BEGINNING_SECONDS = 1.0
"""How long a stream waits for its run to begin, so that a refusal is an answer of its own."""
_READY_SECONDS = 5.0
_FAILED = "flowloom.failed"
"""What the operation of a request has raised."""
_JSON = (b"content-type", b"application/json")
_config = copier(RunConfig(streaming_mode=StreamingMode.NONE, custom_metadata=None, service_tier=None))

_Name = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""What a store can be asked for."""


class RunRequest(Body):
    """A message to an agent, or what resumes a run of it."""

    app_name: str | None = None
    user_id: _Name
    session_id: _Name
    new_message: Content | None = None
    streaming: bool = False
    """Whether the model's tokens are sent as they come."""
    state_delta: dict[str, Any] | None = None
    """What the user's event changes in the state."""
    function_call_event_id: str | None = None
    invocation_id: str | None = Field(default=None, max_length=256, pattern=r"^[^\s\x00-\x1f\x7f]*$")
    """The invocation to be resumed. It stands in the id of each frame, which is a line."""
    custom_metadata: dict[str, Any] | None = None
    """What every event of the run carries."""
    service_tier: str | None = None
    """What the provider is asked for: `flex`, `priority` or another of its tiers."""


Grace = Annotated[float | None, Query(ge=0, le=60)]


class _Known(APIRoute):
    """An operation that `PlainRuns` answers, as the document of all operations and FastAPI know it."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has not been answered. What it raises is answered by the handlers of the
        application."""
        failed: Exception | None = scope.get(_FAILED)
        if failed is not None:
            raise failed
        await super().handle(scope, receive, send)


class PlainRuns:
    """Begins the runs whose requests fit: an operation `(request, RunRequest)` of `_Known` with a JSON body that can be
    read, and no query. All else, and what fails, goes on to `app`, FastAPI's, which says what is wrong.

    FastAPI would take as long as a short run, and memory as long as a stream is open.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._known = {route.path: route.endpoint for route in KNOWN}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or _JSON not in scope["headers"]:
            await self._app(scope, receive, send)
            return
        operation = None if scope["query_string"] else self._known.get(path_of(scope))
        if operation is None:
            await self._app(scope, receive, send)
            return
        data = await body_of(receive)
        if data is None:
            return
        respond = await self._begun(operation, data, scope, receive)
        await respond(scope, receive, send)

    async def _begun(
        self, operation: Callable[..., Awaitable[ASGIApp]], data: bytes, scope: Scope, receive: Receive
    ) -> ASGIApp:
        """What answers a request."""
        try:
            body = RunRequest.model_validate(from_json(data))
        except ValueError:
            return lambda scope, receive, send: self._app(scope, with_body(data, receive), send)
        try:
            return await operation(Request(scope, receive), body)
        except Exception as error:
            scope[_FAILED] = error
            return self._app


router = APIRouter(tags=["runs"])


async def run(request: Request, body: RunRequest) -> Response:
    """Run an agent; the events of the run, when it is over."""
    body.streaming = False
    begun = await _begin(request, body, split=False)
    return RunList(begun, dev=served_of(request).settings.dev)


async def run_sse(request: Request, body: RunRequest, resume_grace: Grace = None) -> Response:
    """Run an agent; its events as they happen, as server-sent events."""
    return await _stream(request, body, grace=resume_grace)


KNOWN = (
    _Known("/run", run, methods=["POST"], tags=["runs"]),
    _Known("/run_sse", run_sse, methods=["POST"], tags=["runs"]),
)
"""The operations that `PlainRuns` answers."""


@router.post("/apps/{app_name}/run")
async def run_legacy(request: Request, app_name: str, body: RunRequest, resume_grace: Grace = None) -> Response:
    """Run an agent; its events in the flat form, as server-sent events, or as a list for those who accept JSON."""
    if body.app_name not in (None, app_name):
        raise ProblemError(400, "bad_request", f"The path names app `{app_name}`, and the body `{body.app_name}`.")
    body.app_name = app_name
    accepted = request.headers.get("accept", "")
    if "application/json" in accepted and "text/event-stream" not in accepted:
        body.streaming = False
        begun = await _begin(request, body, split=False)
        return RunList(begun, dev=served_of(request).settings.dev, legacy=True)
    return await _stream(request, body, grace=resume_grace, legacy=True)


@router.get(_S + "/runs")
async def list_runs(request: Request, app_name: str, user_id: str, session_id: str) -> Response:
    """The runs of a session that are under way, that wait for these, and that wait for an answer."""
    session = await session_of(request, app_name, user_id, session_id)
    found = await served_of(request).runs.listed((app_name, user_id, session_id))
    shown: list[dict[str, Any]] = [
        {
            "invocationId": each.invocation_id,
            "status": each.status,
            "waitsFor": each.waits_for,
            "position": each.position,
            "pending": [],
        }
        for each in found
        if each.status != "paused"
    ]
    under_way = {each["invocationId"] for each in shown}
    paused: dict[str, list[dict[str, Any]]] = {
        each.invocation_id or "": [] for each in found if each.status == "paused"
    }
    for call in pending_calls(session.events):
        if call.invocation_id not in under_way:
            paused.setdefault(call.invocation_id, []).append(_shown(call))
    shown += [{"invocationId": each, "status": "paused", "pending": calls} for each, calls in paused.items()]
    return answer(json_bytes([{key: value for key, value in each.items() if value is not None} for each in shown]))


@router.post(_S + "/cancel")
async def cancel_run(request: Request, app_name: str, user_id: str, session_id: str) -> dict[str, bool]:
    """Cancel the run of a session; the answer comes when it has ended."""
    await session_of(request, app_name, user_id, session_id, NO_EVENTS)
    return {"cancelled": await served_of(request).runs.cancel((app_name, user_id, session_id))}


@router.get(_S + "/runs/{invocation_id}/events")
async def follow_run(
    request: Request,
    app_name: str,
    user_id: str,
    session_id: str,
    invocation_id: str,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """The events of a run behind the one of `Last-Event-ID`, as server-sent events: those that come, too."""
    session = await session_of(request, app_name, user_id, session_id)
    served = served_of(request)
    served.runs.check_streams()
    place = read_place(last_event_id, invocation_id) if last_event_id else None
    if last_event_id and place is None:
        raise ProblemError(400, "invalid_event_id", f"`Last-Event-ID` names no event of run `{invocation_id}`.")
    places = await served.places_of(app_name)
    reader = await served.runs.follow(session, invocation_id, place, places)
    if reader is not None:
        return EventStream(served.runs, reader, served.settings.keep_alive)
    session = await session_of(request, app_name, user_id, session_id)  # with what the run has said meanwhile
    on_one_line = invocation_id.split() == [invocation_id]  # as an id of a frame has to be
    if not on_one_line or all(event.invocation_id != invocation_id for event in session.events):
        raise ProblemError(404, "run_not_found", f"The session has no run `{invocation_id}`.")
    frames = _stored_frames(session, invocation_id, places)
    return EventStream(
        served.runs,
        StoredFrames([frame for frame in frames if place is None or frame.place > place]),
        served.settings.keep_alive,
    )


@router.get("/ready")
async def ready(request: Request) -> Response:
    """Whether runs are taken: the store answers, and the server does not stop; how many workers a fleet has."""
    served = served_of(request)
    if served.runs.stopping:
        raise shutting_down()
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await served.sessions.get_session(
                app_name="flowloom",
                user_id="flowloom",
                session_id="ready",
                config=NO_EVENTS,
            )
            workers = {} if served.fleet is None else {"workers": await served.fleet.workers()}
    except Exception as error:
        raise ProblemError(503, "not_ready", f"The session store does not answer: {type(error).__name__}.") from error
    return answer(json_bytes({"status": "ready", **workers}))


# -- beginning -------------------------------------------------------------------------------------------


async def _stream(request: Request, body: RunRequest, *, grace: float | None, legacy: bool = False) -> Response:
    served = served_of(request)
    served.runs.check_streams()
    begun = await _begin(request, body, split=not legacy and not body.function_call_event_id, grace=grace)
    reader = begun.read()
    if begun.started:
        with suppress(TimeoutError):
            async with asyncio.timeout(_BEGINNING_SECONDS):
                await begun.begun.wait()
    refusal = begun.refusal()
    if refusal is not None:
        raise refusal
    return EventStream(served.runs, reader, served.settings.keep_alive, legacy=legacy)


async def _begin(request: Request, body: RunRequest, *, split: bool, grace: float | None = None) -> ServedRun:
    """The run that a request asks for. Raises `ProblemError` if it cannot be."""
    served = served_of(request)
    app_name = body.app_name or served.apps.default
    if not app_name:
        raise ProblemError(400, "app_not_found", "`appName` is missing, and there is no default app.")
    admit(request, app_name)
    await served.runs.check(app_name)
    admit(request, app_name, body.user_id)
    _check_message(body.new_message)
    key = await _session_key(served, (app_name, body.user_id, body.session_id), body.new_message)
    metadata = {key: value for key, value in (body.custom_metadata or {}).items() if not key.startswith(INTERNAL)}
    mode = StreamingMode.SSE if body.streaming else StreamingMode.NONE
    config = _config(streaming_mode=mode, custom_metadata=metadata or None, service_tier=body.service_tier)
    if served.settings.max_llm_calls is not None:
        config = config.model_copy(update={"max_llm_calls": served.settings.max_llm_calls})
    arguments: RunArguments = {
        "user_id": body.user_id,
        "session_id": key[2],
        "invocation_id": body.invocation_id or None,
        "new_message": body.new_message,
        "state_delta": body.state_delta,
        "run_config": config,
    }
    places = await served.places_of(app_name)
    return await served.runs.begin(key, arguments, places=places, grace=grace, split=split)


def _check_message(message: types.Content | None) -> None:
    if message is None:
        return
    if message.role not in (None, "user"):
        raise _invalid(f"`newMessage` has the role `{message.role}`. Messages of users have the role `user`.")
    if not message.parts or not any(part.model_fields_set for part in message.parts):
        raise _invalid("`newMessage` has no parts. Give it a text, a file, or a function response.")


async def _session_key(served: Served, key: Key, message: types.Content | None) -> Key:
    """The session to be run, which is there, and made the calls that a message answers."""
    app_name, user_id, session_id = key
    answered = answered_calls(message)
    session = await served.sessions.get_session(
        app_name=app_name,
        user_id=user_id,
        session_id=session_id,
        config=None if answered else NO_EVENTS,
    )
    if session is None:
        if not served.settings.auto_create_session:
            raise session_not_found()
        session = await _session_made(served, key)
    if answered:
        made = {call.id for event in session.events for call in event.get_function_calls()}
        for each in answered:
            if each not in made:
                raise _invalid(f"`newMessage` answers the call `{each}`, which this session has not made.")
    return app_name, user_id, session.id


async def _session_made(served: Served, key: Key) -> Session:
    """A session that a run makes, or that another one has made at the same time."""
    app_name, user_id, session_id = key
    try:
        return await make_session(served, app_name, user_id, session_id)
    except ProblemError as problem:
        found = None
        if problem.code == "session_exists":
            found = await served.sessions.get_session(app_name=app_name, user_id=user_id, session_id=session_id.strip())
        if found is None:
            raise
        return found


def _invalid(detail: str) -> ProblemError:
    return ProblemError(400, "invalid_message", detail)


# -- what is shown ----------------------------------------------------------------------------------------


def _shown(call: PendingCall) -> dict[str, Any]:
    """A call that waits, without what its tool keeps."""
    shown: dict[str, Any] = {
        "id": call.id,
        "kind": call.kind,
        "name": call.name,
        "args": call.args,
        "agent": call.agent,
        "message": call.message or None,
        "payload": call.payload,
        "responseSchema": call.response_schema,
        "authorizationUrl": call.authorization_url if call.kind == "credential" else None,
    }
    return public_data({key: value for key, value in shown.items() if value is not None})


def _stored_frames(session: Session, invocation_id: str, places: Places) -> list[Frame]:
    """The frames of what a session has of a run that is over."""
    frames: list[Frame] = []
    asked = {call_id for event in session.events for call_id in event.long_running_tool_ids or ()}
    for number, event in enumerate(session.events, 1):
        if event.invocation_id == invocation_id and is_said_by_run(event, asked):
            frames += frames_of(event, Place(number, 0), places, split=True)
    return frames
