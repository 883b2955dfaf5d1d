"""The output_schema processor: structured answers of agents that also have tools (spec §10)."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.context.protocols import AnyLlmAgent
from flowloom.events.event import UNFIT_OUTPUT, Event, asks_again
from flowloom.events.parts import content_of, text_part
from flowloom.log.item import UNFIT_LEAD_IN
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of
from flowloom.tools.delegation import FINISH_TASK
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


def refusal_in(event: Event) -> str | None:
    """What is wrong with the structured answer that an event holds, or answers the call of; None if nothing is."""
    marks = event.custom_metadata
    if marks and UNFIT_OUTPUT in marks:
        return None if asks_again(event) else str(marks[UNFIT_OUTPUT])
    if event.actions.set_model_response is None:
        for response in event.get_function_responses():
            if response.name in (SET_MODEL_RESPONSE, FINISH_TASK):
                return str((response.response or {}).get("error", "No output was given."))
    return None


def retry_event(ctx: InvocationContext, unfit: Event) -> Event:
    """The message that asks the agent's model for its answer again, and says what was wrong with it."""
    assert ctx.llm_agent is not None
    wrong = (unfit.custom_metadata or {})[UNFIT_OUTPUT]
    how = (
        f"by calling `{SET_MODEL_RESPONSE}`" if needs_response_tool(ctx, ctx.llm_agent) else "as JSON and nothing else"
    )
    parts = [text_part(UNFIT_LEAD_IN), text_part(f"{wrong}\nGive the whole answer again, {how}.")]
    return ctx.new_event({"content": content_of("user", parts), "custom_metadata": {UNFIT_OUTPUT: wrong}})


def needs_response_tool(ctx: InvocationContext, agent: AnyLlmAgent) -> bool:
    """Whether the answer has to be delivered by a tool call (spec §10.1)."""
    if agent.output_schema is None or agent.mode == "task" or not agent.tools:
        return False
    return not model_of(ctx).output_schema_and_tools


def schema_of(agent: AnyLlmAgent) -> OutputSchema:
    """The agent's output schema, compiled once."""
    return agent.derive("output_schema", lambda: OutputSchema(agent.output_schema))
