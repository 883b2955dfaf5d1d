"""What is put around a tool call: wrappers, tries and a time limit (spec §14.4)."""

from __future__ import annotations

from typing import Any

import pytest
from journal import Journal
from kit import Chat, agent, story, text

from flowloom import AgentTool, BaseTool, Context, FunctionTool, LimitExceededError, Limits, RunConfig
from flowloom.errors import ToolArgumentsError
from flowloom.testing import call


class Failing(BaseTool):
    """A tool that raises these errors, one a try, and then says where it was called."""

    def __init__(self, *errors: Exception, **options: Any) -> None:
        super().__init__(name="work", description="Work.", **options)
        self.errors = list(errors)
        self.tries = 0

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return {"args": args, "call": tool_context.function_call_id, "agent": tool_context.agent_name}


async def answer_of(tool: BaseTool, *, effects: Any = None, **fields: Any) -> Any:
    """What the model is told of a call of the tool."""
    options = {} if effects is None else {"effects": effects}
    events = await Chat(agent("root", call("work", n=1), "done", tools=[tool], **fields), **options).say("go")
    return events[1].get_function_responses()[0].response


async def test_a_wrapper_is_given_the_tool_its_arguments_and_its_place() -> None:
    given: dict[str, Any] = {}

    async def wrapper(**arguments: Any) -> Any:
        given.update(arguments)
        return await arguments["call_next"]()

    tool = Failing()
    told = await answer_of(tool, around_tool=[wrapper])
    assert given["tool"] is tool
    assert given["args"] == {"n": 1}
    assert given["tool_context"].function_call_id == told["call"] is not None


async def test_a_wrapper_that_names_no_arguments_hands_on_those_it_was_given() -> None:
    """Also those that a wrapper further out has put in place of the model's."""
    seen: list[Any] = []

    async def outer(call_next: Any, args: dict[str, Any], **_: Any) -> Any:
        seen.append(args)
        return await call_next({"n": 2})

    async def inner(call_next: Any, args: dict[str, Any], **_: Any) -> Any:
        seen.append(args)
        return await call_next()

    told = await answer_of(Failing(), around_tool=[outer, inner])
    assert [*seen, told["args"]] == [{"n": 1}, {"n": 2}, {"n": 2}]


async def test_waits_between_tries_double_from_a_tenth_of_a_second() -> None:
    effects = Journal()
    tool = Failing(*(ValueError(str(n)) for n in range(4)), retries=4)
    assert "args" in await answer_of(tool, effects=effects)
    waits = [value for key, value in effects.given.items() if "/sleep/" in key]
    assert waits == [0.1, 0.2, 0.4, 0.8]


async def test_a_call_that_the_model_got_wrong_is_not_tried_again() -> None:
    tool = Failing(ToolArgumentsError("n is wrong"), retries=3)
    assert await answer_of(tool) == {"error": "n is wrong"}
    assert tool.tries == 1


async def test_a_call_that_met_a_limit_of_the_run_is_not_tried_again() -> None:
    inner = agent("inner", *(call("work") for _ in range(9)), tools=[Failing()])
    tool = AgentTool(inner, retries=3)
    root = agent("root", call("inner", request="go"), "done", tools=[tool])
    effects = Journal()
    with pytest.raises(LimitExceededError):
        await Chat(root, effects=effects, config=RunConfig(limits=Limits(model_calls=3))).say("go")
    assert not [key for key in effects.given if "/sleep/" in key]


async def test_a_tool_with_a_time_limit_knows_its_place_and_is_an_effect() -> None:
    effects = Journal()
    told = await answer_of(Failing(timeout=60), effects=effects)
    assert told["agent"] == "root"
    assert effects.given["root/0/tool/0"] == told


async def test_what_several_calls_change_that_are_answered_later_is_stored() -> None:
    """The changes of all of them are in one event, which ends the run as the calls do."""

    async def begin(name: str, tool_context: Context) -> None:
        """Begin."""
        tool_context.state[name] = "begun"
        await tool_context.save_artifact(name, text("a"))

    begin_tool = FunctionTool(begin, is_long_running=True)
    chat = Chat(agent("root", [call("begin", name="a"), call("begin", name="b")], tools=[begin_tool]))
    events = await chat.say("go")
    assert events[-1].actions.state_delta == {"a": "begun", "b": "begun"}
    assert events[-1].actions.artifact_delta == {"a": 0, "b": 0}
    assert events[-1].long_running_tool_ids == [each.id for each in events[0].get_function_calls()]
    assert story(events) == ["root: begin(name='a')", "root: begin(name='b')"]


async def test_an_argument_that_is_named_like_unreadable_ones_is_an_argument() -> None:
    root = agent("root", call("work", **{"$": "{", "n": 1}), "done", tools=[Failing()])
    events = await Chat(root).say("go")
    assert events[1].get_function_responses()[0].response["args"] == {"$": "{", "n": 1}
