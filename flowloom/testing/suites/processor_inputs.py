"""The agent and the histories that `ProcessorSuite` tries processors on."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from flowloom.agents import LlmAgent
from flowloom.events import Event, EventActions, LlmResponse
from flowloom.events.parts import content_of, text_part
from flowloom.sessions import Session
from flowloom.tools import FunctionTool

_START = 1_700_000_000.0


@dataclass(frozen=True, slots=True)
class Situation:
    """A history, and the message that comes after it."""

    name: str
    events: tuple[Event, ...] = ()
    message: types.Content | None = None
    state: dict[str, Any] = field(default_factory=lambda: {"name": "Ann", "user:city": "Rome"})
    _kept: bytes = field(init=False, repr=False)
    """Events and state, from which copies are made: in a fifth of the time that `deepcopy` takes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_kept", pickle.dumps((list(self.events), self.state)))

    def session(self) -> Session:
        """A session of its own, which nobody else changes."""
        events, state = pickle.loads(self._kept)
        return Session(id="s1", app_name="suite", user_id="ann", state=state, events=events)


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is quiet."


def count(things: list[str]) -> int:
    """Count things."""
    return len(things)


_TOOLS = (FunctionTool(look), FunctionTool(count))


def default_agent() -> LlmAgent:
    """An agent with an instruction, settings, tools and somebody to hand over to."""
    return LlmAgent(
        name="suite_agent",
        description="Is tried.",
        model="",
        instruction="You help {name}.",
        global_instruction="Be brief.",
        generate_content_config=types.GenerateContentConfig(temperature=0.5, labels={"a": "b"}),
        tools=list(_TOOLS),
        sub_agents=[LlmAgent(name="helper", description="Helps."), LlmAgent(name="other", description="Helps, too.")],
    )


def _text(value: str) -> types.Part:
    return types.Part(text=value)


def _call(call_id: str, name: str, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def _result(call_id: str, name: str, **response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response))


def _message(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=list(parts))


def _events(*entries: Event) -> tuple[Event, ...]:
    """Events with ids and times of their place."""
    for number, event in enumerate(entries):
        event.id, event.timestamp = f"event-{number}", _START + number
        event.invocation_id = event.invocation_id or f"e-{number // 4}"
    return entries


def _user(*parts: types.Part, **fields: Any) -> Event:
    return Event(author="user", content=_message(*parts), **fields)


def _said(*parts: types.Part, author: str = "suite_agent", **fields: Any) -> Event:
    return Event(author=author, content=types.Content(role="model", parts=list(parts)), **fields)


def _turn(number: int) -> list[Event]:
    call_id = f"call-{number}"
    return [
        _user(_text(f"Question {number}: how is it in Rome?")),
        _said(types.Part(text="I look.", thought=True), _call(call_id, "look", place="Rome")),
        Event(author="suite_agent", content=_message(_result(call_id, "look", result="Rome is quiet."))),
        _said(_text(f"Answer {number}: it is quiet.\n```python\nprint({number})\n```")),
    ]


EMPTY = Situation("an empty history")
FIRST_MESSAGE = Situation("a first message", (), _message(_text("Hello, who are you?")))
LONG = Situation(
    "a long history",
    _events(
        *(event for number in range(12) for event in _turn(number)),
        Event(author="suite_agent", actions=EventActions(state_delta={"seen": {"deep": [1]}})),
        Event(author="suite_agent", error_code="ERROR", error_message="The model failed."),
        _said(_text("I am another agent."), author="other"),
        _said(_text("I am on a branch."), author="helper", branch="elsewhere.helper"),
        _said(types.Part(text="Signed.", thought_signature=b"\x00\xff")),
        _user(_text("")),
    ),
    _message(_text("And now?")),
)
FILES = Situation(
    "files",
    _events(
        _user(
            types.Part(inline_data=types.Blob(data=b"a,b\n1,2\n", mime_type="text/csv", display_name="table.csv")),
            types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png")),
            _text("What is this?"),
        ),
        _said(_text("A table, and an image.")),
    ),
    _message(
        types.Part(
            file_data=types.FileData(file_uri="gs://a/b.pdf", mime_type="application/pdf", display_name="b.pdf")
        ),
        types.Part(file_data=types.FileData(file_uri="https://example.org/c.txt", mime_type="text/plain")),
        types.Part(inline_data=types.Blob(data=b"x,y\n3,4\n", mime_type="text/csv", display_name="more.csv")),
        _text("And these?"),
    ),
)
CALLS = Situation(
    "calls and results",
    _events(
        _user(_text("Look at Rome and Oslo, and order a report.")),
        _said(_call("c1", "look", place="Rome"), _call("c2", "look", place="Oslo"), _call("c3", "count", things=[])),
        Event(
            author="suite_agent",
            content=_message(
                _result("c1", "look", result="quiet"),
                _result("c2", "look", error="no such place"),
                _result("c3", "count", result={"deep": [1, {"a": None}]}),
            ),
        ),
        _said(_call("c4", "report"), long_running_tool_ids=["c4"]),
        Event(author="suite_agent", content=_message(_result("c4", "report", status="pending"))),
        _said(_text("The report is ordered.")),
        _user(_text("Thank you.")),
        _said(_text("You are welcome.")),
    ),
    _message(_result("c4", "report", result="ready")),
)
SITUATIONS = (EMPTY, FIRST_MESSAGE, LONG, FILES, CALLS)
"""What processors are tried on."""

RESPONSES = (
    LlmResponse(content=content_of("model", [text_part("It is quiet in Rome.")])),
    LlmResponse(
        content=content_of("model", [text_part("Let me think.", thought=True), text_part("It is quiet in Rome.")])
    ),
    LlmResponse(content=content_of("model", [])),
    LlmResponse(error_code="SAFETY", error_message="The model would not say."),
)
"""What the model answers."""
