"""`EventStore`: what is known of a session after its events."""

from __future__ import annotations

import gc
import itertools
import json
import re
import tracemalloc
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_kit import parsed, wire, wires

from flowloom import ConfigurationError, Event, SessionNotFoundError
from flowloom.client import EventStore
from flowloom.client.session_events import SessionEvents

THOUGHT = {"text": "hm", "thought": True}


class Told:
    """A store that is told events by their JSON, each with an id of its own."""

    def __init__(self, max_events: int = 1000) -> None:
        self.store = EventStore(max_events)
        self._ids = itertools.count()

    def tell(self, *parts: dict[str, Any] | str, **fields: Any) -> SessionEvents:
        self.store.add(parsed(wire(*parts, **{"id": f"e{next(self._ids)}", **fields})))
        return self.store.session()

    def partial(self, *parts: dict[str, Any] | str, **fields: Any) -> SessionEvents:
        return self.tell(*parts, partial=True, **fields)

    def raw(self, payload: str) -> SessionEvents:
        self.store.add(parsed(payload))
        return self.store.session()


def call(call_id: str | None, name: str = "add", **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args, **({"id": call_id} if call_id else {})}}


def result(call_id: str | None, name: str = "add", **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response, **({"id": call_id} if call_id else {})}}


def texts(session: SessionEvents) -> list[tuple[str, str, str]]:
    return [(each.author, each.text, each.status) for each in session.messages]


# -- messages --------------------------------------------------------------------------------------


def test_partials_and_their_complete_event_are_one_message() -> None:
    told = Told()
    told.partial("hel")
    assert texts(told.partial("lo")) == [("root", "hello", "streaming")]
    assert texts(told.tell("hello")) == [("root", "hello", "complete")]


def test_a_complete_event_alone_is_a_message() -> None:
    assert texts(Told().tell("hello")) == [("root", "hello", "complete")]


def test_what_a_callback_made_of_the_answer_counts() -> None:
    """The complete event is what was answered, whatever was streamed before it."""
    told = Told()
    told.partial("secret")
    assert texts(told.tell("removed")) == [("root", "removed", "complete")]


def test_the_next_partial_begins_a_new_message() -> None:
    told = Told()
    told.partial("a")
    told.tell("a")
    told.partial("b")
    assert [text for _, text, _ in texts(told.tell("b"))] == ["a", "b"]


def test_agents_that_speak_at_the_same_time_are_kept_apart() -> None:
    told = Told()
    for piece in ("1", "2", "3"):
        told.partial(f"a{piece}", author="a", branch="p.a")
        told.partial(f"b{piece}", author="b", branch="p.b")
    told.tell("b1b2b3", author="b", branch="p.b")
    assert texts(told.store.session()) == [("a", "a1a2a3", "streaming"), ("b", "b1b2b3", "complete")]


def test_one_agent_in_two_branches_is_kept_apart() -> None:
    told = Told()
    told.partial("x", branch="p.1")
    told.partial("y", branch="p.2")
    assert [text for _, text, _ in texts(told.tell("x!", branch="p.1"))] == ["x!", "y"]


def test_the_same_agent_in_another_turn_is_kept_apart() -> None:
    told = Told()
    told.partial("x", invocationId="i1")
    assert [text for _, text, _ in texts(told.partial("y", invocationId="i2"))] == ["x", "y"]


def test_thoughts_are_put_together_beside_the_text() -> None:
    told = Told()
    told.partial(THOUGHT)
    told.partial(THOUGHT)
    told.partial("yes")
    session = told.tell({"text": "hmhm", "thought": True}, "yes")
    (message,) = session.messages
    assert (message.text, message.thoughts) == ("yes", "hmhm")
    assert session.thoughts == [("root", "hmhm")]


def test_thoughts_that_the_complete_event_does_not_repeat_are_kept() -> None:
    told = Told()
    told.partial(THOUGHT)
    assert [each.thoughts for each in told.tell("yes").messages] == ["hm"]


def test_text_before_a_call_that_comes_alone_is_kept() -> None:
    told = Told()
    told.partial("let me see")
    assert texts(told.tell(call("c"))) == [("root", "let me see", "complete")]


def test_a_change_of_state_ends_no_message() -> None:
    told = Told()
    told.partial("a")
    told.tell(actions={"stateDelta": {"k": 1}})
    assert texts(told.partial("b")) == [("root", "ab", "streaming")]


def test_what_the_user_says_is_a_message() -> None:
    told = Told()
    told.tell("hi", author="user")
    session = told.tell("hello")
    assert [author for author, _, _ in texts(session)] == ["user", "root"]
    assert session.text == "hello"


def test_an_interruption_ends_a_message() -> None:
    told = Told()
    told.partial("a")
    assert texts(told.tell(interrupted=True)) == [("root", "a", "interrupted")]


def test_the_mark_of_the_end_ends_messages() -> None:
    told = Told()
    told.partial("a")
    session = told.raw("[DONE]")
    assert texts(session) == [("root", "a", "complete")]
    assert session.done
    assert not told.partial("b").done


def test_a_stream_that_is_over_leaves_nothing_streaming() -> None:
    told = Told()
    told.partial("a")
    told.store.end()
    assert texts(told.partial("b")) == [("root", "a", "interrupted"), ("root", "b", "streaming")]


def test_nothing_is_said_by_events_without_text() -> None:
    assert texts(Told().tell(call("c"))) == []


pieces = st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5), st.booleans()), max_size=30)


@given(given_pieces=pieces)
def test_no_character_comes_twice_and_none_is_lost(given_pieces: list[tuple[str, str, bool]]) -> None:
    """Any interleaving of agents; each ends its answer with a complete event now and then."""
    told = Told()
    said: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    open_text: dict[str, str] = {}
    for author, text, ends in given_pieces:
        told.partial(text, author=author, branch=author)
        open_text[author] = open_text.get(author, "") + text
        if ends:
            whole = open_text.pop(author)
            told.tell(whole, author=author, branch=author)
            said[author].append(whole)
    for author, text in open_text.items():
        said[author].append(text)
    if given_pieces:
        session = told.store.session()
        for author, wanted in said.items():
            found = [message.text for message in session.messages if message.author == author]
            assert found == [text for text in wanted if text]


# -- errors ----------------------------------------------------------------------------------------


def test_an_error_keeps_what_was_said() -> None:
    told = Told()
    told.partial("hel")
    session = told.tell(errorCode="UNAVAILABLE", errorMessage="gone")
    assert texts(session) == [("root", "hel", "failed")]
    (error,) = session.errors
    assert (error.code, error.message, error.author, error.partial_text) == ("UNAVAILABLE", "gone", "root", "hel")


def test_an_error_by_itself_breaks_off_what_is_being_said() -> None:
    told = Told()
    told.partial("a1", author="a", branch="a")
    told.partial("b1", author="b", branch="b")
    session = told.raw('{"error": "boom", "error_details": {"kind": "x"}}')
    assert [status for _, _, status in texts(session)] == ["failed", "failed"]
    (error,) = session.errors
    assert (error.message, error.author, error.partial_text, error.details) == ("boom", "b", "a1b1", {"kind": "x"})


def test_a_stream_that_goes_on_after_an_error_goes_on_with_its_message() -> None:
    """adk-go writes an error frame, and then further events."""
    told = Told()
    told.partial("hel")
    told.raw('event: error\ndata: {"error": "boom"}\n\n')
    assert texts(told.partial("lo")) == [("root", "hello", "streaming")]
    assert texts(told.tell("hello")) == [("root", "hello", "complete")]


def test_an_end_after_an_error_does_not_mend_the_message() -> None:
    told = Told()
    told.partial("hel")
    told.raw('{"error": "boom"}')
    assert texts(told.raw("[DONE]")) == [("root", "hel", "failed")]


# -- calls, sources, timeline ----------------------------------------------------------------------


def test_calls_are_joined_with_their_responses() -> None:
    told = Told()
    told.tell(call("c1", a=1), call("c2", "sub"))
    session = told.tell(result("c2", "sub", x=5))
    first, second = session.calls
    assert (first.name, first.args, first.answered, first.response) == ("add", {"a": 1}, False, None)
    assert (second.name, second.answered, second.response) == ("sub", True, {"x": 5})
    assert session.pending_calls == [first]


def test_calls_without_ids_are_joined_by_name_in_order() -> None:
    told = Told()
    told.tell(call(None, a=1), call(None, a=2))
    told.tell(result(None, sum=1))
    session = told.tell(result(None, sum=2))
    assert [(each.args, each.response) for each in session.calls] == [({"a": 1}, {"sum": 1}), ({"a": 2}, {"sum": 2})]


def test_a_long_running_call_takes_its_latest_response() -> None:
    told = Told()
    told.tell(call("c"), longRunningToolIds=["c"])
    told.tell(result("c", status="pending"))
    session = told.tell(result("c", status="done"))
    (record,) = session.calls
    assert (record.long_running, record.responses, record.response) == (True, 2, {"status": "done"})


def test_a_response_without_its_call_is_kept() -> None:
    (record,) = Told().tell(result("c", sum=1)).calls
    assert (record.id, record.name, record.args, record.response) == ("c", "add", None, {"sum": 1})


def test_calls_of_partial_events_wait_for_the_complete_one() -> None:
    told = Told()
    assert told.partial(call("c")).calls == []
    assert [each.id for each in told.tell(call("c")).calls] == ["c"]
    assert told.store.session().totals.calls == 1


def test_sources_are_kept_once() -> None:
    chunks = [{"web": {"uri": uri, "title": uri.upper()}} for uri in ("u", "v")]
    told = Told()
    told.partial("x", groundingMetadata={"groundingChunks": chunks[:1]})
    session = told.tell("x", groundingMetadata={"groundingChunks": chunks})
    assert session.sources == [("u", "U"), ("v", "V")]
    assert session.totals.sources == 2


def test_the_timeline_says_who_was_heard_and_who_handed_over() -> None:
    told = Told()
    told.tell("hi", author="user", timestamp=1)
    told.partial("x", author="desk", timestamp=2)
    told.tell("x", author="desk", timestamp=3)
    told.tell(result("t", "transfer_to_agent"), author="desk", timestamp=4, actions={"transferToAgent": "flights"})
    session = told.tell("y", author="flights", timestamp=5)
    assert [(each.kind, each.agent, each.to, each.timestamp, each.until, each.events) for each in session.timeline] == [
        ("agent", "user", None, 1, 1, 1),
        ("agent", "desk", None, 2, 4, 3),
        ("transfer", "desk", "flights", 4, 4, 1),
        ("agent", "flights", None, 5, 5, 1),
    ]


def test_parallel_branches_do_not_interrupt_each_other_in_the_timeline() -> None:
    told = Told()
    for _ in range(5):
        told.partial("x", author="a", branch="a")
        told.partial("y", author="b", branch="b")
    assert [(each.agent, each.events) for each in told.store.session().timeline] == [("a", 5), ("b", 5)]


# -- reading again ---------------------------------------------------------------------------------


def as_data(store: EventStore) -> dict[str, Any]:
    return json.loads(json.dumps(store.to_dict()))


def without_duplicates(store: EventStore) -> dict[str, Any]:
    data = as_data(store)
    for session in data["sessions"].values():
        session["totals"].pop("duplicates")
    return data


@given(
    data=st.lists(wires.filter(lambda data: data["id"]), min_size=1, max_size=8, unique_by=lambda data: data["id"]),
    start=st.integers(0, 8),
    stop=st.integers(0, 8),
)
def test_events_that_come_again_change_nothing(data: list[dict[str, Any]], start: int, stop: int) -> None:
    """A reconnection that replays any stretch of what was seen."""
    once, again = EventStore(), EventStore()
    once.extend(map(Event.model_validate, data))
    again.extend(map(Event.model_validate, data))
    before = without_duplicates(again)
    again.extend(map(Event.model_validate, data[start:stop]))
    assert without_duplicates(again) == before == without_duplicates(once)
    assert again.session().totals.duplicates == len(data[start:stop])


def test_a_replay_in_the_middle_of_a_message_repeats_nothing() -> None:
    events = [parsed(wire(text, id=f"p{text}", partial=True)) for text in "abc"]
    store = EventStore()
    store.extend(events)
    assert not store.add(events[1])
    store.extend(events)
    store.add(parsed(wire("d", id="pd", partial=True)))
    assert [each.text for each in store.session().messages] == ["abcd"]


def test_partial_events_that_share_an_id_are_different_events() -> None:
    """Also those that say the same; the complete event has the id too."""
    told = Told()
    for number, piece in enumerate("abb"):
        told.partial(piece, id="same", timestamp=number)
    assert texts(told.store.session()) == [("root", "abb", "streaming")]
    assert texts(told.tell("abb", id="same")) == [("root", "abb", "complete")]


def test_an_event_that_the_server_sends_in_two_halves_is_one() -> None:
    """google-adk sends content first, and artifacts in a second frame of the same id."""
    told = Told()
    actions = {"transferToAgent": "b"}
    told.tell("x", id="e", actions=actions)
    session = told.tell(id="e", actions={**actions, "artifactDelta": {"f": 1}})
    assert (session.totals.events, session.totals.transfers, session.totals.duplicates) == (1, 1, 0)
    assert [bool(each.event.actions.artifact_delta) for each in session.raw] == [False, True]


def test_events_without_an_id_are_all_new() -> None:
    told = Told()
    told.tell("x", id="")
    assert told.tell("x", id="").totals.events == 2


# -- the store -------------------------------------------------------------------------------------


def test_sessions_are_kept_apart() -> None:
    store = EventStore()
    store.add(Event.model_validate(wire("a")), "s1")
    store.add(Event.model_validate(wire("b")), "s2")
    assert [store.session(name).text for name in store] == ["a", "b"]
    assert len(store) == 2
    store.drop("s1")
    assert "s1" not in store
    with pytest.raises(SessionNotFoundError, match="`s1`"):
        store.session("s1")


def test_the_last_ids_are_known() -> None:
    told = Told()
    told.tell("x", id="e7", invocationId="i3", timestamp=9)
    session = told.tell("y", id="", invocationId="", author="b", timestamp=10)
    assert (session.last_event_id, session.last_invocation_id) == ("e7", "i3")
    assert (session.last_author, session.last_timestamp) == ("b", 10)


@pytest.mark.parametrize("wrong", [0, None, "5", 2.5])
def test_a_store_holds_at_least_one_event(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="an integer of at least 1"):
        EventStore(wrong)


def test_lists_are_bounded_and_totals_go_on() -> None:
    told = Told(max_events=3)
    for number in range(10):
        told.tell("x", call(f"c{number}"), invocationId=f"i{number}")
        told.tell(result(f"c{number}"), errorCode="E", actions={"transferToAgent": "b"}, invocationId=f"i{number}")
    session = told.store.session()
    kept = (session.raw, session.messages, session.calls, session.errors, session.timeline)
    assert [len(each) for each in kept] == [3] * 5
    totals = session.totals
    assert (totals.events, totals.messages, totals.calls, totals.responses) == (20, 10, 10, 10)
    assert (totals.errors, totals.transfers) == (10, 10)
    assert [each.id for each in session.calls] == ["c7", "c8", "c9"]


@given(data=st.lists(wires, max_size=8), cut=st.integers(0, 8))
def test_a_store_that_was_stored_goes_on_as_if_nothing_had_been(data: list[dict[str, Any]], cut: int) -> None:
    """But for the raw events."""
    whole, first = EventStore(), EventStore()
    whole.extend(map(Event.model_validate, data))
    first.extend(map(Event.model_validate, data[:cut]))
    second = EventStore.from_dict(as_data(first))
    assert as_data(second) == as_data(first)
    assert all(not second.session(name).raw for name in second)
    second.extend(map(Event.model_validate, data[cut:]))
    assert as_data(second) == as_data(whole)


def test_a_store_that_was_stored_goes_on_in_the_middle_of_a_message() -> None:
    told = Told()
    told.partial("hel")
    told.store = EventStore.from_dict(as_data(told.store))
    assert texts(told.partial("lo")) == [("root", "hello", "streaming")]
    assert texts(told.tell("hello")) == [("root", "hello", "complete")]


def test_raw_events_are_not_in_the_serialised_form() -> None:
    told = Told()
    told.tell({"inlineData": {"mimeType": "x/y", "data": "AQ=="}}, customMetadata={"k": "only in the raw event"})
    assert "only in the raw event" not in json.dumps(told.store.to_dict())


@pytest.mark.parametrize("data", [{}, {"format": 2}, {"format": 1, "max_events": 5, "sessions": {"": {}}}, [], None])
def test_what_is_no_store_is_refused(data: Any) -> None:
    with pytest.raises(ConfigurationError, match="event store"):
        EventStore.from_dict(data)


@pytest.mark.parametrize(
    ("odd", "where"),
    [
        ({"format": 2}, "['format']"),
        ({"max_events": "5"}, "['max_events']"),
        ({"sessions": {3: {}}}, "['sessions'][3]"),
        ({"totals": {"events": "1"}}, "['totals']['events']"),
        ({"totals": {"events": True}}, "['totals']['events']"),
        ({"last_author": None}, "['last_author']"),
        ({"done": 1}, "['done']"),
        ({"messages": [{"author": "root", "text": 7}]}, "['messages'][0]['text']"),
        ({"messages": [{"author": "root", "status": "lost"}]}, "['messages'][0]['status']"),
        ({"timeline": [{"kind": "agent"}]}, "['timeline'][0]['agent']"),
        ({"errors": [{"message": b"no"}]}, "['errors'][0]['message']"),
        ({"errors": [{"message": "no", "details": {"at": object}}]}, "['errors'][0]['details']['at']"),
        ({"calls": [{"id": "c1", "args": {"day": [date(2026, 1, 1)]}}]}, "['calls'][0]['args']['day'"),
        ({"calls": [{"id": "c1", "response": []}]}, "['calls'][0]['response']"),
        ({"sources": [["http://x"]]}, "['sources'][0]"),
        ({"seen": [["e1", 2]]}, "['seen'][0][1]"),
    ],
    ids=str,
)
def test_what_is_wrong_in_a_store_is_named_by_its_place(odd: dict[str, Any], where: str) -> None:
    """Also if it is deep inside, or no JSON."""
    told = Told()
    told.tell("hello", call("c1"))
    data = as_data(told.store)
    of_session = not odd.keys() & data.keys()
    (data["sessions"][""] if of_session else data).update(odd)
    place = "data['sessions']['']" + where if of_session else "data" + where
    with pytest.raises(ConfigurationError, match=f"event store: `{re.escape(place)}"):
        EventStore.from_dict(data)


def turns(first: int, count: int) -> Iterator[dict[str, Any]]:
    """Turns of ten events that share no value: partials, a call, a result, an answer with a source."""
    for number in range(first, first + count):
        fields = {"invocationId": f"i{number}", "timestamp": float(number)}
        yield wire(f"question {number}", author="user", id=f"u{number}", **fields)
        for piece in range(5):
            yield wire(f"{number}.{piece} ", id=f"p{number}.{piece}", partial=True, **fields)
        yield wire(call(f"c{number}", x=number), id=f"k{number}", **fields)
        yield wire(result(f"c{number}", y=number), id=f"r{number}", actions={"transferToAgent": "root"}, **fields)
        grounding = {"groundingChunks": [{"web": {"uri": f"http://{number}", "title": f"{number}"}}]}
        yield wire(f"answer {number}", id=f"a{number}", groundingMetadata=grounding, **fields)
        yield wire(id=f"x{number}", errorCode=f"E{number}", **fields)


@pytest.mark.soak
def test_a_hundred_thousand_events_stay_in_flat_memory() -> None:
    store = EventStore(max_events=100)

    def tell(first: int, count: int) -> None:
        for data in turns(first, count):
            store.add(parsed(data))

    tell(0, 9000)
    gc.collect()
    tracemalloc.start()
    try:
        tell(9000, 500)  # every list holds nothing older now
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        tell(9500, 500)
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    totals = store.session().totals
    assert (totals.events, totals.messages, totals.errors) == (100_000, 30_000, 10_000)
    assert after < 1.05 * before
