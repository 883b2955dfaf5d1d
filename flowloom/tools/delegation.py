"""Agents that are called like functions: the tools by which a coordinator delegates and a task ends (spec §17.9)."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.context import Context
from flowloom.context.protocols import AnyAgent, RunnableTool, as_llm_agent
from flowloom.events.event import Event
from flowloom.models.request import LlmRequest
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.output import AnswerTool, OutputSchema, arguments_schema, validated_arguments

FINISH_TASK = "finish_task"
NOT_BEGUN = "Control goes to agent `{}` first, so this task was not begun. Call it again if it is still needed."
_TEXT_RESULT = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
_REQUEST = {"type": "object", "properties": {"request": {"type": "string"}}, "required": ["request"]}


def input_schema_of(agent: AnyAgent) -> Any:
    """The input schema of an agent that is called; a composite agent takes that of its first child."""
    llm_agent = as_llm_agent(agent)
    if llm_agent is not None:
        return llm_agent.input_schema
    return input_schema_of(agent.sub_agents[0]) if agent.sub_agents else None


def call_declaration(agent: AnyAgent, schema: OutputSchema | None) -> types.FunctionDeclaration:
    """How an agent is described as a function."""
    return types.FunctionDeclaration(
        name=agent.name,
        description=agent.description.strip(),
        parameters_json_schema=_REQUEST if schema is None else arguments_schema(schema),
    )


class DelegateTool(BaseTool):
    """Calls a `task` or `single_turn` sub-agent. Its answer comes when that agent has finished."""

    defers_response = True

    def __init__(self, agent: AnyAgent) -> None:
        super().__init__(name=agent.name, description=agent.description.strip())
        self.agent = agent
        source = input_schema_of(agent)
        self._schema = None if source is None else OutputSchema(source)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return call_declaration(self.agent, self._schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Check the arguments; the flow then runs the agent."""
        validated_arguments(self._schema or _REQUEST_SCHEMA, args)


def is_task(tool: RunnableTool) -> bool:
    """Whether a tool calls a `task` agent, whose turn comes after all other calls of the answer."""
    called = as_llm_agent(tool.agent) if isinstance(tool, DelegateTool) else None
    return called is not None and called.mode == "task"


class FinishTaskTool(AnswerTool):
    """By calling it an agent in `task` mode ends its task and says what came of it."""

    def __init__(self, output_schema: Any, output_key: str | None = None) -> None:
        schema = OutputSchema(_TEXT_RESULT if output_schema is None else output_schema)
        super().__init__(FINISH_TASK, "End the task and report its result.", schema)
        self._key, self._is_text = output_key, output_schema is None

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Take the result; one that does not fit is an error that the model can mend."""
        output = validated_arguments(self.schema, args)
        if self._key:
            tool_context.state[self._key] = output["result"] if self._is_text else output
        tool_context.actions.set_model_response = output
        return {"result": "The task is finished."}

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        llm_request.append_tools([self])
        llm_request.append_instructions(
            [
                f"You work on one task. Call `{FINISH_TASK}` with the result as soon as it is done, and not before: "
                f"ask the user when you need to know more. Call no other tool together with it."
            ]
        )


def failure_told(agent: AnyAgent, last: Event) -> str:
    """What a caller is told of an agent whose last event is an error."""
    return f"Agent `{agent.name}` failed ({last.error_code}){f': {last.error_message}' if last.error_message else '.'}"


def task_result(results: Event) -> Any:
    """What a task came to, if these are the results of calls of which one has finished it; else None."""
    output = results.actions.set_model_response
    if output is None or all(response.name != FINISH_TASK for response in results.get_function_responses()):
        return None
    return output


_REQUEST_SCHEMA = OutputSchema(_REQUEST)
