"""Times as a store gives them back."""

from __future__ import annotations

from pathlib import Path

from flowloom import Event, SqliteSessionService
from flowloom.events.parts import content_of, text_part
from flowloom.sessions.service import GetSessionConfig


async def test_an_event_is_among_those_at_or_after_its_own_time(tmp_path: Path) -> None:
    """Whatever the clock's last digits were: they are given back rounded."""
    where = {"app_name": "app", "user_id": "ann", "session_id": "s1"}
    writer = SqliteSessionService(tmp_path / "db")
    session = await writer.create_session(**where)
    for number in range(20):
        content = content_of("user", [text_part(str(number))])
        time = 1_795_257_629.44 + number * 1.00000027
        await writer.append_event(session, Event(author="user", invocation_id="i", content=content, timestamp=time))
    await writer.close()
    reader = SqliteSessionService(tmp_path / "db")
    read = await reader.get_session(**where)
    assert read is not None
    for index, event in enumerate(read.events):
        found = await reader.get_session(**where, config=GetSessionConfig(after_timestamp=event.timestamp))
        assert found is not None
        assert [each.id for each in found.events] == [each.id for each in read.events[index:]]
    await reader.close()
