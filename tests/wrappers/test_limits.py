"""`LimitedModel`: how many calls are made at once and in a minute, in which order, and what waiting costs nobody."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from google.genai import types
from pydantic import PrivateAttr
from wrapper_kit import Endless, Pauses, ask, responses, steps, told

from flowloom import BaseLlm, ConfigurationError, LimitedModel, LlmRequest, LlmResponse, RetryModel, RetryOptions
from flowloom.errors import ModelRateLimitError, ModelUnavailableError
from flowloom.testing import FunctionModel, ScriptedModel, frozen


class Gate(BaseLlm):
    """Answers when it is told to, and knows who has been let in, by the text of the request."""

    model: str = "gate"
    tokens: int | None = None
    came: list[str] = []  # noqa: RUF012 - pydantic copies it
    at_once: int = 0
    most: int = 0

    _open: dict[str, asyncio.Event] = PrivateAttr(default_factory=dict)

    def let_out(self, name: str) -> None:
        self._open.setdefault(name, asyncio.Event()).set()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        name = (llm_request.contents[0].parts or [])[0].text or ""
        self.came.append(name)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self._open.setdefault(name, asyncio.Event()).wait()
            usage = types.GenerateContentResponseUsageMetadata(total_token_count=self.tokens)
            yield LlmResponse(content=types.ModelContent(name), usage_metadata=usage if self.tokens else None)
        finally:
            self.at_once -= 1


def start(model: BaseLlm, *names: str) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(told(model, ask(name))) for name in names]


def counting(tokens: int) -> Callable[[LlmRequest], LlmResponse]:
    """Answers that cost so many tokens."""
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=tokens)
    return lambda request: LlmResponse(content=types.ModelContent("Yes."), usage_metadata=usage)


def answering(tokens: int = 0, **limits: Any) -> LimitedModel:
    return LimitedModel(FunctionModel(counting(tokens)), **limits)


# -- at once -----------------------------------------------------------------------------------------


async def test_no_more_calls_at_once_than_are_allowed() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=2)
    tasks = start(model, *"abcde")
    await steps()
    assert gate.came == ["a", "b"]
    for name in "abcde":
        gate.let_out(name)
    assert await asyncio.gather(*tasks) == list("abcde")
    assert gate.most == 2


async def test_who_came_first_goes_first() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=1)
    tasks = start(model, *"abcd")
    await steps()
    for name in "abcd":
        gate.let_out(name)
    await asyncio.gather(*tasks)
    assert gate.came == list("abcd")


async def test_nobody_who_comes_later_slips_in_between() -> None:
    """A place that became free belongs to who waits for it, even if somebody new is quicker."""
    gate = Gate()
    model = LimitedModel(gate, concurrency=1)
    first, second = start(model, "a", "b")
    await steps()
    gate.let_out("a")
    await first
    [third] = start(model, "c")
    for name in "bc":
        gate.let_out(name)
    await asyncio.gather(second, third)
    assert gate.came == ["a", "b", "c"]


async def test_who_asks_again_at_once_goes_behind_those_who_wait() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=1)

    async def twice() -> None:
        await told(model, ask("a"))
        await told(model, ask("c"))

    tasks = [asyncio.create_task(twice()), *start(model, "b")]
    await steps()
    for name in "abc":
        gate.let_out(name)
    await asyncio.gather(*tasks)
    assert gate.came == ["a", "b", "c"]


async def test_places_that_become_free_together_are_all_taken() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=2)
    tasks = start(model, *"abcd")
    await steps()
    gate.let_out("a")
    gate.let_out("b")
    await steps(10)
    assert gate.came == list("abcd")
    gate.let_out("c")
    gate.let_out("d")
    await asyncio.gather(*tasks)


async def test_a_call_that_is_cancelled_while_it_waits_gives_its_place_back() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=1)
    tasks = start(model, *"abc")
    await steps()
    tasks[1].cancel()
    await steps()
    for name in "ac":
        gate.let_out(name)
    assert [await tasks[0], await tasks[2]] == ["a", "c"]
    assert gate.came == ["a", "c"]


async def test_a_call_that_is_cancelled_while_it_runs_gives_its_place_back() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=1)
    tasks = start(model, *"ab")
    await steps()
    tasks[0].cancel()
    gate.let_out("b")
    assert await tasks[1] == "b"


async def test_one_that_is_called_and_cancelled_at_once_passes_the_call_on() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=1)
    tasks = start(model, *"abc")
    await steps()
    tasks[0].cancel()
    tasks[1].cancel()
    gate.let_out("c")
    assert await tasks[2] == "c"


async def test_a_call_that_fails_gives_its_place_back() -> None:
    model = LimitedModel(ScriptedModel([ModelUnavailableError("Down."), "Hello."]), concurrency=1)
    with pytest.raises(ModelUnavailableError):
        await responses(model)
    assert await told(model) == "Hello."


async def test_a_stream_that_is_left_is_closed_and_gives_its_place_back() -> None:
    inner = Endless()
    model = LimitedModel(inner, concurrency=1)
    for _ in range(2):
        async with aclosing(model.generate_content_async(ask(), True)) as stream:
            async for _ in stream:
                break
    assert (inner.chunks, inner.closed) == (2, 2)


# -- in a minute -------------------------------------------------------------------------------------


async def test_no_more_requests_in_a_minute_than_are_allowed() -> None:
    model = answering(requests_per_minute=2)
    with frozen() as clock:
        for _ in range(5):
            await responses(model)
            clock.advance(1)
    assert [round(seconds) for seconds in clock.slept] == [58, 58]


async def test_tokens_count_as_the_model_counts_them() -> None:
    """The estimate is a few; the answers cost 400 each, of which two fit into a minute."""
    model = answering(400, tokens_per_minute=800)
    with frozen() as clock:
        for _ in range(4):
            await responses(model)
    assert clock.slept == [60]


async def test_a_call_counts_with_its_estimate_while_it_runs() -> None:
    gate = Gate(tokens=1)
    model = LimitedModel(gate, tokens_per_minute=100, estimate=lambda request: 60)
    first, second = start(model, "a", "b")
    await steps()
    assert gate.came == ["a"]
    gate.let_out("a")
    gate.let_out("b")
    assert [await first, await second] == ["a", "b"]


async def test_an_estimate_that_was_too_high_lets_others_in_without_waiting_out_the_minute() -> None:
    """The second call would wait a minute of the machine's clock, unless the first one's end woke it."""
    gate = Gate(tokens=1)
    model = LimitedModel(gate, tokens_per_minute=100, estimate=lambda request: 90)
    tasks = start(model, "a", "b", "c")
    for name in "abc":
        gate.let_out(name)
    async with asyncio.timeout(5):
        assert await asyncio.gather(*tasks) == ["a", "b", "c"]


async def test_a_request_of_more_tokens_than_are_allowed_is_made_alone() -> None:
    model = answering(500, tokens_per_minute=100, estimate=lambda request: 500)
    with frozen() as clock:
        for _ in range(3):
            await responses(model)
    assert clock.slept == [60, 60]


async def test_a_call_without_token_counts_keeps_its_estimate() -> None:
    model = LimitedModel(ScriptedModel(["a", "b"]), tokens_per_minute=100, estimate=lambda request: 60)
    with frozen() as clock:
        await responses(model)
        await responses(model)
    assert clock.slept == [60]


async def test_token_counts_without_a_total_are_added() -> None:
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=50, candidates_token_count=20, thoughts_token_count=30
    )
    answer = LlmResponse(content=types.ModelContent("Yes."), usage_metadata=usage)
    model = LimitedModel(ScriptedModel([answer, answer]), tokens_per_minute=100)
    with frozen() as clock:
        await responses(model)
        await responses(model)
    assert clock.slept == [60]


async def test_a_small_request_does_not_overtake_a_large_one() -> None:
    gate = Gate(tokens=1)
    needs = {"a": 50, "b": 90, "c": 10}
    model = LimitedModel(
        gate, tokens_per_minute=100, estimate=lambda request: needs[(request.contents[0].parts or [])[0].text or ""]
    )
    tasks = start(model, *"abc")
    await steps()
    assert gate.came == ["a"]
    for name in "abc":
        gate.let_out(name)
    await asyncio.gather(*tasks)
    assert gate.came == ["a", "b", "c"]


async def test_a_call_that_lasts_longer_than_a_minute_is_not_taken_off_twice() -> None:
    gate = Gate(tokens=1)
    model = LimitedModel(gate, tokens_per_minute=100, estimate=lambda request: 60)
    gate.let_out("b")
    with frozen() as clock:
        [long] = start(model, "a")
        await steps()
        clock.advance(61)
        assert await told(model, ask("b")) == "b"
        gate.let_out("a")
        await long
        tasks = start(model, "c", "d")
        await steps()
        assert clock.slept == [60], "the fourth call had to wait for the third one's tokens"
        gate.let_out("c")
        gate.let_out("d")
        await asyncio.gather(*tasks)


async def test_who_waits_for_the_minute_leaves_no_task() -> None:
    model = LimitedModel(Gate(), requests_per_minute=1)
    before = asyncio.all_tasks()
    tasks = start(model, "a", "b")
    await steps()
    assert len(asyncio.all_tasks() - before) == 3  # the second call's pause is one
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert asyncio.all_tasks() == before


# -- waiting too long --------------------------------------------------------------------------------


async def test_a_call_that_would_wait_too_long_fails_at_once() -> None:
    model = answering(requests_per_minute=1, max_wait=30)
    with frozen() as clock:
        await responses(model)
        clock.advance(10)
        with pytest.raises(ModelRateLimitError, match="max_wait") as caught:
            await responses(model)
        assert clock.slept == []
    error = caught.value
    assert (error.retry_after, error.retryable, error.code, error.model) == (50, True, "LIMITED", "function")


async def test_a_call_that_may_wait_so_long_waits() -> None:
    model = answering(requests_per_minute=1, max_wait=60)
    with frozen() as clock:
        await responses(model)
        await responses(model)
    assert clock.slept == [60]


async def test_a_place_that_does_not_become_free_in_time_is_given_up() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=1, max_wait=0.001)
    [first] = start(model, "a")
    await steps()
    with pytest.raises(ModelRateLimitError):
        await told(model, ask("b"))
    gate.let_out("a")
    gate.let_out("c")
    assert await first == "a"
    assert await told(model, ask("c")) == "c"


async def test_without_waiting_a_call_is_made_or_refused() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=1, max_wait=0)
    [first] = start(model, "a")
    await steps()
    with pytest.raises(ModelRateLimitError) as caught:
        await told(model, ask("b"))
    assert caught.value.retry_after == 0
    gate.let_out("a")
    assert await first == "a"


async def test_a_retry_around_the_limits_waits_as_long_as_they_say() -> None:
    pauses = Pauses()
    with frozen() as clock:

        async def sleep(seconds: float) -> None:
            await pauses(seconds)
            clock.advance(seconds)

        limited = answering(requests_per_minute=1, max_wait=0)
        model = RetryModel(limited, RetryOptions(sleep=sleep, jitter=0))
        await responses(model)
        await responses(model)
    assert pauses.seconds == [60]


# -- loops and threads -------------------------------------------------------------------------------


def test_the_limits_hold_in_one_event_loop_after_another() -> None:
    model = answering(requests_per_minute=1)
    with frozen() as clock:
        for _ in range(2):
            asyncio.run(responses(model))
    assert clock.slept == [60]


def test_the_limits_hold_for_event_loops_in_several_threads() -> None:
    lock, running, most = threading.Lock(), [0], [0]

    async def answer(request: LlmRequest) -> str:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        await asyncio.sleep(0)
        with lock:
            running[0] -= 1
        return "Yes."

    model = LimitedModel(FunctionModel(answer), concurrency=2)
    found: list[list[str]] = []

    async def many() -> list[str]:
        return list(await asyncio.gather(*(told(model) for _ in range(25))))

    threads = [threading.Thread(target=lambda: found.append(asyncio.run(many()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [len(each) for each in found] == [25] * 4
    assert most == [2]


def test_a_loop_that_was_closed_with_a_call_in_the_queue_does_not_hold_up_others() -> None:
    gate = Gate()
    model = LimitedModel(gate, concurrency=1)
    dead = asyncio.new_event_loop()
    with asyncio.Runner() as runner:
        live = runner.get_loop()
        running = live.create_task(told(model, ask("a")))
        live.run_until_complete(steps())
        waiting = dead.create_task(told(model, ask("b")))
        dead.run_until_complete(steps())
        behind = live.create_task(told(model, ask("c")))
        live.run_until_complete(steps())
        dead.close()
        for name in "acd":
            gate.let_out(name)
        assert runner.run(told(model, ask("d"))) == "d"
        assert [running.result(), behind.result()] == ["a", "c"]
    assert not waiting.done()
    waiting._log_destroy_pending = False  # type: ignore[attr-defined] - it is meant to be lost


async def test_copies_share_the_limits() -> None:
    model = answering(requests_per_minute=1)
    with frozen() as clock:
        await responses(model)
        await responses(copy.deepcopy(model))
        await responses(model.model_copy())
    assert clock.slept == [60, 60]


# -- building ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits", [{}, {"concurrency": 0}, {"requests_per_minute": -1}, {"tokens_per_minute": 0}], ids=repr
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        LimitedModel(ScriptedModel(), **limits)


def test_a_limit_that_is_refused_is_named() -> None:
    with pytest.raises(ConfigurationError, match="concurrency"):
        LimitedModel("offline", concurrency=0)
