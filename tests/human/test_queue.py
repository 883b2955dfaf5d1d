"""The requests that wait for a person, and what becomes of them."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import threading
import weakref
from contextlib import aclosing

import kit
import pytest

from flowloom import ConfigurationError, HumanModel, LLMRegistry, LlmRequest, ParallelAgent
from flowloom.errors import ModelUnavailableError
from flowloom.human import RequestNotFoundError, RequestOverError, WaitingRequest
from flowloom.testing import frozen
from human.person import agent, chat, first_of, said


def ask(model: HumanModel) -> asyncio.Task[str]:
    """A call of the model that waits."""

    async def text() -> str:
        return "".join([each.text async for each in model.generate_content_async(LlmRequest())])

    return asyncio.ensure_future(text())


async def asked(model: HumanModel, count: int) -> list[asyncio.Task[str]]:
    """So many calls that wait, one begun after the other."""
    tasks: list[asyncio.Task[str]] = []
    async with aclosing(model.arrivals()) as arrivals:
        for _ in range(count):
            tasks.append(ask(model))
            await anext(arrivals)
    return tasks


def asked_and_gone() -> tuple[HumanModel, WaitingRequest, asyncio.Task[str]]:
    """A model, a request that waits for its answer, and the call of it, whose loop is closed."""
    model = HumanModel()
    loop = asyncio.new_event_loop()
    [task] = loop.run_until_complete(asked(model, 1))
    loop.close()
    [waiting] = model.pending()
    return model, waiting, task


async def test_a_run_waits_until_somebody_answers() -> None:
    model = HumanModel()
    turn = said(chat(agent(model)), "1 + 2?")
    waiting = await first_of(model)
    assert not turn.done()
    model.answer(waiting.id, "Three.")
    assert kit.story(await turn) == ["adder: Three."]
    assert model.pending() == []


async def test_requests_wait_in_the_order_in_which_they_came() -> None:
    with frozen(clock=1000.0) as clock:
        model = HumanModel()
        tasks = await asked(model, 1)
        clock.advance(5)
        tasks += [ask(model)]
        await asyncio.sleep(0)
        assert [(waiting.came_at, waiting.state) for waiting in model.pending()] == [
            (1000.0, "waiting"),
            (1005.0, "waiting"),
        ]
        for waiting, text in zip(model.pending(), ["one", "two"], strict=True):
            model.answer(waiting.id, text)
    assert await asyncio.gather(*tasks) == ["one", "two"]


async def test_requests_may_be_answered_in_any_order() -> None:
    model = HumanModel()
    tasks = await asked(model, 3)
    for waiting, text in zip(reversed(model.pending()), ["third", "second", "first"], strict=True):
        model.answer(waiting.id, text)
    assert await asyncio.gather(*tasks) == ["first", "second", "third"]


async def test_parallel_agents_wait_at_the_same_time() -> None:
    model = HumanModel()
    turn = said(chat(ParallelAgent(name="both", sub_agents=[agent(model, "a"), agent(model, "b")])), "Well?")
    async with aclosing(model.arrivals()) as arrivals:
        await anext(arrivals)
        await anext(arrivals)
    assert sorted(str(waiting.agent) for waiting in model.pending()) == ["a", "b"]
    for waiting in model.pending():
        model.answer(waiting.id, f"I am {waiting.agent}.")
    assert sorted(kit.story(await turn)) == ["a: I am a.", "b: I am b."]


def test_runs_on_several_threads_are_answered_from_one() -> None:
    model = HumanModel()
    texts: list[str] = []
    arrived = threading.Semaphore(0)
    model.subscribe(lambda waiting: arrived.release())

    async def asks() -> None:
        texts.append(await ask(model))

    threads = [threading.Thread(target=lambda: asyncio.run(asks())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert arrived.acquire(timeout=10)
    for number, waiting in enumerate(model.pending()):
        model.answer(waiting.id, f"answer {number}")
    for thread in threads:
        thread.join()
    assert sorted(texts) == ["answer 0", "answer 1", "answer 2"]


def test_the_model_is_registered_by_its_name() -> None:
    model = LLMRegistry.new_llm("human")
    assert isinstance(model, HumanModel)
    assert not model.hosted


async def test_a_copy_of_the_model_asks_the_same_person() -> None:
    model = HumanModel()
    task = ask(copy.deepcopy(model))
    model.answer((await first_of(model)).id, "Here.")
    assert await task == "Here."


# -- what cannot be answered -----------------------------------------------------------------------


def test_an_unknown_request_cannot_be_answered() -> None:
    with pytest.raises(RequestNotFoundError, match="No request `7` has come") as caught:
        HumanModel().answer("7", "Hello.")
    assert caught.value.request_id == "7"


async def over(model: HumanModel, waiting: WaitingRequest) -> RequestOverError:
    with pytest.raises(RequestOverError) as caught:
        model.answer(waiting.id, "Too late.")
    assert (caught.value.request_id, caught.value.state) == (waiting.id, waiting.state)
    return caught.value


async def test_a_request_is_answered_once() -> None:
    model = HumanModel()
    task = ask(model)
    waiting = await first_of(model)
    model.answer(waiting.id, "First.")
    assert "has been answered already" in str(await over(model, waiting))
    assert await task == "First."


async def test_a_cancelled_run_takes_its_request_out() -> None:
    model = HumanModel()
    conversation = chat(agent(model))
    turn = said(conversation, "1 + 2?")
    waiting = await first_of(model)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert model.pending() == []
    assert "was withdrawn" in str(await over(model, waiting))
    assert waiting.state == "cancelled"


async def test_the_conversation_goes_on_after_a_cancelled_run() -> None:
    model = HumanModel()
    conversation = chat(agent(model))
    turn = said(conversation, "1 + 2?")
    await first_of(model)
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    turn = said(conversation, "And now?")
    waiting = await first_of(model)
    assert kit.shown(waiting.request) == ["user: 1 + 2?", "user: And now?"]
    model.answer(waiting.id, "Three.")
    assert kit.story(await turn) == ["adder: Three."]


def test_a_request_whose_loop_is_gone_cannot_be_answered() -> None:
    model, waiting, task = asked_and_gone()
    with pytest.raises(RequestOverError, match="was withdrawn"):
        model.answer(waiting.id, "Hello?")
    assert model.pending() == []
    assert not task.done()


def test_nothing_can_be_said_to_a_request_whose_loop_is_gone() -> None:
    model, waiting, task = asked_and_gone()
    with pytest.raises(RequestOverError, match="was withdrawn"):
        model.say(waiting.id, "Hello?")
    assert (model.pending(), waiting.state) == ([], "cancelled")
    assert not task.done()


# -- time ------------------------------------------------------------------------------------------


async def test_nobody_in_time_is_an_unavailable_model() -> None:
    model = HumanModel(timeout=0.002)
    with pytest.raises(ModelUnavailableError, match=r"within 0\.002 seconds") as caught:
        await ask(model)
    error = caught.value
    assert (error.code, error.model, error.retryable) == ("TIMEOUT", "human", True)
    assert model.pending() == []


async def test_a_time_out_goes_by_the_clock_of_the_engine() -> None:
    with frozen(clock=1000.0) as clock:
        model = HumanModel(timeout=60)
        task = ask(model)
        waiting = await first_of(model)
        clock.advance(59)
        assert model.pending() == [waiting]
        assert waiting.expires_at == 1060.0
        clock.advance(1)
        assert model.pending() == []
        assert "has timed out" in str(await over(model, waiting))
        with pytest.raises(ModelUnavailableError):
            await task


async def test_time_that_stands_still_times_nothing_out() -> None:
    with frozen():
        model = HumanModel(timeout=0.001)
        task = ask(model)
        waiting = await first_of(model)
        await asyncio.sleep(0.005)
        assert model.pending() == [waiting]
        model.answer(waiting.id, "Still here.")
        assert await task == "Still here."


async def test_nothing_is_kept_of_a_request_that_is_over() -> None:
    """No timer goes on, and nobody holds the request."""
    model = HumanModel(timeout=1000)
    kept: list[weakref.ref[WaitingRequest]] = []
    for end in (lambda task, waiting: model.answer(waiting.id, "Here."), lambda task, waiting: task.cancel()):
        task = ask(model)
        waiting = await first_of(model)
        kept.append(weakref.ref(waiting))
        end(task, waiting)
        await asyncio.gather(task, return_exceptions=True)
        del task, waiting
    await asyncio.sleep(0)  # the loop lets go of its last callback
    gc.collect()
    assert [each() for each in kept] == [None, None]


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_time_out_is_above_zero(timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="above 0"):
        HumanModel(timeout=timeout)


# -- being told ------------------------------------------------------------------------------------


async def test_arrivals_gives_each_request_once() -> None:
    """Those that wait already, those that come, and none that is over."""
    model = HumanModel()
    tasks = await asked(model, 2)
    seen: list[str] = []

    async def person() -> None:
        async for waiting in model.arrivals():
            seen.append(waiting.id)
            model.answer(waiting.id, f"answer {len(seen)}")

    answers = asyncio.ensure_future(person())
    assert await asyncio.gather(*tasks, ask(model)) == ["answer 1", "answer 2", "answer 3"]
    assert len(set(seen)) == 3
    answers.cancel()


async def test_arrivals_leaves_out_what_is_over_by_then() -> None:
    model = HumanModel()
    arrivals = model.arrivals()
    first = ask(model)
    waiting = await anext(arrivals)
    model.answer(waiting.id, "one")
    second, third = ask(model), ask(model)
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    [left] = model.pending()
    assert await anext(arrivals) is left
    model.answer(left.id, "three")
    assert await asyncio.gather(first, third) == ["one", "three"]
    await arrivals.aclose()


async def test_subscribers_hear_of_the_end_too() -> None:
    model = HumanModel()
    heard: list[str] = []
    stop = model.subscribe(ended=lambda waiting: heard.append(waiting.state))
    answered, cancelled = await asked(model, 2)
    model.answer(model.pending()[0].id, "Yes.")
    cancelled.cancel()
    await asyncio.gather(answered, cancelled, return_exceptions=True)
    assert heard == ["answered", "cancelled"]
    stop()
    late = ask(model)
    model.answer((await first_of(model)).id, "Yes.")
    await late
    assert len(heard) == 2


async def test_a_subscriber_that_fails_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fail(waiting: WaitingRequest) -> None:
        raise RuntimeError("no bell")

    model = HumanModel()
    model.subscribe(fail)
    with caplog.at_level(logging.ERROR, "flowloom.human"):
        task = ask(model)
        model.answer((await first_of(model)).id, "Yes.")
        assert await task == "Yes."
    assert "no bell" in caplog.text
