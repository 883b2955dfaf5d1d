"""Where a late answer stands, and what lies between it and its call (spec §9.6, §9.7)."""

from __future__ import annotations

import pytest
from google.genai import types
from growing_logs import shown_of
from kit import event, named_call, result, text

from flowloom import Event
from flowloom.log import Viewer
from flowloom.log.history import project

ROOT = Viewer("root", keeps_call_ids=True)


def told(part: types.Part) -> str:
    call, answer = part.function_call, part.function_response
    if call is not None:
        return f"{call.id}?"
    return part.text or "" if answer is None else f"{answer.id}={(answer.response or {}).get('n')}"


def lines(*log: Event) -> list[str]:
    """What is shown of a log, a line for each content; the same when the log is read event by event."""
    grown = shown_of([*log], ROOT)
    assert {content.role for content in grown.contents} <= {"user", "model"}
    return [" ".join(map(told, content.parts or ())) for content in grown.contents]


def asks(*call_ids: str) -> Event:
    """Long-running calls."""
    return event("root", *(named_call(call_id, "look") for call_id in call_ids), long_running_tool_ids=[*call_ids])


def gives(number: int, *call_ids: str, beside: str = "") -> Event:
    """Answers, and perhaps words beside them."""
    parts = [result(call_id, "look", {"n": number}) for call_id in call_ids]
    return event("user", *parts, *([text(beside)] if beside else []))


def gives_part(call_id: str) -> types.Part:
    return result(call_id, "look", {"n": 3})


ONE, TWO = event("root", "one"), event("root", "two")


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        ([ONE], []),
        ([ONE, TWO], []),
        ([ONE, asks("c2"), gives(2, "c2"), TWO], ["c2?", "c2=2"]),
        ([asks("c2"), ONE, gives(2, "c2", beside="mine")], ["c2?", "c2=2 mine"]),
        ([gives(0, "c9", beside="mine"), ONE], []),
        ([event("user", result("r1", "adk_request_confirmation", {"confirmed": True}), "mine"), ONE], ["mine"]),
    ],
    ids=[
        "words",
        "more words",
        "another call",
        "words beside its answer",
        "words beside an answer to no call",
        "words beside a decision",
    ],
)
def test_a_late_answer_at_the_end_leaves_out_what_came_since_its_call(between: list[Event], kept: list[str]) -> None:
    """But for other calls and their answers. What was left out is there again when the log goes on."""
    log = [event("user", "go"), asks("c1"), *between, gives(1, "c1")]
    assert lines(*log) == ["go", "c1?", "c1=1", *kept]
    assert "one" in lines(*log, event("root", "more"))


def test_an_answer_to_no_call_is_nothing_between() -> None:
    """The words beside it stay: the answer behind it is not late."""
    assert lines(ONE, gives(0, "c9"), TWO) == ["one", "two"]
    stray = gives(0, "c9", beside="mine")
    assert lines(asks("c1"), stray, gives(1, "c1")) == ["c1?", "c1=1", "mine"]
    assert lines(event("user", "go"), asks("c1"), stray, stray, gives(1, "c1")) == ["go", "c1?", "c1=1", "mine", "mine"]


def test_words_beside_an_answer_that_another_one_replaced_go_with_it_unless_the_call_is_resumed() -> None:
    """They were about the interim state."""
    log = [asks("c1"), gives(1, "c1", beside="so far"), ONE, gives(2, "c1", beside="at last")]
    assert lines(*log) == ["c1?", "c1=2 so far at last"]
    assert lines(*log, TWO) == ["c1?", "c1=2 at last", "one", "two"]


IMAGE = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
TWICE = event("root", named_call("c1", "look"), named_call("c1", "look"))
LOOK = event("root", text("let me look"), named_call("c2", "look"))
AGAIN = event("root", named_call("c2", "look"))
TWO_TOOLS = event("root", named_call("adk-1", "look"), named_call("adk-2", "note"))
REQUEST = event("root", named_call("adk-r", "adk_request_confirmation"), long_running_tool_ids=["adk-r"])
BOTH = event("root", named_call("c1", "look"), named_call("c2", "look"))


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ([LOOK, ONE], ["let me look", "one"]),
        ([LOOK, gives(2, "c2"), ONE], ["let me look c2?", "c2=2", "one"]),
        ([asks("c1"), ONE, gives(1, "c1"), LOOK], ["c1?", "c1=1", "one", "let me look"]),
        ([asks("c1"), ONE, gives(1, "c1"), LOOK, gives(2, "c2")], ["c1?", "c1=1", "one", "let me look c2?", "c2=2"]),
        ([asks("c1"), LOOK, gives(1, "c1")], ["c1?", "c1=1"]),
        ([asks("adk-1", "adk-2"), gives(1, "adk-2", "adk-1")], ["adk-1? adk-2?", "adk-1=1 adk-2=1"]),
        ([TWO_TOOLS, gives(1, "adk-2", "adk-1")], ["adk-1? adk-2?", "adk-2=1 adk-1=1"]),
        ([REQUEST, ONE], ["one"]),
        (
            [asks("c1", "c3"), gives(1, "c1"), event("user", text("so:"), gives_part("c3"))],
            ["c1? c3?", "c1=1 c3=3 so:"],
        ),
        ([event("root", ""), ONE], ["one"]),
        ([event("root", IMAGE), gives(0, "c9"), LOOK, gives(2, "c2")], ["", "let me look c2?", "c2=2"]),
        ([event("root", text("", thought=True), "a")], ["a"]),
        (
            [asks("c1"), ONE, gives(1, "c1"), event("root", named_call("c2", "look")), gives(2, "c2")],
            ["c1?", "c1=1", "one", "c2?", "c2=2"],
        ),
        ([event("root", IMAGE, named_call("c2", "look")), gives(2, "c2"), ONE], [" c2?", "c2=2", "one"]),
        ([AGAIN, ONE, AGAIN, gives(2, "c2")], ["one", "c2?", "c2=2"]),
        ([AGAIN, ONE, event("root", IMAGE)], ["one", ""]),
        ([BOTH, gives(1, "c1", beside="so far"), gives(2, "c1", "c2")], ["c1? c2?", "c1=2 so far c2=2"]),
        ([TWICE, ONE], ["one"]),
        ([TWICE, gives(1, "c1", "c1"), ONE], ["c1? c1?", "c1=1", "one"]),
    ],
)
def test_a_log_that_grows_is_shown_as_one_that_is_read_at_once(log: list[Event], shown: list[str]) -> None:
    """What was shown before an answer came is taken back."""
    assert lines(*log) == shown


def test_what_has_no_role_or_no_parts_is_not_shown() -> None:
    """By whomever it is said."""
    for content in (types.Content(parts=[text("hm")]), types.Content(role="user", parts=[]), types.Content()):
        for author in ("user", "root", "other"):
            assert lines(Event(author=author, content=content), ONE) == ["one"]
    heard = types.Transcription(text="heard")
    said = Event(author="user", content=types.Content(parts=[text("hm")]), input_transcription=heard)
    assert lines(ONE, said) == ["one", "heard"]


def test_ids_that_were_minted_here_are_kept_from_models_that_have_none() -> None:
    """Those that a model gave stay."""
    log = [asks("adk-1", "c1"), gives(1, "adk-1", "c1")]
    shown = project(log, ROOT._replace(keeps_call_ids=False)).contents
    assert [" ".join(map(told, content.parts or ())) for content in shown] == ["None? c1?", "None=1 c1=1"]


def test_what_a_message_calls_and_what_it_answers_are_shown_once_each() -> None:
    """As another program may have stored it: in two contents, the answer behind its call, and left out if there is
    none (decision 30)."""
    both = event("root", gives_part("c1"), text("hm"), named_call("c2", "look"))
    assert lines(asks("c1"), both, gives(1, "c2")) == ["c1?", "c1=3", "hm c2?", "c2=1"]
    assert lines(asks("c1"), ONE, both, gives(1, "c2")) == ["c1?", "c1=3", "one", "hm c2?", "c2=1"]
    itself = event("root", named_call("c1", "look"), gives_part("c1"), long_running_tool_ids=["c1"])
    assert lines(itself, ONE) == ["c1?", "c1=3", "one"]
    again = event("root", text("hm"), gives_part("c1"), named_call("c1", "look"))
    assert lines(asks("c1"), again, gives(1, "c1")) == ["c1?", "c1=3", "hm c1?", "c1=1"]
    orphan = event("root", text("hm"), named_call("c1", "look"), gives_part("c9"))
    assert lines(orphan, gives(1, "c1")) == ["hm c1?", "c1=1"]


def without_id(part: types.Part) -> types.Part:
    """A call or an answer without an id."""
    named = part.function_call or part.function_response
    assert named is not None
    named.id = None
    return part


def test_answers_without_ids_belong_to_calls_without_ids_in_their_order() -> None:
    """Each to the first of the latest message with calls that has no answer yet; further ones answer nothing."""
    look, give = without_id(named_call("", "look")), [without_id(result("", "look", {"n": n})) for n in range(4)]
    asked = event("root", look, named_call("c1", "look"), look)
    assert lines(asked, event("user", give[1]), ONE, event("user", give[2]), gives(3, "c1"), TWO) == [
        "None? c1? None?",
        "None=1 None=2 c1=3",
        "one",
        "two",
    ]
    earlier = asks("c0")
    mixed = event("user", gives_part("c0"), give[1], give[2], give[0])
    assert lines(earlier, asked, gives(2, "c1"), mixed, ONE) == [
        "c0?",
        "c0=3",
        "None? c1? None?",
        "c1=2 None=1 None=2",
        "one",
    ]
    assert project([asked, event("user", give[1], give[2], give[0])], ROOT).orphans == [""]


def test_what_answers_no_call_is_told() -> None:
    """By its id."""
    assert project([asks("c1"), gives(1, "c9", "c1"), gives(1, "c8")], ROOT).orphans == ["c9", "c8"]


def test_of_calls_of_one_id_by_two_agents_the_later_one_has_the_answer() -> None:
    """As of those by one agent."""
    asked = event("helper", named_call("c1", "look"), long_running_tool_ids=["c1"])
    assert lines(asked, asks("c1"), ONE, gives(2, "c1"), TWO)[1:] == ["c1?", "c1=2", "one", "two"]
    assert lines(asks("c1"), gives(1, "c1"), asked, gives(2, "c1"))[:2] == ["c1?", "c1=1"]


def test_what_needs_a_look_is_named() -> None:
    """By where it stands: what holds more than words, calls and results."""
    log = [ONE, event("root", IMAGE), asks("c1"), gives(1, "c1"), event("root", text("hm", thought=True)), TWO]
    assert shown_of(log, ROOT).special == [1, 4]
