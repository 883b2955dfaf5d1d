"""A decision is made once, whoever makes it, how often, and wherever: in all stores, with and without a lease."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from flowloom import (
    AgentTool,
    BaseAgent,
    BaseSessionService,
    Event,
    FunctionTool,
    InMemorySessionService,
    LlmAgent,
    PostgresSessionService,
    RunConfig,
    Runner,
    RunResult,
    SqliteSessionService,
    request_input,
)
from flowloom.errors import AlreadyAnsweredError, UnreadableAnswerError
from flowloom.runner.pending import PendingCall, answers, pending_calls
from flowloom.testing import call
from waiting.desk import WHERE, ByTurn, World, by_turn

Root = Callable[[], BaseAgent]


class Office:
    """Runners of one session, each with a service of its own where the store allows that."""

    def __init__(self, open_service: Callable[[], BaseSessionService], concurrency: Any = "allow") -> None:
        self._open, self._concurrency = open_service, concurrency
        self.services: list[BaseSessionService] = []
        self.models: list[ByTurn] = []

    def runner(self, root: BaseAgent, **options: Any) -> Runner:
        self.services.append(self._open())
        self.models += [a.model for a in [root, *root.sub_agents] if isinstance(a, LlmAgent)]  # type: ignore[misc]
        return Runner(
            app_name="app",
            agent=root,
            session_service=self.services[-1],
            auto_create_session=True,
            concurrency=self._concurrency,
            **options,
        )

    async def say(self, root: Root, message: Any, **options: Any) -> RunResult:
        return await self.runner(root()).run_to_result(**WHERE, new_message=message, **options)

    async def log(self) -> list[Event]:
        session = await self._open().get_session(app_name="app", **WHERE)
        assert session is not None
        return session.events

    async def waiting(self) -> list[PendingCall]:
        return pending_calls(await self.log())

    @property
    def asked(self) -> int:
        """How often a model was."""
        return sum(len(model.requests) for model in self.models)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_service(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], BaseSessionService]:
    if request.param == "memory":
        service = InMemorySessionService()
        return lambda: service
    if request.param == "sqlite":
        return lambda: SqliteSessionService(tmp_path / "a.db")
    dsn: str = request.getfixturevalue("postgres_dsn")
    return lambda: PostgresSessionService(dsn)


@pytest.fixture
async def office(open_service: Callable[[], BaseSessionService]) -> Any:
    it = Office(open_service)
    yield it
    for service in it.services:
        await service.close()


@pytest.fixture
def desk() -> Office:
    """In memory, where runs wait for each other."""
    service = InMemorySessionService()
    return Office(lambda: service, "queue")


def payer(world: World, *said: Any) -> LlmAgent:
    async def pay(amount: int) -> str:
        """Pay."""
        world.ran.append(f"pay {amount}")
        await asyncio.sleep(0)
        return "paid"

    paying = FunctionTool(pay, require_confirmation=True)
    return by_turn("root", *(said or (call("pay", amount=5), "Paid.")), tools=[paying])


async def test_one_approval_given_four_times_at_once_runs_the_call_once(office: Office, world: World) -> None:
    """The store has one decision, one run carries it out, and the others ask no model."""
    await office.say(lambda: payer(world), "Pay.")
    (pending,) = await office.waiting()
    message = answers(pending.approve())
    found = await asyncio.gather(*(office.say(lambda: payer(world), message) for _ in range(4)))
    assert world.ran == ["pay 5"]
    assert sorted(result.text for result in found) == ["", "", "", "Paid."]
    assert [result.events for result in found if not result.text] == [[], [], []]
    assert office.asked == 2
    assert sum(event.author == "user" and bool(event.get_function_responses()) for event in await office.log()) == 1


async def test_of_two_decisions_at_once_the_later_one_is_refused(office: Office, world: World) -> None:
    """A different answer is an `AlreadyAnsweredError`, and stores nothing."""
    await office.say(lambda: payer(world, call("pay", amount=5), "Well."), "Pay.")
    (pending,) = await office.waiting()
    messages = answers(pending.approve()), answers(pending.reject("no"))
    found = await asyncio.gather(
        *(office.say(lambda: payer(world, 0, "Well."), each) for each in messages), return_exceptions=True
    )
    (refused,) = [each for each in found if isinstance(each, BaseException)]
    assert isinstance(refused, AlreadyAnsweredError)
    assert refused.call_id == pending.id
    assert sum(event.author == "user" for event in await office.log()) == 2
    assert not [event for event in await office.log() if event.error_code]  # the run of the other one has not failed


async def test_what_another_run_carries_out_is_not_carried_out_with_the_next_answer(
    office: Office, world: World
) -> None:
    """Two calls of one answer are decided while the first of them is under way."""
    begun, end = asyncio.Event(), asyncio.Event()

    async def pay(amount: int) -> str:
        """Pay."""
        world.ran.append(f"pay {amount}")
        begun.set()
        if amount == 1:
            await end.wait()
        return "paid"

    def root() -> LlmAgent:
        calls = [call("pay", amount=1), call("pay", amount=2)]
        return by_turn("root", calls, "Done.", tools=[FunctionTool(pay, require_confirmation=True)])

    await office.say(root, "Pay.")
    one, two = await office.waiting()
    first = asyncio.create_task(office.say(root, answers(one.approve())))
    await begun.wait()
    await office.say(root, answers(one.approve(), two.approve()))
    assert world.ran == ["pay 1", "pay 2"]
    end.set()
    await first
    assert world.ran == ["pay 1", "pay 2"]


async def test_an_agent_tool_that_another_run_goes_on_with_is_left_to_it(office: Office, world: World) -> None:
    """The answer to a question of a nested agent belongs to the run that stored it."""
    begun, end = asyncio.Event(), asyncio.Event()

    async def pay(amount: int) -> str:
        """Pay."""
        world.ran.append(f"pay {amount}")
        if amount == 1:
            begun.set()
            await end.wait()
        return "paid"

    def root() -> LlmAgent:
        paying = FunctionTool(pay, require_confirmation=True)
        clerk = AgentTool(by_turn("clerk", call("pay", amount=1), "Paid.", tools=[paying]))
        return by_turn("root", [call("clerk", request="Pay."), call("pay", amount=2)], "Done.", tools=[clerk, paying])

    await office.say(root, "Pay.")
    waiting = {pending.agent: pending for pending in await office.waiting()}
    first = asyncio.create_task(office.say(root, answers(waiting["clerk"].approve())))
    await begun.wait()
    await office.say(root, answers(waiting["root"].approve()))
    end.set()
    await first
    assert sorted(world.ran) == ["pay 1", "pay 2"]


async def test_threads_that_give_one_answer_run_the_call_once(world: World) -> None:
    """Loops of several threads share a service in memory."""
    service = InMemorySessionService()
    it = Office(lambda: service)
    await it.say(lambda: payer(world), "Pay.")
    (pending,) = await it.waiting()
    together = threading.Barrier(4)

    def work() -> None:
        together.wait()
        asyncio.run(it.say(lambda: payer(world), answers(pending.approve())))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.ran == ["pay 5"]


async def test_a_decision_of_confirm_that_comes_second_changes_nothing(office: Office, world: World) -> None:
    """`Runner(confirm=...)` makes its decisions under the same rule."""

    async def confirm(pending: PendingCall) -> bool:
        await office.say(lambda: payer(world), answers(pending.approve()))
        return True

    runner = office.runner(payer(world), confirm=confirm)
    result = await runner.run_to_result(**WHERE, new_message="Pay.")
    assert (result.status, world.ran, office.asked) == ("final", ["pay 5"], 2)


# -- one after the other ---------------------------------------------------------------------------


def booker(world: World) -> LlmAgent:
    return by_turn("root", call("book", what="car"), "Booked.", tools=[world.book])


def asker(world: World) -> LlmAgent:
    return by_turn("root", call("adk_request_input", message="When?"), "Fine.", tools=[request_input])


def looker(world: World) -> LlmAgent:
    return by_turn("root", call("look", what="sea"), "Seen.", tools=[world.look])


def orderer(world: World) -> LlmAgent:
    return by_turn("root", call("order", what="tea"), "On its way.", "On its way.", tools=[world.ordering])


REPLIES: dict[str, tuple[Callable[[World], LlmAgent], Any, Callable[[PendingCall], Sequence[types.Part]]]] = {
    "confirmation": (payer, None, lambda it: (it.approve(), it.reject("no"))),
    "input": (booker, None, lambda it: (it.reply("today"), it.reply("never"))),
    "input of a model": (asker, None, lambda it: (it.reply("today"), it.reply("never"))),
    "call of the host": (
        looker,
        RunConfig(pause_on_tool_calls=True),
        lambda it: (it.reply({"seen": "sea"}), it.reply({"seen": "sky"})),
    ),
}


@pytest.mark.parametrize("kind", REPLIES)
async def test_the_same_answer_again_does_nothing_and_another_is_refused(kind: str, desk: Office, world: World) -> None:
    """Neither asks a model, gives an event, or is stored; the one that differs raises `AlreadyAnsweredError`."""
    root, config, parts = REPLIES[kind]
    await desk.say(lambda: root(world), "Go.", run_config=config)
    (pending,) = await desk.waiting()
    same, other = parts(pending)
    done = await desk.say(lambda: root(world), answers(same), run_config=config)
    assert done.text
    before, asked = await desk.log(), desk.asked
    again = await desk.say(lambda: root(world), answers(same), run_config=config, state_delta={"a": 1})
    assert (again.status, again.text, again.events, again.pending) == ("final", "", [], [])
    assert again.invocation_id == pending.invocation_id
    with pytest.raises(AlreadyAnsweredError):
        await desk.say(lambda: root(world), answers(other), run_config=config)
    assert (await desk.log(), desk.asked) == (before, asked)


@pytest.mark.parametrize("kind", REPLIES)
async def test_a_message_that_decides_twice_decides_once_or_is_refused(kind: str, desk: Office, world: World) -> None:
    """The same in other words is one answer; two that differ raise `AlreadyAnsweredError`, and nothing is stored."""
    root, config, parts = REPLIES[kind]
    await desk.say(lambda: root(world), "Go.", run_config=config)
    (pending,) = await desk.waiting()
    same, other = parts(pending)
    before, asked = await desk.log(), desk.asked
    for message in (answers(same, other), answers(other, same)):
        with pytest.raises(AlreadyAnsweredError, match=f"`{pending.id}` of .* twice") as caught:
            await desk.say(lambda: root(world), message, run_config=config)
        assert caught.value.call_id == pending.id
    assert (await desk.log(), desk.asked) == (before, asked)
    await desk.say(lambda: root(world), answers(same, same), run_config=config)
    given = [each for event in await desk.log() if event.author == "user" for each in event.get_function_responses()]
    assert given == [same.function_response]


@pytest.mark.parametrize("kind", [*REPLIES, "long-running tool"])
async def test_an_answer_has_the_name_of_its_call(kind: str, desk: Office, world: World) -> None:
    """Models pair the two by it: another name is refused, and an answer without one is given it."""
    root, config, parts = REPLIES.get(kind, (orderer, None, lambda it: (it.reply({"status": "there"}),)))
    await desk.say(lambda: root(world), "Go.", run_config=config)
    (pending,) = await desk.waiting()
    (given, *_), before = parts(pending), await desk.log()
    response = given.function_response
    assert response is not None
    name, response.name = response.name, "another"
    with pytest.raises(UnreadableAnswerError, match=f"`{pending.id}` .* Name it `{name}`") as caught:
        await desk.say(lambda: root(world), answers(given), run_config=config)
    assert caught.value.call_id == pending.id
    assert await desk.log() == before
    response.name = None
    assert (await desk.say(lambda: root(world), answers(given), run_config=config)).text
    stored = [each.name for e in await desk.log() if e.author == "user" for each in e.get_function_responses()]
    assert stored == [name]


async def test_an_answer_without_a_name_is_read_as_strictly(desk: Office, world: World) -> None:
    await desk.say(lambda: payer(world), "Pay.")
    (pending,) = await desk.waiting()
    given = types.Part(function_response=types.FunctionResponse(id=pending.id, response={"confirmed": "maybe"}))
    with pytest.raises(UnreadableAnswerError, match="is not true or false"):
        await desk.say(lambda: payer(world), answers(given))
    assert [each.id for each in await desk.waiting()] == [pending.id]


async def test_what_is_decided_already_is_left_out_of_a_message(desk: Office, world: World) -> None:
    """The rest of the message counts; with a decision that differs, nothing of it does."""

    def root() -> LlmAgent:
        return payer(world, [call("pay", amount=1), call("pay", amount=2)], "One.", "Both.")

    await desk.say(root, "Pay.")
    one, two = await desk.waiting()
    await desk.say(root, answers(one.approve()))
    with pytest.raises(AlreadyAnsweredError):
        await desk.say(root, answers(one.reject(), two.approve()))
    assert [pending.id for pending in await desk.waiting()] == [two.id]
    again = await desk.say(root, answers(one.approve()))
    assert (again.status, [pending.id for pending in again.pending]) == ("paused", [two.id])
    await desk.say(root, answers(one.approve(), two.approve()))
    assert world.ran == ["pay 1", "pay 2"]
    stored = [r.id for event in await desk.log() if event.author == "user" for r in event.get_function_responses()]
    assert stored == [one.id, two.id]


async def test_a_long_running_tool_may_be_reported_on_again(desk: Office, world: World) -> None:
    """Reports are no decisions: each is stored, the same one too."""

    await desk.say(lambda: orderer(world), "Tea.")
    (pending,) = await desk.waiting()
    for _ in range(2):
        said = await desk.say(lambda: orderer(world), answers(pending.reply({"status": "shipped"})))
        assert said.text == "On its way."


async def test_a_decision_that_a_dead_process_left_behind_is_carried_out_when_it_comes_again(world: World) -> None:
    """Who has the session alone may; beside others only going on with the invocation does."""
    service = InMemorySessionService()
    for concurrency, ran in (("allow", []), ("queue", ["pay 5"])):
        it = Office(lambda: service, concurrency)
        if concurrency == "allow":
            await it.say(lambda: payer(world), "Pay.")
            (pending,) = await it.waiting()
            session = await service.get_session(app_name="app", **WHERE)
            assert session is not None
            message = answers(pending.approve())
            await service.append_answer(
                session, Event(author="user", invocation_id=pending.invocation_id, content=message)
            )
        await it.say(lambda: payer(world), message)
        assert world.ran == ran


@pytest.mark.parametrize("kind", REPLIES)
async def test_an_answer_after_which_a_process_has_died_goes_on_when_it_comes_again(kind: str, world: World) -> None:
    """Whatever it answers, a call of the host too, which waits for no decision then."""
    root, config, parts = REPLIES[kind]
    service = InMemorySessionService()
    it = Office(lambda: service, "queue")
    await it.say(lambda: root(world), "Go.", run_config=config)
    (pending,) = await it.waiting()
    session = await service.get_session(app_name="app", **WHERE)
    assert session is not None
    message = answers(parts(pending)[0])
    await service.append_answer(session, Event(author="user", invocation_id=pending.invocation_id, content=message))
    assert (await it.say(lambda: root(world), message, run_config=config)).text


async def test_a_user_interface_is_told_that_it_comes_too_late(desk: Office, world: World) -> None:
    """Typed events and handles tell of a refused decision as of any error."""
    await desk.say(lambda: payer(world), "Pay.")
    (pending,) = await desk.waiting()
    await desk.say(lambda: payer(world), answers(pending.approve()))
    runner, message = desk.runner(payer(world)), answers(pending.reject())
    last = [event async for event in runner.run_stream(**WHERE, new_message=message)][-1]
    assert "AlreadyAnsweredError" in str(last)
    result = await runner.start(**WHERE, new_message=message).result()
    assert (result.status, type(result.error)) == ("failed", AlreadyAnsweredError)
