"""`measure`: what processors cost, in numbers that mean something."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hierarchies import HIERARCHIES
from kit import agent, collect, event, model

from flowloom import (
    App,
    BasePlugin,
    ConfigurationError,
    Flow,
    InMemoryRunner,
    InputValidationError,
    LlmRequest,
    SequentialAgent,
    Session,
    measure,
)
from flowloom.context import Observer, ProcessorCall, observing
from flowloom.errors import MissingVariableError, PipelineError
from flowloom.inspection import ProcessorProfile
from flowloom.plugins import ModelOverride
from inspection.requests import asked


def spins(ctx: Any, request: LlmRequest) -> None:
    """Half a millisecond of work."""
    until = time.perf_counter() + 0.0005
    while time.perf_counter() < until:
        pass


def hoards(ctx: Any, request: LlmRequest) -> None:
    """A megabyte, let go of at once."""
    bytearray(1_000_000)


async def test_every_processor_is_measured_in_the_order_of_the_flow() -> None:
    root = agent("root", instruction="Be kind.")
    profile = await measure(root, "hi", repeat=30)
    names = [step.name for step in (*root.flow.request_steps, *root.flow.response_steps)]
    assert [each.name for each in profile] == names
    assert (profile.agent, profile.turns) == ("root", 30)
    assert {each.count for each in profile} == {30}
    assert all(0 < each.median <= each.p95 for each in profile)
    assert abs(sum(each.share for each in profile) - 1) < 1e-6
    assert 0 < profile.total < profile.turn


async def test_a_slow_processor_stands_out() -> None:
    profile = await measure(Flow().with_processor(spins), repeat=20)
    assert 0.0005 <= profile["spins"].median < 0.05
    assert profile["spins"].share > 0.5
    assert max(profile, key=lambda each: each.share).name == "spins"


async def test_memory_is_the_most_that_a_call_holds() -> None:
    profile = await measure(Flow().with_processor(hoards), repeat=3)
    assert 1_000_000 <= (profile["hoards"].allocated or 0) < 1_100_000
    assert (profile["basic"].allocated or 0) < 50_000
    assert not tracemalloc.is_tracing()
    without = await measure(Flow(), repeat=3, allocations=False)
    assert {each.allocated for each in without} == {None}


async def test_time_that_a_processor_waits_is_its_own() -> None:
    async def waits(ctx: Any, request: LlmRequest) -> None:
        await asyncio.sleep(0.002)

    profile = await measure(Flow().with_processor(waits), repeat=3)
    assert profile["waits"].median >= 0.002


async def test_nothing_is_asked_and_nothing_is_kept() -> None:
    """No model, no tool; the session stays as it was."""
    answers = model()
    session = Session(id="s1", app_name="app", user_id="ann", events=[event("user", "a"), event("root", "b")])
    before = session.model_dump_json()
    await measure(agent("root"), "hi", session=session, repeat=25, plugins=[ModelOverride(answers)])
    assert answers.requests == []
    assert session.model_dump_json() == before


@pytest.mark.parametrize("name", ["structured", "structured_with_tools", "delegating", "loop", "fan_out", "edited"])
async def test_one_step_of_any_hierarchy_is_measured(name: str) -> None:
    """A loop without an end, too."""
    case = HIERARCHIES[name]
    profile = await measure(case.build(asked([])), case.message, state=case.state, repeat=3, allocations=False)
    assert profile["contents"].median > 0


async def test_a_workflow_is_measured_by_its_first_agent() -> None:
    root = SequentialAgent(name="root", sub_agents=[agent("one"), agent("two")])
    profile = await measure(root, repeat=4, allocations=False)
    assert (profile.agent, profile["basic"].count) == ("one", 4)


async def test_history_and_state_are_there_when_it_is_measured() -> None:
    seen: list[tuple[int, str]] = []

    def looks(ctx: Any, request: LlmRequest) -> None:
        seen.append((len(request.contents), ctx.session.state["city"]))

    flow = Flow().with_processor(looks)
    root = agent("root", flow=flow)
    await measure(root, history=[("user", "a"), ("root", "b")] * 3, state={"city": "Rome"}, repeat=2, allocations=False)
    assert seen == [(7, "Rome"), (9, "Rome"), (11, "Rome")]


async def test_the_first_call_of_a_conversation_is_told_apart() -> None:
    """What is done once, and then known, is in it and in no other."""

    def learns(ctx: Any, request: LlmRequest) -> None:
        if len(request.contents) == 1:
            spins(ctx, request)

    profile = await measure(Flow().with_processor(learns), repeat=5, allocations=False)
    assert profile["learns"].first >= 0.0005 > profile["learns"].median


async def test_a_long_conversation_begins_anew_before_it_grows() -> None:
    lengths: list[int] = []

    def looks(ctx: Any, request: LlmRequest) -> None:
        lengths.append(len(request.contents))

    await measure(Flow().with_processor(looks), repeat=50, allocations=False)
    assert len(lengths) == 53
    assert max(lengths) == 41


async def test_the_plugins_of_an_app_take_part() -> None:
    asked_for: list[str] = []

    class Watching(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
            asked_for.append(callback_context.agent_name)

    app = App(name="app", root_agent=agent("root"), plugins=[Watching("watching")])
    await measure(app, repeat=2, allocations=False)
    assert asked_for == ["root"] * 3


async def test_errors_of_the_way_are_raised() -> None:
    with pytest.raises(MissingVariableError):
        await measure(agent("root", instruction="{nobody}"))
    with pytest.raises(ConfigurationError, match="`repeat` is 0"):
        await measure(Flow(), repeat=0)


async def test_a_profile_is_stored_and_read_back(tmp_path: Path) -> None:
    profile = await measure(Flow(), repeat=3)
    profile.save(tmp_path / "profile.json")
    assert ProcessorProfile.load(tmp_path / "profile.json") == profile
    assert json.loads(json.dumps(profile.to_dict())) == profile.to_dict()


@pytest.mark.parametrize("content", ["[]", "{}", "not json", '{"processors": [{"name": "x"}]}'])
def test_a_file_that_holds_no_profile_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputValidationError):
        ProcessorProfile.load(path)


async def test_a_comparison_takes_the_speed_of_the_machines_out() -> None:
    """A machine of half the speed, on which all takes twice as long, has not become slower."""
    data = (await measure(Flow(), repeat=3, allocations=False)).to_dict()
    slower = json.loads(json.dumps(data))
    slower["yardstick"] *= 2
    for each in slower["processors"]:
        each["median"] *= 2
    slower["processors"][0]["median"] *= 3
    changes = ProcessorProfile.from_dict(slower).compare(ProcessorProfile.from_dict(data))
    ratios = {change.name: round(change.ratio, 6) for change in changes}
    assert ratios.pop("basic") == 3
    assert set(ratios.values()) == {1}


async def test_a_processor_that_was_not_measured_is_named() -> None:
    profile = await measure(Flow(), repeat=1, allocations=False)
    with pytest.raises(PipelineError, match="`contents`"):
        profile["content"]


async def test_the_page_shows_each_processor_with_a_bar() -> None:
    lines = str(await measure(Flow().with_processor(spins), repeat=3)).splitlines()
    assert lines[0].startswith("Agent `agent`, 3 turns: ")
    (line,) = [line for line in lines if line.startswith("  spins ")]
    assert line.endswith("█" * 24)


# -- observers, on which it stands ----------------------------------------------------------------------


class Log(Observer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def processor_started(self, ctx: Any, call: ProcessorCall) -> None:
        self.told.append(f"+{call.name}")

    def processor_finished(self, ctx: Any, call: ProcessorCall) -> None:
        self.told.append(f"-{call.name}")
        self.last = call

    def model_asked(self, ctx: Any, model: Any, request: LlmRequest) -> None:
        self.told.append("model")

    def event_recorded(self, ctx: Any, event: Any) -> None:
        self.told.append(f"{event.author}: {event.text}")


async def test_observers_are_told_of_a_run_in_order() -> None:
    log = Log()
    root = agent("root", "ok", flow=Flow([Flow().request_processors[0]], []))
    await collect(InMemoryRunner(root, observers=[log]).run_async(user_id="u", session_id="s", new_message="hi"))
    assert log.told == ["user: hi", "+basic", "-basic", "model", "root: ok"]


async def test_an_observer_of_the_process_sees_the_runs_that_begin_meanwhile() -> None:
    log = Log()
    with observing(log):
        await collect(InMemoryRunner(agent("root", "ok")).run_async(user_id="u", session_id="s", new_message="hi"))
    seen = len(log.told)
    await collect(InMemoryRunner(agent("root", "ok")).run_async(user_id="u", session_id="s", new_message="hi"))
    assert 0 < seen == len(log.told)


async def test_an_observer_knows_what_a_processor_raised() -> None:
    def broken(ctx: Any, request: LlmRequest) -> None:
        raise ZeroDivisionError

    log = Log()
    runner = InMemoryRunner(agent("root", flow=Flow([broken])), observers=[log])
    with pytest.raises(ZeroDivisionError) as caught:
        await collect(runner.run_async(user_id="u", session_id="s", new_message="hi"))
    assert log.last.error is caught.value
    assert caught.value.__notes__ == ["in processor `broken`, step 0 of agent `root`"]


async def test_while_a_consumer_holds_an_event_no_time_is_counted() -> None:
    async def emits(ctx: Any, request: LlmRequest) -> Any:
        yield ctx.new_event({"content": None})

    log = Log()
    runner = InMemoryRunner(agent("root", "ok", flow=Flow([emits], [])), observers=[log])
    async for _ in runner.run_async(user_id="u", session_id="s", new_message="hi"):
        time.sleep(0.005)  # noqa: ASYNC251 - a consumer that takes its time
    assert log.last.seconds < 0.004
    assert len(log.last.events) == 1


async def test_leaving_early_finishes_the_call_of_a_processor() -> None:
    async def emits(ctx: Any, request: LlmRequest) -> Any:
        yield ctx.new_event({"content": None})
        yield ctx.new_event({"content": None})

    log = Log()
    runner = InMemoryRunner(agent("root", "ok", flow=Flow([emits], [])), observers=[log])
    run = runner.run_async(user_id="u", session_id="s", new_message="hi")
    await anext(run)
    await run.aclose()
    assert log.told[-1] == "-emits"
