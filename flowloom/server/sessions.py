"""Sessions: made, listed, read, changed and deleted (server spec §3, 6 to 11)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request
from fastapi import Body as FromBody
from fastapi.responses import Response
from pydantic import Field

from flowloom.errors import AlreadyExistsError, HistoryError, JsonDataError, SessionNotFoundError
from flowloom.events import Event, EventActions
from flowloom.events.ids import new_id
from flowloom.events.wire import make
from flowloom.server.problems import ProblemError, session_not_found
from flowloom.server.restored import restored_events
from flowloom.server.served import Served, admit, development_of, served_of
from flowloom.server.session_pages import event_not_found, events_behind, page_of
from flowloom.server.wire import Body, answer, session_json
from flowloom.sessions import BaseSessionService, GetSessionConfig, Session

_log = logging.getLogger("flowloom.server")
_S = "/apps/{app_name}/users/{user_id}/sessions"
_SESSION_ID = re.compile(r"[\w.:@~+-]{1,128}")
_STEPS = (".", "..")
"""What browsers take out of an address, however it is written."""
_PAGE = 50
"""How many sessions a page has that does not say."""
NO_EVENTS = GetSessionConfig(num_recent_events=0)
"""How a session is asked for of which only is to be known whether it is there."""
_EVALUATIONS = ("adk-eval-session-", "___eval___session___")
"""How the ids of sessions begin that evaluations make."""

router = APIRouter(tags=["sessions"])


class NewSession(Body):
    """What a session begins with."""

    session_id: str | None = None
    state: dict[str, Any] | None = None
    events: list[Any] | None = None
    """Events of another session, appended as they are."""
    options: dict[str, Any] | None = None
    """Options of the store; these have none."""


class StateChange(Body):
    """A change of a session's state, without a run."""

    state_delta: dict[str, Any] = Field()


class Fork(Body):
    """The last event that a fork of a session has (all of them without one), and the id of the fork."""

    through_event_id: str | None = None
    session_id: str | None = None


@router.post(_S)
async def create_session(
    request: Request, app_name: str, user_id: str, body: Annotated[NewSession | None, FromBody()] = None
) -> Response:
    """Make a session."""
    given = body or NewSession()
    if given.options:
        names = ", ".join(f"`{name}`" for name in given.options)
        raise ProblemError(400, "invalid_options", f"Sessions have no options here, and {names} were given.")
    events = restored_events(given.events or ())
    session = await _created(request, app_name, user_id, given.session_id, given.state)
    if events:
        await _append(served_of(request).sessions, session, events)
    return answer(session_json(session, session.events, await served_of(request).places_of(app_name)))


@router.post(_S + "/{session_id}")
async def create_session_with_id(
    request: Request,
    app_name: str,
    user_id: str,
    session_id: str,
    state: Annotated[dict[str, Any] | None, FromBody()] = None,
) -> Response:
    """Make a session of this id; the body is its state."""
    session = await _created(request, app_name, user_id, session_id, state)
    return answer(session_json(session, session.events, await served_of(request).places_of(app_name)))


@router.get(_S)
async def list_sessions(
    request: Request,
    app_name: str,
    user_id: str,
    limit: Annotated[int | None, Query(ge=1, le=1000)] = None,
    after: str | None = None,
    q: str | None = None,
) -> Response:
    """The sessions of a user, without their events. With `limit`, `after` (a session) or `q` (words), those of a page,
    the latest first."""
    admit(request, app_name, user_id)
    served = served_of(request)
    found = await served.sessions.list_sessions(app_name=app_name, user_id=user_id)
    sessions = [each for each in found.sessions if not each.id.startswith(_EVALUATIONS)]
    if (limit, after, q) != (None, None, None):
        return answer(await page_of(served, sessions, limit or _PAGE, after, q or ""))
    return answer(b"[" + b",".join(map(session_json, sessions)) + b"]")


@router.get(_S + "/{session_id}")
async def get_session(
    request: Request,
    app_name: str,
    user_id: str,
    session_id: str,
    after_event_id: Annotated[str | None, Query(alias="afterEventId")] = None,
    limit: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """A session with all its events, or the first `limit` behind the event `afterEventId`."""
    session = await session_of(request, app_name, user_id, session_id)
    events = events_behind(session.events, after_event_id, limit)
    return answer(session_json(session, events, await served_of(request).places_of(app_name)))


@router.patch(_S + "/{session_id}")
async def update_session(request: Request, app_name: str, user_id: str, session_id: str, body: StateChange) -> Response:
    """Change the state of a session, by one more event."""
    session = await session_of(request, app_name, user_id, session_id)
    event = make(
        Event,
        author="user",
        invocation_id=f"p-{new_id()}",
        actions=make(EventActions, state_delta=body.state_delta),
    )
    try:
        await served_of(request).sessions.append_event(session, event)
    except JsonDataError as error:
        raise ProblemError(400, "invalid_state", str(error)) from error
    return answer(session_json(session, session.events, await served_of(request).places_of(app_name)))


@router.delete(_S + "/{session_id}")
async def delete_session(request: Request, app_name: str, user_id: str, session_id: str) -> Response:
    """Delete a session, if there is one."""
    admit(request, app_name, user_id)
    await served_of(request).runs.cancel((app_name, user_id, session_id), all_of_them=True)
    await served_of(request).sessions.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)
    if served_of(request).settings.dev:
        development_of(request).spans.forget(app_name, user_id, session_id)
    return answer(b"null")


@router.post(_S + "/{session_id}/fork")
async def fork_session(
    request: Request, app_name: str, user_id: str, session_id: str, body: Annotated[Fork | None, FromBody()] = None
) -> Response:
    """A new session that begins like another one."""
    await session_of(request, app_name, user_id, session_id, NO_EVENTS)
    served, given = served_of(request), body or Fork()
    new_id = session_id_of(given.session_id)
    try:
        made = await served.sessions.fork(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            new_session_id=new_id,
            up_to_event_id=given.through_event_id,
        )
    except SessionNotFoundError as error:
        raise session_not_found() from error
    except HistoryError as error:
        raise event_not_found(given.through_event_id or "") from error
    except AlreadyExistsError as error:
        raise ProblemError(409, "session_exists", f"Session already exists: {new_id}") from error
    return answer(session_json(made, made.events, await served.places_of(app_name)))


async def session_of(
    request: Request, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
) -> Session:
    """The session that a path names, with all events or those of `config`. Raises `ProblemError` (404) if there is
    none, or it is another's."""
    admit(request, app_name, user_id)
    session = await served_of(request).sessions.get_session(
        app_name=app_name, user_id=user_id, session_id=session_id, config=config
    )
    if session is None:
        raise session_not_found()
    return session


async def _append(service: BaseSessionService, session: Session, events: Sequence[Event]) -> None:
    """Store the events of a new session, or neither them nor the session. Raises `ProblemError` (400)."""
    try:
        for event in events:
            await service.append_buffered(session, event)
        await service.flush()
    except JsonDataError as error:
        await service.delete_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
        raise ProblemError(400, "invalid_event", str(error)) from error


async def _created(
    request: Request, app_name: str, user_id: str, session_id: str | None, state: dict[str, Any] | None
) -> Session:
    admit(request, app_name, user_id)
    served = served_of(request)
    await served.check_app(app_name)
    return await make_session(served, app_name, user_id, session_id, state)


async def make_session(
    served: Served, app_name: str, user_id: str, session_id: str | None, state: dict[str, Any] | None = None
) -> Session:
    """A new session of an app that is there; without an id, or with an empty one, it is given one.

    Raises `ProblemError`: 400 for an id or a state that cannot be kept, 409 if there is such a session.
    """
    session_id = session_id_of(session_id)
    state = {**_initial_state(served, app_name), **(state or {})}
    try:
        return await served.sessions.create_session(
            app_name=app_name, user_id=user_id, state=state, session_id=session_id
        )
    except AlreadyExistsError as error:
        raise ProblemError(409, "session_exists", f"Session already exists: {session_id}") from error
    except JsonDataError as error:
        raise ProblemError(400, "invalid_state", str(error)) from error


def session_id_of(given: str | None) -> str | None:
    """The id that a session is to have, trimmed; None for one that is made. Raises `ProblemError` (400) for one that a
    path cannot name."""
    session_id = (given or "").strip() or None
    if session_id is not None and (session_id in _STEPS or not _SESSION_ID.fullmatch(session_id)):
        raise ProblemError(
            400,
            "invalid_session_id",
            "The id of a session has 1 to 128 letters, digits and the characters . : @ ~ + - _, and is not `.` or `..`",
        )
    return session_id


def _initial_state(served: Served, app_name: str) -> dict[str, Any]:
    """What `initial_state.json` of an app's folder says: for sessions that are made through a development server."""
    folder = served.apps.folder_of(app_name) if served.settings.dev else None
    if folder is None:
        return {}
    file = folder / "initial_state.json"
    try:
        state: Any = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("`%s` cannot be read, and sessions begin without it: %s", file, error)
        return {}
    if not isinstance(state, dict):
        _log.warning("`%s` holds no object, and sessions begin without it.", file)
        return {}
    return cast(dict[str, Any], state)
