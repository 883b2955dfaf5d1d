"""The concierge and the forecaster: two programs, and one conversation."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

import uvicorn
from kit import Chat, hand_to, model

from flowloom.cli.loading import load_app
from flowloom.protocols.a2a import to_a2a
from flowloom.server.serving import bound_socket
from flowloom.testing import call

load_app(Path(__file__).resolve().parents[2] / "examples" / "two_offices")
offices: Any = importlib.import_module("two_offices.agent")
forecast: Any = importlib.import_module("two_offices.forecast")


async def test_the_concierge_hands_over_to_the_forecaster_of_the_other_office() -> None:
    """Its tool runs there; here is its answer, and the next words go to it, in the same context."""
    bound = bound_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    said = [call("forecast", city="Oslo"), "Snow in Oslo.", "And more of it."]
    served = forecast.forecaster.clone(update={"model": model(*said)})
    server = uvicorn.Server(uvicorn.Config(to_a2a(served, port=port), log_config=None, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server._serve([bound]))
    while not server.started:  # noqa: ASYNC110 - it tells by this alone
        await asyncio.sleep(0.005)
    concierge = offices.concierge_of(f"http://127.0.0.1:{port}")
    chat = Chat(concierge.clone(update={"model": model(hand_to("forecaster"), hand_to("forecaster"))}))
    try:
        first, second = await chat.say("What is the weather in Oslo?"), await chat.say("And the day after?")
    finally:
        await chat.runner.close()
        server.should_exit = True
        await serving
        bound.close()
    assert [(event.author, event.text) for event in (first[-1], second[-1])] == [
        ("forecaster", "Snow in Oslo."),
        ("forecaster", "And more of it."),
    ]
    assert first[-1].custom_metadata["a2a:context_id"] == second[-1].custom_metadata["a2a:context_id"]
    assert not any(call.name == "forecast" for event in first for call in event.get_function_calls())
