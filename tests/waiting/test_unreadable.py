"""Answers that cannot be read: refused before anything is stored, and no answer where a log holds one all the same."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import event, result

from flowloom import AgentTool, BaseAgent, BasePlugin, ToolConfirmation, pending_calls
from flowloom.errors import UnreadableAnswerError
from flowloom.run_stream import RequestAnswered, RunFailed, run_stream_of
from flowloom.testing import call
from waiting.desk import WHERE, Desk, World, by_turn, model_of

BOMB = "[" * 100_000
UNREADABLE: list[dict[str, Any]] = [{"response": "not json"}, {"confirmed": "maybe"}, {"response": BOMB}]


def payer(world: World) -> BaseAgent:
    calls = [call("pay", amount=1), call("pay", amount=2)]
    return by_turn("root", calls, "Some.", "All.", "More.", tools=[world.paying])


def nested_payer(world: World) -> BaseAgent:
    return by_turn("boss", call("root", request="Go."), "Done.", tools=[AgentTool(payer(world))])


def unreadable(request_id: str, response: dict[str, Any]) -> types.Part:
    return result(request_id, "adk_request_confirmation", response)


@pytest.mark.parametrize("response", UNREADABLE)
async def test_a_run_refuses_it_and_stores_nothing(world: World, response: dict[str, Any]) -> None:
    """Every way of running raises the same error; the log stays as it was, and the right answer still counts."""
    it = Desk(lambda: payer(world))
    await it.say("Go.")
    one, two = await it.waiting()
    before = await it.events()
    message = types.Content(role="user", parts=[unreadable(one.id, response), two.approve()])
    with pytest.raises(UnreadableAnswerError, match=one.id):
        await it.say(message)
    with pytest.raises(UnreadableAnswerError):
        await it.runner.run_to_result(**WHERE, new_message=message)
    with pytest.raises(UnreadableAnswerError):
        await it.runner.start(**WHERE, new_message=message).result()
    shown = [each async for each in it.runner.run_stream(**WHERE, new_message=message)]
    assert [type(each) for each in shown if isinstance(each, RunFailed)] == [RunFailed]
    assert await it.events() == before
    await it.answer(one.approve())
    await it.answer(two.approve())
    assert world.ran == ["pay 1 bob", "pay 2 bob"]


def test_a_run_without_an_event_loop_refuses_it(world: World) -> None:
    """The sync forms raise it, too."""
    it = Desk(lambda: payer(world))
    found = it.runner.run_to_result_sync(**WHERE, new_message="Go.")
    message = types.Content(role="user", parts=[unreadable(found.pending[0].id, UNREADABLE[0])])
    with pytest.raises(UnreadableAnswerError):
        list(it.runner.run(**WHERE, new_message=message))
    assert len(it.runner.run_to_result_sync(**WHERE, new_message="And?").pending) == 0  # nothing new was asked
    assert world.ran == []


async def test_a_confirm_callback_cannot_give_it(world: World) -> None:
    """What `confirm` decides is read as strictly as what a client sends."""
    deep: Any = {}
    for _ in range(1000):
        deep = {"a": deep}
    it = Desk(lambda: payer(world), confirm=lambda pending: ToolConfirmation(confirmed=True, edited_args=deep))
    with pytest.raises(UnreadableAnswerError):
        await it.say("Go.")
    assert len(await it.waiting()) == 2
    assert world.ran == []


async def test_a_plugin_cannot_put_it_into_the_message(world: World) -> None:
    """A message that `on_user_message_callback` answers is read like the one that it replaces."""

    class Spoiling(BasePlugin):
        async def on_user_message_callback(self, *, invocation_context: Any, user_message: types.Content) -> Any:
            if not any(part.function_response for part in user_message.parts or ()):
                return None
            return types.Content(role="user", parts=[unreadable("r1", UNREADABLE[0])])

    it = Desk(lambda: payer(world), plugins=[Spoiling(name="spoiling")])
    await it.say("Go.")
    one, _ = await it.waiting()
    with pytest.raises(UnreadableAnswerError):
        await it.answer(one.approve())
    assert len(await it.waiting()) == 2
    assert world.ran == []


@pytest.mark.parametrize("root", [payer, nested_payer])
@pytest.mark.parametrize("response", UNREADABLE)
@pytest.mark.parametrize("about", [0, 1], ids=["the same call", "another call"])
async def test_a_log_that_holds_one_goes_on_as_if_it_did_not(
    world: World, root: Any, response: dict[str, Any], about: int
) -> None:
    """The calls wait on, and the next answer makes as many model calls and events as without it."""
    told: list[Any] = []
    for spoiled in (False, True):
        world.ran.clear()
        it = Desk(lambda: root(world))
        await it.say("Go.")
        await it.restart()
        one, two = await it.waiting()
        if spoiled:
            stray = event("user", unreadable((one, two)[about].id, response), invocation_id=one.invocation_id)
            session = await it.session()
            session.events.append(stray)
            it.service.adopt(session)
        assert [each.id for each in pending_calls(await it.events())] == [one.id, two.id]
        assert not [each for each in run_stream_of(await it.events()) if isinstance(each, RequestAnswered)]
        assert await it.say(invocation_id=one.invocation_id) == [], "nothing was decided"
        first = await it.answer(one.approve())
        again = await it.answer(two.reject())
        model = model_of(it.runner.agent if root is payer else it.runner.agent.tools[0].agent)  # type: ignore[attr-defined]
        shape = [
            [(each.author, [p.model_dump(exclude={"function_call"}) for p in each.content.parts or ()])]  # type: ignore[union-attr]
            for each in first + again
            if each.content is not None and not each.get_function_responses()
        ]
        told.append((shape, world.ran.copy(), len(model.requests), await it.waiting()))
    assert told[0] == told[1]
