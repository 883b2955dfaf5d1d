"""Notes on errors that say where they came from: what raised, in which step of which agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowloom.context.invocation import InvocationContext


def note_origin(error: BaseException, ctx: InvocationContext, component: str) -> None:
    """Note on an error which component raised it, once; its type stays what it is."""
    note = f"in {component}, step {ctx.step} of agent `{ctx.agent.name}`"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def note_callback(error: BaseException, callback: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Note on an error of a callback, which was given `arguments`, which one it was."""
    names = ("invocation_context", "callback_context", "tool_context")
    context = next(arguments[name] for name in names if name in arguments)
    ctx: InvocationContext = getattr(context, "invocation_context", context)
    note_origin(error, ctx, f"callback `{getattr(callback, '__qualname__', type(callback).__qualname__)}`")
