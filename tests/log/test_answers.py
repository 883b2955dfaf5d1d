"""What answers of people come to: the one strict reading."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types
from kit import event, named_call

from flowloom import ToolConfirmation
from flowloom.errors import UnreadableAnswerError
from flowloom.events.requests import CONFIRMATION_CALL, CREDENTIAL_CALL, INPUT_CALL, RequestKind
from flowloom.log.answers import (
    answers_request,
    check_answer,
    read_decision,
    read_input,
    readable_answers,
    says_nothing,
    subjects_of,
)

NAMES: dict[RequestKind, str] = {
    "confirmation": CONFIRMATION_CALL,
    "input": INPUT_CALL,
    "credential": CREDENTIAL_CALL,
}


def answer(response: Any, kind: RequestKind = "confirmation") -> types.FunctionResponse:
    return types.FunctionResponse(id="r1", name=NAMES[kind], response=response)


def nested(depth: int) -> dict[str, Any]:
    deep: dict[str, Any] = {}
    for _ in range(depth):
        deep = {"a": deep}
    return deep


DEEP = nested(100_000)


@pytest.mark.parametrize(
    ("response", "decision"),
    [
        (None, ToolConfirmation()),
        ({}, ToolConfirmation()),
        ({"confirmed": True}, ToolConfirmation(confirmed=True)),
        ({"confirmed": False, "reason": "no", "hint": None}, ToolConfirmation(reason="no")),
        ({"confirmed": True, "editedArgs": {"a": 1}}, ToolConfirmation(confirmed=True, edited_args={"a": 1})),
        ({"confirmed": True, "edited_args": {}}, ToolConfirmation(confirmed=True, edited_args={})),
        ({"response": json.dumps({"confirmed": True, "payload": [1]})}, ToolConfirmation(confirmed=True, payload=[1])),
        ({"response": {"confirmed": True}}, ToolConfirmation(confirmed=True)),
    ],
)
def test_a_decision_is_said_in_one_of_these_forms(response: Any, decision: ToolConfirmation) -> None:
    """An object with `confirmed`, or that as an object or JSON text under `response`; an empty answer rejects."""
    assert read_decision(answer(response)).to_wire() == decision.to_wire()


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ({"confirmed": "maybe"}, "`confirmed` is not true or false"),
        ({"confirmed": "true"}, "`confirmed` is not true or false"),
        ({"confirmed": 1}, "`confirmed` is not true or false"),
        ({"confirmed": None}, "`confirmed` is not true or false"),
        ({"result": "approved"}, "it lacks `confirmed`"),
        ({"confirmed": True, "editedArgs": "none"}, "`editedArgs`: Input should be a valid dictionary"),
        (
            {"confirmed": True, "editedArgs": 1, "hint": 2},
            "`hint`: Input should be a valid string, `editedArgs`: Input should be a valid dictionary",
        ),
        ({"response": "not json"}, "its `response` is not JSON"),
        ({"response": ""}, "its `response` is not JSON"),
        ({"response": "true"}, "its `response` is bool, not an object"),
        ({"response": 7}, "its `response` is int, not an object"),
        ({"response": '{"confirmed": NaN}'}, "its `response` is not JSON"),
    ],
)
def test_nothing_else_is_a_decision(response: Any, why: str) -> None:
    """What does not say true or false is refused, and never taken for one of them; the error says why."""
    with pytest.raises(UnreadableAnswerError) as caught:
        read_decision(answer(response))
    assert str(caught.value).startswith("The answer to the confirmation request `r1` cannot be read: ")
    assert f"{why}. It was not stored" in str(caught.value)
    assert caught.value.call_id == "r1"


ASKED = {"id": "c1", "name": "pay", "args": {"amount": 3}}


@pytest.mark.parametrize(
    ("named", "answers"),
    [
        (ASKED, True),
        (types.FunctionCall.model_validate(ASKED), True),
        (ASKED | {"id": "c2"}, False),
        (ASKED | {"name": "buy"}, False),
        (ASKED | {"args": {"amount": 4}}, False),
        ("c1", False),
    ],
)
def test_an_answer_that_names_a_call_is_about_that_one(named: Any, answers: bool) -> None:
    """By its id, its name and its arguments, as an object or as a `FunctionCall`."""
    request = types.FunctionCall(id="r1", name=CONFIRMATION_CALL, args={"originalFunctionCall": ASKED})
    given = answer({"confirmed": True})
    assert answers_request(given, request)
    assert answers_request(answer(None), request)
    given.response = {"confirmed": True, "originalFunctionCall": named}
    assert answers_request(given, request) is answers


def test_an_answer_of_another_kind_is_none_to_a_request_that_names_a_call() -> None:
    request = types.FunctionCall(id="r1", name=CONFIRMATION_CALL, args={"originalFunctionCall": ASKED})
    assert not answers_request(answer({"confirmed": True}, "input"), request)


@pytest.mark.parametrize("args", [None, {}], ids=["no arguments", "empty ones"])
def test_a_request_that_names_no_call_is_answered_by_any_decision(args: Any) -> None:
    request = types.FunctionCall(id="r1", name=CONFIRMATION_CALL, args=args)
    assert answers_request(answer({"confirmed": True, "originalFunctionCall": ASKED}), request)


def test_a_call_of_a_tool_asks_about_no_call() -> None:
    """Although it has an argument as requests to people have."""
    asked = {"originalFunctionCall": ASKED}
    assert subjects_of(event("root", named_call("t1", "pay", **asked), named_call("t2", CONFIRMATION_CALL))) == set()
    request = event("root", named_call("r1", CONFIRMATION_CALL, **asked), long_running_tool_ids=["r1"])
    assert subjects_of(request) == {"c1"}


def test_a_call_of_a_tool_is_answered_by_whatever_its_result_is() -> None:
    """Although JSON cannot hold it, and the call has an argument as requests to people have."""
    made = types.FunctionCall(id="r1", name="pay", args={"originalFunctionCall": ASKED})
    given = types.FunctionResponse(id="r1", name="pay", response={"originalFunctionCall": {}, "paid": object()})
    check_answer(given, None)
    assert answers_request(given, made)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(
    "response",
    [
        {"response": "[" * 100_000},
        {"response": "[" * 100_000 + "]" * 100_000},
        {"response": DEEP},
        {"confirmed": True, "payload": DEEP},
        {"confirmed": True, "payload": 10**5000},
        {"response": '{"confirmed": true, "payload": ' + "9" * 5000 + "}"},
        {"response": '{"confirmed": true, "payload": 1e999}'},
        {"confirmed": True, "payload": "\ud800"},
        {"confirmed": True, "payload": {"\ud800": 1}},
        {"confirmed": True, "payload": float("nan")},
        {"confirmed": True, "payload": object()},
    ],
    ids=["text", "list", "deep", "payload", "number", "digits", "float", "surrogate", "key", "nan", "object"],
)
def test_what_json_cannot_hold_is_no_answer_of_any_kind(kind: RequestKind, response: Any) -> None:
    """The error is the same for text and for Python's objects, and it quotes neither."""
    with pytest.raises(UnreadableAnswerError, match="JSON cannot hold it") as caught:
        check_answer(answer(response, kind), kind)
    assert len(str(caught.value)) < 500
    assert f"the {kind} request `r1`" in str(caught.value)
    assert "(None)" not in str(caught.value)


@pytest.mark.parametrize(
    ("response", "value"),
    [
        (None, None),
        ({"result": "x"}, "x"),
        ({"result": "[1]"}, "[1]"),
        ({"payload": [1]}, [1]),
        ({"response": "[1]"}, [1]),
        ({"response": "[1"}, "[1"),
        ({"response": "NaN"}, "NaN"),
        ({"response": {"a": 1}}, {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ({"result": 1, "b": 2}, {"result": 1, "b": 2}),
    ],
)
def test_input_is_any_json_value(response: Any, value: Any) -> None:
    """What stands under `result`, `response` or `payload`, or all of it; a text is read as JSON if it is."""
    assert read_input(answer(response, "input")) == value


def test_the_result_of_a_call_that_json_cannot_hold_is_told_as_an_input() -> None:
    """Also one without an id."""
    with pytest.raises(UnreadableAnswerError, match="The answer to the input request") as caught:
        read_input(types.FunctionResponse(name="order", response={"a": float("nan"), "b": 1}))
    assert caught.value.call_id == ""


def test_answers_that_cannot_be_read_are_none_and_a_message_of_nothing_else_says_nothing() -> None:
    bad, good = answer({"confirmed": "yes"}), answer({"confirmed": True})

    def message(*parts: Any) -> types.Content:
        return types.Content(
            role="user",
            parts=[
                types.Part(text=each) if isinstance(each, str) else types.Part(function_response=each) for each in parts
            ],
        )

    assert readable_answers(message(bad, "so", good)) == [good]
    assert readable_answers(None) == []
    assert [says_nothing(message(*parts)) for parts in ([bad], [bad, good], [bad, "so"], [])] == [
        True,
        False,
        False,
        False,
    ]
    assert not says_nothing(None)
