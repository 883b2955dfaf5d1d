"""Notes on errors that say where they came from: what raised, in which step of which agent.

Where that was is said by a context (`ctx`: an `InvocationContext`), which stands above this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutine
from typing import Any

from flowloom.errors import ConfigurationError, quoted_list


def note_origin(error: BaseException, ctx: Any, component: str, around: Sequence[Any] = ()) -> None:
    """Note on an error which component raised it, or what is `around` that, once; its type stays what it is."""
    wrapped = f" (around it: {quoted_list(map(_name_of, around))})" if around else ""
    note = f"in {component}{wrapped}, step {ctx.step} of agent `{ctx.agent.name}`"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def no_events(given: Any, component: str, kind: str) -> ConfigurationError:
    """The error for what `component` has `given` in the place of an async generator of some `kind`."""
    if iscoroutine(given):
        given.close()  # one that is never awaited would warn
    return ConfigurationError(
        f"{component} gives a {type(given).__name__}. It is an `async def` with a `yield` for each `{kind}`."
    )


def note_callback(error: BaseException, callback: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Note on an error of a callback, which was given `arguments`, which one it was."""
    names = ("invocation_context", "callback_context", "tool_context")
    context = next(arguments[name] for name in names if name in arguments)
    ctx = getattr(context, "invocation_context", context)
    misfit = type(error) is TypeError and not getattr(error.__traceback__, "tb_next", None)  # it was not even entered
    given = f", which is given {quoted_list(arguments)} by name" if misfit else ""
    note_origin(error, ctx, f"callback `{_name_of(callback)}`{given}")


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
