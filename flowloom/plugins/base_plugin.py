"""`BasePlugin`: hooks over a whole run (spec §18.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.context import Context, InvocationContext
from flowloom.events import Event, LlmResponse
from flowloom.models import LlmRequest

if TYPE_CHECKING:
    from flowloom.agents import BaseAgent
    from flowloom.tools import BaseTool


class BasePlugin:
    """Hooks that a runner asks for every agent, model and tool call of its runs.

    Override what you need; all take keywords only. `invocation_context` is the place of the agent that runs, in
    `callback_context` (of agents and models) and `tool_context` (of tools) state and artifacts can be read and written.
    `name` identifies the plugin in its `PluginManager`. Plugins are asked in the order they were given, before
    the callbacks of agents; the first answer that is not None wins. A hook that is not overridden costs nothing.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Before the user's message, `user_message`, is stored. An answer takes its place."""

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        """Before the agent runs. An answer ends the run: it is what the agent says."""

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """Before an event is stored and shown. An answer takes its place."""

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """After the run, whatever came of it."""

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: Context) -> types.Content | None:
        """Before an agent's turn. An answer takes its place."""

    async def after_agent_callback(self, *, agent: BaseAgent, callback_context: Context) -> types.Content | None:
        """After an agent's turn. An answer is one more event of the agent's."""

    async def before_model_callback(self, *, callback_context: Context, llm_request: LlmRequest) -> LlmResponse | None:
        """Before a model call. An answer takes its place."""

    async def after_model_callback(self, *, callback_context: Context, llm_response: LlmResponse) -> LlmResponse | None:
        """After each response of a model, partial ones too. An answer takes its place."""

    async def on_model_error_callback(
        self, *, callback_context: Context, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """When a model call fails with `error`. An answer takes the error's place."""

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Context
    ) -> dict[str, Any] | None:
        """Before a tool runs; its arguments, `tool_args`, may be changed. An answer takes the tool's place."""

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Context, result: Any
    ) -> dict[str, Any] | None:
        """After a tool ran with `tool_args`, or failed. An answer takes the place of its `result`."""

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Context, error: Exception
    ) -> dict[str, Any] | None:
        """When a tool raises `error`, called with `tool_args`, or is not known. An answer takes the error's place."""

    async def on_agent_error_callback(self, *, agent: BaseAgent, callback_context: Context, error: Exception) -> None:
        """When an agent's turn fails with `error`, which goes on."""

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """When a run fails with `error`, which the caller gets."""

    async def close(self) -> None:
        """Give back what the plugin holds. The runner calls it when it is closed."""
