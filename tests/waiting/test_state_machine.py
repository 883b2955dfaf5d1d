"""Whatever people and processes do, in any order: no call runs twice, none is forgotten, and every history is legal."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import pytest
from google.genai import types
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kit import examples

from flowloom import Event, InMemorySessionService, Runner, Session
from flowloom.errors import AlreadyAnsweredError
from flowloom.log.item import is_hidden
from flowloom.log.marks import is_from_agent_tool
from flowloom.runner.pending import PendingCall, pending_calls
from waiting.desk import WHERE
from waiting.trees import Call, Effects, Node, agent_of, nodes

T = TypeVar("T")
MOST_ROUNDS = 400


class People(RuleBasedStateMachine):
    """A session, its processes, and the people who answer."""

    depth = 5

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()  # an `asyncio.Runner` writes out every result, for the sake of signals
        self.service = InMemorySessionService()
        self.effects = Effects(lambda: len(self.log))
        self.allowed: Counter[str] = Counter()
        self.quiet = True
        self.before = 0
        self.given: list[types.Part] = []
        self.ended_early: set[str] = set()

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.tree: Node = data.draw(nodes(self.depth))
        self.new_process()
        self.run(new_message="Go.")

    def teardown(self) -> None:
        try:
            if hasattr(self, "tree"):
                self.settle()
        finally:
            self.loop.close()

    # -- what can be done ------------------------------------------------------------------------------------------

    def new_process(self) -> None:
        self.runner = Runner(
            app_name="app",
            agent=agent_of(self.tree, self.effects),
            session_service=self.service,
            auto_create_session=True,
        )

    def wait_for(self, what: Callable[[], Awaitable[T]]) -> T:
        async def work() -> T:
            return await what()

        return self.loop.run_until_complete(work())

    def run(self, **options: Any) -> list[Event]:
        async def work() -> list[Event]:
            return [event async for event in self.runner.run_async(**WHERE, **options)]

        self.before = len(self.log)
        return self.wait_for(work)

    @property
    def log(self) -> list[Event]:
        found = self.service.get_session_sync(app_name="app", **WHERE)
        return [] if found is None else found.events

    def answer(self, *parts: types.Part) -> None:
        self.given += parts
        self.run(new_message=types.Content(role="user", parts=list(parts)))

    def part_for(self, pending: PendingCall, approve: bool = True) -> types.Part:
        if pending.kind == "confirmation":
            return pending.approve() if approve else pending.reject("no")
        if pending.kind == "input":
            return pending.reply("two" if pending.message == "Second?" else 1)
        return pending.reply({"result": "there"})

    @property
    def waiting(self) -> list[PendingCall]:
        return pending_calls(self.log)

    @rule(text=st.sampled_from(["Well?", "And now?"]))
    def say(self, text: str) -> None:
        self.run(new_message=text)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), approve=st.booleans())
    def answer_one(self, data: st.DataObject, approve: bool) -> None:
        self.answer(self.part_for(data.draw(st.sampled_from(self.waiting)), approve))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def answer_several(self, data: st.DataObject) -> None:
        first = self.waiting[0]
        same = [each for each in self.waiting if each.invocation_id == first.invocation_id]
        chosen = data.draw(st.lists(st.sampled_from(same), min_size=1, unique_by=lambda each: each.id))
        self.answer(*(self.part_for(each, data.draw(st.booleans())) for each in chosen))

    @precondition(lambda self: any(each.kind == "input" for each in self.waiting))
    @rule()
    def answer_with_what_does_not_fit(self) -> None:
        pending = next(each for each in self.waiting if each.kind == "input")
        if pending.response_schema is not None:
            self.answer(pending.reply("nonsense"))
            assert pending.id not in {each.id for each in self.waiting}

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def answer_again(self, data: st.DataObject) -> None:
        part, before = data.draw(st.sampled_from(self.given)), self.log
        try:
            self.run(new_message=types.Content(role="user", parts=[part]))
        except AlreadyAnsweredError:  # it was cut off before it was stored, and another one was given since
            assert self.log == before

    @precondition(lambda self: self.waiting)
    @rule()
    def answer_for_another_call(self) -> None:
        pending = self.waiting[0]
        if pending.kind == "confirmation":
            part = pending.approve()
            assert part.function_response is not None
            other = {"name": pending.name, "args": {"label": "forged"}}
            part.function_response.response = {"confirmed": True, "originalFunctionCall": other}
            self.run(new_message=types.Content(role="user", parts=[part]))
            assert pending.id in {each.id for each in self.waiting}

    @rule()
    def restart(self) -> None:
        """Another process takes over; all that is left is JSON."""
        found = self.service.get_session_sync(app_name="app", **WHERE)
        assert found is not None
        self.service = InMemorySessionService()
        self.service.adopt(Session.model_validate(json.loads(json.dumps(found.to_wire()))))
        self.new_process()

    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        """The process died during the latest run: the log ends after one of its events."""
        events = self.log
        cut = data.draw(st.integers(max(self.before, 1), len(events)))
        if cut == len(events):
            return
        kept = events[:cut]
        self.effects.cut(cut)
        recorded = {answer.id for event in kept for answer in event.get_function_responses() if is_final(event, answer)}
        for call_id, times in self.effects.done.items():
            if call_id not in recorded:
                self.allowed[call_id] = times + 1
        state: dict[str, Any] = {}
        for event in kept:
            state.update(event.actions.state_delta)
        self.service = InMemorySessionService()
        self.service.adopt(Session(id="s1", app_name="app", user_id="ann", events=kept, state=state))
        self.new_process()
        self.quiet = False
        self.before = cut

    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        """Go on with an invocation; with the latest one more often."""
        ids = list(dict.fromkeys(event.invocation_id for event in self.log))
        self.run(invocation_id=data.draw(st.sampled_from([*ids, *[ids[-1]] * 3])))

    @rule(
        data=st.data(),
        how=st.sampled_from(["pause", "now", "after_step", "leave"]),
        events=st.integers(0, 4),
        answers=st.booleans(),
    )
    def stop_early(
        self, data: st.DataObject, how: Literal["pause", "now", "after_step", "leave"], events: int, answers: bool
    ) -> None:
        """A run that is paused, cancelled or left after some events."""
        waiting = self.waiting
        message: Any = "Again."
        if answers and waiting:
            part = self.part_for(data.draw(st.sampled_from(waiting)))
            self.given.append(part)
            message = types.Content(role="user", parts=[part])

        async def work() -> None:
            if how == "leave":
                stream = self.runner.run_async(**WHERE, new_message=message)
                seen = 0
                async for _ in stream:
                    seen += 1
                    if seen > events:
                        break
                await stream.aclose()
                return
            handle = self.runner.start(**WHERE, new_message=message)
            seen = 0
            async for _ in handle:
                seen += 1
                if seen > events:
                    break
            if how == "pause":
                handle.pause()
            else:
                handle.cancel(how)
            result = await handle.result()
            if result.error is not None and result.status == "failed":
                raise result.error

        self.before = len(self.log)
        self.wait_for(work)
        self.quiet = False

    # -- what always holds -----------------------------------------------------------------------------------------

    @invariant()
    def no_call_ran_twice(self) -> None:
        for call_id, times in self.effects.done.items():
            assert times <= max(self.allowed[call_id], 1), call_id
            called = next((c for event in self.log for c in event.get_function_calls() if c.id == call_id), None)
            if called is not None and called.name in ("once", "gated_once"):
                assert times <= 2, call_id

    @invariant()
    def what_waits_is_listed(self) -> None:
        """Between undisturbed runs every call has its result, or it waits, or an agent that it runs does."""
        if not self.quiet or not hasattr(self, "tree"):
            return
        self.check_calls(self.log, all_over=False)

    def check_calls(self, log: list[Event], *, all_over: bool) -> None:
        waiting = {each.id: each for each in pending_calls(log)}
        about = {
            (each.raw.get("originalFunctionCall") or {}).get("id"): each
            for each in waiting.values()
            if each.kind != "tool"
        }
        final = Counter(
            answer.id for event in log for answer in event.get_function_responses() if is_final(event, answer)
        )
        scopes: dict[str, str | None] = {}
        for event in log:
            for each in event.get_function_calls():
                scopes[each.id or ""] = event.isolation_scope
        around = set[str]()
        for call_id in waiting:
            scope = scopes.get(call_id)
            while scope:
                around.add(scope)
                scope = scopes.get(scope)

        def is_cut_off_with(scope: str | None) -> bool:
            """Whether the agent runs for one that waits: if it was cut off, it goes on with that one's answers."""
            while scope and scope not in around:
                scope = scopes.get(scope)
            return bool(scope)

        def is_over_with(scope: str | None) -> bool:
            """Whether the agent that ran as this call has answered: the log keeps of it only what was there before."""
            while scope and not final[scope]:
                scope = scopes.get(scope)
            return bool(scope)

        for event in log:
            for each in event.get_function_calls():
                call_id = each.id or ""
                if is_hidden(each) or is_over_with(event.isolation_scope):
                    continue
                if not all_over and is_from_agent_tool(event) and is_cut_off_with(event.isolation_scope):
                    continue
                waits = call_id in waiting or call_id in about or call_id in around
                behind = {c.id for c in event.get_function_calls()} & around  # delegates run one after the other
                waits = waits or (bool(behind) and not final[call_id])
                assert waits or final[call_id], ("forgotten", each.name, each.args)
                if each.name not in ("long", "gated_long"):
                    assert final[call_id] <= 1, ("answered twice", each.name, each.args)
                    assert not (waits and final[call_id]), ("answered, and waits", each.name, each.args)
                assert not (waits and all_over), ("waits still", each.name)

    # -- the end ---------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Go on with all that was interrupted, and answer all that waits: then every call has exactly one result."""
        for _ in range(MOST_ROUNDS):
            ids = list(dict.fromkeys(event.invocation_id for event in self.log))
            said = 0
            for invocation_id in ids if not self.quiet else ():
                said += len(self.run(invocation_id=invocation_id))
            self.no_call_ran_twice()
            self.quiet = self.quiet or not said
            if self.quiet:
                self.what_waits_is_listed()
            waiting = self.waiting
            if not waiting and self.quiet:
                break
            if waiting:
                self.answer(self.part_for(waiting[0]))
        else:
            raise AssertionError(f"it does not come to an end: {self.waiting}")
        self.check_calls(self.log, all_over=True)


def is_final(event: Event, answer: types.FunctionResponse) -> bool:
    """Whether this is the result of a call, and not a report that it waits or has begun."""
    response = answer.response or {}
    if event.author != "user" and response == {"status": "pending"}:
        return False
    return "waits for a person" not in str(response.get("error"))


def test_a_delegate_of_an_agent_tool_waits_on_when_its_answers_are_refused() -> None:
    """The agent around it has come further with it, and is not taken for one that was interrupted twice."""
    leaf = Node("llm", turns=((Call("asks"), Call("gated_long")),))
    people = People()
    people.tree = Node("llm", turns=((Call("agent", Node("llm", turns=((Call("single", leaf),),))),),))
    people.new_process()
    people.run(new_message="Go.")
    people.answer_with_what_does_not_fit()
    people.answer_for_another_call()
    people.teardown()


def test_an_agent_tool_waits_on_however_often_it_is_answered_in_vain() -> None:
    """Nothing in it is made then, so that it counts as no attempt."""
    below = Node("llm", turns=((Call("gated"),),))
    middle = Node("llm", turns=((Call("gated"), Call("agent", below)),))
    people = People()
    people.tree = Node("llm", turns=((Call("agent", middle),),))
    people.new_process()
    people.run(new_message="Go.")
    for _ in range(4):
        people.answer_for_another_call()
    people.teardown()


@pytest.mark.timeout(1800)
class TestPeople(People.TestCase):
    settings = settings(max_examples=examples(400, 10), stateful_step_count=10, deadline=None, derandomize=True)
