"""Remote agents over each binding and version of the protocol, and as typed events."""

from __future__ import annotations

import pytest
from a2a.types import AgentInterface
from a2a_peer import Talk, peer, peer_card
from a2a_serving import serving_a2a
from kit import WHERE, Chat, agent, text

from flowloom import FunctionTool, InMemoryRunner, LlmAgent, RemoteA2aAgent, SqliteSessionService
from flowloom.protocols.a2a.server_sdk import InMemoryTaskStore
from flowloom.run_stream import CredentialRequested, MessageCompleted, TextDelta, ThoughtDelta
from flowloom.runner import Runner
from flowloom.testing import FunctionModel, ScriptedModel, call


@pytest.mark.parametrize(
    ("binding", "version", "streaming"),
    [
        ("HTTP+JSON", "1.0", True),
        ("JSONRPC", "0.3", False),
        *(
            pytest.param(binding, version, streaming, marks=pytest.mark.soak)
            for binding in ("JSONRPC", "HTTP+JSON")
            for version in ("1.0", "0.3")
            for streaming in (True, False)
        ),
    ],
)
async def test_every_binding_and_version_is_spoken(binding: str, version: str, streaming: bool) -> None:
    """The card says how the service is spoken to; a turn and a dialog go the same way over each."""
    asked = FunctionTool(lambda amount: "paid", require_confirmation=True)
    asked.name = "pay"
    desk = agent("desk", "Hello.", call("pay", amount=1), "Paid.", tools=[asked])
    async with serving_a2a(desk) as caller:
        url = f"{caller.url}/" if binding == "JSONRPC" else caller.url
        card = peer_card("", interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version=version)])
        chat = Chat(RemoteA2aAgent("remote", card, streaming=streaming, polling_seconds=0.1))
        events = await chat.say("Hi")
        paused = await chat.runner.run_to_result(**WHERE, new_message="Pay")
        done = await chat.runner.run_to_result(**WHERE, new_message="yes")
        await chat.runner.close()
    assert [e.text for e in events if not e.partial and e.text] == ["Hello."]
    assert (paused.status, done.text) == ("paused", "Paid.")


async def test_a_turn_is_a_message_of_typed_events() -> None:
    """Text as it comes, thoughts apart, one message at the end; a login as a request."""

    async def script(talk: Talk) -> None:
        await talk.begin()
        if talk.words == "login":
            await talk.status("auth-required", "Log in.")
            return
        await talk.status("working", "looking")
        await talk.chunk("a", "It is ")
        await talk.chunk("a", "sunny.", append=True)
        await talk.status("completed")

    async with peer(script) as other:
        runner = InMemoryRunner(RemoteA2aAgent("weather", other.url))
        events = [event async for event in runner.run_stream(**WHERE, new_message="How is it?")]
        login = [event async for event in runner.run_stream(**WHERE, new_message="login")]
        await runner.close()
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["It is ", "sunny."]
    assert [e.text for e in events if isinstance(e, ThoughtDelta)] == ["looking"]
    assert [e.text for e in events if isinstance(e, MessageCompleted)][-1] == "It is sunny."
    assert len([e for e in login if isinstance(e, CredentialRequested)]) == 1


async def test_another_process_resumes_a_task_that_waits(tmp_path) -> None:
    """With stores that are shared, the reply may come to a process that did not ask."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def desk(*answers: object) -> LlmAgent:
        tools = [FunctionTool(pay, require_confirmation=True)]
        return LlmAgent(name="desk", model=ScriptedModel(list(answers)), tools=tools)

    tasks = InMemoryTaskStore()
    async with SqliteSessionService(tmp_path / "s.db") as sessions:
        first, second = desk(call("pay", amount=5)), desk("Paid 5.")
        one = Runner(app_name="desk", agent=first, session_service=sessions)
        two = Runner(app_name="desk", agent=second, session_service=sessions)
        async with serving_a2a(first, runner=one, task_store=tasks) as caller:
            asked = await caller.send("Pay 5.")
        async with serving_a2a(second, runner=two, task_store=tasks) as other:
            other.context_id = caller.context_id
            done = await other.send("yes", task_id=asked[0].task.id)
    assert paid == [5]
    assert done[-1].status_update.status.state == 3


async def test_a_remote_agent_behind_a_served_one_asks_through() -> None:
    """A chain of two services: the question of the last one reaches the first caller, and the answer the last one."""
    asking = LlmAgent(
        name="asking",
        description="Asks.",
        model=FunctionModel(_asks),
        tools=[FunctionTool(lambda city: f"sunny in {city}", require_confirmation=True)],
    )
    asking.tools[0].name = "look"
    async with serving_a2a(asking) as last:
        middle = RemoteA2aAgent("middle", last.url)
        async with serving_a2a(middle) as first:
            asked = await first.send("How is it?")
            done = await first.send("yes", task_id=asked[0].task.id)
            await middle.close()
    assert asked[-1].status_update.status.state == 6
    assert "look" in asked[-1].status_update.status.message.parts[0].text
    assert done[-1].status_update.status.state == 3


def _asks(request):
    answered = any(part.function_response for part in request.contents[-1].parts or ())
    return [text("Sunny.")] if answered else [call("look", city="Rome")]
