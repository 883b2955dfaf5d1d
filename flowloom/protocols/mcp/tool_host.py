"""What a tool and its calls need of their toolset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from flowloom.context import Context, ReadonlyContext
from flowloom.protocols.mcp.host import Host
from flowloom.protocols.mcp.parameters import ConnectionParams
from flowloom.protocols.mcp.pool import Pool


class ToolHost(Host, Protocol):
    """A toolset as its tools know it; `McpToolset` is the class."""

    connection_params: ConnectionParams
    pool: Pool
    tool_filter: Any
    tool_name_prefix: str | None
    tool_list_cache_ttl_seconds: float | None
    require_confirmation: bool | Literal["destructive"] | Callable[..., Any]
    progress_callback: Callable[..., Any] | None
    sampling: bool | Literal["auto"]
    elicitation_wait: float
    max_result_bytes: int
    trust_annotations: bool
    reset_timeout_on_progress: bool

    @property
    def address(self) -> str: ...
    @property
    def pins(self) -> Any: ...
    async def headers(self, context: ReadonlyContext | None) -> dict[str, str]: ...
    async def listed(self, headers: Mapping[str, str]) -> Sequence[Any]: ...
    async def authorized(self, context: Context, refusal: Any, sent: Mapping[str, str]) -> bool: ...
    async def check_pin(self, tool: Any, context: Context) -> None: ...
    def place_of(self, context: Context) -> tuple[tuple[str, str, str], str]: ...
