"""What the calls of one answer come to: the one event that answers them, and what it carries."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, approve, call, context, named_call, pending, story

from flowloom import (
    AgentTool,
    BaseAgent,
    BaseTool,
    Event,
    FunctionTool,
    InvocationContext,
    LongRunningFunctionTool,
    LoopAgent,
    RunConfig,
    ToolContext,
    pending_calls,
)
from flowloom.errors import PlaceholderError
from flowloom.events.json_data import UNREADABLE
from flowloom.events.parts import parts_of
from flowloom.tools.calls import run_calls


def look(tool_context: ToolContext) -> str:
    """Look."""
    tool_context.state["looked"] = True
    return "seen"


def order(tool_context: ToolContext) -> None:
    """Order: the goods come later."""
    tool_context.state["ordered"] = True


def answers(events: list[Event]) -> list[tuple[str | None, Any]]:
    return [(each.id, each.response) for event in events for each in event.get_function_responses()]


async def test_what_a_call_has_changed_that_is_answered_later_is_told_with_the_answers_of_others() -> None:
    """In their one event; without any answer, in an event that says which calls have begun."""
    tools = [FunctionTool(look), LongRunningFunctionTool(order)]
    chat = Chat(agent("root", [named_call("c1", "order"), named_call("c2", "look")], "done", tools=tools))
    told = [each for each in await chat.say("go") if each.actions.state_delta]
    assert answers(told) == [("c2", {"result": "seen"})]
    assert told[0].actions.state_delta == {"ordered": True, "looked": True}
    assert not told[0].long_running_tool_ids
    chat = Chat(agent("root", [named_call("c1", "order"), named_call("c2", "order")], tools=tools))
    told = [each for each in await chat.say("go") if each.actions.state_delta]
    assert answers(told) == []
    assert [(each.actions.state_delta, each.long_running_tool_ids) for each in told] == [
        ({"ordered": True}, ["c1", "c2"])
    ]


def later(change: Callable[[ToolContext], None]) -> LongRunningFunctionTool:
    """A tool that begins something, changes its actions, and is answered later."""

    def begin(tool_context: ToolContext) -> None:
        """Begin."""
        change(tool_context)

    return LongRunningFunctionTool(begin)


def hands_over(to: str) -> Callable[[ToolContext], None]:
    return lambda context: setattr(context.actions, "transfer_to_agent", to)


@pytest.mark.parametrize("beside", [False, True])
async def test_a_call_that_is_answered_later_may_hand_over(beside: bool) -> None:
    """At once, as the answer of a tool does, whether another call has an answer or not; the call stays pending."""
    calls = [named_call("c1", "begin"), *[named_call("c2", "look")][: int(beside)]]
    root = agent("root", calls, "late", tools=[later(hands_over("other")), look], sub_agents=[agent("other", "hi")])
    events = await Chat(root).say("go")
    assert story(events)[-1] == "other: hi"
    assert [each.id for each in pending_calls(events)] == ["c1"]


async def test_a_call_that_is_answered_later_may_escalate() -> None:
    tool = later(lambda context: setattr(context.actions, "escalate", True))
    loop = LoopAgent(
        name="loop", max_iterations=2, sub_agents=[agent("one", call("begin"), tools=[tool]), agent("two")]
    )
    assert any(each.actions.escalate for each in await Chat(loop).say("go"))


async def test_a_call_that_is_answered_later_may_ask_a_person() -> None:
    root = agent(
        "root", named_call("c1", "begin"), tools=[later(lambda context: context.request_confirmation(hint="?"))]
    )
    events = await Chat(root).say("go")
    assert [each.name for each in pending(events) if each.id != "c1"] == ["adk_request_confirmation"]


async def test_what_a_callback_has_changed_at_the_call_of_an_agent_is_told_beside_the_answers_of_others() -> None:
    """The agent begins, or goes on, when they are answered; its call is not made again."""

    def note(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        tool_context.state[tool.name] = True

    worker = agent("work", call("finish_task", result="ok"), mode="task")
    calls = [named_call("c1", "look"), named_call("c2", "work", request="go")]
    root = agent("root", calls, "done", tools=[look], sub_agents=[worker], before_tool_callback=note)
    changed = [each.actions.state_delta for each in await Chat(root).say("go") if each.actions.state_delta]
    assert changed == [{"look": True, "looked": True, "work": True}]


async def test_a_call_without_a_name_is_told_so_and_callbacks_are_given_a_tool_that_is_unknown() -> None:
    """As any call of a tool that is not there."""
    seen: list[tuple[str, str]] = []

    def failed(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext, error: Exception) -> None:
        seen.append((tool.name, tool.description))

    nameless = types.Part(function_call=types.FunctionCall(id="c1", args={}))
    root = agent("root", [nameless, named_call("c2", "dig")], "done", tools=[look], on_tool_error_callback=failed)
    told = dict(answers(await Chat(root).say("go")))
    assert told["c1"]["error"].startswith("There is no tool ``. Available tools: `look`.")
    assert told["c2"]["error"].startswith("There is no tool `dig`. Available tools: `look`.")
    assert seen == [("unknown", ""), ("dig", "")]


async def test_arguments_that_cannot_be_read_are_shown_to_the_model_so_far() -> None:
    """Two hundred characters of them."""
    call = types.Part(function_call=types.FunctionCall(id="c1", name="look", args={UNREADABLE: "x" * 201}))
    [(_, told)] = answers(await Chat(agent("root", call, "done", tools=[look])).say("go"))
    assert told["error"].endswith(f"They came as: {'x' * 200}")


@pytest.mark.parametrize("name", ["", "nowhere"])
async def test_a_tool_that_hands_over_to_no_one_that_can_be_reached_has_failed(name: str) -> None:
    """And nothing is handed over."""

    def leave(tool_context: ToolContext) -> str:
        """Leave."""
        tool_context.actions.transfer_to_agent = name
        return "gone"

    events = await Chat(agent("root", named_call("c1", "leave"), "done", tools=[leave])).say("go")
    [(_, told)] = answers(events)
    assert told["error"].startswith(f"Agent `root` cannot hand over to `{name}`.")
    assert [each.actions.transfer_to_agent for each in events if each.get_function_responses()] == [None]
    assert events[-1].text == "done"


async def test_calls_that_are_run_without_a_rule_of_transfers_hand_over_to_any_agent() -> None:
    """Whoever runs them sees to the handover."""

    def leave(tool_context: ToolContext) -> str:
        """Leave."""
        tool_context.actions.transfer_to_agent = "far"
        return "gone"

    calls = [types.FunctionCall(id="c1", name="leave", args={})]
    results = await run_calls(context(agent()), calls, {"leave": FunctionTool(leave)})
    assert results.event is not None
    assert (answers([results.event]), results.event.actions.transfer_to_agent) == ([("c1", {"result": "gone"})], "far")


async def test_the_event_that_finishes_a_task_carries_what_it_came_to() -> None:
    """As data; a structured answer of another kind stands in the agent's last words."""
    helper = agent("helper", named_call("f1", "finish_task", result="forty-two"), mode="task")
    root = agent("root", named_call("c1", "helper", request="count"), "done", sub_agents=[helper])
    events = await Chat(root).say("go")
    assert [each.output for each in events if answers([each])] == [{"result": "forty-two"}, None]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    parts = [named_call("c1", "look"), named_call("c2", "set_model_response", n=1)]
    events = await Chat(agent("root", parts, tools=[look], output_schema=schema)).say("go")
    assert [each.output for each in events if answers([each])] == [None]


async def test_what_a_tool_tells_about_its_result_stands_on_the_event_by_call() -> None:
    """Beside the result, which is all that the model is shown."""

    class Telling(BaseTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
            if args:
                tool_context.metadata = args
            return "seen"

    tool = Telling(name="look", description="Look.")
    parts = [named_call("c1", "look", trace="t1"), named_call("c2", "look"), named_call("c3", "look", trace="t3")]
    events = await Chat(agent("root", parts, named_call("c4", "look"), "done", tools=[tool])).say("go")
    assert [each.custom_metadata for each in events if each.get_function_responses()] == [
        {"tool_metadata": {"c1": {"trace": "t1"}, "c3": {"trace": "t3"}}},
        None,
    ]


@pytest.mark.parametrize(
    ("names", "shown_as_it_is"),
    [
        (["ask", "look"], None),
        (["ask", "show"], True),
        (["ask", "ask"], True),
        (["look", "show"], True),
        (["look", "look"], None),
    ],
)
async def test_answers_are_summed_up_unless_a_tool_forbids_it_or_all_wait(
    names: list[str], shown_as_it_is: bool | None
) -> None:
    """A call that waits for a person has nothing to sum up; what the others gave has."""

    def show(tool_context: ToolContext) -> str:
        """Show."""
        tool_context.actions.skip_summarization = True
        return "as it is"

    asking = FunctionTool(lambda: "asked", name="ask", description="Ask.", require_confirmation=True)
    calls = [named_call(f"c{number}", name) for number, name in enumerate(names)]
    events = await Chat(agent("root", calls, "done", tools=[asking, look, show])).say("go")
    [results] = [each for each in events if {f"c{n}" for n in (0, 1)} & {told for told, _ in answers([each])}]
    assert results.actions.skip_summarization is shown_as_it_is


def dig() -> str:
    """Dig."""
    raise ValueError("stone")


@pytest.mark.parametrize(("policy", "raised"), [("return", None), ("raise", "stone")])
async def test_an_agent_without_a_model_runs_tools_by_the_runs_policy(policy: Any, raised: str | None) -> None:
    """What the model would be told is told all the same."""
    told: list[Any] = []

    class Own(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            calls = [types.FunctionCall(id="c1", name="dig", args={})]
            results = await run_calls(ctx, calls, {"dig": FunctionTool(dig)})
            assert results.event is not None
            told.append(None if results.error is None else str(results.error))
            yield results.event

    events = await Chat(Own(name="own"), config=RunConfig(tool_errors=policy)).say("go")
    assert answers(events) == [("c1", {"error": "stone"})]
    assert told == [raised]


async def test_a_tool_of_which_only_the_declaration_is_there_ends_the_run() -> None:
    """Whatever the policy: no model can do anything about it."""

    def later() -> str:
        """Later."""
        raise PlaceholderError("later")

    with pytest.raises(PlaceholderError):
        await Chat(agent("root", named_call("c1", "later"), "done", tools=[later])).say("go")


@pytest.mark.parametrize(
    ("result", "texts"), [("seen", ["seen"]), ({"n": "é"}, ['{"n": "é"}']), (None, []), ("", []), ({}, [])]
)
async def test_a_result_that_is_shown_stands_beside_itself_as_a_text_if_there_is_something_in_it(
    result: Any, texts: list[str]
) -> None:
    def look(tool_context: ToolContext) -> Any:
        """Look."""
        tool_context.display = True
        return result

    events = await Chat(agent("root", named_call("c1", "look"), "done", tools=[look])).say("go")
    [shown] = [each for each in events if each.get_function_responses()]
    assert [part.text for part in parts_of(shown.content)[1:]] == texts


async def test_what_a_call_has_written_goes_wrong_before_its_result_does() -> None:
    """The model is told of a value of the state that has become one that cannot be kept, whatever the result is."""

    def look(tool_context: ToolContext) -> Any:
        """Look."""
        tool_context.state["seen"] = seen = list[object]()
        seen.append(object())
        return object()

    events = await Chat(agent("root", named_call("c1", "look"), "done", tools=[look])).say("go")
    [(_, told)] = answers(events)
    assert "state" in told["error"]
    assert "result" not in told["error"]


async def test_a_call_without_arguments_runs() -> None:
    part = types.Part(function_call=types.FunctionCall(id="c1", name="look"))
    assert answers(await Chat(agent("root", part, "done", tools=[look])).say("go")) == [("c1", {"result": "seen"})]


async def test_files_that_a_tool_gives_stand_in_its_result() -> None:
    """And in no other."""
    picture = types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(data=b"x", mime_type="image/png"))

    class Drawing(BaseTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
            tool_context.files = [picture]
            return "drawn"

    tools = [Drawing(name="draw", description="Draw."), look]
    calls = [named_call("c1", "draw"), named_call("c2", "look")]
    events = await Chat(agent("root", calls, "done", tools=tools)).say("go")
    given = [answer for each in events for answer in each.get_function_responses()]
    assert [(each.id, each.parts) for each in given] == [("c1", [picture]), ("c2", None)]


async def keep(tool_context: ToolContext) -> None:
    """Keep what is there so far: the rest comes later."""
    await tool_context.save_artifact("so-far.txt", types.Part(text="half"))


@pytest.mark.parametrize(
    ("name", "state", "artifacts", "begun"),
    [
        ("order", {"ordered": True}, {}, ["c2"]),
        ("keep", {}, {"so-far.txt": 0}, ["c2"]),
        ("book", {"booked": 1}, {}, None),
    ],
)
async def test_what_a_call_has_changed_is_told_beside_an_agent_as_a_tool_that_waits(
    name: str, state: Any, artifacts: Any, begun: Any
) -> None:
    """The event lists a call that has begun, and not the one of the agent, whose changes stand on its own events."""

    def book(tool_context: ToolContext) -> str:
        """Book."""
        tool_context.state["booked"] = 1
        return "booked"

    asking = FunctionTool(lambda: "paid", name="pay", description="Pay.", require_confirmation=True)
    inner = AgentTool(agent("inner", call("look"), call("pay"), tools=[look, asking]))
    tools = [inner, LongRunningFunctionTool(order), LongRunningFunctionTool(keep), book]
    calls = [named_call("c1", "inner", request="pay"), named_call("c2", name)]
    events = [each for each in await Chat(agent("root", calls, tools=tools)).say("go") if each.author == "root"]
    changes = [each for each in events if each.actions.state_delta or each.actions.artifact_delta]
    assert [(each.actions.state_delta, each.actions.artifact_delta) for each in changes] == [(state, artifacts)]
    assert changes[0].long_running_tool_ids == begun


async def test_of_several_tools_that_end_the_run_the_first_to_be_called_says_why() -> None:
    def one() -> None:
        """One."""
        raise ValueError("one")

    def two() -> None:
        """Two."""
        raise ValueError("two")

    root = agent("root", [call("one"), call("two")], tools=[one, two], tool_errors="raise")
    with pytest.raises(ValueError, match="one"):
        await Chat(root).say("go")


async def test_agents_as_tools_that_wait_go_on_beside_calls_that_were_answered() -> None:
    """Each with its own question, and in its own scope."""

    def inner(name: str) -> AgentTool:
        asking = FunctionTool(lambda: "paid", name="pay", description="Pay.", require_confirmation=True)
        return AgentTool(agent(name, named_call(f"{name}-1", "pay"), f"{name} paid", tools=[asking]))

    calls = [named_call("c1", "one", request="pay"), named_call("c2", "look"), named_call("c3", "two", request="pay")]
    chat = Chat(agent("root", calls, "done", tools=[inner("one"), look, inner("two")]))
    events = await chat.say("go")
    assert [told for told in answers(events) if told[0] == "c2"] == [("c2", {"result": "seen"})]
    requests = pending(events)
    assert len(requests) == 2
    events = await chat.answer(*(approve(each) for each in requests))
    told = dict(answers(events))
    assert (told["c1"], told["c3"]) == ({"result": "one paid"}, {"result": "two paid"})
    assert events[-1].text == "done"


@pytest.mark.parametrize("policy", ["raise", "return"])
async def test_a_tool_that_hands_over_to_nobody_and_fails_has_its_own_error(policy: Any) -> None:
    """Which ends the run, if errors of tools do."""

    def leave(tool_context: ToolContext) -> None:
        tool_context.actions.transfer_to_agent = "nobody"
        raise LookupError("the way is lost")

    root = agent("root", [named_call("c1", "leave")], "done", tools=[leave], tool_errors=policy)
    chat = Chat(root)
    if policy == "raise":
        with pytest.raises(LookupError, match="the way is lost"):
            await chat.say("go")
    else:
        await chat.say("go")
    [(call_id, response)] = answers(await chat.stored())
    assert (call_id, response) == ("c1", {"error": "the way is lost"})
