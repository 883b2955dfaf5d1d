"""What a fleet tells OpenTelemetry: spans that are linked, counters and gauges."""

from __future__ import annotations

import asyncio
from typing import Any

from opentelemetry import trace
from telemetry.conftest import Recording, recording

from durable.fleet import WHO, client_of, opened, steps, where, worker_of
from flowloom.durable import RetryPolicy
from flowloom.errors import ModelUnavailableError
from flowloom.testing import call

__all__ = ["recording", "where"]


async def finished(run: Any) -> Any:
    return await asyncio.wait_for(run.result(), 60)


async def test_each_leg_has_a_span_that_is_linked_to_the_submission(where: str, recording: Recording) -> None:
    """Also the one after a failure, in the traces of the workers; the agent's span is below it."""
    mine, theirs = opened(where), opened(where)
    busy = ModelUnavailableError("The model is busy.", retryable=True)
    async with worker_of(theirs, [busy, "Done."]) as worker, client_of(mine) as client:
        with trace.get_tracer("program").start_as_current_span("request"):
            run = await client.submit("Go.", **WHO, retry=RetryPolicy(backoff=0.01))
        await finished(run)
        name = worker.name
    submitted = recording.span("submit_run travel")
    assert recording.parent(submitted) == "request"
    legs = [span for span in recording.spans if span.name == "run travel"]
    assert [span.links[0].context.span_id for span in legs] == [submitted.context.span_id] * 2
    assert {span.context.trace_id for span in legs}.isdisjoint({submitted.context.trace_id})
    told = [dict(span.attributes or {}) for span in legs]
    assert [(each["flowloom.run.attempt"], each["flowloom.run.status"]) for each in told] == [
        (1, "failed"),
        (2, "final"),
    ]
    assert {(each["flowloom.run.id"], each["flowloom.worker"]) for each in told} == {(run.id, name)}
    assert told[0]["error.type"] == "ModelUnavailableError"
    assert [recording.parent(span) for span in recording.spans if span.name == "invoke_agent agent"] == [
        "run travel"
    ] * 2
    assert sum(point.value for point in recording.points("flowloom.runs.retries")) == 1
    for service in (mine, theirs):
        await service.close()


async def test_a_leg_after_a_take_over_or_an_answer_is_linked_too(where: str, recording: Recording) -> None:
    """Each says which leg it is, and how many workers have died of the run."""
    service = opened(where)
    async with client_of(service) as client:
        await client.registry.register(worker_of(service, ["Hi."]).row("dead"))
        run = await client.submit("Go.", **WHO)
        claimed, _ = await client.registry.claim("travel", "dead", [""], 1, None)
        assert len(claimed) == 1
        rows, _ = await client.registry.workers("travel")
        async with worker_of(service, [call("step", number=1), "Done."], dead_after=60, heartbeat=0.05) as worker:
            ready = await client.registry.bury("dead", rows[0].beat)
            assert ready is not None
            worker.took_over("dead", ready)
            assert (await finished(run)).status == "final"
    (leg,) = [span for span in recording.spans if span.name == "run travel"]
    assert leg.links[0].context.span_id == recording.span("submit_run travel").context.span_id
    assert dict(leg.attributes or {})["flowloom.run.takeovers"] == 1
    assert [point.value for point in recording.points("flowloom.runs.takeovers")] == [1]
    await service.close()


async def test_gauges_tell_of_the_whole_fleet(where: str, recording: Recording) -> None:
    """How many runs wait, are ready and run, and how many workers there are: as soon as a reader has asked."""
    service, begun = opened(where), asyncio.Event()

    async def sleep() -> str:
        """Sleep."""
        begun.set()
        await asyncio.sleep(60)
        return "ok"

    def shown() -> dict[str, int]:
        names = ("runs.waiting", "runs.ready", "runs.running", "workers")
        found = {name: recording.points(f"flowloom.{name}") for name in names}
        return {name: points[0].value for name, points in found.items() if points}

    async with client_of(service) as client, worker_of(service, [call("sleep")], sleep, concurrency=1, sweep=0.05):
        run = await client.submit("Go.", **WHO)
        await asyncio.wait_for(begun.wait(), 60)
        await client.submit("Go.", **WHO)
        await client.submit("Go.", user_id="bob", session_id="s1")
        wanted = {"runs.waiting": 1, "runs.ready": 1, "runs.running": 1, "workers": 1}
        async with asyncio.timeout(60):
            while shown() != wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for info in await client.list():
            await client.cancel(info.run_id)
        await finished(run)
    assert shown() == {}
    assert recording.points("flowloom.runs.queue.seconds")[0].count == 1
    await service.close()


async def test_nothing_is_written_down_of_spans_that_are_not_recorded(where: str) -> None:
    """A run without a provider has no word of tracing in its row."""
    service = opened(where)
    async with client_of(service) as client:
        run = await client.submit("Go.", **WHO)
        row = await client.registry.find(run.id)
        assert row is not None
        assert row.spec == "{}"
        async with worker_of(service, steps(0)):
            assert (await finished(run)).status == "final"
    await service.close()
