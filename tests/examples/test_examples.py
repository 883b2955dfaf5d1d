"""The examples run with the offline model, and the agents and tools one would expect take part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kit import Chat, approve, open_calls, pending

from flowloom import Event
from flowloom.cli.loading import load_app
from flowloom.cli.model_choice import ModelChoice
from flowloom.plugins import ModelOverride
from flowloom.testing import AutoModel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def chat(name: str) -> Chat:
    root = load_app(EXAMPLES / name).agent
    return Chat(root, plugins=ModelChoice(root, "offline", watched=False).plugins)


def calls(events: list[Event]) -> list[tuple[str | None, dict[str, Any] | None]]:
    return [
        (call.name, call.args)
        for event in events
        for call in event.get_function_calls()
        if call.name not in ("transfer_to_agent", "adk_request_confirmation")
    ]


def speakers(events: list[Event]) -> list[str]:
    return [event.author for event in events if event.text]


@pytest.mark.parametrize(
    ("message", "speaker", "expected"),
    [
        ("What is the weather in Lisbon in May?", "climate", [("get_climate", {"city": "Lisbon", "month": "May"})]),
        ("When is the best month to go to Athens?", "climate", [("get_climate", {"city": "Athens"})]),
        ("flights from oslo to paris", "flights", [("search_flights", {"origin": "Oslo", "destination": "Paris"})]),
        ("i need somewhere to sleep in tokyo", "hotels", [("search_hotels", {"city": "Tokyo"})]),
        (
            "Hotels in Lisbon with at least 4 stars",
            "hotels",
            [("search_hotels", {"city": "Lisbon", "min_stars": 4})],
        ),
        (
            "How much do 4 nights at Casa do Rio cost?",
            "hotels",
            [("price_stay", {"hotel": "Casa do Rio", "nights": 4})],
        ),
        (
            "How much is $250 in yen?",
            "currency",
            [("convert_currency", {"amount": 250, "from_currency": "USD", "to_currency": "yen"})],
        ),
        (
            "Do I need a visa for Japan? I am Brazilian",
            "visas",
            [("check_visa", {"nationality": "Brazilian", "destination": "Japan"})],
        ),
        ("hello", "travel_desk", []),
        ("asdf qwer", "travel_desk", []),
        ("What is the capital of Peru?", "travel_desk", []),
        ("Find me a flight to Lisbon", "flights", []),
    ],
)
async def test_the_desk_finds_the_specialist(
    message: str, speaker: str, expected: list[tuple[str, dict[str, Any]]]
) -> None:
    """Each question reaches the one that can answer it, with the arguments that were said."""
    events = await chat("travel_desk").say(message)
    assert calls(events) == expected
    assert speakers(events) == [speaker]


async def test_a_question_in_two_parts_goes_to_two_specialists() -> None:
    """The second part is handed on by the first specialist."""
    events = await chat("travel_desk").say("Find a flight from Oslo to Lisbon and a hotel there")
    assert speakers(events) == ["flights", "hotels"]
    assert calls(events)[1] == ("search_hotels", {"city": "Lisbon"})


async def test_a_booking_asks_first() -> None:
    """Nothing is booked before it was approved."""
    desk = chat("travel_desk")
    asked = pending(await desk.say("Book NL103 for Ann Lee"))
    assert "bookings" not in await desk.state()
    await desk.answer(*[approve(call) for call in asked])
    assert (await desk.state())["bookings"] == [
        {"reference": "TD001", "flight_number": "NL103", "passenger": "Ann Lee", "price_eur": 142}
    ]
    events = await desk.say("What did I book?")
    assert calls(events) == [("list_bookings", {})]


async def test_a_rejected_booking_is_not_made() -> None:
    """The answer says so."""
    desk = chat("travel_desk")
    asked = pending(await desk.say("Book NL103 for Ann Lee"))
    events = await desk.answer(*[approve(call, confirmed=False) for call in asked])
    assert "rejected" in events[-1].text
    assert "bookings" not in await desk.state()


async def test_a_booking_that_has_to_search_first() -> None:
    """What the search finds is what is booked, and what is missing is asked for."""
    desk = chat("travel_desk")
    events = await desk.say("Book the cheapest flight from Berlin to Rome")
    assert calls(events) == [("search_flights", {"origin": "Berlin", "destination": "Rome"})]
    assert "passenger" in events[-1].text
    events = await desk.say("Max Muster")
    assert calls(events)[-1] == ("book_flight", {"flight_number": "BE420", "passenger": "Max Muster"})


async def test_the_trip_planner_researches_and_then_writes() -> None:
    """Three scouts at the same time, then one writer who has their results."""
    desk = chat("travel_desk")
    events = await desk.say("Plan a trip from Oslo to Lisbon in May")
    names = speakers(events)
    assert set(names[:3]) == {"flight_scout", "hotel_scout", "climate_scout"}
    assert names[3:] == ["itinerary_writer"]
    assert all(found in events[-1].text for found in ("NL103", "Casa do Rio", "22 °C"))
    assert {"flight", "hotel", "climate"} <= set(await desk.state())


async def test_a_conversation_moves_between_specialists() -> None:
    """What was said before counts, and the conversation leaves a legal history."""
    desk = chat("travel_desk")
    await desk.say("What is the weather in Oslo in July?")
    assert calls(await desk.say("and in Rome?")) == [("get_climate", {"city": "Rome", "month": "July"})]
    assert speakers(await desk.say("convert 100 euros to dollars")) == ["currency"]
    assert speakers(await desk.say("tell me a joke")) == ["travel_desk"]
    assert not open_calls(await desk.stored())


async def test_several_names_make_several_calls() -> None:
    """A list of cities is looked up at once."""
    events = await chat("travel_desk").say("Compare the weather in Lisbon, Rome and Athens in October")
    assert [args["city"] for _, args in calls(events) if args] == ["Lisbon", "Rome", "Athens"]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("How many miles is 10 km?", "10 km is 6.21371 mile."),
        ("Convert 72 fahrenheit to celsius", "72 °F is 22.2222 °C."),
        ("how heavy is 12 stone in kg", "12 stone is 76.2035 kg."),
        ("5 kilometers in miles", "5 km is 3.10686 mile."),
    ],
)
async def test_the_unit_converter(message: str, answer: str) -> None:
    """One agent, the right tool of three."""
    events = await chat("unit_converter").say(message)
    assert events[-1].text == f"[offline] {answer}"


async def test_the_review_loop_ends_when_the_reviewer_approves() -> None:
    """A remark, a better draft, an approval."""
    loop = chat("review_loop")
    events = await loop.say("Write about lighthouses")
    assert speakers(events) == ["writer", "reviewer", "writer"]
    assert calls(events) == [("exit_loop", {})]
    assert (await loop.state())["draft"].startswith("[offline] Version 2")


async def test_every_agent_of_the_travel_desk_can_be_reached_and_every_tool_called() -> None:
    """By a model that takes every turn it can; booking waits for a person, so that is left out."""
    model = AutoModel(visit_agents=True, exclude=["book_flight"])
    root = load_app(EXAMPLES / "travel_desk").agent
    events = await Chat(root, plugins=[ModelOverride(model)]).say("Show me everything.")
    assert {root.name, *(agent.name for agent in root.sub_agents)} <= {*model.visited, "trip_planner"}
    assert model.visited[-1] == "itinerary_writer"
    called = {name for name, _ in calls(events)}
    assert called >= {"search_flights", "list_bookings", "search_hotels", "price_stay", "get_climate", "check_visa"}
    assert all(event.error_code is None for event in events)
