"""The spans of tool calls (spec §12.9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from journal import Journal
from kit import Chat, approve, pending, user
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from flowloom import BaseTool, Event, FunctionTool, Limits, LongRunningFunctionTool, RunConfig, ToolContext
from flowloom.testing.scripted import call
from telemetry.agents import agent, run
from telemetry.conftest import Recording


def add(a: int, b: int) -> dict[str, int]:
    """Adds."""
    return {"sum": a + b}


async def boom(a: int) -> None:
    """Breaks."""
    raise ValueError(f"bad {a}")


def results(events: list[Event]) -> Event:
    """The event with the calls' results."""
    return next(event for event in events if event.get_function_responses())


async def test_a_tools_span_names_tool_and_call_and_hides_content(recording: Recording) -> None:
    """All attributes; arguments and result are elided while capture is off."""
    events = await run(agent([call("add", a=1, b=2), "done"], tools=[add]))
    span = recording.span("execute_tool add")
    assert span.status.status_code is StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "bot",
        "gen_ai.conversation.id": "s",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.description": "Adds.",
        "gen_ai.tool.call.id": events[0].get_function_calls()[0].id,
        "gcp.vertex.agent.event_id": results(events).id,
        "gcp.vertex.agent.tool_call_args": "<elided>",
        "gcp.vertex.agent.tool_response": "<elided>",
    }


@pytest.mark.usefixtures("captured")
async def test_arguments_and_results_are_json_when_content_is_captured(recording: Recording) -> None:
    """With capture on they can be read."""
    await run(agent([call("add", a=1, b=2), "done"], tools=[add]))
    attributes = recording.span("execute_tool add").attributes or {}
    assert json.loads(str(attributes["gcp.vertex.agent.tool_call_args"])) == {"a": 1, "b": 2}
    assert json.loads(str(attributes["gcp.vertex.agent.tool_response"])) == {"sum": 3}


async def test_a_tool_that_raises_fails_its_span(recording: Recording) -> None:
    """The model sees an error result, the span the exception."""
    await run(agent([call("boom", a=1), "done"], tools=[boom]))
    span = recording.span("execute_tool boom")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "bad 1"
    assert [event.name for event in span.events] == ["exception"]
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert "gcp.vertex.agent.event_id" in (span.attributes or {})


async def test_a_tool_error_that_ends_the_run_fails_all_spans_around_it(recording: Recording) -> None:
    """The agent's span fails with the tool's."""
    with pytest.raises(ValueError, match="bad 1"):
        await run(agent([call("boom", a=1)], tools=[boom]), RunConfig(tool_errors="raise"))
    assert recording.span("execute_tool boom").status.status_code is StatusCode.ERROR
    assert recording.span("invoke_agent bot").status.status_code is StatusCode.ERROR


async def test_a_result_that_tells_of_an_error_fails_the_span(recording: Recording) -> None:
    """An error in the result is the tool's failure; its text is content."""

    def refuse() -> dict[str, str]:
        return {"error": "secret reason"}

    await run(agent([call("refuse"), "done"], tools=[refuse]))
    span = recording.span("execute_tool refuse")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "<elided>"
    assert (span.attributes or {})["error.type"] == "_OTHER"


async def test_a_call_that_waits_for_approval_has_not_failed(recording: Recording) -> None:
    """Its result says that it has not run, as an error; neither its span nor the metrics count one."""
    await run(agent([call("add", a=1, b=2)], tools=[FunctionTool(add, require_confirmation=True)]))
    span = recording.span("execute_tool add")
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in (span.attributes or {})
    assert "gcp.vertex.agent.event_id" in (span.attributes or {})


async def test_an_unknown_tool_has_a_failed_span(recording: Recording) -> None:
    """A name that the model made up."""
    await run(agent([call("nothing"), "done"], tools=[add]))
    span = recording.span("execute_tool nothing")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "ToolNotFoundError"
    assert (span.attributes or {})["gen_ai.tool.description"] == "<not specified>"


@pytest.mark.usefixtures("captured")
async def test_parallel_calls_are_children_of_a_merged_span(recording: Recording) -> None:
    """Two calls of one answer: the merged span holds both, and the event that answers both."""
    events = await run(agent([[call("add", a=1, b=2), call("add", a=3, b=4)], "done"], tools=[add]))
    assert [entry for entry in recording.tree if "execute_tool" in entry[1]] == [
        ("invoke_agent bot", "execute_tool (merged)"),
        ("execute_tool (merged)", "execute_tool add"),
        ("execute_tool (merged)", "execute_tool add"),
    ]
    attributes = dict(recording.span("execute_tool (merged)").attributes or {})
    response = json.loads(str(attributes.pop("gcp.vertex.agent.tool_response")))
    assert response["content"]["parts"][1]["functionResponse"]["response"] == {"sum": 7}
    assert attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "bot",
        "gen_ai.conversation.id": "s",
        "gen_ai.tool.name": "(merged tools)",
        "gen_ai.tool.description": "(merged tools)",
        "gcp.vertex.agent.tool_call_args": "N/A",
        "gcp.vertex.agent.event_id": results(events).id,
    }


async def test_a_merged_span_hides_content_too(recording: Recording) -> None:
    """The merged event repeats what the results say."""
    await run(agent([[call("add", a=1, b=2), call("boom", a=4)], "done"], tools=[add, boom]))
    attributes = recording.span("execute_tool (merged)").attributes or {}
    assert attributes["gcp.vertex.agent.tool_response"] == "<elided>"


async def test_a_call_whose_result_comes_later_ends_without_one(recording: Recording) -> None:
    """A long-running tool that gives nothing yet: the span ends, with what was known at its start."""

    def wait() -> None:
        return None

    await run(agent([call("wait")], tools=[LongRunningFunctionTool(wait)]))
    attributes = dict(recording.span("execute_tool wait").attributes or {})
    assert attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "bot",
        "gen_ai.conversation.id": "s",
        "gen_ai.tool.name": "wait",
        "gcp.vertex.agent.tool_call_args": "<elided>",
    }


@pytest.mark.parametrize("blocking", [True, False])
async def test_the_tools_own_code_runs_in_its_span(recording: Recording, blocking: bool) -> None:
    """Also in the thread of a blocking function; what it records is a child of the call."""

    def work() -> None:
        with trace.get_tracer("mine").start_as_current_span(f"query {trace.get_current_span().name}"):  # type: ignore[attr-defined]
            pass

    def sync_tool() -> str:
        work()
        return "ok"

    async def async_tool() -> str:
        work()
        return "ok"

    name = "sync_tool" if blocking else "async_tool"
    await run(agent([[call(name), call(name)], "done"], tools=[sync_tool, async_tool]))
    queries = [entry for entry in recording.tree if entry[1].startswith("query")]
    assert queries == [(f"execute_tool {name}", f"query execute_tool {name}")] * 2


class _Odd(BaseTool):
    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return {"loop": float("nan"), "object": object()}


@pytest.mark.usefixtures("captured")
async def test_what_json_has_no_form_for_is_written_as_text(recording: Recording) -> None:
    """An object in a result is no reason to lose the rest."""
    await run(agent([call("odd"), "done"], tools=[_Odd(name="odd", description="")]))
    written = str((recording.span("execute_tool odd").attributes or {})["gcp.vertex.agent.tool_response"])
    assert "object object at" in written


async def test_the_sibling_of_a_call_that_ends_the_run_has_its_result(recording: Recording) -> None:
    """Its span succeeds; the merged one ends, too."""
    with pytest.raises(ValueError, match="bad 1"):
        await run(
            agent([[call("boom", a=1), call("add", a=1, b=1)]], tools=[boom, add]), RunConfig(tool_errors="raise")
        )
    assert recording.open == []
    assert recording.span("execute_tool add").status.status_code is StatusCode.UNSET


async def test_a_task_that_is_not_begun_fails_its_span(recording: Recording) -> None:
    """Control goes to another agent first: its call has an error of ours, and not one that a tool tells of."""
    worker, helper = agent(["never"], "worker", mode="task"), agent(["I help."], "helper")
    asked = [call("transfer_to_agent", agent_name="helper"), call("worker", request="count")]
    await run(agent([asked], sub_agents=[worker, helper]))
    span = recording.span("execute_tool worker")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "ToolError"


async def test_calls_that_are_recorded_run_as_others_do(recording: Recording) -> None:
    """One or several at once: they wait for a person, have keys as effects, and are refused at the limit of a tool."""
    effects = Journal()
    pays, twice = call("pay"), [call("add", a=1, b=1), call("add", a=2, b=2)]
    tools = [FunctionTool(lambda: "paid", name="pay", require_confirmation=True), add]
    chat = Chat(agent([pays, [pays, pays], *twice, twice, "done"], tools=tools), effects=effects)

    async def told(turn: str, *decisions: Any) -> list[Any]:
        effects.invocation = f"{turn}:"
        limits = Limits(tools={"add": 1})
        events = await chat.say(user(*decisions) if decisions else "go", run_config=RunConfig(limits=limits))
        waiting[:] = pending(events)
        return ["error" in (each.response or {}) for event in events for each in event.get_function_responses()]

    waiting: list[Any] = []
    assert await told("a") == [True]
    assert await told("b", *map(approve, waiting)) == [False, True, True]
    assert await told("c", *map(approve, waiting)) == [False, False, False, True, True, True]
    keys = sorted(key for key in effects.given if "/tool/" in key)
    assert keys == [f"{turn}:bot/0/tool/{n}" for turn, count in (("a", 1), ("b", 3), ("c", 3)) for n in range(count)]
    spans = [each.attributes or {} for each in recording.spans if each.name in ("execute_tool pay", "execute_tool add")]
    assert all("gcp.vertex.agent.event_id" in each for each in spans)
