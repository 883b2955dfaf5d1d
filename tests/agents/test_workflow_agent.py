"""Workflows of one's own: a class says which member comes next (spec §17.6, decisions 22, 28 and 33)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit import WHERE, Chat, Ran, agent, approve, call, collect, hand_to, pending, requests_of, said, story, user
from waiting.desk import World, by_turn
from waiting.office import payer

from flowloom import (
    BaseAgent,
    Event,
    EventActions,
    InvocationContext,
    LoopAgent,
    ParallelAgent,
    Runner,
    SequentialAgent,
    SqliteSessionService,
    ToolContext,
    WorkflowAgent,
)
from flowloom.agents import FinishedMember
from flowloom.errors import AgentNotFoundError, DuplicateAgentError

Following = BaseAgent | Sequence[BaseAgent] | None


class Says(BaseAgent):
    """Says its name; escalates, if it is to."""

    escalates: bool = False

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(
            author=self.name, content=said(self.name), branch=ctx.branch, actions=EventActions(escalate=self.escalates)
        )


class Order(WorkflowAgent):
    """Runs its members as a list of names says: one, or several at once."""

    order: list[Any]
    left: list[Any] = []  # noqa: RUF012 - every agent has its own

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
        if latest is None:
            self.left = [*self.order, None]
        names = self.left.pop(0)
        members = {agent.name: agent for agent in self.sub_agents}
        return [members[name] for name in names] if isinstance(names, list) else members.get(names)


class Router(WorkflowAgent):
    """Runs the member that the state names, and then the last one."""

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
        if latest is None:
            return self.find_sub_agent(ctx.session.state["to"])
        last = self.sub_agents[-1]
        return None if latest.agent is last else last


class Vote(WorkflowAgent):
    """Runs all members but the last one at once, those only that the state names if it does, and then the last one."""

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
        *voters, counter = self.sub_agents
        if latest is None:
            names = ctx.session.state.get("voters", [agent.name for agent in voters])
            return [agent for agent in voters if agent.name in names]
        return None if latest.agent is counter else counter


class Staged(WorkflowAgent):
    """Runs its first member, then all between the first and the last one at once, then the last one."""

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
        first, *between, last = self.sub_agents
        if latest is None:
            return first
        return None if latest.agent is last else between if latest.agent is first else last


class Endless(WorkflowAgent):
    """Runs its first member again and again, until one escalates."""

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
        return None if latest is not None and latest.escalated else self.sub_agents[0]


def paths(events: Sequence[Event]) -> list[str]:
    return [event.node_info.path for event in events if event.node_info is not None]


# -- the order --------------------------------------------------------------------------------------


async def test_members_run_as_the_workflow_says() -> None:
    """A member may come in any order, more than once, or not at all."""
    flow = Order(name="flow", order=["b", "a", "b"], sub_agents=[Says(name=n) for n in "abc"])
    assert story(await Chat(flow).say("go")) == ["b: b", "a: a", "b: b"]


async def test_the_workflow_is_asked_with_the_member_whose_turn_was_the_latest() -> None:
    """It knows the agent, its index, its round and whether it escalated; nothing at the beginning."""
    seen: list[Any] = []

    class Asked(WorkflowAgent):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
            seen.append(latest and (latest.agent.name, latest.index, latest.number, latest.escalated))
            return self.sub_agents[1 - len(seen) % 2] if len(seen) < 4 else None

    await Chat(Asked(name="flow", sub_agents=[Says(name="a"), Says(name="b", escalates=True)])).say("go")
    assert seen == [None, ("a", 0, 1, False), ("b", 1, 1, True), ("a", 0, 2, False)]


async def test_the_state_that_a_member_wrote_is_there_when_the_workflow_is_asked() -> None:
    """What a member has left under its `output_key` decides who comes next."""

    class ByState(WorkflowAgent):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
            return self.sub_agents[0] if latest is None else self.find_sub_agent(ctx.session.state.pop("next", ""))

    flow = ByState(name="flow", sub_agents=[agent("chooser", "b", output_key="next"), Says(name="a"), Says(name="b")])
    assert story((await Chat(flow).say("go"))[:2]) == ["chooser: b", "b: b"]


@pytest.mark.parametrize("nothing", [None, []])
async def test_none_and_an_empty_list_end_it(nothing: Any) -> None:
    """A workflow that names no member is over."""

    class Empty(WorkflowAgent):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
            return nothing

    row = SequentialAgent(name="row", sub_agents=[Empty(name="flow", sub_agents=[Says(name="a")]), Says(name="b")])
    assert story(await Chat(row).say("go")) == ["b: b"]


async def test_members_at_once_have_branches_of_their_own_and_the_next_one_sees_them_all() -> None:
    """Each of several at once sees its own events only; who comes after them sees all."""
    voters = [agent("a", "yes"), agent("b", "no")]
    counter = agent("counter", "a tie")
    events = await Chat(Vote(name="vote", sub_agents=[*voters, counter])).say("go")
    assert {(event.author, event.branch) for event in events} == {
        ("a", "vote.a"),
        ("b", "vote.b"),
        ("counter", None),
    }
    assert "yes" not in str(requests_of(voters[1])[0].contents)
    assert all(vote in str(requests_of(counter)[0].contents) for vote in ("yes", "no"))


async def test_of_members_at_once_each_starts_before_any_ends() -> None:
    """All of them are at work at the same time."""
    started: list[str] = []
    all_there = asyncio.Event()

    class Waits(Says):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            started.append(self.name)
            if len(started) == 3:
                all_there.set()
            await asyncio.wait_for(all_there.wait(), 5)
            yield Event(author=self.name, content=said(self.name))

    flow = Vote(name="vote", sub_agents=[*(Waits(name=n) for n in "abc"), Says(name="counter")])
    events = await Chat(flow).say("go")
    assert len(events) == 4
    assert events[-1].author == "counter"


async def test_an_agent_that_is_no_member_is_a_typed_error() -> None:
    """It names the workflow, the agent and the members; so does anything that is no agent."""
    for answer in (Says(name="stranger"), [Says(name="stranger")], "stranger", ["stranger"]):

        class Wrong(WorkflowAgent):
            def following(
                self, latest: FinishedMember | None, ctx: InvocationContext, answer: Any = answer
            ) -> Following:
                return answer

        with pytest.raises(AgentNotFoundError, match=r"`flow`.*`stranger`.*`a`"):
            await Chat(Wrong(name="flow", sub_agents=[Says(name="a")])).say("go")


async def test_one_agent_twice_at_once_is_a_typed_error() -> None:
    """It would share its branch and its history with itself."""
    with pytest.raises(DuplicateAgentError, match=r"`flow`.*`a`"):
        await Chat(Order(name="flow", order=[["a", "a"]], sub_agents=[Says(name="a")])).say("go")


async def test_an_error_of_following_names_the_agent() -> None:
    """It says where it came from, and its error event is the workflow's."""
    chat = Chat(Router(name="router", sub_agents=[Says(name="a")]))
    with pytest.raises(KeyError) as caught:
        await chat.say("go")
    assert "in `following`, step 0 of agent `router`" in caught.value.__notes__
    last = (await chat.stored())[-1]
    assert (last.author, last.error_code) == ("router", "KeyError")


async def test_a_class_that_says_nothing_tells_what_to_override() -> None:
    """`following` is what a workflow has to have."""
    with pytest.raises(NotImplementedError, match="override `following`"):
        await Chat(WorkflowAgent(name="flow", sub_agents=[Says(name="a")])).say("go")


async def test_node_paths_tell_the_turn_of_each_member() -> None:
    """The number of a round grows where the order of the members does not go on, or where a group follows a group."""
    flow = Order(
        name="flow", order=["a", "c", "b", ["c", "a"], "b", "c", ["a"], ["b"]], sub_agents=[Says(name=n) for n in "abc"]
    )
    seen = paths(await Chat(flow).say("go"))
    assert sorted(seen[3:5]) == ["flow@1/a@3", "flow@1/c@3"]
    assert seen[:3] == ["flow@1/a@1", "flow@1/c@1", "flow@1/b@2"]
    assert seen[5:] == ["flow@1/b@4", "flow@1/c@4", "flow@1/a@5", "flow@1/b@6"]


# -- escalation -------------------------------------------------------------------------------------


async def test_escalation_is_the_workflows_to_judge() -> None:
    """A member that escalates ends its workflow only if the workflow says so."""
    members = [Says(name="a", escalates=True), Says(name="b")]
    assert story(await Chat(Order(name="flow", order=["a", "b"], sub_agents=members)).say("go")) == ["a: a", "b: b"]
    assert story(await Chat(Endless(name="flow", sub_agents=members)).say("go")) == ["a: a"]


async def test_decision_33_in_a_parallel_branch_an_escalation_ends_the_workflow() -> None:
    """Escalation there ends the branch, with the workflow in it and those around that; siblings finish."""
    flow = Order(name="flow", order=["a", "b"], sub_agents=[Says(name="a", escalates=True), Says(name="b")])
    row = SequentialAgent(name="row", sub_agents=[flow, Says(name="next")])
    for branch in (flow, row):
        events = await Chat(ParallelAgent(name="side", sub_agents=[branch, Says(name="other")])).say("go")
        assert {event.author for event in events} == {"a", "other"}


async def test_decision_33_a_workflow_that_contains_escalation_goes_on_in_its_branch() -> None:
    """With `contains_escalation` it is the workflow alone that is told."""

    class Contains(Order):
        contains_escalation = True

    flow = Contains(name="flow", order=["a", "b"], sub_agents=[Says(name="a", escalates=True), Says(name="b")])
    row = SequentialAgent(name="row", sub_agents=[flow, Says(name="next")])
    events = await Chat(ParallelAgent(name="side", sub_agents=[row])).say("go")
    assert story(events) == ["a: a", "b: b", "next: next"]


async def test_one_of_several_at_once_that_escalates_ends_its_own_branch() -> None:
    """The others finish, and the workflow is told."""
    told: list[bool] = []

    class Told(Vote):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
            if latest is not None:
                told.append(latest.escalated)
            return super().following(latest, ctx)

    inner = SequentialAgent(name="inner", sub_agents=[Says(name="a", escalates=True), Says(name="never")])
    events = await Chat(Told(name="vote", sub_agents=[inner, Says(name="b"), Says(name="count")])).say("go")
    assert sorted(event.author for event in events) == ["a", "b", "count"]
    assert told[0]


# -- resuming ---------------------------------------------------------------------------------------


@pytest.fixture(params=["in memory", "from the log alone"])
def meet(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[], BaseAgent]], Callable[[], Chat]]:
    """Gives the conversation with a tree of agents: the one that is there, or one of another process, with agents of
    its own and what SQLite has kept."""

    def build(root: Callable[[], BaseAgent]) -> Callable[[], Chat]:
        def another() -> Chat:
            service = SqliteSessionService(str(tmp_path / "log"))
            return Chat(runner=Runner(app_name="app", agent=root(), session_service=service, auto_create_session=True))

        if request.param == "from the log alone":
            return another
        chat = Chat(root())
        return lambda: chat

    return build


async def approve_next(chat: Chat, asked: str, **options: Any) -> list[Event]:
    """Approve what an agent has asked for."""
    [request] = [each for event in await chat.stored() if event.author == asked for each in pending([event])]
    return await chat.say(user(approve(request)), **options)


def texts(events: Sequence[Event]) -> list[str]:
    return [f"{event.author}: {event.text}" for event in events if event.text]


async def test_decision_28_a_router_goes_on_in_the_member_that_waits(meet: Any) -> None:
    """Although by what the state says now it would pick another one."""
    world = World()
    now = meet(
        lambda: Router(name="flow", sub_agents=[payer(world, "a", 1), Says(name="b"), Says(name="last")]),
    )
    assert pending(await now().say("go", state_delta={"to": "a"}))
    events = await approve_next(now(), "a", state_delta={"to": "b"})
    assert texts(events) == ["a: a paid.", "last: last"]
    assert world.ran == ["pay 1 bob"]


async def test_decision_28_a_member_in_its_second_round_goes_on_in_it(meet: Any) -> None:
    """The log tells which turn of a member it was, and the workflow is told its round."""

    class Twice(WorkflowAgent):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
            return self.sub_agents[0] if latest is None or latest.number < 2 else None

    world = World()
    now = meet(lambda: Twice(name="flow", sub_agents=[payer(world, "a", 1, "One.", call("pay", amount=2), "Two.")]))
    await now().say("go")
    events = await approve_next(now(), "a")
    assert texts(events) == ["a: One."]
    [request] = pending(events)
    events = await now().say(user(approve(request)))
    assert texts(events) == ["a: Two."]
    assert paths(events)[-1] == "flow@1/a@2"


async def test_decision_28_of_several_at_once_those_go_on_that_wait_and_then_the_next_member(meet: Any) -> None:
    """Who was done says nothing again; nobody counts before all are through."""
    world = World()
    now = meet(
        lambda: Vote(
            name="vote",
            sub_agents=[payer(world, "a", 1), Says(name="b"), payer(world, "c", 3), Says(name="count")],
        )
    )
    assert texts(await now().say("go")) == ["b: b"]
    assert texts(await approve_next(now(), "a")) == ["a: a paid."]
    assert texts(await approve_next(now(), "c")) == ["c: c paid.", "count: count"]
    assert world.ran == ["pay 1 bob", "pay 3 bob"]


async def test_decision_28_several_at_once_go_on_although_the_workflow_would_name_others(meet: Any) -> None:
    """The log tells who ran at once, on which branch."""
    world = World()
    now = meet(
        lambda: Vote(
            name="vote", sub_agents=[payer(world, "a", 1), payer(world, "b", 2), Says(name="c"), Says(name="count")]
        )
    )
    await now().say("go", state_delta={"voters": ["a", "b"]})
    events = await approve_next(now(), "a", state_delta={"voters": ["c"]})
    assert texts(events) == ["a: a paid."]
    assert {event.branch for event in events} == {"vote.a"}
    assert texts(await approve_next(now(), "b")) == ["b: b paid.", "count: count"]


class Dies(BaseAgent):
    """Never says anything the first time, as if its process died."""

    log: Any

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        self.log.append(self.name)
        if self.log.count(self.name) == 1:
            self.log.append("waits")
            await asyncio.Event().wait()
        yield Event(author=self.name, content=said("at last"), branch=ctx.branch)


async def left_after(chat: Chat, author: str) -> str:
    """Leave a run after what an agent says; the invocation's id."""
    stream = chat.runner.run_async(**WHERE, new_message=user("go"))
    async for event in stream:
        if event.author == author:
            await stream.aclose()
            return event.invocation_id
    raise AssertionError(f"{author} said nothing")


async def test_who_ran_at_once_with_others_and_was_cut_off_before_it_said_anything_runs_again(meet: Any) -> None:
    """The workflow is asked again who they were, where it was asked then."""
    log: list[str] = []
    now = meet(
        lambda: Staged(
            name="flow", sub_agents=[Says(name="first"), Says(name="a"), Dies(name="b", log=log), Says(name="last")]
        )
    )
    invocation = await left_after(now(), "a")
    events = await collect(now().runner.run_async(**WHERE, invocation_id=invocation))
    assert texts(events) == ["b: at last", "last: last"]


async def test_a_run_that_is_left_between_two_members_goes_on_with_the_next_one(meet: Any) -> None:
    """Members that were done are not run again."""
    now = meet(lambda: Router(name="flow", sub_agents=[Says(name="a"), Says(name="last")]))
    chat: Chat = now()
    stream = chat.runner.run_async(**WHERE, new_message=user("go"), state_delta={"to": "a"})
    first = await anext(stream)
    await stream.aclose()
    events = await collect(now().runner.run_async(**WHERE, invocation_id=first.invocation_id))
    assert texts(events) == ["last: last"]


async def test_its_callback_is_not_asked_again_when_a_run_that_was_left_in_its_members_goes_on(meet: Any) -> None:
    """The log shows that it was asked: members have run."""
    ran = Ran()
    members = [Says(name=name) for name in "abc"]
    now = meet(lambda: Staged(name="flow", sub_agents=members, before_agent_callback=ran.gives("before")))
    invocation = await left_after(now(), "a")
    assert texts(await collect(now().runner.run_async(**WHERE, invocation_id=invocation))) == ["b: b", "c: c"]
    assert ran == ["before"]


async def test_its_callback_is_asked_again_when_an_answer_resumes_it(meet: Any) -> None:
    """As that of the member is, which begins anew."""
    ran = Ran()
    now = meet(
        lambda: Router(name="flow", sub_agents=[payer(World(), "a", 1)], before_agent_callback=ran.gives("before"))
    )
    await now().say("go", state_delta={"to": "a"})
    await approve_next(now(), "a")
    assert ran == ["before", "before"]


async def test_a_pause_between_two_members_is_kept(meet: Any) -> None:
    """A run that is paused takes no further member; resumed, it goes on with it."""
    now = meet(lambda: Router(name="flow", sub_agents=[agent("a", "A."), agent("last", "Z.")]))
    run = now().runner.start(**WHERE, new_message="go", state_delta={"to": "a"})
    seen: list[Event] = []
    async for event in run:
        seen.append(event)
        run.pause()
    assert texts(seen) == ["a: A."]
    events = await collect(now().runner.run_async(**WHERE, invocation_id=seen[0].invocation_id))
    assert texts(events) == ["last: Z."]


async def test_an_escalation_of_before_the_wait_counts_when_the_run_goes_on(meet: Any) -> None:
    """What a member did in an earlier run is a part of its turn: the loop around it ends."""
    world = World()

    def root() -> BaseAgent:
        row = SequentialAgent(name="row", sub_agents=[Says(name="a", escalates=True), payer(world, "b", 1)])
        return LoopAgent(name="loop", sub_agents=[row], max_iterations=3)

    now = meet(root)
    await now().say("go")
    assert texts(await approve_next(now(), "b")) == ["b: b paid."]


async def test_an_escalation_of_before_the_wait_counts_of_an_agent_that_was_handed_over_to(meet: Any) -> None:
    """It is the turn of the member that has escalated, whoever spoke in it."""

    def leave(tool_context: ToolContext) -> None:
        """Leave."""
        tool_context.actions.escalate = True

    def root() -> BaseAgent:
        world = World()
        helper = by_turn("helper", call("leave"), call("pay", amount=1), "Done.", tools=[leave, world.paying])
        member = by_turn("member", hand_to("helper"), "again", sub_agents=[helper])
        return LoopAgent(name="loop", sub_agents=[member], max_iterations=2)

    now = meet(root)
    await now().say("go")
    assert texts(await approve_next(now(), "helper")) == ["helper: Done."]


async def test_an_escalation_of_several_at_once_counts_when_the_run_goes_on(meet: Any) -> None:
    """It does when one of them had escalated while another one waited."""
    world = World()
    now = meet(
        lambda: LoopAgent(
            name="loop",
            max_iterations=3,
            sub_agents=[ParallelAgent(name="side", sub_agents=[Says(name="a", escalates=True), payer(world, "b", 1)])],
        )
    )
    await now().say("go")
    assert texts(await approve_next(now(), "b")) == ["b: b paid."]


async def test_a_workflow_that_goes_on_is_told_of_the_latest_turn_alone_whether_it_escalated(meet: Any) -> None:
    """Not of another member of the round, nor of an earlier turn of the same one."""
    told: list[Any] = []

    class Told(WorkflowAgent):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
            if latest is not None:
                told.append((latest.agent.name, latest.number, latest.escalated))
            number, at = (latest.number, latest.index + 1) if latest else (1, 0)
            return self.sub_agents[at % 2] if (number, at) < (2, 2) else None

    class Once(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            first = all(event.author != self.name for event in ctx.session.events)
            yield Event(author=self.name, content=said(self.name), actions=EventActions(escalate=first))

    def root() -> BaseAgent:
        asking = payer(World(), "a", 1, "One.", call("pay", amount=2), "Two.")
        row = SequentialAgent(name="row", sub_agents=[Once(name="once"), asking])
        return Told(name="flow", sub_agents=[row, payer(World(), "b", 3, "B.", call("pay", amount=4), "B.")])

    now = meet(root)
    await now().say("go")
    for asked in "abab":
        *_, request = [each for event in await now().stored() if event.author == asked for each in pending([event])]
        await now().say(user(approve(request)))
    assert told == [("row", 1, True), ("b", 1, False), ("row", 2, False), ("b", 2, False)]


async def test_several_at_once_that_go_on_are_asked_for_as_they_were_with_whether_the_one_before_escalated(
    meet: Any,
) -> None:
    """An event of its turn that does not escalate changes nothing of it."""
    told: list[Any] = []

    class Told(Staged):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
            told.append(latest and (latest.agent.name, latest.escalated))
            return super().following(latest, ctx)

    def root() -> BaseAgent:
        first = SequentialAgent(name="first", sub_agents=[Says(name="a", escalates=True), Says(name="b")])
        return Told(name="flow", sub_agents=[first, payer(World(), "c", 1), Says(name="d"), Says(name="last")])

    now = meet(root)
    await now().say("go")
    assert told == [None, ("first", True)]
    await approve_next(now(), "c")
    assert told[2:3] == [("first", True)]


async def test_several_at_once_that_go_on_in_a_second_round_are_asked_for_with_the_first_one(meet: Any) -> None:
    """The latest turn is that of the member which stands last in `sub_agents`, as the log tells, too: in whatever order
    the workflow named them and they ended, and whether they went on or not."""
    told: list[Any] = []

    class Twice(WorkflowAgent):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Following:
            told.append(latest and (latest.agent.name, latest.number))
            first, second = self.sub_agents
            return [second, first] if latest is None else self.sub_agents if latest.number < 2 else None

    now = meet(
        lambda: Twice(
            name="flow", sub_agents=[Says(name="a"), payer(World(), "b", 1, "One.", call("pay", amount=2), "Two.")]
        )
    )
    await now().say("go")
    [request] = pending(await approve_next(now(), "b"))
    assert told == [None, None, ("b", 1)]
    await now().say(user(approve(request)))
    assert told[3:] == [("b", 1), ("b", 2)]


async def test_a_log_without_node_paths_tells_by_its_authors_who_waits() -> None:
    """As logs of other engines are: those of several at once that are done do not run again, at any depth."""
    world = World()

    def root() -> BaseAgent:
        vote = Vote(name="vote", sub_agents=[payer(world, "a", 1), by_turn("b", "B."), by_turn("count", "C.")])
        return SequentialAgent(name="row", sub_agents=[by_turn("first", "F."), vote, by_turn("last", "Z.")])

    chat = Chat(root())
    [request] = pending(await chat.say("go"))
    service = chat.runner.session_service
    log = [event.model_copy(update={"node_info": None}) for event in await chat.stored()]
    await service.delete_session(app_name="app", **WHERE)
    session = await service.create_session(app_name="app", **WHERE)
    for event in log:
        await service.append_event(session, event)
    assert texts(await chat.say(user(approve(request)))) == ["a: a paid.", "count: C.", "last: Z."]


# -- as any other agent -----------------------------------------------------------------------------


@pytest.mark.parametrize("outer", [SequentialAgent, LoopAgent, ParallelAgent])
async def test_it_stands_in_other_workflows_and_they_in_it(outer: Any, meet: Any) -> None:
    """Node paths, the wait and what follows are the same at any depth."""
    world = World()

    def root() -> BaseAgent:
        inner = SequentialAgent(name="inner", sub_agents=[payer(world, "a", 1), Says(name="b")])
        flow = Router(name="flow", sub_agents=[inner, Says(name="last")])
        options = {"max_iterations": 1} if outer is LoopAgent else {}
        return outer(name="outer", sub_agents=[flow, *([] if outer is ParallelAgent else [Says(name="z")])], **options)

    now = meet(root)
    asked = await now().say("go", state_delta={"to": "inner"})
    assert paths(asked)[0] == "outer@1/flow@1/inner@1/a@1"
    events = texts(await approve_next(now(), "a", state_delta={"to": "last"}))
    assert events == ["a: a paid.", "b: b", "last: last", "z: z"][: 3 if outer is ParallelAgent else 4]


async def test_an_agent_may_hand_over_to_it(meet: Any) -> None:
    """It goes on in its member then, too."""
    world = World()

    def root() -> BaseAgent:
        flow = Router(name="flow", sub_agents=[payer(world, "a", 1), Says(name="last")])
        return by_turn("root", hand_to("flow"), "Root.", sub_agents=[flow])

    now = meet(root)
    await now().say("go", state_delta={"to": "a"})
    assert texts(await approve_next(now(), "a", state_delta={"to": "last"}))[:2] == ["a: a paid.", "last: last"]


async def test_its_callbacks_are_asked_before_the_first_and_after_the_last_member() -> None:
    """What they say is the workflow's event; content before it ends the turn."""

    def say(value: str) -> Callable[..., Any]:
        return lambda callback_context: said(value)

    ran = Ran()
    fields: Any = {"sub_agents": [Says(name="a")], "order": ["a"]}
    flow = Order(name="flow", before_agent_callback=ran.gives("before"), after_agent_callback=say("end"), **fields)
    assert story(await Chat(flow).say("go")) == ["a: a", "flow: end"]
    assert ran == ["before"]
    refuses = Order(name="flow", before_agent_callback=say("no"), **fields)
    assert story(await Chat(refuses).say("go")) == ["flow: no"]


async def test_a_class_that_overrides_the_body_is_a_custom_agent_and_may_call_the_workflows(meet: Any) -> None:
    """What it says around its members stays, and the member that waits goes on."""
    world = World()

    class Framed(Router):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author=self.name, content=said("begins"))
            async for event in super()._run_async_impl(ctx):
                yield event

    now = meet(lambda: Framed(name="flow", sub_agents=[payer(world, "a", 1), Says(name="last")]))
    assert pending(await now().say("go", state_delta={"to": "a"}))
    events = await approve_next(now(), "a", state_delta={"to": "last"})
    assert texts(events) == ["flow: begins", "a: a paid.", "last: last"]


async def test_a_custom_agent_that_spoke_before_one_of_its_agents_waits_goes_on(meet: Any) -> None:
    """What it said first does not end its turn; that ends when it has the last word."""

    class Announces(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author=self.name, content=said("begins"))
            async for event in self.sub_agents[0].run_async(ctx):
                yield event

    world = World()
    now = meet(lambda: Announces(name="desk", sub_agents=[payer(world, "a", 1)]))
    await now().say("go")
    assert texts(await approve_next(now(), "a"))[-1:] == ["a: a paid."]


async def test_decision_22_a_consumer_that_leaves_ends_those_that_run_at_once() -> None:
    """No task is left behind."""
    log: list[str] = []
    chat = Chat(Vote(name="vote", sub_agents=[Says(name="a"), Dies(name="b", log=log), Says(name="count")]))
    before = asyncio.all_tasks()
    await left_after(chat, "a")
    assert asyncio.all_tasks() == before
