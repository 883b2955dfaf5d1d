"""`client_agent`: the agent that runs tools for a client, whose calls stand in for a model's (protocols spec §2).

So a call of a client is a run like any other: with a session, plugins, confirmations, timeouts and a legal history.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from google.genai import types

from flowloom import processors
from flowloom.agents import LlmAgent
from flowloom.context import Context, InvocationContext, RunConfig
from flowloom.context.hooks import NO_CALLBACKS, FlowCallbacks
from flowloom.events import Event
from flowloom.events.parts import call_part, content_of, text_part
from flowloom.flow import Flow
from flowloom.flow.pipeline import events_of
from flowloom.flow.tool_run import tool_run
from flowloom.flow.turn import Turn
from flowloom.models.request import LlmRequest
from flowloom.protocols.mcp.serving.results import without_files
from flowloom.tools.confirmation import follow_ups

if TYPE_CHECKING:
    from flowloom.telemetry import Recorder

CALL: Final = "mcp:call"
"""The key of a run's metadata that holds the call which a client makes."""
_MOST_KEPT = 1000


class RawResults(dict[str, Any]):
    """What tools returned, by call id, before it became data: until it is taken."""

    def keep(self, tool: Any, args: Any, tool_context: Context, tool_response: Any) -> Any:
        """Note a result; files in it leave but a mark in the history."""
        while len(self) >= _MOST_KEPT:  # of calls whose answer was never fetched
            self.pop(next(iter(self)))
        self[tool_context.function_call_id or ""] = tool_response
        return without_files(tool_response)


def client_agent(name: str, tools: Sequence[Any], like: LlmAgent[Any] | None, raw: RawResults) -> LlmAgent[Any]:
    """An agent called `name` that makes the call which `run_config_of` names, and ends.

    It asks the callbacks around tools that the agent `like` it has, and has its model, which tools may need. What the
    tools return is kept in `raw`.
    """
    asked = NO_CALLBACKS if like is None else like.flow.callbacks
    callbacks = FlowCallbacks(
        before_tool=asked.before_tool,
        after_tool=(*asked.after_tool, raw.keep),
        on_tool_error=asked.on_tool_error,
        around_tool=asked.around_tool,
    )
    steps = (processors.tools, processors.auth, processors.confirmation, processors.tool_declarations)
    flow = Flow(steps, (), callbacks=callbacks)
    return _ClientAgent(name=name, model="" if like is None else like.model, tools=list(tools), flow=flow)


def run_config_of(name: str, args: dict[str, Any]) -> tuple[RunConfig, str, types.Content]:
    """The settings of a run that calls the tool `name`, the id of its call, and the message that asks for it."""
    call_id = f"mcp-{uuid4().hex}"
    config = RunConfig(custom_metadata={CALL: {"id": call_id, "name": name, "args": args}})
    told = f"{name} {json.dumps(args, ensure_ascii=False, default=str)}"
    return config, call_id, content_of("user", [text_part(told)])


class _ClientAgent(LlmAgent[Any]):
    """An agent whose calls are a client's."""

    def turn(self, ctx: InvocationContext) -> Turn:
        return _ClientTurn(ctx, self.flow)


class _ClientTurn(Turn):
    """A turn of one step, which makes the client's call, or resumes those that a person has answered."""

    def __init__(self, ctx: InvocationContext, flow: Flow) -> None:
        super().__init__(ctx)
        self._flow = flow

    def enter(self) -> None:
        self.ctx.callbacks = self._flow.callbacks

    async def step(self, spans: Recorder | None) -> AsyncGenerator[Event, None]:
        ctx, request = self.ctx, LlmRequest.empty(None)
        for step in self._flow.request_steps:
            async with aclosing(events_of(step.run(ctx, request), ctx, step)) as events:
                async for event in events:
                    yield self.note(event)
        call = (ctx.run_config.custom_metadata or {}).get(CALL)
        if call is not None:
            parts = [call_part(call["id"], call["name"], call["args"])]
            tool = request.tools_dict.get(call["name"])
            later = [call["id"]] if tool is not None and tool.is_long_running else None
            asked = self.note(ctx.new_event({"content": content_of("model", parts), "long_running_tool_ids": later}))
            yield asked
            running, forwarded = tool_run(ctx, asked.get_function_calls(), request.tools_dict)
            if forwarded is not None:
                async with aclosing(forwarded):
                    async for event in forwarded:
                        yield event
            results = await running
            if results.event is not None:
                yield self.note(results.event)
                for event in follow_ups(ctx, parts, results.event):
                    yield self.note(event)
            for event in results.waiting:
                yield event
            if results.error is not None:
                raise results.error
        self.end_or_wait()
