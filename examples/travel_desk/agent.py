"""The agents of the desk, from the root down."""

from flowloom import FunctionTool, LlmAgent, ParallelAgent, SequentialAgent

from .tools.climate import get_climate
from .tools.currency import convert_currency
from .tools.flights import book_flight, list_bookings, search_flights
from .tools.hotels import price_stay, search_hotels
from .tools.visas import check_visa

flights = LlmAgent(
    name="flights",
    description="Finds flights and fares between cities, books seats, and shows what was booked.",
    instruction="Find flights, and book one when the traveller has chosen. Never book without the passenger's name.",
    tools=[search_flights, FunctionTool(book_flight, require_confirmation=True), list_bookings],
)

hotels = LlmAgent(
    name="hotels",
    description="Finds hotels: rooms and places to stay or sleep, accommodation, and what some nights cost.",
    instruction="Find a place to stay that fits the traveller's budget.",
    tools=[search_hotels, price_stay],
)

climate = LlmAgent(
    name="climate",
    description="Knows the weather of a city: temperature, sun and rain, how warm or cold it is, the best month to go.",
    instruction="Say what the weather is usually like, and what to pack for it.",
    tools=[get_climate],
)

currency = LlmAgent(
    name="currency",
    description="Converts money between currencies: exchange rates of euros, dollars, pounds, kroner and yen.",
    instruction="Convert amounts. Give the result first, then the rate.",
    tools=[convert_currency],
)

visas = LlmAgent(
    name="visas",
    description="Knows whether a passport needs a visa to enter a country, and how long one may stay.",
    instruction="Say whether the traveller needs a visa. Ask for the nationality if you do not know it.",
    tools=[check_visa],
)


def scout(topic: str, tool: object) -> LlmAgent:
    """A researcher that leaves what it found in the state, under its topic."""
    return LlmAgent(
        name=f"{topic}_scout",
        description=f"Looks up {topic} for a trip.",
        instruction=f"Look up {topic} for the trip the traveller describes. Report only what you found.",
        tools=[tool],
        output_key=topic,
    )


research = ParallelAgent(
    name="research",
    description="Looks up flights, hotels and climate at the same time.",
    sub_agents=[scout("flight", search_flights), scout("hotel", search_hotels), scout("climate", get_climate)],
)

itinerary_writer = LlmAgent(
    name="itinerary_writer",
    description="Writes the plan of a trip.",
    instruction="""Write a short plan of the trip from what the scouts found.

Flights: {flight?}
Hotels: {hotel?}
Climate: {climate?}""",
)

trip_planner = SequentialAgent(
    name="trip_planner",
    description="Plans a whole trip, holiday or vacation: an itinerary with flights, hotels and weather together.",
    sub_agents=[research, itinerary_writer],
)

root_agent = LlmAgent(
    name="travel_desk",
    model="gemini-2.5-flash",
    description="The front desk: welcomes travellers and finds the specialist for what they need.",
    instruction="Welcome the traveller and hand over to the specialist for the question. Do not answer it yourself.",
    sub_agents=[flights, hotels, climate, currency, visas, trip_planner],
)
