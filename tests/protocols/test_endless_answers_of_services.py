"""Services whose answers have no end: of none is more read than a limit, and the error says so (protocols spec §0)."""

from __future__ import annotations

import json

import pytest
from a2a.server.tasks import InMemoryPushNotificationConfigStore
from a2a.types import (
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from auth.endless import ENOUGH, endless_server
from kit import Chat
from protocols.mcp.mcp_kit import asks

from flowloom import McpToolset, OpenAPIToolset, RemoteA2aAgent, ToolError
from flowloom.auth.bounded import MAX_BYTES
from flowloom.errors import ToolsetError
from flowloom.protocols.a2a import RemoteAgentError
from flowloom.protocols.a2a.push import StateNotifier
from flowloom.protocols.mcp import StreamableHTTPConnectionParams
from flowloom.protocols.mcp.discovery import discovered

LONG = f"more than {MAX_BYTES} bytes"


def served(base: str, endless: str, path: str) -> bytes | None:
    """What an MCP server and its authorization server say of themselves, but for the document `endless`."""
    documents = {
        "/.well-known/oauth-protected-resource": {"resource": f"{base}/mcp", "authorization_servers": [base]},
        "/.well-known/oauth-authorization-server": {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "registration_endpoint": f"{base}/register",
            "code_challenge_methods_supported": ["S256"],
        },
        "/register": {"client_id": "me"},
    }
    known = next((said for name, said in documents.items() if path.startswith(name)), {})
    return None if path.startswith(endless) else json.dumps(known).encode()


@pytest.mark.parametrize(
    "endless", ["/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/register"]
)
async def test_what_leads_to_an_mcp_servers_authorization_server_has_a_limit(endless: str) -> None:
    """Its own description, the authorization server's, and the answer to a registration."""
    async with endless_server(lambda path: served(server.url, endless, path)) as server:
        with pytest.raises(ToolError, match=LONG):
            await discovered(StreamableHTTPConnectionParams(f"{server.url}/mcp"), "Bearer", None, None)


@pytest.mark.parametrize(
    ("media", "why"), [("application/json", LONG), ("text/event-stream", "SSE stream ended without a response")]
)
async def test_an_mcp_servers_answer_has_a_limit(media: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as for servers that are processes; a stream breaks off."""
    monkeypatch.setattr("flowloom.protocols.mcp.http.MAX_MESSAGE_BYTES", MAX_BYTES)
    async with endless_server(media=media, piece=b" " * 65_536) as server:
        tools = McpToolset(connection_params=StreamableHTTPConnectionParams(f"{server.url}/mcp"))
        chat = Chat(asks(tools, "ok"))
        with pytest.raises(ToolsetError, match=why):
            await chat.say("go")
        await chat.runner.close()
    assert server.sent < ENOUGH


async def test_a_card_has_a_limit() -> None:
    """Of an endless card only its beginning is read."""
    async with endless_server() as server:
        chat = Chat(RemoteA2aAgent("weather", server.url))
        with pytest.raises(RemoteAgentError, match=LONG):
            await chat.say("a")
        await chat.runner.close()


def card_of(base: str, path: str, *, streams: bool) -> bytes | None:
    card = {
        "name": "weather",
        "version": "1",
        "description": "d",
        "skills": [],
        "capabilities": {"streaming": streams},
        "defaultInputModes": ["text"],
        "defaultOutputModes": ["text"],
        "supportedInterfaces": [{"url": f"{base}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    }
    return json.dumps(card).encode() if path.startswith("/.well-known") else None


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_remote_agents_answer_has_a_limit(streams: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer, and each event of a stream."""
    monkeypatch.setattr("flowloom.protocols.a2a.remote.MAX_ANSWER_BYTES", MAX_BYTES)
    media = "text/event-stream" if streams else "application/json"
    async with endless_server(
        lambda path: card_of(server.url, path, streams=streams), media=media, piece=b"data: " + b"x" * 65_536
    ) as server:
        chat = Chat(RemoteA2aAgent("weather", server.url))
        with pytest.raises(RemoteAgentError, match=LONG):
            await chat.say("a")
        await chat.runner.close()


async def test_the_answer_to_a_notification_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """Its status says all."""
    configs = InMemoryPushNotificationConfigStore()
    notifier = StateNotifier(configs, allow_private=True)
    async with endless_server() as server:
        config = TaskPushNotificationConfig(task_id="t", url=f"{server.url}/told", id="c")
        configs.get_info_for_dispatch = lambda _: _found(config)  # type: ignore[assignment,method-assign]
        status = TaskStatus(state=TaskState.TASK_STATE_WORKING)
        await notifier.send_notification("t", TaskStatusUpdateEvent(task_id="t", context_id="c", status=status))
        await notifier.close()
    assert server.sent < 8 * MAX_BYTES
    assert not caplog.records


async def _found(config: TaskPushNotificationConfig) -> list[TaskPushNotificationConfig]:
    return [config]


async def test_an_openapi_document_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer one is not taken for what its beginning says."""
    monkeypatch.setattr("flowloom.protocols.openapi.toolset.MAX_BODY_BYTES", MAX_BYTES)
    async with endless_server(piece=b"a: 1\n" * 1000) as server:
        tools = OpenAPIToolset(spec_path=f"{server.url}/openapi.json", allow_private_network_access=True)
        chat = Chat(asks(tools, "ok"))
        with pytest.raises(ToolsetError, match=LONG):
            await chat.say("go")
        await chat.runner.close()
