"""Answers of a page that are unusual, and threads that have to be rebuilt (protocols spec §5, In)."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from test_ag_ui import add, await_response, of, page_of, told

from flowloom import Event, FunctionTool, InMemoryRunner, LlmAgent, Runner, SqliteSessionService, request_input
from flowloom.auth import AuthConfig, AuthCredential
from flowloom.testing import FunctionModel, ScriptedModel, call
from flowloom.tools import AuthenticatedFunctionTool

COLOUR = {"name": "colour", "description": "The page's colour.", "parameters": {"type": "object", "properties": {}}}
KEY = AuthConfig(auth_scheme={"type": "apiKey", "in": "header", "name": "X-Key"})


def said(model: ScriptedModel, number: int) -> list[Any]:
    """What the model is shown, part by part."""
    parts = [part for content in model.requests[number].contents for part in content.parts]
    return [
        part.text or (part.function_call and part.function_call.name) or part.function_response or "file"
        for part in parts
    ]


def keyed(credential: AuthCredential) -> str:
    """Uses a key."""
    return f"opened by {credential.api_key}"


async def test_a_thread_that_began_with_a_file_is_known() -> None:
    """What was shown without words counts as said: nothing of it is kept twice."""
    source = {"type": "data", "value": base64.b64encode(b"png").decode(), "mimeType": "image/png"}
    model = ScriptedModel(["Nice.", "Next."])
    async with page_of(InMemoryRunner(LlmAgent(name="desk", model=model)), user="ann") as page:
        await page.say([{"type": "image", "source": source}])
        page.messages.append({"id": "a1", "role": "assistant", "content": "Nice."})
        await page.say("And now?")
    assert said(model, 1) == ["file", "Nice.", "And now?"]


@pytest.mark.parametrize("ids", [5, "m1", [["m1"], 5], {"m1": 1}])
async def test_what_an_event_says_in_the_place_of_message_ids_is_a_claim(ids: Any) -> None:
    """Another writer of the session has given it that: it names no message of the page."""
    model = ScriptedModel(["One.", "Two."])
    runner = InMemoryRunner(LlmAgent(name="desk", model=model))
    where = {"app_name": runner.app_name, "user_id": "ann", "session_id": "t1"}
    session = await runner.session_service.create_session(**where)
    content = types.Content(role="user", parts=[types.Part(text="Elsewhere.")])
    event = Event(author="user", content=content, custom_metadata={"ag_ui_message_ids": ids})
    await runner.session_service.append_event(session, event)
    async with page_of(runner, user="ann") as page:
        assert told(await page.say("Hello.")) == "One."
    assert said(model, 0) == ["Elsewhere.", "Hello."]


async def test_a_thread_that_is_gone_goes_on_with_the_pages_results() -> None:
    """A call whose result comes last is rebuilt with it: the model goes on from there, and the page is not asked
    again."""
    calls = [{"id": "c1", "type": "function", "function": {"name": "colour", "arguments": "{}"}}]
    model = ScriptedModel(["Red, then.", "Over."])
    async with page_of(InMemoryRunner(LlmAgent(name="desk", model=model)), user="ann") as page:
        page.extra = {"tools": [COLOUR]}
        page.messages = [
            {"id": "1", "role": "user", "content": "Which?"},
            {"id": "2", "role": "assistant", "toolCalls": calls},
            {"id": "3", "role": "tool", "toolCallId": "c1", "content": "", "error": "no colour"},
        ]
        assert told(await page.run()) == "Red, then."
        assert told(await page.say("And?")) == "Over."
    assert said(model, 0)[:2] == ["Which?", "colour"]
    assert await_response(model, 0) == {"error": "no colour"}
    assert [each for each in said(model, 1) if isinstance(each, str)] == ["Which?", "colour", "Red, then.", "And?"]


async def test_a_question_is_answered_once_in_a_request() -> None:
    """Two decisions about one call contradict each other, perhaps: none of them counts."""
    pay = FunctionTool(add, name="pay", require_confirmation=True)
    model = ScriptedModel([call("pay", a=1, b=2), "Paid."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[pay])) as page:
        (asked,) = (await page.say("Pay"))[-1]["outcome"]["interrupts"]
        yes, no = ({"interruptId": asked["id"], "status": "resolved", "payload": each} for each in (True, False))
        assert (await page.post(resume=[yes, no])).status_code == 409
        assert told(await page.run(resume=[yes])) == "Paid."


async def test_a_credential_is_given_or_refused() -> None:
    """A key as a text or in an `AuthCredential`; `cancelled` refuses, and the model is told so."""
    answers = [
        {"status": "resolved", "payload": "sesame"},
        {"status": "resolved", "payload": {"authType": "apiKey", "apiKey": "sesame"}},
        {"status": "cancelled"},
    ]
    for answer in answers:
        model = ScriptedModel([call("keyed"), "Done."])
        tool = AuthenticatedFunctionTool(func=keyed, auth_config=KEY)
        async with page_of(LlmAgent(name="desk", model=model, tools=[tool])) as page:
            (asked,) = (await page.say("Open"))[-1]["outcome"]["interrupts"]
            assert asked["reason"] == "auth_required"
            assert (await page.post(resume=[{"interruptId": asked["id"], "status": "resolved"}])).status_code == 422
            assert told(await page.run(resume=[{"interruptId": asked["id"], **answer}])) == "Done."
        result = await_response(model, 1)
        if answer["status"] == "cancelled":
            assert "gave no access" in result["error"]
        else:
            assert result == {"result": "opened by sesame"}


async def test_a_closed_question_is_null_where_null_is_an_answer() -> None:
    """And says that it was cancelled where anything is."""
    for schema, given in (({"type": ["object", "null"]}, {"result": None}), (None, {"cancelled": True})):
        model = ScriptedModel([call("adk_request_input", message="Which?", response_schema=schema), "Never mind."])
        async with page_of(LlmAgent(name="desk", model=model, tools=[request_input])) as page:
            (asked,) = (await page.say("Book"))[-1]["outcome"]["interrupts"]
            events = await page.run(resume=[{"interruptId": asked["id"], "status": "cancelled"}])
        assert told(events) == "Never mind."
        assert await_response(model, 1) == given


async def test_half_of_a_character_does_not_break_the_stream() -> None:
    """U+FFFD stands for it, as in all that is stored."""
    async with page_of(LlmAgent(name="desk", model=ScriptedModel(["Half \ud83d of it"]))) as page:
        events = await page.say("Hi")
    assert told(events) == "Half \ufffd of it"
    assert json.dumps(of(events, "RUN_FINISHED")[0]["outcome"]) == '{"type": "success"}'


async def test_requests_that_begin_a_thread_at_once_find_one_session(tmp_path: Path) -> None:
    """Whichever makes it, and whatever is around its name."""
    async with SqliteSessionService(str(tmp_path / "store.db")) as service:
        agent = LlmAgent(name="desk", model=FunctionModel(lambda _: "Hi."))
        runner = Runner(app_name="app", agent=agent, session_service=service)
        async with page_of(runner, user="ann") as page:
            asked = [[{"id": f"m{number}", "role": "user", "content": "Hi"}] for number in range(4)]
            answers = await asyncio.gather(*(page.post(threadId=" t1 ", messages=each) for each in asked))
        assert [answer.text.count("RUN_FINISHED") for answer in answers] == [1] * 4
        session = await service.get_session(app_name="app", user_id="ann", session_id="t1")
        assert [event.text for event in session.events] == ["Hi", "Hi."] * 4
