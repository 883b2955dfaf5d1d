"""Loading a protocol's library: late, in a thread, and with a word on what is missing (protocols spec §0, Lazy).

An import of two seconds must not stop an event loop that serves others. `check_installed` is for constructors: it
imports nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar

from flowloom.context.threads import Threads
from flowloom.extras import missing_extra

T = TypeVar("T")


def check_installed(what: str, extra: str, *modules: str) -> None:
    """Raise `MissingExtraError` unless the top-level `modules` are installed; none of them is loaded.

    `what` says what needs them (as `MCP servers need the SDK`), and `extra` is the extra that brings them.
    """
    for module in modules:
        try:
            if find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        except ModuleNotFoundError as error:
            raise missing_extra(what, extra, error) from error


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` gives, run in a thread that ends with it; for imports, and for whatever blocks once."""
    return await Threads(1).call("loading", work)
