"""The example with a server tool runs without a provider."""

from __future__ import annotations

from pathlib import Path

from kit import Chat

from flowloom import LlmRequest
from flowloom.cli.loading import load_app
from flowloom.cli.model_choice import ModelChoice
from flowloom.tools import ServerTool

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "city_guide"


async def test_the_guide_looks_into_its_list_where_the_model_cannot_search() -> None:
    """The offline model has no provider: the function takes the place of the search."""
    root = load_app(EXAMPLE).agent
    events = await Chat(root, plugins=ModelChoice(root, "offline", watched=False).plugins).say(
        "Look up when the museum is open"
    )
    [call] = [call for event in events for call in event.get_function_calls()]
    assert call.name == "look_up_place"
    assert "closed on Mondays" in events[-1].text


def test_credentials_of_a_remote_server_are_in_no_text_of_a_request() -> None:
    """Neither in its form for people nor in its JSON."""
    request = LlmRequest.empty("m")
    ServerTool("remote_mcp", server_url="https://d.example", server_label="docs", authorization="hunter2").put_into(
        request
    )
    assert "hunter2" not in repr(request) + request.model_dump_json()
