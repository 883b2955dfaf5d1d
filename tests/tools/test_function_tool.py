"""A Python function as a tool."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from kit import Chat, agent, call, context, declarations, pending, requests_of, story
from pydantic import BaseModel

from flowloom import (
    ConfigurationError,
    Context,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    ReadonlyContext,
    RunConfig,
    ToolContext,
    pending_calls,
)
from flowloom.context import ToolThreadPoolConfig
from flowloom.errors import ConfirmationRequiredError, ToolArgumentsError
from flowloom.testing import frozen


class Address(BaseModel):
    street: str
    zip: int


def add(a: int, b: int = 1) -> int:
    """Add two integers."""
    return a + b


async def add_later(a: int, b: int = 1) -> int:
    """Add two integers."""
    return a + b


def tool_context(**fields: Any) -> Context:
    return Context(context(LlmAgent(name="root")), function_call_id="c1", **fields)


async def ran(func: Any, /, **args: Any) -> Any:
    return await FunctionTool(func).run_async(args=args, tool_context=tool_context())


async def answered(func: Any, /, **args: Any) -> Any:
    """What the model is told when it calls the function."""
    tool = func if isinstance(func, FunctionTool) else FunctionTool(func)
    events = await Chat(agent("root", call(tool.name, **args), "done", tools=[tool])).say("go")
    return events[1].get_function_responses()[0].response


def test_name_and_description_come_from_the_function() -> None:
    tool = FunctionTool(add)
    assert (tool.name, tool.description) == ("add", "Add two integers.")


def test_name_and_description_may_be_given() -> None:
    tool = FunctionTool(add, name="plus", description="Sum.")
    assert tool.declaration is not None
    assert (tool.declaration.name, tool.declaration.description) == ("plus", "Sum.")


def test_the_declaration_is_made_once() -> None:
    tool = FunctionTool(add)
    assert tool.declaration is tool.declaration


@pytest.mark.parametrize("func", [add, add_later])
async def test_a_function_is_called_with_the_models_arguments(func: Any) -> None:
    assert await ran(func, a=1, b=2) == 3
    assert await ran(func, a=1) == 2


async def test_objects_arrive_as_what_the_function_asks_for() -> None:
    """Struct / map input."""

    def ship(address: Address, extra: dict[str, int]) -> str:
        return f"{type(address).__name__} {address.zip} {extra}"

    assert await ran(ship, address={"street": "x", "zip": "7"}, extra={"a": 1}) == "Address 7 {'a': 1}"


@pytest.mark.parametrize(
    ("value", "response"),
    [
        ("x", {"result": "x"}),
        (3, {"result": 3}),
        ([1, 2], {"result": [1, 2]}),
        (True, {"result": True}),
        ({"a": 1}, {"a": 1}),
        ({}, {}),
        (Address(street="s", zip=1), {"street": "s", "zip": 1}),
        ([Address(street="s", zip=1)], {"result": [{"street": "s", "zip": 1}]}),
        (None, {"result": None}),
        (b"ab", {"result": "YWI="}),
        ({1: 2}, {"1": 2}),
    ],
)
async def test_a_result_that_is_no_object_is_wrapped(value: Any, response: dict[str, Any]) -> None:
    """Basic return wrapped."""

    def give() -> Any:
        return value

    assert await answered(give) == response


@pytest.mark.parametrize("args", [{"a": "x"}, {"a": None}])
async def test_arguments_that_do_not_fit_are_an_error(args: dict[str, Any]) -> None:
    """Wrong args; invalid input type."""
    with pytest.raises(ToolArgumentsError, match="add"):
        await ran(add, **args)


@pytest.mark.parametrize("args", [{}, {"b": 1, "c": 2}, {"b": "x"}])
@pytest.mark.parametrize("kind", [FunctionTool, LongRunningFunctionTool])
async def test_a_missing_argument_is_an_error_as_the_result(kind: type[FunctionTool], args: dict[str, Any]) -> None:
    """As in google-adk: `run_async` gives it back, and so the model sees it; a long-running call is over with it."""
    given = await kind(add).run_async(args=args, tool_context=tool_context())
    assert list(given) == ["error"]
    assert "`add`" in given["error"]
    assert "`a`: is missing" in given["error"]
    chat = Chat(agent("root", call("add", **args), "done", tools=[kind(add)]))
    assert (await chat.say("go"))[1].get_function_responses()[0].response == given
    assert pending_calls(await chat.stored()) == []


async def test_arguments_that_the_function_does_not_take_are_dropped() -> None:
    """A model that makes up an argument still gets its answer."""
    assert await answered(add, a=1, c=2) == {"result": 2}


async def test_arguments_of_any_name_reach_a_function_that_takes_them() -> None:
    """A function with `**kwargs` is given what it does not declare."""

    def collect(a: int, **rest: int) -> dict[str, int]:
        return {"a": a, **rest}

    assert await answered(collect, a="1", c=2) == {"a": 1, "c": 2}


async def test_a_function_that_raises_is_an_error_for_the_model() -> None:
    """Panic becomes error."""

    def fails() -> None:
        raise ValueError("out of paper")

    assert await answered(fails) == {"error": "out of paper"}


async def test_an_error_without_a_text_is_told_by_its_type() -> None:
    def fails() -> None:
        raise KeyboardError

    class KeyboardError(Exception):
        pass

    assert await answered(fails) == {"error": "KeyboardError"}


async def test_a_stop_iteration_is_an_error_like_any_other() -> None:
    def fails() -> Any:
        return next(iter(()))

    assert "error" in await answered(fails)


async def test_what_a_function_yields_is_joined() -> None:
    def words() -> Iterator[str]:
        yield "a"
        yield "b"

    async def numbers() -> AsyncIterator[int]:
        yield 1
        yield 2

    assert await answered(words) == {"result": "ab"}
    assert await answered(numbers) == {"result": [1, 2]}


async def test_the_tool_context_is_given_and_not_declared() -> None:
    def note(word: str, tool_context: ToolContext) -> str:
        """Note."""
        tool_context.state["word"] = word
        return f"{tool_context.function_call_id is not None} {tool_context.agent_name}"

    root = agent("root", call("note", word="x"), "done", tools=[note])
    chat = Chat(root)
    events = await chat.say("go")
    assert story(events)[1] == "root: note -> {'result': 'True root'}"
    assert (await chat.state())["word"] == "x"
    assert list(declarations(requests_of(root)[0])[0].parameters_json_schema["properties"]) == ["word"]


async def test_decision_12_a_blocking_function_runs_in_a_thread_with_the_callers_context() -> None:
    """Sync tools run in worker threads with the caller's contextvars."""
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    who.set("ann")
    seen: dict[str, Any] = {}

    def look() -> None:
        seen.update(thread=threading.current_thread(), who=who.get())

    await answered(look)
    assert seen["thread"] is not threading.main_thread()
    assert seen["who"] == "ann"


async def test_decision_12_several_blocking_functions_work_at_once() -> None:
    meeting = threading.Barrier(3, timeout=10)

    def meet() -> int:
        return meeting.wait()

    events = await Chat(agent("root", [call("meet")] * 3, "done", tools=[meet])).say("go")
    assert sorted((r.response or {}).get("result", -1) for r in events[1].get_function_responses()) == [0, 1, 2]


async def test_no_more_blocking_functions_work_at_once_than_the_run_allows() -> None:
    lock, now, most = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.01)
        with lock:
            now -= 1

    config = RunConfig(tool_thread_pool_config=ToolThreadPoolConfig(max_workers=2))
    await Chat(agent("root", [call("work")] * 6, "done", tools=[work]), config=config).say("go")
    assert most == 2


async def test_a_function_that_does_not_block_runs_on_the_loop_if_it_is_said_to() -> None:
    """Plain functions and generators, in every kind of tool that is made of one."""
    seen: list[threading.Thread] = []

    def look() -> int:
        seen.append(threading.current_thread())
        return 1

    def tell() -> Iterator[str]:
        seen.append(threading.current_thread())
        yield from ("a", "b")

    assert await answered(FunctionTool(look, blocking=False)) == {"result": 1}
    assert await answered(FunctionTool(tell, blocking=False)) == {"result": "ab"}
    assert await answered(LongRunningFunctionTool(look, blocking=False)) == {"result": 1}
    assert set(seen) == {threading.current_thread()}


async def test_what_a_function_on_the_loop_raises_is_an_error_result() -> None:
    """As of one in a thread, `StopIteration` too."""

    def fail() -> None:
        raise ValueError("no such city")

    def stop() -> None:
        raise StopIteration

    failed = await answered(FunctionTool(fail, blocking=False))
    assert failed == await answered(fail)
    assert "no such city" in str(failed["error"])
    stopped = await answered(FunctionTool(stop, blocking=False))
    assert "StopIteration" in str(stopped["error"])


async def test_an_async_function_runs_on_the_loop() -> None:
    async def look() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await answered(look) == {"result": True}


async def test_a_function_that_returns_an_awaitable_is_awaited() -> None:
    def look() -> Any:
        async def later() -> int:
            return 7

        return later()

    assert await answered(look) == {"result": 7}


async def test_a_tool_that_takes_too_long_is_an_error_for_the_model() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    response = await answered(FunctionTool(hang, timeout=0.01))
    assert "hang" in response["error"]
    assert "0.01" in response["error"]


async def test_a_tool_is_tried_again_as_often_as_it_may() -> None:
    tries = 0

    async def flaky() -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError("down")
        return tries

    root = agent("root", call("flaky"), "done", tools=[FunctionTool(flaky, retries=2)])
    with frozen() as clock:
        events = await Chat(root).say("go")
    assert events[1].get_function_responses()[0].response == {"result": 3}
    assert len(clock.slept) == 2
    assert clock.slept[1] > clock.slept[0]


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1}, {"retries": -1}])
def test_options_that_cannot_be_are_errors_when_the_tool_is_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        FunctionTool(add, **options)


async def test_the_history_keeps_the_arguments_as_the_model_gave_them() -> None:
    def spoil(data: dict[str, Any]) -> None:
        data["x"] = 2

    chat = Chat(agent("root", call("spoil", data={"x": 1}), "done", tools=[spoil]))
    await chat.say("go")
    [given] = [c for e in await chat.stored() for c in e.get_function_calls()]
    assert given.args == {"data": {"x": 1}}


def test_a_long_running_function_says_so_to_the_model() -> None:
    tool = LongRunningFunctionTool(add)
    assert tool.is_long_running
    assert tool.declaration is not None
    assert (tool.declaration.description or "").startswith("Add two integers.")
    assert len(tool.declaration.description or "") > len("Add two integers.")


async def test_a_long_running_function_without_a_result_pauses_the_run() -> None:
    def start() -> None:
        """Start."""

    events = await Chat(agent("root", call("start"), tools=[LongRunningFunctionTool(start)])).say("go")
    assert [c.name for c in pending(events)] == ["start"]
    assert len(events) == 1


async def test_a_predicate_may_look_at_the_context() -> None:
    def needs(a: int, context: ReadonlyContext | None = None) -> bool:
        return a > 1

    tool = FunctionTool(add, require_confirmation=lambda a: a > 1)
    assert await tool.check_require_confirmation({"a": 2, "b": 1}, tool_context())
    assert not await tool.check_require_confirmation({"a": 1, "b": 1}, tool_context())


@pytest.mark.parametrize(("given", "asked"), [({}, True), ({"amount": 5}, False)], ids=["default", "given"])
async def test_a_predicate_sees_the_defaults_of_what_the_model_leaves_out(given: dict[str, Any], asked: bool) -> None:
    def pay(amount: float = 500, note: str | None = None) -> str:
        """Pay."""
        return f"{amount}: {note}"

    def needs(amount: float, note: Any) -> bool:
        return amount > 100 and note is None

    tool = FunctionTool(pay, require_confirmation=needs)
    assert await tool.check_require_confirmation(given, tool_context()) is asked


async def test_a_function_without_a_context_is_tried_without_one() -> None:
    """As tests for google-adk do; what needs an approval is not run."""
    no_context: Any = None
    add = FunctionTool(lambda a, b: a + b, name="add", description="Add.")
    assert await add.run_async(args={"a": 1, "b": 2}, tool_context=no_context) == 3
    with pytest.raises(ConfirmationRequiredError):
        await FunctionTool(lambda: 1, name="pay", require_confirmation=True).run_async(args={}, tool_context=no_context)
