"""The rules of a session's log: what is appended is there, once, in order, whole, whoever appends."""

from __future__ import annotations

import asyncio
import json

from google.genai import types

from flowloom.events import Event, EventActions, NodeInfo, ToolConfirmation
from flowloom.events.parts import parts_of
from flowloom.sessions import Session
from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.session_place import SessionRules, expect_not_found, said, texts_of

_LARGE = 1_000_000


class EventRules(SessionRules):
    """The rules of appending and loading events."""

    @in_loop
    async def test_an_appended_event_is_in_the_session_and_in_the_store(self) -> None:
        """`append_event` puts the event into the session it is given, and into those that are loaded later."""
        place = await self.place()
        session = await place.create("s1")
        event = said("x")
        returned = await place.service.append_event(session, event)
        assert returned.id == event.id, "`append_event` returned another event than the one it was given."
        assert texts_of(session) == ["x"], f"The session at hand has the events {texts_of(session)}, not the new one."
        found = texts_of(await place.get("s1"))
        assert found == ["x"], f"A session loaded afterwards has the events {found}, not the new one."

    @in_loop
    async def test_events_keep_the_order_in_which_they_were_appended(self) -> None:
        """The log is in the order of appending, whatever the events' times and ids say."""
        place = await self.place()
        session = await place.create("s1")
        expected = [str(number) for number in range(20)]
        for number, text in enumerate(expected):
            await place.service.append_event(session, said(text, timestamp=1_700_000_000.0 - 10 * number))
        for which, events in (("at hand", session), ("loaded", await place.get("s1"))):
            assert texts_of(events) == expected, f"The session {which} has its events in the order {texts_of(events)}."

    @in_loop
    async def test_the_last_update_is_the_time_of_the_last_event(self) -> None:
        """`last_update_time` is the timestamp of the event that was appended last."""
        place = await self.place()
        session = await place.create("s1")
        await place.service.append_event(session, said("x", timestamp=1_700_000_000.25))
        for which, updated in (("at hand", session), ("loaded", await place.get("s1"))):
            moment = updated.last_update_time
            assert abs(moment - 1_700_000_000.25) < 1e-3, f"The session {which} says it was last updated at {moment}."

    @in_loop
    async def test_partial_events_are_not_stored(self) -> None:
        """`append_event` of a partial event changes neither the session nor the store."""
        place = await self.place()
        session = await place.create("s1")
        await place.service.append_event(session, said("half", {"a": 1}, partial=True))
        for which, found in (("at hand", session), ("loaded", await place.get("s1"))):
            assert found.events == [], f"The session {which} holds a partial event."
            assert found.state == {}, f"The session {which} took state from a partial event: {found.state!r}."

    @in_loop
    async def test_appending_an_event_again_changes_nothing(self) -> None:
        """An event whose id is stored already is stored once, and its change of state is not made again."""
        place = await self.place()
        session = await place.create("s1")
        first = said("one", {"n": 1})
        for event in (first, said("two", {"n": 2}), first):
            await place.service.append_event(session, event)
        await place.service.append_event(await place.get("s1"), first)
        for which, found in (("at hand", session), ("loaded", await place.get("s1"))):
            assert texts_of(found) == ["one", "two"], f"After a repeat, the session {which} has {texts_of(found)}."
            assert found.state == {"n": 2}, f"A repeat made its change of state again in the session {which}."

    @in_loop
    async def test_an_event_id_may_be_in_two_sessions(self) -> None:
        """Event ids are told apart by session: a copy of a conversation keeps its ids."""
        place = await self.place()
        event = said("x")
        for session_id in ("s1", "s2"):
            await place.service.append_event(await place.create(session_id), event)
        found = [texts_of(await place.get(session_id)) for session_id in ("s1", "s2")]
        assert found == [["x"], ["x"]], f"One event, appended to two sessions, is in them as {found}."

    @in_loop
    async def test_appending_to_an_unknown_session_is_an_error(self) -> None:
        """`append_event` raises `SessionNotFoundError` for a session that was never created."""
        place = await self.place()
        unknown = Session(id="nope", app_name=place.app, user_id=place.user)
        await expect_not_found(place.append(unknown, "x"), "a session that was never created")
        assert await place.find("nope") is None, "Appending to a session that was never created made it."

    @in_loop
    async def test_concurrent_appends_lose_nothing(self) -> None:
        """What many tasks append to one session at once is all there, each task's events in its order."""
        place = await self.place()
        session = await place.create("s1")

        async def write(name: str) -> None:
            for number in range(10):
                await place.append(session, f"{name}{number}")
                await asyncio.sleep(0)

        await asyncio.gather(*(write(name) for name in "abcde"))
        found = texts_of(await place.get("s1"))
        for name in "abcde":
            mine = [text for text in found if text.startswith(name)]
            assert mine == [f"{name}{n}" for n in range(10)], f"Of 10 events of one of 5 tasks, {mine} were stored."

    @in_loop
    async def test_two_loaded_copies_lose_no_event(self) -> None:
        """A session that was loaded twice can be appended to through both; neither overwrites the other's events."""
        place = await self.place()
        await place.append(await place.create("s1"), "before")
        first, second = await place.get("s1"), await place.get("s1")
        for number in range(3):
            await place.append(first, f"a{number}")
            await place.append(second, f"b{number}")
        found = texts_of(await place.get("s1"))
        expected = ["before", "a0", "b0", "a1", "b1", "a2", "b2"]
        assert found == expected, f"Two copies of a session appended by turns; stored are {found}."

    @in_loop
    async def test_a_session_that_was_loaded_in_part_loses_nothing(self) -> None:
        """Appending to a session that was loaded without its earlier events keeps those."""
        place = await self.place()
        await place.append(await place.create("s1"), "one", "two")
        await place.append(await place.get("s1", num_recent_events=0), "three")
        found = texts_of(await place.get("s1"))
        assert found == ["one", "two", "three"], f"Appending to a session loaded in part left the events {found}."

    @in_loop
    async def test_the_latest_events_can_be_asked_for(self) -> None:
        """`num_recent_events` gives the events appended last, in order; 0 gives none, and the state is all there."""
        place = await self.place()
        await place.append(await place.create("s1"), "0", "1", "2", "3", "4", seen=1)
        for count, expected in ((3, ["2", "3", "4"]), (0, []), (9, ["0", "1", "2", "3", "4"])):
            found = await place.get("s1", num_recent_events=count)
            assert texts_of(found) == expected, f"`num_recent_events={count}` of 5 events gave {texts_of(found)}."
            assert found.state == {"seen": 1}, "A session loaded in part has not its whole state."

    @in_loop
    async def test_events_since_a_time_can_be_asked_for(self) -> None:
        """`after_timestamp` gives the events at or after that time, of those that `num_recent_events` leaves."""
        place = await self.place()
        session = await place.create("s1")
        start = 1_700_000_000.0
        for number in range(5):
            await place.service.append_event(session, said(str(number), timestamp=start + number))
        found = texts_of(await place.get("s1", after_timestamp=start + 1))
        assert found == ["1", "2", "3", "4"], f"`after_timestamp` of the second of 5 events gave {found}."
        found = texts_of(await place.get("s1", after_timestamp=start + 1, num_recent_events=2))
        assert found == ["3", "4"], f"`after_timestamp` of the second, `num_recent_events=2` gave {found}."

    @in_loop
    async def test_events_come_back_whole(self) -> None:
        """Every field of an event survives: bytes, signatures, calls, ids, usage, grounding, actions, metadata."""
        place = await self.place()
        session = await place.create("s1")
        given = [
            _with_everything(),
            Event(author="user", timestamp=1_700_000_001.0),
            said("", timestamp=1_700_000_002.123456),
        ]
        for event in given:
            await place.service.append_event(session, event)
        for before, after in zip(given, (await place.get("s1")).events, strict=True):
            _assert_same(before, after)

    @in_loop
    async def test_any_text_and_large_payloads_come_back_whole(self) -> None:
        """Text of all scripts, a megabyte of text, and a megabyte of bytes survive."""
        place = await self.place()
        session = await place.create("s1")
        text = "naïve 名前 🧵 \u202e \r\n\t \\u0041 'quoted' \"twice\" %s {x} -- $1 " + "x" * _LARGE
        blob = types.Blob(data=bytes(range(256)) * (_LARGE // 256), mime_type="application/octet-stream")
        parts = [types.Part(text=text), types.Part(inline_data=blob)]
        given = Event(author="agent", content=types.Content(role="model", parts=parts))
        await place.service.append_event(session, given)
        [found] = (await place.get("s1")).events
        assert found.text == text, "A long text of many scripts was changed."
        kept = found.content.parts if found.content is not None else None
        assert kept, "A message with a megabyte of bytes lost its parts."
        assert kept[-1].inline_data == blob, "A megabyte of bytes was changed."

    @in_loop
    async def test_a_loaded_list_of_events_is_the_callers_own(self) -> None:
        """Taking events out of a loaded session, or putting some in, changes nothing in the store."""
        place = await self.place()
        created = await place.create("s1")
        await place.append(created, "one", "two")
        (await place.get("s1")).events.clear()
        (await place.get("s1")).events.append(said("forged"))
        created.events.clear()
        found = texts_of(await place.get("s1"))
        assert found == ["one", "two"], f"Changing the list of events of a session at hand left {found} in the store."


def _with_everything() -> Event:
    call = types.FunctionCall(id="call-1", name="look", args={"deep": {"list": [1, 2.5, None, True, "ü"]}, "empty": {}})
    answer = types.FunctionResponse(id="call-0", name="look", response={"result": [{"a": None}]})
    parts = [
        types.Part(text="thinking", thought=True, thought_signature=b"\x00\xffsigned"),
        types.Part(text="said"),
        types.Part(function_call=call, thought_signature=b"\xfe\xff"),
        types.Part(function_response=answer),
        types.Part(inline_data=types.Blob(data=b"\x00\xff\x80", mime_type="image/png", display_name="a.png")),
        types.Part(file_data=types.FileData(file_uri="gs://a/b", mime_type="text/plain")),
        types.Part(executable_code=types.ExecutableCode(code="1 + 1", language=types.Language.PYTHON)),
        types.Part(
            code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="2"),
        ),
    ]
    web = types.GroundingChunkWeb(title="page", uri="https://example.org")
    return Event(
        invocation_id="e-1",
        author="agent",
        content=types.Content(role="model", parts=parts),
        actions=EventActions(
            state_delta={"a": {"b": [1, None]}, "app:x": 1, "user:y": "ü"},
            artifact_delta={"file.txt": 2},
            transfer_to_agent="other",
            escalate=True,
            skip_summarization=True,
            agent_state={"step": 2},
            requested_tool_confirmations={"call-1": ToolConfirmation(hint="Sure?", payload={"n": 1})},
        ),
        branch="side.agent",
        isolation_scope="task-1",
        node_info=NodeInfo(path="a/b"),
        long_running_tool_ids=["call-1"],
        output={"o": [1]},
        custom_metadata={"k": {"deep": [1, "ü"]}},
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=3, total_token_count=5),
        grounding_metadata=types.GroundingMetadata(
            web_search_queries=["q"], grounding_chunks=[types.GroundingChunk(web=web)]
        ),
        url_context_metadata=types.UrlContextMetadata(
            url_metadata=[
                types.UrlMetadata(
                    retrieved_url="https://example.org",
                    url_retrieval_status=types.UrlRetrievalStatus.URL_RETRIEVAL_STATUS_SUCCESS,
                )
            ]
        ),
        finish_reason=types.FinishReason.STOP,
        model_version="m-1",
        turn_complete=True,
        error_code="CODE",
        error_message="message",
        timestamp=1_700_000_000.5,
    )


def _assert_same(before: Event, after: Event) -> None:
    for mine, theirs in zip(parts_of(before.content), parts_of(after.content), strict=True):
        assert mine == theirs, f"A part of an event was stored as {mine!r} and came back as {theirs!r}."
    given, kept = before.to_wire(), after.to_wire()
    for name in sorted(given.keys() | kept.keys()):
        assert given.get(name) == kept.get(name), (
            f"Field `{name}` of an event was stored as {json.dumps(given.get(name))} and came back as "
            f"{json.dumps(kept.get(name))}."
        )
    assert after.long_running_tool_ids == before.long_running_tool_ids, "`long_running_tool_ids` changed."
