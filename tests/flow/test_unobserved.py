"""A run that is not observed calls only the processors that have anything to do; it comes to the same."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, requests_of, shown, story, system_text
from pydantic import BaseModel

from flowloom import Event, InvocationContext
from flowloom.context.observer import Observer, ProcessorCall, observers
from flowloom.processors import BaseCodeExecutor, CodeExecutionInput, CodeExecutionResult, PlanReActPlanner
from flowloom.testing import call

pytestmark = pytest.mark.allow_model_requests  # the guard against hosted models observes


class City(BaseModel):
    name: str


class Echo(BaseCodeExecutor):
    """An executor that says what it was given."""

    def execute_code(self, ctx: InvocationContext, task: CodeExecutionInput) -> CodeExecutionResult:
        return CodeExecutionResult(stdout=task.code)


class Names(Observer):
    """Notes which processors were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        self.called.append(call.name)


def look() -> str:
    """Look."""
    return "seen"


PLAN = "/*PLANNING*/ 1. Say it. /*FINAL_ANSWER*/ Said."
CODE = "```python\nsay(1)\n```"
FIELDS: dict[str, tuple[dict[str, Any], list[Any], list[str]]] = {
    "none": ({}, ["Said."], ["root: Said."]),
    "files": ({}, [[types.Part.from_bytes(data=b"x", mime_type="image/png")]], []),
    "planner": ({"planner": PlanReActPlanner()}, [PLAN], ["root: (1. Say it.)", "root: Said."]),
    "code_executor": ({"code_executor": Echo()}, [CODE, "Said."], ["root: Said."]),
    "both": (
        {"planner": PlanReActPlanner(), "code_executor": Echo()},
        [CODE, PLAN],
        ["root: (1. Say it.)", "root: Said."],
    ),
    "output_schema": (
        {"output_schema": City, "tools": [look]},
        [call("set_model_response", name="Rome")],
        ['root: {"name": "Rome"}'],
    ),
}


async def ran(which: str, *watching: Observer) -> tuple[list[str], list[Any]]:
    """What is said at last, and what the model is asked."""
    fields, answers, _ = FIELDS[which]
    root = agent("root", *answers, **fields)
    events: list[Event] = await Chat(root, observers=watching).say("go")
    asked = [(shown(each), system_text(each), [*each.tools_dict]) for each in requests_of(root)]
    return story(events), asked


@pytest.mark.parametrize("which", FIELDS)
async def test_what_an_agents_fields_ask_for_is_done_whether_the_run_is_observed_or_not(which: str) -> None:
    """By its planner, its executor, and the tool for its answer; also if the answer is a file."""
    assert observers() == ()
    names = Names()
    said, asked = await ran(which)
    assert (said, asked) == await ran(which, names)
    assert {"planning", "code_execution", "output_schema", "code_execution_response"} <= {*names.called}
    *_, expected = FIELDS[which]
    assert said[len(said) - len(expected) :] == expected
    assert ("PLANNING" in asked[0][1]) == (which in ("planner", "both"))
    assert len(asked) == (2 if "Echo" in str(FIELDS[which][0]) else 1)
