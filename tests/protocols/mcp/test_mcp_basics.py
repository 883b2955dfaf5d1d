"""A server's tools as an agent's: listed, called, closed."""

from __future__ import annotations

from pathlib import Path

from mcp_kit import Raw, is_alive, result_of


async def test_a_tool_of_a_server_is_called_like_a_function(tmp_path: Path) -> None:
    """Its arguments go over the wire as they are, and its text is the result."""
    raw = Raw(tmp_path)
    assert await result_of(raw.toolset(), "echo", text="héllo") == {"result": '{"text": "héllo"}'}
    (sent,) = raw.received("tools/call")
    assert sent["params"]["arguments"] == {"text": "héllo"}
    assert not is_alive(raw.pids[0])
