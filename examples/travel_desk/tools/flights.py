"""Flights: searching, booking, and what was booked."""

from typing import Any

from flowloom import ToolContext

from ..data import known_city, load


def search_flights(origin: str, destination: str, max_price_eur: float | None = None) -> dict[str, Any]:
    """Find flights between two cities, the cheapest first: fares, departure and arrival times.

    Args:
        origin: The city to fly from.
        destination: The city to fly to.
        max_price_eur: The most that the flight may cost, in euros.
    """
    origin, destination = known_city(origin), known_city(destination)
    found = [
        flight
        for flight in load("flights")
        if flight["origin"] == origin
        and flight["destination"] == destination
        and (max_price_eur is None or flight["price_eur"] <= max_price_eur)
    ]
    if not found:
        return {"message": f"There is no direct flight from {origin} to {destination} at that price.", "flights": []}
    return {"flights": sorted(found, key=lambda flight: flight["price_eur"])}


def book_flight(flight_number: str, passenger: str, tool_context: ToolContext) -> dict[str, Any]:
    """Book a seat on a flight. It is bought at once, so a person has to approve it.

    Args:
        flight_number: The number of the flight, such as NL101.
        passenger: Full name of the traveller.
    """
    flight = next((each for each in load("flights") if each["flight_number"] == flight_number.upper()), None)
    if flight is None:
        raise ValueError(f"There is no flight {flight_number!r}. Search for flights first.")
    bookings: list[dict[str, Any]] = tool_context.state.get("bookings", [])
    booking = {
        "reference": f"TD{len(bookings) + 1:03}",
        "flight_number": flight["flight_number"],
        "passenger": passenger,
        "price_eur": flight["price_eur"],
    }
    tool_context.state["bookings"] = [*bookings, booking]
    route = f"{flight['flight_number']} from {flight['origin']} to {flight['destination']}"
    return {"message": f"Booked {route} for {passenger}: {flight['price_eur']} EUR, reference {booking['reference']}."}


def list_bookings(tool_context: ToolContext) -> dict[str, Any]:
    """Show the bookings and reservations made so far in this conversation."""
    bookings = tool_context.state.get("bookings", [])
    return {"bookings": bookings} if bookings else {"message": "Nothing is booked yet."}
