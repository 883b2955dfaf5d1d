"""`SignInTool`: stands for the tools of a server that lists them only for those whom it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.context import Context
from flowloom.errors import ToolError
from flowloom.protocols.names import fit_name
from flowloom.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from flowloom.protocols.mcp.tool_host import ToolHost


class SignInTool(BaseTool):
    """Asks the user for access to the server of `host`, which refused the headers `sent`; its tools are declared when
    access is given."""

    def __init__(self, host: ToolHost, sent: Mapping[str, str]) -> None:
        name = fit_name(f"{host.tool_name_prefix or 'mcp'}_sign_in")
        super().__init__(
            name=name,
            description=f"Ask the user for access to the tools of {host.address}. They are there when it is given.",
        )
        self.toolset, self._sent = host, sent

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Wait for the user's access. Raises `CredentialError` if it is refused."""
        if not await self.toolset.authorized(tool_context, None, self._sent):
            raise ToolError(f"The server at {self.toolset.address} refuses the access that was given.")
        return {"result": "Access was given: the tools are there now."}


class SignIn:
    """The listing of a server that refuses to list for the headers `sent`."""

    def __init__(self, host: ToolHost, sent: Mapping[str, str]) -> None:
        self.plain: list[BaseTool] = [SignInTool(host, sent)]
