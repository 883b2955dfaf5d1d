"""The loop in which what failed is tried again."""

from __future__ import annotations

import asyncio

import pytest

from flowloom.objects.retrying import retried


class Story:
    """A work that fails as often as it is told, and what happened."""

    def __init__(self, failures: int, error: BaseException, pauses: int = 9) -> None:
        self.failures, self.error, self.pauses = failures, error, pauses
        self.said: list[object] = []

    async def attempt(self, number: int) -> str:
        self.said.append(number)
        if number <= self.failures:
            raise self.error
        return "done"

    def pause_after(self, number: int, error: Exception) -> float | None:
        assert error is self.error
        return number / 2 if number <= self.pauses else None

    async def sleep(self, seconds: float) -> None:
        self.said.append(f"{seconds} s")

    async def result(self) -> str:
        return await retried(self.attempt, self.pause_after, self.sleep)


async def test_attempts_are_numbered_and_each_pause_is_asked_for() -> None:
    """The first attempt that does not fail gives the result; between two stands the pause after the earlier."""
    story = Story(2, ValueError("no"))
    assert await story.result() == "done"
    assert story.said == [1, "0.5 s", 2, "1.0 s", 3]


async def test_without_a_pause_the_error_is_raised() -> None:
    """None ends the retries with the error of the last attempt, and nothing waits."""
    story = Story(9, ValueError("no"), pauses=1)
    with pytest.raises(ValueError, match="no") as raised:
        await story.result()
    assert raised.value is story.error
    assert story.said == [1, "0.5 s", 2]


async def test_a_cancellation_is_no_failure() -> None:
    """It is raised at once, and no condition is asked about it."""
    story = Story(1, asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await story.result()
    assert story.said == [1]
