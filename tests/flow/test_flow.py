"""The flow as a value: printed, edited, run without a model, stopped (contract "Flow" and "Effects")."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import lru_cache, partial
from typing import Any

import pytest
from google.genai import types
from kit import (
    STREAMED,
    Chat,
    agent,
    call,
    collect,
    context,
    declared_names,
    event,
    hand_to,
    no_op,
    requests_of,
    said,
    shown,
    story,
    system_text,
    user,
)

from flowloom import BaseLlm, Context, Event, Flow, InvocationContext, LlmAgent, LlmRequest, LlmResponse, RunConfig
from flowloom.context import DirectEffects, EffectKey
from flowloom.context.hooks import FlowCallbacks
from flowloom.context.observer import Observer
from flowloom.errors import ConfigurationError, Halt, PipelineError, ProcessorError
from flowloom.processors import REQUEST_PROCESSORS, PlanReActPlanner
from flowloom.testing import frozen

ORDER = [
    "basic",
    "tools",
    "auth",
    "confirmation",
    "instructions",
    "identity",
    "contents",
    "planning",
    "code_execution",
    "output_schema",
    "agent_transfer",
    "tool_declarations",
    "file_uploads",
]


def request_names(flow: Flow) -> list[str]:
    return [step.name for step in flow.request_steps]


def response_names(flow: Flow) -> list[str]:
    return [step.name for step in flow.response_steps]


def hello(ctx: InvocationContext, request: LlmRequest) -> None:
    """Says hello."""
    request.append_instructions(["hello"])


def stamp(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
    """Stamps the answer."""
    response.custom_metadata = {"stamped": True}


# -- what it is -------------------------------------------------------------------------------------


def test_decision_01_the_default_order_of_processors() -> None:
    assert request_names(Flow()) == ORDER
    assert request_names(LlmAgent(name="a").flow) == ORDER
    assert len(REQUEST_PROCESSORS) == len(ORDER)


async def test_decision_01_nothing_runs_outside_the_list() -> None:
    """A flow without processors asks the model with an empty request: no hidden hook adds anything."""
    root = agent("root", "done", instruction="Be kind.", tools=[add], flow=Flow([], []))
    await Chat(root).say("go")
    [request] = requests_of(root)
    assert (request.contents, request.tools_dict, system_text(request), request.model) == ([], {}, "", None)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_a_flow_prints_as_a_numbered_list() -> None:
    lines = str(Flow()).splitlines()
    assert lines[0] == "Flow"
    names = [line.split()[1] for line in lines[1:]]
    assert names == [*ORDER, "(model)", *response_names(Flow()), "(tools)"]
    assert [int(line.split()[0]) for line in lines[1:]] == list(range(1, len(lines)))


def test_a_flow_prints_what_each_processor_says_of_itself() -> None:
    """Its documentation, or that of its class; one that says nothing is named alone."""

    class Counts:
        """Counts what it is given."""

        name = "counts"

        def __call__(self, ctx: InvocationContext, request: LlmRequest) -> None: ...

    def silent(ctx: InvocationContext, request: LlmRequest) -> None: ...

    printed = [row.split()[1:] for row in str(Flow([hello, Counts(), silent], [])).splitlines()[1:4]]
    assert printed == [["hello", "Says", "hello."], ["counts", "Counts", "what", "it", "is", "given."], ["silent"]]


def test_a_flow_prints_how_many_callbacks_it_asks() -> None:
    hook = FlowCallbacks(before_model=(hello, hello), after_tool=(hello,))
    assert str(Flow().with_callbacks(hook)).endswith("\n      callbacks: before_model × 2, after_tool × 1")
    assert "callbacks" not in str(Flow())


def test_an_agent_shows_the_flow_in_use() -> None:
    flow = Flow().without("identity")
    assert request_names(LlmAgent(name="a", flow=flow).flow) == request_names(flow)


# -- editing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"before": "contents"}, [*ORDER[:6], "hello", *ORDER[6:]]),
        ({"after": "contents"}, [*ORDER[:7], "hello", *ORDER[7:]]),
        ({"replace": "contents"}, [*ORDER[:6], "hello", *ORDER[7:]]),
        ({"before": "basic"}, ["hello", *ORDER]),
        ({"after": "file_uploads"}, [*ORDER, "hello"]),
        ({}, [*ORDER, "hello"]),
    ],
)
def test_a_processor_is_put_where_it_is_wanted(place: dict[str, str], expected: list[str]) -> None:
    assert request_names(Flow().with_processor(hello, **place)) == expected


def test_a_place_may_be_given_by_the_processor_itself() -> None:
    flow = Flow().with_processor(hello)
    assert request_names(flow.with_processor(no_op, before=hello))[-2:] == ["no_op", "hello"]


def test_a_response_processor_is_put_by_place_too() -> None:
    flow = Flow().with_processor(stamp, before="planning_response")
    assert response_names(flow)[0] == "stamp"
    assert request_names(flow) == ORDER
    assert response_names(Flow().with_response_processor(stamp))[-1] == "stamp"


def test_a_processor_is_taken_out() -> None:
    assert "identity" not in request_names(Flow().without("identity"))
    assert response_names(Flow().without("planning_response")) == response_names(Flow())[1:]


def test_a_flow_never_changes() -> None:
    flow = Flow()
    before = str(flow)
    for _ in (flow.with_processor(hello), flow.without("auth"), flow.with_response_processor(stamp)):
        assert str(flow) == before
    with pytest.raises((AttributeError, TypeError)):
        flow.request_processors = ()  # type: ignore[misc]
    assert isinstance(flow.request_processors, tuple)


def test_an_edit_keeps_the_callbacks() -> None:
    asked = LlmAgent(name="a", before_model_callback=lambda **_: None)
    assert asked.flow.without("auth").callbacks == asked.flow.callbacks


def test_two_agents_may_share_a_flow_and_keep_their_own_callbacks() -> None:
    flow = Flow()
    one = LlmAgent(name="one", flow=flow, before_model_callback=lambda **_: None)
    two = LlmAgent(name="two", flow=flow)
    assert len(one.flow.callbacks.before_model) == 1
    assert two.flow.callbacks.before_model == ()
    assert flow.callbacks.before_model == ()


@pytest.mark.parametrize("place", [{"before": "content"}, {"after": no_op}, {"replace": "gone"}])
def test_an_unknown_place_is_an_error_that_lists_what_there_is(place: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match="`contents`"):
        Flow().with_processor(hello, **place)


def test_the_closest_name_is_listed_first() -> None:
    with pytest.raises(PipelineError, match=r"It has: `contents`"):
        Flow().without("content")


def test_more_than_one_place_is_an_error() -> None:
    with pytest.raises(PipelineError, match="one of"):
        Flow().with_processor(hello, before="auth", after="auth")


@pytest.mark.parametrize("bad", ["contents", None, 3, type("Class", (), {"__call__": no_op})])
def test_what_is_no_processor_is_refused_when_the_flow_is_built(bad: Any) -> None:
    with pytest.raises(PipelineError):
        Flow([bad])


class Wrong:
    """Processors that cannot be called with a context and a request."""

    def __call__(self, ctx: InvocationContext) -> None: ...

    def method(self, ctx: InvocationContext) -> None: ...

    @staticmethod
    def keyword(ctx: InvocationContext, request: LlmRequest, *, more: int) -> None: ...


@pytest.mark.parametrize(
    "wrong", [Wrong(), Wrong().method, Wrong.keyword, lambda ctx: None, lambda ctx, request, response: None]
)
def test_a_processor_that_cannot_be_called_so_is_refused_when_the_flow_is_built(wrong: Any) -> None:
    """The error says what it takes, and what it is called with."""
    with pytest.raises(PipelineError, match=r"`\S+` takes `\(.*ctx.*` but is called with `\(ctx, request\)`"):
        Flow([wrong])
    with pytest.raises(PipelineError, match=r"`no_op` .* is called with `\(ctx, request, response\)`"):
        Flow().with_response_processor(no_op)


def test_two_processors_of_one_name_are_refused() -> None:
    with pytest.raises(PipelineError, match="`hello`"):
        Flow([hello, hello])


def test_a_name_of_its_own_tells_two_instances_apart() -> None:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, ctx: InvocationContext, request: LlmRequest) -> None:
            return None

    assert request_names(Flow([Named("one"), Named("two")])) == ["one", "two"]


# -- processors of every kind -------------------------------------------------------------------------


def one_event(ctx: InvocationContext, request: LlmRequest) -> Event:
    return ctx.new_event({"custom_metadata": {"n": 1}})


def several(ctx: InvocationContext, request: LlmRequest) -> list[Event]:
    return [one_event(ctx, request), one_event(ctx, request)]


async def async_nothing(ctx: InvocationContext, request: LlmRequest) -> None:
    await asyncio.sleep(0)


async def async_event(ctx: InvocationContext, request: LlmRequest) -> Event:
    return one_event(ctx, request)


async def generator(ctx: InvocationContext, request: LlmRequest) -> AsyncIterator[Event]:
    yield one_event(ctx, request)
    yield one_event(ctx, request)


class Instance:
    async def __call__(self, ctx: InvocationContext, request: LlmRequest) -> Event:
        return one_event(ctx, request)


@pytest.mark.parametrize(
    ("processor", "count"),
    [(no_op, 0), (one_event, 1), (several, 2), (async_nothing, 0), (async_event, 1), (generator, 2), (Instance(), 1)],
)
async def test_a_processor_may_be_any_callable(processor: Any, count: int) -> None:
    root = agent("root", "done", flow=Flow().with_processor(processor))
    chat = Chat(root)
    events = await chat.say("go")
    assert len(events) == count + 1
    assert events[-1].text == "done"
    assert [e.author for e in await chat.stored()] == ["user", *["root"] * (count + 1)]


async def test_a_processor_that_returns_its_request_is_told_so() -> None:
    for name, flow in (
        ("request", Flow().with_processor(lambda ctx, request: request)),
        ("response", Flow().with_response_processor(lambda ctx, request, response: response)),
    ):
        with pytest.raises(ProcessorError, match=f"returned its {name}.*return nothing"):
            await Chat(agent("root", "done", flow=flow)).say("go")


@pytest.mark.parametrize(
    "processor",
    [
        lambda *both: None,
        lambda ctx, request, more=None: None,
        partial(lambda more, ctx, request: None, 1),
        lru_cache(lambda ctx, request: None),
    ],
)
def test_a_processor_of_any_signature_that_takes_both_is_taken(processor: Any) -> None:
    processor.name = "mine"
    assert Flow([processor]).request_steps[0].name == "mine"


@pytest.mark.parametrize("bad", ["text", {"an": "object"}, 3, [1]])
@pytest.mark.parametrize("kind", ["sync", "generator"])
async def test_a_processor_that_gives_anything_else_is_a_typed_error_that_names_it(bad: Any, kind: str) -> None:
    def wrong(ctx: InvocationContext, request: LlmRequest) -> Any:
        return bad

    async def wrongly(ctx: InvocationContext, request: LlmRequest) -> AsyncIterator[Any]:
        yield bad

    flow = Flow().with_processor(wrong if kind == "sync" else wrongly)
    what = "int" if bad == [1] and kind == "sync" else type(bad).__name__
    with pytest.raises(ProcessorError, match=f"`wrong(ly)?` produced {what}, but"):
        await Chat(agent("root", "done", flow=flow)).say("go")


async def test_a_processor_that_is_left_while_it_emits_is_closed_before_the_run_is() -> None:
    """Its own code at its end has run then."""
    closed: list[bool] = []

    async def emitting(ctx: InvocationContext, request: LlmRequest) -> AsyncIterator[Event]:
        try:
            yield one_event(ctx, request)
        finally:
            closed.append(True)

    root = agent("root", "done", flow=Flow().with_processor(emitting))
    async with aclosing(root.flow.run(context(root))) as events:
        async for _ in events:
            break
    assert closed == [True]


async def test_response_processors_that_emit_run_once_each_and_in_order() -> None:
    """Those between them, too."""
    ran: list[str] = []

    def emits(name: str) -> Any:
        def emitting(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> Event | None:
            ran.append(name)
            assert ctx.agent.name == "root"
            return None if name == "b" else ctx.new_event({"custom_metadata": {"by": name}})

        emitting.__name__ = name
        return emitting

    flow = Flow()
    for name in "abcd":
        flow = flow.with_response_processor(emits(name))
    events = await Chat(agent("root", "done", flow=flow)).say("go")
    assert ran == ["a", "b", "c", "d"]
    assert [(each.custom_metadata or {}).get("by", each.text) for each in events] == ["a", "c", "d", "done"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_error_names_processor_step_and_agent(kind: str) -> None:
    def broken(ctx: InvocationContext, request: LlmRequest) -> None:
        raise LookupError("no index")

    async def broken_later(ctx: InvocationContext, request: LlmRequest) -> None:
        raise LookupError("no index")

    processor = broken if kind == "sync" else broken_later
    with pytest.raises(LookupError) as caught:
        await Chat(agent("root", "done", flow=Flow().with_processor(processor))).say("go")
    notes = " ".join(caught.value.__notes__)
    assert f"`{processor.__name__}`" in notes
    assert "step 0" in notes
    assert "`root`" in notes


async def test_a_processors_event_is_stored_before_the_next_processor_runs() -> None:
    seen: list[int] = []

    def count(ctx: InvocationContext, request: LlmRequest) -> None:
        seen.append(len(ctx.session.events))

    flow = Flow().with_processor(one_event, before="contents").with_processor(count, after=one_event)
    await Chat(agent("root", "done", flow=flow)).say("go")
    assert seen == [2]


async def test_a_response_processor_sees_and_changes_each_response() -> None:
    root = agent("root", call("add", a=1, b=2), "done", tools=[add], flow=Flow().with_response_processor(stamp))
    events = await Chat(root).say("go")
    assert [(e.custom_metadata or {}).get("stamped") for e in events] == [True, None, True]


async def test_processors_behind_one_that_is_awaited_are_given_the_same_request_and_response() -> None:
    """And what a response processor takes away of a stream does not end it."""
    given: list[tuple[Any, Any]] = []

    async def awaited(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
        given.append((request, response))

    def behind(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
        given.append((request, response))
        if response.partial:
            response.content = None

    chunks = [LlmResponse(content=said("do"), partial=True), LlmResponse(content=said("done"))]
    root = agent("root", chunks, flow=Flow().with_response_processor(awaited).with_response_processor(behind))
    events = await Chat(root, config=STREAMED).say("go")
    assert story(events) == ["root: done"]
    assert [each.contents for each, _ in given] == [requests_of(root)[0].contents] * 4
    assert [each.partial for _, each in given] == [True, True, None, None]


async def test_a_response_processor_may_take_the_content_away_to_call_the_model_again() -> None:
    """A code executor works that way: the response itself is no event then."""
    taken: list[str] = []

    def swallow(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> Event | None:
        if taken:
            return None
        taken.append(response.text)
        response.content = None
        outcome = types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")
        return event("root", types.Part(code_execution_result=outcome))

    root = agent("root", "code", "done", flow=Flow().with_response_processor(swallow))
    events = await Chat(root).say("go")
    assert [e.text for e in events][-1] == "done"
    assert "code" not in [e.text for e in events]


# -- halting ----------------------------------------------------------------------------------------


async def test_a_halt_stops_the_step_without_a_model_call_and_without_an_error() -> None:
    def stop(ctx: InvocationContext, request: LlmRequest) -> None:
        raise Halt("budget spent")

    root = agent("root", "never", flow=Flow().with_processor(stop, before="contents"))
    assert await Chat(root).say("go") == []
    assert requests_of(root) == []


@pytest.mark.parametrize("how", ["halt", "end"])
async def test_an_async_processor_stops_the_step_too_and_its_events_stay(how: str) -> None:
    """The processors behind it are not called."""

    async def stop(ctx: InvocationContext, request: LlmRequest) -> AsyncIterator[Event]:
        yield one_event(ctx, request)
        if how == "halt":
            raise Halt("enough")
        ctx.end_invocation = True

    later: list[str] = []

    def after(ctx: InvocationContext, request: LlmRequest) -> None:
        later.append("ran")

    root = agent("root", "never", flow=Flow().with_processor(stop, before="contents").with_processor(after))
    assert len(await Chat(root).say("go")) == 1
    assert (requests_of(root), later) == ([], [])


async def test_end_invocation_stops_before_the_model_call() -> None:
    def stop(ctx: InvocationContext, request: LlmRequest) -> None:
        ctx.end_invocation = True

    later: list[str] = []

    def after(ctx: InvocationContext, request: LlmRequest) -> None:
        later.append("ran")

    flow = Flow().with_processor(stop, before="contents").with_processor(after)
    root = agent("root", "never", flow=flow)
    assert await Chat(root).say("go") == []
    assert (requests_of(root), later) == ([], [])


@pytest.mark.parametrize("how", ["halt", "end"])
async def test_the_trace_names_who_halted(how: str) -> None:
    def stop(ctx: InvocationContext, request: LlmRequest) -> None:
        if how == "halt":
            raise Halt("enough")
        ctx.end_invocation = True

    flow = Flow().with_processor(stop, before="contents")
    assembly = await flow.assemble(context(agent("root")))
    assert assembly.halted_by == "stop"
    assert [step.name for step in assembly.steps][-1] == "stop"


async def test_a_halted_agent_gives_control_back_to_the_one_that_handed_over() -> None:
    def stop(ctx: InvocationContext, request: LlmRequest) -> None:
        raise Halt("enough")

    after: list[str] = []
    child = agent("child", "never", flow=Flow().with_processor(stop))
    root = agent(
        "root", hand_to("child"), "back", sub_agents=[child], after_agent_callback=lambda **_: after.append("root")
    )
    events = await Chat(root).say("go")
    assert requests_of(child) == []
    assert events[-1].text == "back"
    assert after == ["root"]


# -- running it -------------------------------------------------------------------------------------


async def test_assemble_gives_the_request_without_asking_the_model() -> None:
    root = agent("root", instruction="Be {mood}.", tools=[add], sub_agents=[LlmAgent(name="child")])
    ctx = context(root, event("user", "hi"), state={"mood": "kind"})
    assembly = await root.flow.assemble(ctx)
    assert shown(assembly.request) == ["user: hi"]
    assert system_text(assembly.request).startswith("Be kind.")
    assert declared_names(assembly.request) == ["transfer_to_agent", "add"]
    assert [step.name for step in assembly.steps] == ORDER
    assert all(step.seconds >= 0 for step in assembly.steps)
    assert requests_of(root) == []


async def test_the_assembled_request_is_the_one_that_a_run_sends() -> None:
    root = agent("root", "done", instruction="Be kind.", tools=[add])
    assembly = await root.flow.assemble(context(root, event("user", "hi")))
    await Chat(root).say("hi")
    [sent] = requests_of(root)
    assert assembly.request.config == sent.config
    assert shown(assembly.request) == shown(sent)
    assert assembly.request.model == sent.model


async def test_an_observer_is_told_once_of_what_is_assembled() -> None:
    """A run made by hand has stored it already."""
    told: list[str] = []

    class Told(Observer):
        def event_recorded(self, ctx: InvocationContext, event: Event) -> None:
            told.append(event.text)

    def speaks(ctx: InvocationContext, request: LlmRequest) -> Event:
        return ctx.new_event({"content": said("noted")})

    ctx = context(agent("root"))
    ctx.run.observers = (Told(),)
    await Flow([speaks], []).assemble(ctx)
    assert [each.text for each in ctx.session.events] == told == ["noted"]


async def test_the_assembly_of_a_flow_that_makes_no_request_is_its_agents() -> None:
    ctx = context(agent("root"))
    ctx.end_invocation = True
    assert (await Flow([], []).assemble(ctx)).agent == "root"


async def test_assemble_gives_the_events_of_processors() -> None:
    root = agent("root", flow=Flow().with_processor(one_event))
    assembly = await root.flow.assemble(context(root))
    assert len(assembly.events) == 1


async def test_assembling_twice_gives_the_same_request() -> None:
    root = agent("root", instruction="Be kind.", tools=[add])
    ctx = context(root, event("user", "hi"))
    first, second = [await root.flow.assemble(ctx) for _ in range(2)]
    assert first.request.config == second.request.config
    assert shown(first.request) == shown(second.request)


async def test_one_step_is_one_model_call_with_its_tool_results() -> None:
    root = agent("root", call("add", a=1, b=2), "done", tools=[add])
    ctx = context(root, event("user", "go"))
    events = await collect(root.flow.run_one_step(ctx))
    assert story(events) == ["root: add(a=1, b=2)", "root: add -> {'result': 3}"]
    assert story(await collect(root.flow.run_one_step(ctx))) == ["root: done"]


async def test_assembling_stores_what_processors_emit_once() -> None:
    """In a run that stores its events, and without one."""
    flow = Flow().with_processor(one_event)
    assembled: list[str] = []

    async def look(tool_context: Context) -> str:
        assembly = await flow.assemble(tool_context.get_invocation_context())
        assembled.append(assembly.agent)
        return "seen"

    chat = Chat(agent("root", call("look"), "done", tools=[look]))
    await chat.say("go")
    assert [bool(each.custom_metadata) for each in await chat.stored()].count(True) == 1
    assert assembled == ["root"]
    ctx = context(agent("root"))
    await flow.assemble(ctx)
    assert [each.custom_metadata for each in ctx.session.events] == [{"n": 1}]


async def test_a_flow_runs_an_agents_turn_without_its_agent_callbacks() -> None:
    called: list[str] = []
    root = agent(
        "root", call("add", a=1, b=2), "done", tools=[add], before_agent_callback=lambda **_: called.append("x")
    )
    ctx = context(root, event("user", "go"))
    assert len(await collect(root.flow.run_one_step(ctx))) == 2
    events = await collect(root.flow.run(ctx))
    assert [e.text for e in events][-1] == "done"
    assert called == []
    assert len(ctx.session.events) == 4


async def test_a_flow_asks_its_own_callbacks_and_not_those_of_the_agents_flow() -> None:
    """Whoever's place it runs in."""
    asked: list[str] = []
    flow = Flow().with_callbacks(FlowCallbacks(before_model=(lambda **_: asked.append("the flow's"),)))
    root = agent("root", "done", before_model_callback=lambda **_: asked.append("the agent's"))
    await collect(flow.run(context(root, event("user", "go"))))
    assert asked == ["the flow's"]


async def test_a_flow_can_run_with_another_agents_context() -> None:
    root = agent("root", "done", instruction="Be kind.")
    flow = Flow().without("instructions").without("identity")
    await collect(flow.run(context(root, event("user", "go"))))
    assert system_text(requests_of(root)[0]) == ""


# -- effects ----------------------------------------------------------------------------------------


class Recorder(DirectEffects):
    """Notes the key of every model and tool call."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def call_model(self, ctx: InvocationContext, *args: Any) -> Any:
        self.keys.append(str(ctx.effect_key("model")))
        return super().call_model(ctx, *args)

    async def call_tool(self, ctx: InvocationContext, tool: Any, args: dict[str, Any], context: Context) -> Any:
        self.keys.append(str(ctx.effect_key("tool", context.call_index)))
        return await super().call_tool(ctx, tool, args, context)


def team(name: str = "root") -> LlmAgent:
    child = agent("child", [call("add", a=1, b=2), call("add", a=3, b=4)], "child done", tools=[add])
    return agent(name, call("add", a=0, b=0), hand_to("child"), tools=[add], sub_agents=[child])


KEYS = [
    "root/0/model/0",
    "root/0/tool/0",
    "root/1/model/0",
    "root/1/tool/0",
    "root.child/0/model/0",
    "root.child/0/tool/0",
    "root.child/0/tool/1",
    "root.child/1/model/0",
]


async def test_effect_keys_are_path_step_kind_and_number() -> None:
    effects = Recorder()
    await Chat(team(), effects=effects).say("go")
    assert effects.keys == KEYS


async def test_effect_keys_are_the_same_in_every_run_and_unique_within_one() -> None:
    runs: list[list[str]] = []
    for config in (None, STREAMED):
        effects = Recorder()
        await Chat(team(), effects=effects, config=config).say("go")
        runs.append(effects.keys)
    assert runs == [KEYS, KEYS]
    assert len(set(KEYS)) == len(KEYS)


def test_an_effect_key_reads_as_a_path() -> None:
    assert str(EffectKey("root.child", 2, "tool", 1)) == "root.child/2/tool/1"


async def test_the_flow_is_deterministic_but_for_its_effects() -> None:
    """With the same effects two runs give the same events, ids and times included."""
    dumps = []
    for _ in range(2):
        with frozen(clock=1_700_000_000.0):
            events = await Chat(team()).say("go")
        dumps.append([e.to_wire() for e in events])
    assert dumps[0] == dumps[1]
    assert all(d["timestamp"] == 1_700_000_000.0 for d in dumps[0])


async def test_other_effects_can_answer_in_the_place_of_the_model() -> None:
    class Canned(DirectEffects):
        async def call_model(self, ctx: InvocationContext, model: Any, request: Any, stream: bool) -> Any:
            yield LlmResponse(content=user("canned").model_copy(update={"role": "model"}))

    root = agent("root")
    events = await Chat(root, effects=Canned()).say("go")
    assert events[-1].text == "canned"


async def test_other_effects_can_fail_a_tool() -> None:
    class Faulty(DirectEffects):
        async def call_tool(self, *_: Any) -> Any:
            raise ConnectionError("injected")

    events = await Chat(agent("root", call("add", a=1, b=2), "done", tools=[add]), effects=Faulty()).say("go")
    assert events[1].get_function_responses()[0].response == {"error": "injected"}


async def test_the_streaming_flag_reaches_the_model_without_a_runner() -> None:
    """Streaming flag | agent run directly, RunConfig = SSE | model receives stream=true, no crash."""
    asked: list[bool] = []

    class Noting(DirectEffects):
        def call_model(self, ctx: InvocationContext, model: Any, request: Any, stream: bool) -> Any:
            asked.append(stream)
            return super().call_model(ctx, model, request, stream)

    for config in (STREAMED, RunConfig(), None):
        root = agent("root", "done")
        ctx = context(root, event("user", "go"), run_config=config, effects=Noting())
        await collect(root.run_async(ctx))
    assert asked == [True, False, False]


# -- around -----------------------------------------------------------------------------------------


async def test_around_model_wraps_the_call_the_first_outermost() -> None:
    log: list[str] = []

    def wrapper(name: str) -> Any:
        async def around(call_next: Any, callback_context: Context, llm_request: LlmRequest) -> AsyncIterator[Any]:
            log.append(f"{name} in")
            async for response in call_next(llm_request):
                yield response
            log.append(f"{name} out")

        return around

    root = agent("root", "done", around_model=[wrapper("a"), wrapper("b")])
    await Chat(root).say("go")
    assert log == ["a in", "b in", "b out", "a out"]


async def test_around_model_may_call_again() -> None:
    async def retry(call_next: Any, callback_context: Context, llm_request: LlmRequest) -> AsyncIterator[Any]:
        try:
            async for response in call_next(llm_request):
                yield response
        except ConnectionError:
            async for response in call_next(llm_request):
                yield response

    root = agent("root", ConnectionError("down"), "done", around_model=retry)
    assert [e.text for e in await Chat(root).say("go")] == ["done"]


async def test_around_model_may_call_again_without_a_runner() -> None:
    """After a part of an answer, which nobody keeps for a run that is cut off."""

    async def again(call_next: Any, llm_request: LlmRequest, **_: Any) -> AsyncIterator[Any]:
        for _try in range(2):
            async for response in call_next(llm_request):
                yield response

    pieces = [LlmResponse(content=said("do"), partial=True)]
    root = agent("root", pieces, [*pieces, LlmResponse(content=said("done"))], around_model=again)
    ctx = context(root, event("user", "go"), run_config=STREAMED)
    assert [each.text for each in await collect(root.run_async(ctx))] == ["do", "do", "done"]


async def test_a_wrapper_that_leaves_the_models_stream_closes_it() -> None:
    """Before it goes on itself."""
    log: list[str] = []

    class Chatty(BaseLlm):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[Any]:
            try:
                yield LlmResponse(content=said("one"))
                yield LlmResponse(content=said("two"))
            finally:
                log.append("closed")

    async def first(call_next: Any, llm_request: LlmRequest, **_: Any) -> AsyncIterator[Any]:
        async with aclosing(call_next(llm_request)) as responses:
            given = await anext(responses)
        log.append("left")
        yield given

    root = LlmAgent(name="root", model=Chatty(model="chatty"), around_model=first)
    assert story(await Chat(root).say("go")) == ["root: one"]
    assert log == ["closed", "left"]


async def test_a_wrapper_writes_onto_the_answer_what_callbacks_could() -> None:
    """It is given their context."""

    async def noting(call_next: Any, callback_context: Context, llm_request: LlmRequest) -> AsyncIterator[Any]:
        callback_context.state["asked"] = True
        async for response in call_next(llm_request):
            yield response

    [answer] = await Chat(agent("root", "done", around_model=noting)).say("go")
    assert answer.actions.state_delta == {"asked": True}


async def test_a_stream_that_fails_is_closed_before_its_error_is_answered() -> None:
    """Also one that is no generator."""
    log: list[str] = []

    class Broken:
        def __aiter__(self) -> Broken:
            return self

        async def __anext__(self) -> LlmResponse:
            raise ConnectionError("down")

        async def aclose(self) -> None:
            log.append("closed")

    class Cut(DirectEffects):
        def call_model(self, ctx: InvocationContext, model: Any, request: Any, stream: bool) -> Any:
            return Broken()

    def answers(**_: Any) -> LlmResponse:
        log.append("answered")
        return LlmResponse(content=said("later"))

    assert story(await Chat(agent("root", on_model_error_callback=answers), effects=Cut()).say("go")) == ["root: later"]
    assert log == ["closed", "answered"]


async def test_a_model_that_gives_one_response_in_the_place_of_a_stream_is_an_error_that_says_so() -> None:
    class Single(BaseLlm):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
            return LlmResponse(content=said("hi"))

    with pytest.raises(ConfigurationError, match=r"`generate_content_async` of model `one` gives a coroutine.*`yield`"):
        await Chat(LlmAgent(name="root", model=Single(model="one"))).say("go")


async def relayed(call_next: Any, llm_request: LlmRequest, **_: Any) -> AsyncIterator[Any]:
    """A wrapper that changes nothing."""
    async for response in call_next(llm_request):
        yield response


@pytest.mark.parametrize("wrapper", [None, relayed])
async def test_what_stands_for_a_model_may_be_any_async_iterator(wrapper: Any) -> None:
    """It need not be a generator, which can be closed."""

    class Once:
        def __init__(self) -> None:
            self.left = [LlmResponse(content=said("canned"))]

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> LlmResponse:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    class Canned(DirectEffects):
        def call_model(self, ctx: InvocationContext, model: Any, request: Any, stream: bool) -> Any:
            return Once()

    assert story(await Chat(agent("root", around_model=wrapper), effects=Canned()).say("go")) == ["root: canned"]


async def test_around_tool_wraps_the_tool_and_may_change_its_arguments() -> None:
    async def double(call_next: Any, tool: Any, args: dict[str, Any], tool_context: Context) -> Any:
        return {"doubled": await call_next({k: v * 2 for k, v in args.items()})}

    root = agent("root", call("add", a=1, b=2), "done", tools=[add], around_tool=double)
    events = await Chat(root).say("go")
    assert events[1].get_function_responses()[0].response == {"doubled": 6}


async def test_an_agent_may_be_given_a_planner_between_two_turns() -> None:
    """What an agent's fields ask for is done from its next turn on, and no more when they are taken away."""
    root = agent("root", "one", "two", "three")
    chat = Chat(root)
    for planner in (None, PlanReActPlanner(), None):
        root.planner = planner
        await chat.say("go")
    assert ["PLANNING" in system_text(request) for request in requests_of(root)] == [False, True, False]


@pytest.mark.parametrize("place", ["callback", "processor"])
async def test_a_response_that_a_model_gives_twice_is_not_changed(place: str) -> None:
    """Callbacks and processors may write to a complete response: it is the run's own."""
    same = LlmResponse(content=said("Once"))

    def shout(llm_response: LlmResponse, **_: Any) -> None:
        llm_response.content = said(f"{llm_response.text}!")

    def shouting(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
        shout(response)

    if place == "callback":
        root = agent("root", same, same, after_model_callback=shout)
    else:
        root = agent("root", same, same, flow=Flow().with_response_processor(shouting))
    chat = Chat(root)
    assert [(await chat.say("go"))[-1].text for _ in range(2)] == ["Once!", "Once!"]
    assert same.text == "Once"
