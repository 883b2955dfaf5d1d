"""The tools processor: which tools the agent has (spec §5)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from functools import cached_property
from typing import Any, TypeGuard

from flowloom.context import InvocationContext, ReadonlyContext
from flowloom.context.protocols import RunnableTool
from flowloom.errors import ConfigurationError, DuplicateToolError, ToolsetError
from flowloom.events.event import Event
from flowloom.models.request import LlmRequest, ToolBlock
from flowloom.processors.agent_transfer import those_late
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.base_toolset import BaseToolset

_log = logging.getLogger("flowloom.tools")
UNAVAILABLE = "TOOLSET_UNAVAILABLE"
"""The error code of the event that tells of a toolset without which the run goes on."""


def tools(ctx: InvocationContext, request: LlmRequest) -> Awaitable[list[Event]] | None:
    """Resolve the agent's tools, once per agent run: each toolset is listed once.

    Reads: tools of the agent.
    Writes: `ctx.tools`.
    Must come after: nothing; confirmation needs it to dispatch by name.
    """
    agent = ctx.llm_agent
    if agent is None or ctx.tools is not None:
        return None
    own: OwnTools = agent.own_tools  # pyright: ignore[reportAssignmentType] - a room below knows no more of it
    if own.has_toolsets or own.late:
        return _resolve(ctx, own)
    ctx.tools = own
    return None


class OwnTools(list[Any]):
    """An agent's own tools and toolsets, or what they resolve to, looked at once."""

    toolsets: Sequence[BaseToolset] = ()
    """The sets that its tools were listed by."""

    @cached_property
    def has_toolsets(self) -> bool:
        """Whether there are sets among them that have to be listed."""
        return any(map(is_toolset, self))

    @cached_property
    def late(self) -> tuple[Any, ...]:
        """The agents behind them that have to look up what they are for: those of other services."""
        return those_late(getattr(tool, "agent", None) for tool in self)

    @cached_property
    def block(self) -> ToolBlock | None:
        """All of them, if all are tools whose hook does nothing but declare them, so that it need not be called."""
        hooks = {getattr(tool.__class__, "process_llm_request", None) for tool in self}
        return ToolBlock(self) if hooks <= {BaseTool.process_llm_request} else None


def is_toolset(tool: Any) -> TypeGuard[BaseToolset]:
    """Whether an entry of an agent's tools is a set that has to be listed."""
    return hasattr(tool, "get_tools_with_prefix")


async def _resolve(ctx: InvocationContext, own: OwnTools) -> list[Event]:
    """List the toolsets. The events tell of those that are not there and may be left out (protocols spec §0)."""
    for agent in own.late:
        await agent.look_up_description(ctx)
    readonly = ReadonlyContext(ctx)
    missing: list[Event] = []
    resolved = OwnTools()
    resolved.toolsets = [*filter(is_toolset, own)]
    seen: dict[str, RunnableTool] = {}
    for entry in own:
        if not is_toolset(entry):
            found: Sequence[RunnableTool] = [entry]  # type: ignore[list-item]
        else:
            try:
                found = await entry.get_tools_with_prefix(readonly)
            except Exception as error:
                if isinstance(error, ToolsetError) and error.skipped:
                    _log.warning("Agent `%s` runs without some of its tools: %s", ctx.agent.name, error)
                    missing.append(ctx.new_event({"error_code": UNAVAILABLE, "error_message": str(error)}))
                    continue
                error.add_note(f"while listing toolset {type(entry).__name__} of agent `{ctx.agent.name}`")
                raise
        for tool in found:
            if not hasattr(tool, "run_async"):
                raise ConfigurationError(
                    f"{type(entry).__name__} of agent `{ctx.agent.name}` lists {tool!r:.80}, which is no `BaseTool`. "
                    f"Wrap a function in `FunctionTool`."
                )
            if tool.name in seen:
                raise DuplicateToolError(
                    f"Agent `{ctx.agent.name}` has two tools named `{tool.name}`: {seen[tool.name]!r} and {tool!r}. "
                    f"Give the toolset a `tool_name_prefix`, or filter one out."
                )
            seen[tool.name] = tool
            resolved.append(tool)
    ctx.tools = resolved
    return missing
