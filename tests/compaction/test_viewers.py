"""Who is shown which summary, and what becomes of it when the user goes back."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import event, named_call, result, said

from compaction.logs import ALL, ROOT, Tally, asked, config, session_of, shown, turns
from flowloom import Event, EventActions, EventsCompactionConfig, Session
from flowloom.compaction import compact_session
from flowloom.events import EventCompaction
from flowloom.log import Viewer
from flowloom.log.history import project


def rewind(invocation_id: str) -> Event:
    return event("user", actions={"rewind_before_invocation_id": invocation_id})


class TestRewinding:
    """Turns 0 to 3, of which 0 to 2 are summarised, and then turn 4."""

    async def log(self) -> Session:
        session, service = await session_of(*turns(4))
        await compact_session(session, service, config(event_threshold=1, event_retention_size=2))
        for each in turns(1, start=4):
            await service.append_event(session, each)
        assert shown(session) == ["<u0 a0 u1 a1 u2 a2>", "u3", "a3", "u4", "a4"]
        return session

    @pytest.mark.parametrize(
        ("target", "left"),
        [
            ("i0", []),
            ("i1", ["u0", "a0"]),
            ("i3", ["u0", "a0", "u1", "a1", "u2", "a2"]),
            ("i4", ["<u0 a0 u1 a1 u2 a2>", "u3", "a3"]),
        ],
    )
    async def test_gives_back_what_a_summary_stood_for(self, target: str, left: list[str]) -> None:
        session = await self.log()
        session.events.append(rewind(target))
        assert shown(session) == left

    async def test_makes_a_summary_void_that_tells_of_what_was_rewound(self) -> None:
        """It was being written when the user went back."""
        session, service = await session_of(*turns(3))

        class Slow(Tally):
            async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
                await service.append_event(session, rewind("i1"))
                return await super().maybe_summarize_events(events=events)

        await compact_session(session, service, EventsCompactionConfig(summarizer=Slow(), **ALL))
        assert shown(session) == ["u0", "a0"]

    async def test_leaves_a_summary_that_does_not(self) -> None:
        session, service = await session_of(*turns(3))

        class Slow(Tally):
            async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
                await service.append_event(session, rewind("i2"))
                return await super().maybe_summarize_events(events=events)

        given = EventsCompactionConfig(summarizer=Slow(), event_threshold=1, event_retention_size=2)
        await compact_session(session, service, given)
        assert shown(session) == ["<u0 a0 u1 a1>"]

    async def test_what_was_rewound_is_not_summarised(self) -> None:
        session, service = await session_of(*turns(2), rewind("i1"), *turns(1, start=5))
        given = config(**ALL)
        await compact_session(session, service, given)
        assert asked(given) == [["u0", "a0", "u5", "a5"]]


class TestWhoSeesIt:
    async def test_a_branch_has_a_summary_of_its_own(self) -> None:
        log = [
            *turns(3),
            event("left", "l1", "l2", "l3", branch="both.left", timestamp=30.0),
            event("right", "r1", "r2", branch="both.right", timestamp=31.0),
            event("root", "end", timestamp=32.0),
        ]
        session, service = await session_of(*log)
        given = config(**ALL)
        while await compact_session(session, service, given) is not None:
            pass
        assert sorted(asked(given)) == [["l1", "l2", "l3"], ["r1", "r2"], ["u0", "a0", "u1", "a1", "u2", "a2", "end"]]
        assert shown(session) == ["<u0 a0 u1 a1 u2 a2 end>", "<l1 l2 l3>", "<r1 r2>"]
        assert shown(session, Viewer("left", "both.left")) == ["<u0 a0 u1 a1 u2 a2 end>", "<l1 l2 l3>"]
        assert shown(session, Viewer("right", "both.right")) == ["<u0 a0 u1 a1 u2 a2 end>", "<r1 r2>"]

    async def test_a_task_is_not_told_outside(self) -> None:
        log = [
            *turns(2),
            event("root", named_call("t1", "helper"), timestamp=20.0),
            event("helper", "in the task", isolation_scope="t1", timestamp=21.0),
            event("user", result("t1", "helper", {}), timestamp=22.0),
        ]
        session, service = await session_of(*log)
        given = config(**ALL)
        await compact_session(session, service, given)
        assert asked(given) == [["u0", "a0", "u1", "a1", "t1?", "t1!"]]
        assert shown(session, Viewer("helper", isolation_scope="t1")) == ["in the task"]

    async def test_a_task_that_is_over_needs_none(self) -> None:
        log = [
            event("root", named_call("t1", "helper"), timestamp=20.0),
            *turns(9, start=3, isolation_scope="t1"),
            event("user", result("t1", "helper", {}), timestamp=200.0),
        ]
        session, service = await session_of(*log)
        given = config(**ALL)
        while await compact_session(session, service, given) is not None:
            pass
        assert asked(given) == [["t1?", "t1!"]]

    async def test_a_task_that_goes_on_has_a_summary_of_its_own(self) -> None:
        log = [
            event("root", named_call("t1", "helper"), timestamp=20.0),
            *turns(2, start=3, isolation_scope="t1"),
        ]
        session, service = await session_of(*log)
        await compact_session(session, service, config(**ALL))
        assert shown(session, Viewer("helper", isolation_scope="t1")) == ["<u3 a3 u4 a4>"]
        assert shown(session) == []

    async def test_an_agent_that_sees_its_turn_only_is_not_told_of_earlier_ones(self) -> None:
        session, service = await session_of(*turns(3))
        before = shown(session, ROOT._replace(current_turn_only=True))
        await compact_session(session, service, config(event_threshold=1, event_retention_size=1))
        assert shown(session) == ["<u0 a0 u1 a1 u2>", "a2"]
        assert shown(session, ROOT._replace(current_turn_only=True)) == before == ["u2", "a2"]

    async def test_an_agent_that_sees_its_turn_only_is_shown_a_summary_of_that(self) -> None:
        log = [*turns(1), event("user", "go", timestamp=20.0), *(event("root", f"s{n}", timestamp=21.0) for n in "123")]
        log[2].custom_metadata = {"pinned": True}
        session, service = await session_of(*log)
        given = config(event_threshold=1, event_retention_size=1)
        while await compact_session(session, service, given) is not None:
            pass
        assert shown(session) == ["<u0 a0>", "go", "<s1 s2>", "s3"]
        assert shown(session, ROOT._replace(current_turn_only=True)) == ["go", "<s1 s2>", "s3"]

    async def test_an_agent_that_sees_its_turn_only_still_knows_whose_calls_are_answered(self) -> None:
        """A call of another agent in an earlier turn is answered in this one: told, and not taken for its own."""
        log = [
            event("other", named_call("c1", "ask"), long_running_tool_ids=["c1"], timestamp=1.0),
            event("user", "go", timestamp=20.0, custom_metadata={"pinned": True}),
            *(event("root", f"s{n}", timestamp=21.0) for n in "123"),
        ]
        session, service = await session_of(*log)
        await compact_session(session, service, config(event_threshold=1, event_retention_size=1))
        viewer = ROOT._replace(current_turn_only=True)
        assert shown(session, viewer) == ["go", "<s1 s2>", "s3"]
        await service.append_event(session, event("user", result("c1", "ask", {}), timestamp=30.0))
        assert project(session.events, viewer).orphans == session.history.contents(session.events, viewer).orphans == []


class TestSummariesMadeElsewhere:
    def summary(self, first: float, last: float, text: str, **fields: Any) -> Event:
        content = types.Content(role="model", parts=[types.Part(text=text)])
        compaction = EventCompaction(start_timestamp=first, end_timestamp=last, compacted_content=content)
        return Event(author="user", actions=EventActions(compaction=compaction), **fields)

    async def test_stand_for_their_times_and_the_wider_wins(self) -> None:
        log = [*turns(3), self.summary(0, 1, "A"), self.summary(10, 11, "B"), self.summary(0, 11, "C")]
        session, _ = await session_of(*log, self.summary(0, 1, "D"))
        assert shown(session) == ["C", "u2", "a2"]

    async def test_overlapping_ones_stand_side_by_side(self) -> None:
        session, _ = await session_of(*turns(3), self.summary(0, 11, "A"), self.summary(10, 21, "B"))
        assert shown(session) == ["A", "B"]

    async def test_leave_tasks_alone(self) -> None:
        session, _ = await session_of(*turns(1, isolation_scope="t1"), *turns(2, start=1), self.summary(0, 100, "A"))
        assert shown(session, Viewer("root", isolation_scope="t1")) == ["u0", "a0"]
        assert shown(session) == ["A"]

    async def test_stand_for_their_times_in_whatever_order_the_log_is(self) -> None:
        log = [*turns(1, start=2), *turns(1), *turns(1, start=1)]
        session, _ = await session_of(*log, self.summary(10, 21, "A"))
        assert shown(session) == ["A", "u0", "a0"]

    async def test_of_which_one_tells_of_itself_as_content_is_still_a_summary(self) -> None:
        """Words beside the summary are no part of it."""
        session, _ = await session_of(*turns(1), self.summary(0, 1, "A", content=said("note")))
        assert shown(session) == ["A"]
