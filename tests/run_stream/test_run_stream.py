"""`RunStreamMapper`: messages, errors and the run itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types
from run_stream_kit import lines, mapped, piece, thought, told, whole

from flowloom import Event, EventActions
from flowloom.events import NodeInfo
from flowloom.run_stream import (
    MessageCompleted,
    RunFinished,
    RunStreamMapper,
    TextDelta,
    TokenUsage,
    ToolCallFinished,
    UsageReported,
    run_stream_of,
)

# -- messages --------------------------------------------------------------------------------------


def test_a_streamed_message_comes_in_deltas_and_is_completed_once() -> None:
    assert told(piece("a", "Hel"), piece("a", "lo"), whole("a", "Hello")) == ["+a", "a~ Hel", "a~ lo", "a: Hello", "-a"]


def test_a_message_that_was_not_streamed_is_one_delta() -> None:
    assert told(whole("a", "Hello")) == ["+a", "a~ Hello", "a: Hello", "-a"]


def test_the_complete_event_adds_what_was_not_shown() -> None:
    assert told(piece("a", "Hel"), whole("a", "Hello"))[1:4] == ["a~ Hel", "a~ lo", "a: Hello"]


def test_the_complete_text_wins_over_another_that_was_streamed() -> None:
    """An after-model callback may have replaced it; nothing is shown twice."""
    assert told(piece("a", "Hello"), whole("a", "Goodbye"))[1:3] == ["a~ Hello", "a: Goodbye"]


def test_thoughts_and_text_are_kept_apart() -> None:
    events = [piece("a", thought("hm")), piece("a", "yes"), whole("a", thought("hm, well"), "yes, and no")]
    assert told(*events)[1:-1] == ["a~ (hm)", "a~ yes", "a~ (, well)", "a~ , and no", "a: (hm, well)yes, and no"]


def test_the_order_of_thoughts_and_text_is_that_of_the_parts() -> None:
    assert told(whole("a", thought("1"), "2", thought("3"), "4"))[1:5] == ["a~ (1)", "a~ 2", "a~ (3)", "a~ 4"]


def test_a_message_has_one_id_from_the_first_delta_on() -> None:
    events = [piece("a", "x", id="p1"), piece("a", "y", id="p2"), whole("a", "xy", id="e1")]
    stream = mapped(events)
    assert [e.message_id for e in stream if isinstance(e, TextDelta | MessageCompleted)] == ["p1", "p1", "p1"]
    assert [e.event_id for e in stream if isinstance(e, MessageCompleted)] == ["e1"]


def test_two_messages_have_two_ids_even_if_their_events_share_one() -> None:
    stream = mapped([whole("a", "x", id="e1"), whole("a", "x", id="e1"), whole("a", "x", id="e1")])
    assert len({e.message_id for e in stream if isinstance(e, MessageCompleted)}) == 3


def test_messages_of_parallel_branches_do_not_mix() -> None:
    events = [
        piece("a", "A", branch="p.a"),
        piece("b", "B", branch="p.b"),
        piece("a", "a", branch="p.a"),
        piece("b", "b", branch="p.b"),
        whole("b", "Bb.", branch="p.b"),
        whole("a", "Aa.", branch="p.a"),
    ]
    said = told(*events)
    assert said[:6] == ["+a", "a~ A", "+b", "b~ B", "a~ a", "b~ b"]
    assert said[6:10] == ["b~ .", "b: Bb.", "a~ .", "a: Aa."]


def test_messages_of_one_agent_in_two_branches_or_scopes_do_not_mix() -> None:
    places: list[dict[str, Any]] = [{"branch": "p.a"}, {"branch": "q.a"}, {"isolation_scope": "c1"}]
    events = [piece("a", f"{number}", **place) for number, place in enumerate(places)]
    stream = mapped(events + [whole("a", f"{number}!", **place) for number, place in enumerate(places)])
    assert [e.text for e in stream if isinstance(e, MessageCompleted)] == ["0!", "1!", "2!"]


def test_a_user_message_is_a_message_and_no_agents_turn() -> None:
    assert told(whole("user", "Hi")) == ["user~ Hi", "user: Hi"]


def test_a_message_that_breaks_off_ends_with_what_was_streamed() -> None:
    assert told(piece("a", "Hel"), status="cancelled") == ["+a", "a~ Hel", "a: Hel ...", "-a"]


def test_an_error_in_the_place_of_the_complete_answer_leaves_what_was_streamed() -> None:
    events = [piece("a", "Hel"), whole("a", error_code="BROKEN", error_message="gone")]
    assert told(*events) == ["+a", "a~ Hel", "a: Hel ...", "-a", "failed BROKEN: gone"]


def test_images_and_files_come_with_the_complete_message() -> None:
    image = types.Part(inline_data=types.Blob(data=b"\xff", mime_type="image/png"))
    (message,) = [e for e in mapped([whole("a", "Look:", image)]) if isinstance(e, MessageCompleted)]
    assert message.parts == [{"inlineData": {"data": "_w==", "mimeType": "image/png"}}]


def test_an_event_that_says_nothing_is_no_message() -> None:
    assert told(piece("a", ""), whole("a", types.Part(text="", thought_signature=b"x"))) == ["+a", "-a"]


# -- state and usage -------------------------------------------------------------------------------


def test_changes_of_state_and_artifacts_are_told() -> None:
    events = [whole("a", actions={"state_delta": {"k": 1}}), whole("user", actions={"artifact_delta": {"f": 2}})]
    assert told(*events) == ["+a", "state {'k': 1} {}", "state {} {'f': 2}", "-a"]


def test_tokens_are_summed_over_the_run_and_reasoning_counts_as_output() -> None:
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=10, candidates_token_count=2, thoughts_token_count=3, cached_content_token_count=4
    )
    events = [piece("a", "x", usage_metadata=usage), whole("a", "x", usage_metadata=usage), whole("b", "y")]
    stream = mapped([*events, whole("b", "z", usage_metadata=usage, model_version="m")])
    told_usage = [e for e in stream if isinstance(e, UsageReported)]
    assert [(e.agent, e.model, e.total.total_tokens) for e in told_usage] == [("a", None, 15), ("b", "m", 30)]
    assert (told_usage[0].usage.output_tokens, told_usage[0].usage.cached_tokens) == (5, 4)
    (end,) = [e for e in stream if isinstance(e, RunFinished)]
    assert end.usage == told_usage[-1].total


def test_usage_starts_anew_with_every_run() -> None:
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=7)
    stream = mapped(whole("a", "x", usage_metadata=usage, invocation_id=run) for run in ("i1", "i2"))
    assert [e.total.total_tokens for e in stream if isinstance(e, UsageReported)] == [7, 7]


# -- the run ---------------------------------------------------------------------------------------


def test_another_invocation_is_another_run() -> None:
    events = [whole("user", "Hi"), whole("a", "Hello"), whole("user", "Bye", invocation_id="i2")]
    said = lines(run_stream_of(events))
    assert [each for each in said if each.startswith(("run", "end"))] == ["run i1", "end final", "run i2", "end final"]
    assert said.index("-a") < said.index("end final")


def test_what_was_not_a_run_gives_nothing() -> None:
    assert list(run_stream_of([])) == []
    assert RunStreamMapper().finish() == []


def test_a_run_may_begin_before_its_first_event() -> None:
    mapper = RunStreamMapper()
    assert lines(mapper.start("i1")) == ["run i1"]
    assert lines(mapper.feed(whole("user", "Hi"))) == ["user~ Hi", "user: Hi"]
    assert lines(mapper.finish()) == ["end final"]


def test_a_run_may_fail_before_it_begins() -> None:
    mapper = RunStreamMapper()
    assert lines(mapper.finish(error=ValueError("no session"))) == [
        "run ",
        "failed ValueError: no session",
        "end failed",
    ]


def test_after_its_end_a_run_says_nothing_more() -> None:
    mapper = RunStreamMapper()
    mapper.feed(whole("a", "x"))
    assert lines(mapper.finish("final"))[-1] == "end final"
    assert mapper.finish("failed", ValueError("late")) == []


def test_a_mapper_goes_on_with_the_next_run_of_the_same_invocation() -> None:
    mapper = RunStreamMapper()
    mapper.feed(whole("a", "x"))
    mapper.finish("paused")
    assert lines(mapper.feed(whole("a", "y"))) == ["run i1", "+a", "a~ y", "a: y"]


def test_what_is_about_the_log_is_part_of_no_run() -> None:
    rewind = Event(author="user", invocation_id="i2", actions=EventActions(rewind_before_invocation_id="i1"))
    assert lines(run_stream_of([whole("user", "Hi"), rewind])) == ["run i1", "user~ Hi", "user: Hi", "end final"]


# -- errors ----------------------------------------------------------------------------------------


def failed(code: str = "LOST", **fields: Any) -> Event:
    return whole("a", error_code=code, error_message="gone", **fields)


def test_an_error_that_comes_last_fails_the_run() -> None:
    assert lines(mapped([failed()])) == ["run i1", "+a", "-a", "failed LOST: gone", "end failed"]


def test_an_error_is_reported_when_the_run_goes_on() -> None:
    assert told(failed(), piece("a", "x"), whole("a", "x")) == ["+a", "error LOST of a", "a~ x", "a: x", "-a"]


def test_an_error_is_reported_when_the_run_ends_well() -> None:
    assert told(failed(), status="final") == ["+a", "error LOST of a", "-a"]


def test_an_error_among_deltas_is_told_before_the_next_one() -> None:
    assert told(piece("b", "x", branch="p.b"), failed(branch="p.a"), piece("b", "y", branch="p.b"))[3:5] == [
        "error LOST of a",
        "b~ y",
    ]


@pytest.mark.parametrize("status", ["failed", "limit", "cancelled"])
def test_an_event_that_ends_its_run_says_how(status: str) -> None:
    events = [whole("a", "x"), failed(custom_metadata={"run_ended": status})]
    (end,) = [e for e in mapped(events) if isinstance(e, RunFinished)]
    assert (end.status, end.error_code, end.error_message) == (status, "LOST", "gone")
    assert ("failed LOST: gone" in lines(mapped(events))) is (status == "failed")


def test_the_end_that_an_event_told_is_not_told_again() -> None:
    mapper = RunStreamMapper()
    mapper.feed(failed(custom_metadata={"run_ended": "failed"}))
    assert mapper.finish("failed", ValueError("again")) == []


def test_an_exception_fails_the_run() -> None:
    mapper = RunStreamMapper()
    mapper.feed(piece("a", "x"))
    assert lines(mapper.finish(error=ValueError("bad"))) == ["a: x ...", "-a", "failed ValueError: bad", "end failed"]


# -- agents ----------------------------------------------------------------------------------------


def transfer(author: str, target: str, **fields: Any) -> Event:
    return whole(author, actions={"transfer_to_agent": target}, **fields)


def test_agents_after_each_other_begin_and_finish_in_order() -> None:
    said = told(whole("a", "1"), whole("b", "2"), whole("a", "3"))
    assert [each for each in said if each[0] in "+-"] == ["+a", "-a", "+b", "-b", "+a", "-a"]


def test_an_agent_that_hands_over_finishes_after_the_other() -> None:
    assert told(transfer("a", "b"), whole("b", "x")) == ["+a", "a => b", "+b", "b~ x", "b: x", "-b", "-a"]


def test_an_agent_goes_on_when_the_one_it_handed_over_to_is_done() -> None:
    said = told(transfer("a", "b"), whole("b", "x"), whole("a", "y"))
    assert [each for each in said if each[0] in "+-"] == ["+a", "+b", "-b", "-a"]
    assert said.index("-b") < said.index("a~ y") < said.index("-a")


def test_the_members_of_an_agent_that_says_nothing_itself_belong_to_it() -> None:
    """`b` is a workflow agent: nobody but its members speaks."""
    said = told(transfer("a", "b"), whole("c", "1"), whole("d", "2"), whole("a", "3"))
    assert [each for each in said if each[0] in "+-"] == ["+a", "+b", "+c", "-c", "+d", "-d", "-b", "-a"]


def test_an_agent_that_follows_one_that_was_handed_to_is_none_of_its_members() -> None:
    said = told(transfer("a", "b"), whole("b", "1"), whole("c", "2"))
    assert [each for each in said if each[0] in "+-"] == ["+a", "+b", "-b", "-a", "+c", "-c"]


def test_an_agent_finishes_after_those_that_work_within_its_turn() -> None:
    said = told(whole("a", "1"), whole("b", "2", isolation_scope="c1"), whole("c", "3"))
    assert [each for each in said if each[0] in "+-"] == ["+a", "+b", "-b", "-a", "+c", "-c"]


def test_an_agent_finishes_when_it_says_so() -> None:
    assert told(whole("a", "x", actions={"end_of_agent": True}), whole("user", "y"))[3:5] == ["-a", "user~ y"]


def test_parallel_branches_finish_when_their_parent_goes_on() -> None:
    events = [whole("a", "1"), whole("b", "2", branch="p.b"), whole("c", "3", branch="p.c"), whole("a", "4")]
    said = told(*events)
    assert [each for each in said if each[0] in "+-"] == ["+a", "+b", "+c", "-c", "-b", "-a"]
    assert said.index("-b") < said.index("a~ 4")


def test_each_round_of_a_loop_is_a_turn_of_its_own() -> None:
    events = [whole("a", f"{n}", node_info=NodeInfo(path=f"loop@1/a@{n}")) for n in (1, 2, 2)]
    said = told(*events)
    assert [each for each in said if each[0] in "+-"] == ["+a", "-a", "+a", "-a"]
    assert said.index("a: 1") < said.index("-a") < said.index("a~ 2")


def test_a_turn_names_the_one_it_belongs_to() -> None:
    stream = mapped([transfer("a", "b", id="e1"), whole("b", "x"), whole("c", "y", branch="p.c")])
    starts = [e.to_dict() for e in stream if e.type == "agent_started"]
    assert [start.get("parentId") for start in starts] == [None, "e1", "e1:b"]
    assert starts[2]["branch"] == "p.c"


def test_two_agents_that_speak_at_once_without_branches_repeat_nothing() -> None:
    events = [piece("a", "1"), piece("b", "2"), piece("a", "3"), whole("b", "2"), whole("a", "13")]
    said = told(*events)
    assert [each for each in said if "~" in each] == ["a~ 1", "b~ 2", "a~ 3"]
    assert [each for each in said if ": " in each] == ["b: 2", "a: 13"]
    assert [each for each in said if each[0] in "+-"] == ["+a", "+b", "-b", "-a"]


# -- JSON ------------------------------------------------------------------------------------------


def test_the_json_form_is_in_camel_case_with_a_type_and_no_nulls() -> None:
    assert TextDelta("m1", "Hi", "a").to_dict() == {
        "type": "text_delta",
        "messageId": "m1",
        "text": "Hi",
        "author": "a",
    }
    assert RunFinished("i1", "final", TokenUsage(3)).to_dict()["usage"]["inputTokens"] == 3


def test_the_json_form_holds_any_value() -> None:
    data = ToolCallFinished("c1", "f", {"a": b"\x01", "b": object, "c": {1, 2}, "at": Event(author="x", id="e")})
    assert json.loads(json.dumps(data.to_dict()))["result"]["a"] == "AQ=="
