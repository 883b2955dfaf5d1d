"""`PlaceholderTool`: a tool that is known by its declaration only, in a request that was read from the wire."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from google.genai import types

from flowloom.context import Context
from flowloom.errors import NotSupportedError
from flowloom.tools.base_tool import BaseTool

_log = logging.getLogger("flowloom.tools")


class PlaceholderError(NotSupportedError):
    """A tool was run of which only the declaration is there. Attribute: `tool` (its name)."""

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"The tool `{tool}` cannot be run: only its declaration is here, out of a request that was read. Give the "
            f"real one where the request is read, as `request_from_json(..., tools=[{tool}])`, or answer the call in "
            f"a `before_tool` callback."
        )
        self.tool = tool


class PlaceholderTool(BaseTool):
    """A tool that is declared to a model, and cannot be run.

    A call that reaches it raises `PlaceholderError` and ends the run: nothing that a model does can mend it.
    """

    def __init__(self, declaration: types.FunctionDeclaration) -> None:
        super().__init__(name=declaration.name or "", description=declaration.description or "")
        self._given = declaration

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._given == other._given

    __hash__ = None  # pyright: ignore[reportAssignmentType] - declarations can be changed

    def _get_declaration(self) -> types.FunctionDeclaration:
        return self._given

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> NoReturn:
        """Raises `PlaceholderError`."""
        # An error of a tool is the model's to see, unless the agent says otherwise: it is not to be asked about this.
        tool_context.invocation_context.end_invocation = True
        error = PlaceholderError(self.name)
        _log.error("%s", error)
        raise error
