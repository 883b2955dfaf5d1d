"""The tool_declarations processor: what the model may call (spec §3.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from flowloom.context import Context, InvocationContext
from flowloom.events.event import Event
from flowloom.models.request import LlmRequest
from flowloom.processors.tools import OwnTools, is_toolset


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
    if (
        isinstance(resolved, OwnTools)
        and resolved.block
        and not any(one.prepares_requests for one in resolved.toolsets)
    ):
        request.append_tools(resolved.block)
        return None
    return _ask(ctx, request, [*resolved, *filter(is_toolset, agent.own_tools)])


async def _ask(ctx: InvocationContext, request: LlmRequest, asked: Sequence[Any]) -> Event | None:
    context = Context(ctx, function_call_id=ctx.effects.new_id(ctx))
    for each in asked:
        try:
            await each.process_llm_request(tool_context=context, llm_request=request)
        except Exception as error:
            what = f"toolset {type(each).__name__}" if is_toolset(each) else f"tool `{each.name}`"
            error.add_note(f"while {what} of agent `{ctx.agent.name}` prepared the request")
            raise
    actions = context.collect_actions()
    if actions.state_delta or actions.artifact_delta:
        return ctx.new_event({"actions": actions})
    return None
