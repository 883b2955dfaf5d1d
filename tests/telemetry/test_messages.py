"""The log records of a model call, and what of its content they show (spec §12.9, decision 26)."""

from __future__ import annotations

import os
from typing import Any

import pytest
from google.genai import types
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from flowloom import LlmAgent, LlmRequest, LlmResponse
from flowloom.telemetry import content_captured, reread_settings
from flowloom.telemetry.content import CAPTURE_VARIABLE, as_data
from flowloom.telemetry.message_log import MessageLog
from flowloom.testing.scripted import FunctionModel, ScriptedModel, call
from telemetry.agents import STOP, agent, answer, run
from telemetry.conftest import Recording

SYSTEM, USER, CHOICE = "gen_ai.system.message", "gen_ai.user.message", "gen_ai.choice"


def logged(recording: Recording, request: LlmRequest) -> None:
    """Log a request as a model call would."""
    MessageLog(recording.logging.get_logger("test")).request(
        request, None, trace.set_span_in_context(trace.INVALID_SPAN)
    )


async def test_all_records_of_a_call_belong_to_its_span(recording: Recording) -> None:
    """System, user and choice carry the id of the span that the model itself sees."""
    seen: list[int] = []

    def say(_: LlmRequest) -> str:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return "ok"

    await run(LlmAgent(name="bot", model=FunctionModel(say), instruction="Be brief."))
    assert [record.event_name for record in recording.logs] == [SYSTEM, USER, CHOICE]
    assert {record.span_id for record in recording.logs} == set(seen)
    assert recording.span("generate_content function").context.span_id == seen[0]


@pytest.mark.usefixtures("captured")
async def test_bodies_hold_the_whole_content_when_it_is_captured(recording: Recording) -> None:
    """The instruction and the identity with a blank line between, each content of any role, the answer."""
    root = agent([answer("ok", finish_reason=STOP)], instruction="Be brief.", description="A bot.")
    await run(root, message="hi")
    (system,) = recording.bodies(SYSTEM)
    assert system["content"].startswith("Be brief.\n\n")
    assert "bot" in system["content"]
    assert recording.bodies(USER) == [{"content": {"role": "user", "parts": ({"text": "hi"},)}}] or recording.bodies(
        USER
    ) == [{"content": {"role": "user", "parts": [{"text": "hi"}]}}]
    (choice,) = recording.bodies(CHOICE)
    assert choice["index"] == 0
    assert choice["finish_reason"] == "STOP"
    assert choice["content"]["role"] == "model"


async def test_nothing_of_the_content_is_shown_when_it_is_not(recording: Recording) -> None:
    """Elided everywhere, for empty requests and answers as well."""
    await run(agent(["ok"], instruction="Be brief."))
    assert recording.bodies(SYSTEM) == [{"content": "<elided>"}]
    assert recording.bodies(USER) == [{"content": "<elided>"}]
    assert recording.bodies(CHOICE) == [{"index": 0, "content": "<elided>"}]
    recording.log_exporter.clear()
    logged(recording, LlmRequest())
    assert recording.bodies(SYSTEM) == [{"content": "<elided>"}]


async def test_each_step_logs_the_whole_request(recording: Recording) -> None:
    """After a tool call the second request has three contents."""

    def look() -> str:
        return "seen"

    await run(agent([call("look"), "done"], tools=[look]))
    second = recording.spans[-1].context.span_id
    assert [record.event_name for record in recording.logs if record.span_id == second] == [
        SYSTEM,
        USER,
        USER,
        USER,
        CHOICE,
    ]


@pytest.mark.usefixtures("captured")
async def test_a_request_without_instruction_or_contents_is_logged_with_an_empty_instruction(
    recording: Recording,
) -> None:
    """The system record is always there."""
    logged(recording, LlmRequest())
    assert [record.body for record in recording.logs] == [{"content": ""}]


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize(
    "instruction",
    [
        types.Content(role="user", parts=[types.Part(text="one"), types.Part(text="two")]),
        [types.Part(text="one"), "two"],
        "one\ntwo",
    ],
)
async def test_system_parts_are_joined_by_newlines(recording: Recording, instruction: Any) -> None:
    """Whatever form the instruction has."""
    logged(recording, LlmRequest(config=types.GenerateContentConfig(system_instruction=instruction)))
    assert recording.bodies(SYSTEM) == [{"content": "one\ntwo"}]


@pytest.mark.usefixtures("captured")
async def test_contents_of_every_role_are_user_messages(recording: Recording) -> None:
    """The model's turns of the history too; a content without parts is its role alone."""
    contents = [types.Content(role="user", parts=[types.Part(text="a")]), types.Content(role="model")]
    logged(recording, LlmRequest(contents=contents))
    assert [body["content"]["role"] for body in recording.bodies(USER)] == ["user", "model"]
    assert dict(recording.bodies(USER)[1]["content"]) == {"role": "model"}


@pytest.mark.parametrize(
    ("backend", "name"), [("gemini_api", "gcp.gemini"), ("vertex_ai", "gcp.vertex_ai"), (None, None)]
)
async def test_records_name_the_backend_when_it_is_known(
    recording: Recording, backend: str | None, name: str | None
) -> None:
    """`gen_ai.system` is there for Google's backends only."""
    known = type("Known", (ScriptedModel,), {"backend": property(lambda _: backend)})
    await run(LlmAgent(name="bot", model=known(["ok"])))
    assert [dict(record.attributes or {}).get("gen_ai.system") for record in recording.logs] == [name] * 3


@pytest.mark.usefixtures("captured")
async def test_whatever_is_said_can_be_exported(recording: Recording) -> None:
    """An exporter throws away all that it has at hand for one number or text that it cannot write."""
    half = "half \ud83d"

    def look(at: str) -> dict[str, Any]:
        return {"id": 2**70, "low": -(2**70), "nothing": None, "all": [1, None, half]}

    failed = LlmResponse(error_code="X", error_message=half)
    await run(agent([call("look", at=half), call(half), failed], tools=[look], instruction=half), message=half)
    made_up = recording.span("execute_tool half \ufffd")
    encode_spans([span for span in recording.spans if span is not made_up])
    encode_logs(recording.log_exporter.get_finished_logs())
    result = recording.bodies(USER)[3]["content"]["parts"][0]["functionResponse"]["response"]
    assert (result["id"], result["low"]) == (str(2**70), str(-(2**70)))
    assert recording.bodies(SYSTEM)[0]["content"].startswith("half \ufffd")


@pytest.mark.usefixtures("captured")
async def test_choices_are_of_complete_responses_only(recording: Recording) -> None:
    """A partial one is none; a function call is one, without a finish reason if it has none."""
    parts = types.Content(role="model", parts=[call("look", at=1)])
    log = MessageLog(recording.logging.get_logger("test"))
    log.choice(LlmResponse(content=parts), "gcp.gemini", trace.set_span_in_context(trace.INVALID_SPAN))
    (body,) = recording.bodies(CHOICE)
    assert set(body) == {"index", "content"}
    assert body["content"]["parts"][0]["functionCall"]["args"] == {"at": 1}
    recording.log_exporter.clear()
    await run(agent([[answer("a", partial=True), answer("ab")]]))
    assert len(recording.bodies(CHOICE)) == 1


@pytest.mark.usefixtures("captured")
async def test_a_response_without_content_is_a_choice_too(recording: Recording) -> None:
    """A blocked prompt has no content."""
    await run(agent([LlmResponse(error_code="SAFETY")]))
    assert recording.bodies(CHOICE) == [{"index": 0, "content": None}]


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("value", [None, "x", True, 1, 1.5, [1, "a"], {"a": {"b": [None, 2]}}])
def test_plain_data_is_written_as_it_is(value: object) -> None:
    """Null, text, booleans, numbers, lists and nested mappings."""
    assert as_data(value) == value


@pytest.mark.usefixtures("captured")
def test_data_of_an_unknown_type_is_written_as_text() -> None:
    """Bytes in base64, anything else by its text; what cannot even be looked at has a marker."""

    class Known:
        def __str__(self) -> str:
            return "known"

    class Hostile:
        def __str__(self) -> str:
            raise RuntimeError

    assert as_data({"a": Known(), "b": b"hi"}) == {"a": "known", "b": "aGk="}
    assert as_data(Hostile()) == "<not specified>"


@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("true", True), (" TRUE ", True), ("0", False), ("yes", False), ("", False)]
)
def test_capture_is_switched_by_the_environment(monkeypatch: pytest.MonkeyPatch, value: str, on: bool) -> None:
    """`1` or `true`, trimmed, in any case."""
    monkeypatch.setenv(CAPTURE_VARIABLE, value)
    reread_settings()
    assert content_captured() is on
    monkeypatch.delenv(CAPTURE_VARIABLE)
    reread_settings()


def test_the_environment_is_read_once() -> None:
    """A later change counts when the settings are read again."""
    reread_settings()
    assert not content_captured()
    os.environ[CAPTURE_VARIABLE] = "1"
    try:
        assert not content_captured()
        reread_settings()
        assert content_captured()
    finally:
        del os.environ[CAPTURE_VARIABLE]
        reread_settings()
