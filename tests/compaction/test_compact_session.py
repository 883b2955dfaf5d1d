"""What is summarised, when, and what of it a model is shown."""

from __future__ import annotations

import logging

import pytest
from google.genai import types
from kit import event, model, named_call, result, said, text

from compaction.logs import ALL, ROOT, Tally, asked, config, session_of, shown, shown_words, turns
from flowloom import ConfigurationError, Event, EventsCompactionConfig, Session
from flowloom.compaction import compact_session
from flowloom.errors import ModelUnavailableError
from flowloom.sessions import GetSessionConfig


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
