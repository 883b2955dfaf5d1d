"""A run that was cut off anywhere ends as it would have undisturbed."""

from __future__ import annotations

from collections import Counter

import pytest

from flowloom import InMemorySessionService
from flowloom.errors import InvocationNotFoundError
from resuming.company import Company, as_it_was, finish, legal, log_of, per_branch, runner_of


async def undisturbed() -> tuple[Company, object]:
    company = Company()
    runner = runner_of(company.root(), InMemorySessionService())
    await finish(runner, new_message="Plan a trip.")
    return company, await log_of(runner)


async def test_after_every_event() -> None:
    """Same final state, same history, nothing that is in the log done again."""
    _, log = await undisturbed()
    legal(log.events)
    assert log.state["desk_done"] == log.state["clerk_done"] == 1
    invocation_id = log.events[0].invocation_id
    for cut in range(1, len(log.events) + 1):
        again = Company()
        runner = runner_of(again.root(), as_it_was(log.events[:cut]))
        await finish(runner, invocation_id=invocation_id)
        resumed = await log_of(runner)
        legal(resumed.events)
        assert per_branch(resumed.events) == per_branch(log.events), f"cut after event {cut}"
        assert resumed.state == log.state, f"cut after event {cut}"
        done = {answer.id for event in log.events[:cut] for answer in event.get_function_responses()}
        names = [call.name for event in log.events for call in event.get_function_calls() if call.id not in done]
        ran = Counter(line.split()[0] for line in again.ran)
        assert ran == Counter(name for name in names if name != "transfer_to_agent"), f"cut after event {cut}"


async def test_twice_in_a_row() -> None:
    """A run that is resumed may be cut off again, if its tools may be."""
    _, log = await undisturbed()
    invocation_id = log.events[0].invocation_id
    for cut in range(1, len(log.events), 3):
        events = log.events[:cut]
        for steps in (1, 2, 5):
            runner = runner_of(Company(idempotent=True).root(), as_it_was(events))
            stream = runner.run_async(user_id="ann", session_id="s1", invocation_id=invocation_id)
            got = 0
            stored = list(events)
            async for event in stream:
                stored.append(event)
                got += 1
                if got == steps:
                    break
            await stream.aclose()
            events = stored  # as a kill would leave it: without what closing has added
        runner = runner_of(Company(idempotent=True).root(), as_it_was(events))
        await finish(runner, invocation_id=invocation_id)
        resumed = await log_of(runner)
        legal(resumed.events)
        assert resumed.state == log.state
        assert per_branch(resumed.events) == per_branch(log.events)


async def test_an_invocation_that_is_not_there() -> None:
    _, log = await undisturbed()
    runner = runner_of(Company().root(), as_it_was(log.events))
    with pytest.raises(InvocationNotFoundError, match="e-none") as caught:
        await finish(runner, invocation_id="e-none")
    assert caught.value.invocation_id == "e-none"
