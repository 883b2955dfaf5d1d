"""The server that MCP's own conformance suite asks: tools of ours, by the names and with the answers that it wants."""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import Any

from google.genai import types

from flowloom import ToolContext
from flowloom.protocols.mcp import to_mcp_server

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28)


def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


def test_image_content() -> types.Part:
    """Give a picture."""
    return types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png"))


def test_audio_content() -> types.Blob:
    """Give a sound."""
    return types.Blob(data=WAV, mime_type="audio/wav")


def test_embedded_resource() -> types.Blob:
    """Give a file."""
    told = b"This is an embedded resource content."
    return types.Blob(data=told, mime_type="text/plain", display_name="test://embedded-resource")


def test_multiple_content_types() -> list[Any]:
    """Give a text, a picture and a file."""
    data = b'{"test": "data", "value": 123}'
    return [
        "Multiple content types test:",
        types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png")),
        types.Blob(data=data, mime_type="application/json", display_name="test://mixed-content-resource"),
    ]


def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


async def test_tool_with_progress(tool_context: ToolContext) -> str:
    """Tell how far it is."""
    for done in (0, 50, 100):
        tool_context.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "Done."


def test_elicitation(message: str, tool_context: ToolContext) -> str:
    """Ask the person at the client."""
    schema = {
        "type": "object",
        "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
        "required": ["username", "email"],
    }
    given = tool_context.request_input(message, response_schema=schema)
    return f"User response: {given}"


TOOLS = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    test_elicitation,
]

if __name__ == "__main__":
    to_mcp_server(tools=TOOLS, name="conformance").run("streamable-http", port=int(sys.argv[1]))
