"""How tests of suites run: in a loop of their own, closing what they opened, leaving nothing."""

from __future__ import annotations

import asyncio

import pytest

from flowloom.testing.suites import ModelSuite, ProcessorSuite, SessionServiceSuite, ToolsetSuite
from flowloom.testing.suites.loop import Suite, in_loop

pytest_plugins = ["pytester"]


class Closed(list[str]):
    """What was closed, in order."""

    def part(self, name: str, hook: str) -> object:
        def close(part: object) -> None:
            self.append(name)

        async def aclose(part: object) -> None:
            await asyncio.sleep(0)
            self.append(name)

        return type("Part", (), {hook: aclose if hook == "aclose" else close})()


def test_an_asynchronous_test_becomes_a_plain_one_with_its_name_and_rule() -> None:
    class Mine(Suite):
        @in_loop
        async def test_it(self) -> None:
            """The rule of it."""

    assert not asyncio.iscoroutinefunction(Mine.test_it)
    assert (Mine.test_it.__name__, Mine.test_it.__doc__) == ("test_it", "The rule of it.")
    Mine().test_it()


def test_what_a_test_opened_is_closed_when_it_ends_the_latest_first() -> None:
    closed = Closed()

    class Mine(Suite):
        @in_loop
        async def test_it(self) -> None:
            await self.opened(closed.part("first", "close"))
            await self.opened(closed.part("second", "aclose"))
            await self.opened(object())
            raise AssertionError("no")

    with pytest.raises(AssertionError, match="no"):
        Mine().test_it()
    assert closed == ["second", "first"]


def test_a_suite_may_close_its_parts_otherwise() -> None:
    closed: list[object] = []

    class Mine(Suite):
        async def close(self, part: object) -> None:
            closed.append(part)

        @in_loop
        async def test_it(self) -> None:
            await self.opened("part")

    Mine().test_it()
    assert closed == ["part"]


def test_a_task_that_outlives_the_test_fails_it() -> None:
    kept: list[asyncio.Task[None]] = []

    class Mine(Suite):
        @in_loop
        async def test_it(self) -> None:
            """Nothing is left."""
            kept.append(asyncio.create_task(asyncio.sleep(60)))

    with pytest.raises(AssertionError, match=r"1 tasks are left behind: .*sleep") as caught:
        Mine().test_it()
    assert caught.value.__notes__ == ["The rule: Nothing is left."]


def test_a_task_that_is_about_to_end_may_do_so() -> None:
    kept: list[asyncio.Task[None]] = []

    class Mine(Suite):
        @in_loop
        async def test_it(self) -> None:
            kept.append(asyncio.create_task(asyncio.sleep(0.001)))

    Mine().test_it()
    assert kept[0].done()


@pytest.mark.parametrize("suite", [ModelSuite, ProcessorSuite, SessionServiceSuite, ToolsetSuite])
def test_every_rule_is_stated_in_a_sentence(suite: type[Suite]) -> None:
    for name in dir(suite):
        if name.startswith("test_"):
            assert (getattr(suite, name).__doc__ or "").endswith("."), name


def test_suites_need_no_plugin_for_asynchronous_tests(pytester: pytest.Pytester) -> None:
    """A user's module; the suite itself, imported into it, is not collected."""
    pytester.makepyfile(
        """
        from flowloom import InMemorySessionService
        from flowloom.testing.suites import SessionServiceSuite


        class TestMine(SessionServiceSuite):
            async def make_service(self):
                return InMemorySessionService()
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:asyncio", "-p", "no:cacheprovider", "-q")
    outcomes = result.parseoutcomes()
    assert outcomes["skipped"] == 8  # hooks that are not defined
    assert outcomes["passed"] == sum(name.startswith("test_") for name in dir(SessionServiceSuite)) - 8
    assert "failed" not in outcomes
