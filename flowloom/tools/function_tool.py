"""`FunctionTool`: a Python function as a tool (spec §14.10, §15)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypedDict, Unpack, cast

from google.genai import types

from flowloom.context import Context
from flowloom.errors import (
    ConfigurationError,
    ConfirmationRejectedError,
    ConfirmationRequiredError,
    ToolArgumentsError,
)
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.schema import describe_callable

_LONG_RUNNING_NOTE = (
    "This is a long-running operation: when it has reported that it is pending, do not call it again for the same "
    "purpose; its result will be given to you when it is there."
)


class FunctionToolOptions(TypedDict, total=False):
    """What a `FunctionTool` can be given beside the function."""

    name: str | None
    description: str | None
    require_confirmation: bool | Callable[..., Any]
    custom_metadata: dict[str, Any] | None
    timeout: float | None
    retries: int
    idempotent: bool
    blocking: bool


class FunctionTool(BaseTool):
    """A function, described to the model by its signature and docstring.

    Arguments are validated and converted by pydantic; what does not fit goes back to the model as an error, and
    arguments that the function does not take are dropped. A parameter annotated with `ToolContext` is filled by the
    engine and not shown to the model.

    A function that is not `async` runs in a thread of its own: it may block. `blocking=False` says that it does not:
    it then runs on the event loop, which saves the thread; everything else waits until it has ended, `timeout` too.

    `func`: any callable whose parameters can be given by name. `name` and `description` stand in for its own name and
    docstring; `is_long_running`, `custom_metadata`, `timeout` (seconds), `retries` and `idempotent` are those of
    `BaseTool`. `require_confirmation` lets a person decide before the function runs: always (True), or when the given
    predicate over the same arguments says so. Raises `ToolSignatureError` for a signature that cannot be described.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        require_confirmation: bool | Callable[..., Any] = False,
        is_long_running: bool = False,
        custom_metadata: dict[str, Any] | None = None,
        timeout: float | None = None,
        retries: int = 0,
        idempotent: bool = True,
        blocking: bool = True,
    ) -> None:
        schema = describe_callable(func, name=name, description=description)
        super().__init__(
            name=schema.name,
            description=schema.description,
            is_long_running=is_long_running,
            custom_metadata=custom_metadata,
            timeout=timeout,
            retries=retries,
            idempotent=idempotent,
        )
        self.func = func
        self._blocking = blocking
        self._schema = schema
        self.reports_progress = schema.context_parameter is not None
        self._require_confirmation = require_confirmation
        self._predicate = None if isinstance(require_confirmation, bool) else describe_callable(require_confirmation)
        if self._predicate is not None:
            for parameter in self._predicate.parameters["properties"].keys() - schema.parameters["properties"].keys():
                raise ConfigurationError(
                    f"The confirmation predicate of tool `{self.name}` takes `{parameter}`, which is no parameter of "
                    f"the tool."
                )

    def _get_declaration(self) -> types.FunctionDeclaration:
        note = _LONG_RUNNING_NOTE if self.is_long_running else ""
        return types.FunctionDeclaration(
            name=self.name,
            description="\n\n".join(filter(None, (self.description, note))),
            parameters_json_schema=self._schema.parameters if self._schema.parameters["properties"] else None,
        )

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: Context) -> bool:
        """Whether a person has to approve a call with these `args`, as the model gave them."""
        required, predicate = self._require_confirmation, self._predicate
        if isinstance(required, bool) or predicate is None:
            return bool(required)
        call = inspect.signature(self.func).bind_partial()
        call.apply_defaults()
        defaults = {name: call.arguments[name] for name in predicate.parameters["properties"] if name in call.arguments}
        given = predicate.bind({**defaults, **args})
        if predicate.context_parameter:
            given[predicate.context_parameter] = tool_context
        answer = required(**given)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Run the function, once a person has approved where that is required.

        Without an argument that the function needs, the result is an error that says so, as in google-adk. Raises
        `ToolArgumentsError` for arguments that do not fit, and what the function raises.
        """
        schema, alone = self._schema, cast(Context | None, tool_context) is None  # alone: in a test for google-adk
        try:
            bound = schema.bind(args)
        except ToolArgumentsError as unfit:
            return self._without(args, unfit)
        if self._require_confirmation:
            await self._gate(args, tool_context)
        if schema.context_parameter:
            bound[schema.context_parameter] = tool_context
        if schema.is_async:
            return await self.func(**bound)
        if schema.is_async_generator:
            return _joined([item async for item in self.func(**bound)])
        function = partial(_told, self.func) if schema.is_generator else self.func
        if self._blocking and not alone:
            result: Any = await tool_context.invocation_context.run.threads.call(self.name, function, **bound)
        else:
            result = function(**bound)
        return await result if inspect.isawaitable(result) else result

    def _without(self, args: dict[str, Any], unfit: ToolArgumentsError) -> dict[str, str]:
        """The result of a call that lacks an argument. Raises `unfit` for one that lacks none."""
        if not set(self._schema.parameters.get("required", ())).difference(args):
            raise unfit
        return {"error": str(unfit)}

    async def _gate(self, args: dict[str, Any], tool_context: Context | None) -> None:
        """Raise unless the call needs no approval or has it (spec §15.2)."""
        if tool_context is None:
            raise ConfirmationRequiredError(
                f"`{self.name}` needs a person's approval, and has no context to have it in."
            )
        decision = tool_context.tool_confirmation
        if decision is None:
            if not await self.check_require_confirmation(args, tool_context):
                return
            tool_context.request_confirmation(
                hint=f"Tool `{self.name}` needs your approval to run. Answer with `confirmed` true or false."
            )
            raise ConfirmationRequiredError(
                f"The call of `{self.name}` waits for a person's approval. It has not run yet."
            )
        if not decision.confirmed:
            why = f" The reason: {decision.reason}" if decision.reason else ""
            raise ConfirmationRejectedError(f"A person rejected the call of `{self.name}`. It was not run.{why}")


class LongRunningFunctionTool(FunctionTool):
    """A function that starts something and returns at once: a first report, or None.

    `func` and `options` are those of `FunctionTool`. The final result is given later, as a function response of the
    user's.
    """

    def __init__(self, func: Callable[..., Any], **options: Unpack[FunctionToolOptions]) -> None:
        super().__init__(func, is_long_running=True, **options)


def _told(function: Callable[..., Iterable[Any]], /, **arguments: Any) -> Any:
    """What a generator function has to say."""
    return _joined(list(function(**arguments)))


def _joined(chunks: list[Any]) -> Any:
    """What a function that yields has to say: its text joined, anything else as a list."""
    return "".join(chunks) if all(isinstance(chunk, str) for chunk in chunks) else chunks
