"""The receptionist: its tools are a server's, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from kit import Chat, model

from flowloom.cli.loading import load_app
from flowloom.testing import call

ROOT = Path(__file__).resolve().parents[2]


async def test_the_receptionist_asks_the_museums_server() -> None:
    """It is started with the first question, serves both tools, and ends with the runner."""
    agent = load_app(ROOT / "examples" / "tool_server").agent
    calls = [call("museum_opening_hours", day="Friday"), call("museum_book_tour", guests=2)]
    chat = Chat(agent.clone(update={"model": model(calls, "Friday 10 to 21; booked.")}))
    try:
        events = await chat.say("When is it open on Friday? Book a tour for two.")
    finally:
        await chat.runner.close()
    results = [each.response for event in events for each in event.get_function_responses()]
    assert results == [{"result": "10 to 21"}, {"result": "A tour for 2 is booked."}]
