"""The span of a model call (spec §12.9)."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from flowloom import BaseLlm, LlmAgent, LlmRequest, LlmResponse
from flowloom.errors import IncompleteStreamError
from flowloom.testing.scripted import FunctionModel, ScriptedModel
from telemetry.agents import SSE, STOP, agent, answer, context, run, usage
from telemetry.conftest import Recording

SPAN = "generate_content scripted"


async def test_a_span_ends_at_the_first_complete_response_and_is_not_opened_again(recording: Recording) -> None:
    """Partial, final, another final: one span, with what the first final says."""
    answers = [
        answer("a", partial=True),
        answer("ab", finish_reason=STOP, usage_metadata=usage(10, 20)),
        answer("more", finish_reason=STOP, usage_metadata=usage(1, 2)),
    ]
    root = agent([answers])
    events = root.run_async(context(root, run_config=SSE))
    seen = [(event.text, recording.names.count(SPAN)) async for event in events]
    assert seen == [("a", 0), ("ab", 1), ("more", 1)]
    attributes = recording.span(SPAN).attributes
    assert attributes is not None
    assert attributes["gen_ai.usage.input_tokens"] == 10
    assert attributes["gen_ai.usage.output_tokens"] == 20


async def test_a_stream_of_partials_ends_its_span_with_the_last_of_them(recording: Recording) -> None:
    """Only partials: one span, ended at the end of the stream, with the last usage."""
    root = agent(
        [[answer("a", partial=True, usage_metadata=usage(1, 1)), answer("b", partial=True, usage_metadata=usage(3, 4))]]
    )
    events = root.run_async(context(root, run_config=SSE))
    await events.__anext__()
    second = await events.__anext__()
    assert (await events.__anext__()).error_code == "IncompleteStreamError"
    with pytest.raises(IncompleteStreamError):
        await events.__anext__()
    attributes = recording.span(SPAN).attributes
    assert attributes is not None
    assert attributes["gen_ai.usage.output_tokens"] == 4
    assert attributes["gcp.vertex.agent.event_id"] == second.id


async def test_an_error_in_mid_stream_fails_the_span(recording: Recording) -> None:
    """Partial then error: the span ends at the error, with its message and without what a response would tell."""

    async def stream(_: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield answer("a", partial=True, usage_metadata=usage(1, 1))
        raise ValueError("broken")

    root = LlmAgent(name="bot", model=FunctionModel(stream))
    with pytest.raises(ValueError, match="broken"):
        await run(root, SSE)
    span = recording.span("generate_content function")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "broken"
    assert [event.name for event in span.events] == ["exception"]
    attributes = dict(span.attributes or {})
    assert attributes["error.type"] == "ValueError"
    assert attributes["gen_ai.operation.name"] == "generate_content"
    assert attributes["gen_ai.request.model"] == "function"
    assert str(attributes["gcp.vertex.agent.invocation_id"]).startswith("e-")
    assert "gen_ai.response.finish_reasons" not in attributes
    assert "gcp.vertex.agent.event_id" not in attributes


async def test_a_span_tells_of_request_response_and_usage(recording: Recording) -> None:
    """All attributes of a call that succeeds."""
    response = answer(
        "ok", finish_reason=STOP, usage_metadata=usage(10, 20, 15, 5), model_version="m-001", interaction_id="i-1"
    )
    events = await run(agent([response]))
    span = recording.span(SPAN)
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "gcp.vertex.agent"
    assert span.instrumentation_scope.schema_url == "https://opentelemetry.io/schemas/1.36.0"
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.request.model": "scripted",
        "gen_ai.agent.name": "bot",
        "gen_ai.conversation.id": "s",
        "gcp.vertex.agent.invocation_id": events[0].invocation_id,
        "gcp.vertex.agent.event_id": events[0].id,
        "gen_ai.response.finish_reasons": ("STOP",),
        "gen_ai.response.model": "m-001",
        "gen_ai.response.id": "i-1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 35,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 15,
    }


async def test_a_missing_finish_reason_is_an_empty_one(recording: Recording) -> None:
    """A model that gives no finish reason has one that is empty."""
    await run(agent(["ok"]))
    assert (recording.span(SPAN).attributes or {})["gen_ai.response.finish_reasons"] == ("",)


@pytest.mark.parametrize(
    ("fields", "provider"),
    [
        ({"backend": "gemini_api"}, "gcp.gemini"),
        ({"backend": "vertex_ai"}, "gcp.vertex_ai"),
        ({"provider_name": "anthropic"}, "anthropic"),
        ({}, None),
    ],
)
async def test_the_provider_is_named_when_it_is_known(
    recording: Recording, fields: dict[str, str], provider: str | None
) -> None:
    """By the Google backend or by the adapter itself; under the present and the older name."""
    known = type("Known", (ScriptedModel,), {name: property(lambda _, v=v: v) for name, v in fields.items()})
    await run(LlmAgent(name="bot", model=known(["ok"])))
    attributes = recording.span(SPAN).attributes or {}
    assert attributes.get("gen_ai.provider.name") == provider
    assert attributes.get("gen_ai.system") == provider


async def test_an_error_response_fails_the_span_and_keeps_its_usage(recording: Recording) -> None:
    """A model that answers with an error code has failed, though nothing was raised."""
    await run(agent([LlmResponse(error_code="SAFETY", error_message="blocked", usage_metadata=usage(7, 0))]))
    span = recording.span(SPAN)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "blocked"
    assert (span.attributes or {})["error.type"] == "SAFETY"
    assert (span.attributes or {})["gen_ai.usage.input_tokens"] == 7


async def test_callbacks_are_not_part_of_the_time(recording: Recording) -> None:
    """The span starts after the callbacks before the call, and ends before those after it."""
    times: list[int] = []

    def note(**_: Any) -> None:
        times.append(time.time_ns())

    await run(agent(["ok"], before_model_callback=note, after_model_callback=note))
    span = recording.span(SPAN)
    assert times[0] <= (span.start_time or 0)
    assert (span.end_time or 0) <= times[1]


async def test_a_short_circuit_has_no_span(recording: Recording) -> None:
    """A callback that answers in the model's place leaves the agent's span alone."""
    events = await run(agent([], before_model_callback=lambda **_: answer("no")))
    assert events[0].text == "no"
    assert recording.names == ["invoke_agent bot"]
    assert recording.logs == []


async def test_every_call_of_a_wrapper_has_a_span(recording: Recording) -> None:
    """A wrapper that asks twice makes two calls; the one it gave up has ended, too."""

    async def twice(*, call_next: Any, llm_request: LlmRequest, **_: Any) -> AsyncGenerator[LlmResponse, None]:
        async for _unused in call_next(llm_request):
            break
        async for response in call_next(llm_request):
            yield response

    events = await run(agent(["one", "two"], around_model=twice))
    assert [event.text for event in events] == ["two"]
    assert recording.names == ["invoke_agent bot", SPAN, SPAN]
    assert (recording.spans[2].attributes or {})["gcp.vertex.agent.event_id"] == events[0].id


async def test_the_models_own_code_runs_in_its_span_and_the_consumer_does_not(recording: Recording) -> None:
    """Between two chunks, and in the clean-up, the span is current for the model alone."""
    inside: list[str] = []

    async def stream(_: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        try:
            inside.append(trace.get_current_span().name)  # type: ignore[attr-defined]
            yield answer("a", partial=True)
            inside.append(trace.get_current_span().name)  # type: ignore[attr-defined]
            yield answer("ab")
        finally:
            inside.append(trace.get_current_span().name)  # type: ignore[attr-defined]

    root = LlmAgent(name="bot", model=FunctionModel(stream))
    async for _ in root.run_async(context(root, run_config=SSE)):
        assert trace.get_current_span() is trace.INVALID_SPAN
    assert inside == ["generate_content function"] * 3


async def test_spans_of_the_models_own_are_children_of_the_call(recording: Recording) -> None:
    """What an HTTP client records while the model is asked belongs to the call."""

    async def ask(_: LlmRequest) -> str:
        with trace.get_tracer("client").start_as_current_span("POST"):
            return "ok"

    await run(LlmAgent(name="bot", model=FunctionModel(ask)))
    assert recording.tree == [
        (None, "invoke_agent bot"),
        ("invoke_agent bot", "generate_content function"),
        ("generate_content function", "POST"),
    ]


async def test_a_recovered_error_is_still_an_error_of_the_call(recording: Recording) -> None:
    """The callback's answer takes the error's place for the flow; the agent has not failed, the call has."""
    root = agent([ValueError("broken")], on_model_error_callback=lambda **_: answer("instead"))
    events = await run(root)
    assert [event.text for event in events] == ["instead"]
    assert recording.span(SPAN).status.status_code is StatusCode.ERROR
    assert recording.span("invoke_agent bot").status.status_code is StatusCode.UNSET


async def test_a_callback_that_raises_after_the_call_leaves_the_calls_span_in_order(recording: Recording) -> None:
    """The model has answered: its span succeeds, without an event, and the agent's fails."""

    def fail(**_: Any) -> None:
        raise LookupError("callback")

    with pytest.raises(LookupError):
        await run(agent([answer("ok", usage_metadata=usage(1, 2))], after_model_callback=fail))
    span = recording.span(SPAN)
    assert span.status.status_code is StatusCode.UNSET
    assert (span.attributes or {})["gen_ai.usage.output_tokens"] == 2
    assert "gcp.vertex.agent.event_id" not in (span.attributes or {})
    assert recording.span("invoke_agent bot").status.status_code is StatusCode.ERROR


async def test_an_unsampled_span_costs_no_attributes(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is sampled the run goes on as ever, and metrics are counted all the same."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(sampler=ALWAYS_OFF))
    await run(agent([answer("ok", usage_metadata=usage(1, 2))]))
    assert recording.spans == []
    assert len(recording.points("gen_ai.client.operation.duration")) == 1


class _Refuses(BaseLlm):
    def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        raise RuntimeError("refused")


async def test_a_model_that_refuses_at_once_leaves_no_open_span(recording: Recording) -> None:
    """A model that is no generator may raise before there is anything to watch."""
    with pytest.raises(RuntimeError, match="refused"):
        await run(LlmAgent(name="bot", model=_Refuses(model="m")))
    assert recording.open == []
    assert recording.span("invoke_agent bot").status.status_code is StatusCode.ERROR
