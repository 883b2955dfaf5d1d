"""What the model and the log are told about a tool that failed."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from journal import Journal
from kit import Chat, agent

from flowloom import AgentTool, Event, FunctionTool, Limits, LlmResponse, RunConfig
from flowloom.errors import ToolError, ToolResultError
from flowloom.testing import call


class SilentError(Exception):
    """An error without a message."""

    def __str__(self) -> str:
        raise RuntimeError("not even that")


def told(events: list[Event]) -> list[Any]:
    return [(answer.response or {}).get("error") for each in events for answer in each.get_function_responses()]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("customer_7"), "KeyError: 'customer_7'"),
        (KeyError("no such customer"), "KeyError: 'no such customer'"),
        (IndexError(7), "IndexError: 7"),
        (ValueError(), "ValueError"),
        (ValueError(None), "ValueError"),
        (SilentError(), "SilentError"),
        (ValueError("no such customer"), "no such customer"),
    ],
)
async def test_an_error_says_its_type_where_its_message_is_no_more_than_a_value(error: Exception, text: str) -> None:
    """The model sees the message of an error, and its type too where that says nothing by itself."""

    def find() -> str:
        """Find."""
        raise error

    assert told(await Chat(agent("root", call("find"), "done", tools=[find])).say("go")) == [text]


async def test_a_tool_that_raises_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """On `flowloom.tools`: which tool, call, step and agent, and the exception itself."""

    def find() -> str:
        """Find."""
        raise KeyError("customer_7")

    await Chat(agent("root", call("find"), "done", tools=[find])).say("go")
    [record] = [each for each in caplog.records if each.name == "flowloom.tools"]
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)
    assert record.exc_info[2] is not None
    assert "`find`" in record.getMessage()
    assert "step 0 of agent `root`" in record.getMessage()


async def test_a_result_that_cannot_be_kept_is_logged_as_the_tools_fault(caplog: pytest.LogCaptureFixture) -> None:
    """With what is wrong with it; the model can do nothing about it."""

    def find() -> object:
        """Find."""
        return object()

    await Chat(agent("root", call("find"), "done", tools=[find])).say("go")
    [record] = [each for each in caplog.records if each.name == "flowloom.tools"]
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ToolResultError)


async def test_a_try_that_follows_is_logged_with_its_number(caplog: pytest.LogCaptureFixture) -> None:
    left = [ValueError("busy"), ValueError("engaged")]

    def find() -> str:
        """Find."""
        if left:
            raise left.pop(0)
        return "found"

    caplog.set_level(logging.INFO, "flowloom.tools")
    await Chat(agent("root", call("find"), "done", tools=[FunctionTool(find, retries=2)]), effects=Journal()).say("go")
    assert [each.getMessage() for each in caplog.records if each.name == "flowloom.tools"] == [
        "Tool `find` failed (busy); attempt 2 follows.",
        "Tool `find` failed (engaged); attempt 3 follows.",
    ]


async def test_errors_that_are_the_models_to_mend_are_told_though_those_of_tools_are_raised() -> None:
    root = agent("root", call("nope"), "sorry", tool_errors="raise")
    events = await Chat(root).say("go")
    assert told(events)[0].startswith("There is no tool `nope`")
    assert events[-1].text == "sorry"


async def test_what_a_model_did_wrong_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Unknown tools and arguments that do not fit are lines at DEBUG, without the arguments."""

    def add(a: int) -> int:
        """Add."""
        return a

    caplog.set_level(logging.DEBUG, "flowloom.tools")
    calls = [call("add", a="secret"), call("nope")]
    await Chat(agent("root", calls, "done", tools=[add])).say("go")
    lines = [each for each in caplog.records if each.name == "flowloom.tools"]
    assert {each.levelno for each in lines} == {logging.DEBUG}
    assert ["ToolArgumentsError" in each.getMessage() for each in lines][:2] == [True, False]
    assert "secret" not in caplog.text


async def test_what_a_limit_refuses_is_no_warning_and_a_tools_own_error_of_that_class_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def find() -> str:
        """Find."""
        raise ToolError("The line is busy.")

    caplog.set_level(logging.DEBUG, "flowloom.tools")
    root = agent("root", [call("find"), call("find")], "done", tools=[find])
    await Chat(root, config=RunConfig(limits=Limits(tools={"find": 1}))).say("go")
    lines = [each for each in caplog.records if "`find` (call" in each.getMessage()]
    assert [(each.levelno, each.exc_info is None) for each in lines] == [
        (logging.WARNING, False),
        (logging.DEBUG, True),
    ]


async def test_an_agent_as_a_tool_that_fails_without_a_message_is_told_by_its_code() -> None:
    """Never "None"."""
    inner = agent("inner", LlmResponse(error_code="SAFETY"))
    [error] = told(await Chat(agent("root", call("inner", request="x"), "done", tools=[AgentTool(inner)])).say("go"))
    assert error == "Agent `inner` failed (SAFETY)."
    inner = agent("inner", ValueError())
    [error] = told(await Chat(agent("root", call("inner", request="x"), "done", tools=[AgentTool(inner)])).say("go"))
    assert error == "ValueError"


async def test_the_event_of_a_failed_run_never_has_an_empty_message() -> None:
    chat = Chat(agent("root", AssertionError()))
    with pytest.raises(AssertionError):
        await chat.say("go")
    last = (await chat.stored())[-1]
    assert (last.error_code, last.error_message) == ("AssertionError", "AssertionError")
