"""A librarian whose tools are the operations of the library's REST API, as its OpenAPI document tells of them."""

import os
from pathlib import Path

from flowloom import LlmAgent, OpenAPIToolset

library = OpenAPIToolset(
    spec_path=Path(__file__).with_name("library.yaml"),
    server_variables={"port": os.environ.get("READING_ROOM_PORT", "8471")},
    credentials={"card": os.environ.get("READING_ROOM_CARD", "card-of-ann")},
    allow_private_network_access=True,  # because the service is on this machine
    require_confirmation="unsafe",  # a person approves what changes something
)

root_agent = LlmAgent(
    name="librarian",
    model="gemini-2.5-flash",
    description="Finds books, and lends them.",
    instruction="Find books with your tools, and lend one only if you are asked to.",
    tools=[library],
)
