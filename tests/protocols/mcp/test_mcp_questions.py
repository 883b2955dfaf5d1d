"""What a server asks in the middle of a call: people, the model, folders; and how far it is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from kit import Chat
from mcp_kit import Raw, asks, is_alive, pass_time, result_of

from flowloom import InMemoryRunner, PendingCall, pending_calls
from flowloom.run_stream import ToolCallProgress, run_stream_of
from flowloom.testing import call


async def asked(chat: Chat) -> PendingCall:
    (pending,) = pending_calls(await chat.stored())
    return pending


def told(events: list[Any]) -> Any:
    """The result of the last call."""
    return [each.response for event in events for each in event.get_function_responses()][-1]


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"name": "Ann"}, {"action": "accept", "content": {"name": "Ann", "size": "M"}}),
        (False, {"action": "decline"}),
        (None, {"action": "cancel"}),
    ],
)
async def test_a_question_pauses_the_run_and_the_answer_goes_to_the_open_call(
    tmp_path: Path, value: Any, answer: dict[str, Any]
) -> None:
    """The server's call stays open meanwhile, so it is made once; defaults are filled in; `false` declines."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(timeout=60), call("elicit"), "ok"))
    await chat.say("go")
    pending = await asked(chat)
    assert (pending.kind, pending.name, pending.message) == ("input", "elicit", "Whose shirt?")
    await pass_time(120)  # longer than the timeout of a call
    events = await chat.answer(pending.reply(value))
    assert json.loads(told(events)["result"]) == answer
    assert events[-1].text == "ok"
    assert len(raw.received("tools/call")) == 1
    await chat.runner.close()


async def test_a_question_on_a_pipe_is_about_the_oldest_call_that_is_open(tmp_path: Path) -> None:
    """Nothing else tells; its siblings have their results, and the answer goes to the call that asked."""
    raw = Raw(tmp_path)
    slow = [call("slow", seconds=0.4) for _ in range(7)]
    chat = Chat(asks(raw.toolset(), [call("elicit"), *slow], "ok"))
    events = await chat.say("go")
    pending = await asked(chat)
    assert pending.name == "elicit"
    assert [each.name for event in events for each in event.get_function_responses()].count("slow") == 7
    events = await chat.answer(pending.reply({"name": "Ann"}))
    assert json.loads(told(events)["result"])["action"] == "accept"
    await chat.runner.close()


@pytest.mark.parametrize(
    ("properties", "told_of"),
    [({"x": True}, None), ({"x": None}, "None at `#/properties/x`"), ({"x": {"type": "odd"}}, "unknown type `odd`")],
)
async def test_a_form_that_is_badly_described_is_an_error_that_says_so(
    tmp_path: Path, properties: Any, told_of: str | None
) -> None:
    """Of the call that asked; what is described as anything takes anything."""
    raw = Raw(tmp_path)
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": properties, "required": ["x"]}}
    chat = Chat(asks(raw.toolset(), call("ask", method="elicitation/create", params=form), "ok"))
    events = await chat.say("go")
    if told_of is None:
        assert (await asked(chat)).message == "?"
    else:
        assert told_of in told(events)["error"]
    await chat.runner.close()


async def test_a_server_may_ask_twice(tmp_path: Path) -> None:
    """Each question pauses the run, and each answer goes on."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(), call("elicit_twice"), "ok"))
    await chat.say("go")
    for value in (1, 2):
        events = await chat.answer((await asked(chat)).reply({"value": value}))
    assert told(events) == {"result": "1 then 2"}
    assert len(raw.received("tools/call")) == 1
    await chat.runner.close()


async def test_an_answer_that_comes_too_late_is_an_error_unless_the_call_may_be_repeated(tmp_path: Path) -> None:
    """The waiting call was cancelled; one that may be made again is."""
    for hints, count in (({}, 1), ({"idempotentHint": True}, 2)):
        tool = {"name": "elicit", "inputSchema": {"type": "object"}, "annotations": hints}
        raw = Raw(tmp_path, tools=[tool])
        chat = Chat(asks(raw.toolset(elicitation_wait=0.1), call("elicit"), "ok"))
        await chat.say("go")
        await raw.until("notifications/cancelled", 1)
        events = await chat.answer((await asked(chat)).reply({"name": "Ann"}))
        assert len(raw.received("tools/call")) == count
        assert ("too late" in str(told(events))) == (count == 1)
        assert ("Ann" in str(told(events))) == (count == 2)
        await chat.runner.close()


async def test_a_page_to_visit_is_shown_and_never_fetched(tmp_path: Path) -> None:
    """It is asked for like a credential; the answer goes to the open call."""
    chat = Chat(asks(Raw(tmp_path).toolset(), call("elicit_url"), "ok"))
    await chat.say("go")
    pending = await asked(chat)
    assert pending.kind == "credential"
    assert pending.authorization_url == "https://login.example/x"
    events = await chat.answer(pending.consent("https://login.example/done"))
    assert json.loads(told(events)["result"])["action"] == "accept"
    await chat.runner.close()


async def test_without_leave_nothing_may_be_asked(tmp_path: Path) -> None:
    """Neither people nor the model are offered: the server's request is refused, and it knows beforehand."""
    raw = Raw(tmp_path)
    result = await result_of(raw.toolset(elicitation=False), "elicit")
    assert "not supported" in result["result"]
    assert raw.received("initialize")[0]["params"]["capabilities"] == {}
    assert "not supported" in (await result_of(Raw(tmp_path).toolset(), "sample"))["result"]


async def test_sampling_needs_a_persons_leave_for_each_prompt(tmp_path: Path) -> None:
    """The prompt is the payload; then the agent's model answers, without tools and without the conversation."""
    agent = asks(Raw(tmp_path).toolset(sampling=True), call("sample"), "a word", "ok")
    chat = Chat(agent)
    await chat.say("go")
    pending = await asked(chat)
    assert (pending.kind, pending.payload["systemPrompt"]) == ("confirmation", "Be brief.")
    events = await chat.answer(pending.approve())
    assert json.loads(told(events)["result"])["content"]["text"] == "a word"
    asked_for = agent.model.requests[1]  # type: ignore[union-attr]
    assert asked_for.config.tools is None
    assert [part.text for each in asked_for.contents for part in each.parts or []] == ["Say a word."]
    await chat.runner.close()


async def test_sampling_that_is_refused_is_told_to_the_server(tmp_path: Path) -> None:
    """The model is not asked."""
    agent = asks(Raw(tmp_path).toolset(sampling=True), call("sample"), "ok")
    chat = Chat(agent)
    await chat.say("go")
    events = await chat.answer((await asked(chat)).reject())
    assert "rejected" in told(events)["result"]
    assert len(agent.model.requests) == 2  # type: ignore[union-attr]
    await chat.runner.close()


async def test_a_trusted_server_may_sample(tmp_path: Path) -> None:
    """And what it costs counts into the run."""
    agent = asks(Raw(tmp_path).toolset(sampling="auto"), call("sample"), "a word", "ok")
    runner = InMemoryRunner(agent, app_name="app")
    result = await runner.run_to_result(new_message="go", user_id="ann", session_id="s1")
    assert result.text == "ok"
    assert len(agent.model.requests) == 3  # type: ignore[union-attr]
    await runner.close()


async def test_roots_are_told_as_addresses_of_folders(tmp_path: Path) -> None:
    """Those that the program gave, and nothing without any."""
    result = await result_of(Raw(tmp_path).toolset(roots=[tmp_path]), "roots")
    assert json.loads(result["result"]) == {"roots": [{"uri": tmp_path.as_uri()}]}


async def test_a_change_of_roots_is_told(tmp_path: Path) -> None:
    """A connected server is notified, and finds the new folders; one that was offered none is connected anew."""
    raw = Raw(tmp_path)
    toolset = raw.toolset(roots=[tmp_path])
    chat = Chat(asks(toolset, call("roots"), "ok", call("roots"), "ok"))
    await chat.say("go")
    await toolset.set_roots([tmp_path / "new", tmp_path / "newer"])
    await raw.until("notifications/roots/list_changed", 1)
    found = json.loads(told(await chat.say("again"))["result"])
    assert found == {"roots": [{"uri": (tmp_path / name).as_uri()} for name in ("new", "newer")]}
    assert len(raw.pids) == 1
    await chat.runner.close()
    bare = raw.toolset()
    chat = Chat(asks(bare, "ok", call("roots"), "ok"))
    await chat.say("go")
    await bare.set_roots([tmp_path])
    assert json.loads(told(await chat.say("again"))["result"]) == {"roots": [{"uri": tmp_path.as_uri()}]}
    assert len(raw.received("notifications/roots/list_changed")) == 1
    await chat.runner.close()


async def test_the_program_may_answer_by_itself(tmp_path: Path) -> None:
    """A callback stands in for the person."""

    async def answer(context: Any, params: Any) -> Any:
        return {"action": "accept", "content": {"name": params.message, "size": "S"}}

    result = await result_of(Raw(tmp_path).toolset(elicitation_callback=answer), "elicit")
    assert json.loads(result["result"])["content"]["name"] == "Whose shirt?"


async def test_progress_is_in_the_stream_and_in_the_callback(tmp_path: Path) -> None:
    """At most ten a second for the stream, the last always; the callback gets all, in google-adk's two forms."""
    seen: list[Any] = []

    async def direct(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    def factory(name: str, *, callback_context: Any = None, **_: Any) -> Any:
        return direct if name == "progress" and callback_context is not None else None

    for callback in (direct, factory):
        seen.clear()
        chat = Chat(asks(Raw(tmp_path).toolset(progress_callback=callback), call("progress", count=50), "ok"))
        began = asyncio.get_running_loop().time()
        reports = [each for each in run_stream_of(await chat.say("go")) if isinstance(each, ToolCallProgress)]
        took = asyncio.get_running_loop().time() - began
        assert [each[0] for each in seen] == [float(number) for number in range(1, 51)]
        assert 1 <= len(reports) <= 10 * took + 2  # the first and the last are besides
        assert reports[-1].result == {"progress": 50.0, "total": 50.0, "message": "step 50"}
        await chat.runner.close()


async def test_progress_may_begin_the_timeout_anew(tmp_path: Path) -> None:
    """Only if the program says so."""

    async def take_long(*_: Any) -> None:
        await pass_time(40)

    for resets in (True, False):
        toolset = Raw(tmp_path).toolset(timeout=60, reset_timeout_on_progress=resets, progress_callback=take_long)
        result = await result_of(toolset, "progress", count=5, pause=0.01)
        assert ("error" in result) == (not resets)


async def test_a_parked_call_ends_with_the_runner(tmp_path: Path) -> None:
    """No process is left, although a person was never heard."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(), call("elicit"), "ok"))
    await chat.say("go")
    await chat.runner.close()
    assert not any(map(is_alive, raw.pids))
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
