"""`lint`: whether the processors of a flow keep to their contract (see "Processor" in docs/flow.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from google.genai import types

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.artifacts import InMemoryArtifactService
from flowloom.context import InvocationContext, Observer, ProcessorCall, RunConfig, StreamingMode
from flowloom.errors import Halt, LlmCallsLimitExceededError, ModelResponseError
from flowloom.events import Event, EventActions
from flowloom.events.parts import parts_of
from flowloom.flow import Flow
from flowloom.inspection import RequestView, diff
from flowloom.inspection.explanation import session_for
from flowloom.memory import InMemoryMemoryService
from flowloom.models import LlmRequest
from flowloom.plugins import BasePlugin, ModelOverride
from flowloom.runner.runner import Runner
from flowloom.sessions import InMemorySessionService
from flowloom.testing.frozen_clock import frozen
from flowloom.testing.scripted import FunctionModel, call

_MOST_CALLS = 8
"""After how many model calls a run has been seen often enough."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The processor named `processor` breaks the contract.

    `detail` says what it did, and where.
    """

    processor: str
    rule: str
    """`mutates-history`, `writes-after-halting`, `reorders-tools`, `drops-tools`, `two-finals`, `unstable`, or
    `leaves-task`."""
    detail: str

    def __str__(self) -> str:
        return f"{self.processor}: {self.rule}: {self.detail}"


async def lint(
    flow: Flow | BaseAgent, *, state: dict[str, Any] | None = None, plugins: Sequence[BasePlugin] = ()
) -> list[Finding]:
    """Run `flow` through situations that bring out what is wrong with a processor; an empty list if nothing is.

    The situations: an empty session; a history with files, tool calls, words of other agents and long texts; a model
    that calls a tool; a streamed answer. A flow runs in an agent of its own with tools and sub-agents, an agent as it
    is, in a session with `state`, with `plugins`; models are stand-ins, tools of the given agent are not called.

    Found are processors that change events of the session, write to the request although they have halted the step,
    take declared tools away or change their order, emit a second final event in a step, make another request of the
    same situation, or leave a task behind. What a processor raises is raised.
    """
    own = isinstance(flow, Flow)
    agent = _agent_for(flow) if isinstance(flow, Flow) else flow
    findings: list[Finding] = []
    for situation in _SITUATIONS:
        first, second = [await _run(agent, situation, own, state, plugins) for _ in range(2)]
        findings += [*first.findings, *_unstable(first.left, second.left)]
    found: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        found.setdefault((finding.processor, finding.rule), finding)
    return list(found.values())


# -- looking on -----------------------------------------------------------------------------------------


class _Inspector(Observer):
    """Compares what a processor finds with what it leaves."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.left: list[tuple[str, RequestView]] = []
        """The request as each processor has left it."""
        self._before: RequestView | None = None
        self._history: list[str] = []
        self._tools: set[str] = set()
        self._halted = False
        self._tasks_before: set[asyncio.Task[Any]] = set()
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._final_by: tuple[LlmRequest, str] | None = None

    def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        self._before = RequestView(call.request)
        self._history = [_dump(event) for event in ctx.session.events]
        self._tools = set(call.request.tools_dict)
        self._halted = ctx.end_invocation
        self._tasks_before = asyncio.all_tasks()

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        assert self._before is not None
        after = RequestView(call.request)
        if call.response is None:
            self.left.append((call.name, after))
        self._check_history(ctx, call)
        self._check_tools(self._before, after, call)
        self._check_finals(call)
        halts = isinstance(call.error, Halt) or (ctx.end_invocation and not self._halted)
        if halts and after != self._before:
            first = diff(self._before, after).differences[0]
            self._report(call, "writes-after-halting", f"it stopped the step, but has {first.kind} {first.path}.")
        for task in asyncio.all_tasks() - self._tasks_before:
            self._tasks.setdefault(task, call.name)

    async def finish(self) -> None:
        """Look for what is still going on, and end it."""
        for task, name in self._tasks.items():
            if not task.done():
                self.findings.append(
                    Finding(name, "leaves-task", f"the task {task.get_name()!r} that it began runs on after the turn.")
                )
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check_history(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        now = [_dump(event) for event in ctx.session.events[: len(self._history)]]
        for index, dumped in enumerate(self._history):
            if now[index : index + 1] != [dumped]:
                event = ctx.session.events[index] if index < len(ctx.session.events) else None
                what = "took it away" if event is None else f"changed it (by `{event.author}`)"
                detail = f"event {index} of the session was not its own: it {what}. Copy what you want to change."
                self._report(call, "mutates-history", detail)
                return

    def _check_tools(self, before: RequestView, after: RequestView, call: ProcessorCall) -> None:
        old, new = _declared(before), _declared(after)
        kept = [name for name in old if name in new]
        if kept != [name for name in new if name in old]:
            detail = f"it changed the order of the declared tools from {old} to {new}, which no cache survives."
            self._report(call, "reorders-tools", detail)
        lost = [name for name in old if name not in new] or sorted(self._tools - set(call.request.tools_dict))
        if lost:
            self._report(call, "drops-tools", f"{lost} were declared before it ran, and are gone.")

    def _check_finals(self, call: ProcessorCall) -> None:
        for event in call.events:
            if event.partial or not event.is_final_response():
                continue
            if self._final_by is not None and self._final_by[0] is call.request:
                detail = f"it emitted a final event after one that `{self._final_by[1]}` had emitted in the same step."
                self._report(call, "two-finals", detail)
            self._final_by = call.request, call.name

    def _report(self, call: ProcessorCall, rule: str, detail: str) -> None:
        self.findings.append(Finding(call.name, rule, detail))


def _dump(event: Event) -> str:
    return event.model_dump_json(exclude={"error"}, fallback=repr)


def _declared(view: RequestView) -> list[str]:
    groups: list[dict[str, Any]] = [group for group in view.data["config"].get("tools", ()) if isinstance(group, dict)]
    return [declared["name"] for group in groups for declared in group.get("function_declarations", ())]


def _unstable(first: list[tuple[str, RequestView]], second: list[tuple[str, RequestView]]) -> Iterator[Finding]:
    """The first processor that leaves another request in the same situation."""
    for (name, one), (_, other) in zip(first, second, strict=False):
        if one != other:
            where = diff(one, other).differences[0]
            detail = f"in the same situation it has left two different requests: they differ at {where.path}."
            yield Finding(name, "unstable", detail)
            return


# -- the situations -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Situation:
    message: str
    history: tuple[Event, ...] = ()
    streamed: bool = False
    calls_tool: bool = False


def _said(author: str, *parts: types.Part, **fields: Any) -> Event:
    role = "user" if author == "user" or any(part.function_response for part in parts) else "model"
    return Event(author=author, content=types.Content(role=role, parts=list(parts)), **fields)


def _history() -> tuple[Event, ...]:
    """A conversation with everything in it."""
    file = types.FileData(file_uri="files/report", mime_type="application/pdf", display_name="report.pdf")
    image = types.Blob(data=b"\x89PNG", mime_type="image/png", display_name="photo.png")
    result = types.FunctionResponse(id="c1", name="look_up", response={"found": ["one", "two"]})
    asked = types.FunctionCall(id="c1", name="look_up", args={"word": "flow"})
    return (
        _said("user", types.Part(text="Read this."), types.Part(file_data=file), types.Part(inline_data=image)),
        _said("agent", types.Part(function_call=asked)),
        _said("agent", types.Part(function_response=result)),
        _said("agent", types.Part(text="A thought.", thought=True), types.Part(text="Found two.")),
        _said("user", types.Part(text="And the helper?")),
        _said("helper", types.Part(text="I can help."), actions=EventActions(state_delta={"helped": True})),
        _said("user", types.Part(text="word " * 2_000)),
        _said("agent", types.Part(text="Noted.")),
    )


_SITUATIONS = (
    _Situation("Hello."),
    _Situation("Go on.", _history()),
    _Situation("Look it up.", _history(), calls_tool=True),
    _Situation("Hello again.", _history(), streamed=True),
)


def look_up(word: str) -> dict[str, str]:
    """Look a word up."""
    return {"word": word}


def _agent_for(flow: Flow) -> LlmAgent:
    """An agent that gives every default processor something to do."""
    helper = LlmAgent(name="helper", description="Helps.")
    return LlmAgent(
        name="agent",
        instruction="Answer briefly.",
        description="Answers.",
        tools=[look_up],
        sub_agents=[helper],
        flow=flow,
    )


def _model_for(situation: _Situation, may_call: bool) -> FunctionModel:
    def answer(request: LlmRequest) -> Any:
        last = request.contents[-1] if request.contents else None
        answered = any(part.function_response for part in parts_of(last))
        if situation.calls_tool and may_call and not answered and "look_up" in request.tools_dict:
            return call("look_up", word="flow")
        return "Done."

    return FunctionModel(answer, stream_chunks=True)


async def _run(
    agent: BaseAgent, situation: _Situation, own: bool, state: dict[str, Any] | None, plugins: Sequence[BasePlugin]
) -> _Inspector:
    inspector = _Inspector()
    with frozen():
        session = session_for(None, state, [_fresh(event) for event in situation.history])
        service = InMemorySessionService()
        service.adopt(session)
        runner = Runner(
            app_name=session.app_name,
            agent=agent,
            plugins=[ModelOverride(_model_for(situation, own)), *plugins],
            session_service=service,
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
            observers=[inspector],
        )
        mode = StreamingMode.SSE if situation.streamed else StreamingMode.NONE
        config = RunConfig(streaming_mode=mode, max_llm_calls=_MOST_CALLS)
        events = runner.run_async(
            user_id=session.user_id, session_id=session.id, new_message=situation.message, run_config=config
        )
        try:
            async with aclosing(events):
                async for _ in events:
                    pass
        except (LlmCallsLimitExceededError, ModelResponseError):
            pass  # an agent that goes on by itself, or wants an answer of some form, has been seen often enough
        await inspector.finish()
    return inspector


def _fresh(event: Event) -> Event:
    """A copy that shares nothing with the situation, which other runs begin with as well."""
    return Event.model_validate_json(event.model_dump_json())
