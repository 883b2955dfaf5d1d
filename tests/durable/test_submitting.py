"""Runs that are submitted to a fleet: what comes back, and what is refused."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from google.genai import types

from durable.fleet import APP, QUICK, WHO, client_of, opened, runner_of, steps, where, worker_of
from flowloom import FunctionTool, InMemorySessionService, RunConfig, ToolContext
from flowloom.durable import (
    QueueFullError,
    RetryPolicy,
    RunClient,
    RunFailedError,
    RunNotFoundError,
    RunStateError,
    Worker,
)
from flowloom.errors import (
    AlreadyExistsError,
    ConfigurationError,
    InputValidationError,
    ModelUnavailableError,
    SessionNotFoundError,
)
from flowloom.plugins import BasePlugin
from flowloom.testing import call

__all__ = ["where"]


async def test_a_submitted_run_is_run_by_a_worker(where: str) -> None:
    """Submit, worker, result: in two services of one store, as in two processes."""
    mine, theirs = opened(where), opened(where)
    async with worker_of(theirs, steps(2)), client_of(mine) as client:
        run = await client.submit("Plan a trip.", **WHO)
        result = await asyncio.wait_for(run.result(), 60)
        assert (result.status, result.text, result.model_calls, result.tool_calls) == ("final", "Done.", 3, 2)
        assert result.invocation_id == run.id
        assert [event.author async for event in run.events()] == ["user", *["agent"] * 5]
        info = await run.info()
        assert (info.status, info.leg, info.attempts, info.worker) == ("final", 1, 1, None)
    await mine.close()
    await theirs.close()


async def test_what_a_run_leaves_is_what_it_leaves_in_process(where: str) -> None:
    """The log of a run by the fleet is that of the same run by a runner, but for ids and times."""
    service = opened(where)
    runner = runner_of(service, steps(2), auto_create_session=True)
    await runner.run_to_result(user_id="ann", session_id="here", new_message="Go.")
    async with worker_of(service, steps(2)), client_of(service) as client:
        run = await client.submit("Go.", user_id="ann", session_id="there")
        await asyncio.wait_for(run.result(), 60)
    logs: list[Any] = []
    for name in ("here", "there"):
        session = await service.get_session(app_name=APP, user_id="ann", session_id=name)
        assert session is not None
        known: dict[str, str] = {}
        logs.append([plain(event.to_wire(), known) for event in session.events])
    assert logs[0] == logs[1]
    await service.close()


def plain(data: Any, known: dict[str, str]) -> Any:
    """Event data with numbers in the place of ids, and without times."""
    if isinstance(data, dict):
        return {
            name: known.setdefault(value, str(len(known)))
            if name in ("id", "invocationId") and isinstance(value, str)
            else plain(value, known)
            for name, value in data.items()
            if name != "timestamp"
        }
    return [plain(each, known) for each in data] if isinstance(data, list) else data


async def test_the_message_leaves_the_registry_when_the_log_has_it(where: str) -> None:
    """No line of content is kept twice."""
    service = opened(where)
    async with client_of(service) as client:
        run = await client.submit("A secret plan.", **WHO)
        row = await client.registry.find(run.id)
        assert row is not None
        assert "A secret plan." in (row.message or "")
        async with worker_of(service, steps(1)):
            await asyncio.wait_for(run.result(), 60)
        row = await client.registry.find(run.id)
        assert row is not None
        assert "secret" not in repr(row)
        assert "Done." not in repr(row)
    await service.close()


async def test_a_run_that_is_paused_before_it_begins_begins_when_it_is_resumed(where: str) -> None:
    """As itself, with its message and what comes with that."""
    service = opened(where)
    async with client_of(service) as client:
        run = await client.submit("Go.", **WHO, state_delta={"kept": 1})
        assert await run.pause() == "paused"
        await run.resume()
        async with worker_of(service, ["Done."]):
            assert (await asyncio.wait_for(run.result(), 60)).text == "Done."
        events = [event async for event in run.events()]
        assert [(event.author, event.text) for event in events] == [("user", "Go."), ("agent", "Done.")]
        session = await service.get_session(app_name=APP, **WHO)
        assert session is not None
        assert session.state == {"kept": 1}
    await service.close()


async def test_state_that_comes_with_an_answer_or_a_resumption_is_the_sessions(where: str) -> None:
    """As a runner takes it: it is there when the run goes on."""
    service = opened(where)

    async def pay(tool_context: ToolContext) -> str:
        """Pay."""
        return f"from {tool_context.state.get('account')}"

    answers = [call("pay"), ModelUnavailableError("The model is busy."), "Done."]
    async with client_of(service) as client:
        paying = FunctionTool(pay, require_confirmation=True)
        async with worker_of(service, answers, paying):
            run = await client.submit("Go.", **WHO)
            (pending,) = (await asyncio.wait_for(run.result(), 60)).pending
            reply = types.Content(role="user", parts=[pending.approve()])
            with pytest.raises(RunFailedError):
                await client.run_to_result(**WHO, new_message=reply, state_delta={"account": 1})
            given = await client.run_to_result(**WHO, invocation_id=run.id, state_delta={"mood": "calm"})
            assert given.text == "Done."
            with pytest.raises(RunStateError):
                await client.run_to_result(**WHO, invocation_id=run.id, state_delta={"mood": "odd"})
        events = [event async for event in run.events()]
        results = [each.response for event in events for each in event.get_function_responses()]
        assert results[-1] == {"result": "from 1"}
        session = await service.get_session(app_name=APP, **WHO)
        assert session is not None
        assert session.state == {"account": 1, "mood": "calm"}
        assert (await client.registry.find(run.id)).message is None  # type: ignore[union-attr]
    await service.close()


class Unready(BasePlugin):
    """Fails to take the first message."""

    failures = 1

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("not yet")


@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_message_that_is_not_in_the_log_is_kept_for_the_next_attempt(where: str, by_hand: bool) -> None:
    """A plugin has failed before it was stored: whoever tries again, the model is given it, and the log has it."""
    service = opened(where)
    runner = runner_of(service, ["Done."], plugins=[Unready("unready")])
    async with client_of(service) as client, Worker(runner, **QUICK):
        retry = None if by_hand else RetryPolicy(backoff=0.01, retry_on=any_error)
        run = await client.submit("Go.", **WHO, retry=retry, state_delta={"kept": 1})
        result = await asyncio.wait_for(run.result(), 60)
        if by_hand:
            assert result.status == "failed"
            await run.retry()
            result = await asyncio.wait_for(run.result(), 60)
        assert result.text == "Done."
        (request,) = runner.agent.model.requests
        assert [part.text for content in request.contents for part in content.parts] == ["Go."]
        session = await service.get_session(app_name=APP, **WHO)
        assert session is not None
        assert {event.invocation_id for event in session.events} == {run.id}
        assert session.state == {"kept": 1}
    await service.close()


def any_error(error: BaseException) -> bool:
    """Whatever it was, it is tried again."""
    return True


async def test_a_run_is_written_to_the_registry_three_times(where: str) -> None:
    """When it is submitted, claimed and over, however many steps it takes."""
    service, lanes = opened(where), list[Any]()
    real = service.database.write

    async def write(work: Any, *, durable: bool = True, lane: Any = None) -> Any:
        lanes.append(lane[0])
        return await real(work, durable=durable, lane=lane)

    async with client_of(service) as client, worker_of(service, steps(5)):
        service.database.write = write
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), 60)).status == "final"
        service.database.write = real
    assert [lane for lane in lanes if lane in ("run", "claim")] == ["run", "claim", "run"]
    await service.close()


async def test_an_id_that_is_there_already_submits_nothing(where: str) -> None:
    """Submitting is repeated safely; the id of another session's run is refused."""
    service = opened(where)
    async with client_of(service) as client:
        runs = [await client.submit("Go.", **WHO, run_id="order-7") for _ in range(2)]
        assert {run.id for run in runs} == {"order-7"}
        assert len(await client.list()) == 1
        with pytest.raises(AlreadyExistsError, match="order-7"):
            await client.submit("Go.", user_id="ann", session_id="s2", run_id="order-7")
        assert (await (await client.attach("order-7")).info()).status == "ready"
    await service.close()


async def test_what_cannot_be_submitted_is_refused(where: str) -> None:
    """Each with an error that names the remedy, and nothing is in the registry then."""
    service = opened(where)
    async with client_of(service, auto_create_session=False) as client:
        with pytest.raises(SessionNotFoundError):
            await client.submit("Go.", **WHO)
        with pytest.raises(InputValidationError, match="one of them"):
            await client.submit("Go.", **WHO, delay=1, at=1)
        with pytest.raises(InputValidationError, match="empty"):
            await client.submit("Go.", user_id="", session_id="s")
        with pytest.raises(InputValidationError, match="calls the function `pay`"):
            await client.submit(types.Part.from_function_call(name="pay", args={}), **WHO)
        odd: list[dict[str, Any]] = [
            *({name: number} for name in ("delay", "at", "expires") for number in (math.nan, math.inf)),
            *({name: value} for name in ("delay", "at", "expires", "priority") for value in ("soon", True)),
            *({"priority": number} for number in (10**7, -(10**30), 1.5)),
            *({"state_delta": value} for value in (["a"], "a")),
            *({name: value} for name in ("user_id", "session_id", "run_id") for value in (["a"], 3)),
            *({"labels": labels} for labels in ("gpu", ["a,b"], [""], list("abcdefg"), 5)),
        ]
        for given in odd:
            with pytest.raises(InputValidationError, match=next(iter(given))):
                await client.submit("Go.", **{**WHO, **given})
        for settings in ({"run_config": {"max_llm_calls": 1}}, {"retry": 3}):
            with pytest.raises(ConfigurationError, match=next(iter(settings))):
                await client.submit("Go.", **WHO, **settings)  # type: ignore[arg-type]
        for sought in ({"status": "done"}, {"status": ["final", "done"]}, {"since": "today"}, {"limit": "5"}):
            with pytest.raises(InputValidationError, match=next(iter(sought))):
                await client.list(**sought)  # type: ignore[arg-type]
        with pytest.raises(RunNotFoundError) as missing:
            await client.attach("e-nothing")
        assert missing.value.run_id == "e-nothing"
        assert await client.list() == []
    await service.close()


async def test_a_full_queue_says_when_to_try_again(where: str) -> None:
    """The bound is that of the app, or of the user."""
    service = opened(where)
    async with client_of(service, max_waiting_per_user=2) as client:
        for number in range(2):
            await client.submit("Go.", user_id="ann", session_id=f"s{number}")
        with pytest.raises(QueueFullError) as full:
            await client.submit("Go.", user_id="ann", session_id="s9")
        assert full.value.retry_after > 0
        await client.submit("Go.", user_id="bob", session_id="s1")
    await service.close()


def test_a_fleet_needs_a_store_that_lasts() -> None:
    """Runs in memory die with their process."""
    with pytest.raises(ConfigurationError, match="SqliteSessionService"):
        RunClient(APP, InMemorySessionService())


def test_a_worker_is_dead_after_three_beats_at_the_least(tmp_path: Any) -> None:
    """One that is late is no sign of death."""
    service = opened(str(tmp_path / "a.db"))
    with pytest.raises(ConfigurationError, match="three beats"):
        Worker(runner_of(service, ["Hi."]), heartbeat=2, dead_after=5)
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ConfigurationError, match="`heartbeat` is above 0"):
            Worker(runner_of(service, ["Hi."]), heartbeat=wrong)
    for name in ("dead_after", "drain", "sweep", "keep_runs"):
        with pytest.raises(ConfigurationError, match=name):
            Worker(runner_of(service, ["Hi."]), **{name: math.nan})
    for labels in ("gpu", ["a,b"], [""], list("abcdefg")):
        with pytest.raises(ConfigurationError, match="labels"):
            Worker(runner_of(service, ["Hi."]), labels=labels)
    assert Worker(runner_of(service, ["Hi."]), heartbeat=0.1, dead_after=0.3).beats.dead_after == 0.3


def test_a_run_may_be_tried_any_number_of_times() -> None:
    """The wait grows no further than it may."""
    policy = RetryPolicy(attempts=10_000, backoff=0.01, max_delay=5.0)
    assert [policy.wait(failures, TimeoutError()) for failures in (2, 5_000)] == [0.02, 5.0]


def test_what_workers_cannot_import_is_no_retry_policy() -> None:
    """The worker that needs it is another process."""
    with pytest.raises(ConfigurationError, match="imported"):
        RetryPolicy(retry_on=lambda error: True)
    with pytest.raises(ConfigurationError):
        RetryPolicy(attempts=0)


async def test_a_waiting_run_is_cancelled_without_an_event(where: str) -> None:
    """And one that is over stays as it is."""
    service = opened(where)
    async with client_of(service) as client:
        run = await client.submit("Go.", **WHO)
        assert await run.cancel() == "cancelled"
        assert await run.cancel() == "cancelled"
        result = await run.result()
        assert (result.status, result.events) == ("cancelled", [])
        with pytest.raises(RunStateError) as state:
            await run.resume()
        assert state.value.status == "cancelled"
    await service.close()


async def test_the_settings_of_a_run_reach_its_worker(where: str) -> None:
    """The config and the state that come with the message."""
    service = opened(where)
    async with worker_of(service, steps(1)), client_of(service) as client:
        config = RunConfig(custom_metadata={"from": "afar"}, max_llm_calls=1)
        run = await client.submit("Go.", **WHO, run_config=config, state_delta={"mood": "calm"})
        result = await asyncio.wait_for(run.result(), 60)
        assert result.status == "limit"
        assert {(event.custom_metadata or {}).get("from") for event in result.events} == {"afar"}
    session = await service.get_session(app_name=APP, **WHO)
    assert session is not None
    assert session.state == {"mood": "calm"}
    await service.close()


async def test_a_run_that_is_handed_over_was_not_taken_over(where: str) -> None:
    """A worker that ends without waiting for its runs gives them to the next one: that counts as no attempt."""
    service = opened(where)
    began = asyncio.Event()

    async def hold() -> str:
        """Wait."""
        began.set()
        await asyncio.sleep(0.2)
        return "ok"

    async with client_of(service) as client:
        async with worker_of(service, [call("hold"), "Done."], hold, drain=0):
            run = await client.submit("Go.", **WHO)
            await asyncio.wait_for(began.wait(), 60)
        async with worker_of(service, [call("hold"), "Done."], hold):
            assert (await asyncio.wait_for(run.result(), 60)).status == "final"
        info = await run.info()
        assert (info.takeovers, info.attempts) == (0, 1)
    await service.close()
