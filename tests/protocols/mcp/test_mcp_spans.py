"""What is recorded of a server: connection, listing and call, a span each, and no secret in any."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from http_servers import served
from kit import Chat
from mcp_kit import Raw, asks
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flowloom import McpToolset
from flowloom.errors import ToolsetError
from flowloom.protocols.mcp import StreamableHTTPConnectionParams
from flowloom.testing import call

SECRET = "s3cret-0123456789-abc"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What the spans of a test are."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # first, since the SDK's own tracer would stay with the first provider that it meets
    monkeypatch.setattr("mcp.shared._otel._tracer", provider.get_tracer("mcp-python-sdk"))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def own(spans: InMemorySpanExporter, name: str) -> dict[str, Any]:
    """The attributes of the one span of that name."""
    (found,) = [span for span in spans.get_finished_spans() if span.name == name]
    return dict(found.attributes or {})


def parents(spans: InMemorySpanExporter, name: str) -> list[str]:
    """The names of the spans that the one of that name is in, the nearest first."""
    all_of_them: dict[int, ReadableSpan] = {
        span.context.span_id: span for span in spans.get_finished_spans() if span.context is not None
    }
    (found,) = [span for span in all_of_them.values() if span.name == name]
    names: list[str] = []
    while found.parent is not None and found.parent.span_id in all_of_them:
        found = all_of_them[found.parent.span_id]
        names.append(found.name)
    return names


async def test_connection_listing_and_call_have_a_span_each(spans: InMemorySpanExporter) -> None:
    """They name method, server, protocol and tool, and the session by a hash of its id alone."""
    with served() as http:
        toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(f"{http.url}?key={SECRET}"))
        chat = Chat(asks(toolset, call("who"), "ok"))
        await chat.say("go")
        await chat.runner.close()
    hashed = hashlib.sha256(b"session-0").hexdigest()[:16]
    server = {"server.address": http.url, "mcp.server.name": "raw", "mcp.session.id": hashed}
    version = own(spans, "mcp.connect")["mcp.protocol.version"]
    assert version.startswith("2025-")
    told = {**server, "mcp.protocol.version": version}
    assert own(spans, "mcp.connect") == {"mcp.method": "initialize", **told}
    assert own(spans, "tools/list") == {"mcp.method": "tools/list", "mcp.tools": 1, **told}
    assert own(spans, "tools/call who") == {"mcp.method": "tools/call", "mcp.tool": "who", **told}
    assert "execute_tool who" in parents(spans, "tools/call who")
    seen = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "session-0" not in seen
    assert SECRET not in seen


async def test_a_connection_that_fails_and_an_error_that_repeats_a_secret(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    """Their spans say what went wrong, and the secret is in no span, the SDK's included, and in no event."""
    raw = Raw(tmp_path, listing_error=f"{SECRET} is not known")
    chat = Chat(asks(raw.toolset(env={"API_KEY": SECRET}), "ok"))
    with pytest.raises(ToolsetError, match=r"\*{10} is not known"):
        await chat.say("go")
    await chat.runner.close()
    with served(status=500) as http:
        params = StreamableHTTPConnectionParams(http.url, headers={"X-Key": SECRET})
        chat = Chat(asks(McpToolset(connection_params=params), "ok"))
        with pytest.raises(ToolsetError):
            await chat.say("go")
        await chat.runner.close()
    failed = [span for span in spans.get_finished_spans() if span.name in ("tools/list", "mcp.connect")]
    assert [(span.name, dict(span.attributes or {}).get("error.type")) for span in failed] == [
        ("mcp.connect", None),
        ("tools/list", "McpProtocolError"),
        ("mcp.connect", "McpTransportError"),
    ]
    assert "HTTP 500" in (failed[-1].status.description or "")
    assert SECRET not in "".join(span.to_json() for span in spans.get_finished_spans())


async def test_the_trace_goes_out_with_each_request(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """`traceparent` in `_meta` leads to the call's span."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(), call("echo", text="x"), "ok"))
    await chat.say("go")
    await chat.runner.close()
    (sent,) = raw.received("tools/call")
    _, trace_id, span_id, _ = sent["params"]["_meta"]["traceparent"].split("-")
    (found,) = [
        span
        for span in spans.get_finished_spans()
        if span.context is not None and f"{span.context.span_id:016x}" == span_id
    ]
    assert found.context is not None
    assert f"{found.context.trace_id:032x}" == trace_id
    assert "tools/call echo" in parents(spans, found.name)


async def test_without_a_recorder_nothing_goes_out(tmp_path: Path) -> None:
    """No `traceparent` of a trace that does not exist."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(), call("echo", text="x"), "ok"))
    await chat.say("go")
    await chat.runner.close()
    assert "traceparent" not in json.dumps(raw.noted())
