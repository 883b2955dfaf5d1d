"""Handing over: who answers, now and in the next turn, and what comes of it (cases area 16: run, e2e)."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from kit import Chat, agent, call, event, hand_to, named_call, open_calls, pending, requests_of, shown, story, text

from flowloom import (
    BaseAgent,
    BaseTool,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    ToolContext,
)
from flowloom.testing import FunctionModel

SINGLE: dict[str, Any] = {"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True}


def authors(events: list[Event]) -> list[str]:
    return [e.author for e in events if e.text]


async def test_the_agent_that_was_handed_to_answers_this_turn_and_the_next() -> None:
    """E2e auto->auto | root transfers to sub; next user turn | sub answers both turns."""
    sub = agent("sub", "one", "two")
    chat = Chat(agent("root", hand_to("sub"), sub_agents=[sub]))
    events = await chat.say("go")
    assert story(events) == [
        "root: transfer_to_agent(agent_name='sub')",
        "root: transfer_to_agent -> {}",
        "sub: one",
    ]
    assert story(await chat.say("more")) == ["sub: two"]


async def test_after_an_agent_that_does_not_hand_back_the_root_answers_the_next_turn() -> None:
    """E2e auto->single (both disallowed) | next turn | root answers."""
    sub = agent("sub", "one", **SINGLE)
    chat = Chat(agent("root", hand_to("sub"), "two", sub_agents=[sub]))
    assert authors(await chat.say("go")) == ["sub"]
    assert authors(await chat.say("more")) == ["root"]


async def test_after_a_chain_that_ends_in_such_an_agent_the_middle_one_answers() -> None:
    """E2e auto->auto->single | chain in one turn; next turn | middle agent answers."""
    leaf = agent("leaf", "one", **SINGLE)
    middle = agent("middle", hand_to("leaf"), "two", sub_agents=[leaf])
    chat = Chat(agent("root", hand_to("middle"), sub_agents=[middle]))
    assert authors(await chat.say("go")) == ["leaf"]
    assert authors(await chat.say("more")) == ["middle"]


async def test_an_agent_hands_over_to_its_parent() -> None:
    sub = agent("sub", hand_to("root"))
    root = agent("root", hand_to("sub"), "back", sub_agents=[sub])
    assert authors(await Chat(root).say("go")) == ["root"]


async def test_an_agent_that_got_control_back_hands_over_to_its_own_parent() -> None:
    """Up the tree, one after the other."""
    leaf = agent("leaf", hand_to("middle"))
    middle = agent("middle", hand_to("leaf"), hand_to("root"), sub_agents=[leaf])
    events = await Chat(agent("root", hand_to("middle"), "back", sub_agents=[middle])).say("go")
    assert [e.actions.transfer_to_agent for e in events if e.actions.transfer_to_agent] == [
        "middle",
        "leaf",
        "middle",
        "root",
    ]
    assert authors(events) == ["root"]


async def test_an_agent_hands_over_to_a_peer() -> None:
    one, two = agent("one", hand_to("two")), agent("two", "two here")
    chat = Chat(agent("root", hand_to("one"), sub_agents=[one, two]))
    assert authors(await chat.say("go")) == ["two"]
    assert [len(requests_of(a)) for a in (one, two)] == [1, 1]


async def test_a_sequence_that_was_handed_to_runs_all_its_members() -> None:
    row = SequentialAgent(name="row", sub_agents=[agent("one", "1"), agent("two", "2")])
    root = agent("root", hand_to("row"), sub_agents=[row])
    assert authors(await Chat(root).say("go")) == ["one", "two"]
    assert len(requests_of(root)) == 1


async def test_a_member_of_a_sequence_may_hand_over_and_the_sequence_goes_on() -> None:
    """Sequential-to-auto: control comes back to the sequence, and the next member runs."""
    helper = agent("helper", "helped")
    one = agent("one", hand_to("helper"), sub_agents=[helper])
    row = SequentialAgent(name="row", sub_agents=[one, agent("two", "2")])
    chat = Chat(agent("root", hand_to("row"), "next turn", sub_agents=[row]))
    assert authors(await chat.say("go")) == ["helper", "two"]
    assert authors(await chat.say("more")) == ["root"]


async def test_a_loop_that_was_handed_to_runs_its_rounds() -> None:
    loop = LoopAgent(name="loop", max_iterations=2, sub_agents=[agent("worker", "1", "2")])
    root = agent("root", hand_to("loop"), sub_agents=[loop])
    assert authors(await Chat(root).say("go")) == ["worker", "worker"]
    assert len(requests_of(root)) == 1


class Custom(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, content={"role": "model", "parts": [{"text": "custom"}]})  # type: ignore[arg-type]


async def test_a_custom_agent_can_be_handed_to() -> None:
    root = agent("root", hand_to("mine"), sub_agents=[Custom(name="mine")])
    assert authors(await Chat(root).say("go")) == ["mine"]


def order() -> None:
    """Order."""


class Runs(BaseAgent):
    """Runs its agent, and thinks about it."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for each in self.sub_agents[0].run_async(ctx):
            yield each
        yield event(self.name, text("That may take a while.", thought=True))


class Orders(BaseAgent):
    """Orders by itself."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield event(self.name, named_call("c1", "order"), long_running_tool_ids=["c1"])


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent, Runs, Orders])
async def test_while_what_was_handed_to_waits_the_agent_that_handed_over_does(kind: Any) -> None:
    """Whatever kind of agent it is, and whoever in it waits."""
    inner = agent("inner", call("order"), tools=[LongRunningFunctionTool(order)])
    it = kind(name="it") if kind is Orders else kind(name="it", sub_agents=[inner])
    root = agent("root", hand_to("it"), "too early", sub_agents=[it])
    assert len(pending(await Chat(root).say("go"))) == 1
    assert len(requests_of(root)) == 1


async def test_decision_05_an_unknown_target_is_an_error_result_that_the_model_can_mend() -> None:
    sub = agent("support", "hi")
    root = agent("root", hand_to("suport"), hand_to("support"), sub_agents=[sub])
    events = await Chat(root).say("go")
    assert "`support`" in str(events[1].get_function_responses()[0].response)
    assert events[1].actions.transfer_to_agent is None
    assert authors(events) == ["support"]


async def test_decision_05_an_agent_elsewhere_in_the_tree_is_no_target() -> None:
    """Looked up among the declared targets only, not in the whole tree."""
    far = agent("far", "never")
    one = agent("one", hand_to("far"), "gave up")
    root = agent("root", hand_to("one"), sub_agents=[one, agent("two", sub_agents=[far])])
    events = await Chat(root).say("go")
    assert authors(events) == ["one"]
    assert requests_of(far) == []


async def test_decision_05_holds_for_a_tool_that_sets_the_action_itself() -> None:
    def route(to: str, tool_context: ToolContext) -> str:
        """Route."""
        tool_context.actions.transfer_to_agent = to
        return "routed"

    sub = agent("support", "hi")
    root = agent("root", call("route", to="nobody"), call("route", to="support"), tools=[route], sub_agents=[sub])
    events = await Chat(root).say("go")
    [asked], [told] = events[0].get_function_calls(), events[1].get_function_responses()
    assert (told.id, told.name, list(told.response or {})) == (asked.id, "route", ["error"])
    assert "nobody" in str(told.response)
    assert authors(events) == ["support"]


async def test_decision_05_holds_for_a_call_that_is_answered_later(caplog: pytest.LogCaptureFixture) -> None:
    """It stays open, and hands over to no agent; the log says so."""

    def route(tool_context: ToolContext) -> None:
        """Route."""
        tool_context.actions.transfer_to_agent = "nobody"
        tool_context.state["asked"] = True

    sub = agent("support", "hi")
    root = agent("root", call("route"), tools=[LongRunningFunctionTool(route)], sub_agents=[sub])
    events = await Chat(root).say("go")
    assert story(events) == ["root: route()"]
    assert [each.actions.transfer_to_agent for each in events] == [None, None]
    assert events[1].actions.state_delta == {"asked": True}
    assert "`nobody`" in caplog.text


async def test_decision_05_holds_for_the_call_of_a_task(caplog: pytest.LogCaptureFixture) -> None:
    """A callback at it hands over to no agent: the task runs, and the log says no more than that."""

    def away(tool_context: ToolContext, **_: Any) -> None:
        tool_context.actions.transfer_to_agent = None if tool_context.agent_name == "clerk" else "nobody"

    clerk = agent("clerk", call("finish_task", result="paid"), mode="task")
    root = agent("root", call("clerk", request="Pay."), "Paid.", sub_agents=[clerk], before_tool_callback=away)
    events = await Chat(root).say("go")
    assert story(events)[-1] == "root: Paid."
    [warning] = caplog.messages
    assert warning.startswith("A call of agent `root` that has no answer yet hands over to no agent: ")


async def test_decision_07_results_of_other_calls_come_before_the_transfer() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    sub = agent("sub", "hi")
    root = agent("root", [hand_to("sub"), call("add", a=1, b=2)], tools=[add], sub_agents=[sub])
    events = await Chat(root).say("go")
    assert story(events)[2:] == [
        "root: transfer_to_agent -> {}",
        "root: add -> {'result': 3}",
        "sub: hi",
    ]
    assert events[1].actions.transfer_to_agent == "sub"


async def test_the_run_keeps_its_invocation_and_the_history_is_legal() -> None:
    sub = agent("sub", "hi")
    chat = Chat(agent("root", hand_to("sub"), sub_agents=[sub]))
    events = await chat.say("go")
    assert len({e.invocation_id for e in events}) == 1
    assert open_calls(await chat.stored()) == set()


async def test_the_agent_that_took_over_is_told_of_the_other_as_context() -> None:
    sub = agent("sub", "hi")
    await Chat(agent("root", hand_to("sub"), sub_agents=[sub])).say("go")
    lines = shown(requests_of(sub)[0])
    assert lines[0] == "user: go"
    assert all(line.startswith("user:") for line in lines)
    assert any("root" in line for line in lines[1:])


async def test_the_turn_goes_on_in_the_first_agent_when_the_other_said_nothing_final() -> None:
    """The calling flow applies the stop rule to whatever the target emitted last (spec 1.6)."""

    class Quiet(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            if False:
                yield Event()

    root = agent("root", hand_to("quiet"), "my turn again", sub_agents=[Quiet(name="quiet")])
    assert authors(await Chat(root).say("go")) == ["root"]


# -- callbacks, as if the turns were nested -----------------------------------------------------------


def logged(log: list[str], name: str, *answers: Any, **fields: Any) -> LlmAgent:
    return agent(
        name,
        *answers,
        before_agent_callback=lambda callback_context: log.append(f"+{name}"),
        after_agent_callback=lambda callback_context: log.append(f"-{name}"),
        **fields,
    )


async def test_decision_27_an_agent_that_handed_over_has_its_after_callbacks() -> None:
    log: list[str] = []
    leaf = logged(log, "leaf", "done")
    middle = logged(log, "middle", hand_to("leaf"), sub_agents=[leaf])
    await Chat(logged(log, "root", hand_to("middle"), sub_agents=[middle])).say("go")
    assert log == ["+root", "+middle", "+leaf", "-leaf", "-middle", "-root"]


async def test_decision_27_what_an_after_callback_says_comes_when_control_is_back() -> None:
    from google.genai import types

    def sign(callback_context: Any) -> types.Content:
        return types.Content(role="model", parts=[types.Part(text=f"signed {callback_context.agent_name}")])

    sub = agent("sub", "done", after_agent_callback=sign)
    root = agent("root", hand_to("sub"), sub_agents=[sub], after_agent_callback=sign)
    assert story(await Chat(root).say("go"))[2:] == ["sub: done", "sub: signed sub", "root: signed root"]


def ping_pong(transfers: int, log: list[str], depths: list[int]) -> LlmAgent:
    """Two agents that hand over to each other so many times."""
    count = 0

    def depth() -> int:
        frame: Any = sys._getframe()
        found = 0
        while frame is not None:
            found, frame = found + 1, frame.f_back
        return found

    def answer(request: LlmRequest) -> Any:
        nonlocal count
        depths.append(depth())
        if count == transfers:
            return "done"
        count += 1
        return hand_to("pong" if count % 2 else "ping")

    def member(name: str, **fields: Any) -> LlmAgent:
        return LlmAgent(
            name=name,
            model=FunctionModel(answer),
            include_contents="none",
            before_agent_callback=lambda callback_context: log.append(f"+{name}"),
            after_agent_callback=lambda callback_context: log.append(f"-{name}"),
            **fields,
        )

    return member("ping", sub_agents=[member("pong")])


async def test_decision_06_transfers_do_not_deepen_the_stack_and_callbacks_come_as_if_turns_were_nested() -> None:
    """`tests/flow/test_play.py` has a thousand turns."""
    log: list[str] = []
    depths: list[int] = []
    chat = Chat(ping_pong(100, log, depths), config=RunConfig(max_llm_calls=0))
    events = await chat.say("go")
    assert authors(events) == ["ping"]
    assert len(depths) == 101
    assert max(depths) == depths[0]
    assert max(depths[1:]) <= min(depths[1:])
    entered = ["+ping", "+pong"] * 50 + ["+ping"]
    assert log == entered + [f"-{name[1:]}" for name in reversed(entered)]


async def test_a_transfer_that_never_ends_is_stopped_by_the_limit() -> None:
    from flowloom.errors import LlmCallsLimitExceededError

    chat = Chat(ping_pong(10_000, [], []), config=RunConfig(max_llm_calls=20))
    with pytest.raises(LlmCallsLimitExceededError):
        await chat.say("go")
    assert open_calls(await chat.stored()) == set()


class Handing(BaseTool):
    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        tool_context.actions.transfer_to_agent = "nobody"
        return "handed on"


@pytest.mark.parametrize("own_class", [False, True])
async def test_a_tool_that_hands_over_to_an_agent_out_of_reach_has_an_error_as_its_result(own_class: bool) -> None:
    """The model can mend that (decision 5)."""

    def hand_on(tool_context: ToolContext) -> str:
        """Hand the case on."""
        tool_context.actions.transfer_to_agent = "nobody"
        return "handed on"

    tool = Handing(name="hand_on", description="Hand the case on.") if own_class else hand_on
    events = await Chat(agent("root", call("hand_on"), "Then I answer.", tools=[tool])).say("go")
    [told] = [each.response or {} for event in events for each in event.get_function_responses()]
    assert told["error"].startswith("Agent `root` cannot hand over to `nobody`.")
    assert events[-1].text == "Then I answer."
