"""The final step of an agent that has reached a limit which is not to raise (decision 23)."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.errors import LimitExceededError
from flowloom.models.request import LlmRequest
from flowloom.processors.output_schema import needs_response_tool


def ask_to_summarise(ctx: InvocationContext, request: LlmRequest, limit: LimitExceededError) -> None:
    """Make a request the last one of an agent that reached a limit: no tools, and the instruction to sum up.

    What would have been answered by a tool, because of an output schema, is answered as text of that form.
    """
    request.tools_dict.clear()
    request.config.tools = request.config.tool_config = request.server_tools = None
    agent = ctx.llm_agent
    if agent is not None and needs_response_tool(ctx, agent):
        request.set_output_schema(agent.output_schema)
    request.append_instructions(
        f"The limit `{limit.limit}` is reached: no tool can be called any more, whatever is said above. Answer now "
        f"from what you have: sum up what is done, and say what is not."
    )
