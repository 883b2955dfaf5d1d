"""The rules of leases: one run has a session, the others wait in order or are told to come back."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time

import pytest

from flowloom.errors import RunLostError, SessionBusyError
from flowloom.sessions.leases import SessionLease
from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.session_place import Place, SessionRules, texts_of

_MOMENT = 0.02
"""How long a run that has to wait is watched, in seconds."""


class LeaseRules(SessionRules):
    """The rules of `acquire_lease`."""

    shares_leases = False
    """Whether a second service on the same data keeps to the leases of the first. Set it for a store that does."""

    @in_loop
    async def test_a_lease_is_held_by_one_run_at_a_time(self) -> None:
        """Whoever waits for a lease gets it when it is released, in the order of asking."""
        place = await self.place()
        order: list[int] = []

        async def run(number: int) -> None:
            async with await lease(place):
                order.append(number)
                await asyncio.sleep(0)
                order.append(number)

        first = await lease(place)
        runs: list[asyncio.Task[None]] = []
        for number in range(4):
            runs.append(asyncio.create_task(run(number)))
            await asyncio.sleep(0)
        await asyncio.sleep(_MOMENT)
        assert order == [], "A run had a session whose lease another one held."
        await first.release()
        await asyncio.gather(*runs)
        assert order == [0, 0, 1, 1, 2, 2, 3, 3], f"Four runs that waited had the session in the order {order}."

    @in_loop
    async def test_who_does_not_wait_is_told_so(self) -> None:
        """`acquire_lease(wait=False)` raises `SessionBusyError`, which names the session and when to come back."""
        place = await self.place()
        held = await lease(place)
        await expect_busy(place)
        await held.release()
        assert await refusal(place) is None, "A lease that was released keeps others out."

    @in_loop
    async def test_sessions_have_leases_of_their_own(self) -> None:
        """A lease of one session, user or app is no hindrance to others."""
        place = await self.place()
        bob, elsewhere = place.other(user="bob"), place.other(app=place.app + "-b")
        wanted = ((place, "s1"), (place, "s2"), (bob, "s1"), (elsewhere, "s1"))
        held = [await lease(*wanted[0])]
        for where, session_id in wanted[1:]:
            error = await refusal(where, session_id)
            assert error is None, (
                f"A lease of session `s1` of `ann` keeps out session `{session_id}` of `{where.user}`."
            )
            held.append(await lease(where, session_id))
        for each in held:
            await each.release()

    @in_loop
    async def test_a_lease_may_be_released_twice(self) -> None:
        """The second `release` does nothing, above all not to the next one who has the lease."""
        place = await self.place()
        first = await lease(place)
        await first.release()
        second = await lease(place)
        await first.release()
        await expect_busy(place)
        await second.release()

    @in_loop
    async def test_a_waiter_that_gives_up_leaves_the_line_as_it_is(self) -> None:
        """Cancelling a run that waits neither loses the lease nor gives it to two."""
        place = await self.place()
        held = await lease(place)
        waiting = [asyncio.create_task(lease(place)) for _ in range(3)]
        await asyncio.sleep(_MOMENT)
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        await held.release()
        waiting[1].cancel()  # perhaps in the moment in which its turn has come
        got = [
            each for each in await asyncio.gather(*waiting, return_exceptions=True) if isinstance(each, SessionLease)
        ]
        assert 1 <= len(got) <= 2, f"{len(got)} of the runs that went on waiting got the lease."
        await expect_busy(place)
        for each in got:
            await each.release()
        await (await lease(place)).release()

    @in_loop
    async def test_a_lease_that_was_dropped_is_free(self) -> None:
        """A lease that nobody refers to any more is as good as released."""
        place = await self.place()
        await lease(place)
        gc.collect()
        assert await refusal(place) is None, "A lease that nobody refers to any more keeps others out."

    @in_loop
    async def test_services_on_one_store_share_leases(self) -> None:
        """What one service holds, another on the same data waits for."""
        if not self.shares_leases:
            pytest.skip("`shares_leases` is not set: each service has leases of its own")
        place = await self.place()
        await place.create("s1")
        other = await self.reopened(place)
        held = await lease(place)
        await expect_busy(other)
        waiting = asyncio.create_task(lease(other))
        await asyncio.sleep(_MOMENT)
        assert not waiting.done(), "Two services have a lease of one session at once."
        await held.release()
        await (await waiting).release()

    @in_loop
    async def test_a_lease_outlives_its_time_if_it_is_renewed(self) -> None:
        """A run that takes longer than `seconds` keeps its lease, as long as its process is there."""
        if not self.shares_leases:
            pytest.skip("`shares_leases` is not set: leases do not expire")
        place = await self.place()
        await place.create("s1")
        other = await self.reopened(place)
        held = await lease(place, seconds=1.0)  # so long that one that is busy renews it in time
        for _ in range(60):
            await asyncio.sleep(_MOMENT)
        await expect_busy(other)
        await held.release()

    @in_loop
    async def test_who_lost_a_lease_appends_nothing_more(self) -> None:
        """A run that was not heard of for longer than its lease gets `RunLostError` once another has the session."""
        if not self.shares_leases:
            pytest.skip("`shares_leases` is not set: leases cannot be lost")
        place = await self.place()
        await place.create("s1")
        other = await self.reopened(place)
        lost = await lease(place, seconds=0.03)
        session, held = await place.get("s1"), None
        for _ in range(200):
            time.sleep(0.04)  # noqa: ASYNC251 - as if the whole process slept
            with contextlib.suppress(SessionBusyError):
                held = await lease(other, wait=False)
                break
        assert held is not None, "A lease that is not renewed does not expire."
        await other.append(await other.get("s1"), "theirs")
        for _ in range(2):
            try:
                await place.append(session, "stale")
            except RunLostError:
                continue
            raise AssertionError("A run whose lease another one has could append; `RunLostError` was expected.")
        await lost.release()
        await expect_busy(other)
        await other.append(await other.get("s1"), "theirs too")
        await held.release()
        found = texts_of(await other.get("s1"))
        assert found == ["theirs", "theirs too"], f"Beside a run that has lost its lease, the log became {found}."


async def lease(place: Place, session_id: str = "s1", *, wait: bool = True, seconds: float = 30.0) -> SessionLease:
    """The lease of one of a place's sessions."""
    return await place.service.acquire_lease(
        app_name=place.app, user_id=place.user, session_id=session_id, wait=wait, seconds=seconds
    )


async def expect_busy(place: Place) -> None:
    """Fail unless the session is busy."""
    error = await refusal(place)
    assert error is not None, "A lease was given out twice; `SessionBusyError` was expected."
    found = (error.session_id, error.retry_after >= 0)
    assert found == ("s1", True), f"`SessionBusyError` says {vars(error)}, which is not of the busy session."


async def refusal(place: Place, session_id: str = "s1") -> SessionBusyError | None:
    """The error of asking for a lease without waiting; None if it is free."""
    try:
        got = await lease(place, session_id, wait=False)
    except SessionBusyError as error:
        return error
    await got.release()
    return None
