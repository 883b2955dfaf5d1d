"""The output_schema processor: structured answers of agents that also have tools (spec §10)."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.context.protocols import AnyLlmAgent
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of
from flowloom.tools.output import SET_MODEL_RESPONSE, OutputSchema, SetModelResponseTool

_INSTRUCTION = (
    f"You may use the other tools first. Give your final answer only by calling `{SET_MODEL_RESPONSE}` with all the "
    f"required fields; do not write it as text."
)


def output_schema(ctx: InvocationContext, request: LlmRequest) -> None:
    """The tool to answer with, for models that take no response schema beside tools.

    Reads: output schema, mode and tools of the agent; what the model can do.
    Writes: `tools_dict`, `config.tools`, `config.system_instruction`.
    Must come after: instructions; before tool_declarations, so that this tool is declared first.
    """
    agent = ctx.llm_agent
    if agent is None or not needs_response_tool(ctx, agent):
        return
    request.append_tools((agent.derive("response_tool", lambda: SetModelResponseTool(schema_of(agent))),))
    request.append_instructions((_INSTRUCTION,))


def needs_response_tool(ctx: InvocationContext, agent: AnyLlmAgent) -> bool:
    """Whether the answer has to be delivered by a tool call (spec §10.1)."""
    if agent.output_schema is None or agent.mode == "task" or not agent.tools:
        return False
    return not model_of(ctx).output_schema_and_tools


def schema_of(agent: AnyLlmAgent) -> OutputSchema:
    """The agent's output schema, compiled once."""
    return agent.derive("output_schema", lambda: OutputSchema(agent.output_schema))
