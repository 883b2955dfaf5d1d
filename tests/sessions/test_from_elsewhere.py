"""What every store makes of sessions and events that come from elsewhere, and are not as the engine makes them."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from flowloom import Event, EventActions, InputValidationError, Session
from flowloom.errors import JsonDataError
from sessions.stores import Open, open_store

__all__ = ["open_store"]

NAMES: Any = {"app_name": "app", "user_id": "ann"}


def said(text: str, **fields: Any) -> Event:
    return Event(author="user", content=types.UserContent(text), **fields)


def texts(session: Session | None) -> list[str | None]:
    assert session is not None
    return [event.text for event in session.events]


@pytest.mark.parametrize("missing", NAMES)
async def test_a_session_without_an_owner_is_not_imported(missing: str, open_store: Open) -> None:
    """What it has of a user would be seen by all of the app's."""
    service = open_store()
    session = Session(id="s1", **{**NAMES, missing: ""}, state={"user:diet": "none"})
    with pytest.raises(InputValidationError, match="empty"):
        await service.import_session(session)
    assert (await service.create_session(**NAMES)).state == {}


async def test_imported_state_is_json_data(open_store: Open) -> None:
    """Of a session that cannot be kept so, nothing is stored."""
    service = open_store()
    given: dict[str, Any] = {"set": {1}, "user:pair": (1, 2), "nan": float("nan"), "temp:o": object()}
    made = await service.import_session(Session(id="s1", **NAMES, state=given))
    assert made.state == {"set": [1], "user:pair": [1, 2], "nan": "NaN"}
    bad = EventActions(state_delta={"desk": object()})
    for wrong in (
        {"state": {"desk": object()}},
        {"events": [said("a"), said("b", actions=bad)], "state": {"app:n": 1}},
    ):
        with pytest.raises(JsonDataError, match="`desk`"):
            await service.import_session(Session(id="s2", **NAMES, **wrong))
    assert await service.get_session(**NAMES, session_id="s2") is None
    assert "app:n" not in (await service.create_session(**NAMES)).state


async def test_events_without_an_id_are_events_of_their_own(open_store: Open) -> None:
    """An empty id names no event: none is taken for another, and a log that was imported before is known again."""
    service = open_store()
    session = await service.create_session(**NAMES, session_id="s1")
    stored = [await service.append_event(session, said(text, id="")) for text in ("a", "b")]
    stored.append(await service.append_buffered(session, said("c", id="")))
    assert texts(session) == texts(await service.get_session(**NAMES, session_id="s1")) == ["a", "b", "c"]
    assert len({event.id for event in stored} - {""}) == 3
    session = Session(id="s2", **NAMES, events=[said("a", id=""), said("b", id="")])
    for _ in range(2):
        assert texts(await service.import_session(session)) == ["a", "b"]


async def test_an_event_that_is_there_is_given_as_it_is_stored(open_store: Open) -> None:
    service = open_store()
    session = await service.create_session(**NAMES, session_id="s1")
    await service.append_event(session, said("first", id="e1"))
    again = said("second", id="e1", actions=EventActions(state_delta={"n": 1}))
    assert (await service.append_event(session, again)).text == "first"
    stored = await service.get_session(**NAMES, session_id="s1")
    assert stored is not None
    assert (texts(stored), stored.state) == (["first"], {})
