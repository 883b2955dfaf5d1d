"""A guide to a city: the model's own web search, or a function in its place.

With a key the model searches by itself; without one, the offline stand-in calls the function.
"""

from typing import Literal

from flowloom import LlmAgent
from flowloom.tools import ServerTool

PLACES = {
    "museum": "The museum is open from 9 to 17, and closed on Mondays.",
    "market": "The market is on the square, every Saturday from 7 to 13.",
    "harbour": "Boats leave the harbour every hour, the last one at 18.",
}


def look_up_place(place: Literal["museum", "market", "harbour"]) -> str:
    """Look up when a place is open: the museum, the market, or the harbour."""
    return PLACES[place]


root_agent = LlmAgent(
    name="city_guide",
    model="gemini-2.5-flash",
    description="Tells visitors what is open.",
    instruction="Answer from what you find, and say where it stands.",
    tools=[ServerTool("web_search").native_or(look_up_place)],
)
