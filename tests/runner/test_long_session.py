"""A turn costs the same however long the session is: what an earlier turn has read, the next one does not read."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from kit import WHERE, agent, named_call

from flowloom import (
    AgentTool,
    BaseSessionService,
    Event,
    FunctionTool,
    InMemorySessionService,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Runner,
    Session,
    SqliteSessionService,
)
from flowloom.events.parts import content_of, text_part
from flowloom.models import BaseLlm
from flowloom.runner.pending import answers

NAMES = {"app_name": "app", **WHERE}


class Watched(Event):
    """An event that counts how often its content is read."""

    reads: ClassVar[Counter[str]] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name == "content":
            Watched.reads["content"] += 1
        return super().__getattribute__(name)


def tasks() -> LlmAgent:
    worker = agent("worker", "hm", "hm", mode="task", description="works")
    return agent("root", named_call("c1", "worker", request="do"), "Hello.", "Hello.", sub_agents=[worker])


def tools() -> LlmAgent:
    inner = agent("inner", "a", "b")
    calls = [[named_call(f"c{n}", "inner", request="do")] for n in range(2)]
    return agent("root", calls[0], "Hello.", calls[1], "Hello.", tools=[AgentTool(inner)])


def after_a_long_log(root: LlmAgent, **options: Any) -> Runner:
    """A runner whose session has 400 events already."""
    log = [
        Watched(author=who, invocation_id=f"e-{n}", content=content_of(role, [text_part("hi")]))
        for n in range(200)
        for who, role in (("user", "user"), ("root", "model"))
    ]
    service = InMemorySessionService()
    service.adopt(Session(id="s1", app_name="app", user_id="ann", events=log))
    return Runner(app_name="app", agent=root, session_service=service, **options)


@pytest.mark.parametrize("make", [lambda: agent("root", "Hello.", "Hello."), tools, tasks])
async def test_a_turn_reads_nothing_that_an_earlier_one_has_read(make: Any) -> None:
    """The second turn of a process looks at a few of the events of a long log, whoever answers."""
    runner = after_a_long_log(make(), confirm=lambda _: None)
    await runner.run_to_result(**WHERE, new_message="Go.")
    Watched.reads.clear()
    result = await runner.run_to_result(**WHERE, new_message="Again.")
    assert result.text
    assert Watched.reads["content"] < 20


def approval(name: str = "root") -> LlmAgent:
    def pay() -> str:
        return "paid"

    return agent(name, named_call("c1", "pay"), "Paid.", tools=[FunctionTool(pay, require_confirmation=True)])


def approval_inside() -> LlmAgent:
    calls = named_call("c0", "inner", request="do")
    return agent("root", calls, "Done.", tools=[AgentTool(approval("inner"))])


@pytest.mark.parametrize(("make", "most"), [(approval, 420), (approval_inside, 20)])
async def test_a_turn_that_answers_reads_nothing_that_an_earlier_one_has_read(make: Any, most: int) -> None:
    """Who is answered, what was decided and what waits still is known without a look at the log before the question.

    What a model is shown is built anew, once, if a result takes the place of what stood there.
    """
    runner = after_a_long_log(make())
    asked = await runner.run_to_result(**WHERE, new_message="Go.")
    Watched.reads.clear()
    result = await runner.run_to_result(**WHERE, new_message=answers(asked.pending[0].approve()))
    assert result.text in ("Paid.", "Done.")
    assert Watched.reads["content"] < most


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_session_at_hand_is_a_snapshot(kind: str, tmp_path: Path) -> None:
    """What is appended later, or changed in the list of one snapshot, is in no other."""
    service: BaseSessionService = InMemorySessionService()
    if kind == "sqlite":
        service = SqliteSessionService(str(tmp_path / "sessions.db"))
    first = await service.create_session(**{**NAMES, "session_id": "s1"})
    for text in ("a", "b"):
        await service.append_event(first, Event(author=text))
    second = await service.get_session(**NAMES)
    third = await service.get_session(**NAMES)
    assert second is not None
    assert third is not None
    await service.append_event(second, Event(author="c"))
    third.events.clear()
    found = await service.get_session(**NAMES)
    assert found is not None
    assert [[e.author for e in each.events] for each in (first, second, third, found)] == [
        ["a", "b"],
        ["a", "b", "c"],
        [],
        ["a", "b", "c"],
    ]
    assert Session.model_validate(found.model_dump()).events == found.events
    await service.close()


class Polite(BaseLlm):
    """A model that says hello, and keeps nothing."""

    model: str = "polite"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=content_of("model", [text_part("Hello.")]))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("how", ["run_async", "run_to_result"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_twenty_thousand_turns(kind: str, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last of 20,000 turns on one session take at most 1.2 times what the first of another one do, turn about."""
    service: BaseSessionService = InMemorySessionService()
    if kind == "sqlite":
        service = SqliteSessionService(str(tmp_path / "sessions.db"))
    await service.create_session(**NAMES)
    runner = Runner(app_name="app", agent=LlmAgent(name="root", model=Polite()), session_service=service)

    async def turns(count: int, where: dict[str, str] = WHERE) -> float:
        """Microseconds of processor time for each."""
        started = time.process_time()
        for _ in range(count):
            if how == "run_async":
                async for _event in runner.run_async(**where, new_message="Hi."):
                    pass
            else:
                await runner.run_to_result(**where, new_message="Hi.")
        return (time.process_time() - started) / count * 1e6

    tenths: list[float] = []
    for number in range(10):
        gc.collect()
        tenths.append(sorted([await turns(100) for _ in range(20)])[10])
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        with capsys.disabled():
            print(f"\n{kind} {how} tenth {number + 1}: {tenths[-1]:.0f} us a turn, {memory} MB", end="")
    another = {**WHERE, "session_id": "another"}
    await service.create_session(app_name="app", **another)
    ratios = [await turns(100) / await turns(100, another) for _ in range(20)]  # a shared machine changes its speed
    await service.close()
    assert statistics.median(ratios) < 1.2
