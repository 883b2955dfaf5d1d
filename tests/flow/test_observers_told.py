"""What observers are told of each processor that a run calls, and which processors a run calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
from kit import Chat, agent, collect, context
from pydantic import BaseModel

from flowloom import Event, Flow, InvocationContext, LlmRequest, LlmResponse
from flowloom.context.observer import Observer, ProcessorCall
from flowloom.flow import observed
from flowloom.flow.observed import steps_of
from flowloom.flow.pipeline import compile_steps
from flowloom.processors import BuiltInCodeExecutor, PlanReActPlanner, basic, tools

pytestmark = pytest.mark.allow_model_requests  # the guard against hosted models observes


class Told(Observer):
    """Notes what it is told, beside others that write to the same notes."""

    def __init__(self, name: str, notes: list[tuple[Any, ...]]) -> None:
        self.name = name
        self.notes = notes
        self.calls: list[ProcessorCall] = []

    def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        assert (call.seconds, call.events, call.error) == (0.0, [], None)
        self.notes.append((self.name, "started", call.name, ctx.agent.name))
        self.calls.append(call)

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        self.notes.append((self.name, "finished", call.name, ctx.agent.name))
        assert call in self.calls


class OnlyEnds(Observer):
    """Looks at the end of processors alone."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        self.names.append(call.name)


async def test_all_observers_are_told_of_a_call_before_it_and_after_it_with_what_it_is_given() -> None:
    """On both sides, in the order in which they were given; a response processor with the response."""
    given: list[tuple[Any, ...]] = []

    def quiet(ctx: InvocationContext, request: LlmRequest) -> None:
        notes.append(("", "called", "quiet", ctx.agent.name))
        given.append(("quiet", request, None))

    def one(ctx: InvocationContext, request: LlmRequest) -> Event:
        notes.append(("", "called", "one", ctx.agent.name))
        given.append(("one", request, None))
        return ctx.new_event({"custom_metadata": {"n": 1}})

    async def seen(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> AsyncIterator[Event]:
        notes.append(("", "called", "seen", ctx.agent.name))
        given.append(("seen", request, response))
        yield ctx.new_event({"custom_metadata": {"n": 2}})

    notes: list[tuple[Any, ...]] = []
    first, second = Told("first", notes), Told("second", notes)
    flow = Flow([quiet, one], [seen])
    events = await Chat(agent("root", "done", flow=flow), observers=[first, second]).say("go")
    order = [("first", "started"), ("second", "started"), ("", "called"), ("first", "finished"), ("second", "finished")]
    assert notes == [(*each, name, "root") for name in ("quiet", "one", "seen") for each in order]
    assert [id(call) for call in first.calls] == [id(call) for call in second.calls]
    assert [(call.name, id(call.request), id(call.response)) for call in first.calls] == [
        (name, id(request), id(response)) for name, request, response in given
    ]
    assert given[2][2] is not None
    assert [[each.custom_metadata for each in call.events] for call in first.calls] == [[], [{"n": 1}], [{"n": 2}]]
    assert [each.custom_metadata for each in events if each.custom_metadata] == [{"n": 1}, {"n": 2}]


async def test_an_observer_of_ends_is_told_of_them_and_one_of_models_of_no_processor() -> None:
    """What each processor does is the same."""

    def plain(ctx: InvocationContext, request: LlmRequest) -> None:
        """Nothing."""

    class OfModels(Observer):
        def model_asked(self, ctx: InvocationContext, model: Any, request: LlmRequest) -> None:
            asked.append(request)

    asked: list[LlmRequest] = []
    ends = OnlyEnds()
    for watching in ([ends, OfModels()], [OfModels()]):
        await Chat(agent("root", "done", flow=Flow([plain], [])), observers=watching).say("go")
    assert (ends.names, len(asked)) == (["plain"], 2)


async def test_an_observer_may_be_given_its_methods_as_attributes() -> None:
    """As objects are that stand for others."""

    def plain(ctx: InvocationContext, request: LlmRequest) -> None:
        """Nothing."""

    names: list[str] = []
    for hook in ("processor_started", "processor_finished"):
        stands = Observer()
        setattr(stands, hook, lambda ctx, call: names.append(call.name))
        await Chat(agent("root", "done", flow=Flow([plain], [])), observers=[stands]).say("go")
    assert names == ["plain", "plain"]


async def test_who_stops_reading_ends_the_processors_time_and_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time in which its event was held is not the processor's; the end is told once."""
    closed: list[str] = []

    async def emits(ctx: InvocationContext, request: LlmRequest) -> AsyncIterator[Event]:
        try:
            for number in range(3):
                yield ctx.new_event({"custom_metadata": {"n": number}})
        finally:
            closed.append("emits")

    monkeypatch.setattr(observed, "perf_counter", map(float, count(0, 1000)).__next__)
    told = Told("o", [])
    chat = Chat(agent("root", "done", flow=Flow([emits], [])), observers=[told])
    stream = chat.runner.run_async(user_id="ann", session_id="s1", new_message="go")
    async for event in stream:
        if event.custom_metadata == {"n": 1}:
            break
    await stream.aclose()
    assert [each[1] for each in told.notes] == ["started", "finished"]
    assert closed == ["emits"]
    [call] = told.calls
    assert (call.seconds, len(call.events)) == (3000.0, 2)


async def test_an_observer_that_raises_ends_the_run_before_the_processor_is_called() -> None:
    """This is how one forbids something; what it raises comes as it is."""
    called: list[str] = []

    def plain(ctx: InvocationContext, request: LlmRequest) -> None:
        called.append("plain")

    class Forbids(Observer):
        def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
            raise PermissionError(call.name)

    with pytest.raises(PermissionError, match="plain"):
        await collect(
            Chat(agent("root", "done", flow=Flow([plain], [])), observers=[Forbids()]).runner.run_async(
                user_id="ann", session_id="s1", new_message="go"
            )
        )
    assert called == []


# -- which processors are called -------------------------------------------------------------------


class City(BaseModel):
    name: str


def mine(ctx: InvocationContext, request: LlmRequest) -> None:
    """Nothing."""


def mine_too(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
    """Nothing."""


PLAIN = [
    "basic",
    "tools",
    "auth",
    "confirmation",
    "instructions",
    "identity",
    "contents",
    "agent_transfer",
    "tool_declarations",
    "file_uploads",
]


@pytest.mark.parametrize(
    ("fields", "flow", "more", "response"),
    [
        ({}, Flow(), [], []),
        ({"planner": PlanReActPlanner()}, Flow(), ["planning"], ["planning_response"]),
        ({"code_executor": BuiltInCodeExecutor()}, Flow(), ["code_execution"], []),
        ({"output_schema": City}, Flow(), ["output_schema"], []),
        ({}, Flow().with_processor(mine, before="confirmation"), ["mine"], []),
        ({}, Flow().with_response_processor(mine_too), [], ["mine_too"]),
        ({}, Flow([basic, tools], []), [f"-{name}" for name in PLAIN[2:]], []),
    ],
    ids=["none", "planner", "code", "schema", "own", "end", "short"],
)
@pytest.mark.parametrize("watching", [(), (Observer(),)], ids=["alone", "watched elsewhere"])
def test_processors_that_have_anything_to_do_are_called_and_all_if_an_observer_looks(
    fields: dict[str, Any], flow: Flow, more: list[str], response: list[str], watching: Any
) -> None:
    root = agent("root", **fields)
    run = context(root).run
    run.observers = watching
    found = steps_of(root, flow.steps, run)
    expected = {*PLAIN, *(name for name in more if name[0] != "-")} - {name[1:] for name in more}
    assert [step.name for step in found[0]] == [each.name for each in flow.request_steps if each.name in expected]
    assert [step.name for step in found[1] if step.name != "code_execution_response"] == response
    assert steps_of(root, flow.steps, run) is found
    request, other = flow.steps[0], Flow().steps[1][:1]
    assert len(steps_of(root, (request, other), run)[1]) == len(other) * ("planner" in fields)
    run.observers = (OnlyEnds(), *watching)
    assert [step.name for step in steps_of(root, flow.steps, run)[0]] == [step.name for step in flow.request_steps]


@pytest.mark.parametrize("watching", [(), (OnlyEnds(),)])
def test_processors_of_an_app_stand_before_contents_once(watching: Any) -> None:
    """Or last, where a flow has no contents; a flow's own of that name stays."""
    extra = compile_steps([mine])
    for flow, before in ((Flow(), "contents"), (Flow([basic, tools], []), None)):
        root = agent("root")
        run = context(root).run
        run.observers, run.extra_steps = watching, extra
        names = [step.name for step in steps_of(root, flow.steps, run)[0]]
        assert names[names.index("mine") + 1 :][:1] == ([before] if before else [])
        own = Flow([mine, basic], []).steps
        assert [step.name for step in steps_of(root, own, run)[0]] == ["mine", "basic"]
