"""Decisions that no other file tests: where the references differ, this is what holds."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import pytest
from google.genai import types
from kit import (
    STREAMED,
    Chat,
    agent,
    collect,
    context,
    event,
    hand_to,
    named_call,
    open_calls,
    requests_of,
    result,
    said,
    shown,
    story,
    text,
)

from flowloom import (
    BaseLlm,
    Event,
    EventActions,
    FlowloomError,
    InMemoryArtifactService,
    InMemoryRunner,
    LimitExceededError,
    Limits,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    RunConfig,
    ToolContext,
)
from flowloom.errors import LlmCallsLimitExceededError
from flowloom.testing import FunctionModel, call


def thought(words: str) -> LlmResponse:
    return LlmResponse(content=said(text(words, thought=True)), finish_reason=types.FinishReason.STOP)


def empty() -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[]), finish_reason=types.FinishReason.STOP)


async def test_decision_02_a_turn_of_thoughts_alone_asks_the_model_again() -> None:
    root = agent("root", thought("hm"), thought("hm hm"), "an answer")
    assert story(await Chat(root).say("go"))[-1] == "root: an answer"


async def test_decision_02_after_three_more_it_is_an_error() -> None:
    root = agent("root", *(thought("hm") for _ in range(4)))
    events = await Chat(root).say("go")
    assert len(requests_of(root)) == 4
    assert events[-1].error_code == "MODEL_RETURNED_ONLY_THOUGHTS"
    assert "`root`" in (events[-1].error_message or "")


async def test_decision_03_an_empty_answer_is_an_error_event() -> None:
    events = await Chat(agent("root", empty())).say("go")
    assert [e.error_code for e in events] == ["MODEL_RETURNED_NO_CONTENT"]


async def test_decision_04_the_request_shows_only_what_the_flow_made() -> None:
    """A conversation that ends on the model's turn is assembled as it is; the adapter of a provider mends it."""
    root = agent("root", "more")
    ctx = context(root, event("user", "go"), event("root", "half"))
    request = (await root.flow.assemble(ctx)).request
    assert [content.role for content in request.contents] == ["user", "model"]


async def test_decision_08_a_tool_that_raises_is_a_result_and_its_siblings_results_are_kept() -> None:
    def fails() -> None:
        """Fail."""
        raise ValueError("out of paper")

    def works() -> str:
        """Work."""
        return "done"

    root = agent("root", [call("fails"), call("works")], "sorry", tools=[fails, works])
    events = await Chat(root).say("go")
    assert story(events)[2:4] == ["root: fails -> {'error': 'out of paper'}", "root: works -> {'result': 'done'}"]


async def test_decision_08_a_run_may_raise_instead() -> None:
    def fails() -> None:
        """Fail."""
        raise ValueError("out of paper")

    chat = Chat(agent("root", call("fails"), tools=[fails]), config=RunConfig(tool_errors="raise"))
    with pytest.raises(ValueError, match="out of paper"):
        await chat.say("go")
    assert open_calls(await chat.stored()) == set()


async def test_decision_09_an_unknown_tool_is_told_the_closest_name_first() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    def subtract(a: int) -> int:
        """Subtract."""
        return a

    def zoom() -> None:
        """Zoom."""

    root = agent("root", call("substract"), "sorry", tools=[zoom, add, subtract])
    told = (await Chat(root).say("go"))[1].get_function_responses()[0].response or {}
    assert "`subtract`, `add`, `zoom`" in told["error"]


async def test_decision_13_parallel_state_is_merged_deeply_and_the_later_call_wins() -> None:
    def first(tool_context: ToolContext) -> None:
        """Write."""
        tool_context.state["trip"] = {"from": "Oslo", "to": "Rome"}

    def second(tool_context: ToolContext) -> None:
        """Write."""
        tool_context.actions.state_delta["trip"] = {"to": "Bari"}

    chat = Chat(agent("root", [call("first"), call("second")], "ok", tools=[first, second]))
    await chat.say("go")
    assert (await chat.state())["trip"] == {"from": "Oslo", "to": "Bari"}


async def test_decision_13_artifact_versions_are_merged_by_maximum() -> None:
    async def twice(tool_context: ToolContext) -> None:
        """Save two versions."""
        await tool_context.save_artifact("a.txt", types.Part(text="1"))
        await tool_context.save_artifact("a.txt", types.Part(text="2"))

    def stale(tool_context: ToolContext) -> None:
        """Name an old version."""
        tool_context.actions.artifact_delta["a.txt"] = 0

    events = await Chat(agent("root", [call("twice"), call("stale")], "ok", tools=[twice, stale])).say("go")
    assert events[1].actions.artifact_delta == {"a.txt": 1}


async def test_decision_15_other_agents_thoughts_are_not_shown() -> None:
    helper = agent("helper", "mine")
    root = agent("root", [text("secret plan", thought=True), hand_to("helper")], sub_agents=[helper])
    await Chat(root).say("go")
    assert "secret plan" not in str(shown(requests_of(helper)[0]))


async def test_decision_16_a_minted_id_is_the_same_on_partials_and_on_the_aggregate() -> None:
    partial = LlmResponse(content=said(call("note")), partial=True)
    whole = LlmResponse(content=said(call("note")))

    def note() -> None:
        """Note."""

    events = await Chat(agent("root", [partial, whole], "ok", tools=[note]), config=STREAMED).say("go")
    ids = [c.id for e in events for c in e.get_function_calls()]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert str(ids[0]).startswith("adk-")


@pytest.mark.parametrize(("keeps", "shown_ids"), [(False, [None]), (True, ["adk-1"])])
async def test_decision_16_a_minted_id_is_stripped_unless_the_model_wants_it(
    keeps: bool, shown_ids: list[str | None]
) -> None:
    class Keeping(BaseLlm):
        keeps_call_ids: ClassVar[bool] = keeps

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            yield LlmResponse(content=said("ok"))

    root = LlmAgent(name="root", model=Keeping(model="k"))
    log = [event("user", "go"), event("root", named_call("adk-1", "note"))]
    ctx = context(root, *log, event("user", result("adk-1", "note", {})))
    request = (await root.flow.assemble(ctx)).request
    calls = [part.function_call for content in request.contents for part in content.parts or () if part.function_call]
    assert [each.id for each in calls] == shown_ids


async def test_decision_19_temporary_state_lives_as_long_as_the_invocation() -> None:
    def mark(tool_context: ToolContext) -> None:
        """Mark."""
        tool_context.state["temp:step"] = 1

    def look(tool_context: ToolContext) -> int:
        """Look."""
        return tool_context.state["temp:step"]

    chat = Chat(agent("root", call("mark"), call("look"), "ok", tools=[mark, look]))
    events = await chat.say("go")
    assert "root: look -> {'result': 1}" in story(events)
    assert await chat.state() == {}
    assert all(not e.actions.state_delta for e in await chat.stored())


async def test_decision_20_partial_events_are_not_stored_and_run_no_tools() -> None:
    runs: list[int] = []

    def note() -> None:
        """Note."""
        runs.append(1)

    streamed = [LlmResponse(content=said(call("note")), partial=True), LlmResponse(content=said(call("note")))]
    chat = Chat(agent("root", streamed, "ok", tools=[note]), config=STREAMED)
    await chat.say("go")
    assert runs == [1]
    assert all(not e.partial for e in await chat.stored())


async def test_decision_21_an_event_is_stored_before_it_is_seen() -> None:
    def note() -> None:
        """Note."""

    chat = Chat(agent("root", call("note"), "ok", tools=[note]))
    async for seen in chat.runner.run_async(user_id="ann", session_id="s1", new_message="go"):
        assert (await chat.stored())[-1].id == seen.id


LIMITS = [
    (RunConfig(max_llm_calls=2), "max_llm_calls"),
    (RunConfig(limits=Limits(model_calls=2)), "model_calls"),
    (RunConfig(limits=Limits(tool_calls=2)), "tool_calls"),
    (RunConfig(limits=Limits(total_tokens=15)), "total_tokens"),
    (RunConfig(limits=Limits(seconds=0.03)), "seconds"),
]


@pytest.mark.parametrize(("config", "limit"), LIMITS, ids=[limit for _, limit in LIMITS])
async def test_decision_23_a_limit_is_a_typed_error_and_the_session_goes_on(config: RunConfig, limit: str) -> None:
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=10)

    def answer(request: LlmRequest) -> LlmResponse:
        if "again" in str(shown(request)):
            return LlmResponse(content=said("fine"))
        return LlmResponse(content=said(call("note")), usage_metadata=usage)

    async def note() -> None:
        """Note."""
        await asyncio.sleep(0.02)

    chat = Chat(LlmAgent(name="root", model=FunctionModel(answer), tools=[note]))
    with pytest.raises(LimitExceededError) as raised:
        await chat.say("go", run_config=config)
    assert raised.value.limit == limit
    stored = await chat.stored()
    assert open_calls(stored) == set()
    assert stored[-1].error_code == type(raised.value).__name__
    assert (await chat.say("again"))[-1].text == "fine"


def test_decision_23_the_limit_of_model_calls_has_the_known_name() -> None:
    assert issubclass(LlmCallsLimitExceededError, LimitExceededError)
    assert RunConfig().max_llm_calls == 500


async def test_decision_30_a_response_to_no_call_is_left_out_and_the_model_consulted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = agent("root", "what was that?", "still here")
    chat = Chat(root)
    events = await chat.answer(result("c9", "nobody", {"x": 1}))
    await chat.say("and?")
    assert events[-1].text == "what was that?"
    assert "nobody" not in str(shown(requests_of(root)[1]))
    assert len([record for record in caplog.records if "c9" in record.getMessage()]) == 1


async def test_decision_30_text_beside_a_response_is_shown() -> None:
    root = agent("root", "ok")
    await Chat(root).answer(result("c9", "nobody", {}), text("and a word"))
    assert shown(requests_of(root)[0]) == ["user: and a word"]


async def test_decision_31_a_failed_run_raises_after_one_error_event_of_the_agent_that_failed() -> None:
    helper = agent("helper", RuntimeError("line cut"))
    chat = Chat(agent("root", hand_to("helper"), sub_agents=[helper]))
    with pytest.raises(RuntimeError, match="line cut"):
        await chat.say("go")
    stored = await chat.stored()
    assert [(e.author, e.error_code, e.error_message) for e in stored if e.error_code] == [
        ("helper", "RuntimeError", "line cut")
    ]
    assert open_calls(stored) == set()


async def test_decision_12_blocking_tools_run_side_by_side_with_the_callers_context() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")

    together = threading.Barrier(3, timeout=60)

    def slow() -> str:
        """Block."""
        together.wait()
        return name.get()

    name.set("ann")
    events = await Chat(agent("root", [call("slow"), call("slow"), call("slow")], "ok", tools=[slow])).say("go")
    assert [r.response for r in events[1].get_function_responses()] == [{"result": "ann"}] * 3


async def test_decision_14_the_first_version_of_an_artifact_is_0() -> None:
    service = InMemoryArtifactService()
    where: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s1", "filename": "a.txt"}
    assert await service.save_artifact(**where, artifact=types.Part(text="x")) == 0


async def test_decision_36_everything_works_below_the_runner() -> None:
    root = agent("root", "one", "two", "three")
    ctx = context(root, event("user", "go"))
    assert story(await collect(root.run_async(ctx))) == ["root: one"]
    assert story(await collect(root.flow.run(ctx))) == ["root: two"]
    request = LlmRequest()
    root.flow.request_processors[0](ctx, request)
    assert request.model == root.canonical_model.model


def test_every_error_has_one_root() -> None:
    """A caller catches all that flowloom raises by one name."""
    assert issubclass(LimitExceededError, FlowloomError)
    with pytest.raises(FlowloomError):
        InMemoryRunner(agent("root", sub_agents=[agent("a"), agent("b", sub_agents=[agent("a")])]))


def test_events_hold_actions_of_their_own() -> None:
    """Two events never share a state delta."""
    first, second = Event(author="a"), Event(author="a")
    first.actions.state_delta["x"] = 1
    assert second.actions == EventActions()
