"""What all suites share: tests that run in an event loop of their own, and parts that are closed after them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

GRACE_SECONDS = 0.05
"""How long a task may take to end after the part that started it was closed."""

_T = TypeVar("_T")
_Case = ParamSpec("_Case")
_SuiteT = TypeVar("_SuiteT", bound="Suite")


class Suite:
    """Rules for one kind of part, as test methods. A subclass whose name starts with `Test` makes the part.

    Each test makes parts of its own and closes them at its end. Tests are plain methods that run an event loop, so
    no plugin for asynchronous tests is needed, and one that is there does not mind.
    """

    _opened: list[object] | None = None

    def close(self, part: object) -> Awaitable[None] | None:
        """Give back what `part` holds, after each test. The default awaits its `aclose()` or `close()`, if any."""
        for name in ("aclose", "close"):
            hook = getattr(part, name, None)
            if callable(hook):
                return cast("Awaitable[None] | None", hook())
        return None

    async def opened(self, part: _T | Awaitable[_T]) -> _T:
        """What a `make_...` method gave (`part`), awaited if need be; it is closed when the test ends."""
        made = cast(_T, await part if isawaitable(part) else part)
        if self._opened is not None:
            self._opened.append(made)
        return made

    async def close_all(self) -> None:
        """Close what the test has opened, the latest first."""
        while self._opened:
            closing = self.close(self._opened.pop())
            if isawaitable(closing):
                await closing


def in_loop(
    test: Callable[Concatenate[_SuiteT, _Case], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[_SuiteT, _Case], None]:
    """Make an asynchronous test method a plain one. It fails if tasks are left when its parts are closed."""

    @functools.wraps(test)
    def run(suite: _SuiteT, *args: _Case.args, **kwargs: _Case.kwargs) -> None:
        async def whole() -> None:
            suite._opened = []  # pyright: ignore[reportPrivateUsage]
            try:
                await test(suite, *args, **kwargs)
            finally:
                await suite.close_all()
            await assert_no_tasks("Closing the part has to end what it started.")

        try:
            with asyncio.Runner() as runner:
                runner.run(whole())
        except Exception as error:
            error.add_note(f"The rule: {(test.__doc__ or test.__name__).strip()}")
            raise

    return run


def other_tasks() -> frozenset[asyncio.Task[Any]]:
    """The tasks of the running loop, this one left out."""
    return frozenset(asyncio.all_tasks() - {asyncio.current_task()})


async def assert_no_tasks(advice: str, before: frozenset[asyncio.Task[Any]] = frozenset()) -> None:
    """Fail if tasks run that were not there `before`, and that do not end within `GRACE_SECONDS`."""
    left = other_tasks() - before
    if left:
        _, left = await asyncio.wait(left, timeout=GRACE_SECONDS)
    names = ", ".join(sorted(repr(task.get_coro()) for task in left))
    assert not left, f"{len(left)} tasks are left behind: {names}. {advice}"
