"""Which task the user's next message belongs to, and which calls it answers (cases, area 22; spec §18.4, §18.5)."""

from __future__ import annotations

import pytest
from google.genai import types
from kit import event, named_call, result, user

from flowloom import Event
from flowloom.log.ledger import CallLedger
from flowloom.runner.routing import answered_call


def opens(scope: str) -> list[Event]:
    return [event("root", named_call(scope, "worker")), event("worker", "hm", isolation_scope=scope)]


def closes(scope: str) -> Event:
    return event("user", result(scope, "worker", {"result": "done"}))


def fails(scope: str) -> Event:
    """A `finish_task` that did not fit its schema: the task goes on."""
    return event("worker", result("f1", "finish_task", {"error": "no"}), isolation_scope=scope)


LOGS: list[tuple[str, list[Event], str | None]] = [
    ("none", [], None),
    ("unscoped only", [event("user", "hi"), event("root", "hello")], None),
    ("open", opens("t1"), "t1"),
    ("closed by success", [*opens("t1"), closes("t1")], None),
    ("error finish keeps open", [*opens("t1"), fails("t1")], "t1"),
    ("newer open, older closed", [*opens("t1"), closes("t1"), *opens("t2")], "t2"),
    ("newer closed, older open", [*opens("t1"), *opens("t2"), closes("t2")], "t1"),
]


@pytest.mark.parametrize(("log", "scope"), [each[1:] for each in LOGS], ids=[each[0] for each in LOGS])
def test_the_scope_that_is_open(log: list[Event], scope: str | None) -> None:
    assert CallLedger.of(log).open_task({"worker"}) == scope


LOG = [
    event("a", named_call("c1", "ask"), named_call("c2", "ask"), long_running_tool_ids=["c1", "c2"]),
    event("b", named_call("c3", "ask"), long_running_tool_ids=["c3"]),
]
MESSAGES: list[tuple[str, types.Content | None, str | None]] = [
    ("no message", None, None),
    ("text turn none", user("hi"), None),
    ("one", user(result("c1", "ask", {})), "a"),
    ("two of one agent", user(result("c1", "ask", {}), result("c2", "ask", {})), "a"),
    ("of two agents, in the message's order", user(result("c3", "ask", {}), result("c1", "ask", {})), "b"),
    ("unknown", user(result("zz", "ask", {})), None),
    ("known beside unknown", user(result("zz", "ask", {}), result("c3", "ask", {})), "b"),
    ("without an id", user(result(None, "ask", {})), None),
    ("beside text", user("here", result("c3", "ask", {})), "b"),
]


@pytest.mark.parametrize(("message", "author"), [m[1:] for m in MESSAGES], ids=[m[0] for m in MESSAGES])
def test_whose_call_a_message_answers_first(message: types.Content | None, author: str | None) -> None:
    answered = answered_call(CallLedger.of(LOG), message)
    assert (answered and answered.author) == author


def test_a_repeated_answer_still_counts() -> None:
    log = [*LOG, event("user", result("c3", "ask", {"n": 1})), event("b", "thanks")]
    answered = answered_call(CallLedger.of(log), user(result("c3", "ask", {"n": 2})))
    assert answered is not None
    assert answered.author == "b"
