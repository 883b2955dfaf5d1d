"""The tool_declarations processor: what the model may call (spec §3.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from flowloom.context import Context, InvocationContext
from flowloom.context.protocols import RunnableTool
from flowloom.events.event import Event
from flowloom.models.request import LlmRequest
from flowloom.processors.tools import OwnTools, is_plain, is_toolset


def tool_declarations(ctx: InvocationContext, request: LlmRequest) -> Awaitable[Event | None] | None:
    """Every tool's own hook on the request, in list order, then every toolset's.

    Reads: `ctx.tools`.
    Writes: `tools_dict`, `config.tools`; whatever a tool's own hook writes.
    Must come after: output_schema and agent_transfer, whose tools are declared first; contents, which hooks read.
    """
    agent = ctx.llm_agent
    if agent is None or not (ctx.tools or agent.tools):
        return None
    resolved = ctx.tools or ()
    if isinstance(resolved, OwnTools) and resolved.block is not None:
        request.append_tools(resolved.block)
        return None
    return _ask(ctx, request, resolved, [entry for entry in agent.own_tools if is_toolset(entry)])


async def _ask(
    ctx: InvocationContext, request: LlmRequest, resolved: Sequence[RunnableTool], toolsets: Sequence[object]
) -> Event | None:
    context = Context(ctx, function_call_id=ctx.effects.new_id(ctx))
    for tool in resolved:
        if is_plain(tool):
            request.append_tools([tool])
            continue
        try:
            await tool.process_llm_request(tool_context=context, llm_request=request)
        except Exception as error:
            error.add_note(f"while tool `{tool.name}` of agent `{ctx.agent.name}` prepared the request")
            raise
    for toolset in toolsets:
        try:
            await toolset.process_llm_request(tool_context=context, llm_request=request)  # type: ignore[attr-defined]
        except Exception as error:
            error.add_note(f"while toolset {type(toolset).__name__} of agent `{ctx.agent.name}` prepared the request")
            raise
    actions = context.collect_actions()
    if actions.state_delta or actions.artifact_delta:
        return ctx.new_event({"actions": actions})
    return None
