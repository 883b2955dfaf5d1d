"""Every order of pausing, answering, restarting and cancelling, five deep: nothing runs twice, nothing is forgotten."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from flowloom import (
    BaseAgent,
    Event,
    InMemorySessionService,
    ParallelAgent,
    Runner,
    SequentialAgent,
    Session,
    answers,
    pending_calls,
)
from flowloom.testing import call
from waiting.desk import WHERE, World, by_turn

STEPS = ("pause", "answer", "restart", "cancel")


class Story:
    """One invocation, and what is done to it."""

    def __init__(self) -> None:
        self.world = World()
        self.service = InMemorySessionService()
        self.runner = self.new_runner()
        self.invocation_id = ""

    def root(self) -> BaseAgent:
        world = self.world
        payer = by_turn("payer", call("pay", amount=1), "paid one", tools=[world.paying, world.look])
        hotel = by_turn("hotel", call("pay", amount=2, to="inn"), "hotel paid", tools=[world.paying])
        train = by_turn(
            "train", [call("look", what="trains"), call("look", what="seats")], "by train", tools=[world.look]
        )
        both = ParallelAgent(name="both", sub_agents=[hotel, train])
        return SequentialAgent(name="trip", sub_agents=[payer, both, by_turn("end", "all done")])

    def new_runner(self) -> Runner:
        return Runner(app_name="app", agent=self.root(), session_service=self.service, auto_create_session=True)

    async def log(self) -> Session:
        found = await self.service.get_session(app_name="app", **WHERE)
        assert found is not None
        return found

    async def begin(self) -> None:
        result = await self.runner.run_to_result(**WHERE, new_message="Book the trip.")
        self.invocation_id = result.invocation_id

    async def answer(self) -> None:
        """Approve what was asked first; if nothing is asked, go on."""
        waiting = pending_calls((await self.log()).events)
        message = answers(waiting[0].approve()) if waiting else None
        await self.runner.run_to_result(
            **WHERE, new_message=message, invocation_id=None if waiting else self.invocation_id
        )

    async def stop_at_once(self, how: str) -> None:
        """Go on, with an answer if one is asked for, and stop at the first event."""
        waiting = pending_calls((await self.log()).events)
        message = answers(waiting[0].approve()) if waiting else None
        run = self.runner.start(**WHERE, new_message=message, invocation_id=None if waiting else self.invocation_id)
        async for _ in run:
            run.pause() if how == "pause" else run.cancel()
        await run.result()

    async def pause(self) -> None:
        await self.stop_at_once("pause")

    async def cancel(self) -> None:
        await self.stop_at_once("cancel")

    async def restart(self) -> None:
        """Another process, with nothing but the stored JSON."""
        session = Session.model_validate_json((await self.log()).model_dump_json(by_alias=True, exclude_none=True))
        self.service = InMemorySessionService()
        self.service.adopt(session)
        self.runner = self.new_runner()

    async def settle(self) -> list[Event]:
        """Answer and go on until nothing waits and nothing more happens."""
        for _ in range(20):
            before = len((await self.log()).events)
            await self.answer()
            if len((await self.log()).events) == before:
                return (await self.log()).events
        raise AssertionError("it never ends")


@pytest.mark.parametrize("deep", [2, pytest.param(4, marks=pytest.mark.soak)])
@pytest.mark.parametrize("first", STEPS)
async def test_every_order(first: str, deep: int) -> None:
    for rest in product(STEPS, repeat=deep):
        story, order = Story(), (first, *rest)
        await story.begin()
        for step in order:
            await getattr(story, step)()
        events = await story.settle()
        ran = Counter(story.world.ran)
        assert max(ran.values(), default=0) <= 1, (order, ran)
        calls = Counter(call.id for event in events for call in event.get_function_calls())
        asked = {call.id for event in events for call in event.get_function_calls() if call.name.startswith("adk_")}
        results = Counter(answer.id for event in events for answer in event.get_function_responses())
        assert set(calls) == set(results), order
        assert all(results[call_id] == 1 for call_id in asked), order
        assert [event.text for event in events if event.author == "end"], order
        if "cancel" not in order:
            assert sorted(ran) == ["look seats", "look trains", "pay 1 bob", "pay 2 inn"], order
