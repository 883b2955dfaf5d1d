"""The travel desk on the wire formats of all providers: equivalent answers give one history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from kit import Chat, approve, hand_to, named_call, open_calls, pending, text
from models.answer_server import AnswerServer
from models.gemini_wire import GeminiServer
from models.wire_server import Seen
from providers.anthropic_wire import MessagesServer
from providers.openai_wire import ChatServer
from providers.responses_wire import ResponsesServer

from flowloom import AnthropicModel, BaseLlm, Event, Gemini, LlmResponse, OpenAIModel, RunConfig, StreamingMode
from flowloom.cli.loading import load_app
from flowloom.plugins import ModelOverride
from flowloom.testing import frozen

DESK = Path(__file__).parents[2] / "examples" / "travel_desk"
Provider = tuple[Callable[..., AnswerServer], Callable[[str], BaseLlm]]
PROVIDERS: dict[str, Provider] = {
    "Gemini": (GeminiServer, lambda url: Gemini(model="gemini-2.5-flash", base_url=url, api_key="k")),
    "chat": (ChatServer, lambda url: OpenAIModel(model="m", base_url=url, api_key="k", dialect="openai")),
    "Responses": (ResponsesServer, lambda url: OpenAIModel(model="m", base_url=url, api_key="k", api="responses")),
    "Anthropic": (MessagesServer, lambda url: AnthropicModel(model="m", base_url=url, api_key="k")),
}
# What each agent says, known by its instruction.
SCRIPT: dict[str, list[list[types.Part]]] = {
    "Welcome the traveller": [[hand_to("flights")]],
    "Find flights, and book": [
        [
            text("They want to fly.", thought=True),
            text("I look it up."),
            named_call("c1", "search_flights", origin="Lisbon", destination="Oslo", max_price_eur=300.5),
            named_call("c2", "list_bookings"),
        ],
        [text("There is NL101, für 120 €.")],
        [named_call("c3", "book_flight", flight_number="NL101", passenger="Zoë Ångström")],
        [text("It is booked.")],
        [hand_to("trip_planner")],
    ],
    "Look up flight for": [
        [named_call("c4", "search_flights", origin="Lisbon", destination="Oslo")],
        [text("A flight.")],
    ],
    "Look up hotel for": [[named_call("c5", "search_hotels", city="Oslo")], [text("A hotel.")]],
    "Look up climate for": [[named_call("c6", "get_climate", city="Oslo", month="May")], [text("Some rain.")]],
    "Write a short plan": [[text("Fly, sleep, take an umbrella.")]],
}


class Brain:
    """Answers for all agents, by the script."""

    def __init__(self) -> None:
        self._left = {marker: list(answers) for marker, answers in SCRIPT.items()}

    def __call__(self, seen: Seen) -> LlmResponse:
        body = seen.body.decode()
        [marker] = [marker for marker in self._left if marker in body]
        parts = [part.model_copy(deep=True) for part in self._left[marker].pop(0)]
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=7, candidates_token_count=5, total_token_count=12
        )
        return LlmResponse(
            content=types.Content(role="model", parts=parts),
            finish_reason=types.FinishReason.STOP,
            usage_metadata=usage,
        )


async def history(provider: str, *, stream: bool) -> list[Event]:
    """What is stored after three turns: a search, a booking that a person approves, and a whole plan."""
    make_server, make_model = PROVIDERS[provider]
    with frozen(), make_server(Brain()) as server:
        model: Any = make_model(server.url)
        config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        chat = Chat(load_app(DESK).agent, plugins=[ModelOverride(model)], config=config)
        await chat.say("A flight from Lisbon to Oslo, please.")
        [asked] = pending(await chat.say("Book it."))
        await chat.answer(approve(asked))
        await chat.say("And now plan the whole trip.")
        await model.aclose()
        return await chat.stored()


def told(events: list[Event]) -> list[Any]:
    """What of a history every provider says alike. Branches that ran at the same time stand one after the other."""
    ordered = sorted(events, key=lambda event: (event.branch or "") if "research" in (event.branch or "") else "")
    return [_told(event) for event in ordered]


def _told(event: Event) -> Any:
    data = event.model_dump(mode="json", exclude_none=True, exclude={"id", "timestamp", "invocation_id"})
    data.pop("model_version", None)
    for part in data.get("content", {}).get("parts", ()):
        part.pop("thought_signature", None)  # each provider has its own
        for name in ("function_call", "function_response"):
            if str(part.get(name, {}).get("id", "")).startswith("adk-"):
                part[name]["id"] = "adk-"
    for name in ("requested_tool_confirmations", "agent_state"):  # by ids that were made here
        data["actions"].pop(name, None)
    if data.get("long_running_tool_ids"):
        data["long_running_tool_ids"] = len(data["long_running_tool_ids"])
    return data


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_all_providers_give_one_history(provider: str, stream: bool) -> None:
    events = await history(provider, stream=stream)
    assert not open_calls(events)
    assert told(events) == told(await history("Gemini", stream=False))
