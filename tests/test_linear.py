"""What a model, a person or a file may send many of costs in proportion: four times as many, not sixteen times."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.genai import types
from kit import WHERE, agent
from pydantic import BaseModel, ConfigDict

from flowloom import FunctionTool, InMemoryRunner, LongRunningFunctionTool
from flowloom.errors import ToolArgumentsError
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.sse_decoder import SseDecoder
from flowloom.processors.template import BraceTemplate
from flowloom.testing import call
from flowloom.tools.output import OutputSchema
from flowloom.tools.schema import describe_callable

MOST = 9
"""How many times as much four times as many may take: linear is 4, quadratic 16."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def seconds(work: Callable[[], object]) -> float:
    """The least of some runs."""
    times: list[float] = []
    for _ in range(3):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    numbers: list[int] = []


def look(a: int) -> None: ...


def refused(schema: OutputSchema, data: Any) -> None:
    with pytest.raises(ToolArgumentsError):
        schema.validate(data)


def many(count: int) -> dict[str, int]:
    return {f"x{n}": n for n in range(count)}


def feed(pieces: list[bytes]) -> None:
    decoder = SseDecoder()
    for piece in pieces:
        decoder.feed(piece)


def aggregate(part: Callable[[int], types.Part], count: int) -> None:
    aggregator = StreamingAggregator()
    for n in range(count):
        content = types.Content(role="model", parts=[part(n)])
        aggregator.feed(types.GenerateContentResponse(candidates=[types.Candidate(content=content)]))
    aggregator.close()


LOOK, STRICT = describe_callable(look), OutputSchema(Strict)
OBJECT = OutputSchema({"type": "object", "properties": {"a": {"type": "integer"}}})
WORK: dict[str, Callable[[int], object]] = {
    "unknown arguments": lambda n: LOOK.bind({"a": 1, **many(n)}),
    "unknown fields of a model": lambda n: refused(STRICT, many(n)),
    "unknown fields of a schema": lambda n: refused(OBJECT, many(n)),
    "wrong items": lambda n: refused(STRICT, {"numbers": ["x"] * n}),
    "opening braces": lambda n: BraceTemplate("{" * n),
    "opening braces with text": lambda n: BraceTemplate("{ a" * n),
    "closing braces": lambda n: BraceTemplate("{a" + "}" * n),
    "bytes of a line": lambda n: feed([b"data: ", *[b"x"] * n, b"\n\n"]),
    "lines of an event": lambda n: feed([b"data: x\n"] * n + [b"\n"]),
    "pieces of a text": lambda n: aggregate(lambda _: types.Part(text="a "), n // 8),
    "thoughts and texts in turn": lambda n: aggregate(lambda i: types.Part(text="a", thought=i % 2 == 0), n // 8),
}


@pytest.mark.parametrize("what", WORK)
def test_four_times_as_many_cost_four_times_as_much(what: str) -> None:
    """Of anything that comes from outside."""
    work = WORK[what]
    work(1000)
    assert seconds(lambda: work(16_000)) < MOST * seconds(lambda: work(4_000)) + 0.002


async def answer(number: int) -> int:
    return number


def approvals(count: int) -> float:
    """One answer with many calls that wait, and one message that answers all of them."""
    calls = [call("answer", number=n) for n in range(count)]
    tools = [FunctionTool(answer, require_confirmation=True)]

    async def talk() -> None:
        runner = InMemoryRunner(agent("root", calls, "I wait.", "Done.", tools=tools))
        asked = await runner.run_to_result(**WHERE, new_message="Go.")
        answers = types.Content(role="user", parts=[each.approve() for each in asked.pending])
        done = await runner.run_to_result(**WHERE, new_message=answers)
        assert (len(asked.pending), done.tool_calls, done.pending) == (count, count, [])

    return seconds(lambda: asyncio.run(talk()))


def reports(count: int) -> float:
    """The same with tools whose results come later."""
    calls = [call("later", number=n) for n in range(count)]

    async def later(number: int) -> None: ...

    async def talk() -> None:
        runner = InMemoryRunner(agent("root", calls, "I wait.", "Done.", tools=[LongRunningFunctionTool(later)]))
        asked = await runner.run_to_result(**WHERE, new_message="Go.")
        answers = types.Content(role="user", parts=[each.reply(1) for each in asked.pending])
        done = await runner.run_to_result(**WHERE, new_message=answers)
        assert (len(asked.pending), done.pending) == (count, [])

    return seconds(lambda: asyncio.run(talk()))


@pytest.mark.parametrize("work", [approvals, reports])
def test_many_calls_that_wait_cost_in_proportion(work: Callable[[int], float]) -> None:
    """To ask, to wait, and to be answered in one message."""
    work(20)
    assert work(400) < MOST * work(100) + 0.01
