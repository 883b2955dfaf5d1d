"""`client_agent`: the agent that runs tools for a client, whose calls stand in for a model's (protocols spec §2).

So a call of a client is a run like any other: with a session, plugins, confirmations, timeouts and a legal history.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final
from uuid import uuid4

from google.genai import types

from flowloom import processors
from flowloom.agents import LlmAgent
from flowloom.context import Context, InvocationContext, RunConfig
from flowloom.context.hooks import FlowCallbacks
from flowloom.errors import Halt
from flowloom.events.response import LlmResponse
from flowloom.flow import Flow
from flowloom.models import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.protocols.mcp.serving.results import without_files

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


def client_agent(name: str, tools: Sequence[Any], callbacks: FlowCallbacks, raw: RawResults) -> LlmAgent[Any]:
    """An agent called `name` that makes the call which `run_config_of` names, asks `callbacks` around it, and ends.

    What the tools return is kept in `raw`.
    """
    kept = FlowCallbacks(
        before_tool=callbacks.before_tool,
        after_tool=(*callbacks.after_tool, raw.keep),
        on_tool_error=callbacks.on_tool_error,
        around_tool=callbacks.around_tool,
    )
    steps = (processors.tools, processors.auth, processors.confirmation, processors.tool_declarations, _client_call)
    return LlmAgent(name=name, model=_Client(model="client"), tools=list(tools), flow=Flow(steps, (), callbacks=kept))


def run_config_of(name: str, args: dict[str, Any]) -> tuple[RunConfig, str, types.Content]:
    """The settings of a run that calls the tool `name`, the id of its call, and the message that asks for it."""
    call_id = f"mcp-{uuid4().hex}"
    config = RunConfig(custom_metadata={CALL: {"id": call_id, "name": name, "args": args}})
    told = f"{name} {json.dumps(args, ensure_ascii=False, default=str)}"
    return config, call_id, types.Content(role="user", parts=[types.Part(text=told)])


def _client_call(ctx: InvocationContext, request: LlmRequest) -> None:
    """Let the client's call be the answer of the model; a run that has made it is over.

    Reads: the metadata of the run.
    Writes: the contents.
    Must come after: confirmation, which makes a call that a person has decided about.
    """
    call = (ctx.run_config.custom_metadata or {}).get(CALL)
    if call is None or not ctx.once("the client's call"):
        raise Halt("The client's call was made.")
    request.contents = [types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(**call))])]


class _Client(BaseLlm):
    """Says what stands in the request."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=llm_request.contents[-1])
