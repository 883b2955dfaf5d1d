"""Sessions page by page, and searched (server spec §12, helpers)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from flowloom.events.event import Event
from flowloom.events.parts import parts_of
from flowloom.interop.run_ends import ABORTED
from flowloom.runner.pending import pending_calls
from flowloom.server.problems import ProblemError, session_not_found
from flowloom.server.served import Served
from flowloom.server.served_run import Key
from flowloom.server.wire import json_bytes, session_json
from flowloom.sessions import GetSessionConfig, Session

_METADATA = "__session_metadata__"
_RECENT = 20
"""Among how many of the last events of a session its last words, and what it waits for, are looked for."""
_MOST_WORDS = 200


async def page_of(served: Served, sessions: Sequence[Session], limit: int, after: str | None, words: str) -> bytes:
    """The JSON of `limit` of the sessions, the latest first: those behind the session `after`, in which all `words` are
    found. Raises `ProblemError` (404) if `after` is not among them."""
    latest = sorted(sessions, key=lambda each: (each.last_update_time, each.id), reverse=True)
    if after is not None:
        ids = [each.id for each in latest]
        if after not in ids:
            raise session_not_found()
        latest = latest[ids.index(after) + 1 :]
    wanted, shown = words.lower().split(), list[bytes]()
    names = {(each.app_name, each.user_id) for each in latest}
    busy = {(*name, session_id) for name in names for session_id in await served.runs.sessions_of(*name)}
    for each in latest:
        if len(shown) == limit:
            break
        config = None if wanted else GetSessionConfig(num_recent_events=_RECENT)
        whole = await served.sessions.get_session(
            app_name=each.app_name, user_id=each.user_id, session_id=each.id, config=config
        )
        if whole is not None and _has(whole, wanted):
            shown.append(session_json(each)[:-1] + b"," + json_bytes(_seen_of(whole, busy))[1:])
    return b"[" + b",".join(shown) + b"]"


def events_behind(events: Sequence[Event], after: str | None, limit: int | None) -> Sequence[Event]:
    """The first `limit` events behind the one `after`, or of all. Raises `ProblemError` (404) if there is none such."""
    start = 0
    if after is not None:
        start = next((at for at, event in enumerate(events, 1) if event.id == after), 0)
        if not start:
            raise event_not_found(after)
    return events[start : None if limit is None else start + limit]


def event_not_found(event_id: str) -> ProblemError:
    """What is told of an event that a session has not."""
    return ProblemError(404, "event_not_found", f"The session has no event `{event_id}`.")


def _has(session: Session, wanted: list[str]) -> bool:
    if not wanted:
        return True
    metadata = session.state.get(_METADATA)
    name = cast(dict[str, Any], metadata).get("displayName") if isinstance(metadata, dict) else None
    text = "\n".join([session.id, str(name or ""), *map(_text_of, session.events)]).lower()
    return all(word in text for word in wanted)


def _text_of(event: Event) -> str:
    parts = parts_of(event.content)
    return "".join(part.text for part in parts if part.text and not part.thought)


def _seen_of(session: Session, busy: Collection[Key]) -> dict[str, str]:
    """What a list tells of a session beside its state: what it is doing, and the last words in it."""
    words = next((text for event in reversed(session.events) if (text := _text_of(event).strip())), None)
    return {"status": _status_of(session, busy)} | ({} if words is None else {"lastWords": words[:_MOST_WORDS]})


def _status_of(session: Session, busy: Collection[Key]) -> str:
    """`running`, `paused` for one that waits for an answer, `failed` if its last run has, else `idle`."""
    if (session.app_name, session.user_id, session.id) in busy:
        return "running"
    if pending_calls(session.events):
        return "paused"
    code = session.events[-1].error_code if session.events else None
    return "failed" if code is not None and code != ABORTED else "idle"
