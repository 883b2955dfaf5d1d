"""`RunStreamMapper`: tool calls, agents behind them, and what a person is asked."""

from __future__ import annotations

from typing import Any

import kit
import pytest
from google.genai import types
from run_stream_kit import call_piece, lines, mapped, piece, thought, told, whole

from flowloom import Event
from flowloom.run_stream import (
    AgentStarted,
    ConfirmationRequested,
    CredentialRequested,
    InputRequested,
    RunFinished,
    RunStreamMapper,
    ToolCallFinished,
    ToolCallStarted,
)

CALL = kit.named_call("c1", "look", city="Rome")
RESULT = kit.result("c1", "look", {"deg": 21})


def test_a_call_starts_has_its_arguments_and_finishes() -> None:
    events = [whole("a", "Let me see.", CALL), whole("a", RESULT)]
    assert told(*events)[2:-1] == [
        "call c1 look",
        "a: Let me see.",
        "c1 {'city': 'Rome'}",
        "c1 -> {'deg': 21}",
    ]


def test_a_call_that_was_shown_in_a_partial_event_starts_once() -> None:
    events = [piece("a", CALL), whole("a", CALL), whole("a", RESULT)]
    assert told(*events) == ["+a", "call c1 look", "c1 {'city': 'Rome'}", "c1 -> {'deg': 21}", "-a"]


def test_arguments_come_as_they_stream() -> None:
    events = [
        piece("a", call_piece("c1", "look")),
        piece("a", call_piece("c1", None, {"json_path": "$.city", "string_value": "Ro"})),
        piece("a", call_piece("c1", None, {"json_path": "$.city", "string_value": "me"})),
        piece("a", call_piece("c1", None, {"json_path": "$.days", "number_value": 3.0}, more=False)),
        whole("a", kit.named_call("c1", "look", city="Rome", days=3)),
    ]
    assert told(*events, status="paused")[1:-1] == [
        "call c1 look",
        "c1 $.city 'Ro'",
        "c1 $.city 'me'",
        "c1 $.days 3.0",
        "c1 {'city': 'Rome', 'days': 3}",
    ]


def test_a_streamed_call_that_the_complete_answer_lacks_is_over() -> None:
    said = told(piece("a", "x", CALL), whole("a", "x"))
    assert said[3:] == ["a: x", "c1 -> The call was not part of the complete answer, so it was not executed.", "-a"]


def test_a_call_without_an_id_is_shown_when_it_is_complete_and_answered_by_name() -> None:
    nameless = types.Part(function_call=types.FunctionCall(name="look", args={}))
    events = [piece("a", nameless), whole("a", nameless, id="e1"), whole("a", kit.result(None, "look", {"deg": 1}))]
    assert told(*events) == ["+a", "call e1:call look", "e1:call {}", "e1:call -> {'deg': 1}", "-a"]


def test_an_error_of_a_tool_is_told_as_one() -> None:
    stream = mapped([whole("a", CALL), whole("a", kit.result("c1", "look", {"error": "no such city"}))])
    (finished,) = [e for e in stream if isinstance(e, ToolCallFinished)]
    assert (finished.error, finished.result) == ("no such city", {"error": "no such city"})


def test_a_result_from_the_user_finishes_a_call() -> None:
    assert told(whole("a", CALL), whole("user", RESULT))[-2:] == ["c1 -> {'deg': 21}", "-a"]


def test_a_call_finishes_once() -> None:
    assert told(whole("a", CALL), whole("a", RESULT), whole("user", RESULT)).count("c1 -> {'deg': 21}") == 1


def test_a_result_of_a_call_that_was_not_seen_starts_it() -> None:
    """The run went on after a pause, and the call was made before."""
    assert told(whole("a", RESULT)) == ["+a", "call c1 look", "c1 -> {'deg': 21}", "-a"]


@pytest.mark.parametrize(("status", "closed"), [("paused", False), ("final", True), ("cancelled", True)])
def test_a_call_without_a_result_is_over_with_its_run_unless_that_pauses(status: Any, closed: bool) -> None:
    said = told(whole("a", CALL), status=status)
    assert ("c1 -> The run ended before this call gave a result." in said) is closed


def test_a_run_whose_calls_have_no_results_is_paused() -> None:
    """The host executes them, or they were interrupted; either way the run can go on."""
    assert lines(mapped([whole("a", CALL)]))[-1] == "end paused"
    assert lines(mapped([whole("a", CALL), whole("a", RESULT)]))[-1] == "end final"


def test_a_call_that_the_host_executes_may_finish_after_another_run() -> None:
    events = [whole("a", CALL), whole("user", "Wait.", invocation_id="i2"), whole("user", RESULT)]
    said = lines(mapped(events))
    assert said[4:] == [
        "-a",
        "end paused",
        "run i2",
        "user~ Wait.",
        "user: Wait.",
        "end final",
        "run i1",
        "c1 -> {'deg': 21}",
        "end final",
    ]


# -- long-running tools ----------------------------------------------------------------------------


LONG = whole("a", CALL, long_running_tool_ids=["c1"])


def test_a_long_running_call_reports_progress_until_the_user_gives_the_result() -> None:
    more = types.Part(
        function_response=types.FunctionResponse(id="c1", name="look", response={"at": 50}, will_continue=True)
    )
    events = [LONG, whole("a", kit.result("c1", "look", {"at": 0})), whole("user", more), whole("user", RESULT)]
    assert told(*events)[1:-1] == [
        "call c1 look long",
        "c1 {'city': 'Rome'}",
        "c1 .. {'at': 0}",
        "c1 .. {'at': 50}",
        "c1 -> {'deg': 21}",
    ]


def test_a_long_running_call_that_fails_at_once_is_finished() -> None:
    assert "c1 -> no" in told(LONG, whole("a", kit.result("c1", "look", {"error": "no"})))


def test_a_call_may_turn_out_to_be_long_running_when_it_is_complete() -> None:
    assert "c1 .. {'at': 0}" in told(piece("a", CALL), LONG, whole("a", kit.result("c1", "look", {"at": 0})))


def test_a_long_running_call_may_finish_in_a_later_run() -> None:
    events = [LONG, whole("user", "And?", invocation_id="i2"), whole("user", RESULT, invocation_id="i2")]
    said = lines(mapped(events))
    assert said[:5] == ["run i1", "+a", "call c1 look long", "c1 {'city': 'Rome'}", "-a"]
    assert said[5:] == ["end paused", "run i2", "user~ And?", "user: And?", "c1 -> {'deg': 21}", "end final"]


def test_a_long_running_call_stays_open_after_the_final_answer() -> None:
    assert not any("->" in each for each in told(LONG, whole("a", "Started."), status="final"))


# -- calls that are shown as what they are ---------------------------------------------------------


def test_a_transfer_is_no_tool_call() -> None:
    events = [
        piece("a", kit.named_call("c1", "transfer_to_agent", agent_name="b")),
        whole("a", kit.named_call("c1", "transfer_to_agent", agent_name="b")),
        whole("a", kit.result("c1", "transfer_to_agent", {}), actions={"transfer_to_agent": "b"}),
    ]
    assert told(*events) == ["+a", "a => b", "+b", "-b", "-a"]


def test_a_structured_answer_is_the_message_that_follows() -> None:
    events = [
        piece("a", call_piece("c1", "set_model_response", {"json_path": "$.n", "number_value": 1.0})),
        whole("a", kit.named_call("c1", "set_model_response", n=1)),
        whole("a", kit.result("c1", "set_model_response", {"n": 1}), actions={"set_model_response": {"n": 1}}),
        whole("a", '{"n": 1}'),
    ]
    assert told(*events) == ["+a", 'a~ {"n": 1}', 'a: {"n": 1}', "-a"]


def asks(name: str, request_id: str = "r1", **args: Any) -> Event:
    return whole("a", kit.named_call(request_id, f"adk_request_{name}", **args), long_running_tool_ids=[request_id])


CONFIRM = asks(
    "confirmation",
    originalFunctionCall={"id": "c1", "name": "look", "args": {"city": "Rome"}},
    toolConfirmation={"hint": "Really?", "confirmed": False, "payload": {"max": 5}},
)
WAITS = whole(
    "a",
    kit.result("c1", "look", {"error": "needs approval"}),
    actions={"requested_tool_confirmations": {"c1": {"hint": "Really?"}}},
)


def test_a_call_that_needs_approval_finishes_when_it_ran() -> None:
    answer = whole("user", kit.result("r1", "adk_request_confirmation", {"confirmed": True}))
    assert told(whole("a", CALL), WAITS, CONFIRM, answer, whole("a", RESULT)) == [
        "+a",
        "call c1 look",
        "c1 {'city': 'Rome'}",
        "confirm r1: c1 look {'city': 'Rome'} Really?",
        "answered r1 confirmation: {'confirmed': True}",
        "c1 -> {'deg': 21}",
        "-a",
    ]


def test_a_request_is_answered_once() -> None:
    answer = whole("user", kit.result("r1", "adk_request_confirmation", {"confirmed": True}))
    assert len([each for each in told(CONFIRM, answer, answer) if each.startswith("answered")]) == 1


def test_a_request_for_confirmation_carries_the_payload_of_the_tool() -> None:
    (request,) = [e for e in mapped([CONFIRM]) if isinstance(e, ConfirmationRequested)]
    assert (request.payload, request.agent) == ({"max": 5}, "a")


def test_a_run_that_asked_somebody_is_paused_until_that_is_answered() -> None:
    assert lines(mapped([whole("a", CALL), WAITS, CONFIRM]))[-1] == "end paused"
    answer = whole("user", kit.result("r1", "adk_request_confirmation", {"confirmed": False}))
    assert lines(mapped([whole("a", CALL), WAITS, CONFIRM, answer, whole("a", RESULT)]))[-1] == "end final"


def test_an_approved_call_finishes_in_a_later_run_under_its_id() -> None:
    mapper = RunStreamMapper()
    first = [each for event in (whole("a", CALL), WAITS, CONFIRM) for each in mapper.feed(event)]
    assert lines(first + mapper.finish("paused"))[-1] == "end paused"
    assert lines(mapper.feed(whole("a", RESULT))) == ["run i1", "+a", "c1 -> {'deg': 21}"]


def test_input_is_requested() -> None:
    for schema in ("response_schema", "responseSchema"):
        event = asks("input", interruptId="r1", message="Which?", payload=[1], **{schema: {"type": "string"}})
        (request,) = [e for e in mapped([event]) if isinstance(e, InputRequested)]
        assert (request.message, request.schema, request.payload) == ("Which?", {"type": "string"}, [1])


def test_a_credential_is_requested_without_secrets() -> None:
    oauth = {"clientId": "me", "clientSecret": "s3cret", "client_secret": "s3cret", "authUri": "https://log.in"}
    config = {
        "authScheme": {"type": "oauth2"},
        "rawAuthCredential": {"oauth2": oauth, "apiKey": "s3cret", "http": {"credentials": {"token": "s3cret"}}},
        "other": {"http": {"additionalHeaders": {"x-door": "s3cret"}}, "serviceAccountCredential": {"a": "s3cret"}},
        "exchangedAuthCredential": {"oauth2": {**oauth, "accessToken": "s3cret"}},
    }
    (request,) = [
        e
        for e in mapped([asks("credential", functionCallId="c1", authConfig=config)])
        if isinstance(e, CredentialRequested)
    ]
    assert (request.call_id, request.auth_uri) == ("c1", "https://log.in")
    assert request.auth_config["rawAuthCredential"]["oauth2"] == {"clientId": "me", "authUri": "https://log.in"}
    assert "s3cret" not in str(request.to_dict())


def test_a_credential_that_is_given_is_not_shown() -> None:
    answer = whole("user", kit.result("r1", "adk_request_credential", {"code": "s3cret"}))
    assert told(asks("credential"), answer)[-2:] == ["answered r1 credential: None", "-a"]


def test_a_request_that_holds_nonsense_is_a_request_still() -> None:
    events = [
        asks("confirmation", originalFunctionCall="?", toolConfirmation=3),
        asks("input", "r2", message=4),
        asks("credential", "r3", authConfig=[]),
    ]
    assert told(*events)[1:-1] == ["confirm r1:   {} ", "ask r2: 4", "log in r3: None"]


# -- agents that run as tools ----------------------------------------------------------------------


def inner(*parts: types.Part | str, partial: bool | None = None, **fields: Any) -> Event:
    """What the stream of a run shows of an agent that runs for the call `c1`."""
    metadata: dict[str, Any] = {"agent_tool_call_id": "c1"}
    if partial is not None:
        metadata["agent_tool_partial"] = partial
    return piece(fields.pop("author", "b"), *parts, custom_metadata=metadata, **fields)


@pytest.mark.parametrize("marked", [True, False])
def test_an_agent_that_runs_as_a_tool_speaks_within_its_call(marked: bool) -> None:
    """Its events count as partial; where nothing says which were, those that repeat were not."""
    part, rest = (True, False) if marked else (None, None)
    events = [
        whole("a", CALL),
        inner(thought("hm"), partial=part),
        inner("Su", partial=part),
        inner("nny", partial=part),
        inner(thought("hm"), "Sunny", partial=rest),
        whole("a", RESULT),
    ]
    assert told(*events)[3:] == [
        "+b",
        "b~ (hm)",
        "b~ Su",
        "b~ nny",
        "b: (hm)Sunny",
        "-b",
        "c1 -> {'deg': 21}",
        "-a",
    ]


def test_an_unstreamed_agent_that_runs_as_a_tool_is_heard_without_a_mark() -> None:
    calls, results = kit.named_call("c2", "add", n=1), kit.result("c2", "add", {"sum": 2})
    events = [whole("a", CALL), inner("I add.", calls), inner(results), inner("Two."), whole("a", RESULT)]
    assert told(*events)[3:] == [
        "+b",
        "b~ I add.",
        "call c2 add",
        "c2 {'n': 1}",
        "b: I add.",
        "c2 -> {'sum': 2}",
        "b~ Two.",
        "b: Two.",
        "-b",
        "c1 -> {'deg': 21}",
        "-a",
    ]


def test_everything_of_an_agent_that_runs_as_a_tool_names_the_call() -> None:
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=3)
    events = [
        whole("a", CALL),
        inner("x", kit.named_call("c2", "add"), partial=False, usage_metadata=usage),
        inner(kit.result("c2", "add", {}), partial=False, actions={"transfer_to_agent": "d"}),
        inner(author="d", partial=False, error_code="LOST"),
    ]
    stream = [e for e in mapped(events) if e.to_dict().get("parentCallId") == "c1"]
    assert lines(stream) == ["+b", "b~ x", "call c2 add", "b: x", "tokens 3 of 3", "b => d", "+d", "error LOST of d"]


def test_state_that_an_agent_tool_changes_is_told_once() -> None:
    """It comes with the tool's result."""
    changed = {"state_delta": {"k": 1}}
    events = [whole("a", CALL), inner("x", partial=False, actions=changed), whole("a", RESULT, actions=changed)]
    assert [each for each in told(*events) if each.startswith("state")] == ["state {'k': 1} {}"]


def test_an_agent_tool_that_failed_leaves_an_interrupted_message() -> None:
    events = [whole("a", CALL), inner("Su", partial=True), whole("a", kit.result("c1", "look", {"error": "broke"}))]
    assert told(*events)[5:8] == ["b: Su ...", "-b", "c1 -> broke"]


def kept(event: Event) -> Event:
    """An event of an agent that waits behind the call `c1`, as the log keeps it."""
    return event.model_copy(update={"partial": None, "isolation_scope": "c1"})


@pytest.mark.parametrize("partial", [False, None])
def test_what_the_log_keeps_of_an_agent_that_waits_is_not_shown_twice(partial: bool | None) -> None:
    needs = {"requested_tool_confirmations": {"c2": {"hint": "?"}}}
    ask = kit.named_call("r2", "adk_request_confirmation", originalFunctionCall={"id": "c2", "name": "add"})
    shown = [
        inner("I add.", kit.named_call("c2", "add"), partial=partial),
        inner(kit.result("c2", "add", {"error": "asked"}), partial=partial, actions=needs),
        inner(ask, partial=partial, long_running_tool_ids=["r2"]),
    ]
    said = ["+a", "call c1 look", "c1 {'city': 'Rome'}", "+b", "b~ I add.", "call c2 add"]
    said += ["b: I add.", "c2 {}"] if partial is False else ["c2 {}", "b: I add."]
    live = told(whole("a", CALL), *shown, *map(kept, shown))
    assert live == [*said, "confirm r2: c2 add {} ", "-b", "-a"]
    assert sorted(told(whole("a", CALL), *map(kept, shown))) == sorted(live)


def test_the_calls_of_an_agent_behind_a_call_are_over_with_it() -> None:
    """What came of them is not in the log."""
    call = inner(kit.named_call("c2", "add"), partial=False, actions={"requested_tool_confirmations": {"c2": {}}})
    assert told(whole("a", CALL), kept(call), whole("a", RESULT))[-4:] == [
        "c2 -> None",
        "-b",
        "c1 -> {'deg': 21}",
        "-a",
    ]


def test_the_end_of_an_agent_behind_a_call_is_not_that_of_the_run() -> None:
    over = inner(partial=False, error_code="LOST")
    over.custom_metadata = {**(over.custom_metadata or {}), "run_ended": "failed"}
    assert told(whole("a", CALL), kept(over), whole("a", RESULT), whole("a", "Well."))[3:5] == [
        "+b",
        "error LOST of b",
    ]


def test_a_delegated_agent_finishes_before_its_call() -> None:
    events = [whole("a", CALL), whole("b", "x", isolation_scope="c1", branch="b@c1"), whole("user", RESULT)]
    assert told(*events)[-3:] == ["-b", "c1 -> {'deg': 21}", "-a"]


def test_calls_of_two_branches_are_told_apart() -> None:
    events = [whole(name, kit.named_call(f"c-{name}", "look"), branch=f"p.{name}") for name in "ab"]
    stream = mapped(events)
    starts = [(e.call_id, e.agent, e.branch) for e in stream if isinstance(e, ToolCallStarted)]
    assert starts == [("c-a", "a", "p.a"), ("c-b", "b", "p.b")]
    assert [e.branch for e in stream if isinstance(e, AgentStarted)] == ["p.a", "p.b"]
    assert isinstance(stream[-1], RunFinished)
