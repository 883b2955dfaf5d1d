"""`CachedModel`: who asks the same at the same time gets one answer."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest
from wrapper_kit import Held, ask, responses, steps, texts, told

from flowloom import CachedModel, LlmRequest, LlmResponse
from flowloom.errors import ModelUnavailableError
from flowloom.testing import FunctionModel


@pytest.mark.parametrize("stream", [False, True])
async def test_who_asks_the_same_at_the_same_time_gets_one_answer(stream: bool) -> None:
    inner = Held(go=asyncio.Event())
    model = CachedModel(inner)
    tasks = [asyncio.create_task(texts(model, stream=stream)) for _ in range(4)]
    await steps()
    inner.go.set()
    found = await asyncio.gather(*tasks)
    assert {each[-1] for each in found} == {"Answer 1"}
    assert {"".join(each[:-1]).replace("~", "") for each in found} == {"Answer 1" if stream else ""}
    assert (inner.asked, model.hits, model.misses) == (1, 3, 1)


async def test_the_one_who_asks_is_streamed_to_without_delay() -> None:
    inner = Held(go=asyncio.Event())
    async with aclosing(CachedModel(inner).generate_content_async(ask(), True)) as stream:
        assert (await anext(stream)).text == "Answer "
        assert not inner.go.is_set()


async def test_when_one_who_waits_is_cancelled_the_others_go_on() -> None:
    inner = Held(go=asyncio.Event())
    model = CachedModel(inner)
    tasks = [asyncio.create_task(told(model)) for _ in range(3)]
    await steps()
    tasks[1].cancel()
    await steps()
    inner.go.set()
    assert [await tasks[0], await tasks[2]] == ["Answer 1", "Answer 1"]
    assert inner.asked == 1


async def test_when_the_one_who_asks_is_cancelled_another_asks() -> None:
    inner = Held(go=asyncio.Event())
    model = CachedModel(inner)
    tasks = [asyncio.create_task(told(model)) for _ in range(3)]
    await steps()
    tasks[0].cancel()
    await steps()
    inner.go.set()
    assert [await tasks[1], await tasks[2]] == ["Answer 2", "Answer 2"]
    assert (inner.asked, inner.closed) == (2, 2)


async def test_who_waits_gets_the_error_of_the_one_who_asks() -> None:
    inner = Held(go=asyncio.Event(), error=ModelUnavailableError("Down."))
    model = CachedModel(inner)
    tasks = [asyncio.create_task(told(model)) for _ in range(3)]
    await steps()
    inner.go.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [ModelUnavailableError] * 3
    assert inner.asked == 1


async def test_an_answer_that_is_not_kept_is_shared_with_those_who_wait() -> None:
    gate = asyncio.Event()

    async def answer(request: LlmRequest) -> LlmResponse:
        await gate.wait()
        return LlmResponse(error_code="SAFETY")

    store: dict[str, str] = {}
    model = CachedModel(FunctionModel(answer), store)
    tasks = [asyncio.create_task(responses(model)) for _ in range(3)]
    await steps()
    gate.set()
    assert [found[0].error_code for found in await asyncio.gather(*tasks)] == ["SAFETY"] * 3
    assert (model.misses, store) == (1, {})


async def test_a_task_does_not_wait_for_itself() -> None:
    """Two streams of the same question in one task: the second asks for itself."""
    inner = Held(go=asyncio.Event())
    model = CachedModel(inner)
    async with aclosing(model.generate_content_async(ask(), True)) as first:
        await anext(first)
        inner.go.set()
        assert await told(model) == "Answer 2"
        assert [each.text async for each in first][-1] == "Answer 1"


def test_who_asks_the_same_in_several_threads_gets_one_answer() -> None:
    together = threading.Barrier(4)
    asked: list[int] = []

    async def answer(request: LlmRequest) -> str:
        asked.append(1)
        await asyncio.sleep(0.005)
        return f"Answer {len(asked)}"

    model = CachedModel(FunctionModel(answer))
    found: list[str] = []

    def run() -> None:
        together.wait()
        found.append(asyncio.run(told(model)))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == ["Answer 1"] * 4
    assert (model.hits, model.misses) == (3, 1)
