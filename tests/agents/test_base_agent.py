"""Agents of any kind: names, trees, callbacks (cases area 20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from copy import copy, deepcopy
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, call, collect, context, event, said, story
from pydantic import field_validator

from flowloom import (
    AgentTool,
    BaseAgent,
    ConfigurationError,
    Context,
    Event,
    EventActions,
    InMemoryRunner,
    InvocationContext,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
)
from flowloom.errors import AgentNameError, DuplicateAgentError, NotSupportedError


class Speaker(BaseAgent):
    """Says one thing."""

    line: str = "body"

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, content=said(self.line))


def saying(line: str) -> Any:
    return lambda callback_context: said(line)


def nothing(callback_context: Context) -> None:
    return None


# -- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "A1", "my_agent", "my-agent", "_x", "1st", "größe", "-"])
def test_decision_24_a_name_may_have_letters_digits_underscores_and_dashes(name: str) -> None:
    assert BaseAgent(name=name).name == name


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "a@1", "{a}", "a\n", " a"])
def test_decision_24_any_other_name_is_a_typed_error(name: str) -> None:
    with pytest.raises(AgentNameError, match="letters"):
        BaseAgent(name=name)


def test_decision_24_user_is_reserved() -> None:
    with pytest.raises(AgentNameError, match="`user`"):
        LlmAgent(name="user")


# -- the tree ---------------------------------------------------------------------------------------


def family() -> BaseAgent:
    return BaseAgent(
        name="root", sub_agents=[BaseAgent(name="child", sub_agents=[BaseAgent(name="grandchild")]), LlmAgent(name="b")]
    )


@pytest.mark.parametrize("name", ["root", "child", "grandchild", "b"])
def test_an_agent_is_found_by_its_name(name: str) -> None:
    """Find | self, child, grandchild | found."""
    found = family().find_agent(name)
    assert found is not None
    assert found.name == name


def test_a_name_that_is_not_there_is_not_found() -> None:
    assert family().find_agent("gone") is None
    assert family().find_sub_agent("root") is None


def test_parent_and_root_are_known() -> None:
    root = family()
    grandchild = root.find_agent("grandchild")
    assert grandchild is not None
    assert grandchild.parent_agent is root.find_agent("child")
    assert grandchild.root_agent is root
    assert root.parent_agent is None


def test_one_agent_listed_twice_is_an_error_that_names_it() -> None:
    """Tree | duplicate object | error."""
    child = BaseAgent(name="child")
    with pytest.raises(DuplicateAgentError, match=r"`root`.*`child`"):
        BaseAgent(name="root", sub_agents=[child, child])


def test_two_sub_agents_of_one_name_are_an_error_that_names_them() -> None:
    with pytest.raises(DuplicateAgentError, match=r"`root`.*`child`"):
        BaseAgent(name="root", sub_agents=[BaseAgent(name="child"), LlmAgent(name="child")])


@pytest.mark.parametrize("twin", ["root", "child", "grandchild"])
@pytest.mark.parametrize("kind", [SequentialAgent, LoopAgent, ParallelAgent, LlmAgent])
def test_decision_24_names_are_unique_in_the_tree_root_included(kind: type[BaseAgent], twin: str) -> None:
    """Duplicate names / objects at any level | error, when the runner is built at the latest."""
    with pytest.raises(DuplicateAgentError, match=f"`{twin}`"):
        InMemoryRunner(
            kind(
                name="root",
                sub_agents=[
                    BaseAgent(name="child", sub_agents=[BaseAgent(name="grandchild")]),
                    BaseAgent(name="other", sub_agents=[BaseAgent(name=twin)]),
                ],
            )
        )


def test_decision_35_one_agent_may_have_several_parents() -> None:
    shared = LlmAgent(name="shared")
    first = LlmAgent(name="first", sub_agents=[shared])
    second = LlmAgent(name="second", sub_agents=[shared])
    assert shared.parent_agent is first
    root = LlmAgent(name="root", sub_agents=[first, second])
    assert InMemoryRunner(root).agent is root


async def test_decision_35_its_place_belongs_to_the_run() -> None:
    """Each parent's model and global instruction count where it runs below that parent."""
    shared = LlmAgent(name="shared")
    first = agent("first", sub_agents=[shared])
    second = agent("second", "from second", sub_agents=[shared])
    assert shared.parent_agent is first
    ctx = context(second).below(shared)
    assert [e.text for e in await collect(shared.run_async(ctx))] == ["from second"]


def test_a_clone_is_a_tree_of_its_own() -> None:
    root = LlmAgent(name="root", instruction="a", tools=[nothing], sub_agents=[LlmAgent(name="child")])
    copy = root.clone({"name": "copy"})
    assert (copy.name, copy.instruction) == ("copy", "a")
    assert copy.sub_agents[0] is not root.sub_agents[0]
    assert copy.sub_agents[0].parent_agent is copy
    copy.tools.clear()
    assert root.tools == [nothing]


@pytest.mark.parametrize(
    "copied",
    [copy, deepcopy, lambda root: root.model_copy(), lambda root: root.model_copy(update={"description": "Helps."})],
)
async def test_a_copy_made_in_any_way_is_a_clone(copied: Callable[[LlmAgent], LlmAgent]) -> None:
    """As google-adk's agents are copied, which are pydantic models."""
    root = agent("root", "yes", sub_agents=[LlmAgent(name="child")])
    other = copied(root)
    assert other.find_agent("child") is not root.find_agent("child")
    assert [event.text for event in await collect(other.run_async(context(other)))] == ["yes"]


def test_fields_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="`instrucion` is no field; the closest is `instruction`"):
        LlmAgent(name="a", instrucion="typo")


def test_decision_34_subclasses_add_fields_and_validators() -> None:
    class Strict(LlmAgent):
        level: int = 1

        @field_validator("level")
        @classmethod
        def _positive(cls, value: int) -> int:
            if value < 1:
                raise ValueError("level must be positive")
            return value

    assert Strict(name="a", level=3).level == 3
    with pytest.raises(ConfigurationError, match="positive"):
        Strict(name="a", level=0)


# -- callbacks --------------------------------------------------------------------------------------


async def test_what_a_before_callback_says_takes_the_place_of_the_turn() -> None:
    """Before returns content | body not run; one event by agent with empty deltas."""
    [only] = await Chat(Speaker(name="a", before_agent_callback=saying("before"))).say("go")
    assert (only.author, only.text) == ("a", "before")
    assert only.actions.state_delta == {}
    assert only.actions.artifact_delta == {}


async def test_callbacks_that_say_nothing_leave_the_body_alone() -> None:
    """All None | body event only."""
    root = Speaker(name="a", before_agent_callback=nothing, after_agent_callback=[nothing, nothing])
    assert story(await Chat(root).say("go")) == ["a: body"]


async def test_what_an_after_callback_says_is_one_more_event() -> None:
    """After returns content | body event + extra event."""
    assert story(await Chat(Speaker(name="a", after_agent_callback=saying("after"))).say("go")) == [
        "a: body",
        "a: after",
    ]


async def test_the_first_callback_that_answers_wins() -> None:
    root = Speaker(name="a", after_agent_callback=[nothing, saying("one"), saying("two")])
    assert story(await Chat(root).say("go")) == ["a: body", "a: one"]


async def test_a_callback_may_be_async() -> None:
    async def later(callback_context: Context) -> types.Content:
        return said("later")

    assert story(await Chat(Speaker(name="a", after_agent_callback=later)).say("go")) == ["a: body", "a: later"]


async def test_after_a_before_callback_that_answered_no_after_callback_runs() -> None:
    root = Speaker(name="a", before_agent_callback=saying("before"), after_agent_callback=saying("after"))
    assert story(await Chat(root).say("go")) == ["a: before"]


async def test_a_before_callback_ends_its_own_agent_only() -> None:
    """`end_invocation` affects that agent's run; a sequence around it goes on (spec 17.5)."""
    row = SequentialAgent(
        name="row", sub_agents=[Speaker(name="one", before_agent_callback=saying("x")), Speaker(name="two")]
    )
    assert story(await Chat(row).say("go")) == ["one: x", "two: body"]


async def test_state_that_a_callback_writes_is_an_event_of_its_own_and_the_turn_goes_on() -> None:
    def note(callback_context: Context) -> None:
        callback_context.state["n"] = callback_context.state.get("n", 0) + 1

    chat = Chat(Speaker(name="a", before_agent_callback=note, after_agent_callback=note))
    events = await chat.say("go")
    assert [(e.text, e.actions.state_delta) for e in events] == [("", {"n": 1}), ("body", {}), ("", {"n": 2})]
    assert (await chat.state())["n"] == 2


async def test_what_a_callback_says_and_what_it_writes_are_one_event() -> None:
    def both(callback_context: Context) -> types.Content:
        callback_context.state["n"] = 1
        return said("noted")

    for hook in ("before_agent_callback", "after_agent_callback"):
        events = await Chat(Speaker(name="a", **{hook: both})).say("go")
        assert (events[-1].text, events[-1].actions.state_delta) == ("noted", {"n": 1})


async def test_an_after_callback_that_speaks_and_escalates_ends_the_loop_around_it() -> None:
    def enough(callback_context: Context) -> types.Content:
        callback_context.actions.escalate = True
        return said("enough")

    loop = LoopAgent(name="loop", sub_agents=[Speaker(name="a", after_agent_callback=enough)], max_iterations=3)
    assert story(await Chat(loop).say("go")) == ["a: body", "a: enough"]


async def test_an_event_of_a_custom_agent_tells_its_place_in_workflows_only() -> None:
    row = SequentialAgent(name="row", sub_agents=[Speaker(name="a")])
    for root, path in ((Speaker(name="a"), None), (row, "row@1/a@1")):
        [only] = await Chat(root).say("go")
        assert (only.node_info and only.node_info.path) == path


async def test_events_that_a_custom_agent_passes_on_keep_their_places() -> None:
    """Those of a workflow in it; and those of an agent that runs as a tool, which has none."""

    class Passing(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            for member in self.sub_agents:
                async for each in member.run_async(ctx):
                    yield each

    inner = SequentialAgent(name="inner", sub_agents=[Speaker(name="a")])
    caller = agent("caller", call("aid", request="x"), "done", tools=[AgentTool(agent("aid", "helped"))])
    row = SequentialAgent(name="row", sub_agents=[Passing(name="passing", sub_agents=[inner, caller])])
    chat = Chat(row, config=RunConfig(forward_agent_tool_events=True))
    places = {each.author: each.node_info and each.node_info.path for each in await chat.say("go")}
    assert places == {"a": "row@1/passing@1/inner@1/a@1", "caller": "row@1/passing@1", "aid": None}


async def test_an_artifact_that_a_callback_saves_is_on_its_event() -> None:
    async def keep(callback_context: Context) -> None:
        await callback_context.save_artifact("a.txt", types.Part(text="x"))

    events = await Chat(Speaker(name="a", before_agent_callback=keep)).say("go")
    assert events[0].actions.artifact_delta == {"a.txt": 0}


@pytest.mark.parametrize("hook", ["before_agent_callback", "after_agent_callback"])
async def test_a_callback_that_fails_ends_the_run(hook: str) -> None:
    def broken(callback_context: Context) -> None:
        raise RuntimeError("no database")

    chat = Chat(Speaker(name="a", **{hook: broken}))
    with pytest.raises(RuntimeError, match="no database"):
        await chat.say("go")
    texts = [e.text for e in await chat.stored() if e.author == "a" and e.text]
    assert texts == ([] if hook == "before_agent_callback" else ["body"])


async def test_a_turn_that_was_ended_before_the_body_skips_it() -> None:
    """Ended | already ended before body | body skipped."""

    def end(callback_context: Context) -> None:
        callback_context.get_invocation_context().end_invocation = True

    root = Speaker(name="a", before_agent_callback=end, after_agent_callback=saying("after"))
    assert await Chat(root).say("go") == []


async def test_a_turn_that_was_ended_stays_ended_if_the_callback_that_ended_it_writes_state_too() -> None:
    def end(callback_context: Context) -> None:
        callback_context.get_invocation_context().end_invocation = True
        callback_context.state["ended"] = True

    events = await Chat(Speaker(name="a", before_agent_callback=end)).say("go")
    assert [(each.text, each.actions.state_delta) for each in events] == [("", {"ended": True})]


async def test_a_body_that_ends_the_turn_has_no_after_callbacks() -> None:
    """Ended | body ends it | after callback not run."""

    class Ending(Speaker):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author=self.name, content=said("bye"))
            ctx.end_invocation = True

    root = Ending(name="a", after_agent_callback=saying("after"))
    assert story(await Chat(root).say("go")) == ["a: bye"]


# -- the body ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "author"), [("user", "user"), ("model", "a")])
async def test_an_event_without_an_author_gets_one_by_its_role(role: str, author: str) -> None:
    class Anonymous(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(content=types.Content(role=role, parts=[types.Part(text="x")]))

    [only] = await Chat(Anonymous(name="a")).say("go")
    assert only.author == author
    assert only.invocation_id


async def test_an_event_without_content_or_author_is_the_agents() -> None:
    class Noting(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(actions=EventActions(state_delta={"seen": True}))

    [only] = await Chat(Noting(name="a")).say("go")
    assert only.author == "a"


async def test_a_partial_event_escalates_nothing() -> None:
    """It is not stored: a run that resumes this one would not know of it."""

    class Hinting(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(content=said("h"), partial=True, actions=EventActions(escalate=True))
            yield Event(content=said("hi"))

    loop = LoopAgent(name="loop", max_iterations=2, sub_agents=[Hinting(name="a")])
    assert [each.text for each in await Chat(loop, config=STREAMED).say("go") if not each.partial] == ["hi", "hi"]


async def test_a_custom_agent_runs_its_members_as_it_likes() -> None:
    class Twice(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            for child in (*self.sub_agents, *self.sub_agents):
                async for each in child.run_async(ctx):
                    yield each

    root = Twice(name="root", sub_agents=[agent("one", "1", "2"), Speaker(name="two")])
    assert story(await Chat(root).say("go")) == ["one: 1", "two: body", "one: 2", "two: body"]


async def test_the_body_is_closed_before_the_run_that_was_left() -> None:
    """Whatever it has to put away, and however long that takes."""
    closed: list[str] = []

    class Holding(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            try:
                yield Event(content=said("hi"))
            finally:
                await asyncio.sleep(0.01)
                closed.append(self.name)

    stream = Chat(Holding(name="a")).runner.run_async(user_id="ann", session_id="s1", new_message="go")
    await anext(stream)
    await stream.aclose()
    assert closed == ["a"]


async def test_an_agent_without_a_body_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match="_run_async_impl"):
        await Chat(BaseAgent(name="a")).say("go")


def test_live_runs_are_refused_with_the_remedy() -> None:
    with pytest.raises(NotSupportedError, match="run_async"):
        Speaker(name="a").run_live(context(Speaker(name="a")))


async def test_what_a_custom_agent_yields_is_stored_before_it_goes_on() -> None:
    seen: list[int] = []

    class Counting(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author=self.name, content=said("one"))
            seen.append(len(ctx.session.events))
            yield Event(author=self.name, content=said("two"))
            seen.append(len(ctx.session.events))

    await Chat(Counting(name="a")).say("go")
    assert seen == [2, 3]


async def test_running_an_agent_changes_nothing_about_it() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    root = agent("root", call("add", a=1), "done", tools=[add], instruction="Be kind.", sub_agents=[LlmAgent(name="c")])
    before = {name: repr(getattr(root, name)) for name in type(root).model_fields if name != "model"}
    await Chat(root).say("go")
    assert {name: repr(getattr(root, name)) for name in type(root).model_fields if name != "model"} == before


async def test_one_agent_runs_in_many_sessions_at_once() -> None:
    import asyncio

    async def slow(callback_context: Context) -> None:
        await asyncio.sleep(0)

    root = agent("root", *[f"answer {n}" for n in range(20)], before_agent_callback=slow)
    runner = InMemoryRunner(root, app_name="app")
    chats = [Chat(runner=runner, session_id=f"s{n}") for n in range(20)]
    turns = await asyncio.gather(*(chat.say(f"hi {n}") for n, chat in enumerate(chats)))
    assert sorted(turn[0].text for turn in turns) == sorted(f"answer {n}" for n in range(20))
    for n, chat in enumerate(chats):
        stored = await chat.stored()
        assert len(stored) == 2
        assert stored[0].text == f"hi {n}"


async def test_a_history_event_of_nobody_in_the_tree_is_no_problem() -> None:
    root = agent("root", "done")
    ctx = context(root, event("stranger", "hello"), event("user", "go"))
    assert [e.text for e in await collect(root.run_async(ctx))] == ["done"]
