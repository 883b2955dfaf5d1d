"""The forecaster, for agents of other offices: `python -m examples.two_offices.forecast`."""

import uvicorn

from flowloom import LlmAgent
from flowloom.protocols.a2a import to_a2a

SKIES = {"Lisbon": "sunny, 24 degrees", "Oslo": "snow, -3 degrees"}


def forecast(city: str) -> str:
    """The weather of tomorrow in a city."""
    return f"Tomorrow in {city}: {SKIES.get(city, 'changeable')}."


forecaster = LlmAgent(
    name="forecaster",
    model="gemini-2.5-flash",
    description="Knows the weather of the coming days.",
    instruction="Look up the forecast, and say it in one sentence.",
    tools=[forecast],
)

if __name__ == "__main__":
    uvicorn.run(to_a2a(forecaster, host="127.0.0.1", port=8001), host="127.0.0.1", port=8001)
