"""`BaseToolset`: a group of tools that is listed when an agent runs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from flowloom.context import Context, ReadonlyContext
from flowloom.errors import ConfigurationError
from flowloom.models.request import LlmRequest
from flowloom.tools.base_tool import BaseTool

ToolPredicate = Callable[[BaseTool, ReadonlyContext | None], bool]


class BaseToolset(ABC):
    """Tools that are known only when an agent runs: from a server, from the state, by permission.

    They are listed once per agent run. `tool_filter` keeps the tools of those names, or those a predicate
    accepts; `tool_name_prefix` is put before each name, with an underscore. Raises `ConfigurationError` for a filter
    that is one text.
    """

    def __init__(
        self, *, tool_filter: Sequence[str] | ToolPredicate | None = None, tool_name_prefix: str | None = None
    ) -> None:
        if isinstance(tool_filter, str):
            raise ConfigurationError(f"`tool_filter` takes a list of names, or a predicate, not {tool_filter!r:.60}.")
        self.tool_filter = tool_filter
        self.tool_name_prefix = tool_name_prefix

    @abstractmethod
    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools of the set, neither filtered nor prefixed; `readonly_context` says for whom they are listed."""

    async def get_tools_with_prefix(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools as the agent of `readonly_context` gets them (None outside of runs): filtered, and renamed by the
        prefix.
        """
        tools = [
            tool for tool in await self.get_tools(readonly_context) if self._is_tool_selected(tool, readonly_context)
        ]
        prefix = self.tool_name_prefix
        return tools if not prefix else [_renamed(tool, f"{prefix}_{tool.name}") for tool in tools]

    def _is_tool_selected(self, tool: BaseTool, readonly_context: ReadonlyContext | None) -> bool:
        chosen = self.tool_filter
        return chosen is None or (chosen(tool, readonly_context) if callable(chosen) else tool.name in chosen)

    @property
    def prepares_requests(self) -> bool:
        """Whether `process_llm_request` has something to do now: it is not called where no set and no tool has."""
        return type(self).process_llm_request is not BaseToolset.process_llm_request

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        """Change `llm_request` before it is sent, after the set's tools did. The default changes nothing."""

    async def close(self) -> None:
        """Give back what the set holds: connections, processes. The runner calls it when it is closed."""


def _renamed(tool: BaseTool, name: str) -> BaseTool:
    """A copy of `tool` under another name, its declaration included."""
    new = copy.copy(tool)
    new.name = name
    declaration = tool.__declare__()
    new.__declared__ = name, None if declaration is None else declaration.model_copy(update={"name": name})
    return new
