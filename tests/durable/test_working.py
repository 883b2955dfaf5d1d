"""What workers make of runs: streams, failures, limits, and sessions that others want too."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from google.genai import types

from durable.fleet import APP, WHO, client_of, opened, runner_of, steps, where, worker_of
from flowloom import FunctionTool, LlmAgent, LlmResponse, Runner
from flowloom.context import Context, Observer
from flowloom.durable import ConcurrencyLimit, ModelLimit, RetryPolicy, RunFailedError, Worker
from flowloom.errors import ModelUnavailableError, RunLostError
from flowloom.models import BaseLlm
from flowloom.run_stream import RunFinished, TextDelta
from flowloom.sessions.leases import uptime
from flowloom.testing import ScriptedModel, call, chunks_of
from flowloom.testing.scripted import response_of
from flowloom.testing.suites.courier_place import until

__all__ = ["where"]


def busy(**options: Any) -> ModelUnavailableError:
    return ModelUnavailableError("The model is busy.", retryable=True, **options)


def streamed(text: str) -> list[Any]:
    """A text in parts, and as a whole."""
    return [*chunks_of(response_of(text), 4), response_of(text)]


async def finished(run: Any) -> Any:
    return await asyncio.wait_for(run.result(), 60)


async def test_a_stream_from_elsewhere_is_that_of_the_runner(where: str) -> None:
    """The same typed events in the same order, but for ids; who comes late gets in one piece what was said before."""
    service, answers = opened(where), [call("step", number=1), streamed("All is done now.")]
    local = runner_of(service, answers, auto_create_session=True)
    here = [each async for each in local.run_stream(user_id="ann", session_id="here", new_message="Go.")]
    async with worker_of(service, answers), client_of(service) as client:
        there = [each async for each in client.run_stream(user_id="ann", session_id="there", new_message="Go.")]
    names, theirs = ([type(each).__name__ for each in some] for some in (here, there))
    assert list(dict.fromkeys(theirs)) == list(dict.fromkeys(names))
    said = ["".join(each.text for each in some if isinstance(each, TextDelta)) for some in (here, there)]
    assert said == ["All is done now."] * 2
    assert isinstance(there[-1], RunFinished)
    assert there[-1].status == "final"
    await service.close()


async def test_a_client_serves_as_a_runner(where: str) -> None:
    """`run_async` gives what the runner's gives, partial events too, and `run_to_result` raises what ended the run."""
    service = opened(where)
    answers = [streamed("Hello there."), ValueError("Broken.")]
    async with worker_of(service, answers), client_of(service) as client:
        events = [event async for event in client.run_async(**WHO, new_message="Go.")]
        assert [event.partial for event in events[:-1]] == [True] * (len(events) - 1)
        assert events[-1].text == "Hello there."
        with pytest.raises(RunFailedError) as failed:
            await client.run_to_result(**WHO, new_message="Go.")
        assert (failed.value.code, "Broken." in str(failed.value)) == ("ValueError", True)
    await service.close()


async def test_a_run_that_failed_goes_on_after_a_wait(where: str) -> None:
    """From its log, and holds no worker meanwhile; the log says that it has failed."""
    service = opened(where)
    answers = [call("step", number=1), busy(), busy(), "Done."]
    async with worker_of(service, answers, concurrency=1), client_of(service) as client:
        run = await client.submit("Go.", **WHO, retry=RetryPolicy(attempts=3, backoff=0.05))
        assert (await finished(run)).text == "Done."
        codes = [event.error_code async for event in run.events() if event.error_code]
        assert codes == ["ModelUnavailableError"] * 2
        assert (await run.info()).attempts == 3
    await service.close()


async def test_a_run_has_failed_when_it_was_tried_often_enough(where: str) -> None:
    """And can be tried again by hand."""
    service = opened(where)
    async with worker_of(service, [busy(), busy(), "Done."]), client_of(service) as client:
        run = await client.submit("Go.", **WHO, retry=RetryPolicy(attempts=2, backoff=0.01))
        result = await finished(run)
        assert (result.status, getattr(result.error, "code", "")) == ("failed", "ModelUnavailableError")
        again = await client.retry(run.id)
        assert (await finished(again)).text == "Done."
    await service.close()


async def test_a_retried_stream_ends_once(where: str) -> None:
    """An attempt that failed is an error that was reported, and no end."""
    service = opened(where)
    async with worker_of(service, [busy(), "Done."]), client_of(service) as client:
        run = await client.submit("Go.", **WHO, retry=RetryPolicy(backoff=0.01))
        names = [type(each).__name__ async for each in run.stream()]
        assert names.count("RunFinished") == names.count("RunStarted") == names.count("ErrorReported") == 1
        assert names[-1] == "RunFinished"
    await service.close()


async def test_a_run_begins_at_its_time(where: str) -> None:
    """Not before; one that has not begun by the time that was set is cancelled."""
    service = opened(where)
    async with client_of(service) as client:
        late = await client.submit("Go.", user_id="ann", session_id="s2", expires=0.01)
        await asyncio.sleep(0.02)
        began = time.monotonic()
        run = await client.submit("Go.", **WHO, delay=0.3)
        assert (await run.info()).awaits == "time"
        async with worker_of(service, steps(0) * 3):
            await finished(run)
            assert time.monotonic() - began > 0.25
            result = await finished(late)
            assert (result.status, getattr(result.error, "code", "")) == ("cancelled", "RunExpiredError")
    await service.close()


async def test_priority_comes_first_and_ages(where: str) -> None:
    """A minute of waiting is worth a step."""
    service, order = opened(where), list[str]()

    async def note(tool_context: Context) -> str:
        """Note."""
        order.append(tool_context.session.id)
        return "ok"

    async with client_of(service) as client:
        for name, priority in (("low", 0), ("high", 2), ("middle", 1), ("old", 0)):
            await client.submit("Go.", user_id=name, session_id=name, priority=priority)
        sql = "UPDATE flowloom_runs SET rank = rank - 180 WHERE user_id = 'old'"
        await client.registry.write(lambda c: c.execute(sql), "test")
        async with worker_of(service, [call("note"), "Done."] * 4, note, concurrency=1):
            for info in await client.list():
                await finished(await client.attach(info.run_id))
    assert order == ["old", "high", "middle", "low"]
    await service.close()


async def test_labels_choose_the_worker(where: str) -> None:
    """A run is given to a worker that has all of its labels."""
    service = opened(where)
    async with client_of(service) as client:
        run = await client.submit("Go.", **WHO, labels=["gpu"])
        plain = await client.submit("Go.", user_id="bob", session_id="s")
        async with worker_of(service, ["Done."] * 2):
            await finished(plain)
            assert await run.status() == "ready"
            async with worker_of(service, ["With a GPU."], labels=["gpu", "large"]):
                assert (await finished(run)).text == "With a GPU."
    await service.close()


async def test_a_run_is_pinned_to_the_version_that_began_it(where: str) -> None:
    """If its worker says so; otherwise any worker goes on with it."""
    service = opened(where)

    def ask() -> str:
        """Ask."""
        return "asked"

    async with client_of(service) as client:
        runs = [await client.submit("Go.", user_id=name, session_id="s", labels=["gpu"]) for name in ("ann", "bob")]
        tool = FunctionTool(ask, require_confirmation=True)
        async with worker_of(service, [call("ask")] * 2, tool, version="1", pin_version=True, labels=["gpu"]):
            for run in runs:
                assert (await finished(run)).status == "paused"
            (shown,) = await client.workers()
            assert shown.version == "1"
        for run in runs:
            await run.answer((await run.pending())[0].approve())
        async with (
            worker_of(service, ["Of the second version."], tool, version="2", pin_version=True, labels=["gpu"]),
            worker_of(service, ["Of none."], tool, labels=["gpu"]),
        ):
            await asyncio.sleep(0.5)
            assert [await run.status() for run in runs] == ["ready"] * 2
            assert (await runs[0].info()).labels == ("@1", "gpu")
            async with worker_of(service, ["Of the first."] * 2, tool, version="1", pin_version=True, labels=["gpu"]):
                assert [(await finished(run)).text for run in runs] == ["Of the first."] * 2
    await service.close()


async def test_a_limit_of_ones_own_holds(where: str) -> None:
    """Of what a function says, which the workers ask."""
    service, at_once, most = opened(where), 0, 0

    async def work() -> str:
        """Work."""
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        return "ok"

    limit = ConcurrencyLimit(lambda run: run.session_id[:4], 1, name="tenant")
    async with worker_of(service, [call("work"), "Done."] * 8, work, limits=[limit]), client_of(service) as client:
        runs = [await client.submit("Go.", user_id=f"u{n}", session_id=f"acme-{n}") for n in range(5)]
        for run in runs:
            await finished(run)
    assert most == 1
    await service.close()


async def test_a_runner_waits_for_a_worker_that_has_the_session(where: str) -> None:
    """And the worker for a runner: each log is in one piece, and none loses its run."""
    mine, theirs = opened(where), opened(where)

    async def slow() -> str:
        """Be slow."""
        await asyncio.sleep(0.1)
        return "ok"

    answers = [call("slow"), "Done."]
    async with worker_of(theirs, answers * 2, slow), client_of(mine) as client:
        run = await client.submit("First.", **WHO)
        while await run.status() != "running":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        runner = runner_of(mine, answers, slow)
        task = asyncio.create_task(runner.run_to_result(**WHO, new_message="Second."))
        await asyncio.sleep(0.02)
        third = await client.submit("Third.", **WHO)
        assert (await asyncio.wait_for(task, 60)).text == "Done."
        await finished(third)
    session = await mine.get_session(app_name=APP, **WHO)
    assert session is not None
    order = list(dict.fromkeys(event.invocation_id for event in session.events))
    assert [event.invocation_id for event in session.events] == [each for each in order for _ in range(4)]
    assert [event.text for event in session.events if event.author == "user"] == ["First.", "Second.", "Third."]
    for service in (mine, theirs):
        await service.close()


async def test_no_tool_begins_on_a_beat_that_is_old(where: str) -> None:
    """A worker that was not heard of for half of its time asks first; one that was replaced begins none."""
    service, begun = opened(where), list[int]()

    async def note(number: int) -> str:
        """Note."""
        begun.append(number)
        if number == 1:  # as if the process had been stopped, and another worker had buried it
            leg = next(iter(worker.legs.values()))
            async with worker.beats._beating:  # a beat that was under way would make the fence new
                leg.fence.renewed = uptime() - 3000
                sql = "DELETE FROM flowloom_workers"
                await worker.registry.write(lambda c: c.execute(sql), "test")
        return "ok"

    agent = LlmAgent(
        name="agent", model=ScriptedModel([call("note", number=1), call("note", number=2), "Done."]), tools=[note]
    )
    worker = Worker(Runner(app_name=APP, agent=agent, session_service=service), heartbeat=1000, dead_after=4000)
    async with worker, client_of(service) as client:
        before = worker.name
        await client.submit("Go.", **WHO)
        await until(lambda: begun and not worker.running)
        assert worker.name != before
    assert begun == [1]
    await service.close()


async def test_a_worker_embeds_and_leaves_nothing(where: str) -> None:
    """No task, no row and no socket is left when its block ends."""
    service = opened(where)
    before = asyncio.all_tasks()
    async with client_of(service) as client:
        async with worker_of(service, steps(1)) as worker:
            await finished(await client.submit("Go.", **WHO))
            assert [each.worker for each in await client.workers()] == [worker.name]
        assert await client.workers() == []
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before
    await service.close()


def test_a_lost_run_is_a_session_that_is_busy() -> None:
    """Code that waits for busy sessions understands it."""
    from flowloom.durable import RunLostError as exported

    assert exported is RunLostError


async def test_the_key_of_a_call_names_the_run_and_the_call(where: str) -> None:
    """What a tool passes on is the same in each attempt."""
    service, keys = opened(where), list[str]()

    async def pay(tool_context: Context) -> str:
        """Pay."""
        keys.append(tool_context.idempotency_key)
        return "ok"

    async with worker_of(service, [call("pay"), "Done."], pay), client_of(service) as client:
        run = await client.submit("Go.", **WHO, run_id="order-7")
        await finished(run)
        ids = [each.id async for event in run.events() for each in event.get_function_calls()]
    assert keys == [f"order-7/{ids[0]}"]
    await service.close()


@pytest.mark.parametrize("limit", [ModelLimit("scr*", concurrent=2), ModelLimit("*", per_minute=1200)])
async def test_model_calls_keep_to_the_limits_of_the_fleet(where: str, limit: ModelLimit) -> None:
    """Over all workers: no more at once, and none sooner after another than the minute allows."""
    service, moments, at_once, most = opened(where), list[float](), 0, 0

    class Counting(ScriptedModel):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            nonlocal at_once, most
            moments.append(time.monotonic())
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.02)
            async for response in super().generate_content_async(llm_request, stream):
                yield response
            at_once -= 1

    def worker() -> Worker:
        agent = LlmAgent(name="agent", model=Counting(["Hi."] * 9))
        runner = Runner(app_name=APP, agent=agent, session_service=service)
        return Worker(runner, limits=[limit], heartbeat=0.1, dead_after=60)  # who lives is not to be buried

    async with worker(), worker(), client_of(service) as client:
        began = time.monotonic()
        runs = [await client.submit("Go.", user_id=f"u{number}", session_id="s") for number in range(8)]
        for run in runs:
            assert (await finished(run)).status == "final"
        left = await client.registry.read(lambda c: c.execute("SELECT COUNT(*) FROM flowloom_slots").fetchone()[0])
    assert left == 0
    if limit.concurrent is not None:
        assert most == 2
    else:
        assert moments[-1] - began > 7 * 0.05 - 0.1  # the first one may be late, the last one is not early
    await service.close()


async def test_tokens_of_model_calls_keep_to_the_limit_of_the_fleet(where: str) -> None:
    """What a call has taken puts the next ones off, at whichever worker: so much in a minute, spread over it."""
    service, moments = opened(where), list[float]()

    class Counting(ScriptedModel):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            moments.append(time.monotonic())
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    def worker() -> Worker:
        usage = types.GenerateContentResponseUsageMetadata(total_token_count=100)
        said = [LlmResponse(content=response_of("Hi.").content, usage_metadata=usage)] * 9
        agent = LlmAgent(name="agent", model=Counting(said))
        runner = Runner(app_name=APP, agent=agent, session_service=service)
        limit = ModelLimit("*", concurrent=1, tokens_per_minute=60_000)
        return Worker(runner, limits=[limit], heartbeat=0.1, dead_after=60)

    async with worker(), worker(), client_of(service) as client:
        began = time.monotonic()
        runs = [await client.submit("Go.", user_id=f"u{number}", session_id="s") for number in range(8)]
        for run in runs:
            assert (await finished(run)).status == "final"
    assert len(moments) == 8
    assert moments[-1] - began > 6 * 0.1  # 100 of 1,000 tokens a second
    await service.close()


@pytest.mark.parametrize("limit", [ModelLimit("*", concurrent=1), ModelLimit("*", per_minute=120)])
async def test_observers_are_told_of_a_call_that_waits(where: str, limit: ModelLimit) -> None:
    """Once for each, and not of one that has its place at once."""
    service = opened(where)

    class Watch(Observer):
        def __init__(self) -> None:
            self.waiting: list[str] = []

        def model_waits(self, ctx: Any, model: BaseLlm) -> None:
            self.waiting.append(ctx.session.id)

    class Slow(ScriptedModel):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            await until(lambda: len(watch.waiting) == 2)
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    watch = Watch()
    agent = LlmAgent(name="agent", model=Slow(["Hi."] * 3))
    runner = Runner(app_name=APP, agent=agent, session_service=service, observers=[watch])
    async with client_of(service) as client:
        runs = [await client.submit("Go.", user_id="ann", session_id=f"s{number}") for number in range(3)]
        async with Worker(runner, limits=[limit], heartbeat=0.1, dead_after=5):
            for run in runs:
                assert (await finished(run)).status == "final"
    assert len(watch.waiting) == len({*watch.waiting}) == 2
    await service.close()
