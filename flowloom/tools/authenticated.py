"""`AuthenticatedFunctionTool`: a function that is given a credential."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

from flowloom.auth.config import AuthConfig
from flowloom.context import Context
from flowloom.errors import ToolArgumentsError
from flowloom.tools.function_tool import FunctionTool, FunctionToolOptions

PENDING = "Waiting for the user to give access. It has not run yet; its result will be given to you."
"""What the model is told of a call whose credential is asked for."""


class AuthenticatedFunctionTool(FunctionTool):
    """A function whose parameter `credential` the engine fills, with an `AuthCredential` that is ready for use.

    The parameter is not shown to the model. Where there is no credential, the user is asked for one and the call waits;
    when the answer is there, the function runs. A credential that was given is kept in the runner's credential service
    and refreshed when it expires. If the user refuses, or the exchange fails, the model sees a `CredentialError`.

    `func` is the function; `auth_config` says which credential that is; `response_for_auth_required` is what the model
    is told meanwhile. Further `options` are those of `FunctionTool`.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        auth_config: AuthConfig,
        response_for_auth_required: dict[str, Any] | str | None = None,
        **options: Unpack[FunctionToolOptions],
    ) -> None:
        self._takes_credential = "credential" in inspect.signature(func).parameters
        super().__init__(partial(func, credential=None) if self._takes_credential else func, **options)
        self.func = func
        self.auth_config = auth_config
        self._pending = response_for_auth_required or PENDING

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Run the function with its credential, or ask for that. What becomes of `args` that do not fit is as with a
        `FunctionTool`."""
        try:
            self._schema.bind(args)  # no person is asked about a call that cannot run
        except ToolArgumentsError as unfit:
            return self._without(args, unfit)
        credential = await tool_context.load_credential(self.auth_config)
        if credential is None:
            tool_context.request_credential(self.auth_config)
            return self._pending
        ready = copy.copy(self)
        if self._takes_credential:
            ready.func = partial(self.func, credential=credential)
        return await FunctionTool.run_async(ready, args=args, tool_context=tool_context)
