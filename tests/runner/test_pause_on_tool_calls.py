"""Tools that the host runs: the run stops before its calls and goes on with their results."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from kit import (
    STREAMED,
    Chat,
    agent,
    collect,
    hand_to,
    named_call,
    pending,
    requests_of,
    result,
    said,
    shown,
    story,
    text,
    user,
)
from pydantic import BaseModel

from flowloom import (
    AgentTool,
    FunctionTool,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    PendingCall,
    RunConfig,
    RunResult,
    SequentialAgent,
    StreamingMode,
    answers,
)
from flowloom.testing import FunctionModel, call
from runner.situations import ByTurn, go_on, held, legal

ALL = RunConfig(pause_on_tool_calls=True)
STREAMED_ALL = RunConfig(pause_on_tool_calls=True, streaming_mode=StreamingMode.SSE)


class Desk:
    """Tools, and what was done with them."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def look(self, at: str = "hills") -> dict[str, str]:
        """Look."""
        self.ran.append(f"look {at}")
        return {"engine": at}

    def find(self) -> dict[str, bool]:
        """Find."""
        self.ran.append("find")
        return {"engine": True}

    def order(self) -> dict[str, str]:
        """Order, which takes days."""
        self.ran.append("order")
        return {"status": "pending"}

    def tools(self, *, confirmed: bool = False) -> list[Any]:
        find = FunctionTool(self.find, require_confirmation=True) if confirmed else self.find
        return [self.look, find, LongRunningFunctionTool(self.order)]


async def paused(chat: Chat, message: Any = "go", config: RunConfig = ALL, **options: Any) -> RunResult:
    """A turn that stops before its calls, and is legal."""
    found = await held(chat, message, run_config=config, **options).result()
    legal(await chat.stored())
    return found


def of(found: RunResult, name: str) -> PendingCall:
    """The waiting call of a tool."""
    (one,) = [call for call in found.pending if call.name == name]
    return one


@pytest.mark.parametrize("config", [ALL, STREAMED_ALL], ids=["plain", "streamed"])
async def test_the_run_stops_before_the_calls_and_goes_on_with_the_hosts_results(config: RunConfig) -> None:
    desk = Desk()
    root = agent("root", [call("look", at="sea"), call("find")], "done", tools=desk.tools())
    chat = Chat(root)
    first = await paused(chat, config=config)
    assert (first.status, first.tool_calls, desk.ran) == ("paused", 0, [])
    assert [(each.kind, each.name, each.args, each.agent) for each in first.pending] == [
        ("tool", "look", {"at": "sea"}, "root"),
        ("tool", "find", {}, "root"),
    ]
    last = await paused(
        chat, answers(of(first, "look").reply("blue"), of(first, "find").reply({"host": 1})), config=config
    )
    assert (last.status, last.text, last.pending, desk.ran) == ("final", "done", [], [])
    assert last.invocation_id == first.invocation_id
    assert shown(requests_of(root)[1])[-2:] == ["user: look -> {'result': 'blue'}", "user: find -> {'host': 1}"]


async def test_a_call_that_comes_in_pieces_pauses_the_run_once_it_is_complete() -> None:
    desk = Desk()

    async def in_pieces(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=said(call("look")), partial=True)
        yield LlmResponse(content=said(call("look", at="sea")))

    root = LlmAgent(name="root", model=FunctionModel(in_pieces), tools=desk.tools())
    found = await paused(Chat(root), config=STREAMED_ALL)
    assert (found.status, [each.args for each in found.pending], desk.ran) == ("paused", [{"at": "sea"}], [])


async def test_with_streaming_no_partial_event_is_marked_and_the_ids_stay() -> None:
    desk = Desk()
    found = await paused(Chat(agent("root", [call("look")], "done", tools=desk.tools())), config=STREAMED_ALL)
    marked = [event for event in found.events if event.long_running_tool_ids]
    assert [event.long_running_tool_ids for event in marked] == [[found.pending[0].id]]


async def test_by_name_the_run_stops_if_one_of_them_is_called() -> None:
    desk = Desk()
    config = RunConfig(pause_on_tool_calls=["find"])
    root = agent("root", call("look"), [call("look"), call("find")], "done", tools=desk.tools())
    chat = Chat(root)
    first = await paused(chat, config=config)
    assert (desk.ran, [each.name for each in first.pending]) == (["look hills"], ["look", "find"])
    last = await paused(chat, answers(of(first, "find").reply("x")), config=config)
    assert (last.status, last.text, last.pending) == ("final", "done", [])
    assert desk.ran == ["look hills", "look hills"]
    assert "'engine'" in shown(requests_of(root)[2])[-1] or "'engine'" in shown(requests_of(root)[2])[-2]


@pytest.mark.parametrize("names", [[], ["other"]])
async def test_other_names_change_nothing(names: list[str]) -> None:
    desk = Desk()
    found = await paused(
        Chat(agent("root", call("look"), "done", tools=desk.tools())), config=RunConfig(pause_on_tool_calls=names)
    )
    assert (found.text, desk.ran) == ("done", ["look hills"])


@pytest.mark.parametrize("answered", [[], ["look"], ["find"]])
async def test_what_the_host_does_not_answer_is_run_once_when_the_run_goes_on(answered: list[str]) -> None:
    """With a message of some results, or by the invocation's id alone."""
    desk = Desk()
    chat = Chat(agent("root", [call("look"), call("find")], "done", tools=desk.tools()))
    first = await paused(chat)
    if answered:
        last = await paused(chat, answers(*(of(first, name).reply("host") for name in answered)))
    else:
        last = await chat.runner.run_to_result(user_id="ann", session_id="s1", invocation_id=first.invocation_id)
    assert sorted(desk.ran) == sorted({"look hills", "find"} - {"look hills" if a == "look" else a for a in answered})
    assert (last.status, last.text, last.pending) == ("final", "done", [])
    events = await chat.stored()
    legal(events)
    assert len([a for event in events for a in event.get_function_responses()]) == 2


async def test_a_long_running_tool_that_the_host_leaves_is_started_then() -> None:
    desk = Desk()
    chat = Chat(agent("root", [call("look"), call("order")], "ordered", "it came", tools=desk.tools()))
    first = await paused(chat)
    second = await paused(chat, answers(of(first, "look").reply("x")))
    assert (desk.ran, second.text) == (["order"], "ordered")
    assert [each.name for each in second.pending] == ["order"]
    assert second.status == "paused"
    last = await paused(chat, answers(of(second, "order").reply({"status": "here"})))
    assert (last.status, last.text, last.pending) == ("final", "it came", [])


async def test_handing_over_is_no_call_of_the_hosts() -> None:
    desk = Desk()
    helper = agent("helper", call("look"), "helped", tools=desk.tools())
    chat = Chat(agent("root", hand_to("helper"), "never", sub_agents=[helper]))
    first = await paused(chat)
    assert [(each.name, each.agent) for each in first.pending] == [("look", "helper")]
    last = await paused(chat, answers(first.pending[0].reply("x")))
    assert (last.status, last.text, desk.ran) == ("final", "helped", [])


async def test_handing_over_beside_a_call_is_done_when_the_run_goes_on() -> None:
    desk = Desk()
    helper = agent("helper", "helped")
    root = agent("root", [call("look"), hand_to("helper")], "never", tools=desk.tools(), sub_agents=[helper])
    chat = Chat(root)
    first = await paused(chat)
    assert first.status == "paused"
    last = await paused(chat, answers(of(first, "look").reply("x")))
    assert (last.status, last.text, desk.ran) == ("final", "helped", [])


async def test_a_tool_that_needs_a_persons_approval_asks_for_it_when_the_engine_is_to_run_it() -> None:
    desk = Desk()
    chat = Chat(agent("root", [call("look"), call("find")], "done", tools=desk.tools(confirmed=True)))
    first = await paused(chat)
    assert [each.kind for each in first.pending] == ["tool", "tool"]
    second = await paused(chat, answers(of(first, "look").reply("x")))
    assert (second.status, desk.ran) == ("paused", [])
    (asked,) = [each for each in second.pending if each.kind == "confirmation"]
    assert second.pending == [asked]
    last = await paused(chat, answers(asked.approve()))
    assert (last.status, last.text, last.pending, desk.ran) == ("final", "done", [], ["find"])


async def test_a_tool_that_needs_approval_may_be_the_hosts() -> None:
    desk = Desk()
    chat = Chat(agent("root", call("find"), "done", tools=desk.tools(confirmed=True)))
    first = await paused(chat)
    last = await paused(chat, answers(of(first, "find").reply("host")))
    assert (last.status, last.text, desk.ran) == ("final", "done", [])


async def test_a_sequence_goes_on_in_the_member_that_was_paused() -> None:
    desk = Desk()
    a = agent("a", [call("look"), call("find")], "a is done", tools=desk.tools(), output_key="a")
    b = agent("b", call("look", at="sea"), "b is done", tools=desk.tools(), output_key="b")
    chat = Chat(SequentialAgent(name="row", sub_agents=[a, b]))
    first = await paused(chat)
    assert {each.agent for each in first.pending} == {"a"}
    second = await paused(chat, answers(of(first, "look").reply("x")))
    assert desk.ran == ["find"]
    assert [(each.agent, each.name) for each in second.pending] == [("b", "look")]
    last = await paused(chat, answers(of(second, "look").reply("y")))
    assert (last.status, last.text) == ("final", "b is done")
    assert await chat.state() == {"a": "a is done", "b": "b is done"}
    assert desk.ran == ["find"]


async def test_parallel_branches_pause_each_by_itself() -> None:
    desk = Desk()
    a = agent("a", call("look"), "a is done", tools=desk.tools(), output_key="a")
    b = agent("b", call("look"), "b is done", tools=desk.tools(), output_key="b")
    c = agent("c", "c is done", output_key="c")
    root = SequentialAgent(
        name="row", sub_agents=[ParallelAgent(name="side", sub_agents=[a, b, c]), agent("d", "d is done")]
    )
    chat = Chat(root)
    first = await paused(chat)
    assert first.status == "paused"
    assert sorted(each.agent for each in first.pending) == ["a", "b"]
    by_agent = {each.agent: each for each in first.pending}
    last = await paused(chat, answers(by_agent["a"].reply("x"), by_agent["b"].reply("y")))
    assert (last.status, last.text, last.pending, desk.ran) == ("final", "d is done", [], [])
    assert await chat.state() == {"a": "a is done", "b": "b is done", "c": "c is done"}


async def test_a_call_that_is_answered_beside_that_of_another_branch_is_not_run() -> None:
    """What the answers leave is the engine's, when they are all there."""
    desk = Desk()
    a = agent("a", call("look"), "a is done", tools=desk.tools())
    b = agent("b", [call("look"), call("find")], "b is done", tools=desk.tools())
    chat = Chat(ParallelAgent(name="side", sub_agents=[a, b]))
    looks = [each for each in (await paused(chat)).pending if each.name == "look"]
    last = await paused(chat, answers(*(each.reply("seen") for each in looks)))
    assert (last.status, last.text, desk.ran) == ("final", "b is done", ["find"])


async def test_a_loop_pauses_in_every_round() -> None:
    desk = Desk()
    model = ByTurn(call("look"), "one", call("look"), "two")
    chat = Chat(
        LoopAgent(name="loop", max_iterations=2, sub_agents=[LlmAgent(name="a", model=model, tools=desk.tools())])
    )
    first = await paused(chat)
    second = await paused(chat, answers(first.pending[0].reply("x")))
    assert (second.status, len(second.pending)) == ("paused", 1)
    last = await paused(chat, answers(second.pending[0].reply("y")))
    assert (last.status, last.text, desk.ran) == ("final", "two", [])


async def test_what_the_model_says_about_its_answer_and_calls_of_names_that_are_the_engines_stay() -> None:
    """Beside the mark of the calls that the host is to execute."""
    parts = [named_call("c1", "look"), named_call("c2", "adk_request_confirmation")]
    response = LlmResponse(content=said(*parts), custom_metadata={"route": 7})
    it = Chat(agent("root", response, tools=[Desk().look]), config=ALL)
    event, *_ = await it.say("Go.")
    assert event.long_running_tool_ids == ["c1"]
    assert event.custom_metadata == {"route": 7, "client_executed_calls": ["c1"]}


async def test_a_call_in_what_a_callback_answers_for_the_agent_is_not_the_hosts() -> None:
    """It is no call of the model's, and has no id to answer it by."""
    root = agent("root", tools=Desk().tools(), before_agent_callback=lambda **_: said(call("look")))
    [event] = await Chat(root, config=ALL).say("go")
    assert (event.long_running_tool_ids, event.custom_metadata) == (None, None)


async def test_the_text_beside_the_calls_is_no_final_answer() -> None:
    """It is not written to the output key, and need not fit the output schema."""

    class Finding(BaseModel):
        what: str

    desk = Desk()
    chat = Chat(agent("root", [text("Let me look."), call("look")], "done", tools=desk.tools(), output_key="said"))
    first = await paused(chat)
    assert (first.status, first.state_delta) == ("paused", {})
    root = agent(
        "root",
        [text("Let me look."), call("look")],
        call("set_model_response", what="hills"),
        tools=desk.tools(),
        output_key="said",
        output_schema=Finding,
    )
    chat = Chat(root)
    first = await paused(chat)
    assert (first.status, first.output, first.state_delta) == ("paused", None, {})
    last = await paused(chat, answers(first.pending[0].reply("x")))
    assert (last.status, last.output, last.state_delta) == ("final", Finding(what="hills"), {"said": {"what": "hills"}})


async def test_an_agent_as_a_tool_may_be_the_hosts_and_its_own_calls_too() -> None:
    desk = Desk()
    child = agent("child", call("look"), "child is done", tools=desk.tools())
    chat = Chat(agent("root", call("child", request="x"), "done", tools=[AgentTool(child)]))
    first = await paused(chat, config=RunConfig(pause_on_tool_calls=["look"]))
    assert [(each.agent, each.name) for each in first.pending] == [("child", "look")]
    last = await paused(chat, answers(first.pending[0].reply("x")), config=RunConfig(pause_on_tool_calls=["look"]))
    assert (last.status, last.text, last.pending, desk.ran) == ("final", "done", [], [])
    answered = [a.response for event in last.events for a in event.get_function_responses() if a.name == "child"]
    assert answered == [{"result": "child is done"}]


async def test_the_calls_of_an_agent_that_runs_as_a_tool_are_left_to_the_engine_too() -> None:
    desk = Desk()
    child = agent("child", call("look"), "child is done", tools=desk.tools())
    chat = Chat(agent("root", call("child", request="x"), "done", tools=[AgentTool(child)]))
    first = await paused(chat, config=RunConfig(pause_on_tool_calls=["look"]))
    last = await paused(chat, None, invocation_id=first.invocation_id)
    assert (last.status, last.text, last.pending, desk.ran) == ("final", "done", [], ["look hills"])


async def test_a_long_running_tool_without_a_first_report_is_started_once() -> None:
    started = []

    def order() -> None:
        """Order."""
        started.append(True)

    chat = Chat(agent("root", call("order"), "it came", tools=[LongRunningFunctionTool(order)]))
    found = await paused(chat)
    for _ in range(2):
        found = await paused(chat, None, RunConfig(), invocation_id=found.invocation_id)
        assert (found.status, [each.name for each in found.pending], started) == ("paused", ["order"], [True])
    last = await paused(chat, answers(found.pending[0].reply("here")))
    assert (last.status, last.text, last.pending, started) == ("final", "it came", [], [True])


@pytest.mark.parametrize("by_host", [False, True])
async def test_a_delegated_call_is_the_hosts_or_the_sub_agents(by_host: bool) -> None:
    desk = Desk()
    clerk = agent("clerk", "clerk is done", mode="single_turn")
    chat = Chat(
        agent("root", [call("clerk", request="x"), call("look")], "done", tools=desk.tools(), sub_agents=[clerk])
    )
    first = await paused(chat)
    assert [each.name for each in first.pending] == ["clerk", "look"]
    if by_host:
        last = await paused(chat, answers(of(first, "clerk").reply("host")))
    else:
        last = await paused(chat, None, invocation_id=first.invocation_id)
    assert (last.status, last.text, last.pending, desk.ran) == ("final", "done", [], ["look hills"])
    assert any(event.author == "clerk" for event in last.events) is not by_host


async def test_it_goes_on_in_another_process_without_the_setting() -> None:
    """Which calls were stopped is told by the log."""
    desk = Desk()
    chat = Chat(agent("root", [call("look"), call("find")], "done", tools=desk.tools()))
    first = await paused(chat)
    restarted = Chat(agent("root", "done", tools=desk.tools()))
    service: Any = restarted.runner.session_service
    service.adopt(await chat.session())
    events = await go_on(restarted, first.invocation_id)
    assert story(events)[-1] == "root: done"
    assert sorted(desk.ran) == ["find", "look hills"]
    legal(await restarted.stored())


async def test_a_message_instead_of_results_leaves_the_calls_to_nobody() -> None:
    """The next message begins a new run; the model sees a legal history."""
    desk = Desk()
    root = agent("root", call("look"), "never mind then", tools=desk.tools())
    chat = Chat(root)
    await paused(chat)
    assert story(await chat.say("never mind"))[-1] == "root: never mind then"
    assert desk.ran == []


async def test_the_same_results_twice_are_taken_once() -> None:
    desk = Desk()
    root = agent("root", [call("look"), call("find")], "done", "again", tools=desk.tools())
    chat = Chat(root)
    first = await paused(chat)
    answer = answers(of(first, "look").reply("x"))
    await paused(chat, answer)
    await collect(chat.runner.run_async(user_id="ann", session_id="s1", new_message=answer))
    assert desk.ran == ["find"]


async def test_without_the_setting_nothing_pauses() -> None:
    desk = Desk()
    events = await Chat(agent("root", call("look"), "done", tools=desk.tools()), config=STREAMED).say("go")
    assert (pending(events), desk.ran) == ([], ["look hills"])


async def test_results_by_id_are_enough() -> None:
    """A host that knows no `PendingCall` answers by a function response, as everywhere."""
    desk = Desk()
    chat = Chat(agent("root", named_call("c1", "look"), "done", tools=desk.tools()))
    await paused(chat)
    assert (await paused(chat, user(result("c1", "look", {"host": True})))).text == "done"
