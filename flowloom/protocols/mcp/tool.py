"""`McpTool`: one tool of an MCP server."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.context import Context
from flowloom.errors import ConfirmationRejectedError, ConfirmationRequiredError
from flowloom.protocols.mcp.asked import about_call
from flowloom.protocols.words import cleaned
from flowloom.tools.base_tool import BaseTool

if TYPE_CHECKING:
    import mcp_types

    from flowloom.protocols.mcp.tool_host import ToolHost
    from flowloom.protocols.schema import ToolSchema


class McpTool(BaseTool):
    """A tool of a server, as a toolset lists it.

    Its arguments are checked against the server's schema before they are sent. `raw_mcp_tool` is the server's own
    description, `name` what the model knows it by, `toolset` the set that it belongs to; `schema` and `output_schema`
    check arguments and results.
    """

    reports_progress = True

    def __init__(
        self,
        raw_mcp_tool: mcp_types.Tool,
        name: str,
        toolset: ToolHost,
        schema: ToolSchema,
        output_schema: ToolSchema | None,
    ) -> None:
        hints = raw_mcp_tool.annotations
        super().__init__(
            name=name,
            description=cleaned(raw_mcp_tool.description or ""),
            idempotent=hints is not None and bool(hints.read_only_hint or hints.idempotent_hint),
        )
        self.raw_mcp_tool = raw_mcp_tool
        self.toolset = toolset
        self.schema = schema
        self.output_schema = output_schema
        self.withheld: str | None = None
        """How it differs from what a person has seen of it; then it is not declared."""
        self.timeout = toolset.connection_params.timeout  # kept here: progress may extend it, and a person's answer

    def __repr__(self) -> str:
        return f"<McpTool {self.name} of {self.toolset.address}>"

    @property
    def annotations(self) -> mcp_types.ToolAnnotations | None:
        """What the server says of the tool: claims."""
        return self.raw_mcp_tool.annotations

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        if self.withheld is not None:
            return None
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self.schema.declared
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Call the tool on its server with `args`.

        Raises `ToolArgumentsError` for arguments that do not fit, a `McpToolError`, `McpProtocolError` or
        `McpTransportError` for a call that failed, `ToolTimeoutError`, and what pauses the run.
        """
        if self.withheld is not None:
            await self.toolset.check_pin(self, tool_context)
        self.schema.check_arguments(args, self.name)
        if tool_context.tool_confirmation is not None or self.toolset.require_confirmation:
            await self._gate(args, tool_context)
        calls: Any = import_module("flowloom.protocols.mcp.tool_calls")
        return await calls.called(self, args, tool_context)

    async def _gate(self, args: Mapping[str, Any], tool_context: Context) -> None:
        """Raise unless the call needs no approval or has it."""
        decision = about_call(tool_context)
        if decision is None:
            if not await self._needs_approval(args):
                return
            tool_context.request_confirmation(
                hint=f"Tool `{self.name}` of {self.toolset.address} needs your approval to run. Answer with "
                f"`confirmed` true or false."
            )
            raise ConfirmationRequiredError(
                f"The call of `{self.name}` waits for a person's approval. It has not run yet."
            )
        if not decision.confirmed:
            why = f" The reason: {decision.reason}" if decision.reason else ""
            raise ConfirmationRejectedError(f"A person rejected the call of `{self.name}`. It was not run.{why}")

    async def _needs_approval(self, args: Mapping[str, Any]) -> bool:
        required: bool | str | Callable[..., Any] = self.toolset.require_confirmation
        if required == "destructive":
            hints = self.raw_mcp_tool.annotations
            return not (self.toolset.trust_annotations and hints is not None and hints.read_only_hint)
        if not callable(required):
            return bool(required)
        answer = required(**args)
        return bool(await answer if inspect.isawaitable(answer) else answer)


class MCPTool(McpTool):
    """The old name of `McpTool`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        warnings.warn("`MCPTool` is the old name: use `McpTool`.", DeprecationWarning, stacklevel=2)
        super().__init__(*args, **options)
