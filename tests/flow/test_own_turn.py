"""A turn and an effect of a program's own are enough for a step that lasts as long as a connection does.

What plays turns, records events and reads the ledger is as it is for any other agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager

from google.genai import types
from kit import WHERE, hand_to, said, text, user

from flowloom import Event, InMemoryRunner, InvocationContext, LlmAgent, LlmRequest
from flowloom.context import DirectEffects
from flowloom.flow.handover import place_of_target
from flowloom.flow.tool_run import tool_run
from flowloom.flow.turn import Enter, Turn
from flowloom.telemetry import Recorder
from flowloom.testing import ScriptedModel, call


class Line(ScriptedModel):
    """A model at the other end of a line: it says something to all that it hears."""

    async def hears(self, request: LlmRequest, content: types.Content) -> types.Content:
        request.contents.append(content)
        (response,) = [each async for each in self.generate_content_async(request)]
        return response.content or said()


class Effects(DirectEffects):
    """What a run does to the world, and one thing more."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[types.Content | None] = asyncio.Queue()
        """What people and tools say into the line; None hangs up."""
        self.log: list[str] = []

    @asynccontextmanager
    async def connect_model(
        self, ctx: InvocationContext, model: Line, request: LlmRequest
    ) -> AsyncGenerator[AsyncIterator[types.Content]]:
        self.log.append(f"{ctx.agent.name} connects")
        try:
            yield self._said(model, request)
        finally:
            self.log.append(f"{ctx.agent.name} hangs up")

    async def _said(self, model: Line, request: LlmRequest) -> AsyncIterator[types.Content]:
        while (content := await self.heard.get()) is not None:
            yield await model.hears(request, content)


class LiveTurn(Turn):
    """A turn of one step."""

    async def step(self, spans: Recorder | None) -> AsyncGenerator[Event, None]:
        ctx, agent, request, effects = self.ctx, self.ctx.llm_agent, LlmRequest.empty(None), self.ctx.effects
        assert isinstance(agent, LlmAgent)
        assert isinstance(agent.model, Line)
        assert isinstance(effects, Effects)
        for processor in agent.flow.request_processors:
            processor(ctx, request)
        async with effects.connect_model(ctx, agent.model, request) as line:
            async for content in line:
                yield (event := self.note(ctx.new_event({"content": content})))
                calls = event.get_function_calls()
                if not calls:
                    continue
                running, _ = tool_run(ctx, calls, request.tools_dict)
                results = (await running).event
                assert results is not None
                yield self.note(results)
                if target := results.actions.transfer_to_agent:
                    self.outcome = Enter(place_of_target(ctx, target))
                    return
                effects.heard.put_nowait(results.content)
        self.end_or_wait()

    def returned(self, below: Turn) -> Iterable[Event]:
        super().returned(below)
        self.end_or_wait()  # it has hung up: the agent that it handed over to had the last word
        return ()


class LiveAgent(LlmAgent):
    """An agent that works in such turns."""

    def turn(self, ctx: InvocationContext) -> Turn:
        return LiveTurn(ctx)


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def test_a_step_may_last_as_long_as_a_connection() -> None:
    """People speak into it, tools are run in it, and an agent that it hands over to has one of its own."""
    expert = LiveAgent(name="expert", model=Line(["Here I am."]))
    answers = [call("double", number=4), "8.", hand_to("expert")]
    desk = LiveAgent(name="desk", model=Line(answers), tools=[double], sub_agents=[expert])
    effects = Effects()
    effects.heard.put_nowait(user("Twice four?"))
    runner = InMemoryRunner(desk, effects=effects)
    async for event in runner.run_async(**WHERE, new_message="Hello"):
        if event.text == "8.":
            effects.heard.put_nowait(user("The expert, please."))
        if event.actions.transfer_to_agent:
            effects.heard.put_nowait(user("Are you there?"))
            effects.heard.put_nowait(None)
    session = await runner.session_service.get_session(app_name=runner.app_name, **WHERE)
    assert session is not None
    assert [(event.author, event.text) for event in session.events if event.text] == [
        ("user", "Hello"),
        ("desk", "8."),
        ("expert", "Here I am."),
    ]
    given = [answer.response for event in session.events for answer in event.get_function_responses()]
    assert given[0] == {"result": 8}
    assert effects.log == ["desk connects", "desk hangs up", "expert connects", "expert hangs up"]


async def test_a_run_that_is_left_closes_the_connection_and_keeps_its_history_legal() -> None:
    agent = LiveAgent(name="desk", model=Line([[text("Wait."), call("double", number=1)]]), tools=[double])
    effects = Effects()
    effects.heard.put_nowait(user("Twice one?"))
    runner = InMemoryRunner(agent, effects=effects)
    async with aclosing(runner.run_async(**WHERE, new_message="Hello")) as events:
        await anext(events)
    session = await runner.session_service.get_session(app_name=runner.app_name, **WHERE)
    assert effects.log == ["desk connects", "desk hangs up"]
    assert session is not None
    assert [event.text for event in session.events] == ["Hello", "Wait."]
