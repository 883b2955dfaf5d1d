"""Which OpenTelemetry context is the current one while a user's code runs.

A context is entered right before that code is resumed and left right after, by the same task: never across a `yield`,
where the consumer, who may be another task, takes over (decision 22).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import Token
from typing import Generic, Protocol, Self, TypeVar, runtime_checkable

from opentelemetry import context as otel
from opentelemetry.context.context import Context
from opentelemetry.trace import Span, Status, StatusCode

from flowloom.context import InvocationContext
from flowloom.errors import error_text
from flowloom.telemetry.content import exportable

T = TypeVar("T")

AGENT = otel.create_key("flowloom-agent")
"""The key under which a context names the agent's span that it comes from."""


def parent_of(ctx: InvocationContext) -> Context:
    """What a new span of this agent hangs from: the agent's own span, or, in code that runs below it (a tool that runs
    an agent, a span that a custom agent has opened), the current one. Without an agent's span it is the current one."""
    own, current = ctx.agent_span, otel.get_current()
    return current if own is None or current.get(AGENT) is own.get(AGENT) else own


def leave(token: Token[Context]) -> None:
    """Go back to the context before `otel.attach` gave this token."""
    try:
        token.var.reset(token)
    except ValueError:
        # A coroutine whose task was thrown away is closed by other code, in whose context nothing was entered.
        # `otel.detach` would do no more, but log an error.
        pass


def mark_failed(span: Span, error: BaseException | str, message: str | None = None) -> None:
    """Write on a span that what it stands for has failed: with an exception, or in a way that has a name."""
    if isinstance(error, BaseException):
        with suppress(Exception):  # of an error that cannot say what it is
            span.record_exception(error)
        error, message = type(error).__qualname__, error_text(error)
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR, exportable(message)))


class Watched(Generic[T]):
    """An iterator whose code runs with `context` as the current one."""

    def __init__(self, items: AsyncIterator[T], context: Context) -> None:
        self._items = items
        self._context = context

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        token = otel.attach(self._context)
        try:
            return await self._items.__anext__()
        finally:
            leave(token)

    async def aclose(self) -> None:
        """Close the iterator, if it is one that can be closed."""
        token = otel.attach(self._context)
        try:
            if isinstance(self._items, _Closable):
                await self._items.aclose()
        finally:
            leave(token)


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...
