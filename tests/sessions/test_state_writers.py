"""What writes of state at the same time come to, in every store: what `docs/sessions.md` says of them."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from kit import agent, system_text

from flowloom import (
    AgentTool,
    BaseSessionService,
    Event,
    EventActions,
    LlmAgent,
    ParallelAgent,
    Runner,
    ToolContext,
)
from flowloom.errors import JsonDataError, SessionBusyError
from flowloom.testing import ScriptedModel, call
from sessions.stores import Open, open_store

__all__ = ["open_store"]

NAMES: Any = {"app_name": "app", "user_id": "ann"}


class Meeting:
    """A tool that reads a number, waits until as many as there are meant to be have read it, and writes one more."""

    def __init__(self, size: int) -> None:
        self.size, self.begun, self.met = size, asyncio.Event(), asyncio.Event()

    async def count(self, who: str, key: str, tool_context: ToolContext) -> int:
        """Count."""
        seen = tool_context.state.get(key, 0)
        self.size -= 1
        self.begun.set()
        if self.size <= 0:
            self.met.set()
        await self.met.wait()
        tool_context.state[key] = seen + 1
        tool_context.state[who] = True
        tool_context.state["temp:by"] = who
        return seen


def runner(service: BaseSessionService, root: Any, **options: Any) -> Runner[Any]:
    return Runner(app_name="app", agent=root, session_service=service, auto_create_session=True, **options)


def counting(meeting: Meeting, who: str, key: str = "n") -> LlmAgent:
    asked = call("count", who=who, key=key)
    return agent("counter", asked, "Done.", tools=[meeting.count], instruction="{n?} {temp:by?}")


async def state_of(service: BaseSessionService, session_id: str = "s1") -> dict[str, Any]:
    session = await service.get_session(**NAMES, session_id=session_id)
    assert session is not None
    return session.state


async def run(host: Runner[Any], session_id: str = "s1") -> Any:
    return await host.run_to_result(user_id="ann", session_id=session_id, new_message="Go.")


async def test_runs_that_queue_lose_nothing(open_store: Open) -> None:
    """The second run on a session begins with what the first has left; its `temp:` state begins empty."""
    hosts = [runner(open_store(), counting(Meeting(1), who)) for who in ("one", "two")]
    await asyncio.gather(*map(run, hosts))
    assert await state_of(open_store()) == {"n": 2, "one": True, "two": True}
    shown = sorted(system_text(host.agent.model.requests[0]).split("\n")[0] for host in hosts)  # type: ignore[attr-defined]
    assert shown == [" ", "1 "]


async def test_a_run_that_is_refused_writes_nothing(open_store: Open) -> None:
    """With `reject` the second run does not begin, and the state is what the first makes of it."""
    meeting = Meeting(2)
    first = asyncio.create_task(run(runner(open_store(), counting(meeting, "one"))))
    await meeting.begun.wait()
    with pytest.raises(SessionBusyError):
        await run(runner(open_store(), counting(meeting, "two"), concurrency="reject"))
    meeting.met.set()
    await first
    assert await state_of(open_store()) == {"n": 1, "one": True}


async def test_runs_side_by_side_keep_other_keys_and_lose_a_count(open_store: Open) -> None:
    """With `allow` each run sees what was there when it began; the value stored last stays, keys of others stay."""
    meeting = Meeting(2)
    hosts = [runner(open_store(), counting(meeting, who), concurrency="allow") for who in ("one", "two")]
    await hosts[0].session_service.get_or_create_session(**NAMES, session_id="s1")
    await asyncio.gather(*map(run, hosts))
    assert await state_of(open_store()) == {"n": 1, "one": True, "two": True}
    shown = [system_text(host.agent.model.requests[1]).split("\n")[0] for host in hosts]  # type: ignore[attr-defined]
    assert shown == ["1 one", "1 two"]


@pytest.mark.parametrize("key", ["user:n", "app:n"])
async def test_runs_on_two_sessions_do_not_see_each_others_shared_state(open_store: Open, key: str) -> None:
    """A run sees the state of user and app as it was when it began; the value stored last stays, for both sessions."""
    meeting = Meeting(2)
    hosts = [runner(open_store(), counting(meeting, who, key)) for who in ("one", "two")]
    await asyncio.gather(run(hosts[0], "s1"), run(hosts[1], "s2"))
    service = open_store()
    assert await state_of(service, "s1") == {key: 1, "one": True}
    assert await state_of(service, "s2") == {key: 1, "two": True}


async def test_a_run_does_not_see_what_a_client_appends_meanwhile(open_store: Open) -> None:
    """State that is appended while a run goes on is kept, and is there for the next run."""
    service, meeting = open_store(), Meeting(2)
    first = asyncio.create_task(run(runner(service, counting(meeting, "one"))))
    await meeting.begun.wait()
    client = open_store()
    session = await client.get_session(**NAMES, session_id="s1")
    assert session is not None
    await client.append_event(session, Event(author="user", actions=EventActions(state_delta={"n": 7, "set": True})))
    meeting.met.set()
    result = await first
    assert [part.response for event in result.events for part in event.get_function_responses()] == [{"result": 0}]
    assert await state_of(open_store()) == {"n": 1, "one": True, "set": True}


async def test_calls_of_one_answer_are_merged_in_their_order(open_store: Open) -> None:
    """Of one key the later call's value stays, whichever came last; dicts are merged key by key, lists are not."""
    turn = asyncio.Event()

    async def slow(tool_context: ToolContext) -> dict[str, Any]:
        """Write last."""
        await turn.wait()
        seen = deepcopy(tool_context.state.to_dict())
        tool_context.state.update({"name": "slow", "done": {"slow": 1}, "list": ["slow"]})
        tool_context.state["basket"].append("tea")
        return seen

    async def quick(tool_context: ToolContext) -> str:
        """Write first."""
        tool_context.state.update({"name": "quick", "done": {"quick": 1}, "list": ["quick"], "temp:note": 1})
        tool_context.state["basket"].append("milk")
        turn.set()
        return "done"

    service = open_store()
    await service.create_session(**NAMES, session_id="s1", state={"basket": []})
    asking = [call("slow"), call("quick")]
    root = agent("clerk", asking, "Done.", tools=[slow, quick], instruction="{name?}")
    result = await run(runner(service, root))
    seen = result.events[1].get_function_responses()[0].response
    assert seen == {"name": "quick", "done": {"quick": 1}, "list": ["quick"], "temp:note": 1, "basket": ["milk"]}
    merged = {"name": "quick", "done": {"slow": 1, "quick": 1}, "list": ["quick"], "basket": ["milk", "tea"]}
    assert await state_of(open_store()) == merged
    assert system_text(root.model.requests[1]).startswith("quick")  # type: ignore[union-attr]


async def test_parallel_branches_share_the_state_and_the_last_write_stays(open_store: Open) -> None:
    """Branches see each other's writes at once; of one key the value stored last stays, as a whole."""
    first = asyncio.Event()

    async def early(tool_context: ToolContext) -> str:
        """Write first."""
        tool_context.state.update({"name": "early", "done": {"early": 1}, "temp:note": "seen"})
        return "done"

    async def late(tool_context: ToolContext) -> str:
        """Write when the other's write is stored."""
        await first.wait()
        seen = (tool_context.state["name"], tool_context.state["temp:note"])
        tool_context.state.update({"name": "late", "done": {"late": 1}})
        return " ".join(seen)

    async def stored(callback_context: Any) -> None:
        first.set()

    branches = [
        agent("a", call("early"), "Done.", tools=[early], after_agent_callback=stored),
        agent("b", call("late"), "Done.", tools=[late]),
    ]
    result = await run(runner(open_store(), ParallelAgent(name="both", sub_agents=branches)))
    results = [part.response for event in result.events for part in event.get_function_responses()]
    assert results == [{"result": "done"}, {"result": "early seen"}]
    assert await state_of(open_store()) == {"name": "late", "done": {"late": 1}}


async def test_an_agent_as_a_tool_writes_to_its_callers_state(open_store: Open) -> None:
    """What it writes, `temp:` among it, is seen by the caller in its next step."""

    def note(tool_context: ToolContext) -> str:
        """Note."""
        tool_context.state.update({"kept": 1, "temp:gone": 2})
        return "noted"

    inner = agent("inner", call("note"), "Noted.", tools=[note], description="Notes.")
    root = agent("outer", call("inner", request="Note."), "Done.", tools=[AgentTool(inner)])
    root.instruction = "{kept?} {temp:gone?}"
    await run(runner(open_store(), root))
    assert isinstance(root.model, ScriptedModel)
    assert system_text(root.model.requests[1]).startswith("1 2")
    assert await state_of(open_store()) == {"kept": 1}


async def test_a_copy_that_is_changed_changes_nothing(open_store: Open) -> None:
    """The state of a session that was read is a copy: only events change what is stored."""
    service = open_store()
    session = await service.create_session(**NAMES, session_id="s1", state={"n": 1})
    session.state["n"] = 2
    assert await state_of(service) == {"n": 1}


async def test_a_new_sessions_state_is_json_data_in_every_store(open_store: Open) -> None:
    """State given to `create_session` becomes JSON, as written state does; what has no form in it is refused."""
    service = open_store()
    given: dict[str, Any] = {
        "set": {1},
        "user:pair": (1, 2),
        "app:keys": {1: "x"},
        "nan": float("nan"),
        "temp:o": object(),
    }
    made = await service.create_session(**NAMES, session_id="s1", state=given)
    kept = {"set": [1], "user:pair": [1, 2], "app:keys": {"1": "x"}, "nan": "NaN"}
    assert (made.state, await state_of(open_store()), given["set"]) == (kept, kept, {1})
    with pytest.raises(JsonDataError, match="`desk`"):
        await service.create_session(**NAMES, session_id="s2", state={"desk": object()})
    assert await service.get_session(**NAMES, session_id="s2") is None


async def test_an_event_keeps_the_value_that_it_wrote(open_store: Open) -> None:
    """A list that a later step, or run, changes in place stays as it was in the events before, read from anywhere."""

    def add(what: str, tool_context: ToolContext) -> str:
        """Put into the basket."""
        tool_context.state.setdefault("basket", []).append(what)
        return what

    service = open_store()
    host = runner(service, agent("clerk", call("add", what="tea"), call("add", what="milk"), "Done.", tools=[add]))
    await run(host)
    host.agent = agent("clerk", call("add", what="rum"), "Done.", tools=[add])
    await run(host)
    for each in (service, open_store()):
        session = await each.get_session(**NAMES, session_id="s1")
        assert session is not None
        baskets = [event.actions.state_delta["basket"] for event in session.events if event.actions.state_delta]
        assert baskets == [["tea"], ["tea", "milk"], ["tea", "milk", "rum"]]
    fork = await service.fork(**NAMES, session_id="s1", up_to_event_id=session.events[2].id)
    assert fork.state == {"basket": ["tea"]}


async def test_state_that_a_client_appends_is_json_data_in_every_store(open_store: Open) -> None:
    """What `append_event` is given is kept as JSON; what has no form in it is refused, with the key, and not stored."""
    service = open_store()
    session = await service.create_session(**NAMES, session_id="s1")
    given: dict[str, Any] = {"set": {1}, "pair": (1, 2), "deep": [{"x": (1,)}], "temp:o": object()}
    await service.append_event(session, Event(author="user", actions=EventActions(state_delta=given)))
    assert await state_of(open_store()) == {"set": [1], "pair": [1, 2], "deep": [{"x": [1]}]}
    with pytest.raises(JsonDataError, match="`desk`"):
        await service.append_event(
            session, Event(author="user", actions=EventActions(state_delta={"desk": object(), "set": 0}))
        )
    stored = await open_store().get_session(**NAMES, session_id="s1")
    assert stored is not None
    assert (len(stored.events), stored.state["set"], stored.events[0].actions.state_delta["pair"]) == (1, [1], [1, 2])
