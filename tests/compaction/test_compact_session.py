"""What is summarised, when, and what of it a model is shown."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from google.genai import types
from kit import event, model, named_call, result, said, text

from compaction.logs import Tally, session_of, shown_words, turns, words
from flowloom import (
    ConfigurationError,
    Event,
    EventActions,
    EventCompaction,
    EventsCompactionConfig,
    GetSessionConfig,
    ModelUnavailableError,
    Session,
    Viewer,
    compact_session,
)
from flowloom.sessions.history import project

ROOT = Viewer("root", keeps_call_ids=True)


def config(**fields: Any) -> EventsCompactionConfig:
    return EventsCompactionConfig(summarizer=Tally(), **fields)


def asked(given: EventsCompactionConfig) -> list[list[str]]:
    """What the summariser was given, each time."""
    assert isinstance(given.summarizer, Tally)
    return [words(events) for events in given.summarizer.asked]


def shown(session: Session, viewer: Viewer = ROOT) -> list[str]:
    return shown_words(session.history.contents(session.events, viewer).contents)


def rewind(invocation_id: str) -> Event:
    return event("user", actions={"rewind_before_invocation_id": invocation_id})


ALL = {"event_threshold": 1, "event_retention_size": 0}


class TestWhen:
    async def test_so_many_new_turns_are_there(self) -> None:
        session, service = await session_of(*turns(1))
        given = config(compaction_interval=2, overlap_size=0)
        assert await compact_session(session, service, given) is None
        for each in turns(1, start=1):
            await service.append_event(session, each)
        assert await compact_session(session, service, given) is not None
        assert shown(session) == ["<u0 a0 u1 a1>"]

    async def test_turns_that_have_a_summary_do_not_count_again(self) -> None:
        session, service = await session_of(*turns(2))
        given = config(compaction_interval=2, overlap_size=0)
        await compact_session(session, service, given)
        for each in turns(1, start=2):
            await service.append_event(session, each)
        assert await compact_session(session, service, given) is None

    async def test_the_latest_prompt_had_so_many_tokens(self) -> None:
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=100)
        log = turns(3)
        log[-1] = event("root", "a2", invocation_id="i2", timestamp=21.0, usage_metadata=usage)
        session, service = await session_of(*log)
        assert await compact_session(session, service, config(token_threshold=101, event_retention_size=2)) is None
        assert await compact_session(session, service, config(token_threshold=100, event_retention_size=2)) is not None
        assert shown(session) == ["<u0 a0 u1 a1>", "u2", "a2"]

    async def test_the_largest_prompt_of_the_latest_run_counts(self) -> None:
        """The agent that spoke last may have seen only a little."""
        log = turns(3)
        for number, tokens in ((4, 500), (5, 3)):
            log[number].usage_metadata = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens)
        session, service = await session_of(*log)
        assert await compact_session(session, service, config(token_threshold=500, event_retention_size=2)) is not None

    async def test_tokens_are_estimated_where_the_model_does_not_count_them(self) -> None:
        session, service = await session_of(*turns(2, size=20))  # 4 * 40 characters
        assert await compact_session(session, service, config(token_threshold=41, event_retention_size=0)) is None
        assert await compact_session(session, service, config(token_threshold=40, event_retention_size=0)) is not None

    async def test_a_count_from_before_a_summary_is_none(self) -> None:
        log = [*turns(2), *turns(1, start=2, size=30)]
        log[-1].usage_metadata = types.GenerateContentResponseUsageMetadata(prompt_token_count=1000)
        session, service = await session_of(*log)
        assert await compact_session(session, service, config(token_threshold=900, event_retention_size=2)) is not None
        assert await compact_session(session, service, config(token_threshold=900, event_retention_size=0)) is None

    async def test_so_many_events_have_no_summary(self) -> None:
        session, service = await session_of(*turns(4))
        assert await compact_session(session, service, config(event_threshold=9, event_retention_size=3)) is None
        assert await compact_session(session, service, config(event_threshold=8, event_retention_size=3)) is not None
        assert shown(session) == ["<u0 a0 u1 a1 u2>", "a2", "u3", "a3"]

    async def test_the_oldest_event_without_a_summary_is_so_old(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is half as old goes with it, so that not every turn makes a summary."""
        session, service = await session_of(*turns(4))  # at 0, 1, 10, 11, ... 31
        monkeypatch.setattr("flowloom.compaction.session.now", lambda: 31.0)
        assert await compact_session(session, service, config(max_age_seconds=31.5)) is None
        assert await compact_session(session, service, config(max_age_seconds=31.0)) is not None
        assert shown(session) == ["<u0 a0 u1 a1>", "u2", "a2", "u3", "a3"]

    async def test_one_asks_for_it(self) -> None:
        """With `force` nothing has to be passed."""
        session, service = await session_of(*turns(2))
        await compact_session(session, service, config(token_threshold=10**6), force=True)
        assert shown(session) == ["<u0 a0 u1 a1>"]

    async def test_not_if_the_summary_could_save_nothing(self) -> None:
        """A summary as long as the one before would be longer than the events that it took away."""
        session, service = await session_of(*turns(10))
        await compact_session(session, service, config(**ALL))
        await service.append_event(session, event("user", "x", timestamp=200.0, invocation_id="i20"))
        again = config(**ALL)
        assert await compact_session(session, service, again) is None
        assert asked(again) == []


class TestWhat:
    async def test_the_log_and_the_state_stay_as_they_were(self) -> None:
        log = turns(3)
        log[1] = event("root", "a0", actions={"state_delta": {"colour": "red"}}, invocation_id="i0", timestamp=1.0)
        session, service = await session_of(*log)
        made = await compact_session(session, service, config(**ALL))
        stored = await service.get_session(app_name="app", user_id="ann", session_id="s1")
        assert stored is not None
        assert [each.id for each in stored.events] == [*(each.id for each in log), made.id if made else ""]
        assert stored.state == session.state == {"colour": "red"}

    async def test_a_summary_takes_in_the_one_before(self) -> None:
        session, service = await session_of(*turns(2))
        given = config(event_threshold=2, event_retention_size=0)
        await compact_session(session, service, given)
        for each in turns(5, start=2):
            await service.append_event(session, each)
        await compact_session(session, service, given)
        assert asked(given)[1][:3] == ["<u0 a0 u1 a1>", "u2", "a2"]
        assert len(shown(session)) == 1

    async def test_turns_of_the_overlap_are_read_again(self) -> None:
        session, service = await session_of(*turns(3))
        given = config(compaction_interval=3, overlap_size=1)
        await compact_session(session, service, given)
        for each in turns(9, start=3):
            await service.append_event(session, each)
        await compact_session(session, service, given)
        assert asked(given)[1][:4] == ["<u0 a0 u1 a1 u2 a2>", "u2", "a2", "u3"]

    async def test_a_call_is_not_parted_from_its_result(self) -> None:
        log = [
            *turns(1),
            event("root", named_call("c1", "look"), timestamp=20.0),
            event("root", result("c1", "look", {}), timestamp=21.0),
        ]
        session, service = await session_of(*log)
        await compact_session(session, service, config(event_threshold=1, event_retention_size=1))
        assert shown(session) == ["<u0 a0>", "c1?", "c1!"]

    async def test_a_call_is_not_parted_from_its_result_by_another_that_reaches_further(self) -> None:
        log = [
            *turns(1),
            event("root", named_call("c1", "look"), timestamp=20.0),
            event("root", named_call("c2", "look"), timestamp=21.0),
            event("root", result("c1", "look", {}), timestamp=22.0),
            event("root", result("c2", "look", {}), timestamp=23.0),
        ]
        session, service = await session_of(*log)
        await compact_session(session, service, config(event_threshold=1, event_retention_size=1))
        assert shown(session) == ["<u0 a0>", "c1?", "c1!", "c2?", "c2!"]

    async def test_a_call_that_waits_stays_and_what_is_around_it_goes(self) -> None:
        log = [
            *turns(2),
            event("root", named_call("c1", "ask"), long_running_tool_ids=["c1"], timestamp=20.0),
            event("root", result("c1", "ask", {"status": "pending"}), timestamp=21.0),
            *turns(4, start=3),
        ]
        session, service = await session_of(*log)
        given = config(**ALL)
        await compact_session(session, service, given)
        assert shown(session) == ["u0", "a0", "u1", "a1", "c1?", "c1!", "<u3 a3 u4 a4 u5 a5 u6 a6>"]
        await compact_session(session, service, given)
        assert shown(session) == ["<u0 a0 u1 a1>", "c1?", "c1!", "<u3 a3 u4 a4 u5 a5 u6 a6>"]

    async def test_a_call_that_a_person_answered_can_go(self) -> None:
        log = [
            event("root", named_call("c1", "ask"), long_running_tool_ids=["c1"], timestamp=20.0),
            event("root", result("c1", "ask", {"status": "pending"}), timestamp=21.0),
            event("user", result("c1", "ask", {"status": "done"}), timestamp=22.0),
        ]
        session, service = await session_of(*log)
        await compact_session(session, service, config(**ALL))
        assert shown(session) == ["<c1? c1! c1!>"]

    async def test_a_late_word_on_a_summarised_call_is_shown_with_it(self) -> None:
        """A long-running tool may report again after its call has become part of a summary."""
        log = [
            event("root", named_call("c1", "ask"), long_running_tool_ids=["c1"], timestamp=20.0),
            event("user", result("c1", "ask", {"done": "half"}), timestamp=22.0),
            *turns(1, start=3),
        ]
        session, service = await session_of(*log)
        await compact_session(session, service, config(**ALL))
        await service.append_event(session, event("user", result("c1", "ask", {"done": "all"}), timestamp=50.0))
        contents = session.history.contents(session.events, ROOT).contents
        assert shown_words(contents) == ["<c1? c1! u3 a3>", "c1?", "c1!"]
        answer = (contents[-1].parts or [])[0].function_response
        assert answer is not None
        assert answer.response == {"done": "all"}

    async def test_a_call_that_waits_for_approval_stays_with_its_request(self) -> None:
        asks = {"requested_tool_confirmations": {"c1": {"hint": "sure?"}}}
        request = named_call("adk-1", "adk_request_confirmation")
        log = [
            *turns(1),
            event("root", named_call("c1", "pay"), timestamp=20.0),
            event("root", result("c1", "pay", {"error": "wait"}), actions=asks, timestamp=21.0),
            event("root", request, long_running_tool_ids=["adk-1"], timestamp=22.0),
        ]
        session, service = await session_of(*log)
        given = config(**ALL)
        await compact_session(session, service, given)
        assert asked(given) == [["u0", "a0"]]
        for each in (
            event("user", result("adk-1", "adk_request_confirmation", {"confirmed": True}), timestamp=23.0),
            event("root", result("c1", "pay", {"paid": 1}), timestamp=24.0),
        ):
            await service.append_event(session, each)
        again = config(**ALL)
        await compact_session(session, service, again, force=True)
        assert asked(again) == [["<u0 a0>", "c1?", "c1!", "adk-1?", "adk-1!", "c1!"]]

    async def test_a_call_that_asked_for_input_stays_until_it_has_it(self) -> None:
        asks = {"requested_inputs": {"c1": {"message": "Which?"}}}
        log = [
            *turns(1),
            event("root", named_call("c1", "choose"), timestamp=20.0),
            event("root", result("c1", "choose", {}), actions=asks, timestamp=21.0),
        ]
        session, service = await session_of(*log)
        given = config(**ALL)
        await compact_session(session, service, given)
        assert asked(given) == [["u0", "a0"]]

    async def test_a_result_stays_with_a_call_that_waits_in_part(self) -> None:
        calls = named_call("c1", "ask"), named_call("c2", "look")
        log = [
            event("root", *calls, long_running_tool_ids=["c1"], timestamp=1.0),
            event("root", "still asking", timestamp=2.0),
            event("root", result("c2", "look", {}), timestamp=3.0),
            *turns(1, start=3),
        ]
        session, service = await session_of(*log)
        given = config(**ALL)
        while await compact_session(session, service, given) is not None:
            pass
        assert asked(given) == [["still asking"], ["u3", "a3"]]

    async def test_two_calls_of_one_id_are_two_calls(self) -> None:
        """Some models number their calls anew in each answer."""
        log: list[Event] = []
        for number in range(3):
            log += [
                event("root", named_call("call_0", "look"), timestamp=10.0 * number),
                event("root", result("call_0", "look", {}), timestamp=10.0 * number + 1),
            ]
        session, service = await session_of(*log)
        await compact_session(session, service, config(event_threshold=1, event_retention_size=2))
        assert shown(session) == ["<call_0? call_0! call_0? call_0!>", "call_0?", "call_0!"]

    async def test_what_is_pinned_stays(self) -> None:
        log = turns(2)
        log[0].custom_metadata = {"pinned": True}
        session, service = await session_of(*log)
        await compact_session(session, service, config(**ALL))
        assert shown(session) == ["u0", "<a0 u1 a1>"]

    async def test_what_comes_in_between_is_not_swallowed(self) -> None:
        """A summary stands for what it was made of, even if the clock says otherwise."""
        session, service = await session_of(*turns(2))

        class Slow(Tally):
            async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
                for each in turns(1, start=1):  # the same times again
                    await service.append_event(session, each)
                return await super().maybe_summarize_events(events=events)

        await compact_session(session, service, EventsCompactionConfig(summarizer=Slow(), **ALL))
        assert shown(session) == ["<u0 a0 u1 a1>", "u1", "a1"]

    async def test_a_session_of_which_only_the_end_is_loaded_shows_the_summary_first(self) -> None:
        session, service = await session_of(*turns(4))
        await compact_session(session, service, config(event_threshold=1, event_retention_size=2))
        for each in turns(1, start=4):
            await service.append_event(session, each)
        late = await service.get_session(
            app_name="app", user_id="ann", session_id="s1", config=GetSessionConfig(num_recent_events=4)
        )
        assert late is not None
        assert shown(late) == ["<u0 a0 u1 a1 u2 a2>", "a3", "u4", "a4"]

    async def test_of_two_summaries_of_what_is_not_loaded_the_wider_is_shown(self) -> None:
        session, service = await session_of(*turns(2))
        await compact_session(session, service, config(**ALL))
        for each in turns(3, start=2, size=9):
            await service.append_event(session, each)
        await compact_session(session, service, config(**ALL))
        late = Session(id="s1", events=[each for each in session.events if each.actions.compaction is not None])
        assert len(late.events) == 2
        assert shown(late) == shown(session)

    async def test_thoughts_of_a_summariser_are_not_stored(self) -> None:
        class Thinking(Tally):
            async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
                return Event(content=said(text("Hm.", thought=True), "in short"))

        session, service = await session_of(*turns(1))
        await compact_session(session, service, EventsCompactionConfig(summarizer=Thinking(), **ALL))
        assert shown(session) == ["in short"]


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


class TestFailure:
    async def test_leaves_the_conversation_as_it_is_and_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        session, service = await session_of(*turns(2))
        broken = model(ModelUnavailableError("The model is down."))
        given = EventsCompactionConfig(**ALL)
        with caplog.at_level(logging.WARNING, "flowloom.compaction"):
            assert await compact_session(session, service, given, broken) is None
        assert shown(session) == ["u0", "a0", "u1", "a1"]
        assert "ModelUnavailableError: The model is down." in caplog.text

    async def test_a_session_without_a_summariser_says_what_to_do(self) -> None:
        session, service = await session_of(*turns(2))
        with pytest.raises(ConfigurationError, match="Give a `model`, or a `summarizer`"):
            await compact_session(session, service, EventsCompactionConfig(**ALL))
