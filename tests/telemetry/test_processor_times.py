"""The histogram of processors' times, which is off unless it is asked for."""

from __future__ import annotations

import pytest
from kit import collect

from flowloom import Flow, InMemoryRunner, LlmAgent, configure_telemetry
from flowloom.context import observing
from flowloom.context.observer import observers
from flowloom.telemetry import ProcessorTimes
from flowloom.testing import ScriptedModel
from telemetry.conftest import Recording

NAME = "flowloom.processor.duration"


@pytest.fixture
def runner() -> InMemoryRunner:
    return InMemoryRunner(LlmAgent(name="root", model=ScriptedModel(["ok", "ok"])))


async def run(runner: InMemoryRunner) -> None:
    await collect(runner.run_async(user_id="u", session_id="s", new_message="hi"))


async def test_nothing_is_recorded_by_default(recording: Recording, runner: InMemoryRunner) -> None:
    await run(runner)
    assert recording.points(NAME) == []


async def test_each_processor_has_its_series(recording: Recording, runner: InMemoryRunner) -> None:
    """Told apart by processor and agent, in seconds, with buckets from a microsecond up."""
    with observing(ProcessorTimes()):
        await run(runner)
    points = {point.attributes["flowloom.processor.name"]: point for point in recording.points(NAME)}
    assert {"basic", "contents", "planning_response"} <= set(points)
    assert points["basic"].attributes["gen_ai.agent.name"] == "root"
    assert points["basic"].count == 1
    assert 0 < points["basic"].sum < 1
    assert points["basic"].explicit_bounds[0] == 1e-6


async def test_one_runner_can_be_recorded_alone(recording: Recording) -> None:
    root = LlmAgent(name="root", model=ScriptedModel(["ok"]))
    await run(InMemoryRunner(root, observers=[ProcessorTimes()]))
    assert len(recording.points(NAME)) == len(Flow().request_steps) + len(Flow().response_steps)


async def test_a_failed_processor_names_its_error(recording: Recording) -> None:
    def broken(ctx: object, request: object) -> None:
        raise ZeroDivisionError

    runner = InMemoryRunner(
        LlmAgent(name="root", model=ScriptedModel([]), flow=Flow([broken])), observers=[ProcessorTimes()]
    )
    with pytest.raises(ZeroDivisionError):
        await run(runner)
    (point,) = recording.points(NAME)
    assert point.attributes["error.type"] == "ZeroDivisionError"


def test_configure_telemetry_switches_it_on_until_it_is_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "TRACES_", "METRICS_", "LOGS_"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT", raising=False)
    before = observers()
    telemetry = configure_telemetry(processor_times=True)
    try:
        assert [type(each) for each in observers() if each not in before] == [ProcessorTimes]
    finally:
        telemetry.shutdown()
    assert observers() == before
