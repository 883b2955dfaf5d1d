"""What follows from a step is a table, read without a model (spec §1.3, decisions 2 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from kit import agent, call, context, event, named_call, result, text

from flowloom import Event, LimitExceededError
from flowloom.errors import AgentNotFoundError, IncompleteStreamError
from flowloom.flow.llm_turn import MAX_THOUGHT_TURNS, LlmTurn, StepResult
from flowloom.flow.turn import AGAIN, OVER, WAITING, Enter


def turn(**given: Any) -> LlmTurn:
    """The turn of an agent that may hand over to `other`, and has `helper` to delegate to."""
    helper = agent("helper", mode="single_turn")
    root = agent("root", sub_agents=[agent("other"), helper])
    options = {"single_step": given.pop("single_step", False)}
    it = LlmTurn(context(root), root.flow, **options)
    for name, value in given.items():
        setattr(it, name, value)
    return it


def step(last: Event | None = None, **fields: Any) -> StepResult:
    """What a step has come to."""
    it = StepResult()
    it.last = last
    for name, value in fields.items():
        setattr(it, name, value)
    return it


def delegated(last: Event | None = None, **fields: Any) -> StepResult:
    """The same with a call of `helper`, which has no result."""
    return step(last, tasks=[types.FunctionCall(id="c1", name="helper", args={})], **fields)


def ended(it: LlmTurn) -> LlmTurn:
    it.ctx.end_invocation = True
    return it


ANSWER = event("root", "Done.")
RESULTS = event("root", result("c1", "look", {"seen": 1}))
CALLS = event("root", call("look"))
LONG = event("root", named_call("c1", "order"), long_running_tool_ids=["c1"])
SKIPPED = event("root", result("c1", "look", {}), actions={"skip_summarization": True})
FINISHED = event("root", result("c1", "finish_task", {"result": "ok"}), actions={"set_model_response": "ok"})
THOUGHTS = event("root", text("Hm.", thought=True))
FAILED = Event(author="root", error_code="BLOCKED", error_message="no")
LIMIT = LimitExceededError("enough", limit="tool_calls", allowed=1, used=1)

TABLE: list[tuple[str, Callable[[], LlmTurn], StepResult, Any]] = [
    ("nothing came of it", turn, step(), OVER),
    ("an answer", turn, step(ANSWER), OVER),
    ("results of calls", turn, step(RESULTS), AGAIN),
    ("calls that were not run", turn, step(CALLS), AGAIN),
    ("results that are the answer", turn, step(SKIPPED), OVER),
    ("the result of a task", turn, step(FINISHED), OVER),
    ("an error event", turn, step(FAILED), OVER),
    ("a long-running call", turn, step(LONG), WAITING),
    ("nothing but thoughts", turn, step(THOUGHTS), AGAIN),
    ("nothing but thoughts, too often", lambda: turn(thoughts=MAX_THOUGHT_TURNS), step(THOUGHTS), OVER),
    ("one step only", lambda: turn(single_step=True), step(RESULTS), OVER),
    ("a call that stays open", turn, step(RESULTS, waiting=True), WAITING),
    ("an open call before a transfer", turn, step(RESULTS, waiting=True, transfer_to="other"), WAITING),
    ("a transfer", turn, step(RESULTS, transfer_to="other"), "other"),
    ("a transfer before delegated calls", turn, delegated(RESULTS, transfer_to="other"), "other"),
    ("a transfer in one step", lambda: turn(single_step=True), step(RESULTS, transfer_to="other"), "other"),
    ("delegated calls", turn, delegated(CALLS), "helper"),
    ("an open call before delegated calls", turn, delegated(CALLS, waiting=True), WAITING),
    ("delegated calls in one step", lambda: turn(single_step=True), delegated(CALLS), OVER),
    ("a processor halted", turn, step(RESULTS, halted_by="guard"), OVER),
    ("a processor halted after a delegated call", turn, delegated(halted_by="guard"), "helper"),
    ("the invocation was ended", lambda: ended(turn()), step(RESULTS), OVER),
    ("the invocation was ended in a stream", lambda: ended(turn()), step(open_partial=True), OVER),
    ("the final step at a limit", lambda: turn(final_step=LIMIT), step(RESULTS, transfer_to="other"), OVER),
]


@pytest.mark.parametrize(("make", "given", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_follows_from_a_step(make: Callable[[], LlmTurn], given: StepResult, expected: Any) -> None:
    """The first row that holds says it."""
    outcome = make().rule(given)
    if isinstance(expected, str):
        assert isinstance(outcome, Enter)
        assert outcome.ctx.agent.name == expected
        assert (outcome.task is None) == (expected == "other")
    else:
        assert outcome is expected


def test_a_stream_that_ends_on_a_partial_response_is_an_error_that_names_agent_and_model() -> None:
    """The complete answer never came."""
    with pytest.raises(IncompleteStreamError, match="`root`") as caught:
        turn().rule(step(ANSWER, open_partial=True))
    assert caught.value.model == "scripted"


def test_decision_05_a_transfer_to_an_agent_out_of_reach_is_an_error() -> None:
    """`helper` is called, and not handed over to."""
    with pytest.raises(AgentNotFoundError, match=r"`helper`.*`other`"):
        turn().rule(step(RESULTS, transfer_to="helper"))


def test_decision_02_thoughts_count_in_a_row() -> None:
    """Anything else between them begins the count anew."""
    it = turn()
    for _ in range(MAX_THOUGHT_TURNS):
        assert it.rule(step(THOUGHTS)) is AGAIN
    assert it.rule(step(RESULTS)) is AGAIN
    assert it.rule(step(THOUGHTS)) is AGAIN
    assert it.thoughts == 1
