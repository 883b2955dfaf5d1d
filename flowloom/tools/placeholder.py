"""`PlaceholderTool`: a tool that is known by its declaration only, in a request that was read from the wire."""

from __future__ import annotations

from typing import Any, NoReturn

from google.genai import types

from flowloom.context import Context
from flowloom.errors import PlaceholderError
from flowloom.tools.base_tool import BaseTool


class PlaceholderTool(BaseTool):
    """A tool that is declared to a model by `declaration`, and cannot be run.

    A call that reaches it raises `PlaceholderError` out of the run: nothing that a model does can mend it.
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
        raise PlaceholderError(self.name)
