"""In what state a call is, as the events tell it (decision 28)."""

from __future__ import annotations

import time
import timeit
from typing import Any

import ledger_check
import pytest
from google.genai import types
from kit import Chat, agent, context, event, named_call, result

from flowloom import Event
from flowloom.context.run import Run
from flowloom.errors import AlreadyAnsweredError
from flowloom.events.event import NodeInfo
from flowloom.events.requests import ForeignRequestIds
from flowloom.log.claims import check_undecided
from flowloom.log.ledger import CallLedger, Place
from flowloom.log.marks import AGENT_TOOL_CALL, CLIENT_EXECUTED, REPEATED
from flowloom.testing import call

GATED = {"id": "c1", "name": "pay", "args": {}}


def asks(request_id: str = "r1", about: dict[str, Any] | None = GATED, **fields: Any) -> Event:
    """The event by which the engine asks a person."""
    args = {} if about is None else {"originalFunctionCall": about}
    part = named_call(request_id, "adk_request_confirmation", **args)
    return event("root", part, long_running_tool_ids=[request_id], **fields)


def decides(request_id: str = "r1", **fields: Any) -> Event:
    return event("user", result(request_id, "adk_request_confirmation", {"confirmed": True} | fields))


CALLED = event("root", named_call("c1", "pay"))
HELD = event(
    "root",
    result("c1", "pay", {"error": "It needs a decision."}),
    actions={"requested_tool_confirmations": {"c1": {"hint": "?"}}},
)
HELD_FOR_INPUT = event("root", result("c1", "pay", {"error": "?"}), actions={"requested_inputs": {"c1": {}}})
BEGUN = event("root", result("c1", "pay", {"status": "pending"}), long_running_tool_ids=["c1"])
RESULT = event("root", result("c1", "pay", {"ok": True}))
FAILED_TO_BEGIN = event("root", result("c1", "pay", {"error": "no"}), long_running_tool_ids=["c1"])
TWO = event("root", named_call("c1", "pay"), named_call("c2", "order"))
ONE_LONG = event("root", named_call("c1", "pay"), named_call("c2", "order"), long_running_tool_ids=["c2"])
ONE_BEGUN = event("root", result("c1", "pay", {}), result("c2", "order", {}), long_running_tool_ids=["c2"])
LONG = event("root", named_call("c1", "order"), long_running_tool_ids=["c1"])
LEFT = event("root", named_call("c1", "pay"), long_running_tool_ids=["c1"], custom_metadata={CLIENT_EXECUTED: ["c1"]})
REFUSED = event("root", result("r1", "adk_request_confirmation", {"error": "The run failed."}))
REPORTED = event("root", result("r1", "adk_request_confirmation", {"status": "sent"}))
FOREIGN = asks()
FOREIGN.long_running_tool_ids = ForeignRequestIds(["r1"])
KEPT: dict[str, Any] = {"isolation_scope": "c1", "custom_metadata": {AGENT_TOOL_CALL: "c1"}}
INNER = event("inner", named_call("c2", "order"), long_running_tool_ids=["c2"], **KEPT)
INNER_OPEN = event("inner", named_call("c2", "look"), **KEPT)
HELD_INSIDE = event(
    "inner",
    result("c2", "look", {"error": "It needs a decision."}),
    actions={"requested_tool_confirmations": {"c2": {"hint": "?"}}},
    **KEPT,
)
INNER_LEFT = event(
    "inner",
    named_call("c2", "look"),
    long_running_tool_ids=["c2"],
    isolation_scope="c1",
    custom_metadata={AGENT_TOOL_CALL: "c1", CLIENT_EXECUTED: ["c2"]},
)
INNERMOST = event("innermost", "Hm.", isolation_scope="c2", custom_metadata={AGENT_TOOL_CALL: "c2"})
TASK_WAITS = event("helper", named_call("c2", "order"), long_running_tool_ids=["c2"], isolation_scope="c1")
MARK = event("root", actions={"agent_state": {REPEATED: ["c1"]}})


@pytest.mark.parametrize(
    ("log", "states"),
    [
        ([CALLED], {"c1": "open"}),
        ([event("user", named_call("c1", "pay"))], {"c1": None}),
        ([CALLED, RESULT, event("user", named_call("c1", "pay"))], {"c1": "answered"}),
        ([CALLED, RESULT], {"c1": "answered"}),
        ([CALLED, HELD], {"c1": "open"}),
        ([CALLED, HELD, asks()], {"c1": "waiting", "r1": "waiting"}),
        ([CALLED, HELD, asks(), decides()], {"c1": "decided", "r1": "decided"}),
        ([CALLED, HELD, asks(), decides(confirmed="yes")], {"c1": "waiting", "r1": "waiting"}),
        ([CALLED, HELD, asks(), decides(originalFunctionCall={"id": "c9"})], {"c1": "waiting", "r1": "waiting"}),
        ([CALLED, HELD, asks(), decides(), RESULT], {"c1": "answered", "r1": "answered"}),
        ([CALLED, HELD, asks(), asks("r2")], {"c1": "waiting", "r1": "waiting", "r2": "waiting"}),
        ([CALLED, HELD, asks(), decides(), asks("r2")], {"c1": "waiting", "r1": "answered", "r2": "waiting"}),
        ([CALLED, HELD, asks(), REFUSED], {"c1": "waiting", "r1": "answered"}),
        ([CALLED, HELD, asks(), REPORTED], {"c1": "waiting", "r1": "waiting"}),
        ([CALLED, HELD, asks(), decides(), HELD], {"c1": "open", "r1": "answered"}),
        ([CALLED, HELD, asks(), decides(), BEGUN], {"c1": "waiting", "r1": "answered"}),
        ([CALLED, FOREIGN], {"c1": "open", "r1": None}),
        ([LONG], {"c1": "waiting"}),
        ([LONG, RESULT], {"c1": "waiting"}),
        ([LONG, event("user", result("c1", "order", {"status": "soon"}))], {"c1": "answered"}),
        ([LONG, event("root", result("c1", "order", {"error": "no"}))], {"c1": "answered"}),
        ([LEFT, RESULT], {"c1": "answered"}),
        ([LEFT, BEGUN, RESULT], {"c1": "waiting"}),
        ([CALLED, BEGUN, INNER, event("user", result("c1", "pay", {}))], {"c1": "answered", "c2": "answered"}),
        ([CALLED, INNER], {"c1": "suspended", "c2": "waiting"}),
        ([CALLED, INNER, RESULT], {"c1": "answered", "c2": "answered"}),
        ([CALLED, INNER_OPEN, RESULT], {"c1": "answered", "c2": "answered"}),
        ([CALLED, event("inner", **KEPT)], {"c1": "open"}),
        ([CALLED, RESULT, INNER], {"c1": "answered"}),
        ([CALLED, INNER, event("user", result("c1", "pay", {}))], {"c1": "answered", "c2": "answered"}),
        ([CALLED, event("helper", named_call("c2", "look"), isolation_scope="c1"), RESULT], {"c2": "open"}),
        ([CALLED, TASK_WAITS, RESULT], {"c1": "answered", "c2": "answered"}),
        ([CALLED, INNER_OPEN, HELD_INSIDE], {"c2": "answered"}),
        ([CALLED, HELD, asks(), decides(), INNER], {"c1": "suspended", "r1": "decided", "c2": "waiting"}),
        ([event("root", named_call("c1", "pay"), isolation_scope="c1"), RESULT], {"c1": "answered"}),
        ([LONG, event("root", result("c1", "order", None))], {"c1": "waiting"}),
        ([CALLED, FAILED_TO_BEGIN], {"c1": "answered"}),
        ([CALLED, RESULT, BEGUN], {"c1": "waiting"}),
        ([CALLED, event("user", result("c1", "pay", {}))], {"c1": "answered"}),
        ([CALLED, HELD, asks(), RESULT], {"c1": "answered", "r1": "answered"}),
        ([CALLED, HELD_FOR_INPUT], {"c1": "open"}),
        ([CALLED, HELD, asks(), event("user", result("c1", "pay", {}))], {"c1": "waiting", "r1": "waiting"}),
        ([CALLED, BEGUN, asks(), decides()], {"c1": "waiting", "r1": "decided"}),
        ([CALLED, INNER, asks(), decides()], {"c1": "suspended", "r1": "decided"}),
        ([CALLED, asks(about=None)], {"c1": "open", "r1": "waiting"}),
        ([CALLED, asks(about={"id": ["c1"]})], {"c1": "open", "r1": "waiting"}),
        ([asks(about=None), decides()], {"r1": "answered"}),
        ([CALLED, HELD, asks(), decides(), RESULT, decides(reason="Late.")], {"c1": "answered", "r1": "answered"}),
        ([CALLED, Event(author="inner", content=types.Content(role="model", parts=[]), **KEPT)], {"c1": "open"}),
        ([CALLED, Event(author="inner", content=types.Content(role="model"), **KEPT)], {"c1": "open"}),
        ([ONE_LONG], {"c1": "open", "c2": "waiting"}),
        ([TWO, ONE_BEGUN], {"c1": "answered", "c2": "waiting"}),
        ([CALLED, HELD, asks(), INNER], {"c1": "waiting", "r1": "waiting"}),
        ([CALLED, INNER_LEFT, RESULT, INNERMOST], {"c1": "answered", "c2": "answered"}),
        ([CALLED, HELD, asks(), decides(), event("root", named_call("c9", "look"))], {"c1": "decided", "c9": "open"}),
    ],
)
def test_the_state_of_a_call(log: list[Event], states: dict[str, str | None]) -> None:
    """Each state follows from the events alone; what cannot be read, is about another call or is forged decides
    nothing."""
    ledger = CallLedger.of(log)
    found = {call_id: ledger.call(call_id) for call_id in states}
    assert {call_id: made and made.state for call_id, made in found.items()} == states
    over = {call_id for call_id, state in states.items() if state in ("answered", None)}
    assert over.isdisjoint(made.id for made in ledger.live())


def test_all_answers_are_kept_and_the_first_decision_counts() -> None:
    """Reports of a long-running call are none."""
    reports = [event("user", result("c1", "order", {"status": each})) for each in ("soon", "there")]
    order = CallLedger.of([LONG, *reports]).call("c1")
    assert order is not None
    assert ([each.event for each in order.answers], order.decision) == (reports, None)
    decisions = [decides(), decides(reason="It is cheap.")]
    request = CallLedger.of([CALLED, HELD, asks(), *decisions]).call("r1")
    assert request is not None
    assert request.decision is not None
    assert ([each.event for each in request.answers], request.decision.event) == (decisions, decisions[0])


def test_a_result_of_the_engines_is_no_decision() -> None:
    """A client may have executed the call that the run stopped before; so may the run that resumes it, as may an agent
    that runs as a tool, in whose log the end of a task is the user's."""
    given = event("user", result("c1", "pay", {"ok": True}))
    ended = event(
        "user", result("c1", "pay", {"ok": True}), isolation_scope="c0", custom_metadata={AGENT_TOOL_CALL: "c0"}
    )
    logs = (([LEFT, RESULT], None), ([LEFT, ended], None), ([LEFT, given], given), ([LEFT, RESULT, given], given))
    for log, decision in logs:
        made = CallLedger.of(log).call("c1")
        assert made is not None
        assert (made.decision and made.decision.event) is decision


def test_the_place_of_an_event_has_its_node_path() -> None:
    """What is empty is not there."""
    inside = event("a", "hi", node_info=NodeInfo(path="flow@1/a@2"), branch="x", isolation_scope="c1")
    assert Place.of(inside) == ("a", "x", "c1", "flow@1/a@2")
    assert Place.of(event("a", "hi")) == ("a", None, None, "")
    assert Place.of(event("a", "hi", branch="", isolation_scope="")) == ("a", None, None, "")


def test_a_rewind_gives_calls_the_state_that_they_had() -> None:
    """What was rewound is neither asked nor answered, and an id may be used anew."""
    log = [
        event("root", named_call("c1", "order"), long_running_tool_ids=["c1"], invocation_id="e-1"),
        event("user", result("c1", "order", {"ok": True}), invocation_id="e-2"),
        event("root", named_call("c2", "order"), long_running_tool_ids=["c2"], invocation_id="e-2"),
    ]
    ledger = CallLedger().read(log)
    assert [made.id for made in ledger.pending()] == ["c2"]
    log.append(event("root", actions={"rewind_before_invocation_id": "e-2"}, invocation_id="e-3"))
    assert [made.id for made in ledger.read(log).pending()] == ["c1"]
    assert ledger.call("c2") is None


def test_a_decision_that_was_rewound_can_be_made_again() -> None:
    """The request waits again, and another answer to it is no second decision."""
    log = [each.model_copy(update={"invocation_id": "e-1"}) for each in (CALLED, HELD, asks())]
    log += [event("user", "And?", invocation_id="e-2"), decides().model_copy(update={"invocation_id": "e-1"})]
    other = event("user", result("r1", "adk_request_confirmation", {"confirmed": False}))
    with pytest.raises(AlreadyAnsweredError):
        check_undecided(log, other)
    log.append(event("root", actions={"rewind_before_invocation_id": "e-2"}, invocation_id="e-3"))
    assert [made.id for made in CallLedger.of(log).pending()] == ["r1"]
    check_undecided(log, other)


def test_what_waits_stands_in_the_order_asked() -> None:
    """A call that began after a decision stands behind what was asked before that."""
    other = event("root", named_call("c2", "order"), long_running_tool_ids=["c2"])
    ledger = CallLedger.of([CALLED, HELD, asks(), other, decides(), BEGUN])
    assert [made.id for made in ledger.pending()] == ["c2", "c1"]


def test_what_has_no_answer_stands_in_the_order_made() -> None:
    """Also if invocations take turns."""
    calls = [event("root", named_call(f"c{n}", "look"), invocation_id=f"e-{n % 2}") for n in range(4)]
    assert [made.id for made in CallLedger.of(calls).unanswered()] == ["c0", "c1", "c2", "c3"]


def test_what_waits_is_found_in_the_same_time_however_many_calls_are_over() -> None:
    def seconds(invocations: int) -> float:
        log: list[Event] = []
        for n in range(invocations):
            parts = named_call(f"c{n}", "pay"), result(f"c{n}", "pay", {})
            log += [event("root", part, invocation_id=f"e-{n}") for part in parts]
        return min(timeit.repeat(CallLedger.of(log).pending, number=1000, repeat=5, timer=time.process_time))

    assert seconds(2000) <= 10 * seconds(20)


def test_attempts_count_until_the_agent_behind_a_call_has_come_further() -> None:
    """A call is made with each mark; of an agent that left something since, it goes on for the first time."""
    ledger = CallLedger().read(log := [CALLED, MARK])
    assert [made.attempts for made in ledger.open()] == [2]
    ledger.read([*log, INNER])
    assert [made.attempts for made in ledger.waiting()] == [0, 1]


def test_each_mark_of_a_call_is_an_attempt() -> None:
    """And so is its first one, unless the run stopped before it."""
    assert [made.attempts for made in CallLedger.of([CALLED, MARK, MARK]).open()] == [3]
    assert [made.attempts for made in CallLedger.of([LEFT, MARK]).waiting()] == [1]


def test_an_agent_that_has_come_further_brings_those_around_it_further() -> None:
    """An agent as a tool of an agent as a tool: the calls of both go on for the first time."""
    calls = [
        event("root", named_call("c0", "outer")),
        event("outer", named_call("c1", "inner"), isolation_scope="c0", custom_metadata={AGENT_TOOL_CALL: "c0"}),
        event("root", actions={"agent_state": {REPEATED: ["c0", "c1"]}}),
    ]
    for log, attempts in ((calls, [1, 2]), ([*calls, INNER], [0, 0])):
        ledger = CallLedger.of(log)
        assert [made and made.attempts for made in map(ledger.call, ("c0", "c1"))] == attempts


def test_what_an_agent_that_runs_as_a_tool_has_called_is_its_own_to_answer() -> None:
    """It is no open call of the run's, and no decision of its own log is one here."""
    log = [CALLED, INNER_OPEN]
    assert [made.id for made in CallLedger.of(log).open()] == []
    asked, decided = asks(about={"id": "c2"}, **KEPT), decides()
    decided.isolation_scope, decided.custom_metadata = KEPT["isolation_scope"], KEPT["custom_metadata"]
    assert [made.id for made in CallLedger.of([*log, asked, decided]).pending()] == ["r1"]


def inner(call_id: str, name: str, scope: str = "c1", waits: bool = False, **fields: Any) -> Event:
    """A call that an agent has made which runs as a tool."""
    fields = {"custom_metadata": {AGENT_TOOL_CALL: scope}} | fields
    waiting = [call_id] if waits else None
    return event("inner", named_call(call_id, name), isolation_scope=scope, long_running_tool_ids=waiting, **fields)


STOPPED = {AGENT_TOOL_CALL: "c1", CLIENT_EXECUTED: ["c2"]}
ASKED_INSIDE = asks("r2", {"id": "c2", "name": "pay", "args": {}}, **KEPT)


@pytest.mark.parametrize(
    ("log", "ready"),
    [
        ([inner("c2", "order", waits=True)], False),
        ([inner("c2", "look")], True),
        ([inner("c2", "order", waits=True, custom_metadata=STOPPED)], True),
        ([inner("c2", "pay"), ASKED_INSIDE], False),
        ([inner("c2", "pay"), ASKED_INSIDE, decides("r2")], True),
        ([inner("c2", "deeper"), inner("c3", "order", "c2", waits=True)], False),
        ([inner("c2", "deeper"), inner("c3", "look", "c2")], True),
        ([inner("c2", "order", waits=True), event("user", result("c2", "order", {})), inner("c3", "look")], True),
    ],
)
def test_an_agent_that_runs_as_a_tool_is_ready_when_nothing_in_it_waits_for_an_answer(
    log: list[Event], ready: bool
) -> None:
    """However deep; calls that the run stopped before can run, if they are not answered."""
    assert CallLedger.of([CALLED, *log]).is_ready("c1") is ready


def test_what_is_inside_of_a_call_is_all_that_its_agent_and_those_below_have_called() -> None:
    ledger = CallLedger.of([CALLED, inner("c2", "deeper"), inner("c3", "look"), inner("c4", "look", "c2")])
    assert [made.id for made in ledger.inside("c1")] == ["c2", "c3", "c4"]
    assert [made.id for made in ledger.around(ledger.call("c4"))] == ["c2", "c1"]
    assert (ledger.inside("c4"), [*ledger.around(None)]) == ([], [])


def test_a_log_that_goes_in_circles_is_read_to_its_end() -> None:
    """No engine writes one; whoever does so gets an answer all the same."""
    ledger = CallLedger.of(
        [inner("c2", "a", "c1"), inner("c3", "b", "c2"), inner("c2", "c", "c3"), inner("c4", "d", "c4")]
    )
    assert [made.name for made in ledger.inside("c1")] == ["a", "b", "c"]
    assert [made.name for made in ledger.around(ledger.call("c4"))] == ["d"]


def test_what_is_asked_of_one_invocation_is_not_told_of_others() -> None:
    """Requests that people have answered are told in the order asked, not in that of the answers."""

    def turn(n: str) -> list[Event]:
        one, two = f"r1{n}", f"r2{n}"
        events = [
            event("root", named_call(f"c1{n}", "look"), named_call(f"c2{n}", "pay"), named_call(f"c3{n}", "pay")),
            event("root", named_call(f"c4{n}", "order"), long_running_tool_ids=[f"c4{n}"]),
            asks(one, {"id": f"c2{n}", "name": "pay", "args": {}}),
            asks(two, {"id": f"c3{n}", "name": "pay", "args": {}}),
            decides(two),
            decides(one),
        ]
        for each in events:
            each.invocation_id = f"e-{n}"
        return events

    ledger = CallLedger.of(log := [*turn("a"), *turn("b"), event("root", "At last.", invocation_id="e-a")])

    def ids(found: Any) -> list[str]:
        return [made.id for made in found]

    assert ids(ledger.decided("e-b")) == ["r1b", "r2b"]
    assert ids(ledger.waiting("e-b")) == ["c4b", "r1b", "r2b"]
    assert ids(ledger.pending("e-b")) == ["c4b"]
    assert ids(ledger.open("e-b")) == ["c1b"]
    assert ids(ledger.unanswered("e-b")) == ["c1b", "c2b", "c3b", "c4b"]
    assert ids(ledger.unfinished("e-b", Place("root", None, None, ""))) == ["c1b", "c4b"]
    assert ids(ledger.pending()) == ["c4a", "c4b"]
    for each in ("e-a", "e-b", "e-c"):
        assert ledger.events_of(each) == [event for event in log if event.invocation_id == each]


def test_the_task_of_the_latest_event_is_the_open_one() -> None:
    def of(scope: str) -> Event:
        return event("helper", "Which?", isolation_scope=scope)

    log = [event("root", named_call(each, "helper")) for each in ("c1", "c2")]
    log += [of("c1"), of("c2"), of("c1"), event("root", "Meanwhile."), event("user", "And?")]
    assert CallLedger.of(log).open_task({"helper"}) == "c1"
    assert CallLedger.of([*log, event("user", result("c1", "helper", {}))]).open_task({"helper"}) == "c2"
    assert CallLedger.of(log).open_task({"other"}) is None


def test_an_id_that_is_used_again_names_the_latest_call() -> None:
    """The earlier one is no more live, and stands behind it."""
    ledger = CallLedger.of(event("root", named_call("c1", name), invocation_id=name) for name in ("one", "two"))
    assert [made.name for made in ledger.open()] == ["two"]
    made = ledger.call("c1")
    assert made is not None
    assert made.before is not None
    assert made.before.name == "one"


def test_a_request_from_elsewhere_is_history() -> None:
    """It was never this log's to answer: it is known, and over."""
    ledger = CallLedger.of([CALLED, FOREIGN])
    made = ledger.ever("r1")
    assert made is not None
    assert (made.name, made.author, made.state, made.is_request, made.decision) == (
        "adk_request_confirmation",
        "root",
        "answered",
        False,
        None,
    )


def test_a_ledger_reads_what_is_new() -> None:
    """A log that does not begin with what was read is read anew, and what the other one had is not known."""
    ledger = CallLedger().read(log := [CALLED, HELD, event("root", named_call("c9", "look"))])
    made = ledger.call("c9")
    assert ledger.read([*log, RESULT]).call("c9") is made
    assert ledger.read([LONG]).call("c1") is not None
    assert [made.kind for made in ledger.pending()] == ["client"]
    assert ledger.ever("c9") is None


def test_what_was_rewound_is_known_still() -> None:
    """So that no new call has its id: a call, and a request that came from elsewhere."""
    kept, gone = event("root", "Hi.", invocation_id="e-1"), [CALLED.model_copy(), FOREIGN.model_copy()]
    for each in gone:
        each.invocation_id = "e-2"
    rewind = event("root", actions={"rewind_before_invocation_id": "e-2"}, invocation_id="e-3")
    again = event("root", actions={"rewind_before_invocation_id": "e-1"}, invocation_id="e-4")
    for log in ([kept, *gone, rewind], [kept, *gone, rewind, again]):
        ledger = CallLedger.of(log)
        assert [made and made.id for made in map(ledger.ever, ("c1", "r1"))] == ["c1", "r1"]
        assert [ledger.call("c1"), ledger.call("r1")] == [None, None]


@pytest.mark.parametrize("begun", [[], [INNERMOST]], ids=["approved", "approved and waits"])
def test_a_handover_waits_for_calls_beside_it_that_were_decided_and_agents_that_have_begun(begun: list[Event]) -> None:
    calls = event("root", named_call("h", "leave"), named_call("c1", "pay"), named_call("c2", "order"))
    left = event(
        "root",
        result("h", "leave", {}),
        result("c2", "order", {"error": "It needs a decision."}),
        actions={"requested_tool_confirmations": {"c2": {"hint": "?"}}, "transfer_to_agent": "helper"},
    )
    ordered = event("root", result("c2", "order", {"ok": True}))
    log = [calls, left, asks(about={"id": "c2", "name": "order", "args": {}}), decides(), *begun, RESULT]
    assert CallLedger.of(log).handovers == {}
    assert CallLedger.of([*log, ordered]).handovers == {ordered.id: "helper"}


def test_a_call_without_a_name_has_an_empty_one() -> None:
    made = CallLedger.of([event("root", types.Part(function_call=types.FunctionCall(id="c1")))]).call("c1")
    assert made is not None
    assert made.name == ""


def test_a_call_without_an_id_is_not_told_of() -> None:
    """Nothing could answer it."""
    ledger = CallLedger.of([event("root", types.Part(function_call=types.FunctionCall(name="look", args={})))])
    assert [*ledger.live()] == []


@pytest.mark.parametrize(
    ("path", "other", "held"),
    [("", "", True), ("a@1", "a@1", True), ("a@1", "", True), ("a@1", "a@2", False), ("", "a@1", False)],
)
def test_a_place_holds_what_was_made_there(path: str, other: str, held: bool) -> None:
    """An event of another engine has no node path, and may be of any member."""
    assert Place("a", None, None, path).holds(Place("a", None, None, other)) is held


async def test_the_ledger_is_compared_with_readers_of_the_whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose ledger has missed something fails, if the comparison is on."""
    monkeypatch.setattr(Run, "record", ledger_check.watched(Run.record))

    def pay() -> None:
        pass

    await Chat(agent("root", call("pay"), "Done.", tools=[pay])).say("Pay.")
    monkeypatch.setattr(CallLedger, "_take_result", lambda *_: None)
    with pytest.raises(AssertionError):
        await Chat(agent("root", call("pay"), "Done.", tools=[pay])).say("Pay.")


@pytest.mark.parametrize("value", [None, 5, "c1", [["c1"]], [None], {"c1": 1}])
def test_a_mark_that_is_no_list_of_call_ids_says_nothing(value: Any) -> None:
    """Anyone may write to what an event of theirs holds; the session is read all the same."""
    called = event("root", named_call("c1", "pay"), custom_metadata={CLIENT_EXECUTED: value})
    marked = event("root", actions={"agent_state": {REPEATED: value}})
    made = CallLedger.of([called, marked, event("user", result("c1", "pay", {}))]).call("c1")
    assert made is not None
    assert (made.attempts, made.is_decided_once, made.decision) == (0, False, None)


def test_a_session_has_one_ledger() -> None:
    """It is made when it is asked for, and kept with the history."""
    session = context(agent("root"), CALLED).session
    assert session.history.ledger(session.events) is session.history.ledger(session.events)
    assert isinstance(session.history.ledger(session.events).call("c1").call, types.FunctionCall)  # type: ignore[union-attr]
