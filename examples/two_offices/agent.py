"""A concierge of one office, and a forecaster of another one, which is served in a process of its own over A2A.

`python -m examples.two_offices.forecast` serves the forecaster; then `flowloom run examples/two_offices`.
"""

import os
from typing import Any

from flowloom import LlmAgent, RemoteA2aAgent

FORECASTER = os.environ.get("FORECASTER_URL", "http://127.0.0.1:8001")


def concierge_of(url: str) -> LlmAgent[Any]:
    """The concierge, with the forecaster that is served at `url`."""
    forecaster = RemoteA2aAgent("forecaster", url, description="Knows the weather of the coming days.", timeout=60)
    return LlmAgent(
        name="concierge",
        model="gemini-2.5-flash",
        description="Helps the guests of a hotel.",
        instruction="Help the guests. Hand over to the forecaster whoever asks about the weather.",
        sub_agents=[forecaster],
    )


root_agent = concierge_of(FORECASTER)
