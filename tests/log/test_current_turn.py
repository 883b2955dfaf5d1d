"""The current turn: a late answer brings back the turn that opened its call (spec §9.9)."""

from __future__ import annotations

import pytest
from google.genai import types
from growing_logs import shown_of
from kit import event, named_call, result, said, user

from flowloom import Event, EventActions
from flowloom.events import EventCompaction
from flowloom.log import Viewer
from flowloom.log.effective_log import Span
from flowloom.log.item import FOREIGN_LEAD_IN

CURRENT = Viewer("root", current_turn_only=True, keeps_call_ids=True)


def lines(log: list[Event]) -> list[str]:
    """What an agent with `include_contents="none"` is shown, a line for each part: its text, its call, its answer;
    the same when the log is read event by event."""
    shown: list[str] = []
    for number, each in enumerate(log):
        each.timestamp = float(number)
    for content in shown_of(log, CURRENT).contents:
        for part in content.parts or ():
            call, answer = part.function_call, part.function_response
            shown.append(f"{call.id}()" if call else f"-> {answer.id}" if answer else part.text or "")
    return shown


def orders(call_id: str) -> Event:
    return event("root", named_call(call_id, "order"), long_running_tool_ids=[call_id])


def summary(first: int, last: int) -> Event:
    """A summary that was made elsewhere, of what was said from one time to another."""
    compaction = EventCompaction(start_timestamp=first, end_timestamp=last, compacted_content=said("<in short>"))
    return Event(author="user", actions=EventActions(compaction=compaction))


FIRST = [event("user", "one"), orders("c1"), event("root", "ordered one")]
SECOND = [event("user", "two"), orders("c2"), event("root", "ordered two")]
THIRD = [event("user", "three"), event("root", "done three")]


def test_an_answer_to_calls_of_two_turns_brings_back_both_in_their_order() -> None:
    """Whatever the order of the answers, and without the turn between. They stay if one of them is told of again."""
    answers = event("user", result("c2", "order", {}), result("c1", "order", {}))
    log = [*FIRST, *SECOND, *THIRD, answers, event("root", "both came")]
    shown = ["one", "c1()", "-> c1", "ordered one", "two", "c2()", "-> c2", "ordered two", "both came"]
    assert lines(log) == shown
    assert lines([*log, event("root", result("c1", "order", {})), event("root", "again")]) == [*shown, "again"]


def test_an_answer_to_the_current_turn_leaves_it_whole() -> None:
    """A late one to a call beside that one, too."""
    calls = event("root", named_call("c1", "look"), named_call("c2", "order"), long_running_tool_ids=["c2"])
    looked, came = event("root", result("c1", "look", {})), event("user", result("c2", "order", {}))
    log = [event("user", "go"), calls, looked, event("root", "ordered"), came, event("root", "it came")]
    assert lines(log) == ["go", "c1()", "c2()", "-> c1", "-> c2", "ordered", "it came"]


def test_an_answer_to_the_current_turn_and_to_an_earlier_one_shows_nothing_twice() -> None:
    """What was said since the message stands in the current turn already."""
    answers = event("root", result("c2", "order", {}), result("c1", "order", {}))
    shown = lines([*FIRST, *SECOND, event("user"), event("root", "on it"), answers, event("root", "both came")])
    assert shown == ["one", "c1()", "-> c1", "ordered one", "two", "c2()", "-> c2", "ordered two", "on it", "both came"]


def test_what_was_said_since_the_message_is_shown_with_the_turn_that_comes_back() -> None:
    """Though the answer that brings it back comes later."""
    answer = event("root", result("c1", "order", {}))
    shown = lines([*FIRST, *SECOND, event("user"), event("root", "on it"), answer, event("root", "it came")])
    assert shown == ["one", "c1()", "-> c1", "ordered one", "on it", "it came"]


def test_an_answer_to_no_call_begins_no_turn_and_words_beside_it_do() -> None:
    """As words do without it."""
    stray = result("c9", "order", {})
    assert lines([*THIRD, event("user", stray)]) == ["three", "done three"]
    assert lines([*THIRD, event("user", stray, "well?")]) == ["well?"]


def test_a_message_that_the_agent_does_not_see_is_no_other_one() -> None:
    """What was said since the one before it comes back all the same."""
    elsewhere, answer = event("user", "psst", isolation_scope="task"), event("root", result("c1", "order", {}))
    shown = lines([*FIRST, *SECOND, event("user"), event("root", "on it"), elsewhere, answer, event("root", "it came")])
    assert shown == ["one", "c1()", "-> c1", "ordered one", "on it", "it came"]


def test_a_summary_that_tells_of_itself_begins_no_turn() -> None:
    """It is not what the user says."""
    short = summary(0, 1)
    short.content = user("in short")
    assert lines([*FIRST, *THIRD, short, event("root", "more")]) == ["three", "done three", "more"]


def test_an_answer_to_another_agents_call_is_told_in_a_turn_with_a_summary_as_without() -> None:
    """One that came before the call of its id was to none."""
    tail = [event("root", "two"), event("root", "three"), summary(3, 3)]
    ask = event("helper", named_call("c1", "order"), long_running_tool_ids=["c1"])
    told = lines([event("user", "one"), ask, event("user", result("c1", "order", {})), *tail])
    assert told == [FOREIGN_LEAD_IN, "[user] tool `order` returned: {}", "<in short>", "three"]
    stray = event("user", result("c1", "transfer_to_agent", {}), "mine")
    asked = lines([event("user", "one"), stray, event("helper", named_call("c1", "transfer_to_agent")), *tail])
    assert asked == ["mine", FOREIGN_LEAD_IN, "[helper] called tool `transfer_to_agent` with parameters: {}", *told[2:]]


def test_a_decision_begins_no_turn() -> None:
    """No model is shown it."""
    decision = event("user", result("r1", "adk_request_confirmation", {"confirmed": True}))
    assert lines([*FIRST, decision, event("root", "fine")])[0] == "one"


@pytest.mark.parametrize(("first", "shown"), [(0, "<in short>"), (4, "one")], ids=["the turn", "a later one"])
def test_a_summary_counts_in_a_turn_that_was_brought_back_if_it_tells_of_nothing_before(first: int, shown: str) -> None:
    """The turn begins where it began at first."""
    log = [*FIRST, event("root", "more"), *THIRD, summary(first, first + 1), event("user", result("c1", "order", {}))]
    assert lines(log)[0] == shown


def test_a_summary_of_all_that_was_said_is_shown_if_no_turn_has_begun() -> None:
    """Without any input, the current turn is the whole log."""
    assert lines([event("root", "one"), event("root", "two"), summary(0, 1)]) == ["<in short>"]


def test_what_the_user_was_heard_to_say_begins_a_turn() -> None:
    """What the agent was heard to say goes on with it, and silence begins none."""
    heard = [
        Event(author=author, **{field: types.Transcription(text=said)})
        for author, field, said in (
            ("user", "input_transcription", "one"),
            ("root", "output_transcription", "first"),
            ("user", "input_transcription", "two"),
            ("root", "output_transcription", "second"),
            ("user", "input_transcription", ""),
        )
    ]
    assert lines(heard) == ["two", "second"]


def test_an_earlier_step_back_changes_no_turn_that_comes_back() -> None:
    """The turn between is left out all the same."""
    wrong = event("user", "wrong", invocation_id="i0")
    back = Event(author="user", actions=EventActions(rewind_before_invocation_id="i0"))
    answer = event("user", result("c1", "order", {}))
    shown = lines([wrong, back, *FIRST, *SECOND, *THIRD, answer, event("root", "it came")])
    assert shown == ["one", "c1()", "-> c1", "ordered one", "it came"]


def test_words_beside_a_tools_result_begin_no_turn() -> None:
    """Nor do words of the role of models that stand in the user's name, or of that of users in an agent's."""
    results = event("root", result("c1", "order", {}), "here you are")
    assert results.content is not None
    results.content.role = "user"
    assert lines([*FIRST[:2], results, event("root", "done")]) == ["one", "c1()", "-> c1", "here you are", "done"]
    put = Event(author="user", content=said("said before"))
    assert lines([event("user", "one"), put, event("root", "done")]) == ["one", "said before", "done"]
    asked = Event(author="root", content=user("go on"))
    assert lines([event("user", "one"), asked, event("root", "done")]) == ["one", "go on", "done"]


def test_a_summary_of_a_turn_behind_a_step_back_is_shown() -> None:
    """The turn begins where its message stands without what was rewound."""
    wrong = event("user", "wrong", invocation_id="i0")
    back = Event(author="user", actions=EventActions(rewind_before_invocation_id="i0"))
    assert lines([wrong, back, event("user", "one"), event("root", "two"), summary(2, 3)]) == ["<in short>"]


@pytest.mark.parametrize("here", [True, False], ids=["here", "elsewhere"])
def test_a_summary_that_was_rewound_changes_no_turn_that_comes_back(here: bool) -> None:
    """The turns between are left out, as if it had never been made."""
    aside, short = event("root", "aside", invocation_id="i9"), summary(6, 6)
    short.invocation_id = "i9"
    if here:
        short.custom_metadata = Span(aside.id, aside.id).to_metadata()
    back = Event(author="user", actions=EventActions(rewind_before_invocation_id="i9"))
    log = [*FIRST, *SECOND, aside, short, back, *THIRD, event("user", result("c1", "order", {})), event("root", "came")]
    assert lines(log) == ["one", "c1()", "-> c1", "ordered one", "came"]
