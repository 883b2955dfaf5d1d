"""`LoggingPlugin`: what a run does, as lines that a person reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic_core import to_json

from flowloom.context import Context, InvocationContext
from flowloom.errors import error_text
from flowloom.events import Event, LlmResponse
from flowloom.events.parts import parts_of
from flowloom.models import LlmRequest
from flowloom.objects.notebook import count, say
from flowloom.plugins.base_plugin import BasePlugin

if TYPE_CHECKING:
    from flowloom.agents import BaseAgent
    from flowloom.tools import BaseTool


class LoggingPlugin(BasePlugin):
    """Writes a line for the user's message, and for each agent, model call, tool call, event and error of a run.

    For development: the lines hold messages, arguments and results, each cut to `max_length` characters. `write` is
    given each line; by default it is printed. `LoggingPlugin(write=logging.getLogger("mine").info)` logs it.
    """

    def __init__(
        self, name: str = "logging_plugin", *, write: Callable[[str], None] | None = None, max_length: int = 200
    ) -> None:
        super().__init__(name)
        self._write = write or say
        self._max_length = max_length

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        where = f"{invocation_context.invocation_id}, session {invocation_context.session.id}"
        self._log(f"user message ({where}): {self.told(user_message)}")

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        self._log(f"run starts: {invocation_context.invocation_id}, agent {invocation_context.agent.name}")

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        usage = invocation_context.usage
        self._log(f"run ended: {invocation_context.invocation_id}, {usage.total_tokens} tokens")

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        if not event.partial:
            final = ", final" if event.is_final_response() else ""
            self._log(f"event {event.id} of {event.author}{final}: {self.told(event.content)}")

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: Context) -> types.Content | None:
        self._log(f"agent {agent.name} starts")

    async def after_agent_callback(self, *, agent: BaseAgent, callback_context: Context) -> types.Content | None:
        self._log(f"agent {agent.name} ended")

    async def before_model_callback(self, *, callback_context: Context, llm_request: LlmRequest) -> LlmResponse | None:
        tools = ", ".join(llm_request.tools_dict) or "none"
        contents = count(len(llm_request.contents), "content")
        self._log(f"model {llm_request.model} is asked by {callback_context.agent_name}: {contents}, tools {tools}")

    async def after_model_callback(self, *, callback_context: Context, llm_response: LlmResponse) -> LlmResponse | None:
        if llm_response.partial:
            return
        said = self.told(llm_response.content)
        if llm_response.error_code:
            said = f"error {llm_response.error_code}: {llm_response.error_message or 'no reason was given'}"
        used = llm_response.usage_metadata
        tokens = "" if used is None else f" ({used.prompt_token_count} tokens in, {used.candidates_token_count} out)"
        self._log(f"model answers {callback_context.agent_name}{tokens}: {said}")

    async def on_model_error_callback(
        self, *, callback_context: Context, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        self._log(f"model {llm_request.model} failed for {callback_context.agent_name}: {_named(error)}")

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Context
    ) -> dict[str, Any] | None:
        self._log(f"tool {tool.name} starts ({tool_context.function_call_id}): {self._data(tool_args)}")

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Context, result: Any
    ) -> dict[str, Any] | None:
        self._log(f"tool {tool.name} ended ({tool_context.function_call_id}): {self._data(result)}")

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: Context, error: Exception
    ) -> dict[str, Any] | None:
        self._log(f"tool {tool.name} failed ({tool_context.function_call_id}): {_named(error)}")

    async def on_agent_error_callback(self, *, agent: BaseAgent, callback_context: Context, error: Exception) -> None:
        self._log(f"agent {agent.name} failed: {_named(error)}")

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        self._log(f"run failed: {invocation_context.invocation_id}: {_named(error)}")

    def _log(self, line: str) -> None:
        self._write(f"[{self.name}] {line}")

    def told(self, content: types.Content | None) -> str:
        """The parts of `content` on one line: words, thoughts, calls and results."""
        said: list[str] = []
        for part in parts_of(content):
            call, answer = part.function_call, part.function_response
            if part.text:
                said.append(self._cut(repr(part.text) if not part.thought else f"(thinks) {part.text!r}"))
            elif call is not None:
                said.append(f"calls {call.name} {self._data(call.args)}")
            elif answer is not None:
                said.append(f"{answer.name} gave {self._data(answer.response)}")
            else:
                said.append(", ".join(sorted(part.model_fields_set)))
        return " | ".join(said) or "nothing"

    def _data(self, value: Any) -> str:
        try:
            return self._cut(to_json(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings").decode())
        except ValueError:  # JSON cannot hold it: that is not for a log to tell
            return f"<{type(value).__name__}>"

    def _cut(self, text: str) -> str:
        return text if len(text) <= self._max_length else f"{text[: self._max_length]}…"


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error_text(error)}"
