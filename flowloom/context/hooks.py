"""Callbacks of plugins and agents, in the order they are asked (spec §12.8, §18.7)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, NamedTuple

from google.genai import types

from flowloom.context.origin import note_callback
from flowloom.errors import CallbackError
from flowloom.events.parts import content_like

_log = logging.getLogger("flowloom.plugins")

Callback = Callable[..., Any]
Callbacks = tuple[Callback, ...]


class Hooks(NamedTuple):
    """What the plugins of a run implement, per hook in registration order. A hook without a plugin costs nothing."""

    on_user_message: Callbacks = ()
    before_run: Callbacks = ()
    on_event: Callbacks = ()
    after_run: Callbacks = ()
    before_agent: Callbacks = ()
    after_agent: Callbacks = ()
    before_model: Callbacks = ()
    after_model: Callbacks = ()
    on_model_error: Callbacks = ()
    before_tool: Callbacks = ()
    after_tool: Callbacks = ()
    on_tool_error: Callbacks = ()
    on_agent_error: Callbacks = ()
    on_run_error: Callbacks = ()


NO_HOOKS = Hooks()


class FlowCallbacks(NamedTuple):
    """The callbacks of a flow: those of its agent. They are asked after the plugins'.

    All are called with keywords, may be sync or async, and the first answer that is not None wins. `before_model` and
    `before_tool` may answer in the place of the call, `after_model` and `after_tool` replace what came of it,
    `on_model_error` and `on_tool_error` the error. `around_model` and `around_tool` wrap the call itself, the first
    outermost: they are given `call_next` and decide whether, when and how often to call it.
    """

    before_model: Callbacks = ()
    after_model: Callbacks = ()
    on_model_error: Callbacks = ()
    before_tool: Callbacks = ()
    after_tool: Callbacks = ()
    on_tool_error: Callbacks = ()
    around_model: Callbacks = ()
    around_tool: Callbacks = ()

    def __add__(self, other: FlowCallbacks) -> FlowCallbacks:  # pyright: ignore[reportIncompatibleMethodOverride]
        return FlowCallbacks(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


NO_CALLBACKS = FlowCallbacks()


def as_callbacks(value: Callback | Sequence[Callback] | None) -> Callbacks:
    """One callback, several, or none, as a tuple."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)  # pyright: ignore[reportReturnType, reportUnknownVariableType, reportUnknownArgumentType]


async def ask(callback: Callback, arguments: Mapping[str, Any]) -> Any:
    """What one callback, sync or async, answers; an error of it has a note that says which it was."""
    try:
        answer = callback(**arguments)
        return await answer if isawaitable(answer) else answer
    except Exception as error:
        note_callback(error, callback, arguments)
        raise


async def first_answer(callbacks: Iterable[Callback], **arguments: Any) -> Any:
    """Ask `callbacks`, sync or async, until one answers something other than None."""
    for callback in callbacks:
        answer = await ask(callback, arguments)
        if answer is not None:
            return answer
    return None


def content_answered(answer: Any, hook: str, ctx: Any) -> types.Content:
    """What a callback has answered that may answer a content. Raises `CallbackError` for anything else."""
    try:
        return content_like(answer)
    except ValueError as error:
        raise CallbackError(
            f"`{hook}` of agent `{ctx.agent.name}` answered {type(answer).__name__}. It may answer a Content, or None."
        ) from error


async def notify(callbacks: Iterable[Callable[..., Awaitable[None] | None]], **arguments: Any) -> None:
    """Call every callback, whatever it answers."""
    for callback in callbacks:
        await ask(callback, arguments)


async def notify_error(callbacks: Iterable[Callable[..., Awaitable[None] | None]], **arguments: Any) -> None:
    """Call every callback with an error; one that fails itself is logged, and the others are called."""
    for callback in callbacks:
        try:
            await notify((callback,), **arguments)
        except Exception:
            _log.exception("The callback %r failed while it was given an error.", callback)
