"""Builders and readers that the tests of agents, flows and runners share."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from typing import Any

from google.genai import types

from flowloom import (
    BasePlugin,
    Event,
    EventActions,
    InMemoryRunner,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    RunConfig,
    Session,
    StreamingMode,
)
from flowloom.testing import Answer, ScriptedModel, call

STREAMED = RunConfig(streaming_mode=StreamingMode.SSE)
WHERE: dict[str, str] = {"user_id": "ann", "session_id": "s1"}


def examples(count: int, part: int = 5) -> int:
    """How many examples of a law are tried: `count` by `make soak`, and a fifth or another part by `make test`."""
    return count if os.environ.get("FLOWLOOM_LONG") else max(count // part, 10)


def model(*answers: Answer | list[Any], **fields: Any) -> ScriptedModel:
    """A model that gives these answers, in order."""
    return ScriptedModel(answers, **fields)


def agent(name: str = "root", *answers: Answer | list[Any], **fields: Any) -> LlmAgent:
    """An agent whose model gives these answers."""
    return LlmAgent(name=name, model=model(*answers), **fields)


def requests_of(asked: LlmAgent) -> list[LlmRequest]:
    """What a scripted agent's model was asked."""
    assert isinstance(asked.model, ScriptedModel)
    return asked.model.requests


def hand_to(name: str) -> types.Part:
    """The call that hands the conversation over."""
    return call("transfer_to_agent", agent_name=name)


def text(value: str, **fields: Any) -> types.Part:
    return types.Part(text=value, **fields)


def user(*parts: types.Part | str) -> types.Content:
    return types.Content(role="user", parts=[text(part) if isinstance(part, str) else part for part in parts])


def said(*parts: types.Part | str) -> types.Content:
    return types.Content(role="model", parts=[text(part) if isinstance(part, str) else part for part in parts])


def named_call(call_id: str, name: str, /, **args: Any) -> types.Part:
    """A call with an id that the model gave."""
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def result(call_id: str | None, name: str, response: dict[str, Any] | None) -> types.Part:
    """A part that answers a call."""
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response))


def event(author: str, *parts: types.Part | str, **fields: Any) -> Event:
    """An event as an earlier turn left it."""
    content = user(*parts) if author == "user" else said(*parts)
    actions = EventActions(**fields.pop("actions", {}))
    return Event(author=author, content=content if parts else None, actions=actions, **fields)


def context(runs: Any, *events: Event, state: dict[str, Any] | None = None, **fields: Any) -> InvocationContext:
    """An agent's place in a run made by hand, after `events`."""
    session = Session(id="s1", app_name="app", user_id="ann", state=state or {}, events=list(events))
    return InvocationContext(agent=runs, session=session, **fields)


async def collect(events: AsyncIterable[Event]) -> list[Event]:
    return [each async for each in events]


class Chat:
    """A conversation of one user with a runner in memory."""

    def __init__(
        self,
        root: Any = None,
        *,
        plugins: Sequence[BasePlugin] = (),
        config: RunConfig | None = None,
        runner: InMemoryRunner | None = None,
        session_id: str = "s1",
        **options: Any,
    ) -> None:
        self.runner = runner or InMemoryRunner(root, app_name="app", plugins=plugins, **options)
        self.config = config
        self.session_id = session_id

    async def say(self, message: Any, **options: Any) -> list[Event]:
        """One turn: all events that it yields."""
        options.setdefault("run_config", self.config)
        stream = self.runner.run_async(user_id="ann", session_id=self.session_id, new_message=message, **options)
        return await collect(stream)

    async def answer(self, *parts: types.Part) -> list[Event]:
        """One turn that gives results to pending calls."""
        return await self.say(user(*parts))

    async def session(self) -> Session:
        found = await self.runner.session_service.get_session(
            app_name=self.runner.app_name, user_id="ann", session_id=self.session_id
        )
        assert found is not None
        return found

    async def stored(self) -> list[Event]:
        return (await self.session()).events

    async def state(self) -> dict[str, Any]:
        return (await self.session()).state


def story(events: Iterable[Event]) -> list[str]:
    """What happened, a line for each part: who said, called or got what."""
    lines: list[str] = []
    for each in events:
        mark = f"{each.author}~" if each.partial else each.author
        for part in (each.content.parts if each.content is not None else None) or ():
            if part.function_call is not None:
                args = ", ".join(f"{k}={v!r}" for k, v in (part.function_call.args or {}).items())
                lines.append(f"{mark}: {part.function_call.name}({args})")
            elif part.function_response is not None:
                answer = part.function_response
                lines.append(f"{mark}: {answer.name} -> {answer.response}")
            elif part.text is not None:
                lines.append(f"{mark}: ({part.text})" if part.thought else f"{mark}: {part.text}")
        if each.error_code:
            lines.append(f"{mark}: !{each.error_code}")
    return lines


def system_text(request: LlmRequest) -> str:
    """The system instruction as one text."""
    given: Any = request.config.system_instruction
    if given is None or isinstance(given, str):
        return given or ""
    return "".join(part.text or "" for part in given.parts or ())


def declarations(request: LlmRequest) -> list[types.FunctionDeclaration]:
    """All functions that the model is told of, in order."""
    groups = [group for group in request.config.tools or () if isinstance(group, types.Tool)]
    return [declared for group in groups for declared in group.function_declarations or ()]


def declared_names(request: LlmRequest) -> list[str | None]:
    return [declared.name for declared in declarations(request)]


def shown(request: LlmRequest) -> list[str]:
    """The contents of a request, a line for each part."""
    lines: list[str] = []
    for content in request.contents:
        for part in content.parts or ():
            if part.function_call is not None:
                lines.append(f"{content.role}: {part.function_call.name}()")
            elif part.function_response is not None:
                lines.append(f"{content.role}: {part.function_response.name} -> {part.function_response.response}")
            else:
                lines.append(f"{content.role}: {part.text}")
    return lines


def pending(events: Iterable[Event]) -> list[types.FunctionCall]:
    """The calls of these events that wait for the user."""
    return [
        each_call
        for each in events
        if not each.partial
        for each_call in each.get_function_calls()
        if each_call.id in (each.long_running_tool_ids or ())
    ]


def approve(request: types.FunctionCall, confirmed: bool = True) -> types.Part:
    """The user's decision about a tool call that waits for it."""
    return result(request.id, "adk_request_confirmation", {"confirmed": confirmed})


def open_calls(events: Iterable[Event]) -> set[str | None]:
    """Ids of the calls that no result follows, long-running ones left out: a legal history has none."""
    waiting: set[str | None] = set()
    for each in events:
        waiting |= {c.id for c in each.get_function_calls() if c.id not in (each.long_running_tool_ids or ())}
        waiting -= {response.id for response in each.get_function_responses()}
    return waiting


class Ran(list[str]):
    """Who ran, in order."""

    def gives(self, name: str, value: Any = None) -> Callable[..., Any]:
        """A callback that says it ran, and answers, or raises an error it is given."""

        def callback(**_: Any) -> Any:
            self.append(name)
            if isinstance(value, Exception):
                raise value
            return value

        return callback


def no_op(ctx: InvocationContext, request: LlmRequest) -> None:
    """Nothing."""
