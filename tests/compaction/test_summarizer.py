"""What a model is asked to summarise, and what is made of its answer."""

from __future__ import annotations

import pytest
from google.genai import types
from kit import event, model, named_call, result, text

from compaction.logs import session_of, turns
from flowloom import ConfigurationError, Event, EventsCompactionConfig, LlmResponse
from flowloom.compaction import LlmEventsSummarizer, compact_session
from flowloom.errors import ModelNotFoundError, ModelResponseError
from flowloom.testing import ScriptedModel


async def prompt_for(*events: Event, template: str = "{conversation_history}") -> str:
    writer = model("in short")
    await LlmEventsSummarizer(writer, template).maybe_summarize_events(events=list(events))
    return (writer.requests[0].contents[0].parts or [])[0].text or ""


async def test_the_model_reads_who_said_what_and_what_tools_gave() -> None:
    told = await prompt_for(
        event("user", "Which trains?"),
        event("root", named_call("c1", "trains", to="Rome")),
        event("root", result("c1", "trains", {"at": "8:05"})),
        event("root", "At 8:05."),
    )
    assert told.splitlines() == [
        "user: Which trains?",
        'root called tool `trains` with {"to": "Rome"}',
        'tool `trains` gave root: {"at": "8:05"}',
        "root: At 8:05.",
    ]


async def test_thoughts_and_credentials_are_not_told() -> None:
    told = await prompt_for(
        event("root", text("Hm.", thought=True), "Sure."),
        event("root", named_call("adk-1", "adk_request_credential", secret="s3")),
        event("user", result("adk-1", "adk_request_credential", {"token": "s3"})),
    )
    assert told == "root: Sure."


async def test_long_results_are_told_in_part() -> None:
    told = await prompt_for(event("root", result("c1", "page", {"html": "x" * 5000})))
    assert len(told) < 1200
    assert told.endswith("more characters]")


async def test_braces_of_a_template_and_of_the_conversation_are_kept() -> None:
    told = await prompt_for(event("user", "{x} {conversation_history}"), template="{a} {conversation_history} {}")
    assert told == "{a} user: {x} {conversation_history} {}"


def test_a_template_has_a_place_for_the_conversation() -> None:
    with pytest.raises(ConfigurationError, match="no place for the conversation"):
        LlmEventsSummarizer(model(), "Summarise.")


def test_a_model_may_be_named() -> None:
    assert LlmEventsSummarizer("offline").llm.model == "offline"
    with pytest.raises(ModelNotFoundError):
        LlmEventsSummarizer("no-such-model")


async def test_the_thoughts_of_the_summarising_model_are_left_out() -> None:
    made = await LlmEventsSummarizer(model([text("Hm.", thought=True), text("in short")])).maybe_summarize_events(
        events=turns(1)
    )
    assert made is not None
    assert made.actions.compaction is not None
    content = made.actions.compaction.compacted_content
    assert content.role == "model"
    assert [part.text for part in content.parts or ()] == ["in short"]


async def test_the_tokens_of_a_summary_are_on_its_event() -> None:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=7)
    content = types.Content(role="model", parts=[text("in short")])
    session, service = await session_of(*turns(2, size=9))
    writer = model(LlmResponse(content=content, usage_metadata=usage))
    made = await compact_session(session, service, EventsCompactionConfig(compaction_interval=1), writer)
    assert made is not None
    assert made.usage_metadata == usage


@pytest.mark.parametrize("answer", ["", LlmResponse(error_code="SAFETY", error_message="No.")])
async def test_an_answer_without_text_is_no_summary(answer: str | LlmResponse) -> None:
    with pytest.raises(ModelResponseError, match="wrote no summary"):
        await LlmEventsSummarizer(model(answer)).maybe_summarize_events(events=turns(1))


async def test_nothing_said_needs_no_summary() -> None:
    writer = model()
    assert await LlmEventsSummarizer(writer).maybe_summarize_events(events=[event("root")]) is None
    assert writer.requests == []


async def test_an_offline_model_will_do() -> None:
    session, service = await session_of(*turns(3, size=200))
    made = await compact_session(session, service, EventsCompactionConfig(compaction_interval=1), "offline")
    assert made is not None


async def test_a_summary_of_summaries_begins_with_the_first() -> None:
    session, service = await session_of(*turns(2, size=9))
    writer = ScriptedModel(["the first", "the second"])
    config = EventsCompactionConfig(compaction_interval=1)
    await compact_session(session, service, config, writer)
    for each in turns(2, start=2, size=9):
        await service.append_event(session, each)
    await compact_session(session, service, config, writer)
    asked = (writer.requests[1].contents[0].parts or [])[0].text or ""
    assert "Summary of what came before: the first\nuser: u2u2" in asked
