"""A remote agent that asks: its task waits, the run pauses, and the reply goes to the same task."""

from __future__ import annotations

import pytest
from a2a.types import Part
from a2a_peer import Talk, peer
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from kit import WHERE, agent, hand_to

from flowloom import (
    AgentTool,
    InMemoryRunner,
    LlmAgent,
    RemoteA2aAgent,
    RunResult,
    SequentialAgent,
    answers,
    pending_calls,
)
from flowloom.testing import ScriptedModel, call


def data(value: object) -> Part:
    part = Part()
    part.data.CopyFrom(ParseDict(value, Value()))
    return part


async def asks_for_a_city(talk: Talk) -> None:
    await talk.begin()
    if not talk.goes_on:
        await talk.status("input-required", "Which city?")
        return
    await talk.chunk("a", f"Sunny in {talk.words}.")
    await talk.status("completed")


async def run(runner: InMemoryRunner, message: object) -> RunResult:
    return await runner.run_to_result(**WHERE, new_message=message)


@pytest.mark.parametrize("in_words", [True, False], ids=["words", "function response"])
async def test_a_question_pauses_the_run_and_the_reply_goes_to_the_same_task(in_words: bool) -> None:
    """The pending call is an input with the question; words and function responses answer it."""
    async with peer(asks_for_a_city) as other:
        runner = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        asked = await run(runner, "How is it?")
        [waits] = asked.pending
        told = await run(runner, "Rome" if in_words else answers(waits.reply("Rome")))
        session = await runner.session_service.get_session(app_name=runner.app_name, **WHERE)
        await runner.close()
    assert (asked.status, waits.kind, waits.message, waits.agent) == ("paused", "input", "Which city?", "weather")
    assert (told.status, told.text) == ("final", "Sunny in Rome.")
    assert other.words == ["How is it?", "Rome"]
    assert other.heard[0].task_id == other.heard[1].task_id == asked.events[-1].custom_metadata["a2a:task_id"]
    assert other.heard[0].context_id == other.heard[1].context_id
    assert not pending_calls(session.events)


async def test_words_reach_the_same_task_below_a_root_that_would_route_anew() -> None:
    """The root's model is not asked about a reply: the agent that has asked gets it."""
    async with peer(asks_for_a_city) as other:
        root = agent("root", hand_to("weather"), sub_agents=[RemoteA2aAgent("weather", other.url)])
        runner = InMemoryRunner(root)
        asked = await run(runner, "How is it?")
        told = await run(runner, "Rome")
        await runner.close()
    assert (asked.status, told.status, told.text) == ("paused", "final", "Sunny in Rome.")
    assert other.heard[1].task_id == other.heard[0].task_id
    assert other.words[1] == "Rome"
    assert len(root.model.requests) == 1


async def test_a_sequence_goes_on_behind_the_member_that_asked() -> None:
    """Words answer the member, and the members behind it follow."""
    async with peer(asks_for_a_city) as other:
        weather = RemoteA2aAgent("weather", other.url)
        runner = InMemoryRunner(
            SequentialAgent(name="flow", sub_agents=[agent("a", "Hm."), weather, agent("b", "End.")])
        )
        asked = await run(runner, "How is it?")
        told = await run(runner, "Rome")
        await runner.close()
    assert asked.status == "paused"
    assert [e.text for e in told.events if e.text] == ["Sunny in Rome.", "End."]


async def test_another_process_goes_on_with_the_task() -> None:
    """All that a reply needs is in the stored events: a new agent object, with the same session, replies."""
    async with peer(asks_for_a_city) as other:
        first = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        await run(first, "How is it?")
        await first.close()
        second = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        second.session_service = first.session_service
        told = await run(second, "Rome")
        await second.close()
    assert told.text == "Sunny in Rome."
    assert other.heard[1].task_id == other.heard[0].task_id


async def test_a_login_is_a_credential_request_with_its_address() -> None:
    """`auth-required` pauses with the words and the address; the reply goes to the same task, and is stored nowhere."""

    async def script(talk: Talk) -> None:
        await talk.begin()
        if not talk.goes_on:
            await talk.status("auth-required", "Please log in.", data({"auth_uri": "https://login.example/authorize"}))
            return
        await talk.chunk("a", "Logged in.")
        await talk.status("completed")

    async with peer(script) as other:
        runner = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        asked = await run(runner, "How is it?")
        [waits] = asked.pending
        told = await run(runner, answers(waits.consent("https://app.example/back?code=verysecretcode")))
        session = await runner.session_service.get_session(app_name=runner.app_name, **WHERE)
        await runner.close()
    assert (asked.status, waits.kind, waits.message) == ("paused", "credential", "Please log in.")
    assert waits.authorization_url == "https://login.example/authorize"
    assert told.text == "Logged in."
    assert other.heard[1].task_id == other.heard[0].task_id
    assert other.words[1] == "https://app.example/back?code=verysecretcode"
    assert "verysecretcode" not in session.model_dump_json()


async def test_the_words_of_a_login_are_stored_nowhere() -> None:
    """Words that answer who is asked to log in may hold a code: they go to the task, and not into the session."""

    async def script(talk: Talk) -> None:
        await talk.begin()
        if not talk.goes_on:
            await talk.status("auth-required", "Send the code.")
            return
        await talk.status("completed", "Done.")

    async with peer(script) as other:
        runner = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        await run(runner, "How is it?")
        told = await run(runner, "verysecretcode")
        session = await runner.session_service.get_session(app_name=runner.app_name, **WHERE)
        await runner.close()
    assert (told.text, other.words[1]) == ("Done.", "verysecretcode")
    assert "verysecretcode" not in session.model_dump_json()


async def test_a_question_in_words_may_ask_again() -> None:
    """A task that asks a second time waits for a second answer."""

    async def script(talk: Talk) -> None:
        await talk.begin()
        if talk.words != "Monday":
            await talk.status("input-required", "Which day?" if talk.goes_on else "Which city?")
            return
        await talk.chunk("a", "Sunny.")
        await talk.status("completed")

    async with peer(script) as other:
        runner = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        found = [await run(runner, words) for words in ("How is it?", "Rome", "Monday")]
        await runner.close()
    assert [each.status for each in found] == ["paused", "paused", "final"]
    assert len({message.task_id for message in other.heard}) == 1


async def test_what_a_peer_asks_as_data_is_answered_as_data() -> None:
    """The extension for pending calls: schema, payload and the id of the answer."""
    schema = {"type": "integer"}

    async def script(talk: Talk) -> None:
        await talk.begin()
        if not talk.goes_on:
            waits = {"id": "p1", "kind": "input", "name": "adk_request_input", "message": "How many?", "schema": schema}
            await talk.status("input-required", "How many?", data({"pending": [waits]}))
            return
        await talk.status("completed", "Done.")

    async with peer(script) as other:
        runner = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        [waits] = (await run(runner, "Order.")).pending
        await run(runner, answers(waits.reply(3)))
        await runner.close()
    assert waits.response_schema == schema
    assert [dict(part.data.struct_value.items()) for part in other.heard[1].parts] == [{"id": "p1", "value": 3.0}]


async def test_a_waiting_call_of_google_adk_is_answered_as_its_function_response() -> None:
    """Its servers take nothing else."""

    async def script(talk: Talk) -> None:
        await talk.begin()
        if not talk.goes_on:
            call = data({"id": "c1", "name": "ask", "args": {"message": "Sure?"}})
            call.metadata.update({"adk_type": "function_call", "adk_is_long_running": True})
            await talk.status("input-required", call)
            return
        await talk.status("completed", "Done.")

    async with peer(script) as other:
        runner = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        [waits] = (await run(runner, "Order.")).pending
        await run(runner, answers(waits.reply("yes")))
        await runner.close()
    [part] = other.heard[1].parts
    assert waits.message == "Sure?"
    assert part.metadata["adk_type"] == "function_response"
    assert part.data.struct_value["id"] == "c1"
    assert part.data.struct_value["response"]["result"] == "yes"


async def test_a_question_behind_a_tool_is_the_callers_to_answer() -> None:
    """A remote agent as a tool asks, too; its task goes on when the answer is there, and the model gets its result."""
    async with peer(asks_for_a_city) as other:
        model = ScriptedModel([call("weather", request="How is it?"), "Told."])
        runner = InMemoryRunner(
            LlmAgent(name="root", model=model, tools=[AgentTool(RemoteA2aAgent("weather", other.url))])
        )
        asked = await run(runner, "How is it?")
        [waits] = asked.pending
        told = await run(runner, answers(waits.reply("Rome")))
        await runner.close()
    assert (asked.status, waits.message) == ("paused", "Which city?")
    assert (told.status, told.text) == ("final", "Told.")
    assert other.words == ["How is it?", "Rome"]
    assert other.heard[1].task_id == other.heard[0].task_id
