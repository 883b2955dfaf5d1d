"""What should have followed an agent's results, and did not because the run was cut off behind them."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, event, named_call, result

from flowloom import Event, FunctionTool, ParallelAgent
from flowloom.events.actions import InputRequest, ToolConfirmation
from flowloom.log.answers import subjects_of
from flowloom.log.marks import RUN_ENDED
from flowloom.processors.unfinished import pending_follow_ups

from .test_cut_off_calls import resumed


def results(*call_ids: str, name: str = "pay", **actions: Any) -> Event:
    """The event of the results of calls, which have done this."""
    return event("root", *(result(each, name, {"error": "waits"}) for each in call_ids), actions=actions)


def asks(*call_ids: str) -> dict[str, Any]:
    return {"requested_tool_confirmations": {each: ToolConfirmation() for each in call_ids}}


def asked(call_id: str, about: str | None = "c1", name: str = "adk_request_confirmation", own: bool = True) -> Event:
    """A request of the engine's, or a call of that name by a model."""
    args: dict[str, Any] = {"originalFunctionCall": {"id": about, "name": "pay", "args": {}}}
    if name == "adk_request_credential":
        args = {"functionCallId": about, "authConfig": {}}
    made = event("root", types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args)))
    made.long_running_tool_ids = [call_id] if own else None
    return made


CREDENTIAL = {"requested_auth_configs": {"c1": {}, "c2": {}}}
INPUT = {"requested_inputs": {"c1": InputRequest(message="Which?")}}
STRUCTURED = {"set_model_response": {"n": 1}}
OTHER = event("root", "well")


@pytest.mark.parametrize(
    ("log", "pending"),
    [
        ([results("c1")], []),
        ([results("c1", **asks("c1"))], [0]),
        ([results("c1", **asks("c1")), OTHER], [0]),
        ([results("c1", **asks("c1")), asked("r1")], []),
        ([results("c1", **asks("c1")), asked("r1", about="c2")], [0]),
        ([results("c1", **asks("c1")), asked("r1", own=False)], [0]),
        ([results("c1", "c2", **asks("c1", "c2")), asked("r1")], [0]),
        ([results("c1", "c2", **asks("c1", "c2")), asked("r1"), asked("r2", about="c2")], []),
        ([results("c1", **asks("c1")), results("c1")], []),
        ([results("c1", **asks("c1")), results("c2", **asks("c2"))], [1, 0]),
        ([results("c1", **asks("c1")), asked("r1"), results("c2", **asks("c2"))], [2]),
        ([asked("r1"), results("c1", **asks("c1"))], [1]),
        ([results("c1", **INPUT)], [0]),
        ([results("c1", **INPUT), asked("r1", name="adk_request_input")], []),
        ([results("c1", **INPUT), results("c1")], []),
        ([results("c1", "c2", **CREDENTIAL)], [0]),
        ([results("c1", "c2", **CREDENTIAL), asked("r1", name="adk_request_credential")], []),
        ([results("c1", "c2", **CREDENTIAL), asked("r1", name="adk_request_credential", own=False)], [0]),
        ([results("c1", "c2", **CREDENTIAL), asked("r1")], [0]),
        ([results("c1", "c2", **CREDENTIAL), asked("r1", about=None)], [0]),
        ([results("c1", name="set_model_response", **STRUCTURED)], [0]),
        ([results("c1", name="set_model_response", **STRUCTURED), OTHER], []),
        ([OTHER, results("c1", name="set_model_response", **STRUCTURED)], [1]),
        ([results("c1", name="set_model_response", **STRUCTURED), OTHER, OTHER], []),
        ([results("c1", name="finish_task", **STRUCTURED)], []),
        ([], []),
    ],
)
def test_results_are_followed_by_what_they_ask_for_the_latest_first(log: list[Event], pending: list[int]) -> None:
    """By requests to people, each of which stands for its call, or one credential for all; by a structured answer."""
    found = [next(at for at, each in enumerate(log) if each is made) for made, _ in pending_follow_ups(log)]
    assert found == pending


def test_what_was_asked_about_or_answered_since_is_told_with_the_results() -> None:
    """So that only the rest of it is asked."""
    log = [results("c1", "c2", **asks("c1", "c2")), asked("r1"), results("c3"), results("c4", **asks("c4"))]
    log.append(event("root", named_call("c5", "pay")))
    assert [since for _, since in pending_follow_ups(log)] == [set(), {"c1", "c3", "c4"}]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def look() -> str:
    """Look."""
    return "hills"


@pytest.mark.parametrize("told", [False, True])
async def test_a_structured_answer_is_said_though_its_run_told_of_its_end(told: bool) -> None:
    """The model is not asked for it again."""
    log = [
        event("root", named_call("c1", "set_model_response", n=1)),
        event("root", result("c1", "set_model_response", {"n": 1}), actions=STRUCTURED),
        event("root", error_code="RUN_CANCELLED", custom_metadata={RUN_ENDED: "cancelled"}),
    ]
    root = agent("root", tools=[look], output_schema=SCHEMA)
    assert [each.text for each in await resumed(root, *log[: 3 if told else 2])] == ['{"n": 1}']


async def test_an_answer_that_was_refused_is_the_models_to_mend() -> None:
    """The result of its call says what is wrong, and no message beside it."""
    log = [
        event("root", named_call("c1", "set_model_response", n="x")),
        event("root", result("c1", "set_model_response", {"error": "`n` is no integer."})),
    ]
    root = agent("root", named_call("c2", "set_model_response", n=1), tools=[look], output_schema=SCHEMA)
    events = await resumed(root, *log)
    assert [each.author for each in events] == ["root"] * 3
    assert events[-1].text == '{"n": 1}'


async def test_what_an_agent_of_another_branch_has_to_ask_is_its_own_to_ask() -> None:
    """Both go on: it asks once."""
    held = FunctionTool(look, require_confirmation=True)
    a, b = (
        agent("a", named_call("c1", "look"), "done", tools=[look]),
        agent("b", named_call("c2", "look"), tools=[held]),
    )
    chat = Chat(ParallelAgent(name="side", sub_agents=[a, b]))
    await chat.say("go")
    log = (await chat.stored())[1:]
    cut_off = [each for each in log if each.text != "done" and not subjects_of(each)]
    a, b = agent("a", "done", tools=[look]), agent("b", tools=[held])
    events = await resumed(ParallelAgent(name="side", sub_agents=[a, b]), *cut_off)
    assert [(each.author, subjects_of(each)) for each in events] == [("a", set()), ("b", {"c2"})]
